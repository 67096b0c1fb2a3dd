package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
)

// ruled has the rules of Nordlys be these.
func (h *house) ruled(p policy.Policy) {
	h.t.Helper()
	was, err := h.store.Policy(context.Background(), "nordlys")
	if err != nil {
		h.t.Fatal(err)
	}
	seen := int64(0)
	if was != nil {
		seen = was.Version
	}
	if _, _, err := h.store.SetPolicy(context.Background(), store.Rules{Organization: "nordlys", Seen: seen, Policy: p}, store.Act{Actor: "person:ada"}); err != nil {
		h.t.Fatal(err)
	}
}

// What an organization lets no app do is refused at each door of this package from the
// next request, with the same token: decisions, forward-auth and the way to a service's own
// API v5, with rules and without; it comes back when the ceiling goes, and a block
// refuses everything (decisions P16, V65).
func TestCeilingsAtTheDoors(t *testing.T) {
	b := newBehind(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, nil)
	token := b.live("ada", everything).access
	b.access = token
	calls := []struct{ method, path string }{
		{"POST", "/api/v5/ledger/1"}, {"GET", "/api/v5/ledger/1"}, {"GET", "/api/v5/mine"}, {"POST", "/api/v5/mine"}, {"POST", "/api/v5/minutes/1"},
	}
	const no, yes = 403, 0
	for _, tt := range []struct {
		name    string
		ceiling grantset.Ceiling
		want    [5]int
		bare    [5]int // without rules
	}{
		{"none", grantset.Ceiling{}, [5]int{}, [5]int{}},
		{"read only", grantset.Ceiling{ReadOnly: true}, [5]int{no, yes, yes, no, no}, [5]int{no, yes, yes, no, no}},
		{"no personal items", grantset.Ceiling{NoPersonal: true}, [5]int{yes, yes, no, no, yes}, [5]int{}},
		{"a role never", grantset.Ceiling{Never: []string{"treasurer"}}, [5]int{no, yes, yes, yes, yes}, [5]int{}},
		{"selected roles", grantset.Ceiling{Widest: grantset.Roles}, [5]int{no, yes, no, no, no}, [5]int{}},
		{"read only, and everything", grantset.Ceiling{ReadOnly: true, Widest: grantset.Organization}, [5]int{no, yes, yes, no, no}, [5]int{no, yes, yes, no, no}},
		{"nothing at all", grantset.Ceiling{ReadOnly: true, NoPersonal: true, Widest: grantset.Roles, Never: []string{"host", "secretary", "treasurer"}}, [5]int{no, yes, no, no, no}, [5]int{no, yes, yes, no, no}},
		{"lifted", grantset.Ceiling{}, [5]int{}, [5]int{}},
	} {
		b.ruled(policy.Policy{Ceiling: tt.ceiling})
		for ruled, want := range map[bool][5]int{true: tt.want, false: tt.bare} {
			b.api.Rules = nil
			if ruled {
				b.rule("", ledger...)
			}
			for i, c := range calls {
				got := [3]int{}
				d := b.decided(`{"path":` + quoted(c.path) + `,"method":` + quoted(c.method) + `,"token":` + quoted(token) + `}`)
				if got[0] = d.Status; d.Allowed && d.Ruled != nil && !d.Ruled.Allowed {
					got[0] = no
				}
				if w := b.forward("Authorization", "Bearer "+token, "X-Original-URI", c.path, "X-Original-Method", c.method); w.Code != 200 {
					got[1] = w.Code
				}
				if a := b.call(c.method, c.path, nil); a.StatusCode != 204 {
					got[2] = a.StatusCode
				}
				if got != [3]int{want[i], want[i], want[i]} {
					t.Errorf("%s, rules %v: %s %s: decision, forward-auth, upstream: %v, want %d", tt.name, ruled, c.method, c.path, got, want[i])
				}
			}
		}
	}
	b.ruled(policy.Policy{Apps: []policy.App{{Host: "client.example", Rule: policy.Block}}})
	if d := b.decided(`{"path":"/api/v5/ledger/1","method":"GET","token":` + quoted(token) + `}`); d.Allowed || d.Status != 401 {
		t.Errorf("blocked: %+v", d)
	}
	if w := b.forward("Authorization", "Bearer "+token, "X-Original-URI", "/api/v5/ledger/1"); w.Code != 401 {
		t.Errorf("blocked, forward-auth: %d", w.Code)
	}
	if a := b.call("GET", "/api/v5/ledger/1", nil); a.StatusCode != 401 {
		t.Errorf("blocked, upstream: %d", a.StatusCode)
	}
}

// A preview asks about what the ceilings leave, and not about what was chosen.
func TestPreviewIsAskedUnderCeilings(t *testing.T) {
	var asked []string
	p := newPreviewed(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var q struct{ Sets []json.RawMessage }
		if err := json.Unmarshal(body, &q); err != nil {
			t.Error(err)
		}
		asked = nil
		for _, s := range q.Sets {
			asked = append(asked, string(s))
		}
		answersPreview(bakeryAnswer)(w, r)
	})
	free := bakery("ada")
	m := free[1].Member()
	for want, c := range map[string]grantset.Ceiling{
		`{"grant":"everything","authority":"personal"}`:                       {},
		`{"grant":"roles","authority":""}`:                                    {Widest: grantset.Roles},
		`{"grant":"roles","authority":"r-deliveries=change,r-orders=change"}`: {NoPersonal: true},
		`{"grant":"roles","authority":"personal,r-orders=change"}`:            {Never: []string{"r-deliveries"}},
	} {
		all := []grantset.Authority{free[0], grantset.Set{Kind: grantset.Everything}.Narrow(m, &c)}
		if _, ok := p.Ask(t.Context(), "en", all); !ok || asked[1] != want {
			t.Errorf("under %+v: asked about %v, want %s", c, asked, want)
		}
	}
}
