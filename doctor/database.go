package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/server"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// Database says of the configured database what serve would find: a
// fault.Error where it would not start.
func Database(ctx context.Context, c config.Checked) (string, error) {
	text, _, err := inspect(ctx, c)
	if _, said := errors.AsType[*fault.Error](err); err == nil || said {
		return text, err
	}
	return "", server.OpenError(err)
}

// inspect is Database with the store's errors. It says too whether there is nothing in it yet,
// or none.
func inspect(ctx context.Context, c config.Checked) (text string, empty bool, err error) {
	if c.Postgres != "" {
		text, has, err := store.InspectURL(ctx, c.Postgres, c.Ring)
		if err = orMigrated(c, err); err == nil && has.Version > 0 && has.Works() != nil {
			text += fmt.Sprintf(", schema %d%s", has.Version, taken)
		}
		return text, err == nil && has.Version == 0 || errors.Is(err, store.ErrAbsent), err
	}
	info, err := store.Inspect(ctx, c.Path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrEmpty) {
		text, err := newDatabase(c.Path)
		return text, true, err
	}
	if err == nil {
		err = errors.Join(info.CheckKeys(c.Ring), orMigrated(c, info.CheckSchema()))
	}
	if err == nil {
		err = writable(c.Path)
	}
	if err != nil {
		return "", false, err
	}
	text = fmt.Sprintf("sqlite %s, schema %d", c.Path, info.Schema)
	if info.CheckSchema() != nil {
		text += taken
	}
	return text + ", " + terminal.Size(info.Bytes), false, nil
}

// taken is said of an older schema where database.auto_migrate lets serve start on it.
var taken = fmt.Sprintf(", is taken to %d at the start", store.SchemaVersion)

// orMigrated leaves out of what is the matter an older schema that a start takes forward.
func orMigrated(c config.Checked, err error) error {
	var schema *store.SchemaError
	if c.Database.AutoMigrate && errors.As(err, &schema) && schema.Older() {
		return nil
	}
	return err
}

// newDatabase says whether there can be one.
func newDatabase(path string) (string, error) {
	dir := folderOf(path)
	if info, err := os.Stat(dir); err != nil {
		return "", fault.CannotOpen("mkdir "+dir+", for the user who runs serve", "database: %v", err)
	} else if !info.IsDir() {
		return "", fault.CannotOpen("choose another database.url", "database: %s is not a folder", dir)
	}
	if err := writable(path); err != nil {
		return "", err
	}
	return "sqlite " + path + ", is made at the first start", nil
}

// folderOf is where the files of a database are, or will be: its path may be a link.
func folderOf(path string) string { return filepath.Dir(store.FilesOf(path)[0]) }

// toMakeFiles is what access(2) asks of a folder.
const toMakeFiles = unix.W_OK | unix.X_OK

// writable says why this user could not run a server on a database: it writes the files that
// are there, and makes others beside them. It touches nothing.
func writable(path string) error {
	for _, file := range store.FilesOf(path) {
		if err := unix.Access(file, unix.R_OK|unix.W_OK); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &fs.PathError{Op: "open", Path: file, Err: err}
		}
	}
	dir := folderOf(path)
	if err := unix.Access(dir, toMakeFiles); err != nil {
		return fault.CannotOpen("let the user who runs serve write in it, see that it is not read-only, or choose another database.url", "database: no files can be made in %s: %v", dir, err)
	}
	return nil
}

// examineRunning looks at the configured database beside what the server that answers says of
// it: a restart would need it, and the keys of the key file.
func examineRunning(ctx context.Context, c config.Checked) []Finding {
	ctx, cancel := context.WithTimeout(ctx, outsideWithin)
	defer cancel()
	text, empty, err := inspect(ctx, c)
	if empty {
		what := c.Path + " is not there, or empty"
		if c.Postgres != "" {
			what = text
		}
		if errors.Is(err, store.ErrAbsent) {
			what += " is not there"
		}
		return []Finding{failed("compare database.url with what the server was started with, before it is restarted",
			"%s: the server that answers works on another database, or somebody has removed it", what)}
	}
	_, folder := errors.AsType[*fault.Error](err)
	switch {
	case err == nil, folder, errors.Is(err, store.ErrSchema): // data-directory has the folder, and the server its schema
		return nil
	case errors.Is(err, fs.ErrPermission):
		return []Finding{warned("run doctor as the user who runs serve", "this user cannot work on the configured database, which was not examined whole: %v", err)}
	case errors.Is(err, store.ErrUnexamined):
		f := failedBy(server.OpenError(err)) // with what mends it, where the store knows
		return []Finding{warned(cmp.Or(f.Fix, "see that this machine reaches it"), "the configured database was not examined from here: %s", f.Text)}
	case ctx.Err() != nil:
		return []Finding{warned("see that this machine reaches it", "the configured database was not examined from here: %v", err)}
	}
	f := failedBy(server.OpenError(err))
	f.Text = "the server could not be restarted: " + f.Text
	return []Finding{f}
}
