package store

import (
	"context"
	"errors"
	"testing"

	"github.com/grantkeeper/grantkeeper/directory"
)

// An API key ends with its membership and with its person, and no way back to
// either makes it work again, not even naming it once more (decision B6).
func TestAPIKeyEndsForGood(t *testing.T) {
	ctx := context.Background()
	const key = "key-of-ada-in-nordlys"
	for _, tt := range []struct {
		name       string
		end, again func(h house) error
	}{
		{"removed, and a member again",
			func(h house) error { return h.RemoveMember(ctx, "nordlys", "ada", Act{}) },
			func(h house) error { return h.SetMember(ctx, "nordlys", "ada", true, Act{}) }},
		{"deactivated, and reactivated",
			func(h house) error { return h.SetActive(ctx, "ada", false, Act{}) },
			func(h house) error { return h.SetActive(ctx, "ada", true, Act{}) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := furnished(t)
			works := func(key string) bool {
				t.Helper()
				m, err := h.APIKey(ctx, key)
				if err != nil && !errors.Is(err, ErrNotFound) {
					t.Fatal(err)
				}
				return err == nil && m.Person == "ada" && m.Organization == "nordlys"
			}
			if !works(key) {
				t.Fatal("it does not work at first")
			}
			if err := tt.end(h); err != nil {
				t.Fatal(err)
			}
			if works(key) {
				t.Error("it works after the end")
			}
			if err := tt.again(h); err != nil {
				t.Fatal(err)
			}
			if works(key) {
				t.Error("it came back")
			}
			same, other := directory.APIKey{Key: key, Person: "ada", Organization: "nordlys", Name: "once more"}, directory.APIKey{Key: "another-key-of-ada", Person: "ada", Organization: "nordlys", Name: "new"}
			if err := h.AddDirectory(ctx, directory.Directory{APIKeys: []directory.APIKey{same, other}}, Act{}); err != nil {
				t.Fatal(err)
			}
			if works(key) || !works(other.Key) {
				t.Errorf("named again: %v, a new one: %v", works(key), works(other.Key))
			}
			h.same(t, "after the end")
			h = h.reopen(t)
			if works(key) || !works(other.Key) {
				t.Errorf("after a restart: %v, a new one: %v", works(key), works(other.Key))
			}
		})
	}
}

// A key is one member's: nobody takes it over.
func TestAPIKeyOfAnother(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	for _, k := range []directory.APIKey{
		{Key: "key-of-ada-in-nordlys", Person: "tor", Organization: "nordlys", Name: "script"}, {Key: "key-of-ada-in-nordlys", Person: "ada", Organization: "fjell", Name: "script"},
	} {
		if err := h.AddDirectory(ctx, directory.Directory{APIKeys: []directory.APIKey{k}}, Act{}); !errors.Is(err, ErrConflict) {
			t.Errorf("%+v: got %v, want conflict", k, err)
		}
	}
	if m, err := h.APIKey(ctx, "key-of-ada-in-nordlys"); err != nil || m.Person != "ada" || m.Organization != "nordlys" {
		t.Errorf("got %+v, %v", m, err)
	}
	h.same(t, "after the refusals")
}

// A replaced key is good for nothing, at once and after a restart, and a member
// whose key has ended gets no new one.
func TestReplaceAPIKeys(t *testing.T) {
	ctx := context.Background()
	h := furnished(t)
	if err := h.AddDirectory(ctx, directory.Directory{APIKeys: []directory.APIKey{{Key: "first-key-of-ada", Person: "ada", Organization: "nordlys", Name: "demo"}, {Key: "other-key-of-ada", Person: "ada", Organization: "nordlys", Name: "other"}}}, Act{}); err != nil {
		t.Fatal(err)
	}
	works := func(key string) bool { _, err := h.APIKey(ctx, key); return err == nil }
	put, err := h.ReplaceAPIKeys(ctx, []directory.APIKey{{Key: "second-key-of-ada", Person: "ada", Organization: "nordlys", Name: "demo"}, {Key: "first-key-of-tor", Person: "tor", Organization: "nordlys", Name: "demo"}}, Act{})
	if err != nil || len(put) != 1 || put[0].Key != "second-key-of-ada" {
		t.Fatalf("put %v, %v", put, err)
	}
	for range 2 {
		for key, want := range map[string]bool{"first-key-of-ada": false, "second-key-of-ada": true, "other-key-of-ada": true, "first-key-of-tor": false} {
			if works(key) != want {
				t.Errorf("%s works: %v, want %v", key, !want, want)
			}
		}
		h.same(t, "after replacing")
		h = h.reopen(t)
	}
	// One that is there takes no place, neither its own nor another's.
	for _, name := range []string{"demo", "other"} {
		if _, err := h.ReplaceAPIKeys(ctx, []directory.APIKey{{Key: "second-key-of-ada", Person: "ada", Organization: "nordlys", Name: name}}, Act{}); !errors.Is(err, ErrConflict) {
			t.Errorf("by one that is there: %v", err)
		}
		if !works("second-key-of-ada") || !works("other-key-of-ada") {
			t.Error("it took others with it")
		}
	}
	if err := h.changeFacts(func(tx *Tx) error {
		return tx.putAPIKeys([]directory.APIKey{{Key: "second-key-of-ada", Person: "tor", Organization: "nordlys", Name: "taken"}})
	}); !errors.Is(err, ErrConflict) || h.rows(t, `SELECT COUNT(*) FROM api_key WHERE name = 'taken'`) != 0 {
		t.Errorf("one that is another member's: %v", err)
	}
	twice := directory.APIKey{Key: "third-key-of-ada", Person: "ada", Organization: "nordlys", Name: "demo"}
	if _, err := h.ReplaceAPIKeys(ctx, []directory.APIKey{twice, twice}, Act{}); !errors.Is(err, ErrConflict) || works(twice.Key) || !works("second-key-of-ada") {
		t.Errorf("by one that comes twice: %v", err)
	}
	if err := h.SetActive(ctx, "ada", false, Act{}); err != nil {
		t.Fatal(err)
	}
	if put, err := h.ReplaceAPIKeys(ctx, []directory.APIKey{{Key: "third-key-of-ada", Person: "ada", Organization: "nordlys", Name: "demo"}}, Act{}); err != nil || len(put) != 0 || works("third-key-of-ada") {
		t.Errorf("after the end: put %v, %v", put, err)
	}
}
