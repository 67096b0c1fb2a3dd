package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/server"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// Database says of the configured database what serve would find: a
// fault.Error where it would not start.
func Database(ctx context.Context, c config.Checked) (string, error) {
	if c.Postgres != "" {
		text, _, err := store.InspectURL(ctx, c.Postgres, c.Ring)
		if err != nil {
			return "", server.OpenError(err)
		}
		return text, nil
	}
	info, err := store.Inspect(ctx, c.Path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrEmpty) {
		return newDatabase(c.Path)
	}
	if err == nil {
		err = errors.Join(info.CheckKeys(c.Ring), info.CheckSchema())
	}
	if err == nil {
		if err = syscall.Access(c.Path, 2); err != nil { // to write
			err = &fs.PathError{Op: "open", Path: c.Path, Err: err}
		}
	}
	if err != nil {
		return "", server.OpenError(err)
	}
	return fmt.Sprintf("sqlite %s, schema %d, %s", c.Path, info.Schema, terminal.Size(info.Bytes)), nil
}

// newDatabase says whether there can be one.
func newDatabase(path string) (string, error) {
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil {
		return "", fault.CannotOpen("mkdir "+dir+", for the user who runs serve", "database: %v", err)
	} else if !info.IsDir() {
		return "", fault.CannotOpen("choose another database.url", "database: %s is not a folder", dir)
	}
	if err := syscall.Access(dir, 2); err != nil {
		return "", server.Denied(&fs.PathError{Op: "open", Path: path, Err: err})
	}
	return "sqlite " + path + ", is made at the first start", nil
}
