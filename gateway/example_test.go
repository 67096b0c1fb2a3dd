package gateway

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The program of docs/integrating.md tells an event, and says why one is
// refused.
func TestExampleInPython(t *testing.T) {
	h := newTeller(t)
	h.Seconds.Store(time.Now().Unix()) // what the program signs with
	server := httptest.NewServer(h.handler)
	defer server.Close()
	key := filepath.Join(t.TempDir(), "directory.key")
	if err := os.WriteFile(key, []byte(tells+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tell := func(event string) (stdout, stderr string, err error) {
		var out, errOut strings.Builder
		c := exec.Command("python3", "../docs/examples/directory.py", key, server.URL)
		c.Stdin, c.Stdout, c.Stderr = strings.NewReader(event), &out, &errOut
		err = c.Run()
		return out.String(), errOut.String(), err
	}
	const event = `{"id": "evt-1842", "version": 1842, "kind": "membership_removed",
		"object": {"organization": "nordlys", "person": "tor"}}`
	for range 2 {
		stdout, stderr, err := tell(event)
		if err != nil || stdout != `{"id":"evt-1842","result":"applied"}`+"\n" {
			t.Fatalf("%v: %s%s", err, stdout, stderr)
		}
	}
	if _, err := h.store.Member(context.Background(), "tor", "nordlys"); err == nil {
		t.Error("he is a member still")
	}
	stdout, _, err := tell(strings.Replace(event, "1842", "1843", 1)) // its ID, and not its version
	if err != nil || stdout != `{"id":"evt-1843","result":"ignored","reason":"old_version"}`+"\n" {
		t.Errorf("an old version: %v %s", err, stdout)
	}
	if _, stderr, err := tell(`{"id": "x"}`); err == nil || !strings.Contains(stderr, "invalid_event") {
		t.Errorf("a wrong one: %v %s", err, stderr)
	}
}
