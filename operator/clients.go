package operator

import (
	"errors"
	"net/http"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/store"
)

// newClientBody is the body of POST /v1/clients.
type newClientBody struct {
	reasoned
	ClientID     string   `json:"client_id"`
	ClientName   string   `json:"client_name"`
	RedirectURIs []string `json:"redirect_uris"`
}

// addClient preregisters a client, under the rules of those of the
// configuration (decision R6). One that exists exactly so stays as it is.
func (s *Server) addClient(c call, body newClientBody) (any, error) {
	added, err := client.Preregistered(body.ClientID, body.ClientName, body.RedirectURIs, s.OwnHosts)
	if err != nil {
		return nil, badRequest(err.Error())
	}
	err = s.Store.Preregister(c.Context(), added, c.act(body.Reason))
	if errors.Is(err, store.ErrConflict) {
		return nil, &Error{http.StatusConflict, "conflict", "there is another client with this ID"}
	} else if err != nil {
		return nil, err
	}
	found, err := s.Store.Client(c.Context(), added.ID)
	return newClient(found), err
}

// deletedClient is a client that was deleted.
type deletedClient struct {
	ID       string `json:"id"`
	ClientID string `json:"client_id"`
	State    string `json:"state"` // always deleted
}

// deleteClient ends a client and its approvals.
func (s *Server) deleteClient(c call, body reasoned) (any, error) {
	id := c.PathValue("id")
	err := s.Store.DeleteClient(c.Context(), id, c.act(body.Reason))
	switch {
	case errors.Is(err, store.ErrNotAllowed):
		return nil, &Error{http.StatusConflict, "not_allowed",
			"the client is in the configuration, which would bring it back: take it out there, or disable it"}
	case errors.Is(err, store.ErrNotFound):
		return nil, unknown("client")
	case err != nil:
		return nil, err
	}
	return deletedClient{id, id, "deleted"}, nil
}
