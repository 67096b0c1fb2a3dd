package probe

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/client"
)

const notAResource = "it is an issuer, and no resource"

func targetAnswers(v *view, _ *server) verdict {
	a := v.answer
	if v.given == nil {
		return fail("it is no URL that can be asked")
	}
	switch {
	case !v.called:
		return none("not asked")
	case a.Error != "":
		return fail("it " + failures[a.Error])
	case a.Status >= 500:
		return fail("it answers " + status(a))
	}
	return ok("it answers " + status(a))
}

func targetHTTPS(v *view, _ *server) verdict {
	switch {
	case v.given == nil:
		return none("not asked")
	case v.given.Scheme == "https":
		return ok("https")
	case client.Loopback(v.given.Hostname()):
		return ok("http, on this machine")
	}
	return fail("http: whoever is on the way reads the tokens, and clients refuse it")
}

func targetRedirect(v *view, _ *server) verdict {
	a := v.answer
	switch {
	case !v.called || v.issuer:
		return none("not asked")
	case a.Error == Redirects:
		return fail("it redirects in a circle, or too often")
	case len(a.Via) > 0:
		return warn("a call is redirected to " + shown(a.Via[len(a.Via)-1]) + ", which not every client follows with its message")
	case a.Error != "":
		return none("no answer")
	case a.Status >= 300 && a.Status < 400:
		return fail("a call without a token is redirected: " + status(a))
	}
	return ok("no redirect")
}

func targetKind(v *view, _ *server) verdict {
	switch {
	case !v.called || v.get.Error != "" && v.get.Error != Slow:
		return none("not known")
	case v.issuer:
		return ok("it is an issuer, by its own metadata; give the address of an MCP endpoint to see what stands before it")
	case v.challenged:
		return ok("it is a protected resource")
	}
	return ok("it is taken for a resource: it is no issuer by any metadata")
}

func challengeStatus(v *view, _ *server) verdict {
	a := v.answer
	switch {
	case v.issuer:
		return none(notAResource)
	case !v.called || a.Error != "":
		return none("no answer")
	case a.Status == 401:
		return ok("a call without a token is answered 401")
	case a.Status == 429 || a.Status >= 500:
		return none("it answers " + status(a))
	case a.Status < 300:
		return note("a call without a token is answered " + status(a) + ": it is open to everybody, or asks later")
	case v.prm.usable():
		return fail("a call without a token is answered " + status(a) + ": clients ask for a token at 401 alone")
	}
	return warn("a call without a token is answered " + status(a) + ", and no metadata are there: it is no protected resource, or not at this address")
}

// onChallenge judges what came with a 401.
func onChallenge(v *view, judge func() verdict) verdict {
	switch {
	case v.issuer:
		return none(notAResource)
	case !v.challenged:
		return none("no 401 was seen")
	}
	return judge()
}

// instead says of something that a challenge lacks whether clients have another way.
func (v *view) instead(seen string) verdict {
	if v.prm.usable() {
		return warn(seen + "; clients since 2025-11-25 look at the well-known address, where the metadata are, older ones give up")
	}
	if first := v.prms[0].answer; first.Error != "" || first.Status == 429 {
		return warn(seen + ", and whether there are metadata at the well-known addresses was not seen")
	}
	return fail(seen + ", and there are no metadata at the well-known addresses")
}

func challengeScheme(v *view, _ *server) verdict {
	return onChallenge(v, func() verdict {
		switch {
		case !v.header:
			return v.instead("the 401 has no WWW-Authenticate")
		case v.bearer.scheme == "":
			return v.instead("WWW-Authenticate does not offer Bearer: " + severally(v.answer.Challenges))
		}
		return ok("Bearer")
	})
}

func challengeForm(v *view, _ *server) verdict {
	return onChallenge(v, func() verdict {
		for _, c := range challenges(v.answer.Challenges) {
			if c.loose {
				return warn("WWW-Authenticate cannot be read in one way: " + severally(v.answer.Challenges))
			}
		}
		if !v.header {
			return none("no WWW-Authenticate")
		}
		return ok("it can be read")
	})
}

func challengeMetadata(v *view, _ *server) verdict {
	return onChallenge(v, func() verdict {
		if v.named == "" {
			return v.instead("the 401 names no resource_metadata")
		}
		return ok(shown(v.named))
	})
}

func challengeAddress(v *view, _ *server) verdict {
	return onChallenge(v, func() verdict {
		if v.named == "" {
			return none("none is named")
		}
		if wrong := v.address("resource_metadata", v.named); wrong != "" {
			return fail(wrong)
		}
		return ok("it is an address that clients may go to")
	})
}

func challengeError(v *view, _ *server) verdict {
	return onChallenge(v, func() verdict {
		if e, there := v.bearer.params["error"]; there {
			return note("error=" + shown(e) + " though no token came; clients do not mind")
		}
		return ok("no error, as no token came")
	})
}

func challengeScope(v *view, _ *server) verdict {
	return onChallenge(v, func() verdict {
		scope := v.bearer.params["scope"]
		switch {
		case slices.Contains(strings.Split(scope, " "), "offline_access"):
			return note("scope=" + shown(scope) + "; offline_access is no need of the resource (MCP 2026-07-28, refresh tokens)")
		case scope != "":
			return ok("scope=" + shown(scope))
		}
		return note("no scope is named: clients ask for all of scopes_supported")
	})
}

func resourceFound(v *view, _ *server) verdict {
	switch {
	case v.issuer:
		return none(notAResource)
	case len(v.prms) == 0 || !v.prms[0].asked:
		return none("not asked")
	}
	first := v.prms[0]
	var tried []string
	for _, d := range v.prms {
		tried = append(tried, shown(d.address)+" "+d.wrong)
	}
	switch {
	case first.usable():
		return ok(shown(first.address))
	case v.named != "" && v.prm.usable():
		return fail("the address in the challenge is not where they are: " + tried[0] + "; they are at " + shown(v.prm.address))
	case first.answer.Status == 429:
		return none("too many requests for now: " + tried[0])
	case v.prm.usable() && first.missing():
		return ok(shown(v.prm.address))
	case v.prm.usable():
		return fail(tried[0] + "; they are at " + shown(v.prm.address))
	case !v.challenged && v.answer.Status < 300 && v.answer.Error == "":
		return note("none, and a call without a token is let through: " + strings.Join(tried, "; "))
	case !v.challenged && first.missing():
		return warn("none: " + strings.Join(tried, "; "))
	}
	return fail("none: " + strings.Join(tried, "; "))
}

func resourceWellKnown(v *view, _ *server) verdict {
	if !v.prm.usable() {
		return none("there are no metadata of a resource")
	}
	at := resourceDocuments(v.given)[0]
	d := v.q.document(at)
	switch {
	case d.usable():
		return ok(shown(at))
	case !d.asked || d.answer.Error != "":
		return none(shown(at) + " " + d.wrong)
	}
	return note(shown(at) + " " + d.wrong + ": clients that look there find none")
}

// ofResource judges metadata of a resource that are there.
func ofResource(judge func(*view) verdict) func(*view, *server) verdict {
	return func(v *view, _ *server) verdict {
		if !v.prm.usable() {
			return none("there are no metadata of a resource")
		}
		return judge(v)
	}
}

func typed(d document) verdict {
	if !d.answer.json() {
		return warn("they come as " + shown(d.answer.Type) + ", which strict clients refuse")
	}
	return ok("application/json")
}

func direct(d document) verdict {
	if len(d.answer.Via) > 0 {
		return warn("they are behind a redirect to " + shown(d.answer.Via[len(d.answer.Via)-1]) + ", which not every client follows")
	}
	return ok("no redirect")
}

func resourceIdentifier(v *view) verdict {
	said, _ := v.prm.text("resource")
	want := []string{v.q.URL, plain(v.given)}
	if len(v.answer.Via) > 0 {
		want = append(want, v.answer.Via[len(v.answer.Via)-1])
	}
	atRoot := v.prm.address != v.named && v.prm.address != resourceDocuments(v.given)[0]
	u, good := parse(said)
	switch {
	case said == "":
		return fail("resource is missing, or no text")
	case slices.Contains(want, said):
		return ok("resource is " + shown(said) + ", as clients are given it")
	case slices.ContainsFunc(want, func(w string) bool { return sameButSlash(w, said) }) && v.given.EscapedPath() != "" && v.given.EscapedPath() != "/":
		return warn(fmt.Sprintf("resource is %s, and clients are given %s: strict ones refuse the difference of a slash", shown(said), shown(v.q.URL)))
	case slices.ContainsFunc(want, func(w string) bool { return sameButSlash(w, said) }):
		return ok("resource is " + shown(said) + "; without a path the slash means nothing")
	case !good || plain(&url.URL{Scheme: u.Scheme, Host: u.Host}) != plain(&url.URL{Scheme: v.given.Scheme, Host: v.given.Host}):
		return fail(fmt.Sprintf("resource is %s, which is elsewhere than %s: clients refuse it, as they must", shown(said), shown(v.q.URL)))
	case atRoot && strings.Trim(u.EscapedPath(), "/") == "":
		return ok("resource is " + shown(said) + ", the host, whose metadata they are")
	case below(v.given.EscapedPath(), u.EscapedPath()):
		return warn(fmt.Sprintf("resource is %s, of which %s is a part: the SDKs of MCP take that, clients that keep to RFC 9728 refuse it", shown(said), shown(v.q.URL)))
	}
	return fail(fmt.Sprintf("resource is %s, and clients are given %s: they refuse it, as they must", shown(said), shown(v.q.URL)))
}

// plain is a URL as programs write it: names and default ports have one form.
func plain(u *url.URL) string {
	one := *u
	one.Host = strings.ToLower(one.Host)
	for _, port := range []string{"https:443", "http:80"} {
		if scheme, number, _ := strings.Cut(port, ":"); scheme == one.Scheme {
			one.Host = strings.TrimSuffix(one.Host, ":"+number)
		}
	}
	return one.String()
}

// below reports whether a path is in a folder, or the same.
func below(path, folder string) bool {
	return strings.HasPrefix(strings.TrimSuffix(path, "/")+"/", strings.TrimSuffix(folder, "/")+"/")
}

func resourceForm(v *view) verdict {
	said, _ := v.prm.text("resource")
	if said == "" {
		return none("there is none")
	}
	if wrong := v.address("resource", said); wrong != "" {
		return fail(wrong)
	}
	return ok("a URL as it has to be")
}

func resourceServers(v *view) verdict {
	all, _, good := v.prm.list("authorization_servers")
	switch {
	case !good:
		return fail("authorization_servers is no list of texts")
	case len(all) == 0:
		return fail("authorization_servers names none: clients do not know whom to ask")
	case slices.Contains(all, ""):
		return fail("authorization_servers names one without a name: " + severally(all))
	case len(all) > mostServers:
		return ok(fmt.Sprintf("%s; the first %d are looked at", severally(all), mostServers))
	}
	return ok(severally(all))
}

func resourceAgree(v *view) verdict {
	want, _, _ := v.prm.list("authorization_servers")
	resource, _ := v.prm.text("resource")
	for _, d := range v.prms {
		got, _, _ := d.list("authorization_servers")
		said, _ := d.text("resource")
		if d.usable() && said == resource && !slices.Equal(got, want) { // at the root may be another resource
			return warn(fmt.Sprintf("%s names %s, and %s names %s", shown(v.prm.address), severally(want), shown(d.address), severally(got)))
		}
	}
	return ok("wherever they are, they name the same servers")
}

func resourceMethods(v *view) verdict {
	all, there, good := v.prm.list("bearer_methods_supported")
	switch {
	case !there:
		return ok("nothing is said, and the Authorization field is what everybody takes")
	case !good:
		return warn("bearer_methods_supported is no list of texts")
	case !slices.Contains(all, "header"):
		return fail("bearer_methods_supported is " + severally(all) + ": clients of MCP use the Authorization field alone")
	}
	return ok(severally(all))
}

func resourceBound(v *view) verdict {
	for _, name := range []string{"dpop_bound_access_tokens_required", "tls_client_certificate_bound_access_tokens"} {
		if v.prm.yes(name) {
			return fail(name + " is true")
		}
	}
	return ok("Bearer tokens will do")
}

func resourceScopes(v *view) verdict {
	all, there, good := v.prm.list("scopes_supported")
	switch {
	case !good:
		return warn("scopes_supported is no list of texts")
	case !there && v.bearer.params["scope"] == "":
		return note("no scopes are listed, nor named in the challenge: clients ask without scope")
	case !there:
		return ok("no scopes are listed; the challenge names them")
	}
	return ok(severally(all))
}

func resourceOffline(v *view) verdict {
	if all, _, _ := v.prm.list("scopes_supported"); slices.Contains(all, "offline_access") {
		return note("offline_access is listed, which is no need of the resource")
	}
	return ok("offline_access is not listed")
}

func legacyRoot(v *view, _ *server) verdict {
	if v.issuer {
		return none(notAResource)
	}
	if v.given == nil || !v.root().asked {
		return none("not asked")
	}
	d := v.root()
	if d.usable() {
		return ok(shown(d.address))
	}
	return note(shown(d.address) + " " + d.wrong + ": clients of that revision go to /authorize, /token and /register of this host, of which nothing is known")
}
