package consent

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/store"
)

// recoveryCodes is how many a person is given at a time.
const recoveryCodes = 10

// A factorsPage shows what a person signs in with beside the password.
type factorsPage struct {
	frame
	Fault    string // what went wrong, in words
	Factors  []factorRow
	Recovery int          // codes that are left
	Codes    []string     // new ones, shown once
	Key      string       // of a new app, in groups
	Link     template.URL // the same for an app on this device; ours
	Picture  *picture     // the same for the camera of another
	Sealed   string       // the same, to come back
	Create   *passkeyAsk  // a new passkey
	Passkeys bool         // this host can have them
	Numeric  bool         // it cannot, being an address and no name
	Return   string       // sealed: what the person came from
	Back     string       // path of it
}

type factorRow struct {
	ID      string
	Passkey bool
	Created moment
	Used    *moment
}

// factorsPage is GET /account/sign-in.
func (s *Server) factorsPage(v *visit) error {
	if !v.signedIn() {
		return s.toSignIn(v, v.r.URL.RequestURI())
	}
	return s.showFactors(v, http.StatusOK, &factorsPage{Return: v.r.URL.Query().Get("return")})
}

func (s *Server) showFactors(v *visit, status int, view *factorsPage) error {
	if s.Ways.NoPasswords {
		return errNoPage // who signs in elsewhere has their factors there
	}
	asked, recovery, err := s.factorsOf(v, v.person.ID)
	if err != nil {
		return err
	}
	for _, f := range asked {
		row := factorRow{ID: f.ID, Passkey: f.Kind == store.FactorPasskey, Created: on(f.CreatedAt, v.now)}
		if f.UsedAt > 0 {
			row.Used = new(on(f.UsedAt, v.now))
		}
		view.Factors = append(view.Factors, row)
	}
	view.Recovery = len(recovery)
	_, _, view.Passkeys = s.relying(v)
	view.Numeric = numeric(v.base)
	if _, _, ok := s.Ring.OpenPage(sealedReturn, view.Return); ok {
		view.Back = s.returnPath(view.Return)
	}
	view.frame = s.frame(v, titleOf(view.Fault, "factors.title", "factors.error"))
	view.Other = true
	view.Same = s.sealPath(withQuery("/account/sign-in", "return", view.Return))
	return s.show(v, status, factorsTemplate, view)
}

// changingFactors is what every change of a factor needs: a form of this
// session, whose person was proven a moment ago. done: they are asked again.
func (s *Server) changingFactors(v *visit) (form url.Values, done bool, err error) {
	if form, err = s.changing(v); err != nil {
		return nil, true, err
	}
	if s.Ways.NoPasswords {
		return nil, true, errNoPage
	}
	may, err := s.mayChangeSignIn(v, withQuery("/account/sign-in", "return", one(form, "return")))
	return form, !may, err
}

// newApp is POST /account/sign-in/app: a key for an app that shows codes.
func (s *Server) newApp(v *visit) error {
	form, done, err := s.changingFactors(v)
	if done {
		return err
	}
	secret := make([]byte, 20) // RFC 4226 section 4
	rand.Read(secret)
	return s.showFactors(v, http.StatusOK, s.offerApp(v, secret, one(form, "return")))
}

func (s *Server) offerApp(v *visit, secret []byte, sealed string) *factorsPage {
	key := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(secret)
	label := url.PathEscape(s.Service + ":" + v.person.Email)
	link := "otpauth://totp/" + label + "?secret=" + key + "&issuer=" + url.QueryEscape(s.Service)
	return &factorsPage{Key: inGroups(key), Sealed: s.sealOneTime(v.person.ID, secret), Return: sealed,
		Link: template.URL(link), Picture: pictureOf(link)}
}

// inGroups writes a code as people copy it.
func inGroups(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i += 4 {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(s[i:min(i+4, len(s))])
	}
	return b.String()
}

// confirmApp is POST /account/sign-in/confirm: the app shows the right code, so
// it will be asked for from now on.
func (s *Server) confirmApp(v *visit) error {
	form, done, err := s.changingFactors(v)
	if done {
		return err
	}
	secret, ok := s.openOneTime(v.person.ID, one(form, "key"))
	if !ok {
		return errBadForm
	}
	code := strings.NewReplacer(" ", "", "-", "").Replace(one(form, "code"))
	step, ok := identity.CheckOneTimeCode(secret, code, v.now, 0)
	if !ok {
		view := s.offerApp(v, secret, one(form, "return"))
		view.Fault = v.words.say("second.wrong").String()
		return s.showFactors(v, http.StatusUnprocessableEntity, view)
	}
	return s.addFactor(v, store.Factor{ID: newFactorID(), Kind: store.FactorOneTime, Secret: s.sealOneTime(v.person.ID, secret), Counter: step}, one(form, "return"))
}

func newFactorID() string {
	b := make([]byte, 12)
	rand.Read(b)
	return newFactorIDOf(b)
}

func newFactorIDOf(b []byte) string { return hex.EncodeToString(b[:12]) }

// addFactor adds one, with recovery codes where there are none, and shows them.
func (s *Server) addFactor(v *visit, f store.Factor, sealed string) error {
	_, recovery, err := s.factorsOf(v, v.person.ID)
	if err != nil {
		return err
	}
	add, view := []store.Factor{f}, &factorsPage{Return: sealed}
	if len(recovery) == 0 {
		more, codes := newRecoveryCodes()
		add, view.Codes = append(add, more...), codes
	}
	if err := s.Store.AddFactors(v.r.Context(), v.person.ID, v.session, add, s.act(v)); errors.Is(err, store.ErrConflict) {
		view.Codes, view.Fault = nil, v.words.say("factors.many").String()
		return s.showFactors(v, http.StatusConflict, view)
	} else if err != nil {
		return wrap("add factor", err)
	}
	return s.showFactors(v, http.StatusOK, view)
}

// newRecoveryCodes makes codes of 80 bits each, of which hashes are stored.
func newRecoveryCodes() (factors []store.Factor, codes []string) {
	for range recoveryCodes {
		b := make([]byte, 10)
		rand.Read(b)
		code := base32.StdEncoding.EncodeToString(b)
		codes = append(codes, inGroups(code))
		factors = append(factors, store.Factor{ID: newFactorID(), Kind: store.FactorRecovery, Secret: hashOfRecovery(code)})
	}
	return factors, codes
}

// newRecovery is POST /account/sign-in/recovery.
func (s *Server) newRecovery(v *visit) error {
	form, done, err := s.changingFactors(v)
	if done {
		return err
	}
	asked, _, err := s.factorsOf(v, v.person.ID)
	if err != nil {
		return err
	}
	view := &factorsPage{Return: one(form, "return")}
	if len(asked) == 0 { // removed in another tab
		return s.showFactors(v, http.StatusOK, view)
	}
	factors, codes := newRecoveryCodes()
	view.Codes = codes
	if err := s.Store.AddFactors(v.r.Context(), v.person.ID, v.session, factors, s.act(v)); err != nil {
		return wrap("recovery codes", err)
	}
	return s.showFactors(v, http.StatusOK, view)
}

// removeFactor is POST /account/sign-in/remove. Done twice, it is no error.
func (s *Server) removeFactor(v *visit) error {
	form, done, err := s.changingFactors(v)
	if done {
		return err
	}
	err = s.Store.RemoveFactor(v.r.Context(), v.person.ID, one(form, "id"), s.act(v))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return wrap("remove factor", err)
	}
	return v.see(withQuery("/account/sign-in", "return", one(form, "return")))
}
