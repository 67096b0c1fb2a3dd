package devserver

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// In a folder of init dev changes nothing; in one of its own it goes on.
func TestDevRefusesAnInstallation(t *testing.T) {
	for _, of := range []string{"grantkeeper.toml", "operator.password"} {
		data := t.TempDir()
		if err := os.WriteFile(filepath.Join(data, of), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := devKey(t.Context(), data); fault.CodeOf(err) != fault.State {
			t.Errorf("%s: %v", of, err)
		}
		if left, err := os.ReadDir(data); len(left) != 1 || err != nil {
			t.Errorf("%s: it has left %v, %v", of, left, err)
		}
	}
	data := t.TempDir()
	for range 2 {
		if _, err := devKey(t.Context(), data); err != nil {
			t.Errorf("its own: %v", err)
		}
	}
}

// What stands at the place of its key and is none is refused, with what to do about dev.
func TestDevKeyThatIsNone(t *testing.T) {
	for what, makeIt := range map[string]func(name string) error{
		"a folder":                  func(name string) error { return os.Mkdir(name, 0o700) },
		"a link that leads nowhere": func(name string) error { return os.Symlink(name+".gone", name) },
		"something else":            func(name string) error { return os.WriteFile(name, []byte("short\n"), 0o600) },
	} {
		name := filepath.Join(t.TempDir(), "secret.key")
		if err := makeIt(name); err != nil {
			t.Fatal(err)
		}
		_, err := devKey(t.Context(), filepath.Dir(name))
		if e, ok := errors.AsType[*fault.Error](err); !ok || !strings.Contains(e.What, name) || !strings.Contains(e.Hint, "dev makes new ones") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A database that dev has not made is refused, whatever its name is, before anything is
// written; its own, also one in which nothing is yet, is taken.
func TestDevRefusesADatabaseOfOthers(t *testing.T) {
	people := func(s *store.Store) error { return s.AddDirectory(t.Context(), demoDirectory(""), store.Act{}) }
	ofDev := func(s *store.Store) error {
		d := &dev{options: Options{Empty: true}, clock: newDevClock()}
		return d.fillStore(t.Context(), s, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1})
	}
	for what, tt := range map[string]struct {
		name    string
		fill    func(*store.Store) error
		refused bool
	}{
		"an installation's":                  {"grantkeeper.db", people, true},
		"an installation's, of another name": {"production.sqlite", people, true},
		"one with clients alone": {"grantkeeper.db", func(s *store.Store) error {
			return s.SyncPreregistered(t.Context(), []client.Client{client.Desktop(nil)}, store.Act{})
		}, true},
		"an empty one":          {"grantkeeper.db", func(*store.Store) error { return nil }, false},
		"dev's own":             {"grantkeeper.db", ofDev, false},
		"a backup of dev's own": {"backup.db", ofDev, false},
	} {
		data := t.TempDir()
		key := filepath.Join(data, "secret.key")
		one, err := config.MakeKeys(key, 1)
		if err != nil {
			t.Fatal(err)
		}
		ring, err := token.NewRing("sv", 1, one)
		if err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(data, tt.name), Ring: ring})
		if err == nil {
			err = errors.Join(tt.fill(s), s.Close())
		}
		if err != nil {
			t.Fatal(what, err)
		}
		before, _ := os.ReadDir(data)
		_, err = devKey(t.Context(), data)
		if tt.refused && (fault.CodeOf(err) != fault.State || !strings.Contains(err.Error(), filepath.Join(data, tt.name)+" is a database that dev has not made")) || !tt.refused && err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if after, _ := os.ReadDir(data); len(after) != len(before) {
			t.Errorf("%s: there are %v, were %v", what, after, before)
		}
		if err := os.Remove(key); err != nil || tt.refused {
			continue
		}
		_, err = devKey(t.Context(), data) // a database that is there has a key already
		if _, there := os.Stat(key); (err == nil) != (there == nil) || (err == nil) == (what == "dev's own") {
			t.Errorf("%s, without its key: %v, a key is there: %v", what, err, there)
		}
	}
}
