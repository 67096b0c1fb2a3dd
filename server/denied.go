package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/store"
)

// Denied says of a database that this user may not open whose it is.
func Denied(err error) error {
	var at *fs.PathError
	if !errors.As(err, &at) {
		return fault.CannotOpen("run as the user who owns it", "%v", err)
	}
	name := store.DatabaseOf(at.Path)
	dir := filepath.Dir(name)
	if _, err := os.Lstat(at.Path); err == nil && ownerOf(at.Path) != ownerOf(dir) { // as after a restore as root
		return fault.CannotOpen(fmt.Sprintf("As root: chown -R %s %s", ownerOf(dir), dir),
			"database: cannot open %s: permission denied: it belongs to '%s', its folder to '%s'", at.Path, ownerOf(at.Path), ownerOf(dir))
	}
	hint := fmt.Sprintf("Run as the user '%s', or: chown -R %s %s", ownerOf(dir), SystemUser(), dir)
	if ownerOf(dir) == SystemUser() { // who has taken the right away from themselves
		hint = "chmod -R u+rwX " + dir
	}
	return fault.CannotOpen(hint, "database: cannot open %s: permission denied", name)
}

// ownerOf is whose a file or folder is, by the machine's name for them.
func ownerOf(name string) string {
	info, err := os.Stat(name)
	if err != nil {
		return "root"
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "root"
	}
	id := strconv.Itoa(int(stat.Uid))
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}

// SystemUser is who runs the command, by the machine's name for them.
func SystemUser() string {
	u, err := user.Current()
	if err != nil {
		return fmt.Sprintf("uid %d", os.Getuid())
	}
	return u.Username
}
