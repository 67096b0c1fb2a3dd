package store

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
)

// A subject is one person, and a person one subject of each issuer; what is
// refused leaves no session behind.
func TestSubjectsAndPeople(t *testing.T) {
	h := furnished(t)
	value := 0
	enter := func(issuer, subject, person string) error {
		value++
		err := h.Enter(ctx, Entry{Value: string(rune('a' + value)), Person: person, Bind: true,
			Proof: identity.Proof{ProvedAt: 5, Issuer: issuer, Subject: subject}}, Act{})
		if _, stands := h.Session(ctx, string(rune('a'+value))); (err == nil) != (stands == nil) {
			t.Errorf("%s as %s: %v, and the session %v", subject, person, err, stands)
		}
		return err
	}
	for _, tt := range []struct {
		issuer, subject, person string
		want                    error
	}{
		{"https://a.example", "1", "ada", nil},
		{"https://a.example", "1", "ada", nil},
		{"https://a.example", "1", "tor", ErrConflict},
		{"https://a.example", "2", "ada", ErrConflict},
		{"https://a.example", "2", "tor", nil},
		{"https://b.example", "1", "tor", nil},
		{"https://b.example", "2", "nobody", ErrNotFound},
	} {
		if err := enter(tt.issuer, tt.subject, tt.person); !errors.Is(err, tt.want) {
			t.Errorf("%s at %s as %s: got %v, want %v", tt.subject, tt.issuer, tt.person, err, tt.want)
		}
	}
	for subject, want := range map[string]error{"1": nil, "3": ErrConflict} { // of Ada, and of nobody
		err := h.Enter(ctx, Entry{Value: "acting" + subject, Person: "ada", By: "support", Proof: identity.Proof{Issuer: "https://a.example", Subject: subject}}, Act{})
		if !errors.Is(err, want) {
			t.Errorf("acting as Ada by subject %s: got %v, want %v", subject, err, want)
		}
	}
	if s, err := h.Session(ctx, "acting1"); err != nil || s.ActedBy != "support" {
		t.Errorf("got %+v, %v", s, err)
	}
	h = h.reopen(t)
	if p, err := h.Subject(ctx, "https://a.example", "2"); err != nil || p.ID != "tor" {
		t.Errorf("got %+v, %v", p, err)
	}
	if _, err := h.Subject(ctx, "https://b.example", "2"); !errors.Is(err, ErrNotFound) {
		t.Errorf("of nobody: %v", err)
	}
	if p, err := h.Proof(ctx, "b"); err != nil || p != (identity.Proof{ProvedAt: 5, Issuer: "https://a.example", Subject: "1"}) {
		t.Errorf("got %+v, %v", p, err)
	}
	if err := h.AddSession(ctx, "plain", "ada", Act{}); err != nil {
		t.Fatal(err)
	}
	if p, err := h.Proof(ctx, "plain"); err != nil || p != (identity.Proof{}) {
		t.Errorf("by password: got %+v, %v", p, err)
	}
}

// What counts once counts once, also among eight at the same moment, and is
// forgotten only when it is worth nothing any more.
func TestOnce(t *testing.T) {
	h := furnished(t)
	until := h.Now().Add(time.Minute)
	results := make(chan error, 8)
	for i := range cap(results) {
		go func() {
			results <- h.Enter(ctx, Entry{Value: string(rune('a' + i)), Person: "ada", Once: "x", OnceUntil: until}, Act{})
		}()
	}
	entered := 0
	for range cap(results) {
		if err := <-results; err == nil {
			entered++
		} else if !errors.Is(err, ErrAnswered) {
			t.Error(err)
		}
	}
	if entered != 1 {
		t.Errorf("%d entered, want one", entered)
	}
	again := func() error {
		return h.Enter(ctx, Entry{Value: "z", Person: "ada", Once: "x", OnceUntil: until}, Act{})
	}
	if _, err := h.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	if err := again(); !errors.Is(err, ErrAnswered) {
		t.Errorf("after a sweep: %v", err)
	}
}

// A session that takes the place of another ends it, and nobody else's.
func TestEntryInPlaceOfAnother(t *testing.T) {
	h := furnished(t)
	for value, person := range map[string]string{"adas": "ada", "tors": "tor"} {
		if err := h.AddSession(ctx, value, person, Act{}); err != nil {
			t.Fatal(err)
		}
	}
	for value, ends := range map[string]string{"new": "adas", "newer": "tors"} {
		if err := h.Enter(ctx, Entry{Value: value, Person: "ada", Ends: ends}, Act{}); err != nil {
			t.Fatal(err)
		}
	}
	for value, want := range map[string]bool{"adas": false, "tors": true, "new": true} {
		if _, err := h.Session(ctx, value); (err == nil) != want {
			t.Errorf("session %s: %v, want %v", value, err, want)
		}
	}
	if err := h.Enter(ctx, Entry{Value: "x", Person: "ada", Password: "another"}, Act{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("with another password: %v", err)
	}
}

func TestProvision(t *testing.T) {
	h := furnished(t)
	for _, tt := range []struct {
		id, email string
		want      error
	}{
		{"new", "new@nordlys.example", nil}, {"new", "other@nordlys.example", ErrConflict},
		{"other", "NEW@nordlys.example", ErrConflict}, {"ada", "third@nordlys.example", ErrConflict},
	} {
		err := h.Provision(ctx, org.Person{ID: tt.id, Email: tt.email, Name: tt.id, Active: true}, Act{})
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.id, err, tt.want)
		}
	}
	if p, err := h.Person(ctx, "new@nordlys.example"); err != nil || p.ID != "new" {
		t.Errorf("got %+v, %v", p, err)
	}
	if p, err := h.Vouched(ctx, "new"); !errors.Is(err, ErrNotFound) {
		t.Errorf("an ID is taken for an email: %+v, %v", p, err)
	}
	h.same(t, "provisioned")
}

// A code counts once, among eight who show it at the same moment, and a
// recovery code is gone then.
func TestFactorsCountOnce(t *testing.T) {
	h := furnished(t)
	factors := []Factor{{ID: "app", Kind: FactorOneTime, Secret: "s", Counter: 5}, {ID: "r1", Kind: FactorRecovery, Secret: "x"}, {ID: "r2", Kind: FactorRecovery, Secret: "y"}}
	if err := h.AddFactors(ctx, "ada", "", factors, Act{}); err != nil {
		t.Fatal(err)
	}
	for n, f := range factors[:2] {
		f.Person = "ada"
		results := make(chan error, 8)
		for i := range cap(results) {
			go func() {
				results <- h.Enter(ctx, Entry{Value: fmt.Sprint(n, i), Person: "ada", Factor: FactorUse{Factor: f, Counter: 6, Secret: "t"}}, Act{})
			}()
		}
		entered := 0
		for range cap(results) {
			if err := <-results; err == nil {
				entered++
			} else if !errors.Is(err, ErrAnswered) {
				t.Error(err)
			}
		}
		if entered != 1 {
			t.Errorf("%s: %d entered, want one", f.Kind, entered)
		}
	}
	got, err := h.Factors(ctx, "ada")
	if err != nil || len(got) != 2 || got[0].Counter != 6 || got[0].Secret != "t" || got[1].ID != "r2" {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := h.Enter(ctx, Entry{Value: "z", Person: "tor", Factor: FactorUse{Factor: Factor{ID: "r2", Person: "tor", Kind: FactorRecovery}}}, Act{}); !errors.Is(err, ErrAnswered) {
		t.Errorf("another's recovery code: %v", err)
	}
	if err := h.AddFactors(ctx, "ada", "", []Factor{{ID: "app", Kind: FactorOneTime}}, Act{}); !errors.Is(err, ErrAnswered) {
		t.Errorf("twice: %v", err)
	}
	for i := range MaxFactors {
		err = h.AddFactors(ctx, "ada", "", []Factor{{ID: fmt.Sprint("more", i), Kind: FactorOneTime}}, Act{})
	}
	if !errors.Is(err, ErrConflict) {
		t.Errorf("one more than may be: %v", err)
	}
}

// Whoever has a second factor enters by no password alone, also when it is added
// while they sign in, on another node; and what another session proved before it was
// added changes nothing any more (decision S5).
func TestFactorsAddedAtOnce(t *testing.T) {
	on := nodes(t, 2)
	h, other := on[0], on[1]
	alone := func(value string) Entry {
		return Entry{Value: value, Person: "ada", Password: "$argon2id$x", Proof: identity.Proof{ProvedAt: h.Now().Unix()}}
	}
	for i := range 20 {
		owner := fmt.Sprint("owner", i)
		if err := h.Enter(ctx, alone(owner), Act{}); err != nil {
			t.Fatal(err)
		}
		f := Factor{ID: fmt.Sprint("app", i), Kind: FactorOneTime, Secret: "s"}
		var wait sync.WaitGroup
		wait.Go(func() {
			if err := h.AddFactors(ctx, "ada", owner, []Factor{f}, Act{}); err != nil {
				t.Error(err)
			}
		})
		guessed := make([]string, 4)
		for k := range guessed {
			guessed[k] = fmt.Sprint("guessed", i, k)
			wait.Go(func() {
				if err := other.Enter(ctx, alone(guessed[k]), Act{}); err != nil && !errors.Is(err, ErrNotAllowed) {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if err := other.Enter(ctx, alone("later"), Act{}); !errors.Is(err, ErrNotAllowed) {
			t.Errorf("by the password alone: %v", err)
		}
		for _, value := range guessed {
			if p, err := other.Proof(ctx, value); err == nil && p.ProvedAt > 0 {
				t.Errorf("%s has proved something: %+v", value, p)
			}
			for what, err := range map[string]error{
				"removed":  other.RemoveFactor(ctx, "ada", value, f.ID, Act{}),
				"password": other.ChangePassword(ctx, PasswordChange{Person: "ada", Checked: "$argon2id$x", Hash: "$argon2id$y", Session: value, Next: "next" + value}, Act{}),
				"added":    other.AddFactors(ctx, "ada", value, []Factor{{ID: "theirs", Kind: FactorRecovery}}, Act{}),
			} {
				if !errors.Is(err, ErrNotAllowed) {
					t.Errorf("%s by a session of before: %v", what, err)
				}
			}
		}
		if err := h.RemoveFactor(ctx, "ada", owner, f.ID, Act{}); err != nil {
			t.Error(err)
		}
	}
}
