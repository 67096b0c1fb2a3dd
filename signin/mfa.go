package signin

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	tries "github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

// secondLifetime is how long the second step may take after the first.
const secondLifetime = 10 * time.Minute

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
func (s *Server) factorsOf(v *page.Visit, person string) (asked, recovery []store.Factor, err error) {
	all, err := s.Store.Factors(v.R.Context(), person)
	for _, f := range all {
		if f.Kind == store.FactorRecovery {
			recovery = append(recovery, f)
		} else {
			asked = append(asked, f)
		}
	}
	return asked, recovery, page.Wrap("factors", err)
}

// toSecond goes on to the second step, if the person has one.
func (s *Server) toSecond(v *page.Visit, p org.Person, stored, path string) (asked bool, err error) {
	factors, _, err := s.factorsOf(v, p.ID)
	if err != nil || len(factors) == 0 {
		return false, err
	}
	s.saw(v, path, tries.SecondFactor)
	sum := sha256.Sum256([]byte(stored))
	step := s.Seal(sealedSecond, secondStep{Person: p.ID, Checked: sum[:], Made: v.Now.Unix(), Return: path})
	return true, v.See(page.WithQuery("/signin/second", "step", step))
}

func (s *Server) openSecond(v *page.Visit, sealed string) (step secondStep, ok bool) {
	ok = s.Open(sealedSecond, sealed, &step) && v.Now.Sub(time.Unix(step.Made, 0)) <= secondLifetime
	return step, ok
}

// A secondPage asks for a second factor.
type secondPage struct {
	page.Frame
	Step    string // sealed
	Fault   string // what went wrong, in words
	Wrong   bool
	Passkey *passkeyAsk // nil where the person has none here
}

func (s *Server) secondPage(v *page.Visit) error {
	step, ok := s.openSecond(v, v.R.URL.Query().Get("step"))
	if v.SignedIn() {
		return v.See(max(step.Return, "/"))
	}
	if !ok {
		return s.ToSignIn(v, max(step.Return, "/"))
	}
	return s.showSecond(v, http.StatusOK, &secondPage{Step: v.R.URL.Query().Get("step")})
}

func (s *Server) showSecond(v *page.Visit, status int, view *secondPage) error {
	step, _ := s.openSecond(v, view.Step)
	p, err := s.Store.Person(v.R.Context(), step.Person)
	if err != nil {
		return page.Wrap("person", err)
	}
	if view.Passkey, err = s.askPasskey(v, p); err != nil {
		return err
	}
	view.Frame = s.Frame(v, page.TitleOf(view.Fault, "second.title", "second.error"))
	view.CSRF = s.Ring.FormToken(s.Before(v))
	view.Same = s.SealPath(page.WithQuery("/signin/second", "step", view.Step))
	return s.Show(v, status, secondTemplate, view)
}

// second is POST /signin/second.
func (s *Server) second(v *page.Visit) error {
	form, err := page.Posted(v, page.OtherBytes, page.OtherFields)
	if err != nil {
		return err
	}
	view := &secondPage{Step: page.One(form, "step")}
	step, ok := s.openSecond(v, view.Step)
	switch {
	case v.SignedIn(): // in another tab
		return v.See(max(step.Return, "/"))
	case !ok:
		return s.ToSignIn(v, max(step.Return, "/"))
	case !s.Own(v, page.One(form, "csrf")):
		view.Fault = v.Words.Say("signin.again").String()
		return s.showSecond(v, http.StatusUnprocessableEntity, view)
	}
	err = s.enterSecond(v, step, form)
	if view.Fault = v.MustWait(err); view.Fault != "" {
		return s.showSecond(v, http.StatusTooManyRequests, view)
	}
	if errors.Is(err, errWrong) {
		view.Fault, view.Wrong = v.Words.Say(wrongFactor(err, "second.wrong")).String(), true
		return s.showSecond(v, http.StatusUnprocessableEntity, view)
	} else if err != nil {
		return err
	}
	return v.See(step.Return)
}

// wrongFactor gives the ID of the message for a factor that did not count.
func wrongFactor(err error, wrong string) string {
	if errors.Is(err, errLocked) {
		return "second.locked"
	}
	return wrong
}

// enterSecond begins the session of a person who has shown both.
func (s *Server) enterSecond(v *page.Visit, step secondStep, form url.Values) error {
	ctx := v.R.Context()
	p, err := s.Store.Person(ctx, step.Person)
	if err != nil {
		return page.Wrap("person", err)
	}
	_, stored, err := s.Store.Password(ctx, p.Email)
	if err != nil {
		return page.Wrap("password", err)
	}
	if sum := sha256.Sum256([]byte(stored)); subtle.ConstantTimeCompare(sum[:], step.Checked) != 1 || !p.Active {
		return errWrong // another password by now
	}
	e := store.Entry{Person: p.ID, Password: stored, Proof: identity.Proof{ProvedAt: v.Now.Unix(), FactorAt: v.Now.Unix()}}
	if err := s.checkFactor(v, p, form, &e); err != nil {
		return err
	}
	e.Method = e.Factor.Kind
	return s.enterOwn(v, e)
}

// errLocked is a code of an app after too many that were wrong, right or not.
var errLocked = fmt.Errorf("codes of the app count no more: %w", errWrong)

// checkFactor adds to an entry the factor that a form shows, a passkey or a
// code, or gives errWrong, which may be errLocked, or page.TooMany. Each attempt is
// counted before it is made, so that no more are made at once than one after
// the other.
func (s *Server) checkFactor(v *page.Visit, p org.Person, form url.Values, e *store.Entry) (err error) {
	address := s.Address(v.R)
	end, wait := s.wrongFactors.begin(p.ID, address, v.Now)
	if wait > 0 {
		return s.throttled(v, address, wait)
	}
	defer end()
	inARow, err := s.Store.TryFactor(v.R.Context(), p.ID)
	if err != nil {
		return page.Wrap("second factor", err)
	}
	if shown := page.One(form, "passkey"); shown != "" {
		err = s.checkPasskey(v, p, shown, page.One(form, "ask"), e)
	} else {
		e.Factor, err = s.checkCode(v, p, page.One(form, "code"), inARow <= wrongFactorsMost)
	}
	if err == nil && s.wrongFactors.wait(p.ID, address, v.Now) > 0 {
		err = errWrong // as far as anybody is told
	}
	switch {
	case errors.Is(err, errWrong):
		s.Counted("signin", "failed")
		reason := journal.SecondFactor
		if inARow == wrongFactorsTold {
			reason = journal.SecondFactorRepeated // which the person is told of
		}
		s.Record(v, store.Event{Kind: journal.SignInFailed, Person: p.ID, Reason: reason})
		if wait := s.wrongFactors.add(p.ID, address, v.Now); wait > 0 {
			return s.throttled(v, address, wait)
		}
	case err != nil:
		return errors.Join(err, s.Store.UntryFactor(v.R.Context(), p.ID))
	}
	return err
}

// checkCode finds the factor of which this is a code, or gives errWrong. Where
// codes of an app count no more, recovery codes do: nobody guesses 80 bits.
func (s *Server) checkCode(v *page.Visit, p org.Person, code string, app bool) (store.FactorUse, error) {
	asked, recovery, err := s.factorsOf(v, p.ID)
	if err != nil {
		return store.FactorUse{}, err
	}
	code = strings.ToUpper(strings.NewReplacer(" ", "", "-", "").Replace(code))
	for _, f := range asked {
		if used, ok := s.oneTime(v, f, code); ok && app {
			return used, nil
		}
	}
	for _, f := range recovery {
		if subtle.ConstantTimeCompare([]byte(f.Secret), []byte(hashOfRecovery(code))) == 1 {
			return store.FactorUse{Factor: f}, nil
		}
	}
	if !app {
		return store.FactorUse{}, errLocked
	}
	return store.FactorUse{}, errWrong
}

func (s *Server) oneTime(v *page.Visit, f store.Factor, code string) (store.FactorUse, bool) {
	secret, ok := s.openOneTime(f.Person, f.Secret)
	if f.Kind != store.FactorOneTime || !ok {
		return store.FactorUse{}, false
	}
	step, ok := identity.CheckOneTimeCode(secret, code, v.Now, f.Counter)
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
