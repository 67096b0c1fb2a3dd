// Package gateway is the door for services that stand beside or behind this
// one (decision O4). Its own listener answers gateways, which hold a scoped key
// and never the operators' password: may this request pass, and for whom is it?
// They ask with the credentials ([Server.Handler], POST /v1/decisions) or let
// their proxy ask with the request's own headers (/v1/forward-auth). A service
// that keeps its own directory tells of its changes there, in signed events
// (POST /v1/directory/events), and one that uses the directory kept here reads it
// (GET /v1/directory). [Upstream]
// is for a service without a proxy of its own: it passes API v5 on.
//
// All of it is the guard of package api, and counts toward the same limits.
package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/limit"
)

// A Scope is what a gateway's key is good for.
type Scope string

const (
	Decisions   Scope = "decisions"    // POST /v1/decisions
	ForwardAuth Scope = "forward-auth" // /v1/forward-auth
	Directory   Scope = "directory"    // POST /v1/directory/events

	DirectoryRead Scope = "directory-read" // GET /v1/directory
)

// Scopes lists all of them.
var Scopes = []Scope{Decisions, ForwardAuth, Directory, DirectoryRead}

// Key is what one gateway proves itself with, in the header X-Gateway-Key. It
// also signs what forward-auth tells, so the service behind has it too.
type Key struct {
	Name   string // for the log
	Secret string // visible ASCII, at least identity.MinKey
	Scopes []Scope
}

// CheckSecret says what is wrong with a secret. It has to stand in a header.
func CheckSecret(secret string) error {
	if len(secret) < identity.MinKey {
		return fmt.Errorf("a key has at least %d characters", identity.MinKey)
	}
	for i := range len(secret) {
		if secret[i] < 0x21 || secret[i] > 0x7e {
			return fmt.Errorf("a key is one line of visible ASCII characters without spaces")
		}
	}
	if strings.Count(secret, secret[:1]) == len(secret) {
		return fmt.Errorf("a key is random, not one character repeated")
	}
	return nil
}

// Server is the gateways' door. Its fields do not change once it answers.
type Server struct {
	API  *api.Server              // whose guard decides
	Keys func() []Key             // of the gateways, as they are now
	Base func(host string) string // {base}, or "" for a host that is not believed (decision M2)
	Host func() string            // what was asked, when a gateway does not say
	Log  *slog.Logger             // nil discards

	// Address is who sends, for the journal; nil is the TCP peer.
	Address func(*http.Request) netip.Addr

	refused *limit.Addresses // journal entries about events that were not signed

	decide func(http.ResponseWriter, *http.Request) (api.Rights, bool) // nil is API.Decide; tests make it fail
}

func (s *Server) guard(w http.ResponseWriter, r *http.Request) (api.Rights, bool) {
	if s.decide != nil {
		return s.decide(w, r)
	}
	return s.API.Decide(w, r)
}

const (
	decisionsPath   = "/v1/decisions"
	forwardAuthPath = "/v1/forward-auth"
	eventsPath      = "/v1/directory/events"
	directoryPath   = "/v1/directory"
)

// Handler serves the gateways' listener. It routes by itself: the original's
// path may follow forward-auth's own, and must not be cleaned on the way.
func (s *Server) Handler() http.Handler {
	if s.Address == nil {
		s.Address = limit.Proxies{}.ClientAddr
	}
	s.refused = limit.NewAddresses(limit.Limit{N: 1, Window: time.Minute}, nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store") // decision M6
		came, path := sent(r.URL), r.URL.Path
		original, appended := strings.CutPrefix(came, forwardAuthPath+"/")
		switch {
		case appended:
			r.Pattern = forwardAuthPath
			s.forwardAuth(w, r, "/"+original)
		case strings.Count(came, "/") != strings.Count(path, "/"): // an escaped slash is none (RFC 3986 section 2.2)
			s.nothing(w)
		case path == eventsPath:
			r.Pattern = eventsPath
			s.onlyPost(w, r, s.directoryEvent)
		case path == directoryPath:
			r.Pattern = directoryPath
			s.readDirectory(w, r)
		case path == decisionsPath:
			r.Pattern = decisionsPath
			s.onlyPost(w, r, s.decisions)
		case path == forwardAuthPath:
			r.Pattern = forwardAuthPath
			s.forwardAuth(w, r, "")
		default:
			s.nothing(w)
		}
	})
}

func (s *Server) nothing(w http.ResponseWriter) {
	s.API.Answer(w, &api.Fault{Status: 404, Code: "not_found", Description: "There is nothing at this path."})
}

func (s *Server) onlyPost(w http.ResponseWriter, r *http.Request, answer http.HandlerFunc) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		s.API.Answer(w, &api.Fault{Status: 405, Code: "method_not_allowed", Description: "This path takes POST."})
		return
	}
	answer(w, r)
}

// keyed gives the key of the gateway that asks, if it is good for the scope, or
// answers. The answer is never 401: a proxy would take that for one about the
// client's credential, and the client would throw a good one away.
func (s *Server) keyed(w http.ResponseWriter, r *http.Request, scope Scope) (Key, bool) {
	f := &api.Fault{Status: 403, Code: "gateway_key_refused", Description: "Send the gateway's key in the header X-Gateway-Key."}
	key, ok := s.find(r.Header["X-Gateway-Key"])
	if ok {
		if slices.Contains(key.Scopes, scope) {
			return key, true
		}
		f.Description = "This gateway's key has not the scope " + string(scope) + "."
	}
	if s.Log != nil {
		s.Log.WarnContext(r.Context(), "gateway key refused", "request_id", w.Header().Get("X-Request-Id"),
			"gateway", key.Name, "scope", scope)
	}
	s.API.Answer(w, f)
	return Key{}, false
}

// find compares with every key, in constant time.
func (s *Server) find(sent []string) (found Key, ok bool) {
	if len(sent) != 1 {
		return Key{}, false
	}
	sum := sha256.Sum256([]byte(sent[0]))
	for _, k := range s.Keys() {
		is := sha256.Sum256([]byte(k.Secret))
		if subtle.ConstantTimeCompare(sum[:], is[:]) == 1 {
			found, ok = k, true
		}
	}
	return found, ok
}

// signed gives the headers that tell a service who an actor is.
func signed(key []byte, server *api.Server, a api.Rights) (map[string]string, error) {
	return a.Identity().Sign(key, server.Store.Now())
}

func answerJSON(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own struct
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n'))
}

// fail answers a fault of ours: it is logged, and told as a reference alone.
func fail(w http.ResponseWriter, r *http.Request, door *api.Server, log *slog.Logger, err error) {
	if log != nil {
		log.ErrorContext(r.Context(), "gateway", "request_id", w.Header().Get("X-Request-Id"), "err", err)
	}
	door.Answer(w, &api.Fault{Status: 500, Code: "server_error", Description: "Something went wrong here. It is in the log under the reference."})
}
