// Package client holds the rules of registered clients: what a registration
// may say (RFC 7591), which redirect URIs and names are believed, and how long
// a client that nobody approved stays known.
//
// It is pure: it reads no clock and stores nothing. A Client is a value.
package client

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// UnapprovedRetention is how long a client stays known while no person has
// approved it. spec section 8.
const UnapprovedRetention = 14 * 24 * time.Hour

// MaxID is the most characters that the ID of a client may have: the URL of its metadata
// document. One that is preregistered has at most maxChosen.
const (
	MaxID     = MaxDocumentURL
	maxChosen = 128
)

// A Client is what is kept of one registration. All clients are public: there
// is no secret, and grant types, response types, authentication method and
// scope are the same for every one (spec 2.2), so none of them is kept.
type Client struct {
	ID            string
	Name          string   // as the client reported it; "" when it reported none
	RedirectURIs  []string // byte for byte as registered, in that order
	IssuedAt      int64    // Unix seconds
	Preregistered bool     // comes from configuration; never expires (decision R6)
	Approved      bool     // a person has approved it at least once; never taken back
	Disabled      bool     // the service has disabled it
	GoodUntil     int64    // Unix seconds until which its metadata document is good; 0 where it has none (decision R8)
}

// New is the client that a registration makes. The id is the caller's, and
// must be new.
func New(m Metadata, id string, now time.Time) Client {
	return Client{
		ID:           id,
		Name:         m.Name,
		RedirectURIs: slices.Clone(m.RedirectURIs),
		IssuedAt:     now.Unix(),
	}
}

// Preregistered is a client from configuration, held to the same rules for
// names and redirect URIs as any other (decision R6). Its id is 1 to 128
// characters of VSCHAR (RFC 6749 appendix A) without the space: %x21-7E, and not
// DesktopID. A drill's has the redirect URI DrillRedirect alone. The error names the fault, and the redirect URI by its index.
func Preregistered(id, name string, redirectURIs, ownHosts []string) (Client, error) {
	if err := checkID(id); err != nil {
		return Client{}, err
	}
	if id == DesktopID {
		return Client{}, errors.New("client_id: it is reserved for programs on people's own computers, which the setting clients.desktop lets in")
	}
	if err := CheckName(name); err != nil {
		return Client{}, fmt.Errorf("client_name: %w", err)
	}
	if err := checkRedirectURIs(redirectURIs, ownHosts); err != nil {
		return Client{}, err
	}
	if err := checkDrill(id, redirectURIs); err != nil {
		return Client{}, err
	}
	return Client{
		ID:            id,
		Name:          reported(name),
		RedirectURIs:  slices.Clone(redirectURIs),
		Preregistered: true,
	}, nil
}

func checkID(id string) error {
	if id == "" {
		return errors.New("client_id: it is empty")
	}
	if len(id) > maxChosen {
		return fmt.Errorf("client_id: it has more than %d characters", maxChosen)
	}
	for i := range len(id) {
		if id[i] < 0x21 || id[i] > 0x7E {
			return errors.New("client_id: only visible ASCII characters are allowed, and no space")
		}
	}
	return nil
}

// Documented reports whether the client is what the metadata document at its ID says. One
// that is preregistered is what its operator says, whatever its ID.
func (c Client) Documented() bool { return IsURL(c.ID) && !c.Preregistered }

// Of is the client that the document at a URL describes.
func Of(m Metadata, url string, goodUntil, now time.Time) Client {
	c := New(m, url, now)
	c.GoodUntil = goodUntil.Unix()
	return c
}

// Known says whether the client exists at that time. One that nobody has
// approved ceases to, exactly UnapprovedRetention after its registration
// (spec section 3). This is asked and never written, so nothing has to run on
// time. A disabled client is still known: it is refused for another reason.
func (c Client) Known(now time.Time) bool {
	if c.Approved || c.Preregistered {
		return true
	}
	return now.Before(time.Unix(c.IssuedAt, 0).Add(UnapprovedRetention))
}

// State is the client's state in a word, for operators: disabled,
// preregistered, approved or registered, the first of them that is true.
func (c Client) State() string {
	switch {
	case c.Disabled:
		return "disabled"
	case c.Preregistered:
		return "preregistered"
	case c.Approved:
		return "approved"
	}
	return "registered"
}

// HasRedirectURI says whether the client registered exactly these bytes.
// spec 2.1 rule 4; RFC 9700 section 2.1.
func (c Client) HasRedirectURI(uri string) bool {
	return slices.Contains(c.RedirectURIs, uri)
}

// A Registration is the body of a 201 answer. spec 2.2; RFC 7591 section 3.2.1.
type Registration struct {
	ClientID                string   `json:"client_id"`
	ClientIDIssuedAt        int64    `json:"client_id_issued_at"`   // Unix seconds
	ClientName              string   `json:"client_name,omitempty"` // decision R3: left out when not sent
	RedirectURIs            []string `json:"redirect_uris"`
	TokenEndpointAuthMethod string   `json:"token_endpoint_auth_method"` // always none
	GrantTypes              []string `json:"grant_types"`                // always both (decision R4)
	ResponseTypes           []string `json:"response_types"`             // always code
	Scope                   string   `json:"scope"`                      // always api
}

// Response is what the client is told of its registration.
func (c Client) Response() Registration {
	return Registration{
		ClientID:                c.ID,
		ClientIDIssuedAt:        c.IssuedAt,
		ClientName:              c.Name,
		RedirectURIs:            append([]string{}, c.RedirectURIs...), // never null (decision R4)
		TokenEndpointAuthMethod: "none",
		GrantTypes:              []string{"authorization_code", "refresh_token"},
		ResponseTypes:           []string{"code"},
		Scope:                   "api",
	}
}
