package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

// What cannot be written in the place of a file leaves that file, and nothing beside it.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	file, taken := filepath.Join(dir, "file"), filepath.Join(dir, "taken")
	if err := errors.Join(os.WriteFile(file, []byte("old"), 0o644), os.MkdirAll(filepath.Join(taken, "more"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := Replace(taken, 0o600, []byte("new")); err == nil {
		t.Error("a folder was written over")
	}
	if err := Replace(file, 0o600, []byte("new")); err != nil {
		t.Error(err)
	}
	text, _ := os.ReadFile(file)
	info, err := os.Stat(file)
	if err != nil || string(text) != "new" || info.Mode() != 0o600 {
		t.Errorf("%q, %v, %v", text, info, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("there are %v, %v", left, err)
	}

	disk, err := pgtest.NewDisk(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Unmount()
	full := filepath.Join(disk.Dir(), "file")
	if err := errors.Join(os.WriteFile(full, []byte("old"), 0o644), disk.Fill()); err != nil {
		t.Fatal(err)
	}
	err = Replace(full, 0o600, make([]byte, 64<<10))
	if text, _ := os.ReadFile(full); err == nil || string(text) != "old" {
		t.Errorf("on a full disk %q is left, %v", text, err)
	}
	if err := WriteNew(full+"2", 0o600, make([]byte, 64<<10)); err == nil {
		t.Error("written on a full disk")
	}
	if _, err := os.Lstat(full + "2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("on a full disk something is left, %v", err)
	}
}

// What is written is in its folder for good: its name is brought to the disk once the whole file
// has it, and nothing else is there.
func TestFilesOutliveThePower(t *testing.T) {
	defer func(was func(*os.File) error) { synchronize = was }(synchronize)
	dir := t.TempDir()
	for name, put := range map[string]func(name string) error{
		"new":    func(name string) error { return WriteNew(name, 0o600, []byte("text")) },
		"anew":   func(name string) error { return Replace(name, 0o600, []byte("text")) },
		"linked": func(name string) error { return WriteBeside(name, 0o600, []byte("text"), PutNew) },
	} {
		at, synced := filepath.Join(dir, name), ""
		synchronize = func(folder *os.File) error {
			all, err := folder.ReadDir(-1)
			if err != nil {
				t.Error(err)
			}
			synced = folder.Name()
			for _, f := range all {
				synced += " " + f.Name()
			}
			text, _ := os.ReadFile(at)
			synced += " " + string(text)
			return nil
		}
		if err := put(at); err != nil {
			t.Error(name, err)
		}
		if want := dir + " " + name + " text"; synced != want {
			t.Errorf("%s: last was synchronized %q, want %q", name, synced, want)
		}
		os.Remove(at)
	}
}

// A file that is there is not written over by one that must be new, and nothing is left beside it.
func TestNotWrittenOver(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, write := range []func() error{
		func() error { return WriteNew(name, 0o600, []byte("new")) },
		func() error { return WriteBeside(name, 0o600, []byte("new"), PutNew) },
	} {
		if err := write(); !errors.Is(err, fs.ErrExist) {
			t.Error(err)
		}
		text, err := os.ReadFile(name)
		if left, _ := os.ReadDir(filepath.Dir(name)); string(text) != "old" || len(left) != 1 {
			t.Errorf("it has %q, %v, beside %v", text, err, left)
		}
	}
}

// A folder that is not there is an error, and one that the system does not synchronize is none.
func TestSyncFolder(t *testing.T) {
	defer func(was func(*os.File) error) { synchronize = was }(synchronize)
	dir := t.TempDir()
	if err := SyncFolder(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for _, c := range []struct {
		says error
		told bool
	}{{nil, false}, {syscall.EINVAL, false}, {errors.ErrUnsupported, false}, {syscall.EPERM, false}, {syscall.EIO, true}} {
		var of *os.File
		synchronize = func(f *os.File) error {
			of = f
			if c.says != nil {
				return &fs.PathError{Op: "sync", Path: dir, Err: c.says}
			}
			return nil
		}
		if err := SyncFolder(dir); (err != nil) != c.told || c.told && !errors.Is(err, c.says) {
			t.Errorf("%v: %v", c.says, err)
		}
		if _, err := of.Stat(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%v: the folder is open still, %v", c.says, err)
		}
	}
}

// A whole file comes to a name that nobody has, also where a file has no second name, as on exFAT,
// and where a rename cannot spare another file; over one that is there it never comes.
func TestPutNew(t *testing.T) {
	defer func(a, b func(string, string) error) { link, rename = a, b }(link, rename)
	refuses := func(err error) func(string, string) error { return func(string, string) error { return err } }
	for what, ways := range map[string][2]func(string, string) error{
		"links":         {link, refuses(errors.New("not asked"))},
		"no links":      {refuses(&os.LinkError{Op: "link", Err: syscall.EPERM}), rename},
		"neither":       {refuses(syscall.EOPNOTSUPP), refuses(syscall.EINVAL)},
		"another Unix":  {refuses(syscall.EPERM), refuses(errors.ErrUnsupported)},
		"a full folder": {refuses(syscall.ENOSPC), refuses(syscall.ENOSPC)},
	} {
		link, rename = ways[0], ways[1]
		dir := t.TempDir()
		part, name := filepath.Join(dir, "part"), filepath.Join(dir, "name")
		for _, text := range []string{"one", "another"} {
			if err := os.WriteFile(part, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			err := PutNew(part, name)
			os.Remove(part) // the same file, where it was linked
			switch {
			case what == "a full folder":
				if !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("%s: %v", what, err)
				}
				continue
			case text == "one" && err != nil, text == "another" && !errors.Is(err, os.ErrExist):
				t.Errorf("%s, %s: %v", what, text, err)
			}
			if b, err := os.ReadFile(name); string(b) != "one" || err != nil {
				t.Errorf("%s, %s: it has %q, %v", what, text, b, err)
			}
		}
	}
}
