package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/journal/chain"
)

// aProof is an export of two blocks, with their anchors.
func aProof(person string) (file []byte, anchors []chain.Anchor) {
	var out bytes.Buffer
	const name = "0123456789abcdef0123456789abcdef"
	w := chain.NewWriter(&out, name)
	last := chain.Block{}
	for n := range 2 {
		e := chain.Entry{ID: fmt.Sprintf("%024x", n+1), At: 1764152100 + int64(n), Kind: "signin_failed", Person: person}
		leaves := []chain.Leaf{e.Leaf()}
		last = last.Next(name, e.At+30, leaves)
		w.Block(last, leaves, []chain.Entry{e}, "")
		anchors = append(anchors, last.Anchor())
	}
	w.Unsealed(chain.Entry{ID: fmt.Sprintf("%024x", 9), Kind: "signin_failed"})
	w.End()
	return out.Bytes(), anchors
}

func TestEventsVerify(t *testing.T) {
	t.Parallel()
	file, anchors := aProof("ada")
	whole := write(t, "journal.jsonl", string(file), 0o600)
	log := write(t, "log", "time=x msg=started\ntime=y msg=\"the journal's anchor\" anchor="+anchors[0].String()+" block=1\n", 0o600)
	stdout, stderr, code := ran(t, "events", "verify", whole, "--anchor", log, "--anchor", anchors[1].String())
	for _, line := range []string{"blocks    1 to 2, the last of 2025-11-26 10:15:31 UTC\n", "entries   2 as they were sealed\n", "unsealed  1 that", "anchors   2 agree, the newest of 2025-11-26 10:15:31 UTC"} {
		if code != 0 || !strings.Contains(stdout, line) {
			t.Errorf("%q: %d\n%s%s", line, code, stdout, stderr)
		}
	}
	if stdout, _, code = ran(t, "events", "verify", whole); code != 0 || !strings.Contains(stdout, "anchors   none given: the file agrees with itself") {
		t.Errorf("without an anchor: %d\n%s", code, stdout)
	}
	altered := write(t, "altered.jsonl", strings.Replace(string(file), `"ada"`, `"eve"`, 1), 0o600)
	stdout, stderr, code = ran(t, "events", "verify", altered)
	if code != 1 || !strings.Contains(stdout, "fault     altered: line 3, block 1, entry "+fmt.Sprintf("%024x", 1)+": ") || !strings.Contains(stderr, "altered.jsonl: faults: 1\n") {
		t.Errorf("altered: %d\n%s%s", code, stdout, stderr)
	}
	anew, _ := aProof("eve")
	stdout, stderr, code = ran(t, "events", "verify", write(t, "anew.jsonl", string(anew), 0o600), "--anchor", log, "--json")
	var said verified
	if err := json.Unmarshal([]byte(stdout), &said); err != nil || code != 1 || said.OK || len(said.Faults) != 1 || said.Faults[0].Kind != "against anchor" || said.Anchors != (verifiedAnchors{Given: 1}) {
		t.Errorf("written anew: %d, %v\n%s%s", code, err, stdout, stderr)
	}
	if stdout, _, _ = ran(t, "events", "verify", filepath.Join(filepath.Dir(log), "log")); !strings.Contains(stdout, "unreadable: line 1") {
		t.Errorf("not an export:\n%s", stdout)
	}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{filepath.Join(t.TempDir(), "none")}, 4, "no such file"},
		{nil, 2, "name one file"},
		{[]string{whole, "--anchor", filepath.Join(t.TempDir(), "none")}, 4, "--anchor: "},
		{[]string{whole, "--anchor", whole + "x"}, 4, "--anchor: "},
		{[]string{whole, "--anchor", write(t, "empty", "", 0o600)}, 2, "has no anchor"},
		{[]string{whole, "--anchor", write(t, "torn", "\n"+anchors[0].String()[:90]+"\n", 0o600)}, 2, "torn: line 2: "},
		{[]string{whole, "--anchor", anchors[0].String()[:90]}, 2, "not whole"},
	} {
		if stdout, stderr, code := ran(t, append([]string{"events", "verify"}, tt.args...)...); code != tt.code || !strings.Contains(stderr, tt.says) || stdout != "" {
			t.Errorf("%q: %d %s%s", tt.args, code, stdout, stderr)
		}
	}
}

// What the server sends is written as it comes, and half of it is no file.
func TestEventsExportProof(t *testing.T) {
	t.Parallel()
	file, anchors := aProof("ada")
	asked := make(chan string, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/version":
			w.Write([]byte(`{"mode":"serve"}`))
		case "/v1/events/anchor":
			json.NewEncoder(w).Encode(map[string]any{"id": "anchor", "anchor": anchors[1].String()})
		case "/v1/events/proof":
			asked <- r.URL.RawQuery
			switch r.URL.Query().Get("since") {
			case "1h":
				w.Write(file[:len(file)/2])
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			case "2h":
				w.WriteHeader(http.StatusBadRequest)
				w.Write([]byte(`{"error":"invalid_request","error_description":"since: no","reference":"r"}`))
			default:
				w.Write(file)
			}
		}
	}))
	t.Cleanup(s.Close)
	as := []string{"--operator", s.URL, "--password-file", write(t, "operator", "the password\n", 0o600)}
	export := func(args ...string) (string, string, int) {
		return ran(t, append(append([]string{"events", "export", "--proof"}, args...), as...)...)
	}
	if stdout, stderr, code := export(); code != 0 || stdout != string(file) || <-asked != "" {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	to := filepath.Join(t.TempDir(), "journal.jsonl")
	stdout, stderr, code := export("--output", to, "--since", "3h")
	got, err := os.ReadFile(to)
	if code != 0 || err != nil || !bytes.Equal(got, file) || stdout != "" || !strings.Contains(stderr, "3 entries in ") || <-asked != "since=3h" {
		t.Errorf("%d %s%s, %v", code, stdout, stderr, err)
	}
	half := filepath.Join(t.TempDir(), "half.jsonl")
	if _, stderr, code := export("--output", half, "--since", "1h"); code != 4 || !strings.Contains(stderr, "broke off its answer") {
		t.Errorf("half: %d %s", code, stderr)
	}
	if _, err := os.Stat(half); err == nil {
		t.Error("half a file is there")
	}
	if _, stderr, code := export("--since", "2h"); code != 2 || !strings.Contains(stderr, "since: no") {
		t.Errorf("refused: %d %s", code, stderr)
	}
	if _, stderr, code := export("--kind", "restored"); code != 2 || !strings.Contains(stderr, "leave out --kind") {
		t.Errorf("a filter: %d %s", code, stderr)
	}
	if stdout, stderr, code := ran(t, append([]string{"events", "anchor"}, as...)...); code != 0 || stdout != anchors[1].String()+"\n" {
		t.Errorf("anchor: %d %s%s", code, stdout, stderr)
	}
}
