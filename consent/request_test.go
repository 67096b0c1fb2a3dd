package consent

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
)

// Case F-04: Location, if any, leads to sign-in here or starts with a
// registered URI of this client and goes on with parameters alone.
func FuzzAuthorize(f *testing.F) {
	for _, tt := range faults {
		f.Add(tt.query, true)
	}
	for _, q := range []string{
		"", "&&&=", "%", pagetest.Request().Encode(), pagetest.Request("client_id", "assistant", "redirect_uri", "https://assistant.example/cb", "scope", "x").Encode(),
		pagetest.Request("redirect_uri", "https://evil.example/").Encode() + "&redirect_uri=" + url.QueryEscape(pagetest.Callback), pagetest.Request("redirect_uri", "https://quill.example/x?a=b", "scope", "x").Encode(),
		"client_id=assistant&redirect_uri=https://assistant.example/cb", "client_id=assistant&redirect_uri=https://assistant.example/cb%0d%0aX:y&state=%0d%0a",
		pagetest.Request("state", "\r\nSet-Cookie: x=y").Encode(), pagetest.Request("state", "&redirect_uri=https://evil.example").Encode(), strings.ReplaceAll(pagetest.Request().Encode(), "&", ";"),
		"client_id=assistant&redirect_uri=https://assistant.example/cb&state=%F0%9F%A6%89%20%2B&response_type=code&resource=%zz",
	} {
		f.Add(q, false)
		f.Add(q, true)
	}
	s := newSite(f)
	clients := map[string]client.Client{}
	for _, id := range []string{"quill", "assistant"} {
		c, err := s.Store.Client(context.Background(), id)
		s.Do(err)
		clients[id] = c
	}
	ada := s.SignedIn("ada")
	ada.Get(pagetest.Authorize()).Approve().Want(303)
	f.Fuzz(func(t *testing.T, query string, signedIn bool) {
		s.T = t
		s.AuthorizeLimit = limit.NewAddresses(limit.Authorize, nil)
		who := s.Browser()
		if signedIn {
			who = ada
		}
		target := "/oauth/authorize?" + strings.Map(func(r rune) rune { // what a request line can carry
			if r <= ' ' || r == 0x7f || r == '#' {
				return -1
			}
			return r
		}, query)
		if _, err := url.ParseRequestURI(pagetest.Base + target); err != nil {
			return
		}
		p := who.Get(target)
		location := p.Header.Get("Location")
		switch {
		case p.Status == 200 && signedIn, p.Status == 400:
			if location != "" {
				t.Fatalf("%d leads to %q", p.Status, location)
			}
		case p.Status == 303 && strings.HasPrefix(location, "/signin?return="):
			if signedIn {
				t.Fatal("somebody signed in is asked to sign in")
			}
		case p.Status == 303 && signedIn:
			q := parseParameters(strings.TrimPrefix(target, "/oauth/authorize?"))
			id, _ := q.one("client_id")
			uri, _ := q.one("redirect_uri")
			if !clients[id].HasRedirectURI(uri) {
				t.Fatalf("client %q, redirect URI %q: leads to %q", id, uri, location)
			}
			rest, ok := strings.CutPrefix(location, uri)
			if !ok || rest[0] != '?' && rest[0] != '&' || strings.ContainsAny(rest, "#\r\n /:@") {
				t.Fatalf("leads to %q, which is not %q and parameters", location, uri)
			}
			back, err := url.ParseQuery(rest[1:])
			if err != nil || back.Get("error") == "" || back.Get("iss") != pagetest.Base || back.Has("code") {
				t.Fatalf("sent %v, %v", back, err)
			}
		default:
			t.Fatalf("status %d, Location %q", p.Status, location)
		}
	})
}

// What is sealed into a page is read back the same, and nothing else is read.
func FuzzPage(f *testing.F) {
	s := newSite(f)
	good := sampleQuestion(s, pagetest.Base)
	good.State = []byte("s\xff\x00")
	f.Add(s.sealQuestion(good))
	f.Add(s.Ring.SealPage(sealedPage, []byte(`{"nonce":"AAAA"}`)))
	f.Add(s.Ring.SealPage(sealedPage, []byte(`[]`)))
	f.Add(s.SealPath(`{}`))
	f.Add("1.")
	f.Fuzz(func(t *testing.T, sealed string) {
		p, ok := s.openQuestion(sealed)
		if !ok {
			return
		}
		again, ok := s.openQuestion(s.sealQuestion(p))
		if !ok || again.Client != p.Client || string(again.State) != string(p.State) || again.Person != p.Person || again.Made != p.Made {
			t.Fatalf("%+v comes back as %+v", p, again)
		}
	})
}

// Any bytes are a form: nothing is approved that was not chosen in order, and
// nothing breaks.
func FuzzAnswer(f *testing.F) {
	s := newSite(f)
	ada := s.SignedIn("ada")
	page := ada.Get(pagetest.Authorize())
	fixed := page.Fill("/oauth/authorize")
	start := "request=" + url.QueryEscape(fixed.Get("request")) + "&csrf=" + url.QueryEscape(fixed.Get("csrf")) + "&"
	for _, body := range []string{
		"decision=approve&organization=nordlys&grant=everything", "decision=approve&organization=nordlys&grant=roles&role:treasurer=read&personal=1",
		"decision=cancel", "bulk=n:product:change&organization=nordlys", "action=review", "decision=approve&organization=fjell&grant=organization",
		"decision=approve&organization=nordlys&grant=roles&role:=read&role:%00=x", "%", ";", "decision=approve;decision=cancel", "organization=%ff&grant=%00",
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		s.T = t
		s.AuthorizeLimit = limit.NewAddresses(limit.Authorize, nil)
		p := ada.Send("POST", "/oauth/authorize", strings.NewReader(start+body))
		switch p.Status {
		case 200, 400, 409, 413, 422:
			if p.Header.Get("Location") != "" {
				t.Fatalf("%d leads to %q", p.Status, p.Header.Get("Location"))
			}
		case 303:
			q := p.Sent(pagetest.Callback)
			form, err := url.ParseQuery(body)
			decision := form.Get("decision")
			if err != nil || q.Has("code") != (decision == "approve") || q.Has("error") != (decision == "cancel") {
				t.Fatalf("%q sent %v", body, q)
			}
			if decision == "approve" && s.Approvals("ada")[0].Organization != form.Get("organization") {
				t.Fatalf("%q approved %+v", body, s.Approvals("ada")[0])
			}
		default:
			t.Fatalf("status %d", p.Status)
		}
	})
}

// Decision T11: a page that is shown again after a rotation of keys leads to
// the same approval, and one whose key is retired to none.
func TestPageOutlivesRotation(t *testing.T) {
	s := newSite(t)
	p := sampleQuestion(s, pagetest.Base)
	h := s.handleOf(p)(0)
	opened, ok := s.openQuestion(s.sealQuestion(p))
	if !ok || s.handleOf(opened)(0) != h || s.handleOf(opened)(1) == h {
		t.Error("the handle changes with sealing")
	}
	p.Key = 2
	if _, ok := s.openQuestion(s.sealQuestion(p)); ok {
		t.Error("a page of a key that is gone is opened")
	}
}

// Of several resources it is the one that is not guarded here which a client is told about,
// whichever place it has.
func TestOtherResource(t *testing.T) {
	base, other := "https://app.svalinn.example", "https://elsewhere.example/"
	for _, tt := range []struct {
		sent []string
		want string
	}{
		{nil, ""},
		{[]string{base, base + "/api/v5/mcp"}, ""},
		{[]string{other, base}, other},
		{[]string{base, other, ""}, other},
		{[]string{base + "/", base + "/api/v6"}, base + "/api/v6"},
	} {
		if got, is := (parameter{values: tt.sent}).otherResource(base, client.Resources{}); got != tt.want || is != (tt.want != "") {
			t.Errorf("%q: %q, %v", tt.sent, got, is)
		}
	}
}
