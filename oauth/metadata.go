package oauth

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/dpop"
)

// serverMetadata is what a client can learn of the authorization server.
// RFC 8414 section 2; decision M3 lists the members, and none may be empty.
type serverMetadata struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	RegistrationEndpoint  string   `json:"registration_endpoint"`
	RevocationEndpoint    string   `json:"revocation_endpoint"`
	Scopes                []string `json:"scopes_supported"`
	ResponseTypes         []string `json:"response_types_supported"`
	ResponseModes         []string `json:"response_modes_supported"`
	GrantTypes            []string `json:"grant_types_supported"`
	TokenAuthMethods      []string `json:"token_endpoint_auth_methods_supported"`
	RevocationAuthMethods []string `json:"revocation_endpoint_auth_methods_supported"`
	ChallengeMethods      []string `json:"code_challenge_methods_supported"`
	IssParameter          bool     `json:"authorization_response_iss_parameter_supported"`  // RFC 9207
	ProofAlgorithms       []string `json:"dpop_signing_alg_values_supported"`               // RFC 9449
	ClientDocuments       bool     `json:"client_id_metadata_document_supported,omitempty"` // decision R8
	DesktopEndpoint       string   `json:"grantkeeper_desktop_endpoint,omitempty"`          // decision A15
}

// resourceMetadata is the same for a protected resource. RFC 9728 section 2;
// decision M4.
type resourceMetadata struct {
	Resource      string   `json:"resource"`
	Servers       []string `json:"authorization_servers"`
	Scopes        []string `json:"scopes_supported"`
	BearerMethods []string `json:"bearer_methods_supported"`
	Name          string   `json:"resource_name"`
}

// The documents that there are of each base URL: that of the server, and those of
// its resources in the order of client.Resources.All.
const (
	authorizationServer = iota
	apiResource
	mcpResource
)

// documents are written once for each base URL: they are the same for
// everybody who asks there.
type documents []document

type document struct {
	body   []byte
	length []string // Content-Length
}

func newDocuments(at documentsAt, service string, more client.Resources) (d documents) {
	base := at.base
	server := serverMetadata{
		Issuer:                base,
		AuthorizationEndpoint: base + "/oauth/authorize",
		TokenEndpoint:         base + "/oauth/token",
		RegistrationEndpoint:  base + "/oauth/register",
		RevocationEndpoint:    base + "/oauth/revoke",
		Scopes:                []string{"api"},
		ResponseTypes:         []string{"code"},
		ResponseModes:         []string{"query"},
		GrantTypes:            []string{"authorization_code", "refresh_token"},
		TokenAuthMethods:      []string{"none"},
		RevocationAuthMethods: []string{"none"},
		ChallengeMethods:      []string{"S256"},
		IssParameter:          true,
		ProofAlgorithms:       dpop.Algorithms,
		ClientDocuments:       at.documents,
	}
	if at.desktop {
		server.DesktopEndpoint = base + client.DesktopPath
	}
	all := []any{server}
	for i, of := range more.All() {
		if i < mcpResource { // the contract's
			of.Name = service + " " + of.Name
		}
		all = append(all, resourceMetadata{
			Resource:      base + of.Path,
			Servers:       []string{base},
			Scopes:        []string{"api"},
			BearerMethods: []string{"header"},
			Name:          of.Name,
		})
	}
	for _, v := range all {
		body, err := json.Marshal(v)
		if err != nil {
			panic(err) // strings can be written
		}
		d = append(d, document{body, []string{strconv.Itoa(len(body))}})
	}
	return d
}

// keptBases bounds, but for a few that come at once, how many base URLs'
// documents are kept. A configuration has a few; in development every loopback
// name and port is one, and those beyond the bound are written again each time.
const keptBases = 64

// documentsAt is what documents depend on: the base URL, and whether programs on
// people's own computers, and clients with metadata documents, may connect now.
type documentsAt struct {
	base               string
	desktop, documents bool
}

func (s *Server) documentsOf(base string) documents {
	at := documentsAt{base, s.Desktop != nil && s.Desktop(), s.TakesDocuments != nil && s.TakesDocuments()}
	if d, ok := s.bases.Load(at); ok {
		return d.(documents)
	}
	d := newDocuments(at, s.Service, s.Resources)
	if s.known.Load() < keptBases {
		if _, was := s.bases.LoadOrStore(at, d); !was {
			s.known.Add(1)
		}
	}
	return d
}

// cacheable is the longest time of decision M6.
var cacheable = []string{"public, max-age=3600"}

// metadata gives the handler of one document.
func (s *Server) metadata(which int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		allowEveryOrigin(h)
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			if !preflight(w, r, "GET, HEAD") {
				methodNotAllowed("GET, HEAD").write(w)
			}
			return
		}
		what := attempt.OfResource
		if which == authorizationServer {
			what = attempt.OfServer
		}
		s.sawMetadata(r, what, true)
		d := s.documentsOf(s.Base(r))[which]
		h["Content-Type"] = jsonType
		h["Cache-Control"] = cacheable
		h["Content-Length"] = d.length
		w.Write(d.body) // the client may have gone: nothing to do about it
	}
}
