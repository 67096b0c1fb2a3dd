package provider

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// skew is how far a provider's clock may be ahead.
const skew = time.Minute

// said are the claims by name, of an ID token or of UserInfo.
type said map[string]json.RawMessage

// check holds an ID token against what was asked (OpenID Connect Core 1.0
// section 3.1.3.7): signature, issuer, audience and expiry are right already.
func (p *Provider) check(t *oidc.IDToken, accessToken string, a Ask) (said, error) {
	var s said
	if err := t.Claims(&s); err != nil {
		return nil, fmt.Errorf("claims of the ID token: %w", err)
	}
	azp := s.text("azp")
	switch {
	case subtle.ConstantTimeCompare([]byte(t.Nonce), []byte(a.Secret.derive("nonce"))) != 1:
		return nil, errors.New("the ID token has another nonce")
	case t.Subject == "" || len(t.Subject) > 255:
		return nil, errors.New("the ID token has no subject, or one that is too long")
	case len(t.Audience) > 1 && azp == "", azp != "" && azp != p.ClientID:
		return nil, errors.New("the ID token is for another party")
	case t.IssuedAt.After(p.now().Add(skew)):
		return nil, errors.New("the ID token was issued in the future")
	case t.AccessTokenHash != "" && t.VerifyAccessToken(accessToken) != nil:
		return nil, errors.New("the ID token belongs to another access token")
	case s.has(logoutEvents):
		return nil, errors.New("a logout token is not an ID token")
	}
	return s, nil
}

// claims reads who it is. What the ID token does not say UserInfo may: many
// providers give the email there alone.
func (p *Provider) claims(ctx context.Context, m *metadata, s said, t *oauth2.Token) (Claims, error) {
	wants := p.PersonClaim
	if wants == "" {
		wants = "email"
	}
	if !s.has(wants) && m.UserInfoEndpoint() != "" {
		more, err := p.userInfo(ctx, m, s.text("sub"), t)
		if err != nil {
			return Claims{}, err
		}
		for name, value := range more {
			if _, said := s[name]; !said {
				s[name] = value
			}
		}
	}
	c := Claims{Issuer: p.Issuer, Subject: s.text("sub"), Name: s.text("name"), Session: s.text("sid"),
		ActedBy: s.actor("act")}
	if c.ActedBy == "" && p.ActorClaim != "" {
		c.ActedBy = s.actor(p.ActorClaim)
	}
	if verified := s.text("email_verified"); verified == "true" {
		c.Email = s.text("email")
	}
	if p.PersonClaim != "" {
		c.Person = s.text(p.PersonClaim)
	}
	if at, err := s.seconds("auth_time"); err != nil {
		return Claims{}, err
	} else if at > 0 {
		c.AuthTime = time.Unix(at, 0)
	}
	if c.AuthTime.After(p.now().Add(skew)) {
		return Claims{}, errors.New("auth_time is in the future")
	}
	_ = json.Unmarshal(s["amr"], &c.Methods) // none where it is no list
	return c, nil
}

func (p *Provider) userInfo(ctx context.Context, m *metadata, subject string, t *oauth2.Token) (said, error) {
	info, err := m.UserInfo(ctx, oauth2.StaticTokenSource(t))
	if lost, ok := errors.AsType[*url.Error](err); ok {
		return nil, fmt.Errorf("%w: UserInfo: %w", ErrDown, lost.Err)
	} else if err != nil {
		return nil, errors.New("UserInfo cannot be read")
	}
	if info.Subject != subject { // OpenID Connect Core 1.0 section 5.3.2
		return nil, errors.New("UserInfo is about somebody else")
	}
	var s said
	if err := info.Claims(&s); err != nil {
		return nil, fmt.Errorf("claims of UserInfo: %w", err)
	}
	return s, nil
}

// has reports whether a claim says anything: null, false and "" do not.
func (s said) has(name string) bool {
	switch string(s[name]) {
	case "", "null", "false", `""`:
		return false
	}
	return true
}

// actor gives who acts for the person by a claim: its text, or the subject in
// it (RFC 8693 section 4.1). "somebody" is who is not named.
func (s said) actor(claim string) string {
	var act struct {
		Subject string `json:"sub"`
	}
	_ = json.Unmarshal(s[claim], &act) // which may be no object
	switch word := s.text(claim); {
	case !s.has(claim):
		return ""
	case act.Subject != "":
		return act.Subject
	case word != "" && word != "true":
		return word
	}
	return "somebody"
}

// text gives a claim that is a string, or true or false as a word; else "".
func (s said) text(name string) string {
	var word string
	if raw := string(s[name]); raw == "true" || raw == "false" {
		return raw
	}
	if json.Unmarshal(s[name], &word) != nil {
		return ""
	}
	return word
}

// seconds gives a claim that is a time, 0 when it is not there.
func (s said) seconds(name string) (int64, error) {
	if !s.has(name) {
		return 0, nil
	}
	var n float64
	if err := json.Unmarshal(s[name], &n); err != nil || n < 0 || n > 1<<40 {
		return 0, fmt.Errorf("%s is not a time", name)
	}
	return int64(n), nil
}

// logoutEvents is the claim that makes a token a logout token.
const logoutEvents = "events"

// logoutAge is how old a logout token may be, and so how long one is
// remembered (OpenID Connect Back-Channel Logout 1.0 section 2.6).
const logoutAge = 10 * time.Minute

// A Logout names whose sessions end.
type Logout struct {
	Issuer, Subject, Session string    // one of subject and session may be empty
	ID                       string    // jti: it counts once
	Until                    time.Time // when it need not be remembered any more
}

// Logout reads a logout token.
func (p *Provider) Logout(ctx context.Context, raw string) (Logout, error) {
	ctx, stop := context.WithTimeout(ctx, Timeout)
	defer stop()
	m, err := p.discover(ctx)
	if err != nil {
		return Logout{}, err
	}
	verifier := p.verifier(m)
	t, err := verifier.VerifyLogout(ctx, raw)
	if err != nil {
		return Logout{}, verifier.fault("logout token", err)
	}
	now := p.now()
	if t.IssuedAt.Before(now.Add(-logoutAge)) || t.IssuedAt.After(now.Add(skew)) {
		return Logout{}, errors.New("logout token: issued at another time than now")
	}
	return Logout{Issuer: p.Issuer, Subject: t.Subject, Session: t.SessionID, ID: t.TokenID, Until: t.IssuedAt.Add(logoutAge)}, nil
}
