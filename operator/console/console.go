// Package console is the operators' pages, behind the password of their API. The
// server makes them, and they work without script. They are in English alone:
// operators read the log and the API's errors beside them.
package console

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/store"
)

// Server answers operators with pages. Set the fields and call Router once.
type Server struct {
	API     *operator.Server // whose password opens the pages, and whose lists and changes they show
	Service string           // name of the protected service
	Hosts   func() []string  // base URLs of the installation; nil knows none

	assets  assets
	formKey [32]byte // of this process: a form does not outlive it
}

// Router gives the handlers of the console's paths. It returns nil for a path that
// is not one of them.
func (s *Server) Router() func(path string) http.Handler {
	s.assets = newAssets()
	rand.Read(s.formKey[:])
	pages, files := s.pages(), http.HandlerFunc(s.asset)
	return func(path string) http.Handler {
		first, _, nested := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		switch first {
		case "clients", "approvals", "events", "events.jsonl":
			return pages
		case "assets":
			if nested {
				return files
			}
		}
		if path == "/" {
			return pages
		}
		return nil
	}
}

// pages are behind the password.
func (s *Server) pages() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", s.handle(s.overview))
	mux.Handle("GET /clients", s.handle(s.clientsPage))
	mux.Handle("GET /clients/{id}", s.handle(s.clientPage))
	mux.Handle("GET /clients/{id}/{action}", s.handle(s.confirmClient))
	mux.Handle("POST /clients/{id}/{action}", s.handle(s.changeClient))
	mux.Handle("GET /approvals", s.handle(s.approvalsPage))
	mux.Handle("GET /approvals/{id}/revoke", s.handle(s.confirmRevoke))
	mux.Handle("POST /approvals/{id}/revoke", s.handle(s.revokePage))
	mux.Handle("GET /events", s.handle(s.eventsPage))
	mux.Handle("GET /events.jsonl", s.handle(s.eventLines))
	return s.API.Guard(s.API.WithNotFound(mux, s.notFound), s.refuse)
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
	now time.Time
}

// handle makes a handler of a function that answers, or returns why it did not.
func (s *Server) handle(f func(*visit) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{Call: s.API.NewCall(w, r), w: w, now: s.API.Store.Now().UTC()}
		if err := f(v); err != nil {
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
