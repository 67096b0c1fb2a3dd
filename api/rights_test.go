package api_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/store"
)

// actor gives who a token acts for, as the guard lets them in.
func (h *house) actor(headers ...string) (a api.Actor) {
	h.t.Helper()
	guarded := h.server.Guard(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { a = api.ActorFrom(r.Context()) }))
	if w := send(h.t, guarded, "GET", "/elsewhere", "", headers...); w.Code != 200 {
		h.t.Fatal(w.Code, w.Body)
	}
	return a
}

// What was read is given only if the rights that it was read by still stand
// (decision B7).
func TestAsk(t *testing.T) {
	ctx := t.Context()
	host := grantset.Pick{Role: "host", Change: true}
	for _, c := range []struct {
		name      string
		meanwhile func(h *house, x tokens) error
		reads     int
		err       error
	}{
		{"nothing", func(*house, tokens) error { return nil }, 1, nil},
		{"another organization changed", func(h *house, _ tokens) error {
			return h.store.SetAdmin(ctx, "fjell", "ada", true, store.Act{})
		}, 1, nil},
		{"a colleague became an admin", func(h *house, _ tokens) error { return h.store.SetAdmin(ctx, "nordlys", "ada", false, store.Act{}) }, 2, nil},
		{"role lost", func(h *house, _ tokens) error { return h.store.SetFiller(ctx, "host", "tor", false, store.Act{}) }, 2, nil},
		{"grant set narrowed", func(h *house, x tokens) error {
			return h.store.EditGrant(ctx, x.id, "tor", everything, roles(false, host), store.Act{})
		}, 2, nil},
		{"approval revoked", func(h *house, x tokens) error {
			return h.store.EndApproval(ctx, x.id, approval.RevokedByPerson, store.Act{})
		}, 1, api.ErrEnded},
		{"member removed", func(h *house, _ tokens) error { return h.store.RemoveMember(ctx, "nordlys", "tor", store.Act{}) }, 1, api.ErrEnded},
		{"person deactivated", func(h *house, _ tokens) error { return h.store.SetActive(ctx, "tor", false, store.Act{}) }, 1, api.ErrEnded},
		{"AI integration off", func(h *house, _ tokens) error { return h.store.SetIntegration(ctx, "nordlys", false, store.Act{}) }, 1, api.ErrEnded},
		{"client disabled", func(h *house, _ tokens) error { return h.store.SetClientEnabled(ctx, "client-1", false, store.Act{}) }, 1, api.ErrEnded},
		{"the token has expired", func(h *house, _ tokens) error { h.Pass(approval.AccessLifetime); return nil }, 1, api.ErrEnded},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			x := h.live("tor", "nordlys", everything)
			a := h.actor("Authorization", "Bearer "+x.access)
			reads := 0
			got, err := api.Ask(ctx, h.server, a, func(ctx context.Context, now api.Rights) (string, error) {
				if reads++; reads == 1 {
					if err := c.meanwhile(h, x); err != nil {
						t.Fatal(err)
					}
				}
				return fmt.Sprint("read ", reads, " ", now.Acts("host"), " ", now.Grant.Kind), nil
			})
			if reads != c.reads || !errors.Is(err, c.err) {
				t.Errorf("read %d times, %v; want %d, %v", reads, err, c.reads, c.err)
			}
			now, _ := h.server.Now(ctx, a)
			if want := fmt.Sprint("read ", reads, " ", now.Acts("host"), " ", now.Grant.Kind); err == nil && got != want || err != nil && got != "" {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	// A key that was removed, and facts that never rest.
	h := newHouse(t)
	a := h.actor("X-Auth-Token", "key-of-tor-for-tests")
	reads := 0
	_, err := api.Ask(ctx, h.server, a, func(context.Context, api.Rights) (int, error) {
		reads++
		return 0, h.store.SetAdmin(ctx, "nordlys", "ada", reads%2 == 0, store.Act{})
	})
	if f, _ := api.Told(err); err == nil || f.Status != 503 || reads != 10 {
		t.Errorf("read %d times: %v", reads, err)
	}
	_, err = api.Ask(ctx, h.server, a, func(context.Context, api.Rights) (int, error) {
		return 0, h.store.RemoveMember(ctx, "nordlys", "tor", store.Act{})
	})
	if !errors.Is(err, api.ErrEnded) {
		t.Errorf("with a key: %v", err)
	}
}

// A handler cannot forget to ask: what is stored is reached by rights alone, and
// rights by asking. What else of the store is called here is listed.
func TestStoreIsReachedByRights(t *testing.T) {
	allowed := []string{
		"Now", "Opens", "Check", "CheckNow", "CheckAllNow", "CheckAPIKey", "CheckAPIKeyNow", "Checked", "Used", // the check itself
		"TellDirectory", "Record", "Picture", // by a gateway's key
		"FindRoles", // for rules, before a service is asked: the right is asked again before it is answered (decision B7)
	}
	var called []string
	for _, door := range []string{"../api", "../mcp", "../gateway"} {
		files, err := filepath.Glob(door + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				of, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if from, ok := of.X.(*ast.SelectorExpr); ok && from.Sel.Name == "Store" {
					if called = append(called, of.Sel.Name); !slices.Contains(allowed, of.Sel.Name) {
						t.Errorf("%s: Store.%s: read it by Rights", name, of.Sel.Name)
					}
				}
				if of.Sel.Name == "first" && !slices.Contains([]string{"rights.go", "guard.go", "decide.go"}, filepath.Base(name)) {
					t.Errorf("%s: the standing at the check is not that of the answer", name)
				}
				return true
			})
		}
	}
	for _, name := range allowed {
		if !slices.Contains(called, name) {
			t.Errorf("Store.%s is not called", name)
		}
	}
}
