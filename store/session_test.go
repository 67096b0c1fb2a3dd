package store

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/org"
)

// AddSession is a sign-in that proves nothing.
func (h house) AddSession(ctx context.Context, value, person string, act Act) error {
	return h.Enter(ctx, Entry{Value: value, Person: person}, act)
}

// withSupport adds two people of the support staff, of whom nils is signed in.
func withSupport(t testing.TB) house {
	t.Helper()
	h := furnished(t)
	if err := h.AddDirectory(ctx, directory.Directory{
		People: []directory.Person{
			{Person: org.Person{ID: "nils", Email: "nils@svalinn.example", Name: "Nils", Active: true, Support: true}, PasswordHash: "$argon2id$x"},
			{Person: org.Person{ID: "siri", Email: "siri@svalinn.example", Name: "Siri", Active: true, Support: true}},
		},
		Members: []directory.Member{{Person: "siri", Organization: "nordlys", Admin: false}},
	}, Act{Actor: "system"}); err != nil {
		t.Fatal(err)
	}
	h.signIn(t, "nils-1", "nils")
	return h
}

func (h house) signIn(t testing.TB, value, person string) {
	t.Helper()
	if err := h.AddSession(ctx, value, person, Act{Actor: "person:" + person, Address: "203.0.113.9"}); err != nil {
		t.Fatal(err)
	}
}

func asAda(from, to string) Acting {
	return Acting{Session: from, Next: to, Person: "ada", Organization: "nordlys"}
}

var byNils = Act{Actor: "person:nils", Reason: "ticket 17"}

// is requires who a session's value stands for; "" is nobody.
func (h house) is(t testing.TB, value, person, actor string) {
	t.Helper()
	s, err := h.Session(ctx, value)
	if person == "" {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: got %+v, %v; want no session", value, s, err)
		}
		return
	}
	if err != nil || s.Person != person || s.Actor != actor {
		t.Errorf("%s: got %+v, %v; want %s by %q", value, s, err, person, actor)
	}
}

func (h house) events(t testing.TB, kind journal.Kind) []Event {
	t.Helper()
	all, _, err := h.Events(ctx, EventFilter{Kind: kind})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Decision P9: a session has another value after each change of who it stands
// for, and every start and stop names both.
func TestActing(t *testing.T) {
	h := withSupport(t)
	if err := h.StartActing(ctx, asAda("nils-1", "nils-2"), byNils); err != nil {
		t.Fatal(err)
	}
	h.is(t, "nils-1", "", "")
	h.is(t, "nils-2", "ada", "nils")
	if e := h.events(t, "impersonation_started"); len(e) != 1 || e[0].Person != "ada" || e[0].Actor != "person:nils" ||
		e[0].Organization != "nordlys" || e[0].Reason != "ticket 17" {
		t.Errorf("started: %+v", e)
	}
	if err := h.StopActing(ctx, "nils-2", "nils-3", byNils); err != nil {
		t.Fatal(err)
	}
	h.is(t, "nils-2", "", "")
	h.is(t, "nils-3", "nils", "")
	if e := h.events(t, "impersonation_stopped"); len(e) != 1 || e[0].Person != "ada" || e[0].Actor != "person:nils" {
		t.Errorf("stopped: %+v", e)
	}
	if err := h.StopActing(ctx, "nils-3", "nils-4", byNils); !errors.Is(err, ErrNotFound) {
		t.Errorf("stopped twice: %v", err)
	}
	h.is(t, "nils-3", "nils", "")
}

// Decision P9: what ends it, beside stopping.
func TestActingEnds(t *testing.T) {
	for name, end := range map[string]func(h house) error{
		"after an hour":      func(h house) error { h.clock.add(ActingLifetime); return nil },
		"actor deactivated":  func(h house) error { return h.SetActive(ctx, "nils", false, Act{}) },
		"person deactivated": func(h house) error { return h.SetActive(ctx, "ada", false, Act{}) },
		"person off and on": func(h house) error {
			h.SetActive(ctx, "ada", false, Act{})
			return h.SetActive(ctx, "ada", true, Act{})
		},
		"person left":               func(h house) error { return h.RemoveMember(ctx, "nordlys", "ada", Act{}) },
		"actor's password changed":  func(h house) error { return h.SetPassword(ctx, "nils", "$argon2id$y", Act{}) },
		"actor's session ended":     func(h house) error { return h.EndSession(ctx, "nils-2") },
		"actor is no support staff": func(h house) error { return h.makeSupport("nils", false) },
		"person is support staff":   func(h house) error { return h.makeSupport("ada", true) },
	} {
		h := withSupport(t)
		if err := h.StartActing(ctx, asAda("nils-1", "nils-2"), byNils); err != nil {
			t.Fatal(err)
		}
		h.clock.add(ActingLifetime - time.Second)
		h.is(t, "nils-2", "ada", "nils")
		if name == "after an hour" {
			h.clock.add(time.Second - ActingLifetime)
		}
		if err := end(h); err != nil {
			t.Fatal(err)
		}
		t.Log(name)
		h.is(t, "nils-2", "", "")
	}
}

func (h house) makeSupport(person string, on bool) error {
	p, err := h.Person(ctx, person)
	if err != nil {
		return err
	}
	p.Support = on
	return h.AddDirectory(ctx, directory.Directory{People: []directory.Person{{Person: p}}}, Act{Actor: "operator"})
}

func TestActingRefused(t *testing.T) {
	h := withSupport(t)
	h.signIn(t, "tor-1", "tor")
	h.signIn(t, "nils-2", "nils")
	if err := h.StartActing(ctx, asAda("nils-2", "nils-3"), byNils); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		a    Acting
		want error
	}{
		"by nobody of the staff": {asAda("tor-1", "x"), ErrNotAllowed},
		"by no session":          {asAda("nowhere", "x"), ErrNotFound},
		"by one who acts":        {asAda("nils-3", "x"), ErrNotAllowed},
		"as staff":               {Acting{Session: "nils-1", Next: "x", Person: "siri", Organization: "nordlys"}, ErrNotAllowed},
		"as no member there":     {Acting{Session: "nils-1", Next: "x", Person: "tor", Organization: "fjell"}, ErrNotFound},
		"as nobody":              {Acting{Session: "nils-1", Next: "x", Person: "nobody", Organization: "nordlys"}, ErrNotFound},
		"as oneself":             {Acting{Session: "nils-1", Next: "x", Person: "nils", Organization: "nordlys"}, ErrNotFound},
	} {
		if err := h.StartActing(ctx, c.a, byNils); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		h.is(t, "x", "", "")
	}
	h.is(t, "nils-1", "nils", "")
	h.is(t, "tor-1", "tor", "")
	if e := h.events(t, "impersonation_started"); len(e) != 1 {
		t.Errorf("%d starts, want 1", len(e))
	}
}

// What has ended by itself is journaled too, once.
func TestSweepStopsActing(t *testing.T) {
	h := withSupport(t)
	if err := h.StartActing(ctx, asAda("nils-1", "nils-2"), byNils); err != nil {
		t.Fatal(err)
	}
	h.clock.add(ActingLifetime - time.Second)
	for _, want := range []int{0, 1, 1} {
		if _, err := h.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		e := h.events(t, "impersonation_stopped")
		if len(e) != want {
			t.Fatalf("%d stops, want %d", len(e), want)
		}
		if want == 1 && (e[0].Person != "ada" || e[0].Actor != "person:nils") {
			t.Errorf("stopped: %+v", e[0])
		}
		h.clock.add(time.Second)
	}
}

func TestSessionsOfAPerson(t *testing.T) {
	h := furnished(t)
	for i, value := range []string{"first", "second", "third"} {
		h.clock.add(time.Duration(i) * time.Hour)
		h.signIn(t, value, "ada")
	}
	h.signIn(t, "tors", "tor")
	list := func(current string) []SessionInfo {
		t.Helper()
		all, err := h.Sessions(ctx, "ada", current)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	all := list("second")
	if len(all) != 3 || all[0].Current || !all[1].Current || all[2].Current || all[0].Address != "203.0.113.9" || all[0].Browser+all[0].System != "" ||
		all[0].CreatedAt-all[2].CreatedAt != 3*3600 {
		t.Fatalf("got %+v", all)
	}
	end := func(which func(SessionInfo) bool, person string) int {
		t.Helper()
		n, err := h.EndSessions(ctx, person, which, "second", Act{Actor: "person:" + person})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := end(func(i SessionInfo) bool { return i.ID == all[0].ID }, "tor"); n != 0 {
		t.Errorf("Tor ended %d sessions of Ada", n)
	}
	if n := end(func(i SessionInfo) bool { return i.ID == all[0].ID }, "ada"); n != 1 {
		t.Errorf("ended %d, want 1", n)
	}
	h.is(t, "third", "", "")
	if n := end(func(i SessionInfo) bool { return !i.Current }, "ada"); n != 1 {
		t.Errorf("ended %d others, want 1", n)
	}
	h.is(t, "first", "", "")
	h.is(t, "second", "ada", "")
	h.is(t, "tors", "tor", "")
	h.clock.add(13 * time.Hour)
	if all := list("second"); len(all) != 0 {
		t.Errorf("idle ones are listed: %+v", all)
	}
}

// Case A-10: sessions end, approvals stay.
func TestChangePassword(t *testing.T) {
	h := furnished(t)
	id := h.live(t, h.answer(1))
	h.signIn(t, "first", "ada")
	h.signIn(t, "other", "ada")
	h.signIn(t, "tors", "tor")
	proof := identity.Proof{ProvedAt: 5, FactorAt: 4, Issuer: "https://a.example", Subject: "1", SID: "far"}
	if err := h.Enter(ctx, Entry{Value: "asks", Person: "ada", Proof: proof, Browser: "Chrome", System: "Linux"}, Act{Address: "192.0.2.1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.AddReset(ctx, "link", "ada", ResetLifetime, Act{}); err != nil {
		t.Fatal(err)
	}
	change := PasswordChange{Person: "ada", Checked: "$argon2id$wrong", Hash: "$argon2id$y", Session: "asks", Next: "next"}
	if err := h.ChangePassword(ctx, change, Act{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("with another password: %v", err)
	}
	h.is(t, "first", "ada", "")
	change.Checked = "$argon2id$x"
	for _, ended := range []string{"ended", "tors"} {
		change.Session = ended
		if err := h.ChangePassword(ctx, change, Act{}); !errors.Is(err, ErrNotAllowed) {
			t.Errorf("from the session %q: %v", ended, err)
		}
	}
	change.Session = "asks"
	h.clock.add(time.Hour)
	if err := h.ChangePassword(ctx, change, Act{Address: "192.0.2.2"}); err != nil {
		t.Fatal(err)
	}
	// It goes on with all that it was: nothing is proved by the change.
	if p, err := h.Proof(ctx, "next"); err != nil || p != proof {
		t.Errorf("proof %+v %v, want %+v", p, err, proof)
	}
	if all, err := h.Sessions(ctx, "ada", "next"); err != nil || len(all) != 1 || all[0].CreatedAt != h.Now().Add(-time.Hour).Unix() || all[0].Address != "192.0.2.1" ||
		all[0].Browser != "Chrome" || all[0].System != "Linux" {
		t.Errorf("sessions %+v %v", all, err)
	}
	if _, err := h.ResetOf(ctx, "link"); !errors.Is(err, ErrNotFound) {
		t.Errorf("an open reset link: %v", err)
	}
	if n, err := h.EndSessionsAt(ctx, Farewell{Issuer: proof.Issuer, SID: "elsewhere"}, Act{}); n != 0 || err != nil {
		t.Errorf("another logout ends %d, %v", n, err)
	}
	for value, person := range map[string]string{"first": "", "other": "", "asks": "", "next": "ada", "tors": "tor"} {
		h.is(t, value, person, "")
	}
	if n, err := h.EndSessionsAt(ctx, Farewell{Issuer: proof.Issuer, SID: proof.SID}, Act{}); n != 1 || err != nil {
		t.Errorf("the provider's logout ends %d, %v", n, err)
	}
	if a, err := h.Approval(ctx, id); err != nil || a.Phase != approval.Live {
		t.Errorf("the approval: %v %v", a.Phase, err)
	}
}

func TestReset(t *testing.T) {
	h := furnished(t)
	link := func(value string) {
		t.Helper()
		ends, err := h.AddReset(ctx, value, "ada", ResetLifetime, Act{Actor: "operator"})
		if err != nil || ends != h.Now().Add(ResetLifetime).Unix() {
			t.Fatal(ends, err)
		}
	}
	dead := func(when string, values ...string) {
		t.Helper()
		for _, value := range values {
			if _, err := h.ResetOf(ctx, value); !errors.Is(err, ErrNotFound) {
				t.Errorf("%s, %s: %v", when, value, err)
			}
			if err := h.Reset(ctx, value, "$argon2id$evil", Act{}); !errors.Is(err, ErrNotFound) {
				t.Errorf("%s, %s sets a password: %v", when, value, err)
			}
		}
	}
	link("one")
	link("two")
	dead("replaced or made up", "one", "three")
	h.signIn(t, "session", "ada")
	if p, err := h.ResetOf(ctx, "two"); err != nil || p.ID != "ada" {
		t.Fatal(p, err)
	}
	h.clock.add(ResetLifetime - time.Second)
	if err := h.Reset(ctx, "two", "$argon2id$new", Act{}); err != nil {
		t.Fatal(err)
	}
	dead("used", "two")
	h.is(t, "session", "", "")
	link("three")
	h.clock.add(ResetLifetime)
	dead("over", "three")
	link("four")
	if err := h.SetActive(ctx, "ada", false, Act{}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.AddReset(ctx, "five", "ada", ResetLifetime, Act{}); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("a link for a deactivated person: %v", err)
	}
	if err := h.SetActive(ctx, "ada", true, Act{}); err != nil {
		t.Fatal(err)
	}
	dead("from before the deactivation", "four", "five")
	if _, hash, err := h.Password(ctx, "ada@nordlys.example"); hash != "$argon2id$new" || err != nil {
		t.Errorf("the password is %q, %v", hash, err)
	}
	h.clock.add(ResetLifetime)
	if swept, err := h.Sweep(ctx); err != nil || swept.Resets != 1 {
		t.Errorf("swept %+v, %v", swept, err)
	}
}

func TestSwitchIntegration(t *testing.T) {
	h := furnished(t)
	if s, err := h.Switched(ctx, "nordlys"); err != nil || s != (Switched{"system", h.Now().Unix()}) {
		t.Errorf("from the directory: %+v, %v", s, err)
	}
	h.clock.add(time.Hour)
	id := h.live(t, h.answer(1))
	for _, on := range []bool{true, false} {
		if err := h.SwitchIntegration(ctx, "nordlys", "tor", on, Act{}); !errors.Is(err, ErrNotAllowed) {
			t.Errorf("by Tor, who is no admin: %v", err)
		}
	}
	if s, _ := h.Switched(ctx, "nordlys"); s.Actor != "system" {
		t.Errorf("switched by %q", s.Actor)
	}
	for _, on := range []bool{false, true} {
		if err := h.SwitchIntegration(ctx, "nordlys", "ada", on, Act{Actor: "person:ada"}); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := h.Switched(ctx, "nordlys"); err != nil || s != (Switched{"person:ada", h.Now().Unix()}) {
		t.Errorf("by Ada: %+v, %v", s, err)
	}
	if a, _ := h.Approval(ctx, id); a.Reason != approval.IntegrationOff {
		t.Errorf("the approval ended by %q", a.Reason)
	}
}

// Decision P8.
func TestEndAsAdmin(t *testing.T) {
	h := furnished(t)
	id := h.live(t, h.answer(1))
	for name, err := range map[string]error{
		"no admin":                h.EndAsAdmin(ctx, "nordlys", "tor", id, Act{}),
		"admin of another":        h.EndAsAdmin(ctx, "fjell", "ada", id, Act{}),
		"nobody":                  h.EndAsAdmin(ctx, "nordlys", "nobody", id, Act{}),
		"no approval":             h.EndAsAdmin(ctx, "nordlys", "ada", approval.ID{1}, Act{}),
		"approval somewhere else": h.otherAdmin(id),
	} {
		if !errors.Is(err, ErrNotAllowed) && !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if a, _ := h.Approval(ctx, id); a.Phase != approval.Live {
		t.Fatalf("it has ended by %q", a.Reason)
	}
	for range 2 {
		if err := h.EndAsAdmin(ctx, "nordlys", "ada", id, Act{Actor: "person:ada"}); err != nil {
			t.Fatal(err)
		}
	}
	e := h.events(t, "approval_ended")
	if len(e) != 1 || e[0].Actor != "person:ada" || e[0].Reason != "revoked_by_admin" {
		t.Errorf("events %+v", e)
	}
}

func (h house) otherAdmin(id approval.ID) error {
	if err := h.SetAdmin(ctx, "fjell", "ada", true, Act{}); err != nil {
		return err
	}
	return h.EndAsAdmin(ctx, "fjell", "ada", id, Act{})
}

func TestLeftRoles(t *testing.T) {
	h := furnished(t)
	want := func(when string, want map[string]int64) {
		t.Helper()
		if got, err := h.LeftRoles(ctx, "ada", "nordlys"); err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: got %v, %v; want %v", when, got, err, want)
		}
	}
	want("at first", map[string]int64{})
	for range 2 {
		h.clock.add(time.Hour)
		at := h.Now().Unix()
		for _, on := range []bool{false, false, true} {
			if err := h.SetFiller(ctx, "treasurer", "ada", on, Act{}); err != nil {
				t.Fatal(err)
			}
			want("left and given back", map[string]int64{"treasurer": at})
			h.clock.add(time.Minute)
		}
	}
	at := h.Now().Unix()
	if err := h.RemoveMember(ctx, "nordlys", "ada", Act{}); err != nil {
		t.Fatal(err)
	}
	want("removed", map[string]int64{"treasurer": at})
}

// A link that was mailed to one address proves nothing once the account has
// another; another name leaves it.
func TestResetEndsWithTheEmail(t *testing.T) {
	h := furnished(t)
	ctx, act := t.Context(), Act{Actor: "operator"}
	if _, err := h.AddReset(ctx, "link", "ada", AskedLifetime, act); err != nil {
		t.Fatal(err)
	}
	put := func(email, name string) {
		t.Helper()
		if err := h.AddDirectory(ctx, directory.Directory{People: []directory.Person{{Person: org.Person{ID: "ada", Email: email, Name: name, Active: true}}}}, act); err != nil {
			t.Fatal(err)
		}
	}
	put("Ada@nordlys.example", "Ada L.")
	if _, err := h.ResetOf(ctx, "link"); err != nil {
		t.Errorf("after another name: %v", err)
	}
	put("ada@fjell.example", "Ada L.")
	if _, err := h.ResetOf(ctx, "link"); !errors.Is(err, ErrNotFound) {
		t.Errorf("after another email: %v", err)
	}
	if ends, err := h.AddReset(ctx, "link", "ada", AskedLifetime, act); err != nil || ends != h.Now().Add(time.Hour).Unix() {
		t.Errorf("ends %d %v", ends, err)
	}
}
