package operator

import (
	"errors"
	"net/http"
	"net/netip"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/store"
)

func (s *Server) clients(c Call) (any, error) {
	f, err := c.Filter("state", "query")
	if err != nil {
		return nil, err
	}
	rows, next, err := s.FindClients(c, f, f.Get("query"))
	return newListPage(rows, next, newClient), err
}

// FindClients gives clients, newest first, and the cursor of the next ones: those
// in the filter's state, with the query in their name, a redirect URI or their ID.
func (s *Server) FindClients(c Call, f Filter, query string) ([]client.Client, string, error) {
	state, err := f.OneOf("state", "registered", "approved", "disabled", "preregistered")
	if err != nil {
		return nil, "", err
	}
	rows, next, err := s.Store.Clients(c.Context(), store.ClientFilter{State: state, Query: query, After: f.After, Limit: f.Limit})
	return rows, next, f.CursorError(err)
}

func (s *Server) client(c Call) (any, error) {
	found, err := s.Store.Client(c.Context(), c.PathValue("id"))
	return newClient(found), err
}

// clientBody is the body of POST /v1/clients.
type clientBody struct {
	reasonBody
	ClientID     string   `json:"client_id"`
	ClientName   string   `json:"client_name"`
	RedirectURIs []string `json:"redirect_uris"`
}

// addClient preregisters a client, under the rules for clients of the
// configuration (decision R6). Adding the same client again changes nothing.
func (s *Server) addClient(c Call, body clientBody) (any, error) {
	found, err := s.AddClient(c, body.ClientID, body.ClientName, body.RedirectURIs, body.Reason)
	return newClient(found), err
}

// AddClient preregisters a client.
func (s *Server) AddClient(c Call, id, name string, redirectURIs []string, reason string) (client.Client, error) {
	added, err := client.Preregistered(id, name, redirectURIs, s.OwnHosts())
	if err != nil {
		return client.Client{}, BadRequest(err.Error())
	}
	err = s.Store.Preregister(c.Context(), added, c.Act(reason))
	if errors.Is(err, store.ErrConflict) {
		return client.Client{}, &Error{http.StatusConflict, "conflict", "there is another client with this ID"}
	} else if err != nil {
		return client.Client{}, err
	}
	return s.Store.Client(c.Context(), added.ID)
}

func (s *Server) setEnabled(on bool) func(Call, reasonBody) (any, error) {
	return func(c Call, body reasonBody) (any, error) {
		id := c.PathValue("id")
		ended, err := s.countEnding(c, store.ApprovalFilter{Client: id}, on)
		if err != nil {
			return nil, err
		}
		if err := s.Store.SetClientEnabled(c.Context(), id, on, c.Act(body.Reason)); err != nil {
			return nil, err
		}
		found, err := s.Store.Client(c.Context(), id)
		return struct {
			clientObject
			*approvalsEnded
		}{newClient(found), ended}, err
	}
}

// clientDeleted is the answer to deleting a client.
type clientDeleted struct {
	ID       string `json:"id"`
	ClientID string `json:"client_id"`
	State    string `json:"state"` // always deleted
	*approvalsEnded
}

// deleteClient ends a client and its approvals.
func (s *Server) deleteClient(c Call, body reasonBody) (any, error) {
	id := c.PathValue("id")
	ended, err := s.countEnding(c, store.ApprovalFilter{Client: id}, false)
	if err != nil {
		return nil, err
	}
	if err := s.DeleteClient(c, id, body.Reason); err != nil {
		return nil, err
	}
	return clientDeleted{id, id, "deleted", ended}, nil
}

// DeleteClient ends a client and its approvals.
func (s *Server) DeleteClient(c Call, id, reason string) error {
	err := s.Store.DeleteClient(c.Context(), id, c.Act(reason))
	switch {
	case errors.Is(err, store.ErrNotAllowed):
		return &Error{http.StatusConflict, "not_allowed",
			"the client is in the configuration, which would bring it back: take it out there, or disable it"}
	case errors.Is(err, store.ErrNotFound):
		return NotFound("client")
	}
	return err
}

// deleteClientsBody is the body of POST /v1/clients/delete: which of the clients
// without an approval to delete. Times are Unix seconds, RFC 3339 or how long ago.
type deleteClientsBody struct {
	reasonBody
	Network string `json:"network"`
	Since   string `json:"since"`
	Until   string `json:"until"`
	DryRun  bool   `json:"dry_run"`
}

// clientsDeleted says how many clients a change has deleted, or would delete in a
// dry run, and which networks had most of them.
type clientsDeleted struct {
	ID       string           `json:"id"` // always "clients"
	DryRun   bool             `json:"dry_run"`
	Deleted  int              `json:"deleted"`
	Networks []networkClients `json:"networks"` // at most ten, those with the most clients
}

type networkClients struct {
	Network string `json:"network"` // "" is unknown
	Clients int    `json:"clients"`
}

// deleteUnapproved deletes every client that matches the body and that no person
// has approved.
func (s *Server) deleteUnapproved(c Call, body deleteClientsBody) (any, error) {
	n, most, err := s.DeleteUnapproved(c, Unapproved{body.Network, body.Since, body.Until}, body.DryRun, body.Reason)
	if err != nil {
		return nil, err
	}
	out := clientsDeleted{"clients", body.DryRun, n, []networkClients{}}
	for _, one := range most {
		out.Networks = append(out.Networks, networkClients(one))
	}
	return out, err
}

// Unapproved says which clients without an approval are meant: all that match what is
// given. Times are as in deleteClientsBody.
type Unapproved struct{ Network, Since, Until string }

// DeleteUnapproved deletes all that match, or in a dry run counts them.
func (s *Server) DeleteUnapproved(c Call, which Unapproved, dry bool, reason string) (int, []store.NetworkClients, error) {
	f, err := s.unapprovedFilter(which, dry)
	if err != nil {
		return 0, nil, err
	}
	return s.Store.DeleteUnapproved(c.Context(), f, dry, c.Act(reason))
}

func (s *Server) unapprovedFilter(body Unapproved, dry bool) (f store.UnapprovedFilter, err error) {
	if body.Network+body.Since+body.Until == "" && !dry {
		return f, BadRequest("say which: network, since or until; dry_run alone counts all of them")
	}
	if body.Network != "" {
		if f.Network, err = netip.ParsePrefix(body.Network); err != nil || f.Network != f.Network.Masked() ||
			f.Network.Addr().Is4In6() || f.Network.Bits() > limit.Block(f.Network.Addr()).Bits() {
			return f, BadRequest("network: an address block such as 192.0.2.0/24 or 2001:db8:2::/48, or a wider one: less is not stored")
		}
	}
	f.Since, f.Until, err = readSpan(body.Since, body.Until, s.Store.Now())
	return f, err
}
