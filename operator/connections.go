package operator

import (
	"errors"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
)

// requestObject is a member's wish that an admin allow an app.
type requestObject struct {
	ID           string `json:"id"`
	Organization string `json:"organization"` // ID
	Person       string `json:"person"`       // ID
	PersonName   string `json:"person_name"`  // "" has been removed
	PersonEmail  string `json:"person_email"`
	Host         string `json:"host"` // of the app, when it was asked for
	Name         string `json:"name"`
	ClientID     string `json:"client_id"`
	Message      string `json:"message"` // may have several lines
	AskedAt      int64  `json:"asked_at"`
	State        string `json:"state"`      // open, allowed, allowed_person, declined or withdrawn
	DecidedBy    string `json:"decided_by"` // "" is open
	DecidedAt    int64  `json:"decided_at"`
	Reason       string `json:"reason"` // of the decision
}

func newRequest(r store.Request) requestObject {
	return requestObject{r.ID, r.Organization, r.Person, r.PersonName, r.PersonEmail, r.Host, r.Name, r.Client, r.Message, r.AskedAt,
		string(r.State), r.DecidedBy, r.DecidedAt, r.Reason}
}

func (s *Server) requests(c Call) (any, error) {
	f, err := c.Filter("state")
	if err != nil {
		return nil, err
	}
	state, err := f.OneOf("state", "open", "decided")
	if err != nil {
		return nil, err
	}
	if err := s.knownOrganization(c, c.PathValue("id")); err != nil {
		return nil, err
	}
	rows, next, err := s.Store.Requests(c.Context(), store.RequestFilter{
		Organization: c.PathValue("id"), Decided: state == "decided", After: f.After, Limit: f.Limit,
	})
	return newListPage(rows, next, newRequest), f.CursorError(err)
}

// decisionBody is the body of POST /v1/organizations/{id}/requests/{request}/decision.
type decisionBody struct {
	reasonBody
	State string `json:"state"` // allowed, allowed_person or declined
}

// decidedObject is a request after its decision, and the others for the same app that
// were decided with it.
type decidedObject struct {
	requestObject
	Also []string `json:"also"` // IDs
}

func (s *Server) decideRequest(c Call, body decisionBody) (any, error) {
	d := store.Decision{Organization: c.PathValue("id"), Request: c.PathValue("request"), State: store.RequestState(body.State), Reason: body.Reason}
	switch d.State {
	case store.RequestAllowed, store.RequestAllowedPerson, store.RequestDeclined:
	default:
		return nil, BadRequest("state: one of allowed, allowed_person, declined")
	}
	if utf8.RuneCountInString(d.Reason) > policy.MaxReason {
		return nil, BadRequest(fmt.Sprintf("reason: it has more than %d characters, and whoever asked reads it", policy.MaxReason))
	}
	if err := s.knownOrganization(c, d.Organization); errors.Is(err, store.ErrNotFound) {
		return nil, NotFound("organization")
	} else if err != nil {
		return nil, err
	}
	all, err := s.Store.DecideRequest(c.Context(), d, c.Act(body.Reason))
	var wrong store.PolicyError
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, NotFound("request")
	case errors.As(err, &wrong):
		return nil, &Error{Status: http.StatusConflict, Code: "not_allowed", Description: wrong.Error()}
	case errors.Is(err, store.ErrChanged) && len(all) == 1 && all[0].State == store.RequestOpen:
		return nil, &Error{Status: http.StatusConflict, Code: "not_allowed", Description: "whoever asked is not a member any more"}
	case errors.Is(err, store.ErrChanged) && len(all) == 1 && !(all[0].State == d.State && all[0].DecidedBy == c.Actor):
		return nil, &Error{Status: http.StatusConflict, Code: "conflict", Description: fmt.Sprintf("it is %s: by %s, %s",
			all[0].State, all[0].DecidedBy, time.Unix(all[0].DecidedAt, 0).UTC().Format(time.RFC3339))}
	case err != nil && !errors.Is(err, store.ErrChanged):
		return nil, err
	}
	out := decidedObject{Also: []string{}}
	for _, r := range all {
		if r.ID == d.Request {
			out.requestObject = newRequest(r)
		} else {
			out.Also = append(out.Also, r.ID)
		}
	}
	return out, nil
}

// connectionObject is an approval that lives, as the admins of its organization see it.
type connectionObject struct {
	approvalObject
	Host        string `json:"host"` // of the app
	PersonName  string `json:"person_name"`
	PersonEmail string `json:"person_email"`
	ReviewedBy  string `json:"reviewed_by"` // "" where nobody has
	ReviewedAt  int64  `json:"reviewed_at"`
}

func (s *Server) connections(c Call) (any, error) {
	f, err := c.Filter("query", "grant", "show")
	if err != nil {
		return nil, err
	}
	grant, err := f.OneOf("grant", "roles", "everything", "organization")
	if err != nil {
		return nil, err
	}
	show, err := f.OneOf("show", "unreviewed", "unused", "ending", "beyond")
	if err != nil {
		return nil, err
	}
	if err := s.knownOrganization(c, c.PathValue("id")); err != nil {
		return nil, err
	}
	rows, next, err := s.Store.Connections(c.Context(), store.ConnectionFilter{
		Organization: c.PathValue("id"), Find: f.Get("query"), Access: grantset.Kind(grant), Show: store.Show(show), After: f.After, Limit: f.Limit,
	})
	return newListPage(rows, next, func(r store.Connection) connectionObject {
		return connectionObject{s.approvalObject(c.Context(), r.ApprovalRow), r.Hosts.App, r.PersonName, r.PersonEmail, r.ReviewedBy, r.ReviewedAt}
	}), f.CursorError(err)
}

// connectionsBody is the body of a change of some connections.
type connectionsBody struct {
	reasonBody
	IDs []string `json:"ids"` // of approvals; those that are not of the organization, or have ended, are left out
}

func (b connectionsBody) parse() (ids []approval.ID, err error) {
	if len(b.IDs) == 0 || len(b.IDs) > store.MaxConnections {
		return nil, BadRequest(fmt.Sprintf("ids: from 1 to %d", store.MaxConnections))
	}
	for _, text := range b.IDs {
		id, err := approval.ParseID(text)
		if err != nil {
			return nil, BadRequest(fmt.Sprintf("ids: %.40q is none of an approval", text))
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// connectionsReviewed and connectionsEnded say how many connections a change was about.
type connectionsReviewed struct {
	ID       string `json:"id"` // always "connections"
	Reviewed int    `json:"reviewed"`
}

type connectionsEnded struct {
	ID    string `json:"id"` // always "connections"
	Ended int    `json:"ended"`
}

// connectionsTold is the answer to whoever has said that they take the list.
type connectionsTold struct {
	ID string `json:"id"` // always "connections"
}

// connectionsExported journals that somebody takes the list of an organization's
// connections, as the download of its admins does.
func (s *Server) connectionsExported(c Call, body reasonBody) (any, error) {
	id := c.PathValue("id")
	if err := s.knownOrganization(c, id); err != nil {
		return nil, err
	}
	return connectionsTold{"connections"}, s.Store.RecordExport(id, c.Act(body.Reason))
}

func (s *Server) reviewConnections(c Call, body connectionsBody) (any, error) {
	ids, err := body.parse()
	if err != nil {
		return nil, err
	}
	n, err := s.Store.MarkReviewed(c.Context(), c.PathValue("id"), "", ids, c.Act(body.Reason))
	return connectionsReviewed{"connections", n}, err
}

func (s *Server) endConnections(c Call, body connectionsBody) (any, error) {
	ids, err := body.parse()
	if err != nil {
		return nil, err
	}
	n, err := s.Store.EndConnections(c.Context(), c.PathValue("id"), "", ids, c.Act(body.Reason))
	return connectionsEnded{"connections", n}, err
}
