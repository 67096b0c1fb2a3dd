package sample

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// A directory is one organization as Grantkeeper keeps it, at one moment.
type directory struct {
	Organization named
	People       []person
	Circles      []circle
	Roles        []dirRole

	tag     string // of this moment, without its quotes
	people  map[string]person
	circles map[string]circle
	roles   map[string]dirRole
	fills   map[string]map[string]bool // person, role
}

// dirRole is a role with those who fill it, by ID.
type dirRole struct {
	ID      string
	Name    string
	Circle  string // ID
	Fillers []string
}

func readDirectory(body []byte, tag string) (*directory, error) {
	d := &directory{
		tag: tag, people: map[string]person{}, circles: map[string]circle{}, roles: map[string]dirRole{}, fills: map[string]map[string]bool{},
	}
	if err := json.Unmarshal(body, d); err != nil {
		return nil, fmt.Errorf("directory: %w", err)
	}
	for _, p := range d.People {
		d.people[p.ID] = p
	}
	for _, c := range d.Circles {
		d.circles[c.ID] = c
	}
	for _, r := range d.Roles {
		d.roles[r.ID] = r
		for _, p := range r.Fillers {
			if d.fills[p] == nil {
				d.fills[p] = map[string]bool{}
			}
			d.fills[p][r.ID] = true
		}
	}
	return d, nil
}

// A source is where directories come from, and where changes of them go.
type source struct {
	base, key string
	now       func() time.Time
	client    *http.Client
	last      *sync.Map // of organizations
}

func newSource(base, key string, now func() time.Time) source {
	// Connections of its own: two that are kept, as the default has, are few for each
	// request asking, and whoever closes the default's idle ones breaks a call off.
	own := http.DefaultTransport.(*http.Transport).Clone()
	own.MaxIdleConnsPerHost = 32
	return source{base, key, now, &http.Client{Timeout: 10 * time.Second, Transport: own}, new(sync.Map)}
}

// read gives an organization as it is now: one conditional request, so that a
// change counts from the next call on.
func (s source) read(ctx context.Context, organization string) (*directory, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"/v1/directory?organization="+url.QueryEscape(organization), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-Gateway-Key", s.key)
	known, _ := s.last.Load(organization)
	if known != nil {
		r.Header.Set("If-None-Match", `"`+known.(*directory).tag+`"`)
	}
	answer, body, err := s.send(r)
	switch {
	case err != nil:
		return nil, err
	case answer.StatusCode == http.StatusNotModified && known != nil:
		return known.(*directory), nil
	case answer.StatusCode == http.StatusServiceUnavailable:
		return nil, errUnavailable
	case answer.StatusCode == http.StatusNotFound:
		return nil, forbidden("The person is not a member of this organization.")
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("directory: %s: %s", answer.Status, body)
	}
	d, err := readDirectory(body, strings.Trim(answer.Header.Get("ETag"), `"`))
	if err == nil {
		s.last.Store(organization, d)
	}
	return d, err
}

// send gives an answer with its body. That nobody answers is for the caller to
// try again.
func (s source) send(r *http.Request) (*http.Response, []byte, error) {
	answer, err := s.client.Do(r)
	if err != nil {
		return nil, nil, errUnavailable
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, nil, errUnavailable
	}
	return answer, body, nil
}

// An event is a change of the directory: one object as it shall be, or the IDs of
// one that shall be gone.
type event struct {
	kind   string
	object map[string]any
}

// refusedEvent is why an event was not taken.
type refusedEvent struct {
	Code        string `json:"error"`
	Description string `json:"error_description"`
}

func (e *refusedEvent) Error() string { return e.Code + ": " + e.Description }

// reason is what the journal of Grantkeeper says of a caller's changes.
func reason(c caller) string {
	if c.Client == "" {
		return "by person:" + c.Person + " through an API key"
	}
	return "by person:" + c.Person + " through client " + c.Client
}

// tell sends an event that was decided by a directory. The refusal
// directory_changed says that it is another one by now.
func (s source) tell(ctx context.Context, c caller, by *directory, e event) error {
	body, err := json.Marshal(map[string]any{"id": "sample-" + rand.Text(), "kind": e.kind, "object": e.object, "if_match": by.tag, "reason": reason(c)})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+"/v1/directory/events", bytes.NewReader(body))
	if err != nil {
		return err
	}
	t := fmt.Sprint(s.now().Unix())
	mac := hmac.New(sha256.New, []byte(s.key))
	mac.Write([]byte("event\n" + t + "\n"))
	mac.Write(body)
	r.Header.Set("X-Grantkeeper-Signature", "t="+t+",v1="+hex.EncodeToString(mac.Sum(nil)))
	r.Header.Set("Content-Type", "application/json")
	answer, said, err := s.send(r)
	var refused refusedEvent
	switch {
	case err != nil:
		return err
	case answer.StatusCode == http.StatusOK:
		return nil
	case answer.StatusCode == http.StatusServiceUnavailable:
		return errUnavailable
	case json.Unmarshal(said, &refused) != nil:
		return fmt.Errorf("event: %s: %s", answer.Status, said)
	}
	return &refused
}

// maxTries bounds how often a change is decided anew because the directory has
// changed.
const maxTries = 10

// changing sends what decide makes of the rights of now, and again of those of
// then where the directory was changed meanwhile. Without an event nothing is
// changed.
func changing[T any](ctx context.Context, s *Server, c caller, decide func(rights) (T, *event, error)) (T, error) {
	var none T
	for range maxTries {
		now, err := s.rights(ctx, c)
		if err != nil {
			return none, err
		}
		out, e, err := decide(now)
		if err != nil || e == nil {
			return out, err
		}
		err = s.directory.tell(ctx, c, now.dir, *e)
		refused, ok := err.(*refusedEvent)
		switch {
		case !ok:
			return out, err
		case refused.Code == "invalid_event": // a name, of which Grantkeeper asks more than we do
			return none, badRequest(strings.TrimPrefix(refused.Description, "The event cannot be read: object: "))
		case refused.Code != "directory_changed":
			return none, refused
		}
	}
	return none, errUnavailable
}
