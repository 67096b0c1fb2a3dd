// Package console is the operators' pages, behind a sign-in by name or the password
// of their API. The server makes them, and they work without script. They are in English alone:
// operators read the log and the API's errors beside them.
package console

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/provider"
	"github.com/grantkeeper/grantkeeper/store"
)

// Server answers operators with pages. Set the fields and call Router once.
type Server struct {
	API     *operator.Server // whose password opens the pages, and whose lists and changes they show
	Service string           // name of the protected service
	Hosts   func() []string  // base URLs of the installation; nil knows none

	// Doctor runs the checks of an installation; nil has no page for them.
	Doctor func(context.Context) []operator.Finding

	// Calls returns how many calls an organization has made in the window of its
	// limit, and how many it may; nil knows neither.
	Calls func(organization string) (made, most int)

	Providers []*provider.Provider // where people sign in

	health  health
	assets  assets
	formKey [32]byte                   // of this process, for forms without a session: they do not outlive it
	rights  map[string]operator.Rights // by path of the table of routes
	first   map[string]bool            // first parts of the console's paths
}

// Router gives the handlers of the console's paths. It returns nil for a path that
// is not one of them.
func (s *Server) Router() func(path string) http.Handler {
	s.assets = newAssets()
	rand.Read(s.formKey[:])
	s.rights = rightFor()
	s.API.Ways = map[string]string{}
	for _, p := range s.Providers {
		s.API.Ways[p.ID] = p.Issuer
	}
	s.first = s.firstParts()
	pages, files := s.pages(), http.HandlerFunc(s.asset)
	return func(path string) http.Handler {
		part, _, nested := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		switch {
		case part == "assets" && nested:
			return files
		case path == "/", s.first[part]:
			return pages
		}
		return nil
	}
}

// pages are behind a sign-in, but for that itself.
func (s *Server) pages() http.Handler {
	mux, open := http.NewServeMux(), http.NewServeMux()
	s.handleRoutes(mux)
	s.handleSignIn(open)
	closed := s.API.GuardPages(s.API.WithNotFound(mux, s.notFound), s.askSignIn, s.refuse)
	asking := http.NewCrossOriginProtection()
	asking.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.refuse(w, s.API.NewCall(w, r), operator.ErrCrossSite) }))
	public := asking.Handler(s.API.WithNotFound(open, s.notFound))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if (r.URL.Path == signInPath || strings.HasPrefix(r.URL.Path, signInPath+"/")) && s.API.HasNamed() {
			public.ServeHTTP(w, r)
			return
		}
		closed.ServeHTTP(w, r)
	})
}

// errNoPage is the refusal of a path without a page.
var errNoPage = &operator.Error{Status: http.StatusNotFound, Code: "not_found", Description: "There is no such page."}

// notFound refuses a path without a page, or a method that the page of the path
// does not take; allow names those that it takes.
func (s *Server) notFound(w http.ResponseWriter, c operator.Call, allow string) {
	e := errNoPage
	if allow != "" {
		e = &operator.Error{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Description: "This page cannot be used that way."}
	}
	s.refuse(w, c, e)
}

// orNotFound makes the store's answer to an unknown ID a refusal that names what
// was looked for.
func orNotFound(err error, what string) error {
	if errors.Is(err, store.ErrNotFound) {
		return operator.NotFound(what)
	}
	return err
}

// A visit is one request for a page.
type visit struct {
	operator.Call
	w   http.ResponseWriter
	now time.Time // in the zone of the reader
}

func (s *Server) visit(w http.ResponseWriter, r *http.Request) *visit {
	return &visit{Call: s.API.NewCall(w, r), w: w, now: s.API.Store.Now().In(zoneOf(r))}
}

// may reports whether who visits has a right.
func (v *visit) may(right operator.Rights) bool { return v.Who.Rights >= right }

// mayAt is may of the right of a path, as the table of routes has it.
func (s *Server) mayAt(v *visit, path string) bool { return v.may(s.rightAt(path)) }

// rightAt is the right that a path needs. A path without a line is a fault of ours,
// which a test finds.
func (s *Server) rightAt(path string) operator.Rights {
	right := s.rights[path]
	if right == 0 {
		panic("console: no right for " + path)
	}
	return right
}

// handle makes a handler of a function that answers, or returns why it did not.
func (s *Server) handle(right operator.Rights, f func(*Server, *visit) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := s.visit(w, r)
		err := error(errNoRight)
		if v.may(right) {
			err = f(s, v)
		}
		if err != nil {
			s.refuse(w, v.Call, err)
		}
	})
}

// redirect answers a form that was carried out (303).
func (v *visit) redirect(to string) error {
	v.w.Header().Set("Location", to)
	v.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// link is the address of the list after a cursor, with the same filter; it is ""
// for no cursor.
func (v *visit) link(path, after string) string {
	if after == "" {
		return ""
	}
	values := v.query("after")
	values.Set("after", after)
	return path + "?" + values.Encode()
}

// query gives the filter of the address, less what is empty or named here.
func (v *visit) query(without ...string) url.Values {
	values := v.URL.Query()
	for name, sent := range values {
		if sent[0] == "" || slices.Contains(without, name) {
			delete(values, name)
		}
	}
	return values
}
