package probe

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// Bounds of what is asked.
const (
	MostRequests = 40 // of one inquiry
	mostServers  = 3  // authorization servers that are looked at
	mostTokens   = 2  // token requests, all without content
)

// What is sent. None of it means anything to anybody.
const (
	ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}` // MCP's question that changes nothing

	httpsRedirect    = "https://assistant.example/callback"
	loopbackRedirect = "http://127.0.0.1:49152/callback"
	otherPort        = "http://127.0.0.1:49153/callback"

	pageOrigin = "https://assistant.example"
	state      = "grantkeeper-doctor"
	challenged = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM" // RFC 7636 appendix B

	acceptMCP = "application/json, text/event-stream"
)

// Next is what is to be asked now, of what was answered so far; false when that is
// all. A request that cannot be made is to be recorded with its error.
func (q *Inquiry) Next() (Request, bool) {
	if len(q.Exchanges) >= MostRequests {
		return Request{}, false
	}
	for _, r := range q.plan() {
		if _, made := q.find(r.Step, r.URL); !made {
			return r, true
		}
	}
	return Request{}, false
}

// plan is every request of which it is known that it is to be made, if no answer to those before it
// changes that.
func (q *Inquiry) plan() []Request {
	v := q.view()
	if v.given == nil {
		return nil
	}
	all := []Request{{Step: "call", Method: "GET", URL: q.URL, Accept: acceptMCP, Follow: FollowOrigin, Brief: true}}
	if !v.called || v.get.Error != "" && v.get.Error != Slow {
		return all
	}
	message := Request{Step: "ping", Method: "POST", URL: q.URL, Accept: acceptMCP, Type: "application/json", Body: ping, Follow: FollowOrigin, Brief: true}
	switch {
	case v.get.Status == 401:
	case v.likesPOST():
		all = append(all, message)
	default:
		all = append(all, documents(issuerDocuments(v.given))...)
		if !v.issuer { // which is known when they were asked
			all = append(all, message)
		}
	}
	if !v.issuer {
		all = append(all, documents(v.resourceAddresses())...)
		all = append(all, documents(issuerDocuments(&url.URL{Scheme: v.given.Scheme, Host: v.given.Host})[:1])...)
	}
	for i, s := range v.servers {
		all = append(all, s.documents()...)
		if s.doc.usable() {
			all = append(all, v.planServer(i, s)...)
		}
	}
	return all
}

func documents(addresses []string) (all []Request) {
	for _, a := range addresses {
		all = append(all, Request{Step: "document", Method: "GET", URL: a, Accept: "application/json", Follow: FollowAny})
	}
	return all
}

// planServer is what is asked of an authorization server, once its metadata are known.
func (v *view) planServer(i int, s *server) (all []Request) {
	all = append(all, Request{Step: "cors", Method: "GET", URL: s.doc.address, Accept: "application/json", Origin: pageOrigin, Follow: FollowAny, Brief: true})
	if at, ok := s.doc.text("token_endpoint"); ok && v.endpoint(s.doc, "token_endpoint") == "" {
		all = append(all, Request{Step: "preflight", Method: "OPTIONS", URL: at, Origin: pageOrigin, Brief: true})
		if i < mostTokens {
			all = append(all, Request{Step: "token", Method: "POST", URL: at, Accept: "application/json", Type: "application/x-www-form-urlencoded"})
		}
	}
	at, ok := s.doc.text("authorization_endpoint")
	if !ok || v.endpoint(s.doc, "authorization_endpoint") != "" {
		return all
	}
	all = append(all, Request{Step: "authorize", Method: "GET", URL: at, Accept: "text/html", Brief: true})
	if i == 0 && v.q.Register && v.endpoint(s.doc, "registration_endpoint") == "" {
		all = append(all, v.planClients(s, at)...)
	}
	return all
}

// Steps that register a client.
const (
	registerHTTPS    = "register-https"
	registerLoopback = "register-loopback"
)

// planClients registers two clients, begins with each as an assistant does, and has
// both deleted.
func (v *view) planClients(s *server, authorize string) (all []Request) {
	at, _ := s.doc.text("registration_endpoint")
	for _, c := range []struct{ step, redirect, kind string }{{registerHTTPS, httpsRedirect, "web"}, {registerLoopback, loopbackRedirect, "native"}} {
		body, _ := json.Marshal(map[string]any{
			"client_name": "grantkeeper doctor", "redirect_uris": []string{c.redirect}, "application_type": c.kind,
			"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"}, "token_endpoint_auth_method": "none",
		})
		all = append(all, Request{Step: c.step, Method: "POST", URL: at, Accept: "application/json", Type: "application/json", Body: string(body)})
	}
	begin := func(step string, c registrant, redirect string, change func(url.Values)) {
		query := url.Values{"response_type": {"code"}, "client_id": {c.id}, "redirect_uri": {redirect}, "state": {state},
			"code_challenge": {challenged}, "code_challenge_method": {"S256"}}
		if v.resource != "" {
			query.Set("resource", v.resource)
		}
		if scope := v.scope(); scope != "" {
			query.Set("scope", scope)
		}
		change(query)
		separator := "?"
		if strings.Contains(authorize, "?") {
			separator = "&"
		}
		all = append(all, Request{Step: step, Method: "GET", URL: authorize + separator + query.Encode(), Accept: "text/html", Brief: true})
	}
	as := func(url.Values) {}
	if c := v.client(registerHTTPS); c.id != "" {
		begin("begin", c, httpsRedirect, as)
		begin("begin-without-pkce", c, httpsRedirect, func(q url.Values) { q.Del("code_challenge"); q.Del("code_challenge_method") })
		if v.resource != "" {
			begin("begin-without-resource", c, httpsRedirect, func(q url.Values) { q.Del("resource") })
		}
	}
	if c := v.client(registerLoopback); c.id != "" {
		begin("begin-loopback", c, loopbackRedirect, as)
		begin("begin-other-port", c, otherPort, as)
	}
	for _, step := range []string{registerHTTPS, registerLoopback} {
		if c := v.client(step); c.manage != "" && c.token != "" && v.mayManage(at, c.manage) {
			all = append(all, Request{Step: "un" + step, Method: "DELETE", URL: c.manage, Token: c.token, Brief: true})
		}
	}
	return all
}

// mayManage reports whether the address by which a client is managed is at the server
// that registered it: a token goes nowhere else.
func (v *view) mayManage(registration, manage string) bool {
	a, ok := parse(registration)
	b, good := parse(manage)
	return ok && good && origin(a) == origin(b)
}

// scope is what an assistant asks for (MCP 2025-11-25, scope selection).
func (v *view) scope() string {
	if scope := v.bearer.params["scope"]; scope != "" {
		return scope
	}
	all, _, _ := v.prm.list("scopes_supported")
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), " ")
}

// A registrant is a client that was registered.
type registrant struct{ id, manage, token string }

// registered is what an answer says of the client that was registered.
func (a Answer) registered() (d document) {
	if a.Status == 200 || a.Status == 201 {
		d.members, _ = a.object()
	}
	return d
}

func (v *view) client(step string) registrant {
	a, _ := v.q.find(step, "")
	var c registrant
	d := a.registered()
	c.id, _ = d.text("client_id")
	c.manage, _ = d.text("registration_client_uri")
	c.token, _ = d.text("registration_access_token")
	return c
}
