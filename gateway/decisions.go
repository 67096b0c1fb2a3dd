package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/strictjson"
)

// maxBody is the greatest body of a question, in bytes (decision L5).
const maxBody = 64 << 10

// question is the body of POST /v1/decisions: a credential, and what it came
// with. All members but arguments are strings, and none is needed: without a
// credential the answer says how to refuse.
type question struct {
	Token  string // as it stood behind Bearer
	APIKey string // as it stood in X-Auth-Token
	Host   string // as asked for; none is the first base URL's
	Path   string // with or without a query; none is /api/v5
	Method string // for the rules

	Tool      string // the MCP tool that is called, in place of Method
	Arguments string // its arguments, an object as JSON
	ReadOnly  string // its readOnlyHint: true or false
}

// call is what the rules are asked about. The body is the gateway's to keep.
func (q question) call(more client.Resources) rules.Call {
	path, query, _ := strings.Cut(cmp.Or(q.Path, client.APIPath), "?")
	if q.Tool != "" {
		at, _ := more.Of(path)
		if !slices.Contains(more, at) { // the contract's
			at.Path = ""
		}
		reads := map[string]rules.Known{"true": rules.Yes, "false": rules.No}[q.ReadOnly]
		return rules.Call{At: at.Path, Tool: q.Tool, Arguments: json.RawMessage(q.Arguments), Reads: reads}
	}
	return rules.Call{Method: q.Method, Path: path, Query: query, Unread: true}
}

// decision is the answer.
type decision struct {
	Allowed bool `json:"allowed"`

	// Of a request that may pass.
	Actor *actor `json:"actor,omitempty"`
	Limit *quota `json:"limit,omitempty"`

	// Of one that may not: what to answer it with.
	Status          int    `json:"status,omitempty"`
	Error           string `json:"error,omitempty"`
	Reason          string `json:"reason,omitempty"` // in words
	WWWAuthenticate string `json:"www_authenticate,omitempty"`
	RetryAfter      int    `json:"retry_after,omitempty"` // seconds

	Ruled *ruled `json:"rules,omitempty"` // where there are rules
}

// ruled is what the rules say.
type ruled struct {
	Allowed  bool         `json:"allowed"`
	Reason   rules.Reason `json:"reason"`
	Rule     *int         `json:"rule,omitempty"` // as configured, from 0
	Touches  string       `json:"touches,omitempty"`
	Role     string       `json:"role,omitempty"` // ID
	RoleName string       `json:"role_name,omitempty"`
	Needs    string       `json:"needs,omitempty"`
	Has      string       `json:"has,omitempty"`
	Edit     string       `json:"edit,omitempty"`
}

// actor is who a request acts for, and how far it may go now (decision P6).
type actor struct {
	Person       string `json:"person"`             // ID
	Organization string `json:"organization"`       // ID
	Approval     string `json:"approval,omitempty"` // none when an API key was sent
	Client       string `json:"client,omitempty"`   // client ID; none when an API key was sent
	Grant        string `json:"grant"`              // what the person chose: roles, everything or organization
	Admin        bool   `json:"admin"`              // circles, roles, fillers and members may be changed
	Personal     bool   `json:"personal"`           // the person's own items may be read and changed
	Roles        []role `json:"roles"`              // filled by the person now, and acted through

	// What the organization lets any app have at most (decision V64).
	ReadOnly      bool     `json:"read_only,omitempty"`
	Never         []string `json:"never,omitempty"`          // IDs of roles
	AdminWithin   bool     `json:"admin_within,omitempty"`   // as admin, but for items of those, and under read_only to read
	PersonalReads bool     `json:"personal_reads,omitempty"` // the person's own items may be read, and not changed
}

type role struct {
	Role   string `json:"role"`   // ID
	Access string `json:"access"` // read or change
}

// quota is the organization's limit, after this request was counted.
type quota struct {
	Limit     int `json:"limit"`     // requests in any window
	Remaining int `json:"remaining"` // of them, now
	Reset     int `json:"reset"`     // seconds until all are there again if no more come: the window
}

// decisions answers POST /v1/decisions. A decision, either way, is 200: other
// statuses are about the question.
func (s *Server) decisions(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.keyed(w, r, Decisions); !ok {
		return
	}
	q, err := readQuestion(w, r)
	if err != nil {
		s.API.Answer(w, &api.Fault{Status: 400, Code: "invalid_request", Description: "The question cannot be read: " + err.Error() + "."})
		return
	}
	if _, ok := s.keyed(w, r, Decisions); !ok { // it may be long after the first look
		return
	}
	d, refused := s.judge(w.Header().Get("X-Request-Id"), r, q)
	if refused != nil { // neither yes nor no
		refused.replay(w)
		return
	}
	answerJSON(w, d)
}

// judge asks the guard. What it would answer to a request that may not pass
// becomes the decision, but for faults of this server, which are given back.
func (s *Server) judge(requestID string, r *http.Request, q question) (decision, *answer) {
	o, fault := s.request(r.Context(), q.original())
	if fault != nil {
		return decision{Status: fault.Status, Error: fault.Code, Reason: fault.Description}, nil
	}
	refusal := newAnswer(requestID)
	a, ok := s.guard(refusal, o)
	if ok {
		return s.held(r, a, q, refusal)
	}
	if refusal.status >= 500 {
		return decision{}, refusal
	}
	var told api.Fault
	if err := json.Unmarshal(refusal.body.Bytes(), &told); err != nil {
		panic(err) // api.Fault wrote it
	}
	wait, _ := strconv.Atoi(refusal.header.Get("Retry-After")) // 0 is none
	return decision{
		Status: refusal.status, Error: told.Code, Reason: told.Error(),
		WWWAuthenticate: refusal.header.Get("WWW-Authenticate"), RetryAfter: wait,
	}, nil
}

// held holds a call that the guard lets pass against the rules.
func (s *Server) held(r *http.Request, a api.Rights, q question, fault *answer) (decision, *answer) {
	by := s.API.RulesFor(a)
	if by == nil {
		s.note(a, q, rules.Decision{Allowed: true, Rule: -1})
		return s.allowed(a), nil
	}
	if c := q.call(s.API.Resources); !by.Empty() && c.Tool == "" && takenForMCP(s.API.Resources.All(), c.Path) != "" {
		return decision{Status: noTool.Status, Error: noTool.Code, Reason: "Send the tool that is called, and its arguments."}, nil
	}
	made, err := s.API.Ruled(r.Context(), a, q.call(s.API.Resources))
	if err != nil {
		s.API.Fail(fault, r, err)
		return decision{}, fault
	}
	s.note(a, q, made)
	told := api.Denied(a, made, s.Base(cmp.Or(q.Host, s.Host())))
	d := decision{Status: http.StatusForbidden, Error: told.Code, Reason: told.Description}
	if made.Allowed {
		d = s.allowed(a)
	}
	d.Ruled = &ruled{made.Allowed, made.Reason, told.Rule, made.Touches, made.Role, made.RoleName, made.Needs, made.Has, told.Edit}
	return d, nil
}

// note keeps what was decided about a call.
func (s *Server) note(a api.Rights, q question, d rules.Decision) {
	c := q.call(s.API.Resources)
	record := activity.Record{Way: activity.Gateway, Method: c.Method, Path: c.Path, Tool: c.Tool}
	if !d.Allowed {
		s.API.Refused(a, record, string(d.Reason), d.Role)
	} else {
		s.API.Passed(a, record, d, s.API.RuledBy().Reads(c), c.Tool == "" && c.Method == "")
	}
}

func (q question) original() original {
	o := original{host: q.Host, target: q.Path, header: http.Header{}}
	if q.Token != "" {
		o.header["Authorization"] = []string{"Bearer " + q.Token}
	}
	if q.APIKey != "" {
		o.header["X-Auth-Token"] = []string{q.APIKey}
	}
	return o
}

func (s *Server) allowed(a api.Rights) decision {
	i := a.Identity()
	told := &actor{
		Person: i.Person, Organization: i.Organization, Approval: i.Approval, Client: i.Client, Grant: i.Grant,
		Admin: i.Admin, Personal: i.Personal, Roles: []role{},
		ReadOnly: i.ReadOnly, Never: i.Never, AdminWithin: i.AdminWithin, PersonalReads: i.PersonalReads,
	}
	for _, r := range a.Member().Roles() {
		if access := a.Acts(r.ID); access != "none" {
			told.Roles = append(told.Roles, role{r.ID, access})
		}
	}
	of, left := s.API.Left(a.Organization)
	return decision{Allowed: true, Actor: told, Limit: &quota{of.N, left, int(of.Window.Seconds())}}
}

// readQuestion reads one JSON object of strings, each known and there once, so
// that no two readers see different credentials in it.
func readQuestion(w http.ResponseWriter, r *http.Request) (question, error) {
	if !api.IsJSON(r.Header) {
		return question{}, errors.New("it needs Content-Type: application/json")
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return question{}, fmt.Errorf("the body is broken off, or has more than %d bytes", maxBody)
	}
	return parseQuestion(text)
}

func parseQuestion(text []byte) (q question, err error) {
	members, err := strictjson.Object(text, strictjson.Depth)
	var arguments []byte
	for name, at := range map[string]any{"token": &q.Token, "api_key": &q.APIKey, "host": &q.Host, "path": &q.Path, "method": &q.Method,
		"tool": &q.Tool, "arguments": &arguments, "read_only": &q.ReadOnly} {
		err = cmp.Or(err, take(members, name, at))
	}
	switch {
	case errors.Is(err, strictjson.ErrTwice), err == nil && len(members) > 0:
		return question{}, errors.New("its members are token, api_key, host, path and method, or tool, arguments and read_only, each once")
	case err != nil:
		return question{}, errors.New("it is not one JSON object of strings")
	}
	q.Arguments = string(arguments)
	return q, nil
}

// answer is what the guard answers, kept to be told.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newAnswer(requestID string) *answer {
	a := &answer{header: http.Header{}}
	if requestID != "" {
		a.header.Set("X-Request-Id", requestID)
	}
	return a
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// replay answers with it.
func (a *answer) replay(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes())
}
