package oauth

import (
	"errors"
	"net/http"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// revoke is POST /oauth/revoke (spec 4.4, RFC 7009). Any token of an approval
// ends the whole of it, and token_type_hint changes nothing. decision T9.
func (s *Server) revoke(c call) (answer, error) {
	f, err := readForm(c.Request)
	if err != nil {
		return answer{}, err
	}
	if err := s.public(c, f); err != nil {
		return answer{}, err
	}
	for _, p := range []param{tokenParam, clientID} {
		if f.values[p] == "" {
			return answer{}, missing(paramNames[p])
		}
	}
	id := f.values[clientID]
	switch state, err := s.clientState(c, id); {
	case err != nil:
		return answer{}, err
	case state == store.ClientUnknown:
		return answer{}, refuse(http.StatusForbidden, "invalid_client", "this client_id is not known here, or no longer")
	}
	s.tell(c, id, approval.ID{}, "")
	claim, ok := s.Ring.ReadAny(f.values[tokenParam])
	if !ok {
		return revoked, errors.Join(s.unread(token.Access, f.values[tokenParam], nil), s.unread(token.Refresh, f.values[tokenParam], nil))
	}
	of := approval.ID(claim.Handle.ID())
	s.tell(c, "", of, "")
	move := approval.Revoke(id, s.Store.Now())
	_, verdict, err := s.Store.ApplyLive(c.Context(), of, move, c.act(id))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return revoked, nil
	case err != nil:
		return answer{}, err
	case verdict == approval.WrongClient:
		return answer{}, refuse(http.StatusForbidden, "unauthorized_client", "the token was issued to another client")
	}
	return revoked, nil
}

// revoked says nothing of the token: RFC 7009 section 2.2 answers alike
// whether it was valid, over or never one.
var revoked = answer{status: http.StatusOK, body: []byte("{}")}
