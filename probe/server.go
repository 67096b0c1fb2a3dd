package probe

import (
	"fmt"
	"slices"
	"strings"
)

// ofServer judges metadata of an authorization server that are there.
func ofServer(judge func(*view, *server) verdict) func(*view, *server) verdict {
	return func(v *view, s *server) verdict {
		if !s.doc.usable() {
			return none("there are no metadata of an authorization server")
		}
		return judge(v, s)
	}
}

func serverIssuerForm(v *view, s *server) verdict {
	if s.issuer == "" {
		return none("no issuer is known")
	}
	if wrong := v.address("issuer", s.issuer); wrong != "" {
		return fail(wrong)
	}
	if u, _ := parse(s.issuer); u.RawQuery != "" || u.ForceQuery {
		return fail("issuer has a query: " + shown(s.issuer))
	}
	return ok(shown(s.issuer))
}

func serverFound(v *view, s *server) verdict {
	switch {
	case s.issuer == "":
		return none("no issuer is known")
	case s.doc.usable():
		return ok(shown(s.doc.address))
	case len(s.docs) == 0:
		return fail(shown(s.issuer) + " is no issuer whose metadata could be asked for")
	case slices.ContainsFunc(s.docs, func(d document) bool { return !d.asked }):
		return none("not asked")
	}
	var tried []string
	for _, d := range s.docs {
		if tried = append(tried, shown(d.address)+" "+d.wrong); d.answer.Status == 429 {
			return none("too many requests for now: " + tried[len(tried)-1])
		}
	}
	return fail("none: " + strings.Join(tried, "; "))
}

func serverIssuer(_ *view, s *server) verdict {
	said, _ := s.doc.text("issuer")
	switch {
	case said == "":
		return fail("issuer is missing, or no text")
	case said == s.issuer:
		return ok(shown(said))
	case sameButSlash(said, s.issuer):
		return warn(fmt.Sprintf("the metadata say %s, and the resource says %s: clients that compare as they must refuse the difference of a slash", shown(said), shown(s.issuer)))
	}
	who := "the resource"
	if s.typed {
		who = "their address"
	}
	return fail(fmt.Sprintf("the metadata say %s, and %s says %s: clients must not use them", shown(said), who, shown(s.issuer)))
}

func serverRFC8414(_ *view, s *server) verdict {
	if s.docs[0].usable() {
		return ok(shown(s.docs[0].address))
	}
	return note(fmt.Sprintf("%s %s: clients of 2025-06-18 that know RFC 8414 alone find none; others find %s", shown(s.docs[0].address), s.docs[0].wrong, shown(s.doc.address)))
}

// serverReadable looks at what clients try before that which they can use.
func serverReadable(_ *view, s *server) verdict {
	for _, d := range s.docs {
		if d.address == s.doc.address {
			break
		}
		if d.asked && !d.usable() && (d.answer.Error != "" || d.answer.Status < 400 || d.answer.Status >= 500) {
			return warn(shown(d.address) + " " + d.wrong + ": clients that look there first give up")
		}
	}
	return ok("what clients look at first can be read, or is not there")
}

func serverAgree(_ *view, s *server) verdict {
	for _, d := range s.docs {
		if !d.usable() {
			continue
		}
		for _, name := range []string{"issuer", "authorization_endpoint", "token_endpoint"} {
			a, _ := s.doc.text(name)
			if b, _ := d.text(name); a != b {
				return warn(fmt.Sprintf("%s: %s says %s, and %s says %s", name, shown(s.doc.address), shown(a), shown(d.address), shown(b)))
			}
		}
	}
	return ok("wherever they are, they say the same endpoints")
}

func endpointRow(name string) func(*view, *server) verdict {
	return func(v *view, s *server) verdict {
		if wrong := v.endpoint(s.doc, name); wrong != "" {
			return fail(wrong)
		}
		at, _ := s.doc.text(name)
		return ok(shown(at))
	}
}

func serverResponseTypes(_ *view, s *server) verdict {
	all, there, good := s.doc.list("response_types_supported")
	switch {
	case !there || !good:
		return fail("response_types_supported is missing, or no list of texts, and has to be there")
	case !slices.Contains(all, "code"):
		return fail("response_types_supported lists no code: " + severally(all))
	}
	return ok(severally(all))
}

func serverResponseModes(_ *view, s *server) verdict {
	all, there, good := s.doc.list("response_modes_supported")
	switch {
	case !there:
		return ok("nothing is said, which means query and fragment")
	case !good:
		return warn("response_modes_supported is no list of texts")
	case !slices.Contains(all, "query"):
		return fail("response_modes_supported lists no query: " + severally(all))
	}
	return ok(severally(all))
}

func serverGrants(_ *view, s *server) verdict {
	all, there, good := s.doc.list("grant_types_supported")
	switch {
	case !there:
		return ok("nothing is said, which means authorization_code and implicit")
	case !good:
		return warn("grant_types_supported is no list of texts")
	case !slices.Contains(all, "authorization_code"):
		return fail("grant_types_supported lists no authorization_code: " + severally(all))
	}
	return ok(severally(all))
}

func serverRefresh(_ *view, s *server) verdict {
	if all, _, _ := s.doc.list("grant_types_supported"); !slices.Contains(all, "refresh_token") {
		return note("grant_types_supported does not list refresh_token: " + severally(all))
	}
	return ok("refresh_token")
}

func serverPKCE(_ *view, s *server) verdict {
	all, there, good := s.doc.list("code_challenge_methods_supported")
	switch {
	case !there:
		return fail("code_challenge_methods_supported is missing: clients since 2025-11-25 must not go on, even if PKCE is supported")
	case !good || len(all) == 0:
		return fail("code_challenge_methods_supported is no list with a method in it")
	}
	return ok(severally(all))
}

func serverS256(_ *view, s *server) verdict {
	all, _, _ := s.doc.list("code_challenge_methods_supported")
	switch {
	case len(all) == 0:
		return none("no methods are listed")
	case !slices.Contains(all, "S256"):
		return fail("S256 is not listed: " + severally(all))
	}
	return ok("S256")
}

func serverPlain(_ *view, s *server) verdict {
	if all, _, _ := s.doc.list("code_challenge_methods_supported"); slices.Contains(all, "plain") {
		return note("plain is listed, which whoever reads the request can answer; no client needs it")
	}
	return ok("plain is not listed")
}

func serverRequires(_ *view, s *server) verdict {
	for _, name := range []string{"require_pushed_authorization_requests", "require_signed_request_object"} {
		if s.doc.yes(name) {
			return fail(name + " is true")
		}
	}
	return ok("plain authorization requests will do")
}

func serverPublic(_ *view, s *server) verdict {
	all, there, good := s.doc.list("token_endpoint_auth_methods_supported")
	switch {
	case !there:
		return warn("token_endpoint_auth_methods_supported is missing, which means client_secret_basic alone: a client without a secret may not try")
	case !good:
		return warn("token_endpoint_auth_methods_supported is no list of texts")
	case !slices.Contains(all, "none"):
		return warn("token_endpoint_auth_methods_supported lists no none: " + severally(all) + "; a client without a secret may not try")
	}
	return ok(severally(all))
}

func serverIss(_ *view, s *server) verdict {
	if s.doc.yes("authorization_response_iss_parameter_supported") {
		return ok("iss is promised")
	}
	return note("iss is not promised: an assistant that talks to many servers cannot tell by it which of them answers (mix-up)")
}

// serverClients asks how somebody gets a client ID who has none.
func serverClients(v *view, s *server) verdict {
	_, registers := s.doc.members["registration_endpoint"]
	switch cimd := s.doc.yes("client_id_metadata_document_supported"); {
	case cimd && registers:
		return ok("by metadata documents, or by registration")
	case cimd:
		return ok("by metadata documents")
	case registers:
		return ok("by registration")
	}
	return warn("neither metadata documents nor registration: only an assistant into which somebody puts a client ID can connect")
}

func serverRegistration(v *view, s *server) verdict {
	if _, there := s.doc.members["registration_endpoint"]; !there {
		return note("there is none: clients of before 2025-11-25 need a client ID that somebody gives them")
	}
	return endpointRow("registration_endpoint")(v, s)
}

func serverCIMD(_ *view, s *server) verdict {
	if s.doc.yes("client_id_metadata_document_supported") {
		return ok("client ID metadata documents are supported")
	}
	return note("client ID metadata documents are not supported: such a client falls back to registration, or to an ID that somebody gives it")
}

func serverProtects(v *view, s *server) verdict {
	all, there, good := s.doc.list("protected_resources")
	switch {
	case !there || !v.prm.usable():
		return ok("nothing is said that denies it")
	case !good:
		return warn("protected_resources is no list of texts")
	case !slices.Contains(all, v.resource):
		return warn("protected_resources does not list " + shown(v.resource) + ": " + severally(all))
	}
	return ok("the resource is listed")
}

func serverScopes(v *view, s *server) verdict {
	all, there, good := s.doc.list("scopes_supported")
	if !good {
		return warn("scopes_supported is no list of texts")
	}
	for _, scope := range strings.Split(v.scope(), " ") {
		if there && scope != "" && !v.issuer && !slices.Contains(all, scope) {
			return note("the resource asks for " + shown(scope) + ", which is not listed: " + severally(all) + "; a server need not list all")
		}
	}
	return ok(severally(all))
}

func serverRevocation(v *view, s *server) verdict {
	if _, there := s.doc.members["revocation_endpoint"]; !there {
		return note("there is no revocation_endpoint: tokens live on when an assistant is disconnected")
	}
	if wrong := v.endpoint(s.doc, "revocation_endpoint"); wrong != "" {
		return warn(wrong)
	}
	at, _ := s.doc.text("revocation_endpoint")
	return ok(shown(at))
}

// open reports whether a page of another origin may read the answer.
func (a Answer) open() bool { return a.Origin == "*" || a.Origin == pageOrigin }

func corsMetadata(v *view, s *server) verdict {
	a, asked := v.q.find("cors", s.doc.address)
	switch {
	case !asked || a.Error != "":
		return none("not seen")
	case a.open():
		return ok("pages may read the metadata")
	}
	return note("a page of another origin may not read the metadata: clients in browsers find nothing")
}

func corsToken(v *view, s *server) verdict {
	at, _ := s.doc.text("token_endpoint")
	a, asked := v.q.find("preflight", at)
	switch {
	case !asked || a.Error != "":
		return none("not seen")
	case a.open():
		return ok("pages may ask for tokens")
	}
	return note("a page of another origin may not ask for tokens")
}

func (v *view) tokenAnswer(s *server) (Answer, bool) {
	at, _ := s.doc.text("token_endpoint")
	return v.q.find("token", at)
}

func tokenAnswers(v *view, s *server) verdict {
	a, asked := v.tokenAnswer(s)
	switch {
	case !asked:
		return none("not asked")
	case a.Error != "":
		return fail("it " + failures[a.Error])
	case a.Status == 404 || a.Status == 405 || a.Status >= 300 && a.Status < 400:
		return fail("an empty token request is answered " + status(a))
	case a.Status == 403 || a.Status >= 500:
		return warn("an empty token request is answered " + status(a) + ", as if something stood before the server, or it had a fault")
	}
	return ok("it answers " + status(a))
}

func tokenError(v *view, s *server) verdict {
	a, asked := v.tokenAnswer(s)
	if !asked || a.Error != "" || a.Status == 429 || a.Status == 403 || a.Status == 404 || a.Status == 405 || a.Status >= 500 || a.Status >= 300 && a.Status < 400 {
		return none("no refusal was seen")
	}
	d := document{}
	d.members, d.wrong = a.object()
	said, _ := d.text("error")
	switch {
	case a.Status < 300:
		return fail("an empty token request is answered " + status(a) + " as if it had succeeded")
	case d.wrong != "":
		return warn("an empty token request is answered " + status(a) + ", and the answer " + d.wrong)
	case said == "":
		return warn("an empty token request is answered " + status(a) + " without error")
	case a.Status != 400 && a.Status != 401:
		return warn("an empty token request is answered " + status(a) + " with " + shown(said))
	case !a.json():
		return warn("an empty token request is answered as " + shown(a.Type))
	}
	return ok(status(a) + " with " + shown(said))
}

func authorizeAnswers(v *view, s *server) verdict {
	at, _ := s.doc.text("authorization_endpoint")
	a, asked := v.q.find("authorize", at)
	switch {
	case !asked:
		return none("not asked")
	case a.Error != "":
		return fail("it " + failures[a.Error])
	case a.Status == 404 || a.Status == 405:
		return warn("a request without parameters is answered " + status(a))
	case a.Status >= 500:
		return note("a request without parameters is answered " + status(a))
	}
	return ok("a request without parameters is answered " + status(a))
}
