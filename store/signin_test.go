package store

import (
	"errors"
	"testing"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/org"
)

// Whoever checked a password that is another one by now does not get in, and
// neither does somebody who was deactivated meanwhile.
func TestSignInWithWhatWasChecked(t *testing.T) {
	h := furnished(t)
	if err := h.Enter(ctx, Entry{Value: "first", Person: "ada", Password: "$argon2id$x"}, Act{}); err != nil {
		t.Fatal(err)
	}
	if err := h.SetPassword(ctx, "ada", "$argon2id$y", Act{}); err != nil {
		t.Fatal(err)
	}
	if err := h.Enter(ctx, Entry{Value: "second", Person: "ada", Password: "$argon2id$x"}, Act{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("the password of before: got %v, want not found", err)
	}
	if err := h.SetActive(ctx, "ada", false, Act{}); err != nil {
		t.Fatal(err)
	}
	if err := h.Enter(ctx, Entry{Value: "third", Person: "ada", Password: "$argon2id$y"}, Act{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("deactivated: got %v, want not found", err)
	}
	for _, value := range []string{"first", "second", "third"} {
		if _, err := h.Session(ctx, value); !errors.Is(err, ErrNotFound) {
			t.Errorf("session %s stands: %v", value, err)
		}
	}
}

// A fault in a change undoes it, and the writer goes on.
func TestAPanicInAChange(t *testing.T) {
	h := furnished(t)
	at, _ := h.Organization(ctx, "nordlys")
	err := h.changeFacts(func(tx *Tx) error {
		if err := tx.putOrganizations(org.Organization{ID: "nordlys", Name: "Halfway"}); err != nil {
			return err
		}
		panic("a fault")
	})
	if !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v, want unavailable", err)
	}
	if o, err := h.Organization(ctx, "nordlys"); err != nil || o != at {
		t.Errorf("it has changed: %+v, %v", o, err)
	}
	h.register(t, "afterwards")
}

// What an operator disables while it is out of the configuration stays
// disabled when it is back (decision R6).
func TestDisabledWhileNotConfigured(t *testing.T) {
	h := furnished(t)
	c := client.Client{ID: "connector", Name: "Connector", RedirectURIs: []string{redirect}, Preregistered: true}
	sync := func(cs ...client.Client) {
		t.Helper()
		if err := h.SyncPreregistered(ctx, cs, Act{}); err != nil {
			t.Fatal(err)
		}
	}
	state := func(when string, want ClientState) {
		t.Helper()
		if got, _ := h.ClientState(ctx, "connector"); got != want {
			t.Errorf("%s: got %v, want %v", when, got, want)
		}
	}
	sync(c)
	state("configured", ClientEnabled)
	sync()
	state("taken out", ClientDisabled)
	sync(c)
	state("back", ClientEnabled)
	sync()
	if err := h.SetClientEnabled(ctx, "connector", false, Act{}); err != nil {
		t.Fatal(err)
	}
	sync(c)
	state("back, and disabled by an operator meanwhile", ClientDisabled)
}
