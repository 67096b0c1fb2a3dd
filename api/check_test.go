package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// T-23: a token that cannot be checked is neither let through nor called
// invalid, on which a client would throw it away; and no cause is told.
func TestCheckFails(t *testing.T) {
	ring, err := token.NewRing("sv", 1, token.NewKey(1, [32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	access := ring.Access(token.Handle{1}, 1, 1<<40)
	for _, c := range []struct {
		err    error
		status int
		code   string
		retry  string
		logged bool
	}{
		{fmt.Errorf("check: %w: table approval in /var/lib", store.ErrUnavailable), 503, "temporarily_unavailable", "2", false},
		{context.DeadlineExceeded, 503, "temporarily_unavailable", "2", false},
		{context.Canceled, 503, "temporarily_unavailable", "2", false},
		{errors.New("table approval in /var/lib is damaged"), 500, "server_error", "", true},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			var log strings.Builder
			var result Result
			s := &Server{
				Ring: ring, Log: slog.New(slog.NewTextHandler(&log, nil)), Checked: func(r Result) { result = r },
				standing: func(context.Context, approval.ID) (store.Access, error) { return store.Access{}, c.err },
			}
			guarded := s.Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("let through") }))
			for name, handler := range map[string]http.Handler{"guard": guarded, "handler": s.Handler()} {
				r := httptest.NewRequest("GET", "/api/v5/me", nil)
				r.Header.Set("Authorization", "Bearer "+access)
				w := httptest.NewRecorder()
				w.Header().Set("X-Request-Id", "request-1")
				handler.ServeHTTP(w, r)
				if w.Code != c.status || w.Header().Get("Retry-After") != c.retry || w.Header().Get("WWW-Authenticate") != "" || result != Unavailable {
					t.Errorf("%s: got %d, %v, %s", name, w.Code, w.Header(), result)
				}
				if got := w.Body.String(); !strings.Contains(got, c.code) || !strings.Contains(got, "request-1") || strings.Contains(got, "table") {
					t.Errorf("%s: got %s", name, got)
				}
			}
			if got := strings.Contains(log.String(), "request_id=request-1") && strings.Contains(log.String(), "damaged"); got != c.logged {
				t.Errorf("log %q", log.String())
			}
			if strings.Contains(log.String(), access) {
				t.Error("the token is in the log")
			}
		})
	}
}

// A token whose approval is gone still says of which it was: the call belongs to
// that attempt to connect, and not to one of its address alone.
func TestEndedNamesItsApproval(t *testing.T) {
	ring, err := token.NewRing("sv", 1, token.NewKey(1, [32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	handle := token.Handle{1}
	var told []attempt.Observation
	s := &Server{
		Ring: ring, Base: func(*http.Request) string { return "https://app.svalinn.example" }, Seen: func(_ *http.Request, o attempt.Observation) { told = append(told, o) },
		standing: func(context.Context, approval.ID) (store.Access, error) { return store.Access{}, store.ErrNotFound },
	}
	r := httptest.NewRequest("GET", "/api/v5/me", nil)
	r.Header.Set("Authorization", "Bearer "+ring.Access(handle, 3, 1<<40))
	w := httptest.NewRecorder()
	s.Guard(http.NotFoundHandler()).ServeHTTP(w, r)
	want := attempt.Observation{Step: attempt.FirstCall, Outcome: attempt.Failed, Reason: attempt.ApprovalEnded, Status: 401, Keys: attempt.Keys{Approval: approval.ID(handle.ID()).String()}}
	if w.Code != 401 || len(told) != 1 || told[0] != want {
		t.Errorf("%d, %+v", w.Code, told)
	}
}

// What the store says of an approval is judged at the moment of the request:
// that a fact has ended is enough, whether or not its row is marked.
func TestStandingIsJudged(t *testing.T) {
	ring, err := token.NewRing("sv", 1, token.NewKey(1, [32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), store.Options{Ring: ring, Now: func() time.Time { return time.Unix(1000, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	handle := token.Handle{1}
	live := approval.State{Phase: approval.Live, Generation: 2}
	for _, c := range []struct {
		name       string
		state      approval.State
		standing   approval.Standing
		generation int64
		expires    int64
		want       Result
	}{
		{"good", live, approval.Standing{}, 2, 1001, Valid},
		{"of the generation before", live, approval.Standing{}, 1, 1001, Valid},
		{"expired", live, approval.Standing{}, 2, 1000, Expired},
		{"from the future", live, approval.Standing{}, 3, 1001, Revoked},
		{"not exchanged", approval.State{Phase: approval.CodeIssued}, approval.Standing{}, 1, 1001, Revoked},
		{"ended", approval.State{Phase: approval.Ended, Generation: 2}, approval.Standing{}, 2, 1001, Revoked},
		{"membership ended", live, approval.Standing{Membership: 1}, 2, 1001, Revoked},
		{"person deactivated", live, approval.Standing{Person: 1}, 2, 1001, Revoked},
		{"AI integration off", live, approval.Standing{Organization: 1}, 2, 1001, Revoked},
		{"client disabled", live, approval.Standing{Client: 1}, 2, 1001, Revoked},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &Server{Store: db, Ring: ring, standing: func(_ context.Context, id approval.ID) (store.Access, error) {
				return store.Access{Approval: approval.Approval{ID: id, Client: "client-1", State: c.state}, Standing: c.standing}, nil
			}}
			a, got, err := s.checkToken(t.Context(), ring.Access(handle, c.generation, c.expires))
			if got != c.want || (err == nil) != (c.want == Valid) || err != nil && !errors.Is(err, errRefused) {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
			if whose := (refused{"client-1", handle.ID(), c.generation}); (a.refused != nil) == (c.want == Valid) || a.refused != nil && *a.refused != whose {
				t.Errorf("refused %+v", a.refused)
			}
			// Asked again, with the same answer: as of the token too.
			stands := c.want == Valid
			if _, err := s.stand(t.Context(), Actor{Client: "client-1", Approval: handle.ID(), token: lifetime{c.generation, c.expires}}); stands != (err == nil) || !stands && err != ErrEnded {
				t.Errorf("asked again: %v", err)
			}
			if want := approval.ID(handle.ID()); err == nil && a.Approval != want || err != nil && a.Approval != (approval.ID{}) {
				t.Errorf("approval %s", a.Approval)
			}
		})
	}
}

func TestBearerToken(t *testing.T) {
	for _, c := range []struct {
		name, header, text string
		why                Result
	}{
		{"a token", "Bearer abc", "abc", Valid},
		{"scheme in lower case", "bearer abc", "abc", Valid},
		{"scheme in mixed case", "bEARER abc", "abc", Valid},
		{"several spaces", "Bearer   abc", "abc", Valid},
		{"every character of a b64token", "Bearer azAZ09-._~+/==", "azAZ09-._~+/==", Valid},
		{"nothing", "", "", Missing},
		{"the scheme alone", "Bearer", "", Missing},
		{"the scheme and a space", "Bearer ", "", Missing},
		{"another scheme", "Basic YTpi", "", Missing},
		{"no space", "Bearerabc", "", Missing},
		{"the token alone", "svo_abc", "", Missing},
		{"two tokens", "Bearer abc def", "", Unknown},
		{"two schemes", "Bearer abc, Bearer def", "", Unknown},
		{"a tab", "Bearer \tabc", "", Unknown},
		{"padding inside", "Bearer ab=c", "", Unknown},
		{"padding alone", "Bearer ==", "", Unknown},
		{"quotes", `Bearer "abc"`, "", Unknown},
		{"letters beyond ASCII", "Bearer abç", "", Unknown},
		{"NUL", "Bearer ab\x00c", "", Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			if text, why := bearerToken(c.header); text != c.text || why != c.why {
				t.Errorf("got %q, %s; want %q, %s", text, why, c.text, c.why)
			}
		})
	}
}
