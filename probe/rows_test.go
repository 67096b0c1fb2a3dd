package probe

import (
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A world answers requests, by step and URL or by step alone; of an address without
// a step it serves metadata. What it does not know is 404.
type world map[string]Answer

const (
	mcpURL     = "https://mcp.example/public/mcp"
	mcpPRM     = "https://mcp.example/.well-known/oauth-protected-resource/public/mcp"
	mcpRootPRM = "https://mcp.example/.well-known/oauth-protected-resource"
	mcpRoot    = "https://mcp.example/.well-known/oauth-authorization-server"
	issuer     = "https://as.example/t"
	asDoc      = "https://as.example/.well-known/oauth-authorization-server/t"
	asOIDC     = "https://as.example/.well-known/openid-configuration/t"
	asAppended = "https://as.example/t/.well-known/openid-configuration"
)

func doc(members map[string]any) Answer {
	body, _ := json.Marshal(members)
	return Answer{Status: 200, Type: "application/json", Body: string(body)}
}

func resourceMembers() map[string]any {
	return map[string]any{"resource": mcpURL, "authorization_servers": []string{issuer}, "scopes_supported": []string{"read"}, "bearer_methods_supported": []string{"header"}}
}

func serverMembers() map[string]any {
	return map[string]any{"issuer": issuer, "authorization_endpoint": "https://as.example/authorize", "token_endpoint": "https://as.example/token",
		"registration_endpoint": "https://as.example/register", "revocation_endpoint": "https://as.example/revoke",
		"response_types_supported": []string{"code"}, "response_modes_supported": []string{"query"}, "grant_types_supported": []string{"authorization_code", "refresh_token"},
		"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"},
		"authorization_response_iss_parameter_supported": true, "client_id_metadata_document_supported": true,
		"protected_resources": []string{mcpURL}, "scopes_supported": []string{"read", "offline_access"}}
}

func registeredAs(id, redirect string) Answer {
	a := doc(map[string]any{"client_id": id, "redirect_uris": []string{redirect}, "token_endpoint_auth_method": "none",
		"registration_client_uri": "https://as.example/register/" + id, "registration_access_token": "secret-of-" + id})
	a.Status = 201
	return a
}

// good is a world in which every row is ok.
func good() world {
	toSignIn := Answer{Status: 302, Location: "https://as.example/sign-in"}
	return world{
		"call":      {Status: 401, Type: "application/json", Challenges: []string{`Bearer resource_metadata="` + mcpPRM + `", scope="read"`}},
		mcpPRM:      doc(resourceMembers()),
		asDoc:       doc(serverMembers()),
		mcpRoot:     doc(serverMembers()),
		"cors":      {Status: 200, Origin: "*"},
		"token":     {Status: 400, Type: "application/json", Body: `{"error":"invalid_request"}`},
		"preflight": {Status: 204, Origin: pageOrigin},
		"authorize": {Status: 400},

		"register-https": registeredAs("h", httpsRedirect), "register-loopback": registeredAs("l", loopbackRedirect),
		"unregister-https": {Status: 204}, "unregister-loopback": {Status: 204},
		"begin": toSignIn, "begin-without-resource": toSignIn, "begin-loopback": toSignIn, "begin-other-port": toSignIn,
		"begin-without-pkce": {Status: 302, Location: httpsRedirect + "?error=invalid_request&state=" + state + "&iss=" + url.QueryEscape(issuer)},
	}
}

// ask plays an inquiry to its end.
func (w world) ask(t testing.TB, q *Inquiry) *Inquiry {
	for r, more := q.Next(); more; r, more = q.Next() {
		a, known := w[r.Step+" "+r.URL]
		if !known {
			a, known = w[r.Step]
		}
		if !known && r.Step == "document" {
			a, known = w[r.URL]
		}
		if !known {
			a = Answer{Status: 404, Type: "text/plain"}
		}
		q.Exchanges = append(q.Exchanges, Exchange{r, a})
		if len(q.Exchanges) > MostRequests {
			t.Fatalf("more than %d requests", MostRequests)
		}
	}
	return q
}

// notOK gives the results that are not ok, as "code result", without revisions.
func notOK(rows []Row) (all []string) {
	for _, r := range rows {
		if r.Result != OK && !strings.HasPrefix(r.Code, "mcp.") {
			all = append(all, r.Code+" "+r.Result)
		}
	}
	slices.Sort(all)
	return all
}

func revisionsOf(rows []Row) (all []string) {
	for _, r := range rows {
		if rev, is := strings.CutPrefix(r.Code, "mcp."); is && r.Result != OK {
			all = append(all, rev+" "+r.Result)
		}
	}
	return all
}

// usual is what is not ok where nothing is wrong: no registration was refused.
var usual = []string{"register.error none"}

func TestGoodServerHasNoFault(t *testing.T) {
	q := good().ask(t, &Inquiry{URL: mcpURL, Register: true})
	rows := q.Rows()
	if got := notOK(rows); !slices.Equal(got, usual) {
		t.Errorf("not ok: %q, want %q", got, usual)
	}
	if got := revisionsOf(rows); len(got) > 0 {
		t.Errorf("revisions %q", got)
	}
	var steps []string
	for _, e := range q.Exchanges {
		steps = append(steps, e.Request.Method+" "+e.Request.Step)
	}
	want := strings.Split("GET call,GET document,GET document,GET document,GET document,GET document,GET document,GET cors,OPTIONS preflight,POST token,GET authorize,"+
		"POST register-https,POST register-loopback,GET begin,GET begin-without-pkce,GET begin-without-resource,GET begin-loopback,GET begin-other-port,"+
		"DELETE unregister-https,DELETE unregister-loopback", ",")
	if !slices.Equal(steps, want) {
		t.Errorf("asked\n%q, want\n%q", steps, want)
	}
	if token := q.Exchanges[len(q.Exchanges)-1].Request.Token; token != "secret-of-l" {
		t.Errorf("deletes with %q", token)
	}
}

// with is a change of metadata.
func with(address string, changes map[string]any) func(world) {
	return func(w world) {
		members := map[string]any{}
		if err := json.Unmarshal([]byte(w[address].Body), &members); err != nil {
			panic(err)
		}
		for name, value := range changes {
			if members[name] = value; value == nil {
				delete(members, name)
			}
		}
		w[address] = doc(members)
	}
}

func answered(key string, a Answer) func(world) { return func(w world) { w[key] = a } }

func changed(key string, change func(*Answer)) func(world) {
	return func(w world) {
		a := w[key]
		change(&a)
		w[key] = a
	}
}

// A list that a row reads: whether it may be left out, and what breaks it.
func TestEachFaultHasItsRow(t *testing.T) {
	challenge := func(field string) func(world) {
		return answered("call", Answer{Status: 401, Challenges: []string{field}})
	}
	scoped := func(rest string) string { return `Bearer scope="read", ` + rest }
	tests := []struct {
		name   string
		change func(world)
		want   string // rows that are not ok then, beside the usual ones
		mcp    string // revisions that are not ok
	}{
		{"nothing", func(world) {}, "", ""},

		{"fault of its own", func(w world) { w["call"] = Answer{Status: 500}; w["ping"] = w["call"] }, "target.answers fail, challenge.* none, challenge.status none", "2025-03-26 note, 2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"call behind a redirect", changed("call", func(a *Answer) { a.Via = []string{mcpURL + "/"} }), "target.redirect warn", ""},
		{"call that is sent to sign-in", func(w world) {
			w["call"] = Answer{Status: 302, Location: "https://as.example/login"}
			w["ping"] = w["call"]
		}, "target.redirect fail, challenge.status fail, challenge.* none", "2025-03-26 note, 2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"call with several answers", func(w world) { w["call"] = Answer{Status: 300}; w["ping"] = w["call"] },
			"target.redirect fail, challenge.status fail, challenge.* none", "2025-03-26 note, 2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"403 and not 401", func(w world) { w["call"] = Answer{Status: 403}; w["ping"] = w["call"] }, "challenge.status fail, challenge.* none", "2025-03-26 note, 2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"open", func(w world) { w["call"] = Answer{Status: 200}; w["ping"] = w["call"] }, "challenge.status note, challenge.* none", "2025-03-26 note, 2025-06-18 note, 2025-11-25 note, 2026-07-28 note"},
		{"call is a bad request", func(w world) { w["call"] = Answer{Status: 400}; w["ping"] = w["call"] }, "challenge.status fail, challenge.* none", "2025-03-26 note, 2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"too many calls", func(w world) { w["call"] = Answer{Status: 429}; w["ping"] = w["call"] }, "challenge.* none", ""},
		{"403 with a challenge", func(w world) {
			w["call"] = Answer{Status: 403, Challenges: []string{scoped(`resource_metadata="https://mcp.example/prm"`)}}
			w["ping"] = w["call"]
		}, "challenge.status fail, challenge.* none", "2025-03-26 note, 2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"GET is not for it, POST is challenged", func(w world) { w["ping"] = w["call"]; w["call"] = Answer{Status: 405} }, "", ""},
		{"GET waits for its stream", func(w world) { w["ping"] = w["call"]; w["call"] = Answer{Error: Slow} }, "", ""},
		{"GET has a page, POST is challenged", func(w world) { w["ping"] = w["call"]; w["call"] = Answer{Status: 200, Type: "text/html"} }, "", ""},

		{"no challenge", answered("call", Answer{Status: 401}), "challenge.scheme warn, challenge.form none, challenge.metadata warn, challenge.address none, challenge.scope note", "2025-06-18 note"},
		{"neither challenge nor metadata", func(w world) { w["call"] = Answer{Status: 401}; delete(w, mcpPRM) },
			"challenge.scheme fail, challenge.form none, challenge.metadata fail, challenge.address none, challenge.scope note, resource.found fail, resource.* none, server.issuer fail, server.rfc8414 ok, server.protects ok, server.issuer-form ok", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"neither challenge nor an answer about metadata", func(w world) { w["call"] = Answer{Status: 401}; w[mcpPRM] = Answer{Error: Slow} },
			"challenge.scheme warn, challenge.form none, challenge.metadata warn, challenge.address none, challenge.scope note, resource.* none, resource.found fail, noserver, server.issuer-form none",
			"2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"neither challenge nor leave to look for metadata", func(w world) { w["call"] = Answer{Status: 401}; w[mcpPRM] = Answer{Status: 429} },
			"challenge.scheme warn, challenge.form none, challenge.metadata warn, challenge.address none, challenge.scope note, resource.* none, noserver, server.issuer-form none",
			"2025-06-18 none, 2025-11-25 none, 2026-07-28 none"},
		{"open, and no metadata", func(w world) { w["call"] = Answer{Status: 200}; w["ping"] = w["call"]; delete(w, mcpPRM) },
			"challenge.status note, challenge.* none, resource.* none, resource.found note, server.issuer fail", "2025-03-26 note, 2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"several answers, and no metadata", func(w world) { w["call"] = Answer{Status: 300}; w["ping"] = w["call"]; delete(w, mcpPRM) },
			"target.redirect fail, challenge.status warn, challenge.* none, resource.* none, resource.found warn, server.issuer fail", "2025-03-26 note, 2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"neither an answer nor metadata", func(w world) { w["call"] = Answer{Error: Slow}; w["ping"] = w["call"]; delete(w, mcpPRM) },
			"target.answers fail, target.redirect none, challenge.* none, resource.* none, resource.found warn, server.issuer fail", "2025-03-26 note, 2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"Basic alone", challenge(`Basic realm="x"`), "challenge.scheme warn, challenge.metadata warn, challenge.address none, challenge.scope note", "2025-06-18 note"},
		{"no resource_metadata", challenge(`Bearer scope="read"`), "challenge.metadata warn, challenge.address none", "2025-06-18 note"},
		{"resource_metadata in the second of two", challenge(`Basic realm="x", Bearer scope="read", resource_metadata="` + mcpPRM + `"`), "", ""},
		{"address without quotes", challenge(scoped("resource_metadata=" + mcpPRM)), "challenge.form warn", ""},
		{"address twice", challenge(scoped(`resource_metadata="` + mcpPRM + `", resource_metadata="https://evil.example/"`)), "challenge.form warn", ""},
		{"relative address", challenge(scoped(`resource_metadata="/.well-known/oauth-protected-resource"`)), "challenge.address fail, resource.found fail", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"address of a cloud's metadata", func(w world) {
			w["call"] = Answer{Status: 401, Challenges: []string{scoped(`resource_metadata="http://169.254.169.254/x"`)}}
			w["http://169.254.169.254/x"] = Answer{Error: Private}
		}, "challenge.address fail, resource.found fail", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"two challenges of Bearer", challenge(`Bearer realm="x", Bearer scope="read", resource_metadata="` + mcpPRM + `", Bearer resource_metadata="https://evil.example/"`), "", ""},
		{"error without a token", challenge(scoped(`error="invalid_token", resource_metadata="` + mcpPRM + `"`)), "challenge.error note", ""},
		{"no scope", challenge(`Bearer resource_metadata="` + mcpPRM + `"`), "challenge.scope note", ""},
		{"offline_access as scope", challenge(`Bearer scope="read offline_access", resource_metadata="` + mcpPRM + `"`), "challenge.scope note", ""},

		{"metadata where the challenge says, and not well-known", func(w world) {
			w["call"] = Answer{Status: 401, Challenges: []string{scoped(`resource_metadata="https://mcp.example/prm"`)}}
			w["https://mcp.example/prm"] = w[mcpPRM]
			delete(w, mcpPRM)
		}, "resource.well-known note", ""},
		{"no metadata where the challenge says", func(w world) {
			w["call"] = Answer{Status: 401, Challenges: []string{scoped(`resource_metadata="https://mcp.example/prm"`)}}
		}, "resource.found fail", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"no answer at the well-known address", func(w world) {
			w["call"] = Answer{Status: 401, Challenges: []string{scoped(`resource_metadata="https://mcp.example/prm"`)}}
			w["https://mcp.example/prm"], w[mcpPRM] = w[mcpPRM], Answer{Error: Slow}
		}, "resource.well-known none", ""},
		{"a page at the well-known address, metadata at the root", func(w world) {
			w["call"] = Answer{Status: 401, Challenges: []string{`Bearer scope="read"`}}
			w[mcpRootPRM], w[mcpPRM] = w[mcpPRM], Answer{Status: 200, Body: "<html>"}
		}, "challenge.metadata warn, challenge.address none, resource.found fail, resource.well-known note", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"metadata at the root alone", func(w world) {
			w["call"] = Answer{Status: 401, Challenges: []string{`Bearer scope="read"`}}
			w[mcpRootPRM] = w[mcpPRM]
			delete(w, mcpPRM)
		}, "challenge.metadata warn, challenge.address none, resource.well-known note", "2025-06-18 note"},
		{"metadata of the host at its root", func(w world) {
			w["call"] = Answer{Status: 401, Challenges: []string{`Bearer scope="read"`}}
			w[mcpRootPRM] = w[mcpPRM]
			delete(w, mcpPRM)
			with(mcpRootPRM, map[string]any{"resource": "https://mcp.example/"})(w)
		}, "challenge.metadata warn, challenge.address none, resource.well-known note, server.protects warn", "2025-06-18 note"},
		{"metadata are HTML", answered(mcpPRM, Answer{Status: 200, Type: "text/html", Body: "<!DOCTYPE html>"}), "resource.found fail, resource.* none, server.issuer fail", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"metadata as text", changed(mcpPRM, func(a *Answer) { a.Type = "text/plain" }), "resource.type warn", ""},
		{"charset of metadata", changed(mcpPRM, func(a *Answer) { a.Type = "Application/JSON; charset=utf-8" }), "", ""},
		{"metadata behind a redirect", changed(mcpPRM, func(a *Answer) { a.Via = []string{"https://mcp.example/x"} }), "resource.redirect warn", ""},
		{"resource is missing", with(mcpPRM, map[string]any{"resource": nil}), "resource.identifier fail, resource.form none", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"resource is elsewhere", with(mcpPRM, map[string]any{"resource": "https://evil.example/mcp"}), "resource.identifier fail, server.protects warn", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"resource is another path", with(mcpPRM, map[string]any{"resource": "https://mcp.example/public/mc"}), "resource.identifier fail, server.protects warn", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"resource with a slash", with(mcpPRM, map[string]any{"resource": mcpURL + "/"}), "resource.identifier warn, server.protects warn", "2025-06-18 note, 2025-11-25 note, 2026-07-28 note"},
		{"resource is the folder", with(mcpPRM, map[string]any{"resource": "https://mcp.example/public"}), "resource.identifier warn, server.protects warn", "2025-06-18 note, 2025-11-25 note, 2026-07-28 note"},
		{"resource with a fragment", with(mcpPRM, map[string]any{"resource": mcpURL + "#x"}), "resource.identifier fail, resource.form fail, server.protects warn", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"too many requests for metadata", answered(mcpPRM, Answer{Status: 429}), "resource.* none, noserver, server.issuer-form none", "2025-06-18 none, 2025-11-25 none, 2026-07-28 none"},
		{"no servers", with(mcpPRM, map[string]any{"authorization_servers": nil}), "resource.servers fail, noserver", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"server without a name", with(mcpPRM, map[string]any{"authorization_servers": []string{""}}), "resource.servers fail, noserver", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"servers are no list", with(mcpPRM, map[string]any{"authorization_servers": issuer}), "resource.servers fail, noserver", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"two places name two servers", func(w world) {
			w["call"] = Answer{Status: 401, Challenges: []string{scoped(`resource_metadata="https://mcp.example/prm"`)}}
			w["https://mcp.example/prm"] = w[mcpPRM]
			with(mcpPRM, map[string]any{"authorization_servers": []string{"https://other.example"}})(w)
		}, "resource.agree warn", ""},
		{"methods without header", with(mcpPRM, map[string]any{"bearer_methods_supported": []string{"body"}}), "resource.methods fail", ""},
		{"methods are no list", with(mcpPRM, map[string]any{"bearer_methods_supported": "header"}), "resource.methods warn", ""},
		{"tokens of DPoP", with(mcpPRM, map[string]any{"dpop_bound_access_tokens_required": true}), "resource.bound fail", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"tokens bound to certificates", with(mcpPRM, map[string]any{"tls_client_certificate_bound_access_tokens": true}), "resource.bound fail", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"no methods", with(mcpPRM, map[string]any{"bearer_methods_supported": nil}), "", ""},
		{"no scopes but in the challenge", with(mcpPRM, map[string]any{"scopes_supported": nil}), "", ""},
		{"no scopes at all", func(w world) {
			w["call"] = Answer{Status: 401, Challenges: []string{`Bearer resource_metadata="` + mcpPRM + `"`}}
			with(mcpPRM, map[string]any{"scopes_supported": nil})(w)
		}, "challenge.scope note, resource.scopes note", ""},
		{"a scope is null", with(mcpPRM, map[string]any{"scopes_supported": []any{"read", nil}}), "resource.scopes warn", ""},
		{"scopes are a text", with(mcpPRM, map[string]any{"scopes_supported": "read"}), "resource.scopes warn", ""},
		{"offline_access of the resource", with(mcpPRM, map[string]any{"scopes_supported": []string{"read", "offline_access"}}), "resource.offline note", ""},

		{"server by http", func(w world) {
			with(mcpPRM, map[string]any{"authorization_servers": []string{"http://as.example/t"}})(w)
			w["http://as.example/.well-known/oauth-authorization-server/t"] = Answer{Error: Scheme}
		}, "server.issuer-form fail, noserver, server.found fail", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"server with a query", with(mcpPRM, map[string]any{"authorization_servers": []string{issuer + "?a"}}), "server.issuer-form fail, noserver, server.found fail", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"server has no metadata", func(w world) { delete(w, asDoc) }, "noserver, server.found fail", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"too many requests for the server's metadata", func(w world) { w[asDoc] = Answer{Status: 429}; w[mcpRoot] = w[asDoc] }, "noserver, server.issuer-form ok, legacy.root note", "2025-03-26 note, 2025-06-18 none, 2025-11-25 none, 2026-07-28 none"},
		{"metadata of OpenID alone", func(w world) { w[asOIDC] = w[asDoc]; delete(w, asDoc) }, "server.rfc8414 note", "2025-06-18 note"},
		{"metadata of OpenID behind the issuer", func(w world) { w[asAppended] = w[asDoc]; delete(w, asDoc) }, "server.rfc8414 note", "2025-06-18 note"},
		{"a page where clients look first", func(w world) {
			w[asOIDC] = w[asDoc]
			w[asDoc] = Answer{Status: 200, Type: "text/html", Body: "<html>"}
		}, "server.rfc8414 note, server.readable warn", "2025-06-18 note"},
		{"a page where nobody looks any more", answered(asOIDC, Answer{Status: 200, Type: "text/html", Body: "<html>"}), "", ""},
		{"a refusal where clients look first", func(w world) { w[asOIDC], w[asDoc] = w[asDoc], Answer{Status: 400} }, "server.rfc8414 note", "2025-06-18 note"},
		{"a fault where clients look first", func(w world) { w[asOIDC], w[asDoc] = w[asDoc], Answer{Status: 500} }, "server.rfc8414 note, server.readable warn", "2025-06-18 note"},
		{"another issuer's metadata come first", func(w world) {
			w[asOIDC] = w[asDoc]
			with(asDoc, map[string]any{"issuer": "https://evil.example"})(w)
		}, "server.agree warn", ""},
		{"issuer is another", with(asDoc, map[string]any{"issuer": "https://evil.example"}), "server.issuer fail, begin.iss fail", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"issuer with a slash", with(asDoc, map[string]any{"issuer": issuer + "/"}), "server.issuer warn, begin.iss fail", "2025-06-18 note, 2025-11-25 note, 2026-07-28 fail"},
		{"issuer is missing", with(asDoc, map[string]any{"issuer": nil}), "server.issuer fail, begin.iss fail", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"server metadata as text", changed(asDoc, func(a *Answer) { a.Type = "" }), "server.type warn", ""},
		{"server metadata behind a redirect", changed(asDoc, func(a *Answer) { a.Via = []string{"https://as.example/x"} }), "server.redirect warn", ""},
		{"two documents with two token endpoints", func(w world) {
			w[asOIDC] = w[asDoc]
			with(asOIDC, map[string]any{"token_endpoint": "https://as.example/token2"})(w)
		}, "server.agree warn", ""},
		{"no authorization endpoint", with(asDoc, map[string]any{"authorization_endpoint": nil}), "server.authorization fail, authorize.answers none, noregister", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"authorization endpoint is a script", with(asDoc, map[string]any{"authorization_endpoint": "javascript:alert(1)"}), "server.authorization fail, authorize.answers none, noregister", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"no token endpoint", with(asDoc, map[string]any{"token_endpoint": nil}), "server.token fail, token.answers none, token.error none, server.cors-token none", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"token endpoint by http", with(asDoc, map[string]any{"token_endpoint": "http://as.example/token"}), "server.token fail, token.answers none, token.error none, server.cors-token none", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"token endpoint on loopback", with(asDoc, map[string]any{"token_endpoint": "http://127.0.0.1/token"}), "server.token fail, token.answers none, token.error none, server.cors-token none", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"no response types", with(asDoc, map[string]any{"response_types_supported": nil}), "server.response-types fail", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"no code", with(asDoc, map[string]any{"response_types_supported": []string{"token"}}), "server.response-types fail", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"form_post alone", with(asDoc, map[string]any{"response_modes_supported": []string{"form_post"}}), "server.response-modes fail", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"modes are a text", with(asDoc, map[string]any{"response_modes_supported": "query"}), "server.response-modes warn", "2025-06-18 note, 2025-11-25 note, 2026-07-28 note"},
		{"modes unsaid", with(asDoc, map[string]any{"response_modes_supported": nil}), "", ""},
		{"grants unsaid", with(asDoc, map[string]any{"grant_types_supported": nil}), "server.refresh note", ""},
		{"grants are a text", with(asDoc, map[string]any{"grant_types_supported": "refresh_token"}), "server.grants warn, server.refresh note", "2025-06-18 note, 2025-11-25 note, 2026-07-28 note"},
		{"no code grant", with(asDoc, map[string]any{"grant_types_supported": []string{"refresh_token"}}), "server.grants fail", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"no PKCE", with(asDoc, map[string]any{"code_challenge_methods_supported": nil}), "server.pkce fail, server.s256 none", "2025-11-25 fail, 2026-07-28 fail"},
		{"no method of PKCE", with(asDoc, map[string]any{"code_challenge_methods_supported": []string{}}), "server.pkce fail, server.s256 none", "2025-11-25 fail, 2026-07-28 fail"},
		{"plain alone", with(asDoc, map[string]any{"code_challenge_methods_supported": []string{"plain"}}), "server.s256 fail, server.plain note", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"plain as well", with(asDoc, map[string]any{"code_challenge_methods_supported": []string{"plain", "S256"}}), "server.plain note", ""},
		{"pushed requests", with(asDoc, map[string]any{"require_pushed_authorization_requests": true}), "server.requires fail", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"signed requests", with(asDoc, map[string]any{"require_signed_request_object": true}), "server.requires fail", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"requests may be pushed", with(asDoc, map[string]any{"require_pushed_authorization_requests": false}), "", ""},
		{"no public clients", with(asDoc, map[string]any{"token_endpoint_auth_methods_supported": []string{"client_secret_post"}}), "server.public warn", ""},
		{"methods unsaid", with(asDoc, map[string]any{"token_endpoint_auth_methods_supported": nil}), "server.public warn", ""},
		{"methods are a word", with(asDoc, map[string]any{"token_endpoint_auth_methods_supported": "none"}), "server.public warn", ""},
		{"iss is not promised and sent", with(asDoc, map[string]any{"authorization_response_iss_parameter_supported": nil}), "server.iss note, begin.iss note", "2026-07-28 note"},
		{"iss is promised in a text", with(asDoc, map[string]any{"authorization_response_iss_parameter_supported": "true"}), "server.iss note, begin.iss note", "2026-07-28 note"},
		{"no metadata documents of clients", with(asDoc, map[string]any{"client_id_metadata_document_supported": false}), "server.cimd note", ""},
		{"no registration", with(asDoc, map[string]any{"registration_endpoint": nil}), "server.registration note, noregister", ""},
		{"neither", with(asDoc, map[string]any{"registration_endpoint": nil, "client_id_metadata_document_supported": nil}), "server.registration note, server.cimd note, server.clients warn, noregister", "2025-11-25 note, 2026-07-28 note"},
		{"registration by http", with(asDoc, map[string]any{"registration_endpoint": "http://as.example/register"}), "server.registration fail, noregister", ""},
		{"other resources", with(asDoc, map[string]any{"protected_resources": []string{"https://other.example"}}), "server.protects warn", ""},
		{"resources are a text", with(asDoc, map[string]any{"protected_resources": mcpURL}), "server.protects warn", ""},
		{"other scopes", with(asDoc, map[string]any{"scopes_supported": []string{"write"}}), "server.scopes note", ""},
		{"scopes of the server are a text", with(asDoc, map[string]any{"scopes_supported": "read"}), "server.scopes warn", ""},
		{"no revocation", with(asDoc, map[string]any{"revocation_endpoint": nil}), "server.revocation note", ""},
		{"revocation by http", with(asDoc, map[string]any{"revocation_endpoint": "http://as.example/r"}), "server.revocation warn", ""},
		{"metadata are not for pages", answered("cors", Answer{Status: 200}), "server.cors-metadata note", ""},
		{"tokens are not for pages", answered("preflight", Answer{Status: 404, Origin: "https://other.example"}), "server.cors-token note", ""},
		{"pages are not answered", func(w world) { w["cors"] = Answer{Error: Slow}; w["preflight"] = w["cors"] }, "server.cors-metadata none, server.cors-token none", ""},

		{"no token endpoint there", answered("token", Answer{Status: 404}), "token.answers fail, token.error none", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"token endpoint takes no POST", answered("token", Answer{Status: 405}), "token.answers fail, token.error none", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"token endpoint does not answer", answered("token", Answer{Error: Unreachable}), "token.answers fail, token.error none", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"token endpoint redirects", answered("token", Answer{Status: 301}), "token.answers fail, token.error none", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"what it protects is unsaid", with(asDoc, map[string]any{"protected_resources": nil}), "", ""},
		{"token endpoint has several answers", answered("token", Answer{Status: 300}), "token.answers fail, token.error none", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"token endpoint has a fault", answered("token", Answer{Status: 500}), "token.answers warn, token.error none", "2025-06-18 note, 2025-11-25 note, 2026-07-28 note"},
		{"something before the token endpoint", answered("token", Answer{Status: 403, Body: "<html>"}), "token.answers warn, token.error none", "2025-06-18 note, 2025-11-25 note, 2026-07-28 note"},
		{"too many token requests", answered("token", Answer{Status: 429}), "token.error none", ""},
		{"200 with an error", answered("token", Answer{Status: 200, Type: "application/json", Body: `{"error":"invalid_request"}`}), "token.error fail", ""},
		{"token error in HTML", answered("token", Answer{Status: 400, Type: "text/html", Body: "<p>"}), "token.error warn", ""},
		{"token error without error", answered("token", Answer{Status: 400, Type: "application/json", Body: `{"message":"x"}`}), "token.error warn", ""},
		{"token error with another status", changed("token", func(a *Answer) { a.Status = 422 }), "token.error warn", ""},
		{"token error as text", changed("token", func(a *Answer) { a.Type = "text/plain" }), "token.error warn", ""},
		{"token error with 401", changed("token", func(a *Answer) { a.Status = 401 }), "", ""},
		{"no authorization endpoint there", answered("authorize", Answer{Status: 404}), "authorize.answers warn", ""},
		{"authorization endpoint takes no GET", answered("authorize", Answer{Status: 405}), "authorize.answers warn", ""},
		{"authorization endpoint does not answer", answered("authorize", Answer{Error: Slow}), "authorize.answers fail", ""},
		{"authorization endpoint has a fault", answered("authorize", Answer{Status: 500}), "authorize.answers note", ""},
		{"nothing at the root", func(w world) { delete(w, mcpRoot) }, "legacy.root note", "2025-03-26 note"},

		{"https clients are refused", answered("register-https", Answer{Status: 400, Type: "application/json", Body: `{"error":"invalid_redirect_uri"}`}), "register.https warn, register.error ok, begin.* none, begin.port ok", ""},
		{"loopback clients are refused", answered("register-loopback", Answer{Status: 400, Type: "application/json", Body: `{"error":"invalid_redirect_uri"}`}), "register.loopback warn, register.error ok, begin.port none", ""},
		{"refused without error", answered("register-loopback", Answer{Status: 400, Body: `no`}), "register.loopback warn, register.error warn, begin.port none", ""},
		{"refused with 422", answered("register-loopback", Answer{Status: 422, Body: `{"error":"x"}`}), "register.loopback warn, register.error warn, begin.port none", ""},
		{"refused with a client", answered("register-https", Answer{Status: 400, Body: `{"error":"x","client_id":"h"}`}), "register.https warn, register.error ok, begin.* none, begin.port ok", ""},
		{"accepted for later", changed("register-https", func(a *Answer) { a.Status = 202 }), "register.https fail, begin.* none, begin.port ok, register.left note", ""},
		{"registration needs a credential", answered("register-https", Answer{Status: 401}), "register.https warn, begin.* none, begin.port ok", ""},
		{"registration is forbidden", answered("register-https", Answer{Status: 403}), "register.https warn, begin.* none, begin.port ok", ""},
		{"too many registrations", answered("register-https", Answer{Status: 429}), "register.https none, begin.* none, begin.port ok", ""},
		{"no registration there", answered("register-https", Answer{Status: 404}), "register.https fail, begin.* none, begin.port ok", ""},
		{"registration does not answer", answered("register-https", Answer{Error: Slow}), "register.https fail, begin.* none, begin.port ok, register.left note", ""},
		{"registered with several choices", answered("register-https", Answer{Status: 300}), "register.https fail, begin.* none, begin.port ok", ""},
		{"refused at length", answered("register-https", Answer{Status: 400, Error: Large}), "register.https fail, begin.* none, begin.port ok", ""},
		{"registered with 200", changed("register-https", func(a *Answer) { a.Status = 200 }), "register.status warn", ""},
		{"registered as text", changed("register-loopback", func(a *Answer) { a.Type = "text/plain" }), "register.status warn", ""},
		{"a secret as well", with201("register-https", map[string]any{"client_secret": "s"}), "register.method note", ""},
		{"a secret instead", with201("register-https", map[string]any{"client_secret": "s", "token_endpoint_auth_method": "client_secret_basic"}), "register.method warn", ""},
		{"a method and no secret", with201("register-https", map[string]any{"token_endpoint_auth_method": "client_secret_basic"}), "register.method fail", ""},
		{"method is a number", with201("register-https", map[string]any{"token_endpoint_auth_method": 7}), "register.method fail", ""},
		{"method is not said", with201("register-https", map[string]any{"token_endpoint_auth_method": nil}), "", ""},
		{"one redirect more", with201("register-https", map[string]any{"redirect_uris": []string{httpsRedirect, "https://evil.example/"}}), "register.redirects fail", ""},
		{"redirects are not given back", with201("register-https", map[string]any{"redirect_uris": nil}), "register.redirects warn", ""},
		{"redirects are others", with201("register-loopback", map[string]any{"redirect_uris": []string{"http://localhost/"}}), "register.redirects fail", ""},
		{"cannot be deleted", with201("register-https", map[string]any{"registration_access_token": nil}), "register.left note", ""},
		{"managed elsewhere", with201("register-https", map[string]any{"registration_client_uri": "https://evil.example/"}), "register.left note", ""},
		{"deletion is refused", answered("unregister-loopback", Answer{Status: 403}), "register.left note", ""},
		{"a registration is not sent", answered("register-https", Answer{Error: Stopped}), "register.https fail, begin.* none, begin.port ok", ""},
		{"deletion has several answers", answered("unregister-loopback", Answer{Status: 300}), "register.left note", ""},
		{"requests are refused back", func(w world) {
			w["begin"] = Answer{Status: 302, Location: httpsRedirect + "?error=invalid_scope&iss=" + url.QueryEscape(issuer) + "&state=" + state}
			w["begin-without-resource"] = w["begin"]
		}, "begin.answers fail, begin.resource none, begin.pkce none", ""},
		{"requests are refused", func(w world) { w["begin"] = Answer{Status: 400}; w["begin-without-resource"] = w["begin"] }, "begin.answers fail, begin.resource none, begin.pkce none", ""},
		{"authorization has a fault", func(w world) { w["begin"] = Answer{Status: 500}; w["begin-without-resource"] = w["begin"] }, "begin.answers none, begin.resource none, begin.pkce none", ""},
		{"resource is refused", answered("begin", Answer{Status: 400}), "begin.answers none, begin.resource fail, begin.pkce none", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"resource is refused back", answered("begin", Answer{Status: 303, Location: httpsRedirect + "?error=invalid_target&iss=" + url.QueryEscape(issuer) + "&state=" + state}), "begin.answers none, begin.resource fail, begin.pkce none", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"resource is refused back, and a request without it in place", func(w world) {
			w["begin"] = Answer{Status: 303, Location: httpsRedirect + "?error=invalid_target&iss=" + url.QueryEscape(issuer) + "&state=" + state}
			w["begin-without-resource"] = Answer{Status: 400}
		}, "begin.answers none, begin.resource fail, begin.pkce none", "2025-06-18 fail, 2025-11-25 fail, 2026-07-28 fail"},
		{"requests are not answered", answered("begin", Answer{Error: Slow}), "begin.answers none, begin.resource none, begin.pkce none", ""},
		{"a request without resource is not answered", answered("begin-without-resource", Answer{Error: Slow}), "begin.resource none", ""},
		{"too many requests", answered("begin-without-pkce", Answer{Status: 429}), "begin.pkce none, begin.iss none, begin.state none", ""},
		{"no challenge goes on", answered("begin-without-pkce", Answer{Status: 302, Location: "/login"}), "begin.pkce note, begin.iss none, begin.state none", ""},
		{"iss is not sent", answered("begin-without-pkce", Answer{Status: 302, Location: httpsRedirect + "?error=x&state=" + state}), "begin.iss warn", "2026-07-28 note"},
		{"iss is another", answered("begin-without-pkce", Answer{Status: 302, Location: httpsRedirect + "?error=x&iss=https://evil.example&state=" + state}), "begin.iss fail", "2026-07-28 fail"},
		{"state is not sent", answered("begin-without-pkce", Answer{Status: 302, Location: httpsRedirect + "?error=x&iss=" + url.QueryEscape(issuer)}), "begin.state warn", ""},
		{"sent back with a fragment", changed("begin-without-pkce", func(a *Answer) { a.Location += "#_=_" }), "", ""},
		{"iss is neither promised nor sent", func(w world) {
			with(asDoc, map[string]any{"authorization_response_iss_parameter_supported": nil})(w)
			w["begin-without-pkce"] = Answer{Status: 302, Location: httpsRedirect + "?error=x&state=" + state}
		}, "server.iss note, begin.iss none", ""},
		{"no port is taken", func(w world) {
			w["begin-other-port"] = Answer{Status: 400}
			w["begin-loopback"] = w["begin-other-port"]
		}, "begin.port none", ""},
		{"a page for another port", answered("begin-other-port", Answer{Status: 200}), "begin.port none", ""},
		{"another port leads to a choice", answered("begin-other-port", Answer{Status: 300, Location: "/login"}), "", ""},
		{"another port is refused", answered("begin-other-port", Answer{Status: 400}), "begin.port warn", ""},
		{"pages for any port", func(w world) {
			w["begin-other-port"] = Answer{Status: 200}
			w["begin-loopback"] = w["begin-other-port"]
		}, "begin.port none", ""},
	}
	noticed := map[string]bool{}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := good()
			tt.change(w)
			rows := w.ask(t, &Inquiry{URL: mcpURL, Register: true}).Rows()
			got := notOK(rows)
			if want := wanted(tt.want); !slices.Equal(got, want) {
				t.Errorf("not ok:\n%q, want\n%q", got, want)
			}
			if got := strings.Join(revisionsOf(rows), ", "); got != tt.mcp {
				t.Errorf("revisions %s, want %s", got, tt.mcp)
			}
			for _, r := range rows {
				if r.Result != OK && r.Result != None {
					noticed[r.Code] = true
				}
				if (r.Result == OK || r.Result == None) != (len(r.Breaks) == 0 && r.Fix == "") && !strings.HasPrefix(r.Code, "mcp.") && r.Code != "register.left" {
					t.Errorf("%s is %s, breaks %v, fix %q", r.Code, r.Result, r.Breaks, r.Fix)
				}
			}
		})
	}
	elsewhere := []string{"target.https", "target.kind"} // TestOtherAddresses
	for _, code := range Codes() {
		if !noticed[code] && !slices.Contains(elsewhere, code) {
			t.Errorf("no test makes %s anything but ok", code)
		}
	}
}

// What was seen tells apart what comes to the same. With its result in front it is all that is said.
func TestWhatWasSeen(t *testing.T) {
	for _, tt := range []struct {
		change     func(world)
		code, want string
	}{
		{func(world) {}, "target.kind", "protected resource"},
		{func(w world) {
			w["ping"], w["call"] = w["call"], Answer{Status: 405}
			w["https://mcp.example/.well-known/oauth-authorization-server/public/mcp"] = w[asDoc]
			with("https://mcp.example/.well-known/oauth-authorization-server/public/mcp", map[string]any{"issuer": mcpURL})(w)
		}, "target.kind", "protected resource"},
		{func(w world) {
			w[asOIDC] = w[asDoc]
			delete(w, asDoc)
			with(asOIDC, map[string]any{"issuer": "https://evil.example"})(w)
		}, "server.issuer", "evil.example"},
		{func(w world) {
			w["call"] = Answer{Status: 401}
			with(mcpPRM, map[string]any{"resource": "https://mcp.example"})(w)
		}, "resource.identifier", "is a part"},
		{with(mcpPRM, map[string]any{"authorization_servers": []string{issuer, issuer + "2", issuer + "3", issuer + "4"}}), "resource.servers", "the first 3 are looked at"},
		{with(asDoc, map[string]any{"code_challenge_methods_supported": nil}), "server.pkce", "is missing"},
		{with(asDoc, map[string]any{"issuer": "https://evil.example"}), "server.issuer", "and the resource says " + issuer},
		{func(w world) { w["call"] = Answer{Status: 401}; delete(w, mcpPRM) }, "server.issuer", "and their address says"},
		{func(w world) {
			w[mcpRootPRM], w[mcpPRM] = w[mcpPRM], Answer{Status: 200, Body: " <html>"}
			w["call"] = Answer{Status: 401}
		}, "resource.found", "fail: " + mcpPRM + " is HTML and not JSON; they are at " + mcpRootPRM},
		{func(w world) {
			w[mcpRootPRM], w[mcpPRM] = w[mcpPRM], Answer{Error: Slow}
			w["call"] = Answer{Status: 401}
		}, "resource.found", "fail: " + mcpPRM + " does not answer in time; they are at " + mcpRootPRM},
		{answered("call", Answer{Status: 401, Challenges: []string{`Bearer resource_metadata="https://mcp.example/prm"`}}), "resource.found", "fail: the address in the challenge is not where they are: https://mcp.example/prm answers 404; they are at " + mcpPRM},
		{answered(mcpPRM, Answer{Status: 429}), "resource.found", "none: too many requests for now: " + mcpPRM + " answers 429"},
		{answered("call", Answer{Status: 401}), "challenge.scheme", "the 401 has no WWW-Authenticate"},
		{func(w world) {
			w["call"] = Answer{Status: 401, Via: []string{mcpURL + "/v2"}}
			with(mcpPRM, map[string]any{"resource": mcpURL + "/v2"})(w)
		}, "resource.identifier", "ok: resource is " + mcpURL + "/v2, as clients are given it"},
		{with(mcpPRM, map[string]any{"authorization_servers": []string{issuer, issuer + "2", issuer + "3"}}), "resource.servers", "ok: " + issuer + ", " + issuer + "2, " + issuer + "3"},
		{func(world) {}, "resource.scopes", "ok: read"},
		{with(mcpPRM, map[string]any{"scopes_supported": nil}), "resource.scopes", "ok: no scopes are listed; the challenge names them"},
		{func(w world) {
			w[asOIDC] = w[asDoc]
			with(asDoc, map[string]any{"issuer": "https://evil.example"})(w)
			with(asOIDC, map[string]any{"issuer": "https://other.example"})(w)
		}, "server.issuer", "fail: the metadata say https://evil.example, and the resource says " + issuer + ": clients must not use them"},
		{with(mcpPRM, map[string]any{"resource": nil}), "resource.identifier", "fail: resource is missing, or no text"},
		{with(asDoc, map[string]any{"issuer": 7}), "server.issuer", "fail: issuer is missing, or no text"},
		{with(mcpPRM, map[string]any{"authorization_servers": []string{issuer + "?a"}}), "server.found", "fail: " + issuer + "?a is no issuer whose metadata could be asked for"},
		{func(world) {}, "server.rfc8414", "ok: " + asDoc},
		{func(w world) { w[asOIDC] = w[asDoc]; delete(w, asDoc) }, "server.rfc8414", "note: " + asDoc + " answers 404: clients of 2025-06-18 that know RFC 8414 alone find none; others find " + asOIDC},
		{with(asDoc, map[string]any{"token_endpoint": nil}), "server.token", "fail: token_endpoint is missing"},
		{with(asDoc, map[string]any{"response_types_supported": "code"}), "server.response-types", "no list of texts"},
		{func(world) {}, "server.clients", "ok: by metadata documents, or by registration"},
		{with(asDoc, map[string]any{"registration_endpoint": nil}), "server.clients", "ok: by metadata documents"},
		{with(asDoc, map[string]any{"client_id_metadata_document_supported": nil}), "server.clients", "ok: by registration"},
		{answered("token", Answer{Status: 400, Type: "text/html", Body: "<p>"}), "token.error", "warn: an empty token request is answered 400, and the answer is HTML and not JSON"},
		{answered("register-https", Answer{Error: Slow}), "register.https", "fail: it does not answer in time"},
		{answered("register-https", Answer{Status: 401}), "register.https", "credential"},
		{answered("register-https", Answer{Status: 400, Body: "no"}), "register.https", "warn: a client with " + httpsRedirect + " is refused: 400, which is not JSON"},
		{answered("register-https", Answer{Status: 400, Body: `{"error":"x"}`}), "register.https", "warn: a client with " + httpsRedirect + " is refused: 400 x"},
		{answered("register-https", Answer{Status: 400, Body: `{"error":"x","error_description":"no, never"}`}), "register.https", "warn: a client with " + httpsRedirect + ` is refused: 400 x "no, never"`},
		{answered("register-https", Answer{Status: 400}), "begin.answers", "none: no client was registered"},
		{answered("begin", Answer{Error: Slow}), "begin.answers", "none: it does not answer in time"},
		{func(world) {}, "begin.pkce", "ok: a request without code_challenge is refused: error=invalid_request"},
		{answered("begin-without-pkce", Answer{Error: Slow}), "begin.pkce", "none: not seen"},
		{with(asDoc, map[string]any{"authorization_response_iss_parameter_supported": nil}), "begin.iss", "note: iss is sent, and not promised in the metadata"},
		{func(w world) {
			with(asDoc, map[string]any{"authorization_response_iss_parameter_supported": nil})(w)
			w["begin-without-pkce"] = Answer{Status: 302, Location: httpsRedirect + "?error=x&state=" + state}
		}, "begin.iss", "none: iss is neither promised nor sent"},
		{answered("begin-other-port", Answer{Error: Slow}), "begin.port", "none: not seen"},
		{answered("begin-other-port", Answer{Status: 200}), "begin.port", "none: not told by the answers: 302 to https://as.example/sign-in with the registered port, and 200 with another"},
		{answered("begin", Answer{Status: 302, Location: "https://as.example/in?secret=1"}), "begin.answers", "302 to https://as.example/in"},
	} {
		w := good()
		tt.change(w)
		r := row1(t, w.ask(t, &Inquiry{URL: mcpURL, Register: true}).Rows(), tt.code)
		said := r.Result + ": " + r.Seen
		if said != tt.want && strings.HasPrefix(tt.want, r.Result+": ") || !strings.Contains(said, tt.want) || strings.Contains(said, "secret") {
			t.Errorf("%s: %s, want %q", tt.code, said, tt.want)
		}
	}
}

// with201 is a change of what a registration is answered.
func with201(key string, changes map[string]any) func(world) {
	return func(w world) {
		with(key, changes)(w)
		a := w[key]
		a.Status = 201
		w[key] = a
	}
}

// wanted are the rows that are not ok, of a list in which later words win: "x.* none"
// is every row of a subject, and some sets have names.
func wanted(list string) (all []string) {
	set := map[string]string{"register.error": None}
	of := func(prefix string) {
		for _, code := range Codes() {
			if strings.HasPrefix(code, prefix) && !strings.HasPrefix(code, "mcp.") {
				set[code] = None
			}
		}
	}
	if list == "" {
		list = "target.answers ok"
	}
	words := strings.Split(list, ", ")
	for _, w := range words { // sets first
		switch code, result, _ := strings.Cut(w, " "); {
		case code == "noserver":
			for _, prefix := range []string{"server.", "token.", "authorize.", "register.", "begin."} {
				of(prefix)
			}
			delete(set, "server.issuer-form")
			if strings.Contains(list, "resource.servers fail") {
				set["server.issuer-form"] = None
			}
		case code == "noregister":
			of("register.")
			of("begin.")
		case strings.HasSuffix(code, "*") && result == None:
			of(strings.TrimSuffix(code, "*"))
		}
	}
	for _, w := range words {
		code, result, several := strings.Cut(w, " ")
		if several && !strings.HasSuffix(code, "*") {
			set[code] = result
		}
	}
	for _, code := range slices.Sorted(maps.Keys(set)) {
		if set[code] != OK {
			all = append(all, code+" "+set[code])
		}
	}
	return all
}

// What has to be waited for is named by its step.
func TestWhatRegisters(t *testing.T) {
	for step, want := range map[string]bool{"register-https": true, "register-loopback": true, "unregister-https": false, "begin": false} {
		if (Request{Step: step}).Registers() != want {
			t.Errorf("%s: %t", step, !want)
		}
	}
}

// Of two clients one is left, and nobody knows of the other: both are told.
func TestOneIsLeftAndOneIsLost(t *testing.T) {
	const lost = "the answer to a registration was lost, so that a client may be there whose ID nobody was told"
	for also, want := range map[string]string{"": "registered and not deleted, as the server has no way or refused it: ID", "register-https": "registered and not deleted, as the server has no way or refused it: ID; " + lost} {
		w := good()
		w["unregister-loopback"] = Answer{Status: 403}
		if also != "" {
			w[also] = Answer{Error: Slow}
		}
		q := &Inquiry{URL: mcpURL, Register: true}
		for _, r := range w.ask(t, q).Rows() {
			if r.Code == "register.left" && regexp.MustCompile(`refused it: [a-z0-9-]+`).ReplaceAllString(r.Seen, "refused it: ID") != want {
				t.Errorf("%q is told, want %q", r.Seen, want)
			}
		}
	}
}
