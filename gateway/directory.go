package gateway

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// maxDirectory bounds the directory of one organization, in bytes: about a
// hundred thousand objects.
const maxDirectory = 16 << 20

// directory is what GET /v1/directory answers: enough for a service to decide by
// what the signed headers say, and to name whom it shows. Each list is by ID.
type directory struct {
	Organization named       `json:"organization"`
	People       []dirPerson `json:"people"` // members whose account is active
	Circles      []dirCircle `json:"circles"`
	Roles        []dirRole   `json:"roles"`
}

type named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type dirPerson struct {
	named
	Admin bool `json:"admin"`
}

type dirCircle struct {
	named
	Parent string `json:"parent,omitempty"` // ID; none at the root
}

type dirRole struct {
	named
	Circle  string   `json:"circle"`  // ID
	Fillers []string `json:"fillers"` // IDs of people
}

// pictured writes a picture, with its entity tag: two are alike when their text
// is, on every node and after every restart.
func pictured(p store.Picture) (body []byte, tag string) {
	d := directory{named{p.Organization.ID, p.Organization.Name},
		make([]dirPerson, len(p.Members)), make([]dirCircle, len(p.Circles)), make([]dirRole, len(p.Roles))}
	for i, m := range p.Members {
		d.People[i] = dirPerson{named{m.ID, m.Name}, m.Admin}
	}
	for i, c := range p.Circles {
		d.Circles[i] = dirCircle{named{c.ID, c.Name}, c.Parent}
	}
	for i, r := range p.Roles {
		d.Roles[i] = dirRole{named{r.ID, r.Name}, r.Circle, append([]string{}, r.Fillers...)} // never null
	}
	body, err := json.Marshal(d)
	if err != nil {
		panic(err) // our own struct
	}
	sum := sha256.Sum256(body)
	return append(body, '\n'), base64.RawURLEncoding.EncodeToString(sum[:16])
}

// readDirectory answers GET /v1/directory?organization=ID (decision V41): all of
// it is of one state of the facts, which the ETag names.
func (s *Server) readDirectory(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		s.API.Answer(w, &api.Fault{Status: 405, Code: "method_not_allowed", Description: "This path takes GET."})
		return
	}
	if _, ok := s.keyed(w, r, DirectoryRead); !ok {
		return
	}
	id, ok := askedFor(r.URL.RawQuery)
	if !ok {
		s.API.Answer(w, &api.Fault{Status: 400, Code: "invalid_request", Description: "Ask for ?organization=ID, once, and for nothing else."})
		return
	}
	p, err := s.API.Store.Picture(r.Context(), id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		s.API.Answer(w, &api.Fault{Status: 404, Code: "not_found", Description: "There is no such organization."})
		return
	case err != nil:
		s.API.Fail(w, r, err)
		return
	}
	body, tag := pictured(p)
	w.Header().Set("ETag", `"`+tag+`"`)
	switch {
	case len(body) > maxDirectory:
		w.Header().Del("ETag")
		s.API.Answer(w, &api.Fault{Status: 413, Code: "too_large", Description: fmt.Sprintf("The directory of this organization has more than %d bytes.", maxDirectory)})
	case matches(r.Header["If-None-Match"], tag):
		w.WriteHeader(http.StatusNotModified)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}
}

// askedFor gives the organization of a query, which has nothing else in it.
func askedFor(query string) (id string, ok bool) {
	q, err := url.ParseQuery(query)
	ids := q["organization"]
	if err != nil || len(q) != 1 || len(ids) != 1 || org.CheckID(ids[0]) != nil {
		return "", false
	}
	return ids[0], true
}

// matches reports whether If-None-Match names a tag (RFC 9110 section 13.1.2). No
// tag of ours has a comma in it.
func matches(lines []string, tag string) bool {
	for one := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == `"`+tag+`"` {
			return true
		}
	}
	return false
}
