package probe

import (
	"net/url"
	"slices"
	"strings"
)

// notRegistered is what there is to say where no client was registered.
func (v *view) notRegistered() verdict {
	if v.q.Register {
		return none("no client was registered")
	}
	return none("nothing was registered: --register does")
}

// registered judges whether a client could register with a redirect.
func registered(step, redirect string) func(*view, *server) verdict {
	return func(v *view, s *server) verdict {
		a, asked := v.registration(s, step)
		switch {
		case !asked:
			return v.notRegistered()
		case a.Error != "":
			return fail("it " + failures[a.Error])
		case v.client(step).id != "":
			return ok("a client with " + redirect + " can register")
		case a.Status == 429:
			return none("too many registrations for now: it answers 429")
		case a.Status == 401:
			return warn("a registration needs a credential, which no assistant has: it answers " + refusal(a))
		case a.Status == 400 || a.Status == 403 || a.Status == 422:
			return warn("a client with " + redirect + " is refused: " + refusal(a))
		}
		return fail("a registration is answered " + refusal(a))
	}
}

// registration is the answer to one, which only the first server was asked for.
func (v *view) registration(s *server, step string) (Answer, bool) {
	at, _ := s.doc.text("registration_endpoint")
	if !v.first(s) {
		return Answer{}, false
	}
	return v.q.find(step, at)
}

// first reports whether a server is the one that a client goes to.
func (v *view) first(s *server) bool { return slices.Index(v.servers, s) == 0 }

// refusal shows an answer's status and error.
func refusal(a Answer) string {
	d := document{}
	if d.members, d.wrong = a.object(); d.wrong != "" {
		return status(a) + ", which " + d.wrong
	}
	said := status(a)
	for _, name := range []string{"error", "error_description"} {
		if text, _ := d.text(name); text != "" {
			said += " " + shown(text)
		}
	}
	return said
}

// registrations are the answers to both, empty where there was none.
func (v *view) registrations(s *server) (all []Answer) {
	for _, step := range []string{registerHTTPS, registerLoopback} {
		if a, _ := v.registration(s, step); a.Error == "" {
			all = append(all, a)
		}
	}
	return all
}

// onRegistered judges each client that was registered; the worst verdict is the row's.
func onRegistered(v *view, s *server, judge func(document, Answer) verdict) verdict {
	worst := v.notRegistered()
	for _, a := range v.registrations(s) {
		d := a.registered()
		if id, _ := d.text("client_id"); id == "" {
			continue
		}
		if said := judge(d, a); worst.result == None || said.result != OK {
			worst = said
		}
	}
	return worst
}

func registerStatus(v *view, s *server) verdict {
	return onRegistered(v, s, func(_ document, a Answer) verdict {
		switch {
		case a.Status != 201:
			return warn("a registration is answered " + status(a) + " and not 201")
		case !a.json():
			return warn("a registration is answered as " + shown(a.Type))
		}
		return ok("201")
	})
}

func registerMethod(v *view, s *server) verdict {
	return onRegistered(v, s, func(d document, _ Answer) verdict {
		method, there := d.text("token_endpoint_auth_method")
		_, secret := d.members["client_secret"]
		switch {
		case method == "none" && secret:
			return note("none is registered, and a secret given as well, which nobody needs")
		case method == "none" || !there && !secret:
			return ok("none")
		case secret:
			return warn("none was asked for; " + shown(method) + " and a secret are registered, which a program cannot keep from its user")
		}
		return fail("none was asked for; " + shown(method) + " is registered, and no secret given")
	})
}

func registerRedirects(v *view, s *server) verdict {
	return onRegistered(v, s, func(d document, _ Answer) verdict {
		switch all, there, good := d.list("redirect_uris"); {
		case !there:
			return warn("redirect_uris are not given back: clients that check the answer refuse it")
		case !good || len(all) != 1 || all[0] != httpsRedirect && all[0] != loopbackRedirect:
			return fail("redirect_uris are given back otherwise: " + severally(all))
		}
		return ok("as they were registered")
	})
}

func registerError(v *view, s *server) verdict {
	seen := none("no registration was refused")
	for _, a := range v.registrations(s) {
		if a.Status != 400 && a.Status != 422 {
			continue
		}
		d := document{}
		d.members, _ = a.object()
		switch said, _ := d.text("error"); {
		case said == "":
			return warn("a refused registration does not say error: " + refusal(a))
		case a.Status != 400:
			return warn("a refused registration is answered " + refusal(a))
		default:
			seen = ok(refusal(a))
		}
	}
	return seen
}

// registerLeft says which clients are still there.
func registerLeft(v *view, s *server) verdict {
	var stay []string
	made, lost := 0, false
	for _, step := range []string{registerHTTPS, registerLoopback} {
		of, here := v.registration(s, step)
		if !here {
			continue
		}
		c := v.client(step)
		if c.id == "" {
			lost = lost || of.mayHaveActed()
			continue
		}
		made++
		if a, asked := v.q.find("un"+step, ""); !asked || a.Error != "" || a.Status >= 300 {
			stay = append(stay, c.id)
		}
	}
	const unknown = "the answer to a registration was lost, so that a client may be there whose ID nobody was told"
	switch {
	case len(stay) == 0 && lost:
		return note(unknown)
	case made == 0:
		return v.notRegistered()
	case len(stay) == 0:
		return ok("the clients that were registered are deleted again")
	}
	said := "registered and not deleted, as the server has no way or refused it: " + severally(stay)
	if lost {
		said += "; " + unknown
	}
	return note(said)
}

// mayHaveActed reports whether a request that has no answer may have been carried out.
func (a Answer) mayHaveActed() bool {
	switch a.Error {
	case "", Large:
		return a.Status < 300
	case Unreachable, Slow, Malformed:
		return true
	}
	return false
}

// An outcome is how the authorization endpoint answered one who begins.
type outcome struct {
	begun, back, refused bool // it goes on; back at the client with an error; refused in place
	status               string
	query                url.Values // of the redirect back
	page                 bool       // a page, of which nobody knows what it says
}

func (v *view) outcome(s *server, step, redirect string) (o outcome, asked bool) {
	a, asked := v.q.find(step, "")
	if !asked || !v.first(s) {
		return o, false
	}
	if o.status = status(a); a.Error != "" {
		return o, false
	}
	if query, led := strings.CutPrefix(a.Location, redirect+"?"); led {
		query, _, _ = strings.Cut(query, "#")
		o.query, _ = url.ParseQuery(query)
		o.back = o.query.Get("error") != ""
		o.status = "error=" + shown(o.query.Get("error"))
	}
	o.refused = a.Status >= 400 && a.Status < 500 && a.Status != 429
	o.begun = !o.back && a.Status < 400
	o.page = a.Status < 300
	return o, true
}

func beginAnswers(v *view, s *server) verdict {
	o, asked := v.outcome(s, "begin", httpsRedirect)
	switch {
	case o.status == "":
		return v.notRegistered()
	case !asked:
		return none("it " + o.status)
	case o.begun:
		return ok("a request as an assistant makes it is answered " + o.status)
	case beginResource(v, s).result == Fail:
		return none("it is refused for its resource, as begin.resource says")
	case o.back || o.refused:
		return fail("a request as an assistant makes it is refused: " + o.status)
	}
	return none("it answers " + o.status)
}

func beginResource(v *view, s *server) verdict {
	with, asked := v.outcome(s, "begin", httpsRedirect)
	without, compared := v.outcome(s, "begin-without-resource", httpsRedirect)
	switch {
	case !asked || !compared:
		return none("not seen")
	case with.begun:
		return ok("a request with resource goes on")
	case with.back && with.query.Get("error") == "invalid_target", without.begun:
		return fail("a request with resource is refused: " + with.status)
	}
	return none("a request is refused with it and without it")
}

func beginPKCE(v *view, s *server) verdict {
	with, _ := v.outcome(s, "begin", httpsRedirect)
	without, compared := v.outcome(s, "begin-without-pkce", httpsRedirect)
	switch {
	case !compared || !with.begun:
		return none("not seen")
	case without.back || without.refused:
		return ok("a request without code_challenge is refused: " + without.status)
	case without.begun:
		return note("a request without code_challenge goes on as one with it, unless it is refused after sign-in")
	}
	return none("it answers " + without.status)
}

// backs are the answers that came back to the client's redirect with an error.
func (v *view) backs(s *server) (all []outcome) {
	for _, step := range []string{"begin", "begin-without-pkce", "begin-without-resource"} {
		if o, asked := v.outcome(s, step, httpsRedirect); asked && o.back {
			all = append(all, o)
		}
	}
	return all
}

func beginIss(v *view, s *server) verdict {
	promised := s.doc.yes("authorization_response_iss_parameter_supported")
	issuer, _ := s.doc.text("issuer")
	seen := none("no answer came back to the client's redirect")
	for _, o := range v.backs(s) {
		got, sent := o.query.Get("iss"), o.query.Has("iss")
		switch {
		case sent && got != issuer:
			return fail("iss is " + shown(got) + ", and the issuer " + shown(issuer))
		case promised && !sent:
			return warn("iss is promised in the metadata, and not sent with an error: clients refuse the answer, and cannot say why it failed")
		case sent && !promised:
			seen = note("iss is sent, and not promised in the metadata")
		case sent:
			seen = ok("iss is " + shown(got))
		default:
			seen = none("iss is neither promised nor sent")
		}
	}
	return seen
}

func beginState(v *view, s *server) verdict {
	seen := none("no answer came back to the client's redirect")
	for _, o := range v.backs(s) {
		if o.query.Get("state") != state {
			return warn("state is not given back with an error: clients refuse the answer, and cannot say why it failed")
		}
		seen = ok("state is given back")
	}
	return seen
}

func beginPort(v *view, s *server) verdict {
	same, _ := v.outcome(s, "begin-loopback", loopbackRedirect)
	other, compared := v.outcome(s, "begin-other-port", otherPort)
	switch {
	case !compared || !same.begun:
		return none("not seen")
	case other.refused:
		return warn("a loopback redirect with another port than the registered one is refused: a program that takes a free port each time has to register each time")
	case other.begun && !same.page && !other.page:
		return ok("a loopback redirect with another port goes on as the registered one")
	}
	return none("not told by the answers: " + same.status + " with the registered port, and " + other.status + " with another")
}
