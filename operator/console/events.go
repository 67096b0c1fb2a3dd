package console

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/store"
)

// An eventRow is an entry of the journal. Others wrote all names, the detail and
// the reason.
type eventRow struct {
	Kind         journal.Kind
	Words        string
	Tone         journal.Tone
	At           moment
	Clock        string // hour and minute
	Client       string
	ClientPath   string
	Person       string
	Organization string
	Actor        string
	Address      string
	Reason       string
	Detail       string
	Reference    string
}

func (n *nameCache) event(e store.Event) eventRow {
	means := journal.Of(e.Kind)
	row := eventRow{
		Kind: e.Kind, Words: cmp.Or(means.Words, withSpaces(string(e.Kind))), Tone: means.Tone, At: atSecond(e.At, n.v.now), Clock: time.Unix(e.At, 0).In(n.v.now.Location()).Format("15:04"),
		Client: n.client(e.Client), Person: n.person(e.Person), Organization: n.organization(e.Organization),
		Actor: n.actor(e), Address: e.Address, Reason: withSpaces(e.Reason), Detail: e.Detail, Reference: e.Reference,
	}
	switch {
	case e.Client == "":
	case row.Client == e.Client: // the client is deleted
		row.ClientPath = "/events?client=" + url.QueryEscape(e.Client)
	default:
		row.ClientPath = "/clients/" + url.PathEscape(e.Client)
	}
	if client.Drill(e.Client) {
		row.Words, row.Tone = row.Words+" in a drill", ""
	}
	return row
}

// actor names who did it, unless that is the person or client of the entry.
func (n *nameCache) actor(e store.Event) string {
	kind, id, _ := strings.Cut(e.Actor, ":")
	switch {
	case kind == "person" && id != "" && id != e.Person:
		return n.person(id)
	case kind == operator.User && id != "":
		return "operator " + id
	case kind == operator.User:
		return "an operator"
	}
	return ""
}

// An eventsPage lists the journal.
type eventsPage struct {
	frame
	Kinds                        []journal.Meaning
	Spans                        []span
	Kind, Range                  string // of the filter, as sent
	Client, Person, Organization string
	Reference                    string
	NoDrills                     bool
	Rows                         []eventRow
	Next, Download               string
	More                         bool
	Unknown                      string
}

// eventFilter reads the filter of the page and of the JSON Lines. With
// store.ErrNotFound, for an unknown person, both filters are valid.
func (s *Server) eventFilter(v *visit) (operator.Filter, store.EventFilter, error) {
	f, err := v.Filter("kind", "range", "client", "person", "organization", "approval", "reference", "drills")
	if err != nil {
		return f, store.EventFilter{}, err
	}
	var since int64
	if name := f.Get("range"); name != "" {
		over, err := spanNamed(name)
		if err != nil {
			return f, store.EventFilter{}, err
		}
		since = max(v.now.Add(-over.length()).Unix(), 1)
	}
	drills, err := f.OneOf("drills", "no")
	if err != nil {
		return f, store.EventFilter{}, err
	}
	of, err := s.API.EventFilter(v.Call, f)
	of.Since, of.NoDrills = since, drills != ""
	return f, of, err
}

func (s *Server) eventsPage(v *visit) error {
	f, of, err := s.eventFilter(v)
	p := eventsPage{
		Kinds: journal.Meanings, Spans: spans, Kind: f.Get("kind"), Range: f.Get("range"),
		Client: f.Get("client"), Person: f.Get("person"), Organization: f.Get("organization"), Reference: f.Get("reference"), NoDrills: of.NoDrills, More: f.After != "",
	}
	var rows []store.Event
	next := ""
	switch {
	case errors.Is(err, store.ErrNotFound):
		p.Unknown = "No person has this email or ID."
	case err != nil:
		return err
	default:
		if rows, next, err = s.API.Store.Events(v.Context(), of); err != nil {
			return f.CursorError(err)
		}
	}
	names := s.newNameCache(v)
	for _, e := range rows {
		p.Rows = append(p.Rows, names.event(e))
	}
	p.frame = s.frame(v, "events", "Events")
	p.Next = v.link("/events", next)
	p.Download = strings.TrimSuffix("/events.jsonl?"+v.query("after", "limit").Encode(), "?")
	return s.render(v.w, 200, eventsTemplate, &p)
}

// eventLines answers with all entries that match as JSON Lines, newest first, in
// the form of GET /v1/events.
func (s *Server) eventLines(v *visit) error {
	f, of, err := s.eventFilter(v)
	if err != nil {
		return orNotFound(err, "person")
	}
	of.Limit = operator.MaxItems
	begun := false
	for {
		rows, next, err := s.API.Store.Events(v.Context(), of)
		if err != nil && begun {
			panic(http.ErrAbortHandler) // the client must not take half of the lines for all of them
		} else if err != nil {
			return f.CursorError(err)
		}
		if !begun {
			v.w.Header().Set("Content-Type", "application/jsonl")
			v.w.Header().Set("Content-Disposition", `attachment; filename="events.jsonl"`)
			begun = true
		}
		enc := json.NewEncoder(v.w)
		for _, e := range rows {
			if enc.Encode(operator.NewEvent(e)) != nil {
				return nil // the client has closed the connection
			}
		}
		if next == "" {
			return nil
		}
		of.After = next
	}
}
