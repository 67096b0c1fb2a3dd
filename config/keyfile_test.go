package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

func hintOf(err error) string {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return e.Hint
	}
	return ""
}

// A key file is changed by another one in its folder: its owner alone is not who may do so.
func TestKeysInAFolderOfAnother(t *testing.T) {
	for err, want := range map[error]string{
		syscall.EACCES: "run it as a user who may write in its folder", syscall.EROFS: "run it where its folder is not read-only",
		errKeysLocked: "let that one end, and repeat it", syscall.EIO: "", syscall.EEXIST: "",
	} {
		if got := mendKeys(&os.PathError{Op: "open", Path: "secret.key.lock", Err: err}); got != want {
			t.Errorf("%v: %s", err, got)
		}
	}
	if _, err := MakeKeys(filepath.Join(t.TempDir(), "none", "secret.key"), 1); hintOf(err) != "make its folder" {
		t.Errorf("%v, %s", err, hintOf(err))
	}
}

// A new key file is there whole, its owner's alone and never over another one, or not at all.
func TestMakeKeys(t *testing.T) {
	disk, err := pgtest.NewDisk(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Unmount(); err != nil {
			t.Error(err)
		}
	})
	name := filepath.Join(disk.Dir(), "secret.key")
	if err := disk.Fill(); err != nil {
		t.Fatal(err)
	}
	if _, err := MakeKeys(name, 2); fault.CodeOf(err) != fault.Reach || !strings.Contains(hintOf(err), "make room") {
		t.Errorf("on a full disk: %v, %s", err, hintOf(err))
	}
	if err := disk.Free(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(disk.Dir()); len(left) > 0 || err != nil {
		t.Errorf("it has left %v, %v", left, err)
	}
	made, err := MakeKeys(name, 2)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		keys, err := ReadKeys(name)
		if err != nil || len(keys) != 1 || keys[0].Number != 2 || keys[0].Fingerprint() != made.Fingerprint() {
			t.Errorf("%+v, %v", keys, err)
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		if _, err := MakeKeys(name, 3); fault.CodeOf(err) != fault.Reach {
			t.Errorf("over another one: %v", err)
		}
	}
	if left, err := os.ReadDir(disk.Dir()); len(left) != 1 || err != nil {
		t.Errorf("it has left %v, %v", left, err)
	}
}

// Where the key file is gone, a new one would open nothing of what there is.
func TestEditKeysOfNoFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "secret.key")
	err := EditKeys(t.Context(), name, func([]NumberedKey) ([]NumberedKey, error) { return nil, errors.New("edited") }, nil)
	if text, code := refused(t, err); code != fault.Config || !strings.Contains(text, "there is no file "+name) || !strings.Contains(text, "keys replace-lost") {
		t.Errorf("code %d, %s", code, text)
	}
	if left, err := os.ReadDir(filepath.Dir(name)); len(left) > 0 || err != nil {
		t.Errorf("it has left %v, %v", left, err)
	}
}
