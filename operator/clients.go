package operator

import (
	"errors"
	"net/http"
	"net/netip"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/store"
)

// clientBody is the body of POST /v1/clients.
type clientBody struct {
	reasonBody
	ClientID     string   `json:"client_id"`
	ClientName   string   `json:"client_name"`
	RedirectURIs []string `json:"redirect_uris"`
}

// addClient preregisters a client, under the rules of those of the
// configuration (decision R6). One that exists exactly so stays as it is.
func (s *Server) addClient(c Call, body clientBody) (any, error) {
	added, err := client.Preregistered(body.ClientID, body.ClientName, body.RedirectURIs, s.OwnHosts)
	if err != nil {
		return nil, BadRequest(err.Error())
	}
	err = s.Store.Preregister(c.Context(), added, c.Act(body.Reason))
	if errors.Is(err, store.ErrConflict) {
		return nil, &Error{http.StatusConflict, "conflict", "there is another client with this ID"}
	} else if err != nil {
		return nil, err
	}
	found, err := s.Store.Client(c.Context(), added.ID)
	return newClient(found), err
}

// clientDeleted is a client that was deleted.
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
	err = s.Store.DeleteClient(c.Context(), id, c.Act(body.Reason))
	switch {
	case errors.Is(err, store.ErrNotAllowed):
		return nil, &Error{http.StatusConflict, "not_allowed",
			"the client is in the configuration, which would bring it back: take it out there, or disable it"}
	case errors.Is(err, store.ErrNotFound):
		return nil, NotFound("client")
	case err != nil:
		return nil, err
	}
	return clientDeleted{id, id, "deleted", ended}, nil
}

// deleteClientsBody is the body of POST /v1/clients/delete: which of those that nobody
// has approved. Times are Unix seconds, RFC 3339 or how long ago.
type deleteClientsBody struct {
	reasonBody
	Network string `json:"network"`
	Since   string `json:"since"`
	Until   string `json:"until"`
	DryRun  bool   `json:"dry_run"`
}

// clientsDeleted says how many clients a change has deleted, or would, and which
// networks had most of them.
type clientsDeleted struct {
	ID       string           `json:"id"` // always "clients"
	DryRun   bool             `json:"dry_run"`
	Deleted  int              `json:"deleted"`
	Networks []networkClients `json:"networks"` // ten at most
}

type networkClients struct {
	Network string `json:"network"` // "" where it is not known
	Clients int    `json:"clients"`
}

// deleteUnapproved deletes every client that matches and that nobody approved.
func (s *Server) deleteUnapproved(c Call, body deleteClientsBody) (any, error) {
	f, err := s.unapprovedFilter(body)
	if err != nil {
		return nil, err
	}
	n, most, err := s.Store.DeleteUnapproved(c.Context(), f, body.DryRun, c.Act(body.Reason))
	out := clientsDeleted{"clients", body.DryRun, n, []networkClients{}}
	for _, one := range most {
		out.Networks = append(out.Networks, networkClients(one))
	}
	return out, err
}

func (s *Server) unapprovedFilter(body deleteClientsBody) (f store.UnapprovedFilter, err error) {
	if body.Network+body.Since+body.Until == "" && !body.DryRun {
		return f, BadRequest("say which: network, since or until; dry_run alone counts all of them")
	}
	if body.Network != "" {
		if f.Network, err = netip.ParsePrefix(body.Network); err != nil || f.Network != f.Network.Masked() ||
			f.Network.Addr().Is4In6() || f.Network.Bits() > limit.Block(f.Network.Addr()).Bits() {
			return f, BadRequest("network: an address block such as 192.0.2.0/24 or 2001:db8:2::/48, or a wider one: less is not stored")
		}
	}
	now := s.Store.Now()
	if f.Since, err = readTime("since", body.Since, now); err != nil {
		return f, err
	}
	f.Until, err = readTime("until", body.Until, now)
	return f, err
}
