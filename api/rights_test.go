package api_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
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
		{"the token has expired", func(h *house, _ tokens) error { h.pass(approval.AccessLifetime); return nil }, 1, api.ErrEnded},
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

// A refusal, too, is given only to whoever still stands: a change that comes to
// the writer after the end is refused as that, and not as what else is missing.
func TestRefusedMeanwhile(t *testing.T) {
	ctx := t.Context()
	for name, end := range map[string]func(h *house) error{
		"member removed":     func(h *house) error { return h.store.RemoveMember(ctx, "nordlys", "tor", store.Act{}) },
		"person deactivated": func(h *house) error { return h.store.SetActive(ctx, "tor", false, store.Act{}) },
		"role deleted, too": func(h *house) error {
			return errors.Join(h.store.DeleteRole(ctx, "nordlys", "host", func(org.Role) error { return nil }, store.Act{}),
				h.store.SetActive(ctx, "tor", false, store.Act{}))
		},
	} {
		for _, headers := range [][]string{{"X-Auth-Token", "key-of-tor-for-tests"}, {"Authorization"}} {
			h := newHouse(t)
			if len(headers) == 1 {
				headers = append(headers, "Bearer "+h.live("tor", "nordlys", everything).access)
			}
			i := h.item(ofRole("host", false))
			a, s, title, body, role, yes := h.actor(headers...), h.server, "New", "New", "host", true
			if err := end(h); err != nil {
				t.Fatal(err)
			}
			_, personal := s.AddItem(ctx, a, "note", api.ItemFields{Title: &title, Personal: &yes})
			_, ofRole := s.AddItem(ctx, a, "note", api.ItemFields{Title: &title, Role: &role})
			_, changed := s.ChangeItem(ctx, a, "note", i.ID, api.ItemFields{Body: &body}, api.Conditions{})
			_, unknown := s.ChangeItem(ctx, a, "note", "nothing", api.ItemFields{Body: &body}, api.Conditions{})
			_, circle := s.AddCircle(ctx, a, api.CircleFields{Name: &title})
			_, read := s.Item(ctx, a, "note", "nothing")
			for what, err := range map[string]error{
				"personal": personal, "of a role": ofRole, "changed": changed, "unknown": unknown, "circle": circle, "read": read,
				"deleted": s.DeleteItem(ctx, a, "note", "nothing", api.Conditions{}), "left": s.SetFiller(ctx, a, role, "tor", false, api.Conditions{}),
				"removed": s.RemovePerson(ctx, a, "nobody", api.Conditions{}),
			} {
				if !errors.Is(err, api.ErrEnded) {
					t.Errorf("%s, %s: %s: got %v", name, headers[0], what, err)
				}
			}
		}
	}
}

// While two roles change their circles with each other, again and again, so that
// Tor is at no moment in the circle of a private item, no read gives it to him.
func TestReadsAreOfOneState(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	swap := func(host, secretary string) error {
		_, err := h.store.ImportDirectory(ctx, store.Import{Directory: store.Directory{Roles: []org.Role{
			{ID: "host", Organization: "nordlys", Circle: host, Name: "Host"}, {ID: "secretary", Organization: "nordlys", Circle: secretary, Name: "Secretary"},
		}}}, store.Act{})
		return err
	}
	if err := swap("general", "money"); err != nil {
		t.Fatal(err)
	}
	private := h.item(ofRole("secretary", true))
	access := h.live("tor", "nordlys", everything).access
	var done atomic.Bool
	var wg sync.WaitGroup
	var answers atomic.Int64
	for _, path := range []string{"/api/v5/notes/" + private.ID, "/api/v5/notes", "/api/v5/notes?role=secretary", "/api/v5/notes?circle=general"} {
		wg.Go(func() {
			for !done.Load() {
				r := httptest.NewRequest("GET", path, nil)
				r.Header.Set("Authorization", "Bearer "+access)
				w := httptest.NewRecorder()
				h.handler.ServeHTTP(w, r)
				if answers.Add(1); strings.Contains(w.Body.String(), private.ID) {
					t.Errorf("%s: %d %s", path, w.Code, w.Body)
					return
				}
			}
		})
	}
	for n := range 240 {
		circles := []string{"money", "general", "money"}[n%2:]
		if err := swap(circles[0], circles[1]); err != nil {
			t.Error(err)
		}
	}
	done.Store(true)
	wg.Wait()
	if answers.Load() == 0 {
		t.Error("nobody read")
	}
}

// A handler cannot forget to ask: what is stored is reached by rights alone, and
// rights by asking. What else of the store is called here is listed.
func TestStoreIsReachedByRights(t *testing.T) {
	allowed := []string{
		"Now", "Opens", "Check", "CheckNow", "CheckAllNow", "CheckAPIKey", "CheckAPIKeyNow", "Checked", "Stamp", "Used", // the check itself
		"AddItem", "ChangeItem", "DeleteItem", "ChangeOrganization", "ChangeCircle", "DeleteCircle", "ChangeRole", "DeleteRole", "ChangeFiller", "ChangeMember", // in the writer
		"TellDirectory", "Record", // signed by a gateway's key
	}
	var called []string
	for _, door := range []string{"../api", "../mcp", "../mcpproxy", "../gateway"} {
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
				if of.Sel.Name == "seen" && filepath.Base(name) != "rights.go" {
					t.Errorf("%s: only rights.go says what was seen", name)
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
