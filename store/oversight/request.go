package oversight

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store/approvals"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// RequestState is what has become of a request.
type RequestState string

const (
	RequestOpen          RequestState = "open"
	RequestAllowed       RequestState = "allowed"        // for everybody in the organization
	RequestAllowedPerson RequestState = "allowed_person" // for whoever asked
	RequestDeclined      RequestState = "declined"
	RequestWithdrawn     RequestState = "withdrawn"
)

const (
	sqlOpen     = "'" + string(RequestOpen) + "'"
	sqlDeclined = "'" + string(RequestDeclined) + "'"
)

// Bounds of requests.
const (
	MaxMessage    = 500      // code points
	MaxOpenOfOne  = 20       // of one person
	AskAgainAfter = 30 * day // that an admin has declined
	OpenRetention = 90 * day // nobody decides it any more
)

// MaxOpen bounds the open requests of an organization. A test has a lower one.
var MaxOpen = 1000

// ErrFull is too many of something: of open requests, or of connections at once.
var ErrFull = engine.ErrFull

// ErrDeclined is a request for what an admin has declined in the last 30 days.
var ErrDeclined = fmt.Errorf("it was declined not long ago: %w", engine.ErrNotAllowed)

// Request is a member's wish that an admin allow an app. It gives nothing.
type Request struct {
	ID, Organization, Person string
	PersonName, PersonEmail  string // now; empty where somebody has been removed
	Host, Name               string // of the app, when it was asked for
	Client                   string // ID
	Message                  string
	AskedAt                  int64 // Unix seconds
	State                    RequestState
	DecidedBy                string // as in the journal; "" while it is open
	DecidedAt                int64
	Reason                   string // of whoever decided
}

const selectRequest = `
	SELECT id, organization, person, host, name, client, message, asked_at, state, decided_by, decided_at, reason FROM app_request`

func scanRequest(r engine.Scanner, q *Request) error {
	var state string
	err := r.Scan(&q.ID, &q.Organization, &q.Person, &q.Host, &q.Name, &q.Client, &q.Message, &q.AskedAt, &state, &q.DecidedBy, &q.DecidedAt, &q.Reason)
	q.State = RequestState(state)
	return err
}

// Asking is what a member asks for.
type Asking struct {
	Organization, Person, Client string // IDs
	RedirectURI                  string // of the client
	Message                      string // at most MaxMessage code points; lines may end
}

// Ask asks the admins of an organization to allow an app. Who has asked for it before
// and waits is given that request, with made false.
//
// ErrDeclined, with the request: an admin has declined it less than 30 days ago.
// ErrChanged: no admin has to be asked. ErrAppRule: the app is blocked. ErrNotAllowed:
// the person is no member, AI integration is off, or the message cannot be. ErrFull:
// the person has 20 open requests, or the organization 1000. ErrNotFound: there is no
// such client.
func (s *OversightStore) Ask(_ context.Context, a Asking, act engine.Act) (r Request, made bool, err error) {
	err = s.db.ChangeFacts(func(tx *engine.Tx) (err error) {
		r, made, err = ask(tx, a, act)
		return err
	})
	return r, made, err
}

func ask(tx *engine.Tx, a Asking, act engine.Act) (r Request, made bool, err error) {
	at := tx.Memory.Members.Get(facts.MemberKey{Person: a.Person, Organization: a.Organization})
	if !at.AsMember().Exists() || !at.Org.AIIntegration || !isMessage(a.Message) {
		return r, false, fmt.Errorf("request: %w", engine.ErrNotAllowed)
	}
	app, err := appOf(tx, a.Client, a.RedirectURI)
	if err != nil {
		return r, false, err
	}
	switch rule, _ := at.Org.Policy.Decide(app.hosts, app.name, a.Person, app.preregistered); rule {
	case policy.Block:
		return r, false, fmt.Errorf("request: %w", ErrAppRule)
	case policy.Allow:
		return r, false, fmt.Errorf("request: %w", engine.ErrChanged)
	}
	now := tx.Env.Now()
	before, err := asked(tx, a, app, now.Add(-AskAgainAfter))
	switch {
	case err != nil:
		return r, false, err
	case before.State == RequestOpen:
		return before, false, nil
	case before.State == RequestDeclined:
		return before, false, ErrDeclined
	}
	if err := hasRoom(tx, a); err != nil {
		return r, false, err
	}
	r = Request{
		ID: tx.Env.Ids.Next(now), Organization: a.Organization, Person: a.Person, PersonName: at.Person.Name, PersonEmail: at.Person.Email,
		Host: app.hosts.App, Name: app.name, Client: a.Client, Message: a.Message, AskedAt: now.Unix(), State: RequestOpen,
	}
	if _, err := tx.Exec(`
		INSERT INTO app_request (id, organization, person, host, name, name_key, client, message, asked_at, state, decided_by, decided_at, reason)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, `+sqlOpen+`, '', 0, '')`,
		r.ID, r.Organization, r.Person, r.Host, r.Name, client.NameKey(r.Name), r.Client, r.Message, r.AskedAt); err != nil {
		return r, false, err
	}
	return r, true, tx.Journal(r.event(journal.RequestMade).By(act))
}

func isMessage(text string) bool {
	return utf8.RuneCountInString(text) <= MaxMessage && org.Legible(text, true)
}

func (r Request) event(kind journal.Kind) engine.Event {
	return engine.Event{Kind: kind, Client: r.Client, Person: r.Person, Organization: r.Organization, Detail: r.Host}
}

// askedFor is an app as rules name it.
type askedFor struct {
	hosts         client.Hosts
	name          string
	preregistered bool
}

// appOf is the app that a client is for an organization's rules.
func appOf(tx *engine.Tx, clientID, redirectURI string) (app askedFor, err error) {
	c := tx.Memory.Clients[clientID]
	if c == nil || c.Disabled || !c.Known(tx.Env.Now()) || client.HostOf(redirectURI) == "" {
		return app, fmt.Errorf("client: %w", engine.ErrNotFound)
	}
	app.preregistered, app.hosts = c.Preregistered, client.HostsOf(clientID, redirectURI, c.Preregistered)
	return app, engine.Lookup("client", tx.QueryRow(`SELECT name FROM client WHERE id = $1`, clientID).Scan(&app.name))
}

// asked gives the request for the host that is open, or the last one for the app that
// was declined since a time; else the zero Request.
func asked(tx *engine.Tx, a Asking, app askedFor, since time.Time) (last Request, err error) {
	rows, err := tx.Query(selectRequest+`
		 WHERE person = $1 AND organization = $2 AND host = $3
		   AND (state = `+sqlOpen+` OR state = `+sqlDeclined+` AND name_key = $4 AND decided_at > $5)
		 ORDER BY id`, a.Person, a.Organization, app.hosts.App, client.NameKey(app.name), since.Unix())
	all, err := engine.ListOf(rows, err, scanRequest)
	for _, r := range all {
		if last.State != RequestOpen {
			last = r
		}
	}
	return last, err
}

func hasRoom(tx *engine.Tx, a Asking) error {
	var ofOne, all int
	if err := tx.QueryRow(`SELECT COUNT(*) FROM app_request WHERE person = $1 AND state = `+sqlOpen, a.Person).Scan(&ofOne); err != nil {
		return err
	}
	if err := tx.QueryRow(`SELECT COUNT(*) FROM app_request WHERE organization = $1 AND state = `+sqlOpen, a.Organization).Scan(&all); err != nil {
		return err
	}
	if ofOne >= MaxOpenOfOne || all >= MaxOpen {
		return fmt.Errorf("open requests: %w", ErrFull)
	}
	return nil
}

// Withdraw takes back a request of a person. ErrNotFound: they have none of that ID;
// ErrChanged, with the request: it is not open any more.
func (s *OversightStore) Withdraw(_ context.Context, id, personID string, act engine.Act) (r Request, err error) {
	err = s.db.ChangeFacts(func(tx *engine.Tx) error {
		if r, err = request(tx, id); err == nil && r.Person != personID {
			err = fmt.Errorf("request: %w", engine.ErrNotFound)
		}
		if err != nil {
			r = Request{}
			return err
		}
		if r.State != RequestOpen {
			return fmt.Errorf("request: %w", engine.ErrChanged)
		}
		r, err = decided(tx, r, RequestWithdrawn, "", act)
		return err
	})
	return r, err
}

func request(tx *engine.Tx, id string) (r Request, err error) {
	rows, err := tx.Query(selectRequest+` WHERE id = $1`+tx.Lock(), id)
	all, err := engine.ListOf(rows, err, scanRequest)
	if err == nil && len(all) == 0 {
		return r, fmt.Errorf("request: %w", engine.ErrNotFound)
	} else if err != nil {
		return r, err
	}
	return all[0], nil
}

var decisions = map[RequestState]journal.Kind{
	RequestAllowed: journal.RequestAllowed, RequestAllowedPerson: journal.RequestAllowed,
	RequestDeclined: journal.RequestDeclined, RequestWithdrawn: journal.RequestWithdrawn,
}

// decided writes what becomes of an open request.
func decided(tx *engine.Tx, r Request, state RequestState, reason string, act engine.Act) (Request, error) {
	r.State, r.DecidedBy, r.DecidedAt, r.Reason = state, act.Actor, tx.Env.Now().Unix(), reason
	n, err := tx.Exec(`
		UPDATE app_request SET state = $1, decided_by = $2, decided_at = $3, reason = $4 WHERE id = $5 AND state = `+sqlOpen,
		string(r.State), r.DecidedBy, r.DecidedAt, r.Reason, r.ID)
	if err == nil && n == 0 {
		err = fmt.Errorf("request: %w", engine.ErrChanged)
	}
	if err != nil {
		return r, err
	}
	return r, tx.Journal(r.event(decisions[state]).By(act))
}

// Decision is what an admin makes of a request.
type Decision struct {
	Organization, Request string       // IDs
	Admin                 string       // ID of the person who decides; "" is an operator
	State                 RequestState // allowed, allowed_person or declined
	Reason                string       // at most policy.MaxReason code points
}

// DecideRequest decides a request, and where it is allowed for everybody or declined,
// all open ones in the organization for that app. To allow is a rule, which becomes part of
// the organization's: the person still sees the consent page. It gives those that it
// decided.
//
// ErrChanged, with the request: somebody has decided it, or it is to be allowed for a
// person who is no member any more. ErrNotFound: there is none there. ErrNotAllowed: the
// person is no admin (any more).
// ErrRules: the rule cannot be beside the others, such as a block of the host.
func (s *OversightStore) DecideRequest(_ context.Context, d Decision, act engine.Act) (all []Request, err error) {
	err = s.db.ChangeFacts(func(tx *engine.Tx) (err error) {
		all, err = decide(tx, d, act)
		return err
	})
	return all, err
}

func decide(tx *engine.Tx, d Decision, act engine.Act) ([]Request, error) {
	if err := mayRule(tx, d.Admin, d.Organization); err != nil {
		return nil, err
	}
	r, err := request(tx, d.Request)
	switch {
	case err == nil && r.Organization != d.Organization:
		return nil, fmt.Errorf("request: %w", engine.ErrNotFound)
	case err != nil:
		return nil, err
	case r.State != RequestOpen:
		return []Request{r}, fmt.Errorf("request: %w", engine.ErrChanged)
	case !org.Legible(d.Reason, false) || utf8.RuneCountInString(d.Reason) > policy.MaxReason:
		return nil, fmt.Errorf("reason: %w", engine.ErrNotAllowed)
	}
	app := policy.App{Host: r.Host, Name: r.Name, Rule: policy.Allow, Reason: d.Reason}
	all := []Request{r}
	switch d.State {
	case RequestAllowedPerson:
		if !tx.Memory.Members.Get(facts.MemberKey{Person: r.Person, Organization: r.Organization}).AsMember().Exists() {
			return all, fmt.Errorf("membership: %w", engine.ErrChanged)
		}
		app.Person = r.Person
		err = allow(tx, d.Organization, app, act)
	case RequestAllowed:
		if all, err = alike(tx, r); err == nil {
			err = allow(tx, d.Organization, app, act)
		}
	case RequestDeclined:
		all, err = alike(tx, r)
	default:
		err = fmt.Errorf("request: %q: %w", d.State, engine.ErrNotFound)
	}
	for i := range all {
		if err != nil {
			return nil, err
		}
		all[i], err = decided(tx, all[i], d.State, d.Reason, act)
	}
	named(tx.Memory, all)
	return all, err
}

// alike lists the open requests for the app of one, that one among them.
func alike(tx *engine.Tx, r Request) ([]Request, error) {
	rows, err := tx.Query(selectRequest+`
		 WHERE organization = $1 AND state = `+sqlOpen+` AND host = $2 AND name_key = $3 ORDER BY id`+tx.Lock(),
		r.Organization, r.Host, client.NameKey(r.Name))
	return engine.ListOf(rows, err, scanRequest)
}

// allow makes a rule part of an organization's.
func allow(tx *engine.Tx, organization string, app policy.App, act engine.Act) error {
	at := tx.Memory.Orgs[organization]
	var p policy.Policy
	if at.Policy != nil {
		p = *at.Policy
	}
	p.Apps = slices.DeleteFunc(slices.Clone(p.Apps), func(a policy.App) bool { return a.Rule != policy.Block && a.Key() == app.Key() })
	p.Apps = append(p.Apps, app)
	if err := sign(tx, &p, at, act); err != nil {
		return err
	}
	if err := putPolicy(tx, organization, &p); err != nil {
		return err
	}
	return tx.Journal(engine.Event{Kind: journal.PolicyChanged, Organization: organization, Detail: fmt.Sprintf("version %d, %s allowed", p.Version, app.Host)}.By(act))
}

// named puts the names of people beside their requests; the lock of memory is the
// caller's, or the writer's own.
func named(m *engine.Memory, all []Request) {
	for i := range all {
		if at := m.People.Get(all[i].Person); at != nil {
			all[i].PersonName, all[i].PersonEmail = at.Name, at.Email
		}
	}
}

// RequestFilter narrows Requests. Limit is at most 1000, 0 is 50.
type RequestFilter struct {
	Organization string
	Decided      bool // else the open ones
	After        string
	Limit        int
}

// Requests lists the requests in an organization, newest first, and gives the cursor
// of the next page or "". Open ones of people who are members no more are left out, and
// so are those that were withdrawn.
func (s *OversightStore) Requests(ctx context.Context, f RequestFilter) ([]Request, string, error) {
	limit := query.PageSize(f.Limit)
	q := query.Builder{Text: selectRequest}
	q.Where("organization = ", f.Organization)
	if f.Decided {
		q.OneOf("state", []any{string(RequestAllowed), string(RequestAllowedPerson), string(RequestDeclined)})
	} else {
		q.Conditions = append(q.Conditions, "state = "+sqlOpen)
	}
	if f.After != "" {
		if len(f.After) != 2*engine.EventIDLen || strings.ContainsFunc(f.After, func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) }) {
			return nil, "", query.ErrCursor
		}
		q.Where("id < ", f.After)
	}
	rows, err := s.db.Reader.QueryContext(ctx, q.Page("id DESC", limit), q.Args...)
	out, err := engine.ListOf(rows, err, scanRequest)
	if err != nil {
		return nil, "", engine.Unavailable("requests", err)
	}
	if err := s.db.Fresh(ctx); err != nil {
		return nil, "", err
	}
	next := ""
	if len(out) > limit {
		out = out[:limit]
		next = out[limit-1].ID
	}
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	named(s.db.Memory, out)
	return slices.DeleteFunc(out, func(r Request) bool {
		return r.State == RequestOpen && !s.db.Memory.Members.Get(facts.MemberKey{Person: r.Person, Organization: r.Organization}).AsMember().Exists()
	}), next, nil
}

// Request gives one request in an organization, or ErrNotFound.
func (s *OversightStore) Request(ctx context.Context, organization, id string) (Request, error) {
	return s.oneRequest(ctx, selectRequest+` WHERE organization = $1 AND id = $2`, organization, id)
}

// RequestOf gives the newest request of a person for a host in an organization that
// was not withdrawn, or ErrNotFound.
func (s *OversightStore) RequestOf(ctx context.Context, organization, personID, host string) (Request, error) {
	return s.oneRequest(ctx, selectRequest+` WHERE organization = $1 AND person = $2 AND host = $3 AND state <> 'withdrawn' ORDER BY id DESC LIMIT 1`, organization, personID, host)
}

func (s *OversightStore) oneRequest(ctx context.Context, text string, args ...any) (r Request, err error) {
	if err := s.db.Fresh(ctx); err != nil {
		return r, err
	}
	if err := scanRequest(s.db.Reader.QueryRowContext(ctx, text, args...), &r); err != nil {
		return Request{}, engine.Lookup("request", err)
	}
	all := []Request{r}
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	named(s.db.Memory, all)
	return all[0], nil
}

// SweepRequests deletes requests that were decided, or that nobody has decided, so
// long ago that nothing asks for them.
func SweepRequests(tx *engine.Tx, now time.Time) (int, error) {
	n, err := tx.Exec(`
		DELETE FROM app_request WHERE id IN (
			SELECT id FROM app_request
			 WHERE asked_at <= $1 AND (state = `+sqlOpen+` OR decided_at <= $2) ORDER BY asked_at LIMIT 500)`,
		now.Add(-OpenRetention).Unix(), now.Add(-approvals.EndedRetention).Unix())
	return int(n), err
}
