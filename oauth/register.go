package oauth

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/store"
)

// register is POST /oauth/register (spec 4.2, RFC 7591). It needs no
// credential, and the client may do nothing until a person approves it.
func (s *Server) register(c call) (answer, error) {
	if s.Store.Pressed() {
		if err := s.spend(c, s.networks); err != nil {
			return answer{}, err
		}
	}
	m, refused := s.readMetadata(c)
	if refused != nil {
		s.Store.Record(store.Event{
			Kind: journal.RegistrationRefused, Address: c.address.String(), Reference: c.reference,
			Reason: refused.Code, Detail: refused.Description,
		})
		return answer{}, refuse(http.StatusBadRequest, refused.Code, refused.Description)
	}
	c.seen.sawRegistration(m)
	registered := client.New(m, newClientID(), s.Store.Now())
	from := store.Origin{Network: limit.Block(c.address), Multiple: s.NetworkLimit.Multiple(c.address)}
	if err := s.Store.AddClient(c.Context(), registered, from, c.act(registered.ID)); err != nil {
		return answer{}, err
	}
	s.tell(c, registered.ID, approval.ID{}, "")
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false) // a URI shall be read as it was written
	if err := enc.Encode(registered.Response()); err != nil {
		panic(err) // strings can be written
	}
	return answer{status: http.StatusCreated, body: body.Bytes()}, nil
}

// readMetadata reads the body; what is wrong with the request itself is bad
// metadata too (decision R7).
func (s *Server) readMetadata(c call) (client.Metadata, *client.Refusal) {
	if !isMedia(c.Request, "application/json") {
		return client.Metadata{}, &client.Refusal{
			Code: client.InvalidClientMetadata, Description: "Content-Type must be application/json, in UTF-8",
		}
	}
	body, fault := readBody(c.Request, client.MaxBody, nil)
	if fault != "" {
		return client.Metadata{}, &client.Refusal{Code: client.InvalidClientMetadata, Description: fault}
	}
	m, refused := client.ParseMetadata(body, s.OwnHosts())
	if refused != nil {
		c.seen.Name, c.seen.Host = client.Named(body)
	}
	return m, refused
}

// newClientID gives 26 letters and digits, at least 128 random bits. In one
// case, because people read them to each other.
func newClientID() string { return strings.ToLower(rand.Text()) }
