package remote

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
)

// keyServer is the far end of AddKey: it takes what its key file has.
type keyServer struct {
	mu      sync.Mutex
	file    string
	taken   map[int]bool
	refuses int  // status of a reload; 0 takes the keys
	cuts    bool // takes them, and breaks off its answer
	early   bool // has read the file before it is asked to, as by SIGHUP
}

func (k *keyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.URL.Path == "/v1/keys" {
		items := []Key{}
		for n := range k.taken {
			items = append(items, Key{Number: n})
		}
		json.NewEncoder(w).Encode(map[string]any{"items": items})
		return
	}
	if k.refuses != 0 {
		w.WriteHeader(k.refuses)
		fmt.Fprint(w, `{"error":"key_file","error_description":"no"}`)
		return
	}
	keys, err := config.ReadKeys(k.file)
	if err != nil {
		panic(err)
	}
	added := []int{}
	for _, key := range keys {
		if !k.taken[key.Number] {
			k.taken[key.Number] = true
			added = append(added, key.Number)
		}
	}
	if k.cuts {
		panic(http.ErrAbortHandler)
	}
	if k.early {
		added = []int{}
	}
	json.NewEncoder(w).Encode(map[string]any{"added": added})
}

const oneKey = "# mine\n1:AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=\n"

// keyFile is a key file with one key, and a server that has it.
func keyFile(t *testing.T) (*keyServer, *Server, config.Checked) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret.key")
	if err := os.WriteFile(name, []byte(oneKey), 0o600); err != nil {
		t.Fatal(err)
	}
	far := &keyServer{file: name, taken: map[int]bool{1: true}}
	server := httptest.NewServer(far)
	t.Cleanup(server.Close)
	return far, &Server{Base: server.URL, HTTP: server.Client()}, config.Checked{Config: config.Config{SecretKeyFile: name}}
}

// What the server has taken is in the file, however many add at once.
func TestAddKeyAtOnce(t *testing.T) {
	far, server, c := keyFile(t)
	const several = 8
	var numbers sync.Map
	var wg sync.WaitGroup
	for range several {
		wg.Go(func() {
			n, err := AddKey(t.Context(), c, server, "")
			if err != nil {
				t.Error(err)
			}
			if _, twice := numbers.LoadOrStore(n, true); twice {
				t.Errorf("key %d was added twice", n)
			}
		})
	}
	wg.Wait()
	keys, err := config.ReadKeys(far.file)
	if err != nil || len(keys) != 1+several || len(far.taken) != 1+several {
		t.Fatalf("%d keys in the file, %d taken, %v", len(keys), len(far.taken), err)
	}
	for _, k := range keys {
		if !far.taken[k.Number] {
			t.Errorf("key %d was not taken", k.Number)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(far.file)); len(left) != 1 || err != nil {
		t.Errorf("it has left %v, %v", left, err)
	}
}

// A key that the server refuses is not left in the file; one that it may have is.
func TestAddKeyRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		far  *keyServer
		code int
		kept bool
	}{
		{"refused by state", &keyServer{refuses: 409}, fault.State, false},
		{"not understood", &keyServer{refuses: 400}, fault.Use, false},
		{"reads another file", &keyServer{early: true, file: "elsewhere"}, fault.State, false},
		{"its own fault", &keyServer{refuses: 500}, fault.Failed, true},
		{"breaks off", &keyServer{cuts: true}, fault.Reach, true},
		{"has read the file before", &keyServer{early: true}, 0, true},
	} {
		far, server, c := keyFile(t)
		far.refuses, far.cuts, far.early = tt.far.refuses, tt.far.cuts, tt.far.early
		if tt.far.file != "" {
			far.file = filepath.Join(t.TempDir(), tt.far.file)
			if err := os.WriteFile(far.file, []byte(oneKey), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := AddKey(t.Context(), c, server, "")
		text, read := os.ReadFile(c.SecretKeyFile)
		if fault.CodeOf(err) != tt.code || read != nil || (string(text) != oneKey) != tt.kept {
			t.Errorf("%s: %v; the file: %s %v", tt.name, err, text, read)
		}
		if tt.kept && err != nil && !strings.Contains(err.Error(), "key 2 stays in ") {
			t.Errorf("%s: it says %v", tt.name, err)
		}
	}
}
