package operator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/store"
)

// importResult says how many entries an import had and what it changed. Later
// releases add members and rename none.
type importResult struct {
	ID            string `json:"id"` // always "directory"
	People        int    `json:"people"`
	Organizations int    `json:"organizations"`
	Members       int    `json:"members"`
	Circles       int    `json:"circles"`
	Roles         int    `json:"roles"`
	Fillers       int    `json:"fillers"`
	APIKeys       int    `json:"api_keys"`

	DryRun  bool              `json:"dry_run"`
	Counts  map[string]counts `json:"counts"`  // by list; a list without a change is left out
	Changes []directoryChange `json:"changes"` // the first 1000
	Ended   int               `json:"approvals_ended"`
	AsOf    int64             `json:"as_of,omitempty"` // the version that is taken; left out where none is
}

type counts struct {
	Added   int `json:"added"`
	Changed int `json:"changed"`
	Removed int `json:"removed"`
}

type directoryChange struct {
	Change string `json:"change"` // added, changed or removed
	List   string `json:"list"`
	ID     string `json:"id"` // of members organization/person, of fillers role/person
}

// importOptions are the query of POST /v1/directory. They are not in the body,
// which may be a file that the service wrote.
type importOptions struct {
	dry, prune bool
	reason     string
}

func (c Call) importOptions() (o importOptions, err error) {
	values, err := url.ParseQuery(c.URL.RawQuery)
	if err != nil {
		return o, BadRequest("the query is malformed")
	}
	for name, v := range values {
		if len(v) != 1 {
			return o, BadRequest(name + ": it comes twice")
		}
		switch name {
		case "dry_run":
			o.dry, err = strconv.ParseBool(v[0])
		case "prune":
			o.prune, err = strconv.ParseBool(v[0])
		case "reason":
			o.reason = v[0]
			if err := CheckReason(v[0]); err != nil {
				return o, err
			}
		default:
			return o, BadRequest("unknown option; known are dry_run, prune, reason")
		}
		if err != nil {
			return o, BadRequest(name + ": true or false")
		}
	}
	return o, nil
}

// importDirectory imports the whole body or nothing.
func (s *Server) importDirectory(c Call) (any, error) {
	o, err := c.importOptions()
	if err != nil {
		return nil, err
	}
	text, err := c.readBody(maxDirectory)
	if err != nil {
		return nil, err
	}
	var body directoryBody
	if text != nil {
		if err := strict(text, &body); err != nil {
			return nil, decodeFault(text, err)
		}
	}
	if o.reason == "" {
		o.reason = body.Reason
	}
	if body.ID != "" && body.ID != "directory" {
		return nil, BadRequest("id: it is directory, or not sent")
	}
	if err := CheckReason(o.reason); err != nil {
		return nil, err
	}
	if err := body.check(); err != nil {
		return nil, withLine(text, err)
	}
	d, err := s.toStore(c, body)
	if err != nil {
		return nil, err
	}
	i := store.Import{Directory: d, Dry: o.dry, Prune: map[string]bool{}}
	if body.AsOf != nil {
		i.AsOf = *body.AsOf
	}
	if o.prune {
		i.Prune = body.sentLists()
	}
	out, err := s.Store.ImportDirectory(c.Context(), i, c.Act(o.reason))
	if err != nil {
		return nil, importFault(text, err)
	}
	return newImportResult(d, out, o.dry), nil
}

// sentLists are the lists that the body has, empty ones too.
func (d directoryBody) sentLists() map[string]bool {
	return map[string]bool{
		directory.ListPeople: d.People != nil, directory.ListOrganizations: d.Organizations != nil, directory.ListMembers: d.Members != nil,
		directory.ListCircles: d.Circles != nil, directory.ListRoles: d.Roles != nil, directory.ListAPIKeys: d.APIKeys != nil,
	}
}

func newImportResult(d store.Directory, out store.Imported, dry bool) importResult {
	t := importResult{ID: "directory", People: len(d.People), Organizations: len(d.Organizations), Members: len(d.Members),
		Circles: len(d.Circles), Roles: len(d.Roles), Fillers: len(d.Fillers), APIKeys: len(d.APIKeys),
		DryRun: dry, Counts: map[string]counts{}, Changes: []directoryChange{}, Ended: out.Ended, AsOf: out.AsOf}
	for list, n := range out.Lists {
		t.Counts[list] = counts(n)
	}
	for _, one := range out.Changes {
		t.Changes = append(t.Changes, directoryChange{one.What, one.List, one.ID})
	}
	return t
}

// importFault adds the line to the store's refusal.
func importFault(text []byte, err error) error {
	var at *store.Misplaced
	switch {
	case errors.As(err, &at):
	case errors.Is(err, store.ErrConflict):
		at = &store.Misplaced{Index: -1, Err: err}
	default:
		return err
	}
	what := at.Error()
	if at.Index >= 0 {
		what = fmt.Sprintf("line %d: %s", lineOf(text, at.List, at.Index), what)
	}
	if errors.Is(err, store.ErrNotFound) { // the body refers to what does not exist
		return BadRequest(what)
	}
	return &Error{http.StatusConflict, "conflict", what}
}

// decodeFault adds the line to a fault of JSON. To find an unknown member it
// decodes the entries one by one.
func decodeFault(text []byte, err error) error {
	if at, ok := errors.AsType[*faultAt](err); ok {
		return BadRequest(fmt.Sprintf("line %d: %v", lineAt(text, at.offset), err))
	}
	for _, list := range []struct {
		name string
		one  func() any
	}{
		{directory.ListPeople, func() any { return new(directoryPerson) }}, {directory.ListOrganizations, func() any { return new(directoryOrganization) }},
		{directory.ListMembers, func() any { return new(directoryMember) }}, {directory.ListCircles, func() any { return new(directoryCircle) }},
		{directory.ListRoles, func() any { return new(directoryRole) }}, {directory.ListAPIKeys, func() any { return new(directoryAPIKey) }},
	} {
		line := 0
		eachEntry(text, list.name, func(_ int, start int64, entry json.RawMessage) bool {
			dec := json.NewDecoder(bytes.NewReader(entry))
			dec.DisallowUnknownFields()
			if dec.Decode(list.one()) == nil {
				return true
			}
			line = lineAt(text, start)
			return false
		})
		if line > 0 {
			return BadRequest(fmt.Sprintf("line %d: %v", line, err))
		}
	}
	if name, line := unknownList(text); name == "items" {
		return BadRequest(fmt.Sprintf("line %d: items: they belong to the service now, and not to its directory: leave the member out", line))
	} else if line > 0 {
		return BadRequest(fmt.Sprintf("line %d: %v", line, err))
	}
	return BadRequest(err.Error())
}

// unknownList is the first member of the body that is no list or known member, and
// its line; 0 is none.
func unknownList(text []byte) (string, int) {
	dec := json.NewDecoder(bytes.NewReader(text))
	if _, err := dec.Token(); err != nil {
		return "", 0
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return "", 0
		}
		line := lineAt(text, dec.InputOffset())
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return "", 0
		}
		alone := json.NewDecoder(strings.NewReader(fmt.Sprintf("{%q: null}", name)))
		alone.DisallowUnknownFields()
		if alone.Decode(new(directoryBody)) != nil {
			return fmt.Sprint(name), line
		}
	}
	return "", 0
}

// entryPath matches the name of an entry at the beginning of a fault.
var entryPath = regexp.MustCompile(`^([a-z_]+)\[(\d+)\]`)

// withLine adds the line to a fault that names an entry.
func withLine(text []byte, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	if m := entryPath.FindStringSubmatch(e.Description); m != nil {
		index, _ := strconv.Atoi(m[2]) // digits, by the pattern
		return BadRequest(fmt.Sprintf("line %d: %s", lineOf(text, m[1], index), e.Description))
	}
	return err
}

// lineOf is the line in which an entry of a list begins.
func lineOf(text []byte, list string, index int) (line int) {
	eachEntry(text, list, func(i int, start int64, _ json.RawMessage) bool {
		if i == index {
			line = lineAt(text, start)
		}
		return i < index
	})
	return max(line, 1)
}

// lineAt is the line of the byte at an offset, from 1.
func lineAt(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:min(offset, int64(len(text)))], []byte("\n"))
}

// eachEntry calls each for the entries of one list until it returns false. start is
// the offset of the entry. text is valid JSON; strict may have refused its members.
func eachEntry(text []byte, list string, each func(index int, start int64, entry json.RawMessage) bool) {
	dec := json.NewDecoder(bytes.NewReader(text))
	if _, err := dec.Token(); err != nil {
		return
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return
		}
		if name != list {
			var skipped json.RawMessage
			if dec.Decode(&skipped) != nil {
				return
			}
			continue
		}
		if t, err := dec.Token(); err != nil || t != json.Delim('[') {
			return
		}
		for i := 0; dec.More(); i++ {
			var entry json.RawMessage
			if dec.Decode(&entry) != nil || !each(i, dec.InputOffset()-int64(len(entry)), entry) {
				return
			}
		}
		return
	}
}
