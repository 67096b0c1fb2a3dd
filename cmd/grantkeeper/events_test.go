package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func aJournal(t *testing.T) (operator, password string) {
	t.Helper()
	entries := map[string]string{"5": "client_disabled", "9": "client_disabled"}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		items, next := []any{}, ""
		add := func(id string) { items = append(items, map[string]any{"id": id, "at": 1, "kind": entries[id]}) }
		after := q.Get("after")
		switch {
		case r.URL.Path == "/version":
		case q.Get("kind") == "": // the newest of all
			items = append(items, map[string]any{"id": "6", "at": 1, "kind": "client_registered"})
		case q.Get("order") == "oldest" && after < "9": // from 6 on, one place a page
			if next = fmt.Sprint(after[0] - '0' + 1); next == "9" {
				add("9")
			}
		case q.Get("order") == "oldest":
		case after == "":
			add("9") // came after the newest was asked for
			next = "8"
		case after == "5":
		default: // down to 5
			if next = fmt.Sprint(after[0] - '0' - 1); next == "5" {
				add("5")
			}
		}
		json.NewEncoder(w).Encode(map[string]any{"items": items, "next": next, "mode": "serve"})
	}))
	t.Cleanup(s.Close)
	return s.URL, write(t, "operator", "the password\n", 0o600)
}

func TestEventsFarApart(t *testing.T) {
	t.Parallel()
	at, password := aJournal(t)
	as := []string{"--kind", "client_disabled", "--operator", at, "--password-file", password}
	stdout, stderr, code := ran(t, append([]string{"events", "list", "--after", "8", "--json"}, as...)...)
	if code != 0 || !strings.Contains(stdout, `"id":"5"`) || !strings.Contains(stdout, `"next":"5"`) {
		t.Errorf("list: %d %s%s", code, stdout, stderr)
	}
	out := &safeBuffer{}
	c := command(t, append([]string{"events", "tail", "--json", "--last", "3"}, as...)...)
	c.Stdout = out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for range 3000 {
		if strings.Count(out.String(), "\n") == 2 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.Process.Kill()
	c.Wait()
	if got := out.String(); strings.Count(got, "\n") != 2 || !strings.HasPrefix(got, `{"at":1,"id":"5"`) || !strings.Contains(got, `"id":"9"`) {
		t.Errorf("tail:\n%s", got)
	}
}
