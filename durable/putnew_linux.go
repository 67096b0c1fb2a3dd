package durable

import "golang.org/x/sys/unix"

// renameNew renames a file to a name that nobody has, in one step.
func renameNew(part, name string) error {
	return unix.Renameat2(unix.AT_FDCWD, part, unix.AT_FDCWD, name, unix.RENAME_NOREPLACE)
}
