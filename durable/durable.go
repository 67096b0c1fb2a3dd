// Package durable puts files where they are whole or not at all, and still there after the power
// has failed.
package durable

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// WriteNew writes a file that must not exist yet; its error is fs.ErrExist then. Where writing
// fails there is none: an empty one would be taken for one that was made.
func WriteNew(name string, mode fs.FileMode, content []byte) error {
	err := write(name, mode, content)
	if err == nil {
		_ = SyncFolder(filepath.Dir(name))
	}
	return err
}

// Replace puts a file in the place of the one that is there, if any: that one, or the whole
// new one, is there at any time.
func Replace(name string, mode fs.FileMode, content []byte) error {
	return WriteBeside(name, mode, content, os.Rename)
}

// WriteBeside writes a file beside its place, where put brings it once it is on disk, by
// os.Rename, or by PutNew if none may be there. None is left beside it.
func WriteBeside(name string, mode fs.FileMode, content []byte, put func(part, name string) error) error {
	part := name + "." + rand.Text()
	err := write(part, mode, content)
	if err == nil {
		err = put(part, name)
		os.Remove(part) // unless it is in its place
		_ = SyncFolder(filepath.Dir(name))
	}
	return err
}

// PutNew brings a whole file to a name that nobody has; it may keep the name that it has as well,
// which is for the caller to remove. Disks that several systems share, such as those with exFAT,
// know no second name of a file: it is renamed there, and where not even that can spare another
// one, the name is looked at before.
func PutNew(part, name string) error {
	err := link(part, name)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	again := rename(part, name)
	if errors.Is(again, syscall.EINVAL) || errors.Is(again, errors.ErrUnsupported) {
		if _, there := os.Lstat(name); errors.Is(there, fs.ErrNotExist) {
			again = os.Rename(part, name)
		} else if there == nil {
			again = fs.ErrExist
		}
	}
	if errors.Is(again, fs.ErrExist) {
		return &fs.PathError{Op: "rename", Path: name, Err: fs.ErrExist}
	} else if again != nil {
		return err // as the first way has it
	}
	return nil
}

// What PutNew tries. Tests have others.
var link, rename = os.Link, renameNew

func write(name string, mode fs.FileMode, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if err = f.Chmod(mode); err == nil { // whatever the umask is
		_, err = f.Write(content)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		os.Remove(name)
	}
	return err
}

// SyncFolder has the names in a folder stay there when the power fails: a key that has sealed
// tokens is not to be gone with it. What cannot be synchronized, as folders on some systems,
// stays without, and is no error.
func SyncFolder(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	err = synchronize(f)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

var synchronize = (*os.File).Sync // a test has another
