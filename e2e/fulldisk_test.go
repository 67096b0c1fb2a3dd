package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

// smallDisk is a PostgreSQL of the test's own, and a disk that can be filled up.
func smallDisk(t *testing.T, bytes int64) (*pgtest.Server, *pgtest.Disk) {
	t.Helper()
	pg, err := pgtest.Start()
	if err != nil {
		t.Fatal(err, "- run scripts/setup-debian.sh")
	}
	disk, err := pg.Disk(bytes)
	if err != nil {
		pg.Stop()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(pg.Stop(), disk.Unmount()); err != nil {
			t.Error(err)
		}
	})
	return pg, disk
}

// asked is what is asked of a server while the disk under its database is full, and once
// there is room again. What was refused goes through then, as it is.
type asked struct {
	h          *house
	over       *flow // whose token is revoked
	overTokens tokens
	kept       *flow
	keptTokens tokens
	held       *flow // whose code is exchanged
	code       string
	consent    *pageForm
	done       map[string]bool // what was acknowledged
}

func asking(h *house) *asked {
	a := &asked{h: h, done: map[string]bool{}}
	a.over, a.overTokens = h.connected("")
	a.kept, a.keptTokens = h.connected("")
	a.held, a.code = h.issued("")
	a.consent = h.signedIn("ada@nordlys.example").consent(h.flow(h.register())).form("/oauth/authorize")
	return a
}

// all asks for everything that is not done yet, and gives what was refused.
func (a *asked) all(t *testing.T) (refused []string) {
	t.Helper()
	ask := func(what string, want int, f func() answer) {
		t.Helper()
		if a.done[what] {
			return
		}
		switch r := f(); r.status {
		case want:
			a.done[what] = true
			if what == "refresh" {
				a.keptTokens = tokensOf(t, r)
			}
		case 503:
			refused = append(refused, what)
			if r.header.Get("Retry-After") == "" || !strings.HasPrefix(r.body, "<!doctype html>") && r.errorCode() != "temporarily_unavailable" {
				t.Errorf("%s: %s; want 503 with Retry-After", what, r)
			}
		default:
			t.Errorf("%s: %s; want %d, or 503", what, r, want)
		}
	}
	ask("refresh", 200, func() answer { return a.kept.refresh(a.keptTokens.refresh) })
	ask("exchange", 200, func() answer { return a.held.exchange(a.code) })
	ask("approve", 303, func() answer { return a.consent.submit(append(treasurer, "decision", "approve")...) })
	ask("revoke", 200, func() answer { return a.over.revoke(a.overTokens.refresh) })
	ask("remove", 200, func() answer {
		return a.h.operate("/v1/organizations/nordlys/members/tor/remove", `{"reason":"`+strings.Repeat("x", 999)+`"}`)
	})
	ask("register", 201, func() answer { return a.h.caller().postJSON("/oauth/register", large) })
	ask("import", 200, func() answer { return a.h.operate("/v1/directory", crowd) })
	return refused
}

// crowd and large need more room than there is on the pages that are there.
var crowd, large = func() (string, string) {
	var people, addresses []string
	for n := range 500 {
		people = append(people, fmt.Sprintf(`{"id":"p%d","email":"p%d@nordlys.example","name":"%s"}`, n, n, strings.Repeat("x", 200)))
	}
	for n := range 5 {
		addresses = append(addresses, fmt.Sprintf(`"https://filler.example/%d/%s"`, n, strings.Repeat("x", 1900)))
	}
	return `{"reason":"test","people":[` + strings.Join(people, ",") + `]}`, `{"redirect_uris":[` + strings.Join(addresses, ",") + `]}`
}()

// registerUntilFull registers clients until the database has no room for another.
func (h *house) registerUntilFull(t *testing.T) {
	t.Helper()
	for range 2000 {
		switch a := h.caller().postJSON("/oauth/register", large); a.status {
		case 201:
		case 503:
			return
		default:
			t.Fatalf("%s; want 201 or 503", a)
		}
	}
	t.Fatal("the disk never was full")
}

// finish asks for what was refused, and looks at what came of everything.
func (a *asked) finish(t *testing.T) {
	t.Helper()
	a.done["refresh"] = false
	if refused := a.all(t); len(refused) > 0 {
		t.Errorf("refused with room again: %q", refused)
	}
	if !a.h.works(a.keptTokens.access) {
		t.Error("an approval is lost")
	}
	if a.h.works(a.overTokens.access) {
		t.Error("a revoked one is not over")
	}
	if n := len(a.h.items("/v1/people?query=p499%40nordlys.example")); n != 1 {
		t.Errorf("%d of a person that was imported", n)
	}
}

// examined runs doctor, and says whether it found no fault.
func (h *house) examined(t *testing.T) (text string, healthy bool) {
	t.Helper()
	out, err := exec.Command(binary, "doctor", "--config", h.args[2], "--only", "server,database").CombinedOutput()
	if err != nil && exitCode(err) != 1 {
		t.Errorf("doctor: %v\n%s", err, out)
	}
	return string(out), err == nil
}

// startsAnother runs another server with a house's configuration and more, which
// must refuse to start, and gives its exit code and what it says.
func (h *house) startsAnother(t *testing.T, more string) (code int, stderr string) {
	t.Helper()
	text, err := os.ReadFile(h.args[2])
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "grantkeeper.toml")
	if err := os.WriteFile(path, append(text, more...), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("timeout", "60", binary, "serve", "--config", path, "--listen", "127.0.0.1:0", "--operator-listen", "127.0.0.1:0").CombinedOutput()
	return exitCode(err), string(out)
}

// T-23: the disk of PostgreSQL's tables is full. What needs no room goes on, all else
// is told to come back, doctor says why, and with room again it goes on by itself.
func TestT23PostgresTablesFull(t *testing.T) {
	t.Parallel()
	pg, disk := smallDisk(t, 24<<20)
	database, err := pg.DatabaseOn(disk)
	if err != nil {
		t.Fatal(err)
	}
	h := nodesOn(t, 1, pg.URL(database))[0]
	a := asking(h)
	if err := disk.Fill(); err != nil {
		t.Fatal(err)
	}
	h.registerUntilFull(t)
	if refused := strings.Join(a.all(t), " "); !strings.HasSuffix(refused, "import") {
		t.Errorf("refused were %q: the disk is not full", refused)
	}
	if !h.works(a.keptTokens.access) {
		t.Error("a check is refused")
	}
	if text, healthy := h.examined(t); healthy || !strings.Contains(text, "; its disk is full: it refused something ") || !strings.Contains(text, "fix: make room for PostgreSQL's tables") {
		t.Errorf("doctor says:\n%s", text)
	}
	var clients strings.Builder
	for n := range 40 {
		fmt.Fprintf(&clients, "\n[[clients]]\nid = \"connector-%d\"\nname = \"Connector\"\nredirect_uris = [\"https://filler.example/%s\"]", n, strings.Repeat("x", 1900))
	}
	if code, stderr := h.startsAnother(t, clients.String()); code != 4 || !strings.HasSuffix(stderr, "\nmake room for PostgreSQL's tables and its log\n") {
		t.Errorf("a start with clients that there is no room for: %d %s", code, stderr)
	}
	if err := disk.Free(); err != nil {
		t.Fatal(err)
	}
	a.finish(t)
	if text, healthy := h.examined(t); !healthy {
		t.Errorf("with room again doctor says:\n%s", text)
	}
}

// T-23: the disk of PostgreSQL's log is full, at which PostgreSQL panics, and does not
// start. Everybody is told to come back, also by another server that would start;
// once PostgreSQL runs again, it goes on by itself, and nothing is lost.
func TestT23PostgresLogFull(t *testing.T) {
	t.Parallel()
	pg, disk := smallDisk(t, 48<<20)
	if err := pg.LogOn(disk); err != nil {
		t.Fatal(err)
	}
	database, err := pg.Database()
	if err != nil {
		t.Fatal(err)
	}
	h := nodesOn(t, 1, pg.URL(database))[0]
	a := asking(h)
	if err := errors.Join(pg.UseUpLog(), disk.Fill()); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); !pg.Ended(); time.Sleep(20 * time.Millisecond) {
		if h.registerUntilFull(t); time.Now().After(end) { // it starts again, as long as it has room to
			t.Fatal("PostgreSQL lives on with a full log")
		}
	}
	if refused := strings.Join(a.all(t), " "); refused != "refresh exchange approve revoke remove register import" {
		t.Errorf("refused were %q; want everything", refused)
	}
	if r := a.h.caller().me(a.keptTokens.access); r.status != 503 || r.header.Get("Retry-After") == "" {
		t.Errorf("a check: %s; want 503", r)
	}
	cause, full := "does not answer a write", "does not answer a write: its disk is full"
	r := h.caller().get(h.operator + "/readyz")
	if strings.Contains(h.stderr.String(), "53100") || strings.Contains(r.body, full) { // it was told, before the connection broke; not all that it is told is logged
		cause = full
	}
	if r.status != 503 || !strings.Contains(r.body, `["the database `+cause+`"]`) {
		t.Errorf("ready: %s; want %q", r, cause)
	}
	if text, healthy := h.examined(t); healthy || !strings.Contains(text, cause+"\n") || !strings.Contains(text, "fix: see that PostgreSQL runs at ") {
		t.Errorf("doctor says:\n%s", text)
	}
	if code, stderr := h.startsAnother(t, ""); code != 4 || !strings.Contains(stderr, "see that PostgreSQL runs at ") {
		t.Errorf("another start: %d %s", code, stderr)
	}
	if err := errors.Join(disk.Free(), pg.Run()); err != nil {
		t.Fatal(err)
	}
	h.readyAs(t, 200, "ok")
	a.finish(t)
	if text, healthy := h.examined(t); !healthy {
		t.Errorf("with room again doctor says:\n%s", text)
	}
}
