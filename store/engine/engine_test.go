package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/schema"
	"github.com/grantkeeper/grantkeeper/token"
)

// Networks are told apart by /24 and /48, and none is the unknown one.
func TestNetworks(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.0", "192.0.2.255", true},
		{"192.0.2.255", "192.0.3.0", false},
		{"192.0.2.1", "::ffff:192.0.2.2", true},
		{"2001:db8:1::", "2001:db8:1:ffff:ffff:ffff:ffff:ffff", true},
		{"2001:db8:1:ffff::1", "2001:db8:2::1", false},
		{"fe80::1%eth0", "fe80::2", true},
	} {
		a, b := NetworkOf(tt.a), NetworkOf(tt.b)
		if (a == b) != tt.same || a == 0 || b == 0 {
			t.Errorf("%s is %d, %s is %d", tt.a, a, tt.b, b)
		}
	}
	for _, none := range []string{"", "x", "192.0.2.1:80"} {
		if got := NetworkOf(none); got != 0 {
			t.Errorf("%q is %d", none, got)
		}
	}
	seen := map[uint16]bool{}
	for i := range 1 << 16 {
		seen[NetworkOf(fmt.Sprintf("10.%d.%d.1", i>>8, i&255))] = true
	}
	if seen[0] || len(seen) < 1<<15 {
		t.Errorf("65536 networks have %d numbers; 0 among them: %v", len(seen), seen[0])
	}
}

// What is known of a used refresh token says how old it was and from where it came.
func TestReuse(t *testing.T) {
	home, away := "192.0.2.1", "198.51.100.1"
	for _, tt := range []struct {
		presented, current int64
		given, from        string
		looks, says        string
	}{
		{0, 3, home, home, "", ""},
		{2, 3, home, home, LooksLikeCopies, "refresh token 2 of 3, 1 old; its successor was not used; from the network that the current one was given to"},
		{1, 3, home, away, LooksLikeTheft, "refresh token 1 of 3, 2 old; its successor was used too; from another network than the current one was given to"},
		{2, 3, "", home, LooksUnknown, "refresh token 2 of 3, 1 old; its successor was not used; its network cannot be compared"},
		{2, 3, home, "", LooksUnknown, "refresh token 2 of 3, 1 old; its successor was not used; its network cannot be compared"},
	} {
		act, before := Act{Address: tt.from, Generation: tt.presented}, approval.State{Generation: tt.current, Network: NetworkOf(tt.given)}
		if looks, says := act.looksLike(before), act.reuse(before); looks != tt.looks || says != tt.says {
			t.Errorf("%+v: %q, %q", tt, looks, says)
		}
	}
}

// What a move means to those who read the journal, and what it does not.
func TestEventsOfMoves(t *testing.T) {
	state := func(p approval.Phase, why approval.Reason) approval.State {
		return approval.State{Phase: p, Generation: 2, Reason: why}
	}
	for _, tt := range []struct {
		name          string
		before, after approval.State
		want          string // kinds and reasons
	}{
		{"an exchange", state(approval.CodeIssued, ""), state(approval.Live, ""), "code_exchanged/why"},
		{"a refresh", state(approval.Live, ""), state(approval.Live, ""), ""},
		{"another code", state(approval.CodeIssued, ""), state(approval.CodeIssued, ""), ""},
		{"an end", state(approval.Live, ""), state(approval.Ended, approval.RevokedByAdmin), "approval_ended/revoked_by_admin"},
		{"a code used twice", state(approval.Live, ""), state(approval.Ended, approval.CodeReused), "code_reused/why approval_ended/code_reused"},
		{"a token used twice", state(approval.Live, ""), state(approval.Ended, approval.RefreshReused), "refresh_reused/unknown approval_ended/refresh_reused"},
		{"an end of what had ended", state(approval.Ended, approval.Unused), state(approval.Ended, approval.Unused), ""},
	} {
		var got []string
		for _, e := range Events(approval.Approval{Client: "quill", State: tt.after}, tt.before, Act{Generation: 1, Reason: "why"}) {
			got = append(got, string(e.Kind)+"/"+e.Reason)
			if e.Client != "quill" || strings.HasPrefix(e.Detail, "refresh token") != (e.Kind == journal.RefreshReused) {
				t.Errorf("%s: %+v", tt.name, e)
			}
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, s, tt.want)
		}
	}
}

// IDs of entries sort by time, and by their order within a millisecond.
func TestEventIDs(t *testing.T) {
	var ids EventIDs
	now, last := time.UnixMilli(1<<40), ""
	for i := range 100_000 {
		if i%1000 == 999 {
			now = now.Add(time.Millisecond)
		}
		id := ids.Next(now)
		if id <= last || len(id) != 2*EventIDLen {
			t.Fatalf("%d: %s after %s", i, id, last)
		}
		last = id
	}
	if got, want := ids.Next(now.Add(time.Hour))[:16], fmt.Sprintf("%016x", now.Add(time.Hour).UnixMilli()<<16); got != want {
		t.Errorf("an hour later %s, want %s", got, want)
	}
}

// A use is to be noted an hour after the one before.
func TestIdle(t *testing.T) {
	for _, tt := range []struct {
		used, now uint32
		want      bool
	}{{1000, 1000, false}, {1000, 4599, false}, {1000, 4600, true}, {0, 1 << 31, true}} {
		if a := (Access{Used: tt.used}); Idle(tt.used, tt.now) != tt.want || a.Idle(time.Unix(int64(tt.now), 0)) != tt.want {
			t.Errorf("%+v", tt)
		}
	}
}

// A gate that is closing waits for those inside, and lets nobody in from then on.
func TestGate(t *testing.T) {
	g := Gate{Closed: make(chan struct{})}
	leave, err := g.Enter()
	if err != nil {
		t.Fatal(err)
	}
	if g.entering.TryLock() {
		t.Error("it could close over somebody inside")
	}
	leave()
	g.Close()
	for range 2 { // whoever is refused holds nobody up
		if _, err := g.Enter(); !errors.Is(err, ErrUnavailable) {
			t.Errorf("after the end: %v", err)
		}
	}
	if !g.entering.TryLock() {
		t.Error("who was refused is still inside")
	}
}

// A fault in a caller's function is an error, and logged with where it was.
func TestRunSafely(t *testing.T) {
	var log strings.Builder
	env := NewEnv(Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	tx := NewTx(t.Context(), env, nil, nil)
	refused := errors.New("refused")
	if err := RunSafely(tx, func(*Tx) error { return refused }); err != refused || log.Len() > 0 {
		t.Errorf("%v, %s", err, log.String())
	}
	if err := RunSafely(tx, func(*Tx) error { panic("broken") }); err == nil || !strings.Contains(err.Error(), "broken") || !strings.Contains(log.String(), "engine_test.go") {
		t.Errorf("%v, %s", err, log.String())
	}
}

// What the rules refuse is told from a database that cannot.
func TestRefusal(t *testing.T) {
	for err, want := range map[error]bool{
		ErrNotFound: true, ErrConflict: true, ErrAnswered: true, ErrNotAllowed: true, ErrKeys: true, ErrChanged: true, ErrRules: true, ErrFull: true,
		ErrUnavailable: false, ErrOutcome: false, ErrDamaged: false, errors.New("x"): false, Unavailable("x", errors.New("y")): false,
	} {
		if Refusal(fmt.Errorf("of this: %w", err)) != want {
			t.Errorf("%v: want %v", err, want)
		}
	}
	if Refusal(nil) || Unavailable("x", nil) != nil {
		t.Error("no error is one")
	}
	if err := Unavailable("x", ErrFull); !errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrFull) {
		t.Error(err)
	}
}

// refusedWith is an error of a database with its SQLSTATE.
type refusedWith string

func (r refusedWith) Error() string    { return "refused: " + string(r) }
func (r refusedWith) SQLState() string { return string(r) }

// Only what is refused however often it is tried may be given up.
func TestUnwritable(t *testing.T) {
	for code, want := range map[refusedWith]bool{
		"22021": true,  // a text that is not in the encoding
		"22P05": true,  // a character that cannot be held
		"22001": true,  // too long for its column
		"23505": true,  // unique
		"23514": true,  // a check
		"54000": true,  // a text that an index cannot hold
		"":      false, // not the server's
		"08006": false, // the connection
		"0A000": false, // a cached plan, after a change of tables
		"28P01": false, // the password is changed
		"3D000": false, // the database is moved
		"40001": false, "40P01": false,
		"42501": false,                 // a right is missing
		"42P01": false,                 // a table is missing
		"53100": false,                 // the disk is full
		"55P03": false, "57014": false, // slow
		"57P01": false, // it is stopped
		"58030": false, // its disk
		"P0001": false, // somebody's trigger
		"XX000": false, "XX001": false,
		"99922": false, // the class is in front
	} {
		if got := Unwritable(fmt.Errorf("of this: %w", Unavailable("change", code))); got != want {
			t.Errorf("%s: %v", code, got)
		}
	}
	if Unwritable(nil) || Unwritable(errors.New("22021")) {
		t.Error("the code is the server's alone")
	}
}

// What was gathered since a mark is undone, and nothing before it.
func TestMarks(t *testing.T) {
	m := furnished(false)
	tx := &Tx{Env: NewEnv(Options{}), Memory: m}
	did := ""
	tx.AfterCommit(func() { did += "a" })
	tx.Events = append(tx.Events, Event{ID: "1"})
	mark := tx.Mark()
	tx.AfterCommit(func() { did += "b" })
	tx.Put(facts.ClientApproved("quill"))
	tx.Events = append(tx.Events, Event{ID: "2"}, Event{ID: "3"})
	tx.Back(mark)
	tx.AfterCommit(func() { did += "c" })
	tx.Put(facts.ClientApproved("other"), facts.RoleChange{})
	tx.Apply()
	if len(tx.Events) != 1 || did != "ac" {
		t.Errorf("%+v, %s", tx.Events, did)
	}
	if rows := tx.ChangedRows(); !slices.Equal(rows, []ChangedRow{{"client", "other", false}, {"role", "", false}}) {
		t.Errorf("changed %v", rows)
	}
	if err := tx.PutMade(approval.Approval{Client: "nobody"}); err == nil || len(tx.Changes) != 4 {
		t.Errorf("what stands on nothing is put: %v, %d", err, len(tx.Changes))
	}
}

// A value is what the column of every engine holds, or refused.
func TestCopyValue(t *testing.T) {
	upper := strings.ToUpper
	for _, tt := range []struct {
		v     any
		holds string
		want  string // "" is refused
	}{
		{int64(7), schema.Numbers, "int64 7"}, {int64(7), schema.Texts, ""}, {int64(7), schema.Octets, ""},
		{"a", schema.Texts, "string A"}, {"a", schema.Octets, "[]uint8 [97]"}, {"a", schema.Numbers, ""},
		{[]byte("a"), schema.Texts, "string A"}, {[]byte("a"), schema.Octets, "[]uint8 [97]"}, {[]byte(nil), schema.Octets, "[]uint8 []"}, {[]byte("a"), schema.Numbers, ""},
		{nil, schema.Texts, ""}, {1.5, schema.Numbers, ""},
	} {
		got, err := CopyValue(tt.v, schema.Column{Name: "c", Holds: tt.holds}, upper)
		if said := fmt.Sprintf("%T %v", got, got); (tt.want == "") != errors.Is(err, ErrRow) || tt.want != "" && said != tt.want {
			t.Errorf("%T in %s: %s, %v", tt.v, tt.holds, said, err)
		}
		if b, ok := got.([]byte); ok && b == nil {
			t.Error("octets became NULL")
		}
	}
}

// Room that was taken is given back once.
func TestRoomIsGivenBackOnce(t *testing.T) {
	m := furnished(false)
	w := facts.Weight{Network: facts.Block(1), Bytes: 100}
	var seen []facts.Held
	take := func(bound string) *Reserved {
		at, _, said := m.Reserve(w, func(there, of facts.Held) string {
			seen = append(seen, there, of)
			return bound
		})
		if said != bound || (at == nil) != (bound != "") {
			t.Errorf("%v, %q, want %q", at, said, bound)
		}
		return at
	}
	first := take("")
	take("full")
	take("")
	m.Leave(first)
	m.Leave(first)
	take("full")
	want := []facts.Held{{}, {}, {Clients: 1, Bytes: 100}, {Clients: 1, Bytes: 100}, {Clients: 1, Bytes: 100}, {Clients: 1, Bytes: 100}, {Clients: 1, Bytes: 100}, {Clients: 1, Bytes: 100}}
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("held %v, want %v", seen, want)
	}
}

// Options that say nothing have the contract's numbers, and those that do keep theirs.
func TestOptions(t *testing.T) {
	o := NewEnv(Options{}).Options
	if o.JournalRetention != 365*24*time.Hour || o.AttemptsKeep != 7*24*time.Hour || o.SessionIdle != 12*time.Hour || o.SessionMax != 720*time.Hour || o.Now == nil || o.Log == nil {
		t.Errorf("%+v", o)
	}
	if e := NewEnv(Options{}); e.Clock.Steady == nil || e.Clock.Steady() < 0 {
		t.Error("no steady clock")
	}
	e := NewEnv(Options{Now: time.Now, JournalRetention: 1, AttemptsKeep: 2, SessionIdle: 3, SessionMax: 4, Impersonal: true})
	if o := e.Options; o.JournalRetention != 1 || o.AttemptsKeep != 2 || o.SessionIdle != 3 || o.SessionMax != 4 || e.Clock.Steady != nil || !e.Memory.Impersonal {
		t.Errorf("%+v", o)
	}
	took := ""
	e.Timed("x", time.Now()) // nobody is told
	e.Options.Took = func(query string, d time.Duration) { took = query }
	if e.Timed("x", time.Now()); took != "x" {
		t.Error("nobody is told how long it took")
	}
}

// The time that a database has seen is gone on from, and that the machine's is behind
// that is said from one second on.
func TestGoOnFrom(t *testing.T) {
	for behind, said := range map[time.Duration]bool{0: false, time.Second: false, 1001 * time.Millisecond: true, -time.Hour: false} {
		var log strings.Builder
		e := NewEnv(Options{Now: func() time.Time { return time.Unix(5000, 0).Add(-behind) }, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err := e.Clock.GoOnFrom("5000"); err != nil || e.Clock.Saved.Load() != 5000 || e.Now().Unix() < 5000 {
			t.Errorf("%v, %d, %v", err, e.Clock.Saved.Load(), e.Now())
		}
		if e.WarnBehind(); (log.Len() > 0) != said {
			t.Errorf("%v behind: %s", behind, log.String())
		}
	}
	if err := new(Clock).GoOnFrom("soon"); err == nil {
		t.Error("a word is taken for a time")
	}
}

// A ring is the database's when all keys of the database are in it, as they are.
func TestNewKeys(t *testing.T) {
	one, two := token.NewKey(1, [32]byte{1}), token.NewKey(2, [32]byte{2})
	ring, err := token.NewRing("sv", 1, one, two)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		known map[string]string
		added int // -1 is refused
	}{
		{"a new database", map[string]string{}, 2},
		{"one of them", map[string]string{"key.1": one.Fingerprint()}, 1},
		{"both", map[string]string{"key.1": one.Fingerprint(), "key.2": two.Fingerprint()}, 0},
		{"another under its number", map[string]string{"key.1": two.Fingerprint()}, -1},
		{"one more", map[string]string{"key.1": one.Fingerprint(), "key.3": "x"}, -1},
	} {
		added, err := NewKeys(ring, tt.known)
		if (tt.added < 0) != errors.Is(err, ErrKeys) || tt.added >= 0 && len(added) != tt.added {
			t.Errorf("%s: %v, %v", tt.name, added, err)
		}
	}
	if NewestKey(ring) != 2 || NewestKey(nil) != 0 {
		t.Error(NewestKey(ring), NewestKey(nil))
	}
}

// An entry has its act's reason, beside one of its own as its detail.
func TestReasonsOfActs(t *testing.T) {
	act := Act{Actor: "operator", Address: "192.0.2.1", Reference: "r", Reason: "asked"}
	for e, want := range map[Event]Event{
		{}:                           {Reason: "asked"},
		{Reason: "own"}:              {Reason: "own", Detail: "asked"},
		{Reason: "own", Detail: "d"}: {Reason: "own", Detail: "d"},
	} {
		want.Actor, want.Address, want.Reference = "operator", "192.0.2.1", "r"
		if got := e.By(act); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if !(Event{Kind: journal.ApprovalEnded, Reason: "state_lost"}).ProvesRewound() || (Event{Kind: journal.ApprovalEnded, Reason: "unused"}).ProvesRewound() || (Event{Kind: journal.CodeReused, Reason: "state_lost"}).ProvesRewound() {
		t.Error("a token from the future proves that the database went back, and nothing else does")
	}
}
