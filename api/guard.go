package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

type actorKey struct{}

// ActorFrom gives the actor of a request that passed the guard.
func ActorFrom(ctx context.Context) Actor {
	a, _ := ctx.Value(actorKey{}).(Actor)
	return a
}

// WithActor gives a context that acts for a.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

func withActor(r *http.Request, a Actor) *http.Request {
	return r.WithContext(WithActor(r.Context(), a))
}

// Guard lets a request through to next when it carries a good access token or
// API key, and its organization has requests left; next finds the actor with
// [ActorFrom], and what it may do with [Ask] once it has read the whole request.
// The check comes before anything else looks at the request (decision B1). All
// other requests are answered here.
func (s *Server) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w.Header(), r)
		if preflight(w, r) {
			return
		}
		if a, ok := s.admit(w, r, false); ok {
			next.ServeHTTP(w, withActor(r, a))
		}
	})
}

// Result is how a check went.
type Result string

const (
	Valid       Result = "valid"
	Missing     Result = "missing"      // no credential was sent
	Expired     Result = "expired"      // an access token whose 30 minutes are over
	Revoked     Result = "revoked"      // an access token whose approval has ended
	Unknown     Result = "unknown"      // nothing that this server gave
	WrongKind   Result = "wrong_kind"   // a refresh token or a code
	WrongHeader Result = "wrong_header" // an OAuth token where none is taken, or two credentials
	Unavailable Result = "unavailable"  // the database cannot answer now
)

// errRefused stands for every result that is answered with 401.
var errRefused = errors.New("credential refused")

// admit checks and counts a request, or answers it. legacy is API v3 and v4,
// which take API keys alone (decision B1).
func (s *Server) admit(w http.ResponseWriter, r *http.Request, legacy bool) (Actor, bool) {
	a, result, err := s.check(r, legacy)
	if s.Checked != nil {
		s.Checked(result)
	}
	switch {
	case errors.Is(err, errRefused):
		s.sawRefused(r, a, result, legacy)
		s.unauthorized(w, r, legacy, result)
		return Actor{}, false
	case err != nil:
		s.fail(w, r, err)
		return Actor{}, false
	case !s.count(w, r, a, 1):
		s.sawFirst(r, a, attempt.RateLimited)
		return Actor{}, false
	}
	if a.Client != "" {
		if a.idle {
			s.sawFirst(r, a, "")
			s.Store.Used(a.Approval)
		}
		if s.Tell != nil {
			s.Tell(w, a.Client, a.Approval, "")
		}
	}
	return a, true
}

// check finds out who a request acts for. The headers alone are read: never
// the query, never the body, never a cookie (decision B4).
func (s *Server) check(r *http.Request, legacy bool) (Actor, Result, error) {
	bearer, once := header(r, "Authorization")
	key, alsoOnce := header(r, "X-Auth-Token")
	switch {
	case !once || !alsoOnce || bearer != "" && key != "":
		return Actor{}, WrongHeader, errRefused
	case key != "":
		return s.checkKey(r.Context(), key)
	case bearer == "":
		return Actor{}, Missing, errRefused
	case legacy:
		return Actor{}, WrongHeader, errRefused
	}
	text, result := bearerToken(bearer)
	if text == "" {
		return Actor{}, result, errRefused
	}
	return s.checkToken(r.Context(), text)
}

// header gives the value of a credential header that is sent once at most. An
// empty one is no credential, so it does not stand in the way of another; a
// repeated one is refused whatever it holds, because not every reader takes
// the same of its values. name is in canonical form: this is the hot path.
func header(r *http.Request, name string) (value string, once bool) {
	switch values := r.Header[name]; len(values) {
	case 0:
		return "", true
	case 1:
		return values[0], true
	default:
		return "", false
	}
}

// bearerToken takes the token out of an Authorization header (RFC 6750 section
// 2.1). Another scheme, or the scheme without a token, is no credential of
// ours: RFC 6750 section 3 wants no error code then.
func bearerToken(header string) (text string, why Result) {
	scheme, rest, _ := strings.Cut(header, " ")
	rest = strings.TrimLeft(rest, " ")
	switch {
	case !strings.EqualFold(scheme, "Bearer") || rest == "":
		return "", Missing
	case !isB64Token(rest):
		return "", Unknown
	}
	return rest, Valid
}

// isB64Token reports whether s is one token and nothing else (RFC 9110 section
// 11.2, token68).
func isB64Token(s string) bool {
	s = strings.TrimRight(s, "=")
	for i := range len(s) {
		if !token68[s[i]] {
			return false
		}
	}
	return s != ""
}

// token68 says of each byte whether it may stand in a token.
var token68 = func() (ok [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/" {
		ok[c] = true
	}
	return ok
}()

// checkToken believes nothing before the tag is right, so a stranger's string
// costs no query.
func (s *Server) checkToken(ctx context.Context, text string) (Actor, Result, error) {
	claim, ok := s.Ring.Read(token.Access, text)
	if !ok {
		kind := s.Ring.KindOf(text)
		if kind != 0 && kind != token.Access {
			return Actor{}, WrongKind, errRefused
		}
		if err := s.Store.Opens(); err != nil && kind == token.Access { // another node may have sealed it
			return Actor{}, Unavailable, err
		}
		return Actor{}, Unknown, errRefused
	}
	good, id := lifetime{claim.Generation, claim.Time}, approval.ID(claim.Handle.ID())
	access, err := s.access(ctx, id)
	a, result, err := s.accept(good, &access, err)
	if access.Remembered && result != Valid { // the token may be younger than what is remembered
		access, err = s.accessNow(ctx, id)
		a, result, err = s.accept(good, &access, err)
	}
	if err == errRefused {
		a.refused = &refused{access.Approval.Client, id, good.generation} // the token says which, also of one that has ended
	}
	return a, result, err
}

// accept takes an access token, if the approval as it was found accepts it. err
// is how the search for that ended.
func (s *Server) accept(good lifetime, access *store.Access, err error) (Actor, Result, error) {
	if errors.Is(err, store.ErrNotFound) {
		return Actor{}, Revoked, errRefused
	} else if err != nil {
		return Actor{}, Unavailable, err
	}
	now, given := s.Store.Now(), &access.Approval
	if !given.Accepts(access.Standing, good.generation, good.expires, now) {
		if now.Unix() >= good.expires {
			return Actor{}, Expired, errRefused
		}
		return Actor{}, Revoked, errRefused
	}
	return Actor{
		Person: given.Person, Organization: given.Organization, Client: given.Client, Approval: given.ID,
		token: good, idle: access.Idle(now), unused: access.Used == 0, first: found(access, now),
	}, Valid, nil
}

// access gives an approval with what it stands on now.
func (s *Server) access(ctx context.Context, id approval.ID) (store.Access, error) {
	if s.standing != nil {
		return s.standing(ctx, id)
	}
	return s.Store.Check(ctx, id)
}

// accessNow is access by nothing that is remembered.
func (s *Server) accessNow(ctx context.Context, id approval.ID) (store.Access, error) {
	if s.standing != nil {
		return s.standing(ctx, id)
	}
	return s.Store.CheckNow(ctx, id)
}

// checkKey takes an API key, which acts as its person in its organization
// (decision B6). An OAuth token in its header is refused unread (spec 5.5).
func (s *Server) checkKey(ctx context.Context, key string) (Actor, Result, error) {
	if s.Ring.KindOf(key) != 0 {
		return Actor{}, WrongHeader, errRefused
	}
	id := store.IdentifyAPIKey(key)
	access, err := s.Store.CheckAPIKey(ctx, id)
	return s.acceptKey(id, &access, err)
}

// acceptKey takes an API key that was found. err is how the search for it ended.
func (s *Server) acceptKey(key store.APIKeyID, access *store.Access, err error) (Actor, Result, error) {
	if errors.Is(err, store.ErrNotFound) {
		return Actor{}, Unknown, errRefused
	} else if err != nil {
		return Actor{}, Unavailable, err
	}
	return Actor{
		Person: access.Approval.Person, Organization: access.Approval.Organization,
		key: key, first: found(access, s.Store.Now()),
	}, Valid, nil
}

func found(x *store.Access, now time.Time) standing {
	return standing{
		Grant: x.Approval.Grant, Authority: x.Authority, personName: x.PersonName, organizationName: x.OrganizationName,
		stamp: x.Stamp, remembered: x.Remembered, at: now,
	}
}

// limitOf is how many requests an organization may make in the limit's window.
func (s *Server) limitOf(organization string) int {
	if s.LimitOf != nil {
		if n := s.LimitOf(organization); n > 0 {
			return n
		}
	}
	return s.Limit.Limit().N
}

// Whole is for whoever has read the body of a request that passed the guard: it
// may be long after the check. It gives what the actor may do now, and counts the
// further calls that the body holds, or answers the request. Of one without a body
// the check is not made again, unless it was of what is remembered.
func (s *Server) Whole(w http.ResponseWriter, r *http.Request, further int) (Rights, bool) {
	a := ActorFrom(r.Context())
	if r.Body == nil || r.Body == http.NoBody {
		return s.exact(w, r, a)
	}
	now, err := s.Now(r.Context(), a)
	if err != nil {
		s.fail(w, r, err)
		return Rights{}, false
	}
	if n := s.limitOf(now.Organization); further >= n {
		s.fail(w, r, badRequest("A batch has at most as many messages as the organization has requests: "+strconv.Itoa(n)+"."))
		return Rights{}, false
	}
	if further > 0 && !s.count(w, r, now.Actor, further) {
		return Rights{}, false
	}
	return now, true
}

// count takes so many of the organization's requests, all or none, or answers
// 429. It stands behind the check, so that no stranger can use an organization's
// limit up (decision B6).
func (s *Server) count(w http.ResponseWriter, r *http.Request, a Actor, requests int) bool {
	n := s.limitOf(a.Organization)
	left, wait := s.Limit.Take(a.Organization, n, requests, a.first.at)
	h := w.Header() // assigned to, because this is the hot path
	h["Ratelimit-Policy"] = s.Limit.Policy(n)
	h["Ratelimit"] = []string{limit.RateLimit(left, wait)}
	if wait > 0 {
		if s.Limited != nil {
			s.Limited()
		}
		h.Set("Retry-After", limit.RetryAfter(wait))
		s.fail(w, r, errLimited)
	}
	return wait == 0
}
