package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the server sends is written as it comes; what has no closing line is no file.
func TestActivityExport(t *testing.T) {
	t.Parallel()
	whole := `{"approval":"a","id":"1"}` + "\n" + `{"approvals":1,"records":1,"counts":0,"gaps":0}` + "\n"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/version":
			w.Write([]byte(`{"mode":"serve"}`))
		case r.URL.Path != "/v1/activity/export":
			w.WriteHeader(http.StatusNotFound)
		case r.URL.Query().Get("since") == "1h":
			w.Write([]byte(whole[:40]))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case r.URL.Query().Get("since") == "2h": // ended in order, and is not whole
			w.Write([]byte(strings.SplitAfter(whole, "\n")[0]))
		default:
			w.Write([]byte(whole))
		}
	}))
	t.Cleanup(s.Close)
	as := []string{"--operator", s.URL, "--password-file", write(t, "operator", "the password\n", 0o600)}
	export := func(args ...string) (string, string, int) {
		return ran(t, append(append([]string{"activity", "export"}, args...), as...)...)
	}
	if stdout, stderr, code := export(); code != 0 || stdout != whole {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	to := filepath.Join(t.TempDir(), "activity.jsonl")
	stdout, stderr, code := export("--output", to)
	if got, err := os.ReadFile(to); code != 0 || string(got) != whole || err != nil || stdout != "" || !strings.Contains(stderr, " records in ") {
		t.Errorf("%d %s%s, %v", code, stdout, stderr, err)
	}
	for _, since := range []string{"1h", "2h"} {
		half := filepath.Join(t.TempDir(), "half.jsonl")
		if _, stderr, code := export("--output", half, "--since", since); code != 4 || !strings.Contains(stderr, "broke off its answer") {
			t.Errorf("%s: %d %s", since, code, stderr)
		}
		if _, err := os.Stat(half); err == nil {
			t.Error("half a file is there")
		}
	}
}
