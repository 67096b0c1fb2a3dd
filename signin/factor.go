package signin

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

// recoveryCodes is how many a person is given at a time.
const recoveryCodes = 10

// A factorsPage shows what a person signs in with beside the password.
type factorsPage struct {
	page.Frame
	Fault    string // what went wrong, in words
	Done     string // what has just been done: added, removed or, with the last one, off
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
	Created page.Moment
	Used    *page.Moment
}

// factorsPage is GET /account/sign-in.
func (s *Server) factorsPage(v *page.Visit) error {
	if !v.SignedIn() {
		return s.ToSignIn(v, v.R.URL.RequestURI())
	}
	q := v.R.URL.Query()
	return s.showFactors(v, http.StatusOK, &factorsPage{Return: s.Returned(q.Get("return")), Done: s.JustDone(v, sealedFactors, q.Get("done"))})
}

func (s *Server) showFactors(v *page.Visit, status int, view *factorsPage) error {
	if s.NoPasswords {
		return page.ErrNoPage // who signs in elsewhere has their factors there
	}
	asked, recovery, err := s.factorsOf(v, v.Person.ID)
	if err != nil {
		return err
	}
	for _, f := range asked {
		row := factorRow{ID: f.ID, Passkey: f.Kind == store.FactorPasskey, Created: page.On(f.CreatedAt, v.Now)}
		if f.UsedAt > 0 {
			row.Used = new(page.On(f.UsedAt, v.Now))
		}
		view.Factors = append(view.Factors, row)
	}
	if view.Done == "removed" && len(asked) == 0 {
		view.Done = "off"
	}
	view.Recovery = len(recovery)
	_, _, view.Passkeys = s.relying(v)
	view.Numeric = numeric(v.Base)
	if s.IsReturn(view.Return) {
		view.Back = s.ReturnPath(view.Return)
	}
	view.Frame = s.Frame(v, page.TitleOf(view.Fault, "factors.title", "factors.error"))
	view.Other = true
	view.Same = s.SealPath(factorsPath(view.Return))
	return s.Show(v, status, factorsTemplate, view)
}

// changingFactors is what every change of a factor needs: a form of this
// session, whose person was proven a moment ago. done: they are asked again.
func (s *Server) changingFactors(v *page.Visit) (form url.Values, done bool, err error) {
	if form, err = s.Changing(v); errors.Is(err, page.ErrSignIn) {
		return nil, true, s.ToSignIn(v, factorsPath(s.Returned(page.One(form, "return"))))
	} else if err != nil {
		return nil, true, err
	}
	if s.NoPasswords {
		return nil, true, page.ErrNoPage
	}
	may, err := s.mayChangeSignIn(v, factorsPath(s.Returned(page.One(form, "return"))))
	return form, !may, err
}

// newApp is POST /account/sign-in/app: a key for an app that shows codes.
func (s *Server) newApp(v *page.Visit) error {
	form, done, err := s.changingFactors(v)
	if done {
		return err
	}
	secret := make([]byte, 20) // RFC 4226 section 4
	rand.Read(secret)
	return s.showFactors(v, http.StatusOK, s.offerApp(v, secret, s.Returned(page.One(form, "return"))))
}

func (s *Server) offerApp(v *page.Visit, secret []byte, sealed string) *factorsPage {
	key := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(secret)
	label := url.PathEscape(s.Service + ":" + v.Person.Email)
	link := "otpauth://totp/" + label + "?secret=" + key + "&issuer=" + url.QueryEscape(s.Service)
	return &factorsPage{Key: inGroups(key), Sealed: s.sealOneTime(v.Person.ID, secret), Return: sealed,
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
func (s *Server) confirmApp(v *page.Visit) error {
	form, done, err := s.changingFactors(v)
	if done {
		return err
	}
	secret, ok := s.openOneTime(v.Person.ID, page.One(form, "key"))
	if !ok {
		return page.ErrBadForm
	}
	code := strings.NewReplacer(" ", "", "-", "").Replace(page.One(form, "code"))
	step, ok := identity.CheckOneTimeCode(secret, code, v.Now, 0)
	if !ok {
		view := s.offerApp(v, secret, s.Returned(page.One(form, "return")))
		view.Fault = v.Words.Say("second.wrong").String()
		return s.showFactors(v, http.StatusUnprocessableEntity, view)
	}
	sum := sha256.Sum256(secret) // one key is one factor, however often the button is pressed
	return s.addFactor(v, store.Factor{ID: newFactorIDOf(sum[:]), Kind: store.FactorOneTime, Secret: s.sealOneTime(v.Person.ID, secret), Counter: step}, s.Returned(page.One(form, "return")))
}

func newFactorID() string {
	b := make([]byte, 12)
	rand.Read(b)
	return newFactorIDOf(b)
}

func newFactorIDOf(b []byte) string { return hex.EncodeToString(b[:12]) }

// pressedTwice is how long after a factor was added, and not yet used, the same form is
// a second press of its button.
const pressedTwice = time.Minute

// addFactor adds one, with recovery codes where there are none, and shows them.
func (s *Server) addFactor(v *page.Visit, f store.Factor, sealed string) error {
	asked, recovery, err := s.factorsOf(v, v.Person.ID)
	if err != nil {
		return err
	}
	if isAmong(asked, f.ID) {
		return s.addedBefore(v, asked, f.ID, sealed)
	}
	add, view := []store.Factor{f}, &factorsPage{Return: sealed}
	if len(recovery) == 0 {
		more, codes := newRecoveryCodes()
		add, view.Codes = append(add, more...), codes
	}
	switch err := s.Store.AddFactors(v.R.Context(), v.Person.ID, v.Session, add, s.Act(v)); {
	case errors.Is(err, store.ErrConflict):
		view.Codes, view.Fault = nil, v.Words.Say("factors.many").String()
		return s.showFactors(v, http.StatusConflict, view)
	case errors.Is(err, store.ErrAnswered): // by another press, at once
		if asked, _, err = s.factorsOf(v, v.Person.ID); err != nil {
			return err
		}
		return s.addedBefore(v, asked, f.ID, sealed)
	case errors.Is(err, store.ErrNotAllowed):
		return s.toAgain(v, factorsPath(sealed))
	case err != nil:
		return page.Wrap("add factor", err)
	}
	if len(view.Codes) == 0 {
		view.Done = "added"
	}
	return s.showFactors(v, http.StatusOK, view)
}

func isAmong(all []store.Factor, id string) bool {
	return slices.ContainsFunc(all, func(f store.Factor) bool { return f.ID == id })
}

// addedBefore answers a form whose factor is there. Pressed twice, the browser shows the
// second answer and not the first, which had the first recovery codes: it gets new ones.
func (s *Server) addedBefore(v *page.Visit, asked []store.Factor, id, sealed string) error {
	view := &factorsPage{Return: sealed}
	switch {
	case !isAmong(asked, id): // a passkey that is somebody else's
		view.Fault = v.Words.Say("factors.notmade").String()
		return s.showFactors(v, http.StatusUnprocessableEntity, view)
	case len(asked) > 1, asked[0].UsedAt > 0, v.Now.Sub(time.Unix(asked[0].CreatedAt, 0)) > pressedTwice:
		view.Done = "added"
		return s.showFactors(v, http.StatusOK, view)
	}
	return s.renewRecovery(v, view)
}

// renewRecovery gives a person other recovery codes, and shows them.
func (s *Server) renewRecovery(v *page.Visit, view *factorsPage) error {
	var factors []store.Factor
	factors, view.Codes = newRecoveryCodes()
	if err := s.Store.AddFactors(v.R.Context(), v.Person.ID, v.Session, factors, s.Act(v)); errors.Is(err, store.ErrNotAllowed) {
		return s.toAgain(v, factorsPath(view.Return))
	} else if err != nil {
		return page.Wrap("recovery codes", err)
	}
	return s.showFactors(v, http.StatusOK, view)
}

// factorsPath leads to a person's factors, and from there to what they came from.
func factorsPath(sealed string) string {
	return page.WithQuery("/account/sign-in", "return", sealed)
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
func (s *Server) newRecovery(v *page.Visit) error {
	form, done, err := s.changingFactors(v)
	if done {
		return err
	}
	asked, _, err := s.factorsOf(v, v.Person.ID)
	if err != nil {
		return err
	}
	view := &factorsPage{Return: s.Returned(page.One(form, "return"))}
	if len(asked) == 0 { // removed in another tab
		return s.showFactors(v, http.StatusOK, view)
	}
	return s.renewRecovery(v, view)
}

// removeFactor is POST /account/sign-in/remove. Done twice, it is no error.
func (s *Server) removeFactor(v *page.Visit) error {
	form, done, err := s.changingFactors(v)
	if done {
		return err
	}
	sealed := s.Returned(page.One(form, "return"))
	err = s.Store.RemoveFactor(v.R.Context(), v.Person.ID, v.Session, page.One(form, "id"), s.Act(v))
	if errors.Is(err, store.ErrNotAllowed) {
		return s.toAgain(v, factorsPath(sealed))
	} else if err != nil && !errors.Is(err, store.ErrNotFound) {
		return page.Wrap("remove factor", err)
	}
	return v.See(page.WithQuery("/account/sign-in", "return", sealed, "done", s.SealDone(v, sealedFactors, "removed")))
}
