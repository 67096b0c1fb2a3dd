package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/token"
)

// A node opens what others have sealed for as long as it has looked at the keys lately, and
// lacks none of them.
func TestOpens(t *testing.T) {
	lately, longAgo := Moment(time.Now())+int64(time.Hour), Moment(time.Now())-int64(keysHold)
	for _, tt := range []struct {
		name   string
		ring   *token.Ring
		lacks  bool
		keysAt int64
		clock  func() time.Time
		want   error
	}{
		{"a look of just now", &token.Ring{}, false, lately, nil, nil},
		{"no keys at all", nil, true, longAgo, nil, nil},
		{"a key that it lacks", &token.Ring{}, true, lately, nil, errKeyMissing},
		{"no look for a while", &token.Ring{}, false, longAgo, nil, errKeysUnsure},
		{"a time of the tests", &token.Ring{}, false, longAgo, time.Now, nil},
	} {
		p := &Engine{Env: engine.NewEnv(engine.Options{Ring: tt.ring, DatabaseTime: tt.clock})}
		p.lacksKey.Store(tt.lacks)
		p.KeysAt.Store(tt.keysAt)
		if err := p.Opens(); err != tt.want || err != nil && !errors.Is(err, engine.ErrUnavailable) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	if keysHold >= engine.NodeLife {
		t.Error("no node knows that it does not count as alive")
	}
}

// A node whose schema has outgrown it does nothing: neither changes nor questions get in.
func TestOutgrownNodes(t *testing.T) {
	p := away(t, "postgres://guest@db.example/keeper")
	p.Options.MaxStaleness = time.Hour
	p.found(Moment(time.Now()))
	if !p.Recent() {
		t.Error("what was found just now is not recent")
	}
	if leave, err := p.enter(); err != nil {
		t.Error(err)
	} else {
		leave()
	}
	p.outgrown.Store(true)
	if p.Recent() {
		t.Error("answers out of memory")
	}
	if _, err := p.enter(); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("a change: %v", err)
	}
	if err := p.begin(newQuestion().(*Question)); !errors.Is(err, engine.ErrUnavailable) || len(p.Reads.Items) > 0 {
		t.Errorf("a question: %v, %d wait", err, len(p.Reads.Items))
	}
	refresh := approval.Refresh("quill", 1, 1, time.Now())
	for what, do := range map[string]func() error{
		"a move": func() error { _, _, err := p.Move(approval.ID{1}, refresh, true, engine.Act{}); return err },
		"a refresh": func() error {
			_, err := p.MoveExpected(approval.Expected(approval.ID{1}, "quill", 1), refresh, engine.Act{})
			return err
		},
		"a registration":    func() error { return p.Register(client.Client{ID: "quill"}, "", nil, engine.Act{}) },
		"a change of facts": func() error { return p.ChangeFacts(func(*engine.Tx) error { return nil }) },
		"a change":          func() error { return p.Change(func(*engine.Tx) error { return nil }) },
		"a long change":     func() error { return p.ChangeMany(func(*engine.Tx) error { return nil }) },
		"what is apart":     func() error { return p.Apart(func(*engine.Tx) error { return nil }) },
		"ready":             p.Ready,
	} {
		if err := do(); !errors.Is(err, engine.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	p.Gate.Close() // who was refused does not keep it from closing
}

// The time is the database's as of the last look, and goes on with the machine's.
func TestTimeOfTheDatabase(t *testing.T) {
	machine := time.Unix(1_800_000_000, 0)
	p := &Engine{Env: engine.NewEnv(engine.Options{Now: func() time.Time { return machine }})}
	p.measured.Store(&measure{database: time.Unix(1_700_000_000, 0), machine: machine})
	machine = machine.Add(90 * time.Second)
	if got := p.now(); !got.Equal(time.Unix(1_700_000_090, 0)) {
		t.Error(got)
	}
}

// Nodes are counted with this one.
func TestLiveNodes(t *testing.T) {
	var p Engine
	p.others.Store(2)
	if got := p.LiveNodes(); got != 3 {
		t.Error(got)
	}
}
