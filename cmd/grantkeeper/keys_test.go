package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/demo"
	"github.com/grantkeeper/grantkeeper/devserver"
	"github.com/grantkeeper/grantkeeper/remote"
)

// withKeyFile starts a server whose key file is known.
func withKeyFile(t *testing.T) (running, *remote.Server, config.Checked) {
	t.Helper()
	data := t.TempDir()
	dev := startDev(t, devserver.Options{Data: data})
	return dev, &remote.Server{Base: dev.Operator, Password: remote.DevPassword, HTTP: http.DefaultClient},
		config.Checked{Config: config.Config{SecretKeyFile: filepath.Join(data, "secret.key")}}
}

// Keys are added, rotated and retired on a running server while clients
// refresh and call: no request fails (decision T11).
func TestRotationWhileClientsRefresh(t *testing.T) {
	t.Parallel()
	dev, server, installation := withKeyFile(t)
	var stop atomic.Bool
	var wg sync.WaitGroup
	var refreshed [4]atomic.Int64
	var clients []*demo.Client
	for i := range refreshed {
		d, _ := connected(t, dev, "ada@nordlys.example")
		clients = append(clients, d)
		wg.Go(func() {
			for n := 0; !stop.Load(); n++ {
				if n == 70 { // the contract lets one address refresh 300 times
					t.Error("keys were not exchanged within 70 refreshes")
					return
				}
				if _, err := d.Refresh(t.Context()); err != nil {
					t.Errorf("refresh: %v", err)
					return
				}
				if _, err := d.Call(t.Context()); err != nil {
					t.Errorf("call: %v", err)
					return
				}
				refreshed[i].Add(1)
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	all := func() { // every client has refreshed once more, begun after now
		for i := range refreshed {
			for from := refreshed[i].Load(); refreshed[i].Load() < from+2 && !t.Failed(); {
				time.Sleep(time.Millisecond)
			}
		}
	}
	for number := 2; number <= 4; number++ {
		if got, err := remote.AddKey(t.Context(), installation, server, "drill"); got != number || err != nil {
			t.Fatalf("added key %d, %v", got, err)
		}
		var sealing, retired remote.Key
		if err := server.Do(t.Context(), "POST", "/v1/keys/rotate", nil, map[string]string{}, &sealing); err != nil || sealing.Number != number {
			t.Fatalf("rotated to %+v, %v", sealing, err)
		}
		all()
		if err := server.Do(t.Context(), "POST", "/v1/keys/"+string(rune('0'+number-1))+"/retire", nil, map[string]string{}, &retired); err != nil || retired.Ended == nil || *retired.Ended != 0 {
			t.Fatalf("retired %+v, %v", retired, err)
		}
	}
	all()
	stop.Store(true)
	wg.Wait()
	keys, err := server.Keys(t.Context())
	if err != nil || len(keys) != 4 || keys[3].State != "seals" || keys[3].Approvals != len(clients) || keys[2].State != "retired" {
		t.Errorf("%+v %v", keys, err)
	}
	for _, d := range clients { // theft is noticed as ever
		if _, err := d.Reuse(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// Before it asks, retire says which backups need the key: nothing keeps a copy
// of one. The oldest key that stays is what a backup must have otherwise.
func TestRetireSaysToKeepACopy(t *testing.T) {
	t.Parallel()
	dev, server, installation := withKeyFile(t)
	retire := func(number string, more ...string) (said string, code int) {
		var stdout, stderr strings.Builder
		code = runOn(strings.NewReader(""), append([]string{"keys", "retire", number, "--operator", dev.Operator,
			"--password-file", write(t, "password", remote.DevPassword, 0o600)}, more...), &stdout, &stderr)
		return stderr.String(), code
	}
	for range 2 {
		if _, err := remote.AddKey(t.Context(), installation, server, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.Do(t.Context(), "POST", "/v1/keys/rotate", nil, map[string]string{}, &remote.Key{}); err != nil {
		t.Fatal(err)
	}
	const copies = "Backups made before key %d was added cannot be restored without key %d, on PostgreSQL none made before now: keep a copy of it as long as them.\n"
	if said, code := retire("1"); code != 2 || !strings.HasPrefix(said, fmt.Sprintf(copies, 2, 1)+"Retire key 1 and end ") {
		t.Errorf("with nobody to answer: %d %s", code, said)
	}
	if said, code := retire("2", "--yes"); code != 0 || strings.Contains(said, "Backups") {
		t.Errorf("unasked: %d %s", code, said)
	}
	if said, code := retire("2"); code != 2 || strings.Contains(said, "Backups") {
		t.Errorf("again: %d %s", code, said)
	}
	if said, code := retire("1"); code != 2 || !strings.HasPrefix(said, fmt.Sprintf(copies, 3, 1)) {
		t.Errorf("beside a retired one: %d %s", code, said)
	}
}

func TestEditKeysKeepsModeAndSecrets(t *testing.T) {
	name := write(t, "secret.key", "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=\n", 0o400)
	before, err := config.ReadKeys(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := config.EditKeys(t.Context(), name, func(k []config.NumberedKey) ([]config.NumberedKey, error) {
		return append(k, config.NumberedKey{Number: 2, Secret: [32]byte{1, 2}}), nil
	}, nil); err != nil {
		t.Fatal(err)
	}
	after, err := config.ReadKeys(name)
	if err != nil || len(after) != 2 || after[0].Fingerprint() != before[0].Fingerprint() || after[1].Number != 2 {
		t.Errorf("%v %v", after, err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("%v %v", info, err)
	}
	left, err := filepath.Glob(filepath.Dir(name) + "/*")
	if err != nil || len(left) != 1 {
		t.Errorf("%v %v", left, err)
	}
}

// Who has lost the key file is led to a way that goes on, and never back to where they were.
func TestReplaceLostSaysWhatToDo(t *testing.T) {
	dir, _ := migrating(t)
	key := filepath.Join(dir, "secret.key")
	for _, tt := range []struct {
		what, says string
		make       func() error
	}{
		{"cut off", "move this one away: grantkeeper keys replace-lost", func() error { return os.WriteFile(key, []byte("abc"), 0o600) }},
		{"a link to nothing", "mend that link; or remove it", func() error { return errors.Join(os.Remove(key), os.Symlink(filepath.Join(dir, "none", "key"), key)) }},
		{"gone", "Key 1 is lost.", func() error { return os.Remove(key) }},
	} {
		if err := tt.make(); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if run([]string{"keys", "replace-lost", "--dry-run", "-c", filepath.Join(dir, "grantkeeper.toml")}, &out, &out); !strings.Contains(out.String(), tt.says) {
			t.Errorf("%s: %s", tt.what, out.String())
		}
	}
}
