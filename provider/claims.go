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

	"github.com/grantkeeper/grantkeeper/strictjson"
)

// skew is how far a provider's clock may be ahead.
const skew = time.Minute

// said are the claims by name, of an ID token or of UserInfo.
type said map[string]json.RawMessage

// check holds an ID token against what was asked (OpenID Connect Core 1.0
// section 3.1.3.7): signature, issuer, audience and expiry are right already.
func (p *Provider) check(t *oidc.IDToken, accessToken string, a Ask) (said, error) {
	s, err := members(t.Claims)
	if err != nil {
		return nil, fmt.Errorf("claims of the ID token: %w", err)
	}
	azp := s.text("azp")
	switch {
	case s.text("iss") != t.Issuer, s.text("sub") != t.Subject, s.text("nonce") != t.Nonce, !s.has("aud"), !s.has("exp"):
		return nil, errors.New("the ID token has a claim in another case")
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

// claims reads who it is. UserInfo is asked for what the ID token does not say:
// many providers give the email there alone, and whether somebody else acts for
// the person. That it has no actor is known only when it was read.
func (p *Provider) claims(ctx context.Context, m *metadata, s said, t *oauth2.Token) (Claims, error) {
	wants := p.PersonClaim
	if wants == "" {
		wants = "email"
	}
	var more said
	if m.UserInfoEndpoint() != "" && (!s.has(wants) || p.actor(s) == "") {
		var err error
		if more, err = p.userInfo(ctx, m, s.text("sub"), t); err != nil {
			return Claims{}, err
		}
	}
	return p.read(s, more)
}

// actor gives who acts for the person by one of the two, "" for nobody.
func (p *Provider) actor(s said) string {
	by := s.actor("act")
	if by == "" && p.ActorClaim != "" {
		by = s.actor(p.ActorClaim)
	}
	return by
}

// read makes one of what an ID token and UserInfo say. An actor counts in either,
// also where the other says that there is none. What is said of this sign-in,
// auth_time and amr, counts in the ID token alone: UserInfo is about the account
// (OpenID Connect Core 1.0 sections 2 and 5.1).
func (p *Provider) read(token, info said) (Claims, error) {
	first := func(name string) string {
		if token.has(name) {
			return token.text(name)
		}
		return info.text(name)
	}
	c := Claims{Issuer: p.Issuer, Subject: token.text("sub"), Name: first("name"), Session: first("sid"), Email: verifiedEmail(token, info),
		ActedBy: p.actor(token)}
	if c.ActedBy == "" {
		c.ActedBy = p.actor(info)
	}
	if p.PersonClaim != "" {
		c.Person = first(p.PersonClaim)
	}
	if at, err := token.seconds("auth_time"); err != nil {
		return Claims{}, err
	} else if at > 0 {
		c.AuthTime = time.Unix(at, 0)
	}
	if c.AuthTime.After(p.now().Add(skew)) {
		return Claims{}, errors.New("auth_time is in the future")
	}
	_ = json.Unmarshal(token["amr"], &c.Methods) // none where it is no list
	return c, nil
}

// verifiedEmail gives the ID token's email, or else UserInfo's, when whoever says
// the same email says that it is verified, and nobody that it is not.
func verifiedEmail(token, info said) string {
	email := token.text("email")
	if email == "" {
		email = info.text("email")
	}
	verified := false
	for _, s := range []said{token, info} {
		switch word := s.text("email_verified"); {
		case s.text("email") != email:
		case word == "true":
			verified = true
		case word != "":
			return ""
		}
	}
	if !verified {
		return ""
	}
	return email
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
	s, err := members(info.Claims)
	if err != nil {
		return nil, fmt.Errorf("claims of UserInfo: %w", err)
	}
	if s.text("sub") != subject {
		return nil, errors.New("UserInfo is about somebody else")
	}
	return s, nil
}

// members reads claims that the library has read too, which goes by encoding/json:
// no two names are alike to it.
func members(claims func(any) error) (said, error) {
	var raw json.RawMessage
	if err := claims(&raw); err != nil {
		return nil, err
	}
	m, err := strictjson.Folded(raw, strictjson.Depth)
	return said(m), err
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
	act, _ := strictjson.Object(s[claim], strictjson.Depth) // which may be no object
	switch word, subject := s.text(claim), said(act).text("sub"); {
	case !s.has(claim):
		return ""
	case subject != "":
		return subject
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
	if _, err := members(t.Claims); err != nil {
		return Logout{}, fmt.Errorf("logout token: %w", err)
	}
	now := p.now()
	if t.IssuedAt.Before(now.Add(-logoutAge)) || t.IssuedAt.After(now.Add(skew)) {
		return Logout{}, errors.New("logout token: issued at another time than now")
	}
	return Logout{Issuer: p.Issuer, Subject: t.Subject, Session: t.SessionID, ID: t.TokenID, Until: t.IssuedAt.Add(logoutAge)}, nil
}
