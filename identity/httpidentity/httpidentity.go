// Package httpidentity is package identity as middleware of net/http, for a
// service behind Grantkeeper: what is not signed for this very call is refused,
// and handlers find in the request's context who it is for. It imports nothing of
// the server, so a service that uses it links none of it.
package httpidentity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/identity"
)

// MaxBody is the greatest body that api.upstream signs, in bytes.
const MaxBody = 64 << 10

// Handler lets through to next what is signed with one of the keys for this very
// call, with its body, as behind api.upstream. A [Verifier] can ask for less.
func Handler(next http.Handler, keys ...[]byte) http.Handler {
	return Verifier{Keys: keys}.Handler(next)
}

// Verifier says what is asked of a call. Its fields do not change once it answers.
type Verifier struct {
	Keys [][]byte // of identity.MinKey bytes at least; several while one takes the place of another

	// Unsigned takes calls whose body is not signed, too: under forward-auth that is
	// every one, under api.upstream one with more than MaxBody bytes. The rest of the
	// call is compared, and so is a body that is signed.
	Unsigned bool

	// AnyCall compares nothing of the call, where a proxy rewrites the path: headers
	// that were copied are then good for any call, for identity.Tolerance.
	AnyCall bool
}

// Handler answers what is not signed with 401, without a challenge: there is
// nothing that a client could do. It reads a body of MaxBody at most, and hands it on.
func (v Verifier) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := v.verify(w, r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), caller{}, who)))
	})
}

func (v Verifier) verify(w http.ResponseWriter, r *http.Request) (identity.Identity, error) {
	if v.AnyCall {
		return identity.Verify(r.Header, time.Now(), v.Keys...)
	}
	call := identity.Call{Method: r.Method, Target: r.RequestURI, Unread: true}
	who, err := identity.VerifyCall(r.Header, call, time.Now(), v.Keys...) // before anything is read for a stranger
	if err != nil || v.Unsigned && strings.HasPrefix(r.Header.Get(identity.HeaderCall), "body=-,") {
		return who, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		return identity.Identity{}, errors.New("the body is broken off, or too long to be signed")
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	call.Body, call.Unread = body, false
	return identity.VerifyCall(r.Header, call, time.Now(), v.Keys...)
}

type caller struct{}

// From says who a call is for, in the context of a request that a Handler let
// through. Elsewhere it is nobody, the zero Identity.
func From(ctx context.Context) identity.Identity {
	who, _ := ctx.Value(caller{}).(identity.Identity)
	return who
}

// KeyFile reads a key: the text of a file without the line feed at its end,
// which may follow a carriage return. A key that no header could carry, or that
// has less than identity.MinKey bytes, is an error.
func KeyFile(name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	key := bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	if len(key) < identity.MinKey || bytes.ContainsFunc(key, func(c rune) bool { return c < 0x21 || c > 0x7e }) {
		return nil, fmt.Errorf("%s: a key is one line of at least %d visible ASCII characters", name, identity.MinKey)
	}
	return key, nil
}
