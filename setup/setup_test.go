package setup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
)

// refusedBy is what a refusal says, with what to do.
func refusedBy(t *testing.T, err error, code int) string {
	t.Helper()
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Code != code {
		t.Fatalf("got %v, want exit code %d", err, code)
	}
	return e.What + "\n" + e.Hint
}

// notAFile makes of a name what is there and cannot be read as a file.
var notAFile = map[string]func(name string) error{
	"a folder":                    func(name string) error { return os.Mkdir(name, 0o700) },
	"a link that leads nowhere":   func(name string) error { return os.Symlink(name+".gone", name) },
	"a file that others may read": func(name string) error { return os.WriteFile(name, []byte(strings.Repeat("0f1e2d3c", 8)), 0o644) },
	"something else":              func(name string) error { return os.WriteFile(name, []byte("short\n"), 0o600) },
}

// A secret key that stays is one that serve can read; else nothing is written over.
func TestInitKeepsNoBrokenKey(t *testing.T) {
	for what, makeIt := range notAFile {
		o := Options{Dir: t.TempDir(), BaseURL: "https://app.example", Force: true}
		key := filepath.Join(o.Dir, "secret.key")
		if err := makeIt(key); err != nil {
			t.Fatal(err)
		}
		_, err := o.Write()
		if said := refusedBy(t, err, fault.Config); !strings.Contains(said, key) || strings.Contains(said, "grantkeeper init") {
			t.Errorf("%s: %s", what, said)
		}
		if left, err := os.ReadDir(o.Dir); err != nil || len(left) != 1 {
			t.Errorf("%s: there are %v, %v", what, left, err)
		}
	}
	o := Options{Dir: t.TempDir(), BaseURL: "https://app.example", Force: true}
	for _, kept := range []bool{false, true} {
		if w, err := o.Write(); err != nil || w.KeyKept != kept {
			t.Errorf("kept %v, %v, want %v", w.KeyKept, err, kept)
		}
	}
}

// Where a name cannot be looked at, nobody knows that something is there.
func TestInitWhereItCannotLook(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, force := range []bool{false, true} {
		o := Options{Dir: dir, Config: filepath.Join(file, "grantkeeper.toml"), BaseURL: "https://app.example", Force: force}
		_, err := o.Write()
		if said := refusedBy(t, err, fault.Reach); strings.Contains(said, "is there already") || !strings.Contains(said, "not a directory") {
			t.Error(said)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("there are %v, %v", left, err)
		}
	}
}

// A key for the service that cannot be made leaves nothing that stands in the way of another init,
// and one that is made is told of.
func TestInitWithoutPlaceForTheServiceKey(t *testing.T) {
	dir := t.TempDir()
	o := Options{Dir: dir, BaseURL: "https://app.example", Behind: Behind{Upstream: "http://127.0.0.1:9000", KeyFile: filepath.Join(dir, "none", "gk.key")}}
	_, err := o.Write()
	if said := refusedBy(t, err, fault.Reach); !strings.Contains(said, "--key-file: ") || strings.HasSuffix(said, "\n") {
		t.Error(said)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("there are %v, %v", left, err)
	}
	o.Behind.KeyFile = filepath.Join(dir, "gk.key")
	if w, err := o.Write(); err != nil || w.ServiceKey != o.Behind.KeyFile || !strings.Contains(w.String(), o.Behind.KeyFile+" ") {
		t.Errorf("%s, %v", w, err)
	}
}

// What stands at the place of --key-file is a key, or it is refused: by init before it
// writes anything.
func TestKeyFileThatIsNone(t *testing.T) {
	for what, makeIt := range notAFile {
		dir := t.TempDir()
		key := filepath.Join(dir, "gk.key")
		if err := makeIt(key); err != nil {
			t.Fatal(err)
		}
		if said := refusedBy(t, makeKey(key), fault.Use); !strings.Contains(said, "--key-file: ") {
			t.Errorf("%s: %s", what, said)
		}
		o := Options{Dir: filepath.Join(dir, "new"), BaseURL: "https://app.example", Behind: Behind{Upstream: "http://127.0.0.1:9000", KeyFile: key}}
		_, err := o.Write()
		refusedBy(t, err, fault.Use)
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("%s: there are %v, %v", what, left, err)
		}
	}
	key := filepath.Join(t.TempDir(), "gk.key")
	var is [2]string
	for i := range is {
		err := makeKey(key)
		text, _ := os.ReadFile(key)
		if is[i] = string(text); err != nil || is[i] == "" || is[i] != is[0] {
			t.Errorf("%q, %v", is, err)
		}
	}
}

// What init writes, serve can start with: also where the base URL has the operators' port.
func TestInitLeavesNoPortForTwo(t *testing.T) {
	for base, want := range map[string]string{"https://app.example": "127.0.0.1:8081", "http://127.0.0.1:8081": "127.0.0.1:8082", "http://127.0.0.1:80": "127.0.0.1:8081"} {
		w, err := (&Options{Dir: t.TempDir(), BaseURL: base}).Write()
		if err != nil {
			t.Fatal(err)
		}
		l, err := config.Load(w.Config, nil, nil)
		if err == nil {
			_, err = l.Check()
		}
		if err != nil || l.Operator.Listen != want {
			t.Errorf("%s: operators at %s, %v; want %s", base, l.Operator.Listen, err, want)
		}
	}
}

// A full disk is not mended by another user.
func TestElsewhere(t *testing.T) {
	for err, want := range map[error]string{
		syscall.ENOSPC: "make room there, or choose another place: --dir", syscall.EROFS: "choose a place that is not read-only: --dir", syscall.EACCES: another,
	} {
		if got := elsewhere(&os.PathError{Op: "write", Path: "secret.key", Err: err}); got != want {
			t.Errorf("%v: %s", err, got)
		}
	}
}
