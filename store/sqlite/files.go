package sqlite

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/schema"
)

// Others are the rights that nobody but its owner has on a database: it holds
// hashes of passwords and sessions, and whoever can read its files can lock them.
const Others = 0o077

// realPath is where a path leads, also where nothing is yet: what belongs to a database lies beside
// the file itself, whatever links lead to it.
func realPath(path string) string {
	if path == "" {
		return path // in memory
	}
	for range 40 {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real
		}
		to, err := os.Readlink(path)
		if err != nil {
			return path // no link, or whoever opens it says why
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return path
}

// suffixes are those of the files that belong to a database, and lie beside it.
var suffixes = []string{".lock", "-wal", "-shm", "-journal", besideSuffix, besideSuffix + "-wal", besideSuffix + "-journal"}

// FilesOf lists a database, where its path leads, and the files that belong to it, whether or
// not they are there.
func FilesOf(path string) []string {
	all := []string{realPath(path)}
	for _, suffix := range suffixes {
		all = append(all, all[0]+suffix)
	}
	return all
}

// DatabaseOf names the database that one of its files belongs to.
func DatabaseOf(file string) string {
	for _, suffix := range suffixes {
		file = strings.TrimSuffix(file, suffix)
	}
	return file
}

// refuseForeign refuses a file that is something else before anything is done to it.
func refuseForeign(path string) error {
	const start = "SQLite format 3\x00"
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // a FIFO keeps whoever opens it waiting
		return fmt.Errorf("database: %s: %w: it is not a regular file", path, schema.ErrForeign)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil // whoever opens it to write says why
	}
	defer f.Close()
	begins := make([]byte, len(start))
	if n, err := io.ReadFull(f, begins); n > 0 && (err != nil || string(begins) != start) {
		return fmt.Errorf("database: %s: %w", path, schema.ErrForeign)
	}
	return nil
}

// refuseParted refuses a log of writes without its database: SQLite would empty it, or put what
// was written last, which is in it alone, into another database.
func refuseParted(path string) error {
	// The log first: whoever begins one has written before that the database has it.
	if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > 0 && !hasLog(path) {
		return fmt.Errorf("database: %s-wal: %w", path, engine.ErrParted)
	}
	return nil
}

// restoring is behind the name of what a restore makes, until it is the database.
const restoring = ".restoring"

// refuseRestoring refuses the place of a database that a restore has not finished: a server
// that a machine starts by itself would make an empty one there, and answer everybody by it.
func refuseRestoring(path string) error {
	if info, err := os.Stat(path); err == nil && info.Size() > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Lstat(path + restoring); err != nil {
		return nil
	}
	return fmt.Errorf("database: %s: %w", path+restoring, engine.ErrRestoring)
}

// hasLog is whether a database is one with a log of writes, by its first page. A backup is
// none, nor is a copy that was not opened yet.
func hasLog(path string) bool {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return true // whoever opens it to write says why
	}
	defer f.Close()
	version := make([]byte, 1)
	_, err = f.ReadAt(version, 18) // SQLite file format, section 1.3
	return err == nil && version[0] == 2 || err != nil && !errors.Is(err, io.EOF)
}

// closeToOthers makes the files of a database their owner's alone, whatever the
// umask is, before SQLite makes those that are missing. Of one that was there it
// takes others' rights away, and says so; where it may not, it says that.
func closeToOthers(path string, log *slog.Logger) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("database: cannot open %s: %w", path, err)
	}
	defer f.Close()
	if was, err := narrow(f); err != nil {
		log.Warn("others may open the database, and its mode cannot be changed", "file", path, "err", err)
	} else if was&Others != 0 {
		log.Warn("others could open the database; it is its owner's alone now", "file", path, "mode", fmt.Sprintf("%04o", was))
	}
	return closeIndex(path)
}

// closeIndex makes the index of a database's log, which is of the database's
// owner and mode from then on: SQLite would make it by the umask. The log itself,
// and a journal, get the mode of the file that fileURL names.
func closeIndex(path string) error {
	index, err := os.OpenFile(path+"-shm", os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if errors.Is(err, fs.ErrPermission) {
		return nil // another user's, who works on it or has to
	} else if err != nil {
		return fmt.Errorf("database: cannot open %s: %w", path+"-shm", err)
	}
	defer index.Close()
	if info, err := os.Stat(path); err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			_ = index.Chown(int(stat.Uid), int(stat.Gid)) // where root makes it
		}
	}
	_, _ = narrow(index) // nobody else's rights say anything about what is in it
	return nil
}

// narrow takes others' rights on a file away, and gives the mode that it had.
func narrow(f *os.File) (was os.FileMode, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if was = info.Mode().Perm(); was&Others == 0 {
		return was, nil
	}
	return was, f.Chmod(was &^ Others)
}

// FileURL names a file for SQLite with settings. What SQLite makes beside one
// that it writes gets that file's mode: a log or journal holds what it does.
func FileURL(path string, settings url.Values) string {
	settings.Set("vfs", checkedVFS)
	if settings.Get("mode") != "ro" {
		settings.Set("modeof", path)
	}
	query := strings.ReplaceAll(settings.Encode(), "+", "%20") // SQLite takes a plus sign as it is
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: query}).String()
}
