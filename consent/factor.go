package consent

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// A Strength is what an approval of everything that a person can access, or of
// everything in an organization, asks for.
type Strength string

// The zero Strength asks for nothing.
const (
	StrengthFresh  Strength = "fresh"  // a sign-in, or a second factor, of a moment ago
	StrengthFactor Strength = "factor" // a second factor of a moment ago
)

// DefaultFresh is how long ago a moment ago may be.
const DefaultFresh = 10 * time.Minute

// Purposes of what pages carry sealed, and of what is stored so.
const (
	sealedSecond  = "second step of a sign-in"
	sealedOneTime = "secret of one-time codes"
)

// secondLifetime is how long the second step may take after the first.
const secondLifetime = 10 * time.Minute

// recoveryCodes is how many a person is given at a time.
const recoveryCodes = 10

func (s *Server) factorPages(mux *http.ServeMux) {
	mux.Handle("GET /signin/second", s.handle(s.secondPage))
	mux.Handle("POST /signin/second", s.handle(s.second))
	mux.Handle("GET /signin/again", s.handle(s.themselves(s.againPage)))
	mux.Handle("POST /signin/again", s.handle(s.themselves(s.again)))
	mux.Handle("GET /signin/again/{way}", s.handle(s.themselves(s.againOut)))
	mux.Handle("GET /account/sign-in", s.handle(s.themselves(s.factorsPage)))
	mux.Handle("POST /account/sign-in/app", s.handle(s.themselves(s.newApp)))
	mux.Handle("POST /account/sign-in/confirm", s.handle(s.themselves(s.confirmApp)))
	mux.Handle("POST /account/sign-in/passkey", s.handle(s.themselves(s.newPasskey)))
	mux.Handle("POST /account/sign-in/passkey/add", s.handle(s.themselves(s.addPasskey)))
	mux.Handle("POST /account/sign-in/recovery", s.handle(s.themselves(s.newRecovery)))
	mux.Handle("POST /account/sign-in/remove", s.handle(s.themselves(s.removeFactor)))
}

// --- the second step of a sign-in

// A secondStep is what the page of the second step carries: who has given the
// right password.
type secondStep struct {
	Person  string `json:"person"`
	Checked []byte `json:"checked"` // SHA-256 of the PHC string that the password was checked against
	Made    int64  `json:"made"`    // Unix seconds
	Return  string `json:"return"`  // path
}

// factorsOf gives the factors that a sign-in asks for: none where a person has
// recovery codes alone.
func (s *Server) factorsOf(v *visit, person string) (asked, recovery []store.Factor, err error) {
	all, err := s.Store.Factors(v.r.Context(), person)
	for _, f := range all {
		if f.Kind == store.FactorRecovery {
			recovery = append(recovery, f)
		} else {
			asked = append(asked, f)
		}
	}
	return asked, recovery, wrap("factors", err)
}

// toSecond goes on to the second step, if the person has one.
func (s *Server) toSecond(v *visit, p org.Person, stored, path string) (asked bool, err error) {
	factors, _, err := s.factorsOf(v, p.ID)
	if err != nil || len(factors) == 0 {
		return false, err
	}
	sum := sha256.Sum256([]byte(stored))
	plain, err := json.Marshal(secondStep{Person: p.ID, Checked: sum[:], Made: v.now.Unix(), Return: path})
	if err != nil {
		panic(err) // strings, bytes and a number
	}
	return true, v.see(withQuery("/signin/second", "step", s.Ring.SealPage(sealedSecond, plain)))
}

func (s *Server) openSecond(v *visit, sealed string) (step secondStep, ok bool) {
	plain, _, ok := s.Ring.OpenPage(sealedSecond, sealed)
	if !ok || json.Unmarshal(plain, &step) != nil {
		return secondStep{}, false
	}
	return step, v.now.Sub(time.Unix(step.Made, 0)) <= secondLifetime
}

// A secondPage asks for a second factor.
type secondPage struct {
	frame
	Step    string // sealed
	Fault   string // what went wrong, in words
	Wrong   bool
	Passkey *passkeyAsk // nil where the person has none here
}

func (s *Server) secondPage(v *visit) error {
	step, ok := s.openSecond(v, v.r.URL.Query().Get("step"))
	if v.signedIn() {
		return v.see(max(step.Return, "/"))
	}
	if !ok {
		return s.toSignIn(v, max(step.Return, "/"))
	}
	return s.showSecond(v, http.StatusOK, &secondPage{Step: v.r.URL.Query().Get("step")})
}

func (s *Server) showSecond(v *visit, status int, view *secondPage) error {
	step, _ := s.openSecond(v, view.Step)
	p, err := s.Store.Person(v.r.Context(), step.Person)
	if err != nil {
		return wrap("person", err)
	}
	if view.Passkey, err = s.askPasskey(v, p); err != nil {
		return err
	}
	view.frame = s.frame(v, "second.title")
	view.CSRF = s.Ring.FormToken(s.before(v))
	view.Same = s.sealHere(withQuery("/signin/second", "step", view.Step))
	return s.show(v, status, secondTemplate, view)
}

// second is POST /signin/second.
func (s *Server) second(v *visit) error {
	if foreign(v) {
		return errForeign
	}
	form, err := readForm(v, otherBytes, otherFields)
	if err != nil {
		return err
	}
	view := &secondPage{Step: one(form, "step")}
	step, ok := s.openSecond(v, view.Step)
	switch before := cookie(v, "before"); {
	case v.signedIn(): // in another tab
		return v.see(max(step.Return, "/"))
	case !ok:
		return s.toSignIn(v, max(step.Return, "/"))
	case before == "" || !s.Ring.CheckFormToken(before, one(form, "csrf")):
		view.Fault = v.words.say("signin.again").String()
		return s.showSecond(v, http.StatusUnprocessableEntity, view)
	}
	err = s.enterSecond(v, step, form)
	if wait, throttled := errors.AsType[tooMany](err); throttled {
		v.w.Header().Set("Retry-After", limit.RetryAfter(wait.wait))
		view.Fault = v.words.say("signin.wait", "n", minutes(wait.wait)).String()
		return s.showSecond(v, http.StatusTooManyRequests, view)
	}
	if errors.Is(err, errWrong) {
		view.Fault, view.Wrong = v.words.say("second.wrong").String(), true
		return s.showSecond(v, http.StatusUnprocessableEntity, view)
	} else if err != nil {
		return err
	}
	return v.see(step.Return)
}

// enterSecond begins the session of a person who has shown both.
func (s *Server) enterSecond(v *visit, step secondStep, form url.Values) error {
	ctx := v.r.Context()
	p, err := s.Store.Person(ctx, step.Person)
	if err != nil {
		return wrap("person", err)
	}
	_, stored, err := s.Store.Password(ctx, p.Email)
	if err != nil {
		return wrap("password", err)
	}
	if sum := sha256.Sum256([]byte(stored)); subtle.ConstantTimeCompare(sum[:], step.Checked) != 1 || !p.Active {
		return errWrong // another password by now
	}
	e := store.Entry{Person: p.ID, Password: stored, Proof: store.Proof{ProvedAt: v.now.Unix(), FactorAt: v.now.Unix()}}
	if err := s.checkFactor(v, p, form, &e); err != nil {
		return err
	}
	e.Method = e.Factor.Kind
	return s.enterOwn(v, e)
}

// enterOwn begins a session of somebody who proved here who they are.
func (s *Server) enterOwn(v *visit, e store.Entry) error {
	e.Value = newCookie()
	act := s.act(v)
	act.Actor = "person:" + e.Person
	err := s.Store.Enter(v.r.Context(), e, act)
	if errors.Is(err, store.ErrAnswered) || errors.Is(err, store.ErrNotFound) {
		return errWrong // used, or gone, meanwhile
	} else if err != nil {
		return wrap("new session", err)
	}
	s.count("signin", "ok")
	setCookie(v, "session", e.Value)
	setCookie(v, "before", "")
	return nil
}

// checkCode finds the factor of which this is a code, or gives errWrong or
// tooMany. Wrong codes are counted like wrong passwords, apart from them.
func (s *Server) checkCode(v *visit, p org.Person, code string) (store.FactorUse, error) {
	address, account := s.Address(v.r), "second "+p.ID
	if wait := s.failures.wait(account, address, v.now); wait > 0 {
		return store.FactorUse{}, s.throttled(v, address, wait)
	}
	asked, recovery, err := s.factorsOf(v, p.ID)
	if err != nil {
		return store.FactorUse{}, err
	}
	code = strings.ToUpper(strings.NewReplacer(" ", "", "-", "").Replace(code))
	for _, f := range asked {
		if used, ok := s.oneTime(v, f, code); ok {
			return used, nil
		}
	}
	for _, f := range recovery {
		if subtle.ConstantTimeCompare([]byte(f.Secret), []byte(hashOfRecovery(code))) == 1 {
			return store.FactorUse{Factor: f}, nil
		}
	}
	s.wrongFactor(v, p, account, address)
	return store.FactorUse{}, errWrong
}

func (s *Server) wrongFactor(v *visit, p org.Person, account string, address netip.Addr) {
	s.failures.add(account, address, v.now)
	s.count("signin", "failed")
	s.Store.Record(store.Event{Kind: "signin_failed", Person: p.ID, Actor: "system", Reason: "second_factor",
		Address: address.String(), Reference: v.reference()})
}

func (s *Server) oneTime(v *visit, f store.Factor, code string) (store.FactorUse, bool) {
	secret, ok := s.openOneTime(f.Person, f.Secret)
	if f.Kind != store.FactorOneTime || !ok {
		return store.FactorUse{}, false
	}
	step, ok := identity.CheckOneTimeCode(secret, code, v.now, f.Counter)
	// Sealed again, so that a key of the server that retires takes nothing along
	// but what nobody has used.
	return store.FactorUse{Factor: f, Counter: step, Secret: s.sealOneTime(f.Person, secret)}, ok
}

// The secret is stored sealed: who has the database alone shows no code.
func (s *Server) sealOneTime(person string, secret []byte) string {
	return s.Ring.SealPage(sealedOneTime+" "+person, secret)
}

func (s *Server) openOneTime(person, sealed string) ([]byte, bool) {
	secret, _, ok := s.Ring.OpenPage(sealedOneTime+" "+person, sealed)
	return secret, ok
}

func hashOfRecovery(code string) string {
	sum := sha256.Sum256([]byte("recovery " + code))
	return hex.EncodeToString(sum[:])
}

// --- signing in again

func (s *Server) fresh() time.Duration {
	if s.Ways.Fresh > 0 {
		return s.Ways.Fresh
	}
	return DefaultFresh
}

// recent reports whether something was a moment ago.
func (s *Server) recent(v *visit, unix int64) bool { return v.now.Sub(time.Unix(unix, 0)) < s.fresh() }

// weak reports whether an approval of this kind asks for more than the session
// has: to sign in again, or for a factor that the person does not have.
func (s *Server) weak(v *visit, kind grantset.Kind) (again, lacks bool, err error) {
	if s.Ways.Strong == "" || kind != grantset.Everything && kind != grantset.Organization {
		return false, false, nil
	}
	proof, err := s.Store.Proof(v.r.Context(), v.session)
	switch {
	case err != nil:
		return false, false, wrap("session", err)
	case s.recent(v, proof.FactorAt), s.Ways.Strong == StrengthFresh && s.recent(v, proof.ProvedAt):
		return false, false, nil
	case s.Ways.Strong == StrengthFresh:
		return true, false, nil
	case proof.Issuer != "": // it has been asked, and did not say so
		return !s.recent(v, proof.ProvedAt), s.recent(v, proof.ProvedAt), nil
	}
	asked, _, err := s.factorsOf(v, v.person.ID)
	return len(asked) > 0, len(asked) == 0, err
}

// strengthen keeps an approval waiting until the person is who they are beyond
// doubt; path leads back to it, choices kept. done is false when nothing is in
// its way.
func (s *Server) strengthen(v *visit, client string, kind grantset.Kind, path string) (done bool, err error) {
	again, lacks, err := s.weak(v, kind)
	if err != nil || !again && !lacks {
		return err != nil, err
	}
	s.refused(v, client, "not_fresh")
	sealed := s.Ring.SealPage(sealedReturn, []byte(path))
	if again {
		return true, v.see(withQuery("/signin/again", "return", sealed))
	}
	return true, s.showAgain(v, http.StatusForbidden, &againPage{Return: sealed, Lacks: true})
}

// An againPage asks somebody who is signed in to sign in again.
type againPage struct {
	frame
	Return string // sealed
	Fault  string // what went wrong, in words
	Wrong  bool

	Password, Code bool        // what is asked for here
	Passkey        *passkeyAsk // may stand for the code; nil where the person has none here
	Ways           []wayOut    // or elsewhere
	Lacks          bool        // the person has no second factor: where to add one
	Back           string      // path
}

// againPage is GET /signin/again.
func (s *Server) againPage(v *visit) error {
	sealed := v.r.URL.Query().Get("return")
	if !v.signedIn() {
		return s.toSignIn(v, s.returnPath(sealed))
	}
	return s.showAgain(v, http.StatusOK, &againPage{Return: sealed})
}

func (s *Server) showAgain(v *visit, status int, view *againPage) error {
	proof, err := s.Store.Proof(v.r.Context(), v.session)
	if err != nil {
		return wrap("session", err)
	}
	asked, _, err := s.factorsOf(v, v.person.ID)
	if err != nil {
		return err
	}
	view.frame = s.frame(v, "again.title")
	view.Same = s.sealHere(withQuery("/signin/again", "return", view.Return))
	view.Back = s.returnPath(view.Return)
	if !view.Lacks {
		view.Password = proof.Issuer == "" && !s.Ways.NoPasswords
		view.Code = view.Password && len(asked) > 0
	}
	if view.Code {
		if view.Passkey, err = s.askPasskey(v, v.person); err != nil {
			return err
		}
	}
	for _, w := range s.waysOut(view.Return, false) {
		if !view.Password && (proof.Issuer == "" || s.issuerOf(w.ID) == proof.Issuer) {
			w.Path = withQuery("/signin/again/"+w.ID, "return", view.Return)
			view.Ways = append(view.Ways, w)
		}
	}
	return s.show(v, status, againTemplate, view)
}

// issuerOf is the issuer that sessions by this way have.
func (s *Server) issuerOf(way string) string {
	if p := s.provider(way); p != nil {
		return p.Issuer
	}
	return way
}

// againOut is GET /signin/again/{way}: to sign in again where the person did.
func (s *Server) againOut(v *visit) error {
	path := s.returnPath(v.r.URL.Query().Get("return"))
	if !v.signedIn() {
		return s.toSignIn(v, path)
	}
	a := s.newAttempt(v, v.r.PathValue("way"), path)
	a.Fresh = v.person.ID
	return s.sendOut(v, a, false)
}

// again is POST /signin/again.
func (s *Server) again(v *visit) error {
	form, err := s.changing(v)
	if err != nil {
		return err
	}
	view := &againPage{Return: one(form, "return")}
	if s.Ways.NoPasswords {
		return errNoPage
	}
	err = s.enterAgain(v, form)
	if wait, throttled := errors.AsType[tooMany](err); throttled {
		v.w.Header().Set("Retry-After", limit.RetryAfter(wait.wait))
		view.Fault = v.words.say("signin.wait", "n", minutes(wait.wait)).String()
		return s.showAgain(v, http.StatusTooManyRequests, view)
	}
	if errors.Is(err, errWrong) {
		view.Fault, view.Wrong = v.words.say("again.wrong").String(), true
		return s.showAgain(v, http.StatusUnprocessableEntity, view)
	} else if err != nil {
		return err
	}
	return v.see(s.returnPath(view.Return))
}

// enterAgain begins another session in the place of this one.
func (s *Server) enterAgain(v *visit, form url.Values) error {
	p, stored, err := s.authenticate(v, v.person.Email, one(form, "password"))
	if err != nil {
		return err
	}
	e := store.Entry{Person: p.ID, Password: stored, Ends: v.session, Method: "again", Proof: store.Proof{ProvedAt: v.now.Unix()}}
	asked, _, err := s.factorsOf(v, p.ID)
	if err != nil {
		return err
	}
	if len(asked) > 0 {
		if err := s.checkFactor(v, p, form, &e); err != nil {
			return err
		}
		e.Proof.FactorAt = v.now.Unix()
	}
	return s.enterOwn(v, e)
}

// --- managing factors

// A factorsPage shows what a person signs in with beside the password.
type factorsPage struct {
	frame
	Fault    string // what went wrong, in words
	Factors  []factorRow
	Recovery int          // codes that are left
	Codes    []string     // new ones, shown once
	Key      string       // of a new app, in groups
	Link     template.URL // the same for an app on this device; ours
	Sealed   string       // the same, to come back
	Create   *passkeyAsk  // a new passkey
	Passkeys bool         // this host can have them
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
		row := factorRow{ID: f.ID, Passkey: f.Kind == store.FactorPasskey, Created: on(f.CreatedAt)}
		if f.UsedAt > 0 {
			used := on(f.UsedAt)
			row.Used = &used
		}
		view.Factors = append(view.Factors, row)
	}
	view.Recovery = len(recovery)
	_, _, view.Passkeys = s.relying(v)
	if _, _, ok := s.Ring.OpenPage(sealedReturn, view.Return); ok {
		view.Back = s.returnPath(view.Return)
	}
	view.frame = s.frame(v, "factors.title")
	view.Other = true
	view.Same = s.sealHere(withQuery("/account/sign-in", "return", view.Return))
	return s.show(v, status, factorsTemplate, view)
}

// changingFactors is what every change of a factor needs: a form of this
// session, whose person was proven a moment ago. done: they are asked again.
func (s *Server) changingFactors(v *visit) (form url.Values, done bool, err error) {
	if form, err = s.changing(v); err != nil {
		return nil, true, err
	}
	proof, err := s.Store.Proof(v.r.Context(), v.session)
	if err != nil {
		return nil, true, wrap("session", err)
	}
	if s.Ways.NoPasswords {
		return nil, true, errNoPage
	}
	if s.recent(v, proof.ProvedAt) || s.recent(v, proof.FactorAt) {
		return form, false, nil
	}
	back := withQuery("/account/sign-in", "return", one(form, "return"))
	return nil, true, v.see(withQuery("/signin/again", "return", s.Ring.SealPage(sealedReturn, []byte(back))))
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
	return &factorsPage{Key: inGroups(key), Sealed: s.sealOneTime(v.person.ID, secret), Return: sealed,
		Link: template.URL("otpauth://totp/" + label + "?secret=" + key + "&issuer=" + url.QueryEscape(s.Service))}
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
	if err := s.Store.AddFactors(v.r.Context(), v.person.ID, add, s.act(v)); errors.Is(err, store.ErrConflict) {
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
	if err := s.Store.AddFactors(v.r.Context(), v.person.ID, factors, s.act(v)); err != nil {
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
