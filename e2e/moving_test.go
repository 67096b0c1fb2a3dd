package e2e

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

// command runs the binary with a house's configuration, and gives all that it says.
func (h *house) runs(args ...string) (code int, said string) {
	h.t.Helper()
	out, err := exec.Command(binary, append(args, "--config", h.args[2])...).CombinedOutput()
	return exitCode(err), string(out)
}

// edits puts a text in the place of another one in the house's configuration.
func (h *house) edits(was, is string) {
	h.t.Helper()
	text, err := os.ReadFile(h.args[2])
	if err != nil {
		h.t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(was)) {
		h.t.Fatalf("no %q in\n%s", was, text)
	}
	if err := os.WriteFile(h.args[2], bytes.ReplaceAll(text, []byte(was), []byte(is)), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// goesOn refreshes with the token that it had before, and looks at who is signed in.
func (h *house) goesOn(f *flow, was tokens, ada *browser) tokens {
	h.t.Helper()
	if !h.works(was.access) {
		h.t.Error("the access token is none any more")
	}
	now := tokensOf(h.t, f.refresh(was.refresh))
	if !h.works(now.access) {
		h.t.Error("the new access token does not work")
	}
	if a := ada.get("/organizations/nordlys/profile/api"); a.status != 200 {
		h.t.Errorf("who was signed in is not any more: %s", a)
	}
	return now
}

// An installation moves to PostgreSQL and back: clients and people go on where they were. No
// server starts on a copy that was killed, and another copy begins anew.
func TestMovesToTheOtherEngineAndBack(t *testing.T) {
	t.Parallel()
	pg, err := pgtest.Start()
	if err != nil {
		t.Fatal(err, "- run scripts/setup-debian.sh")
	}
	t.Cleanup(func() { pg.Stop() })
	database, err := pg.Database()
	if err != nil {
		t.Fatal(err)
	}
	h := serve(t, served{})
	dir := filepath.Dir(h.args[2])
	first, back := "sqlite://"+filepath.Join(dir, "grantkeeper.db"), "sqlite://"+filepath.Join(dir, "back.db")
	secret := filepath.Join(dir, "database-url") // as one with a password
	if err := os.WriteFile(secret, []byte(pg.URL(database)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, has := h.connected("")
	ada := h.signedIn("ada@nordlys.example")
	if a := h.operate("/v1/directory", crowd); a.status != 200 {
		t.Fatal(a)
	}
	if code, said := h.runs("migrate", "copy", "--to", secret, "--yes"); code != 6 || !strings.Contains(said, "stop every server on either database") {
		t.Errorf("while a server runs: %d %s", code, said)
	}
	h.stop()
	h.killedCopy(secret)
	h.edits(first, pg.URL(database))
	if code, said := h.runs("serve"); code != 6 || !strings.Contains(said, "a copy of another database was begun in it, and not finished\nrun grantkeeper migrate copy once more") {
		t.Errorf("on half a copy: %d %s", code, said)
	}
	code, said := h.runs("migrate", "copy", "--from", first, "--to", secret, "--yes")
	if code != 0 || !strings.Contains(said, "and compared.\n") || strings.Contains(said, pg.URL(database)) {
		t.Fatalf("%d %s", code, said)
	}
	h.serve(0)
	has = h.goesOn(f, has, ada)
	h.signedIn("tor@nordlys.example")
	if code, said := h.runs("migrate", "copy", "--to", back, "--yes"); code != 6 || !strings.Contains(said, "nodes that live, or ended without a word less than") {
		t.Errorf("while a node lives: %d %s", code, said)
	}
	h.stop()
	if code, said := h.runs("migrate", "copy", "--to", first, "--yes"); code != 6 || !strings.Contains(said, "there is a database already\nmove it away") {
		t.Errorf("over the old one: %d %s", code, said)
	}
	if code, said := h.runs("migrate", "copy", "--to", back, "--yes"); code != 0 {
		t.Fatalf("%d %s", code, said)
	}
	h.edits(pg.URL(database), back)
	h.serve(0)
	h.goesOn(f, has, ada)
	h.signedIn("tor@nordlys.example")
}

// killedCopy begins a copy, and kills it once a table is written.
func (h *house) killedCopy(to string) {
	h.t.Helper()
	c := exec.Command(binary, "migrate", "copy", "--to", to, "--yes", "--config", h.args[2])
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if c.Process.Kill(); !strings.HasPrefix(line, "person ") {
		h.t.Errorf("it begins with %q", line)
	}
	c.Wait()
}

// The key file is lost: the server says what to do, and goes on with a new one. Who had
// connected connects again; the directory and the journal are as they were.
func TestLostKeyFile(t *testing.T) {
	t.Parallel()
	for engine, start := range map[string]func(testing.TB) *house{
		"SQLite":     func(t testing.TB) *house { return serve(t, served{}) },
		"PostgreSQL": func(t testing.TB) *house { _, all := nodes(t, 1); return all[0] },
	} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			h := start(t)
			f, had := h.connected("")
			ada := h.signedIn("ada@nordlys.example")
			if code, said := h.runs("keys", "replace-lost", "--yes"); code != 6 || !strings.Contains(said, "stop every server first") {
				t.Errorf("while a server runs: %d %s", code, said)
			}
			h.stop()
			h.command = nil
			if code, said := h.runs("keys", "replace-lost", "--yes"); code != 6 || !strings.Contains(said, "nothing is lost") {
				t.Errorf("with the right key: %d %s", code, said)
			}
			key := filepath.Join(filepath.Dir(h.args[2]), "secret.key")
			if err := os.Remove(key); err != nil {
				t.Fatal(err)
			}
			if code, said := h.runs("serve"); code != 3 || !strings.Contains(said, "grantkeeper keys replace-lost") {
				t.Errorf("without a key file: %d %s", code, said)
			}
			if err := os.WriteFile(key, []byte("1:"+base64.StdEncoding.EncodeToString(make([]byte, 31))+"BA==\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if code, said := h.runs("keys", "replace-lost", "--yes"); code == 0 {
				t.Errorf("with a broken key file: %s", said)
			}
			if err := os.Remove(key); err != nil {
				t.Fatal(err)
			}
			if code, said := h.runs("keys", "replace-lost", "--dry-run"); code != 0 || !strings.Contains(said, "Nothing was changed") {
				t.Errorf("dry run: %d %s", code, said)
			}
			if _, err := os.Stat(key); err == nil {
				t.Error("a dry run has made a key file")
			}
			code, said := h.runs("keys", "replace-lost", "--yes", "--reason", "disk failed")
			if code != 0 || !strings.Contains(said, "Key 1 is lost; in use: key 2 of "+key) {
				t.Fatalf("%d %s", code, said)
			}
			if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the key file: %v %v", info, err)
			}
			h.serve(0)
			if a := f.refresh(had.refresh); a.errorCode() != "invalid_grant" {
				t.Errorf("the old token: %s", a)
			}
			if h.works(had.access) {
				t.Error("the old access token works")
			}
			if a := ada.get("/organizations/nordlys/profile/api"); a.status != 303 {
				t.Errorf("who was signed in: %s", a)
			}
			again, now := h.connected(f.client)
			if !h.works(tokensOf(t, again.refresh(now.refresh)).access) {
				t.Error("connected again, and it does not work")
			}
			if said := fmt.Sprint(h.items("/v1/events?kind=key_changed")); !strings.Contains(said, "lost: key 1; in use: key 2; approvals ended: 1") || !strings.Contains(said, "disk failed") {
				t.Errorf("the journal has %s", said)
			}
		})
	}
}
