package api_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store"
)

// rights gives what a credential may do now, as somebody behind the guard has it.
func (h *house) rights(headers ...string) (now api.Rights) {
	h.t.Helper()
	r := httptest.NewRequest("GET", base+"/api/v5/elsewhere", http.NoBody)
	r.Header.Set(headers[0], headers[1])
	w := httptest.NewRecorder()
	h.server.Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { now, _ = h.server.Whole(w, r, 0) })).ServeHTTP(w, r)
	if now.Person == "" {
		h.t.Fatal(w.Code, w.Body)
	}
	return now
}

// While the database is away, what reads may be asked again; what a service may have done may
// not: its answer is told as one that did not come.
func TestStillWithoutTheDatabase(t *testing.T) {
	h := newHouse(t)
	told := h.rights("Authorization", "Bearer "+h.live("tor", "nordlys", everything).access)
	api.Break(h.server)
	for same, want := range map[bool]int{true: 503, false: 502} {
		if f, _ := api.Told(h.server.Still(t.Context(), told, same)); f.Status != want || strings.Contains(f.Description, "Try again") != same {
			t.Errorf("the same right %t: %d %s", same, f.Status, f.Description)
		}
	}
}

// A service that fails in a change may have made it: nobody is told to ask again.
func TestNoAnswer(t *testing.T) {
	for _, c := range []struct {
		err    error
		done   bool
		status int
	}{{io.EOF, false, 502}, {io.EOF, true, 502}, {os.ErrDeadlineExceeded, false, 504}, {os.ErrDeadlineExceeded, true, 504}} {
		if f := api.NoAnswer(c.err, c.done); f.Status != c.status || strings.Contains(f.Description, "Try again") == c.done {
			t.Errorf("%v, done %t: %d %s", c.err, c.done, f.Status, f.Description)
		}
	}
}

// Whose credential has ended hears that nothing was changed, unless a service may have done it.
func TestEnded(t *testing.T) {
	for done, want := range map[bool]string{false: "Nothing was changed", true: "may have been done"} {
		if f, _ := api.Told(api.Ended(api.ErrEnded, done)); f.Status != 401 || !strings.Contains(f.Description, want) {
			t.Errorf("done %t: %d %s", done, f.Status, f.Description)
		}
		if err := api.Ended(api.ErrChanged, done); err != api.ErrChanged {
			t.Errorf("done %t: %v", done, err)
		}
	}
}

// Who was told of a right hears when it has ended, and, where that matters, when it
// is another: one at a time and many together alike (decision B7).
func TestStill(t *testing.T) {
	ctx := t.Context()
	h := newHouse(t)
	ends, stays := h.live("tor", "nordlys", everything), h.live("tor", "nordlys", everything)
	told := []api.Rights{
		h.rights("Authorization", "Bearer "+ends.access), h.rights("Authorization", "Bearer "+stays.access),
		h.rights("X-Auth-Token", "key-of-tor-for-tests"), h.rights("Authorization", "Bearer "+stays.access),
	}
	told[3] = told[3].Outlasting()
	check := func(when string, want ...error) {
		t.Helper()
		same := []bool{true, true, true, false}
		for i, err := range h.server.StillAll(ctx, told, same) {
			if alone := h.server.Still(ctx, told[i], same[i]); !errors.Is(err, want[i]) || !errors.Is(alone, want[i]) {
				t.Errorf("%s: %d: %v together, %v alone, want %v", when, i, err, alone, want[i])
			}
		}
	}
	check("at first", nil, nil, nil, nil)
	h.Move(ends.id, approval.End(approval.RevokedByPerson, h.store.Now()))
	check("one revoked", api.ErrEnded, nil, nil, nil)
	if err := h.store.SetFiller(ctx, "host", "tor", false, store.Act{}); err != nil {
		t.Fatal(err)
	}
	check("what nobody was told of", api.ErrEnded, nil, nil, nil)
	if err := h.store.SetAdmin(ctx, "nordlys", "tor", true, store.Act{}); err != nil {
		t.Fatal(err)
	}
	check("an admin now", api.ErrEnded, api.ErrChanged, api.ErrChanged, nil)
	h.Seconds.Add(int64(approval.AccessLifetime / time.Second))
	check("the token expired", api.ErrEnded, api.ErrEnded, api.ErrChanged, nil)
	h.Seconds.Add(3600)
	check("an hour later", api.ErrEnded, api.ErrEnded, api.ErrChanged, api.ErrEnded)
	if err := h.store.RemoveMember(ctx, "nordlys", "tor", store.Act{}); err != nil {
		t.Fatal(err)
	}
	check("no member", api.ErrEnded, api.ErrEnded, api.ErrEnded, api.ErrEnded)
}

// A credential has one name for as long as it lasts, whichever of its tokens was
// sent, and shares it with no other.
func TestCredential(t *testing.T) {
	h := newHouse(t)
	one, other := h.live("tor", "nordlys", everything), h.live("tor", "nordlys", everything)
	name := func(headers ...string) string { return h.rights(headers...).Credential() }
	first := name("Authorization", "Bearer "+one.access)
	if again := name("Authorization", "Bearer "+one.access); again != first {
		t.Errorf("%q, then %q", first, again)
	}
	seen := map[string]bool{first: true}
	for _, c := range [][]string{{"Authorization", "Bearer " + other.access}, {"X-Auth-Token", "key-of-tor-for-tests"}, {"X-Auth-Token", "key-of-ada-for-tests"}} {
		if n := name(c...); seen[n] {
			t.Errorf("%v shares its name", c)
		} else {
			seen[n] = true
		}
	}
}
