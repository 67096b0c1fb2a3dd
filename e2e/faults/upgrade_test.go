package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/server/servertest"
	"github.com/grantkeeper/grantkeeper/store"
)

// upgrades are the migrations of a release that nobody has written: on the tables
// that are asked most, and of rows that every node has in its memory.
var upgrades = []string{
	`ALTER TABLE approval ADD COLUMN note TEXT NOT NULL DEFAULT '';`,
	`ALTER TABLE session ADD COLUMN note TEXT NOT NULL DEFAULT '';`,
	`ALTER TABLE client ADD COLUMN note TEXT NOT NULL DEFAULT '';
CREATE TABLE shelf (id TEXT PRIMARY KEY, note TEXT NOT NULL DEFAULT '');
CREATE INDEX client_note ON client (note);
UPDATE client SET note = id;`,
}

const nextVersion = "9.9.0"

// nextRelease builds this source with these migrations and another version, and without
// the race detector, which asks the same source in this one.
var nextRelease = sync.OnceValues(func() (string, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(binaries[0])
	replace := map[string]string{}
	put := func(path, text string) {
		name := filepath.Join(dir, fmt.Sprintf("overlay%d", len(replace)))
		replace[filepath.Join(root, path)] = name
		err = os.WriteFile(name, []byte(text), 0o600)
	}
	source, err := os.ReadFile(filepath.Join(root, "store/schema/migration.go"))
	if err != nil {
		return "", err
	}
	known := fmt.Sprintf("const Version = %d\n", store.SchemaVersion)
	if strings.Count(string(source), known) != 1 {
		return "", fmt.Errorf("store/schema/migration.go does not say %q", known)
	}
	put("store/schema/migration.go", strings.Replace(string(source), known, fmt.Sprintf("const Version = %d\n", store.SchemaVersion+len(upgrades)), 1))
	for i, text := range upgrades {
		put(fmt.Sprintf("store/schema/%04d.sql", store.SchemaVersion+1+i),
			fmt.Sprintf("-- Releases of schema %d and newer work beside it.\n%s\n", store.SchemaVersion, text))
	}
	if err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file, name := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "grantkeeper-next")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-overlay", file, "-ldflags", "-w -X main.version="+nextVersion, "-o", name, "../../cmd/grantkeeper")
	build.Env = append(os.Environ(), "GOGC=400") // as make test compiles
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return name, nil
})

// leaves takes a node out as operators do: it is told to end, and the balancer
// notices half a second later that it is not ready.
func (n *node) leaves(stopping bool) {
	n.mu.Lock()
	n.asked, n.stopping = true, stopping
	n.mu.Unlock()
	n.signal(syscall.SIGTERM)
	time.Sleep(500 * time.Millisecond)
	n.leftOut(true)
}

// restarts lets a node come back with a release, and into the balancer.
func (c *cluster) restarts(n *node, binary string) {
	c.t.Helper()
	c.comesBack(n, binary, func() { n.leaves(false) })
	n.leftOut(false)
}

// comesBack ends a node, and waits for it with a release.
func (c *cluster) comesBack(n *node, binary string, end func()) {
	c.t.Helper()
	n.mu.Lock()
	before := n.process
	n.place.binary, n.asked = binary, true
	n.mu.Unlock()
	end()
	eventually(c.t, "a node comes back", func(int) bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.process != before
	})
	c.ready(n)
}

// A status is what a node says of itself and of its database.
type status struct {
	Version struct {
		Version string
		Schema  int
	}
	Schema int
	Oldest int `json:"schema_oldest"`
}

func (n *node) status(t *testing.T) (s status) {
	t.Helper()
	a := n.operate("GET", "/v1/status", "")
	if err := json.Unmarshal(a.body, &s); err != nil || a.status != 200 {
		t.Fatalf("%v: %v", err, a)
	}
	return s
}

// Nodes of this release and of the next on one database, under load: the next one
// migrates while this one works, both serve, this one is restarted on the newer
// schema, and leaves; then all go back to this one. Every request is answered, and as the
// protocol has it.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	next, err := nextRelease()
	if err != nil {
		t.Fatal(err)
	}
	this := binaries[0]
	database := startPostgres(t)
	name, err := database.Database()
	if err != nil {
		t.Fatal(err)
	}
	counter := startCounter(t)
	// Nothing fails here that one would give up on: whoever waits is answered.
	at := place{binary: this, database: database.URL(name), limiter: "redis://" + counter.address + "/0", patience: time.Minute}
	c := newCluster(t, nil, at, at)
	a, b := c.nodes[0], c.nodes[1]
	c.furnish(24)
	l := newLoad(c)
	l.run(12)
	time.Sleep(time.Second)

	early := exec.Command(next, "migrate", "status", "--config", a.config)
	if out, err := early.CombinedOutput(); err != nil || !strings.Contains(string(out), fmt.Sprintf("schema %d, newest %d", store.SchemaVersion, store.SchemaVersion+len(upgrades))) {
		t.Errorf("the next release before it migrates: %v\n%s", err, out)
	}
	if out, err := exec.Command(next, "serve", "--config", a.config, "--listen", servertest.FreePort(t), "--operator-listen", "off").CombinedOutput(); err == nil || !strings.Contains(string(out), "run: grantkeeper migrate up") {
		t.Errorf("the next release, that may not migrate: %v\n%s", err, out)
	}
	at.binary = next
	d := c.start([]string{"GRANTKEEPER_AUTO_MIGRATE=true"}, at)
	for n, want := range map[*node]string{a: "0", d: "9"} {
		if s := n.status(t); s.Schema != store.SchemaVersion+len(upgrades) || s.Oldest != store.SchemaVersion || !strings.HasPrefix(s.Version.Version, want) {
			t.Errorf("after the migration: %+v", s)
		}
		c.ready(n)
	}
	time.Sleep(time.Second) // both serve

	c.restarts(a, this) // on the newer schema
	tellsOfTheUpgrade(t, this, a)
	c.restarts(b, next)
	time.Sleep(500 * time.Millisecond)
	a.leaves(true)
	<-a.ended
	if s := b.status(t); s.Version.Version != nextVersion {
		t.Errorf("afterwards: %+v", s)
	}
	time.Sleep(500 * time.Millisecond) // the next release alone
	for _, n := range []*node{b, d} {
		c.restarts(n, this)
	}
	time.Sleep(500 * time.Millisecond) // this one alone, with what the next has written
	l.stop()
	l.verdict(t)
	if lost := l.unanswered.Load() + l.unavailable.Load() + l.unsent.Load(); lost > 0 {
		t.Errorf("%d requests were not answered during the upgrade, and the way back", lost)
	}
	b.wentBack(t)
	d.wentBack(t)
}

// wentBack asks whether a node is of this release on the schema of the next.
func (n *node) wentBack(t *testing.T) {
	t.Helper()
	if s := n.status(t); s.Version.Version == nextVersion || s.Schema != store.SchemaVersion+len(upgrades) {
		t.Errorf("back from the next release: %+v", s)
	}
}

// One server on a file, under load: the next release migrates it and serves, and then this
// one does again, with nothing restored. What either has told holds for the other.
func TestUpgradeOfAFileAndBack(t *testing.T) {
	t.Parallel()
	next, err := nextRelease()
	if err != nil {
		t.Fatal(err)
	}
	this := binaries[0]
	c := newCluster(t, []string{"GRANTKEEPER_AUTO_MIGRATE=true"}, place{binary: this, database: "sqlite://" + filepath.Join(t.TempDir(), "grantkeeper.db"), patience: time.Minute})
	n := c.nodes[0]
	c.furnish(16)
	l := newLoad(c)
	l.run(12)
	for _, binary := range []string{next, this} {
		time.Sleep(time.Second)
		c.comesBack(n, binary, func() { n.signal(syscall.SIGTERM) })
		if s := n.status(t); (s.Version.Version == nextVersion) != (binary == next) || s.Schema != store.SchemaVersion+len(upgrades) {
			t.Errorf("started with %s: %+v", binary, s)
		}
	}
	time.Sleep(time.Second)
	l.stop()
	l.verdict(t)
	n.wentBack(t)
}

// tellsOfTheUpgrade asks this release's commands about the next one's schema, and
// the next one's about what cannot be.
func tellsOfTheUpgrade(t *testing.T, this string, a *node) {
	t.Helper()
	beyond := fmt.Sprintf("schema %d is of a later release, and this one, which has %d, works on it too", store.SchemaVersion+len(upgrades), store.SchemaVersion)
	for _, tt := range []struct {
		args, want string
		code       int
	}{
		{"migrate status", beyond, 0},
		{"migrate up --yes", beyond, 0},
		{"migrate up --backup /tmp/before.dump --yes", "pg_dump --format=custom --file=/tmp/before.dump", 2},
		{"migrate up --to 1 --yes", "migrations go forward only", 6},
		{"config check", fmt.Sprintf("schema %d", store.SchemaVersion+len(upgrades)), 0},
		{"doctor --only database", "go on with the upgrade: docs/upgrade.md", 0},
	} {
		c := exec.Command(this, append(strings.Fields(tt.args), "--config", a.config)...)
		out, _ := c.CombinedOutput()
		if code := c.ProcessState.ExitCode(); code != tt.code || !strings.Contains(string(out), tt.want) {
			t.Errorf("%s: exit code %d\n%s", tt.args, code, out)
		}
	}
}
