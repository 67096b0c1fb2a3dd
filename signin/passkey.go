package signin

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/strictjson"
)

// relying is this server as authenticators know it: by the host's name, so a
// passkey of one host is of no use on another. ok is false for hosts that are
// addresses, for which there are none (WebAuthn Level 3 section 5.1.3).
func (s *Server) relying(v *page.Visit) (w *webauthn.WebAuthn, id string, ok bool) {
	u, err := url.Parse(v.Base)
	if err != nil || numeric(v.Base) {
		return nil, "", false
	}
	w, err = webauthn.New(&webauthn.Config{RPID: u.Hostname(), RPDisplayName: s.Service, RPOrigins: []string{v.Base}})
	return w, u.Hostname(), err == nil
}

// numeric reports whether the host of a {base} is an address and no name.
func numeric(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	_, err = netip.ParseAddr(u.Hostname())
	return err == nil
}

// A holder is a person as authenticators know them.
type holder struct {
	org.Person
	keys []webauthn.Credential
}

// WebAuthnID tells people apart, and nobody who they are.
func (h holder) WebAuthnID() []byte {
	sum := sha256.Sum256([]byte("passkeys of " + h.ID))
	return sum[:]
}
func (h holder) WebAuthnName() string                       { return h.Email }
func (h holder) WebAuthnDisplayName() string                { return h.Name }
func (h holder) WebAuthnCredentials() []webauthn.Credential { return h.keys }

// holder gives a person with the passkeys that they have for a host.
func (s *Server) holder(v *page.Visit, p org.Person, host string) (holder, []store.Factor, error) {
	asked, _, err := s.factorsOf(v, p.ID)
	h, of := holder{Person: p}, []store.Factor{}
	for _, f := range asked {
		var key webauthn.Credential
		if f.Kind == store.FactorPasskey && f.Name == host && json.Unmarshal([]byte(f.Secret), &key) == nil {
			h.keys, of = append(h.keys, key), append(of, f)
		}
	}
	return h, of, err
}

// A passkeyAsk is what a page asks the browser for.
type passkeyAsk struct {
	Options string // JSON for the browser
	Sealed  string // the same, to come back
}

type sealedAsk struct {
	Session webauthn.SessionData `json:"session"`
	Made    int64                `json:"made"` // Unix seconds
}

func (s *Server) sealAsk(v *page.Visit, options any, session *webauthn.SessionData) (*passkeyAsk, error) {
	shown, err := json.Marshal(options)
	if err != nil {
		return nil, page.Wrap("passkey", err)
	}
	return &passkeyAsk{string(shown), s.Seal(sealedPasskey, sealedAsk{*session, v.Now.Unix()})}, nil
}

func (s *Server) openAsk(v *page.Visit, sealed string) (ask sealedAsk, ok bool) {
	ok = s.Open(sealedPasskey, sealed, &ask) && v.Now.Sub(time.Unix(ask.Made, 0)) <= secondLifetime
	ask.Session.Expires = time.Time{} // of another clock than the server's
	return ask, ok
}

// askPasskey gives what a page asks a person's passkeys for, nil where they
// have none for this host.
func (s *Server) askPasskey(v *page.Visit, p org.Person) (*passkeyAsk, error) {
	w, host, ok := s.relying(v)
	if !ok {
		return nil, nil
	}
	h, _, err := s.holder(v, p, host)
	if err != nil || len(h.keys) == 0 {
		return nil, err
	}
	options, session, err := w.BeginLogin(h, webauthn.WithUserVerification(protocol.VerificationPreferred))
	if err != nil {
		return nil, page.Wrap("passkey", err)
	}
	return s.sealAsk(v, options.Response, session)
}

// checkPasskey holds what the browser says against the person's passkeys. Each
// question is answered once.
func (s *Server) checkPasskey(v *page.Visit, p org.Person, shown, sealed string, e *store.Entry) error {
	w, host, ok := s.relying(v)
	ask, opened := s.openAsk(v, sealed)
	if !ok || !opened {
		return errWrong
	}
	h, of, err := s.holder(v, p, host)
	if err != nil {
		return err
	}
	if _, err := strictjson.Folded([]byte(shown), strictjson.Depth); err != nil { // the library reads as encoding/json does
		return errWrong
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes([]byte(shown))
	if err != nil {
		return errWrong
	}
	key, err := w.ValidateLogin(h, ask.Session, parsed)
	if err != nil || key.Authenticator.CloneWarning {
		return errWrong
	}
	at := slices.IndexFunc(h.keys, func(k webauthn.Credential) bool { return string(k.ID) == string(key.ID) })
	after, err := json.Marshal(key)
	if err != nil || at < 0 {
		return errWrong
	}
	e.Factor = store.FactorUse{Factor: of[at], Counter: int64(key.Authenticator.SignCount), Secret: string(after)}
	e.Once, e.OnceUntil = "passkey "+ask.Session.Challenge, time.Unix(ask.Made, 0).Add(2*secondLifetime)
	return nil
}

// newPasskey is POST /account/sign-in/passkey: asks the browser to make one.
func (s *Server) newPasskey(v *page.Visit) error {
	form, done, err := s.changingFactors(v)
	if done {
		return err
	}
	w, host, ok := s.relying(v)
	if !ok {
		return page.ErrNoPage
	}
	h, _, err := s.holder(v, v.Person, host)
	if err != nil {
		return err
	}
	options, session, err := w.BeginRegistration(h,
		webauthn.WithExclusions(webauthn.Credentials(h.keys).CredentialDescriptors()),
		webauthn.WithResidentKeyRequirement(protocol.ResidentKeyRequirementPreferred))
	if err != nil {
		return page.Wrap("passkey", err)
	}
	view := &factorsPage{Return: s.Returned(page.One(form, "return"))}
	if view.Create, err = s.sealAsk(v, options.Response, session); err != nil {
		return err
	}
	return s.showFactors(v, http.StatusOK, view)
}

// addPasskey is POST /account/sign-in/passkey/add.
func (s *Server) addPasskey(v *page.Visit) error {
	form, done, err := s.changingFactors(v)
	if done {
		return err
	}
	key, host, ok := s.madePasskey(v, form)
	if !ok {
		view := &factorsPage{Return: s.Returned(page.One(form, "return")), Fault: v.Words.Say("factors.notmade").String()}
		return s.showFactors(v, http.StatusUnprocessableEntity, view)
	}
	text, err := json.Marshal(key)
	if err != nil {
		return page.Wrap("passkey", err)
	}
	sum := sha256.Sum256(key.ID)
	return s.addFactor(v, store.Factor{ID: newFactorIDOf(sum[:]), Kind: store.FactorPasskey, Name: host, Secret: string(text),
		Counter: int64(key.Authenticator.SignCount)}, s.Returned(page.One(form, "return")))
}

func (s *Server) madePasskey(v *page.Visit, form url.Values) (*webauthn.Credential, string, bool) {
	w, host, ok := s.relying(v)
	ask, opened := s.openAsk(v, page.One(form, "ask"))
	if !ok || !opened {
		return nil, "", false
	}
	if _, err := strictjson.Folded([]byte(page.One(form, "passkey")), strictjson.Depth); err != nil {
		return nil, "", false
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes([]byte(page.One(form, "passkey")))
	if err != nil {
		return nil, "", false
	}
	key, err := w.CreateCredential(holder{Person: v.Person}, ask.Session, parsed)
	return key, host, err == nil
}
