// Package metrics counts what happens, for Prometheus and for the operators'
// console.
//
// What is counted with every request are plain atomic numbers that are read
// when somebody asks for them. No label holds a client, a person, an
// organization or an address, and none holds anything that a stranger chose.
package metrics

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/journal"
)

// Metrics is safe for concurrent use. Make one with New.
type Metrics struct {
	// Gauges gives what is read at each scrape instead of counted; nil, or an
	// error, leaves those metrics out. It is asked with a deadline.
	Gauges func(context.Context) (Gauges, error)

	version, commit, goVersion string

	patterns atomic.Pointer[map[string]*route] // by http.Request.Pattern
	queries  atomic.Pointer[map[string]*histogram]
	adding   sync.Mutex // of patterns, queries and routes
	routes   []*route   // one for each label

	checks [len(checkResults)]atomic.Uint64

	registrations, approvals, ended, tokens, refusals, signIns, limited, deleted, attempts *labelled

	history history
}

// Gauges are how things stand.
type Gauges struct {
	Ready      bool           // /readyz would say so
	Approvals  int            // that have not ended and whose code was exchanged
	Clients    map[string]int // by state
	Schema     int
	LastBackup int64 // Unix seconds; 0 is never

	JournalBlocks int64  // number of the newest one; 0 is none
	JournalSealed int64  // when it was sealed, Unix seconds
	JournalAnchor string // that this process told last; "" is none

	ActivityRecorded, ActivityCounted, ActivityLost int64 // records, calls that are counted, and records that found no room, since the start
	ActivityWaiting                                 int   // records that are not written yet

	LimiterAway bool // the shared rate limits do not answer
}

// Build says what runs.
type Build struct{ Version, Commit, Go string }

// New gives metrics that stand at zero. now is the clock of the history.
func New(b Build, now func() time.Time) *Metrics {
	m := &Metrics{version: b.Version, commit: b.Commit, goVersion: b.Go}
	m.patterns.Store(&map[string]*route{})
	m.queries.Store(&map[string]*histogram{})
	m.registrations = newLabelled([]string{"created"}, []string{"refused"}, []string{"limited"})
	m.approvals = newLabelled([]string{"approved", "roles"}, []string{"approved", "everything"}, []string{"approved", "organization"},
		[]string{"cancelled", "none"}, []string{"refused", "none"})
	m.ended = newLabelled()
	for _, reason := range endReasons {
		m.ended.add(reason, "", 0)
	}
	m.tokens = newLabelled([]string{"authorization_code"}, []string{"refresh_token"})
	m.refusals = newLabelled([]string{"invalid_grant", "reused"}, []string{"invalid_grant", "over"})
	m.signIns = newLabelled([]string{"ok"}, []string{"failed"}, []string{"throttled"})
	m.attempts = newLabelled()
	m.limited = newLabelled([]string{"authorize"}, []string{"token"}, []string{"register"}, []string{"api"})
	m.deleted = newLabelled([]string{"client"}, []string{"approval"}, []string{"session"}, []string{"reset"}, []string{"event"}, []string{"activity"})
	m.history.begin(now)
	return m
}

// maxRoutes bounds the routes that are told apart: they come from the code, so
// there are fewer. Others count as one.
const maxRoutes = 300

// Request counts an answered request. It is on the way of every one: two
// atomic additions, and no allocation after the first of its kind. pattern is that of http.Request; an empty one is a path that nobody
// knows.
func (m *Metrics) Request(pattern, method string, status int, took time.Duration) {
	r := (*m.patterns.Load())[pattern]
	if r == nil {
		r = m.addPattern(pattern)
	}
	i, j := methodIndex(method), statusIndex(status)
	h := r.at(i, j)
	if h == nil {
		h = r.add(i, j)
	}
	h.observe(took)
}

// addPattern makes a place for a pattern. Patterns of one path share it,
// whatever their methods.
func (m *Metrics) addPattern(pattern string) *route {
	m.adding.Lock()
	defer m.adding.Unlock()
	old := *m.patterns.Load()
	if r := old[pattern]; r != nil {
		return r
	}
	label := routeLabel(pattern)
	if len(old) >= maxRoutes {
		label = "other"
	}
	var r *route
	for _, known := range m.routes {
		if known.label == label {
			r = known
		}
	}
	if r == nil {
		r = &route{label: label}
		m.routes = append(m.routes, r)
	}
	if label != "other" {
		m.patterns.Store(added(old, pattern, r))
	}
	return r
}

func added[V any](old map[string]V, key string, v V) *map[string]V {
	grown := make(map[string]V, len(old)+1)
	maps.Copy(grown, old)
	grown[key] = v
	return &grown
}

// Query counts how long the database took for a query, by a name of the code.
func (m *Metrics) Query(name string, took time.Duration) {
	h := (*m.queries.Load())[name]
	if h == nil {
		h = m.addQuery(name)
	}
	h.observe(took)
}

func (m *Metrics) addQuery(name string) *histogram {
	m.adding.Lock()
	defer m.adding.Unlock()
	old := *m.queries.Load()
	if h := old[name]; h != nil {
		return h
	}
	h := &histogram{}
	m.queries.Store(added(old, name, h))
	return h
}

// checkResults are the labels of token_checks_total. What sent no credential,
// and what the database could not answer, is no check.
var checkResults = [...]string{"valid", "expired", "revoked", "unknown", "wrong_kind", "wrong_header"}

// Check counts how a bearer token, or an API key, was found.
func (m *Metrics) Check(result string) {
	for i, r := range checkResults { // the most frequent comes first
		if r == result {
			m.checks[i].Add(1)
			return
		}
	}
}

// OAuth counts the outcome of a request to the endpoints for clients, as
// oauth.Server.Count tells it.
func (m *Metrics) OAuth(endpoint, result, reason string) {
	switch {
	case reason == "limited":
		m.Limited(endpoint)
	case result == "ok" && endpoint == "token":
		m.tokens.add(reason, "", 1)
	case result == "ok" && endpoint == "register":
		m.registrations.add("created", "", 1)
	case reason == "unavailable", result == "server_error", result == "ok":
		// Our fault is among the requests, by its status; a revocation is
		// counted as the approval that it ends.
	case endpoint == "token":
		if reason == "" {
			reason = "none"
		}
		m.refusals.add(result, reason, 1)
	case endpoint == "register":
		m.registrations.add("refused", "", 1)
	}
}

// Attempt counts what was wrong with a step of a client that tried to connect.
func (m *Metrics) Attempt(reason string) { m.attempts.add(reason, "", 1) }

// Limited counts a request that was over a rate limit.
func (m *Metrics) Limited(endpoint string) {
	if endpoint == "revoke" {
		endpoint = "token" // they are counted together (spec section 8)
	}
	if endpoint == "register" {
		m.registrations.add("limited", "", 1)
	}
	m.limited.add(endpoint, "", 1)
}

// SignIn counts a try to sign in: ok, failed or throttled.
func (m *Metrics) SignIn(result string) { m.signIns.add(result, "", 1) }

// Deleted counts rows that were deleted because their time was over.
func (m *Metrics) Deleted(kind string, n int) { m.deleted.add(kind, "", uint64(n)) }

// endReasons gives the reasons of decision J2, and that of a drill, in the words
// of the metric.
var endReasons = map[approval.Reason]string{
	approval.RevokedByPerson: "person", approval.RevokedByAdmin: "admin", approval.RevokedByOperator: "operator", approval.RevokedByClient: "client",
	approval.LeftOrganization: "membership", approval.PersonDeactivated: "account", approval.ClientDisabled: "client_disabled",
	approval.RefreshReused: "refresh_reused", approval.CodeReused: "code_reused", approval.IntegrationOff: "integration_off",
	approval.Replaced: "replaced", approval.NeverConnected: "never_connected", approval.Unused: "unused", approval.KeyRetired: "key_retired",
	approval.Restored: "restored", approval.StateLost: "state_lost",
	approval.EndedOnDate: "ended_on_date", approval.AppBlocked: "app_blocked", approval.RedirectGone: "redirect_uri_gone", "drill": "drill",
}

// Journaled counts what an entry of the journal tells, once it is durable.
func (m *Metrics) Journaled(kind journal.Kind, reason, detail string) {
	switch kind {
	case journal.ApprovalGranted:
		m.approvals.add("approved", detail, 1)
	case journal.ApprovalCancelled:
		m.approvals.add("cancelled", "none", 1)
	case journal.ApprovalRefused:
		m.approvals.add("refused", "none", 1)
	case journal.ApprovalEnded:
		if known := endReasons[approval.Reason(reason)]; known != "" {
			reason = known
		}
		m.ended.add(reason, "", 1)
	}
}

// Collector gives all of them to a registry.
func (m *Metrics) Collector() prometheus.Collector { return collector{m} }
