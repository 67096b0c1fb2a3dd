package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/org"
)

const (
	strongCosts = "$argon2id$v=19$m=65536,t=4,p=1$"
	weakCosts   = "$argon2id$v=19$m=8,t=1,p=1$"
	ownCosts    = "$argon2id$v=19$m=19456,t=2,p=1$"
)

func done(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func phcOf(costs string, n int) string {
	return fmt.Sprintf("%sc29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHG%03d", costs, n)
}

func (h house) costs(t *testing.T, want ...string) {
	t.Helper()
	in, err := h.SignIn(t.Context(), "nobody@nordlys.example")
	slices.Sort(want)
	if err != nil || !slices.Equal(in.Costs, want) {
		t.Errorf("costs %q %v, want %q", in.Costs, err, want)
	}
	if in.Person.ID != "" || in.Hash != "" {
		t.Errorf("nobody is %+v", in)
	}
}

// Every way in which a password is stored makes its costs known.
func TestCostsOfPasswords(t *testing.T) {
	h := furnished(t)
	ctx, act := t.Context(), Act{Actor: "operator"}
	h.costs(t) // what the house stores is no PHC string
	done(t, h.SetPassword(ctx, "ada", phcOf(weakCosts, 1), act))
	h.costs(t, weakCosts)
	_, err := h.AddPerson(ctx, org.Person{ID: "new", Email: "new@nordlys.example", Name: "New", Active: true}, phcOf(ownCosts, 2), act)
	done(t, err)
	h.costs(t, weakCosts, ownCosts)
	done(t, h.AddDirectory(ctx, directory.Directory{People: []directory.Person{
		{Person: org.Person{ID: "other", Email: "other@nordlys.example", Name: "Other", Active: true}, PasswordHash: phcOf(strongCosts, 3)}}}, act))
	h.costs(t, weakCosts, ownCosts, strongCosts)
	in, err := h.SignIn(ctx, "Other@nordlys.example")
	if err != nil || in.Person.ID != "other" || in.Hash != phcOf(strongCosts, 3) || len(in.Costs) != 3 {
		t.Errorf("%+v %v", in, err)
	}
}

// Costs are forgotten with the last password that had them, and no session ends
// by another hash of the same password.
func TestRehash(t *testing.T) {
	h := furnished(t)
	ctx, act := t.Context(), Act{Actor: "operator"}
	done(t, h.SetPassword(ctx, "ada", phcOf(weakCosts, 1), act))
	done(t, h.SetPassword(ctx, "tor", phcOf(weakCosts, 2), act))
	done(t, h.Enter(ctx, Entry{Value: "session", Person: "ada"}, act))
	_, err := h.AddReset(ctx, "a link", "ada", ResetLifetime, act)
	done(t, err)

	done(t, h.Rehash(ctx, "ada", phcOf(weakCosts, 1), phcOf(ownCosts, 3)))
	h.costs(t, weakCosts, ownCosts)
	if err := h.Rehash(ctx, "ada", phcOf(weakCosts, 1), phcOf(ownCosts, 4)); !errors.Is(err, ErrNotFound) {
		t.Errorf("an old hash is replaced twice: %v", err)
	}
	if in, err := h.SignIn(ctx, "ada@nordlys.example"); err != nil || in.Hash != phcOf(ownCosts, 3) {
		t.Errorf("%+v %v", in, err)
	}
	if _, err := h.Session(ctx, "session"); err != nil {
		t.Errorf("the session has ended: %v", err)
	}
	if p, err := h.ResetOf(ctx, "a link"); err != nil || p.ID != "ada" {
		t.Errorf("the link has ended: %v", err)
	}
	done(t, h.Rehash(ctx, "tor", phcOf(weakCosts, 2), phcOf(ownCosts, 5)))
	h.costs(t, ownCosts)
}

// A sweep forgets the costs that no password has any more, however it went, and
// none that one has.
func TestSweepForgetsCosts(t *testing.T) {
	h := furnished(t)
	ctx, act := t.Context(), Act{Actor: "operator"}
	sweep := func() {
		t.Helper()
		_, err := h.Sweep(ctx)
		done(t, err)
	}
	done(t, h.SetPassword(ctx, "ada", phcOf(weakCosts, 1), act))
	done(t, h.SetPassword(ctx, "tor", phcOf(strongCosts, 2), act))
	done(t, h.SetActive(ctx, "tor", false, act))
	sweep()
	h.costs(t, weakCosts, strongCosts)
	done(t, h.SetPassword(ctx, "ada", phcOf(ownCosts, 3), act))
	h.costs(t, weakCosts, ownCosts, strongCosts)
	sweep()
	h.costs(t, ownCosts, strongCosts)
	_, err := h.AddReset(ctx, "a link", "ada", ResetLifetime, act)
	done(t, err)
	done(t, h.Reset(ctx, "a link", phcOf(weakCosts, 4), act))
	sweep()
	h.costs(t, weakCosts, strongCosts)
	done(t, h.SetPassword(ctx, "ada", "", act))
	sweep()
	h.costs(t, strongCosts)
}

// Of many at once one replaces the hash.
func TestRehashAtOnce(t *testing.T) {
	h := furnished(t)
	done(t, h.SetPassword(t.Context(), "ada", phcOf(weakCosts, 1), Act{Actor: "operator"}))
	var all sync.WaitGroup
	results := make(chan error, 8)
	for i := range cap(results) {
		all.Go(func() { results <- h.Rehash(t.Context(), "ada", phcOf(weakCosts, 1), phcOf(ownCosts, i)) })
	}
	all.Wait()
	close(results)
	done := 0
	for err := range results {
		if err == nil {
			done++
		} else if !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
	}
	if done != 1 {
		t.Errorf("%d have replaced it", done)
	}
	h.costs(t, ownCosts)
}

// A password that the previous release stored, which knows no costs, makes them
// known when it is met.
func TestKnowCosts(t *testing.T) {
	h := furnished(t)
	h.sql(t, `UPDATE person SET password = '`+phcOf(strongCosts, 1)+`' WHERE id = 'ada'`)
	h.costs(t)
	h.KnowCosts(phcOf(strongCosts, 1))
	h.KnowCosts("plain")
	done(t, h.SetPassword(t.Context(), "tor", phcOf(ownCosts, 1), Act{Actor: "operator"}))
	for { // nobody waits for the note
		in, err := h.SignIn(t.Context(), "ada@nordlys.example")
		done(t, err)
		if slices.Equal(in.Costs, []string{ownCosts, strongCosts}) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// A directory may bring so many different costs, and one more is refused whole.
func TestTooManyCosts(t *testing.T) {
	h := furnished(t)
	act := Act{Actor: "operator"}
	person := func(n int, costs string) directory.Person {
		id := fmt.Sprintf("p%d", n)
		return directory.Person{Person: org.Person{ID: id, Email: id + "@nordlys.example", Name: id, Active: true}, PasswordHash: phcOf(costs, n)}
	}
	var want []string
	d := directory.Directory{}
	for n := range MaxPasswordCosts {
		want = append(want, fmt.Sprintf("$argon2id$v=19$m=%d,t=2,p=1$", 20000+n))
		d.People = append(d.People, person(2*n, want[n]), person(2*n+1, want[n]))
	}
	done(t, h.AddDirectory(t.Context(), d, act))
	h.costs(t, want...)
	err := h.AddDirectory(t.Context(), directory.Directory{People: []directory.Person{person(1, want[0]), person(90, ownCosts)}}, act)
	var at *directory.Misplaced
	if !errors.As(err, &at) || at.Index != 1 || at.List != directory.ListPeople || !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "p90") {
		t.Errorf("one more: %v", err)
	}
	h.costs(t, want...)
	done(t, h.AddDirectory(t.Context(), directory.Directory{People: []directory.Person{person(90, want[3])}}, act))
}

// The migration finds the costs of what earlier releases stored.
func TestMigrationFindsCosts(t *testing.T) {
	text := Migrations()[5].SQL
	_, fill, ok := strings.Cut(text, "INSERT INTO")
	if !ok {
		t.Fatalf("migration: %s", text)
	}
	h := furnished(t)
	for id, hash := range map[string]string{"ada": phcOf(weakCosts, 1), "tor": phcOf(strongCosts, 2)} {
		h.sql(t, `UPDATE person SET password = '`+hash+`' WHERE id = '`+id+`'`)
	}
	h.sql(t, "INSERT INTO"+fill)
	h.costs(t, weakCosts, strongCosts)
}
