package signin

import (
	"encoding/base32"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/store"
)

// A CodeApp shows the codes of a person, as the phone in their hand does.
type CodeApp struct {
	s      *pagetest.Site
	Secret []byte
}

// Code is what it shows now.
func (a CodeApp) Code() string {
	return identity.OneTimeCode(a.Secret, a.s.Store.Now().Unix()/30)
}

// WithApp turns two-step sign-in on for a person who has just signed in, and
// gives their app and recovery codes.
func WithApp(t *testing.T, b *pagetest.Browser) (a CodeApp, recovery []string) {
	t.Helper()
	p := b.Get("/account/sign-in").Want(200).Press("/account/sign-in/app").Want(200).Says("Scan this code with your authenticator app, or enter the key below it.")
	key := strings.ReplaceAll(p.All(atom.Code)[0].FirstChild.Data, " ", "")
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(key)
	if err != nil || len(secret) != 20 {
		t.Fatalf("key %q: %v", key, err)
	}
	if link := p.Link("Open it in an app on this device"); !strings.HasPrefix(link, "otpauth://totp/Svalinn:") || !strings.Contains(link, "secret="+key+"&issuer=Svalinn") {
		t.Errorf("link %q", link)
	}
	a = CodeApp{b.Site, secret}
	p = p.Press("/account/sign-in/confirm", "code", "000000").Want(422).Says("The code is not right.")
	p = p.Press("/account/sign-in/confirm", "code", a.Code()[:3]+" "+a.Code()[3:]).Want(200).Says("Your recovery codes", "10 recovery codes are left.", "Authenticator app")
	for _, n := range p.All(atom.Code) {
		recovery = append(recovery, n.FirstChild.Data)
	}
	if len(recovery) != 10 {
		t.Fatalf("%d recovery codes: %s", len(recovery), p.Text())
	}
	return a, recovery
}

// Failed counts the sign-ins of a person that failed, by the journal.
func Failed(s *pagetest.Site, person string) int {
	s.T.Helper()
	s.Do(s.Store.Ready(s.T.Context())) // written after what was queued
	events, _, err := s.Store.Events(s.T.Context(), store.EventFilter{Kind: "signin_failed", Person: person, Limit: 1000})
	s.Do(err)
	return len(events)
}

// Varies is what of a page differs each time.
var Varies = regexp.MustCompile(`(name="csrf" value|name="return" value|name="same" value)="[^"]*"`)
