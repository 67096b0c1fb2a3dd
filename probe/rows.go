package probe

import "strings"

// A row of the table: by which source, for whom, how it is mended, and what judges it.
type row struct {
	code, source string
	who          []Kind
	fix          string
	ofServer     bool
	judge        func(*view, *server) verdict
}

// A verdict is what a row came to, and what was seen.
type verdict struct{ result, seen string }

func ok(seen string) verdict   { return verdict{OK, seen} }
func note(seen string) verdict { return verdict{Note, seen} }
func warn(seen string) verdict { return verdict{Warn, seen} }
func fail(seen string) verdict { return verdict{Fail, seen} }
func none(seen string) verdict { return verdict{None, seen} }

func (r row) of(v *view, s *server) Row {
	made := Row{Code: r.code, Source: r.source}
	if r.ofServer && s.issuer != "" {
		made.At = shown(s.issuer)
	}
	said := r.judge(v, s)
	made.Result, made.Seen = said.result, said.seen
	if said.result != OK && said.result != None {
		made.Breaks, made.Fix = r.who, r.fix
	}
	return made
}

// Rows of one subject begin with its word. The codes are stable.
var table = []row{
	{"target.answers", "RFC 9110 section 15", everyone, "see that the server runs, and that its name, firewall and certificate let clients in from everywhere", false, targetAnswers},
	{"target.https", "MCP 2025-06-18, communication security; RFC 6750 section 5.3", everyone, "serve it by https", false, targetHTTPS},
	{"target.redirect", "RFC 9110 section 15.4", everyone, "give clients the address that it redirects to", false, targetRedirect},
	{"target.kind", "", nil, "", false, targetKind},

	{"challenge.status", "RFC 6750 section 3.1; MCP 2025-03-26, error handling", everyone, "answer a call without a token with 401", false, challengeStatus},
	{"challenge.scheme", "RFC 6750 section 3; RFC 9110 section 11.6.1", everyone, "send WWW-Authenticate: Bearer resource_metadata=\"...\" with the 401", false, challengeScheme},
	{"challenge.form", "RFC 9110 section 11.2", everyone, "quote the values of WWW-Authenticate, and give each once", false, challengeForm},
	{"challenge.metadata", "RFC 9728 section 5.1; MCP 2025-06-18, authorization server location", everyone, "name the metadata of the resource in WWW-Authenticate: resource_metadata=\"...\"", false, challengeMetadata},
	{"challenge.address", "RFC 9728 section 5.1", everyone, "write the whole https address of the metadata into resource_metadata", false, challengeAddress},
	{"challenge.error", "RFC 6750 section 3.1", everyone, "leave error out where no token came", false, challengeError},
	{"challenge.scope", "RFC 6750 section 3; MCP 2025-11-25, protected resource metadata discovery", everyone, "name the scopes that a first call needs as scope=\"...\"", false, challengeScope},

	{"resource.found", "RFC 9728 section 3; MCP 2025-06-18, authorization server location", everyone, "serve the metadata of the resource where resource_metadata says, or at its well-known address", false, resourceFound},
	{"resource.well-known", "RFC 9728 section 3.1; MCP 2025-11-25, protected resource metadata discovery", everyone, "serve the metadata at the well-known address of the resource as well", false, resourceWellKnown},
	{"resource.type", "RFC 9728 section 3.2", everyone, "send the metadata as application/json", false, ofResource(func(v *view) verdict { return typed(v.prm) })},
	{"resource.redirect", "RFC 9728 section 3.2", everyone, "serve the metadata there, without a redirect", false, ofResource(func(v *view) verdict { return direct(v.prm) })},
	{"resource.identifier", "RFC 9728 section 3.3; MCP 2025-06-18, canonical server URI", everyone, "set resource to the address that clients are given, character by character, or give them that one", false, ofResource(resourceIdentifier)},
	{"resource.form", "RFC 9728 section 1.2; RFC 8707 section 2", everyone, "set resource to an https URL without a fragment", false, ofResource(resourceForm)},
	{"resource.servers", "RFC 9728 section 2; MCP 2025-06-18, authorization server location", everyone, "name the issuer of an authorization server in authorization_servers", false, ofResource(resourceServers)},
	{"resource.agree", "RFC 9728 section 3.1", everyone, "serve the same metadata at each of the addresses", false, ofResource(resourceAgree)},
	{"resource.methods", "RFC 9728 section 2; MCP 2025-03-26, token requirements", everyone, "accept tokens in the Authorization field, and name header in bearer_methods_supported", false, ofResource(resourceMethods)},
	{"resource.bound", "RFC 9728 section 2; RFC 6750 section 1.2", everyone, "accept Bearer tokens: clients of MCP prove possession neither by DPoP nor by a certificate", false, ofResource(resourceBound)},
	{"resource.scopes", "RFC 9728 section 2; MCP 2025-11-25, scope selection strategy", everyone, "list in scopes_supported the scopes that clients need", false, ofResource(resourceScopes)},
	{"resource.offline", "MCP 2026-07-28, refresh tokens", everyone, "leave offline_access to the metadata of the authorization server", false, ofResource(resourceOffline)},

	{"server.issuer-form", "RFC 8414 section 2", everyone, "use an https issuer without query and fragment", true, serverIssuerForm},
	{"server.found", "RFC 8414 section 3; MCP 2025-11-25, authorization server metadata discovery", everyone, "serve the metadata at /.well-known/oauth-authorization-server, the issuer's path behind it", true, serverFound},
	{"server.issuer", "RFC 8414 section 3.3; RFC 9207 section 2.4", everyone, "say the same issuer, character by character, in authorization_servers and in the metadata", true, ofServer(serverIssuer)},
	{"server.rfc8414", "RFC 8414 section 3.1; MCP 2025-06-18, server metadata discovery", everyone, "serve the metadata at /.well-known/oauth-authorization-server as well, the issuer's path behind it", true, ofServer(serverRFC8414)},
	{"server.readable", "RFC 8414 section 3.2", everyone, "serve one JSON object there, or 404", true, ofServer(serverReadable)},
	{"server.type", "RFC 8414 section 3.2", everyone, "send the metadata as application/json", true, ofServer(func(_ *view, s *server) verdict { return typed(s.doc) })},
	{"server.redirect", "RFC 8414 section 3.2", everyone, "serve the metadata there, without a redirect", true, ofServer(func(_ *view, s *server) verdict { return direct(s.doc) })},
	{"server.agree", "RFC 8414 section 3.1", everyone, "serve the same metadata at each of the addresses", true, ofServer(serverAgree)},
	{"server.authorization", "RFC 8414 section 2; MCP 2025-06-18, communication security", everyone, "set authorization_endpoint to an https URL", true, ofServer(endpointRow("authorization_endpoint"))},
	{"server.token", "RFC 8414 section 2; MCP 2025-06-18, communication security", everyone, "set token_endpoint to an https URL", true, ofServer(endpointRow("token_endpoint"))},
	{"server.response-types", "RFC 8414 section 2", everyone, "list code in response_types_supported", true, ofServer(serverResponseTypes)},
	{"server.response-modes", "RFC 8414 section 2", everyone, "support and list the response mode query", true, ofServer(serverResponseModes)},
	{"server.grants", "RFC 8414 section 2", everyone, "support and list authorization_code in grant_types_supported", true, ofServer(serverGrants)},
	{"server.refresh", "RFC 8414 section 2; MCP 2026-07-28, refresh tokens", everyone, "list refresh_token in grant_types_supported, if it is supported: else people approve again each time a token expires", true, ofServer(serverRefresh)},
	{"server.pkce", "RFC 8414 section 2; MCP 2025-11-25, authorization code protection", everyone, "support PKCE, and list S256 in code_challenge_methods_supported", true, ofServer(serverPKCE)},
	{"server.s256", "RFC 7636 section 4.2; MCP 2025-11-25, authorization code protection", everyone, "support S256, and list it in code_challenge_methods_supported", true, ofServer(serverS256)},
	{"server.plain", "RFC 9700 section 2.1.1", everyone, "refuse the method plain", true, ofServer(serverPlain)},
	{"server.requires", "RFC 9126 section 5; RFC 9101 section 10.5", everyone, "take plain authorization requests as well: clients of MCP neither push nor sign them", true, ofServer(serverRequires)},
	{"server.public", "RFC 8414 section 2; RFC 8252 section 8.4", []Kind{Hosted, Desktop, CLI, CIMD}, "support public clients, and list none in token_endpoint_auth_methods_supported", true, ofServer(serverPublic)},
	{"server.iss", "RFC 9207 section 3; MCP 2026-07-28, authorization response validation", everyone, "send iss with every answer to the redirect, and say authorization_response_iss_parameter_supported: true", true, ofServer(serverIss)},
	{"server.clients", "MCP 2025-11-25, client registration approaches; RFC 7591 section 3", []Kind{Hosted, Desktop, CLI, CIMD}, "support client ID metadata documents or dynamic registration; else give people a client ID for their assistant", true, ofServer(serverClients)},
	{"server.registration", "RFC 7591 section 3; MCP 2025-03-26, dynamic client registration", []Kind{Hosted, Desktop, CLI}, "name an https registration_endpoint, if clients may register", true, ofServer(serverRegistration)},
	{"server.cimd", "MCP 2025-11-25, client ID metadata documents", []Kind{CIMD}, "support client ID metadata documents, and say client_id_metadata_document_supported: true", true, ofServer(serverCIMD)},
	{"server.protects", "RFC 9728 section 4", everyone, "name the resource in protected_resources, or leave that member out", true, ofServer(serverProtects)},
	{"server.scopes", "RFC 8414 section 2", everyone, "list the scopes of the resource in scopes_supported, or none at all", true, ofServer(serverScopes)},
	{"server.revocation", "RFC 7009 section 2", everyone, "have a revocation_endpoint, so that an assistant that is disconnected can end its tokens", true, ofServer(serverRevocation)},
	{"server.cors-metadata", "RFC 9728 section 3.1; CORS protocol (Fetch)", []Kind{Browser}, "send Access-Control-Allow-Origin: * with the metadata", true, ofServer(corsMetadata)},
	{"server.cors-token", "CORS protocol (Fetch)", []Kind{Browser}, "let pages ask the token endpoint, if clients in browsers are meant", true, ofServer(corsToken)},

	{"token.answers", "RFC 6749 section 3.2", everyone, "see that the token endpoint takes POST there, from everywhere", true, ofServer(tokenAnswers)},
	{"token.error", "RFC 6749 section 5.2", everyone, "refuse with 400 or 401 and JSON with error: by that clients know whether to ask the person again", true, ofServer(tokenError)},
	{"authorize.answers", "RFC 6749 section 3.1", everyone, "see that the authorization endpoint takes GET there", true, ofServer(authorizeAnswers)},

	{"register.https", "RFC 7591 section 3.2", []Kind{Hosted}, "let clients with an https redirect register, or preregister the assistants that you want", true, ofServer(registered(registerHTTPS, httpsRedirect))},
	{"register.loopback", "RFC 8252 section 7.3; RFC 7591 section 3.2", loopback, "let native clients register http redirects to 127.0.0.1, or say that none can connect", true, ofServer(registered(registerLoopback, loopbackRedirect))},
	{"register.status", "RFC 7591 section 3.2.1", everyone, "answer a registration with 201, as application/json", true, ofServer(registerStatus)},
	{"register.method", "RFC 7591 section 3.2.1", []Kind{Hosted, Desktop, CLI}, "register the method none when it is asked for: a native client cannot keep a secret", true, ofServer(registerMethod)},
	{"register.redirects", "RFC 7591 section 3.2.1", []Kind{Hosted, Desktop, CLI}, "give redirect_uris back as they were registered", true, ofServer(registerRedirects)},
	{"register.error", "RFC 7591 section 3.2.2", everyone, "refuse a registration with 400 and JSON with error", true, ofServer(registerError)},
	{"register.left", "RFC 7592 section 2.3", nil, "delete the clients there by hand", true, ofServer(registerLeft)},
	{"begin.answers", "RFC 6749 section 4.1.1", []Kind{Hosted}, "see in the server's log why it refuses a request with PKCE, state, scope and resource", true, ofServer(beginAnswers)},
	{"begin.resource", "RFC 8707 section 2; MCP 2025-06-18, resource parameter implementation", everyone, "accept the parameter resource with the identifier of the resource", true, ofServer(beginResource)},
	{"begin.pkce", "RFC 9700 section 2.1.1; OAuth 2.1 section 7.5.1", everyone, "refuse a public client that sends no code_challenge", true, ofServer(beginPKCE)},
	{"begin.iss", "RFC 9207 section 2", everyone, "send iss, the issuer as in the metadata, with errors too", true, ofServer(beginIss)},
	{"begin.state", "RFC 6749 section 4.1.2.1", everyone, "give state back with errors too", true, ofServer(beginState)},
	{"begin.port", "RFC 8252 section 7.3", loopback, "allow any port where the redirect is http to a loopback address", true, ofServer(beginPort)},

	{"legacy.root", "MCP 2025-03-26, server metadata discovery", everyone, "serve the authorization server's metadata at the root of this host as well, if clients from before June 2025 are meant", false, legacyRoot},
}

// A revision of MCP's authorization is a row of rows: what stands in the way of a
// client that keeps to it.
type revision struct {
	code  string
	needs []string
}

var (
	discovered = []string{"target.answers", "challenge.status", "resource.found", "resource.identifier", "resource.servers", "resource.bound", "server.found", "server.issuer",
		"server.authorization", "server.token", "server.response-types", "server.response-modes", "server.grants", "server.requires", "server.s256", "token.answers", "begin.resource"}
	revisions = []revision{
		{"mcp.2025-03-26", []string{"target.answers", "challenge.status", "legacy.root"}},
		{"mcp.2025-06-18", append([]string{"challenge.metadata", "server.rfc8414"}, discovered...)},
		{"mcp.2025-11-25", append([]string{"server.pkce", "server.clients"}, discovered...)},
		{"mcp.2026-07-28", append([]string{"server.pkce", "server.clients", "begin.iss"}, discovered...)},
	}
)

// of sums up: it fails where a needed row of the first server fails, or of the
// resource.
func (r revision) of(all []Row, v *view) Row {
	made := Row{Code: r.code, Source: "MCP " + strings.TrimPrefix(r.code, "mcp.") + ", authorization", Result: OK, Seen: "nothing stands in the way of a client that keeps to it"}
	if !v.called || v.get.Error != "" && v.get.Error != Slow {
		made.Result, made.Seen = None, "the server was not reached"
		return made
	}
	if v.issuer {
		made.Seen = "nothing that an issuer shows stands in the way of a client that keeps to it"
	}
	first, unseen := "", false
	var stopped, less []string
	for _, row := range all {
		if row.At != "" && first == "" {
			first = row.At
		}
		for _, need := range r.needs {
			if row.Code != need || row.At != "" && row.At != first {
				continue
			}
			switch row.Result {
			case None:
				unseen = unseen || need == "server.found"
			case Fail:
				stopped = append(stopped, need)
			case Warn, Note:
				less = append(less, need)
			}
		}
	}
	switch {
	case len(stopped) > 0 && r.code != "mcp.2025-03-26":
		made.Result, made.Seen, made.Breaks, made.Fix = Fail, "a client that keeps to it does not get through: "+strings.Join(stopped, ", "), everyone, "mend these rows"
	case unseen:
		made.Result, made.Seen = None, "no authorization server was seen"
	case len(stopped)+len(less) > 0:
		made.Result, made.Seen = Note, "some clients of it do not get through: "+strings.Join(append(stopped, less...), ", ")
	}
	return made
}
