package consent

import (
	"net/http"
	"time"

	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// How often a mail with a link may be asked for: for one email, whoever has it
// or nobody; from an address; and from its /24 or /48 (decision S6).
var (
	forgotAccount = limit.Limit{N: 3, Window: time.Hour}
	forgotAddress = limit.Limit{N: 20, Window: time.Hour}
	forgotNetwork = limit.Limit{N: 100, Window: time.Hour}
)

// Forgotten is what somebody asks for who has forgotten a password.
type Forgotten struct {
	Email string // as it was typed
	Back  string // sealed: goes into the link; may be empty
	Act   store.Act
}

// forgotLimits count what is asked for, for accounts that do not exist too.
type forgotLimits struct {
	account          *limit.Names
	address, network *limit.Addresses
}

func newForgotLimits(s *limit.Valkey) forgotLimits {
	return forgotLimits{s.Names("forgot-account", forgotAccount),
		s.Addresses("forgot-address", forgotAddress, nil), s.Blocks("forgot-network", forgotNetwork, nil)}
}

// A forgotBack is where a link's page leads once the password is set, in the
// browser that asked: in another it is a request that its person never saw.
type forgotBack struct {
	Path    string `json:"path"`
	Browser string `json:"browser"` // form token of the browser's cookie
}

// A forgotPage asks for an email, to which a link is mailed.
type forgotPage struct {
	frame
	Return string // sealed
	Email  string // as it was typed
	Fault  string // what went wrong, in words
	Wrong  bool   // the fault is in the field
	Sent   bool   // as far as anybody is told
	Back   string // path: to sign in
}

// forgotPage is GET /signin/forgot.
func (s *Server) forgotPage(v *visit) error {
	sealed := v.r.URL.Query().Get("return")
	switch {
	case !s.mailsLinks():
		return errNoPage
	case v.signedIn():
		return v.see(s.returnPath(sealed))
	}
	return s.showForgot(v, http.StatusOK, &forgotPage{Return: sealed})
}

// mailsLinks reports whether who has forgotten a password can ask here.
func (s *Server) mailsLinks() bool { return s.Forgotten != nil && !s.Ways.NoPasswords }

func (s *Server) showForgot(v *visit, status int, view *forgotPage) error {
	view.frame = s.frame(v, titleOf(view.Fault, "forgot.title", "forgot.error"))
	if view.Sent {
		view.Title = v.words.say("forgot.short").String()
	}
	view.CSRF = s.Ring.FormToken(s.before(v))
	view.Back = s.signInPath(view.Return, true)
	view.Same = s.sealPath(withQuery("/signin/forgot", "return", view.Return))
	return s.show(v, status, forgotTemplate, view)
}

// forgot is POST /signin/forgot. Whether somebody has the email is looked up
// after the answer, by whoever mails: neither what the answer says nor how long
// it takes depends on it.
func (s *Server) forgot(v *visit) error {
	form, err := posted(v, otherBytes, otherFields)
	if err != nil {
		return err
	}
	view := &forgotPage{Return: one(form, "return"), Email: one(form, "email")}
	switch {
	case !s.mailsLinks():
		return errNoPage
	case v.signedIn(): // in another tab, or as somebody else
		return v.see(s.returnPath(view.Return))
	case !s.own(v, one(form, "csrf")):
		view.Fault = v.words.say("forgot.again").String()
		return s.showForgot(v, http.StatusUnprocessableEntity, view)
	case org.CheckEmail(view.Email) != nil:
		view.Fault, view.Wrong = v.words.say("forgot.invalid").String(), true
		return s.showForgot(v, http.StatusUnprocessableEntity, view)
	}
	if view.Fault = v.mustWait(s.forgotTooOften(v, view.Email)); view.Fault != "" {
		return s.showForgot(v, http.StatusTooManyRequests, view)
	}
	act := s.actBy(v, "system")
	act.Reason = "asked for at the sign-in page"
	if !s.Forgotten(Forgotten{view.Email, s.sealForgotBack(v, view.Return), act}) {
		view.Fault = v.words.say("forgot.busy").String()
		v.w.Header().Set("Retry-After", unavailableFor)
		return s.showForgot(v, http.StatusServiceUnavailable, view)
	}
	view.Sent = true
	return s.showForgot(v, http.StatusOK, view)
}

// forgotTooOften counts, and gives tooMany above the limits.
func (s *Server) forgotTooOften(v *visit, email string) error {
	from := s.Address(v.r)
	if ok, wait := s.forgets.address.Allow(from, v.now); !ok {
		return tooMany{wait}
	}
	if ok, wait := s.forgets.network.Allow(from, v.now); !ok {
		return tooMany{wait}
	}
	if ok, wait := s.forgets.account.Allow(org.EmailKey(email), v.now); !ok {
		return tooMany{wait}
	}
	return nil
}

func (s *Server) sealForgotBack(v *visit, sealed string) string {
	path := s.returnPath(sealed)
	if path == "/" {
		return ""
	}
	return s.seal(sealedForgot, forgotBack{path, s.Ring.FormToken(s.before(v))})
}

// openForgotBack gives the path, sealed as signing in takes it; "" in another
// browser than the one that asked.
func (s *Server) openForgotBack(v *visit, sealed string) string {
	var back forgotBack
	if !s.open(sealedForgot, sealed, &back) || !s.own(v, back.Browser) {
		return ""
	}
	return s.sealPath(back.Path)
}

// forgotLink leads from the sign-in page to where a new password is to be had:
// here where links are mailed, else where people get help, else nowhere.
func (s *Server) forgotLink(sealed string) (address string, out bool) {
	switch support := s.look.Load().branding.Support; {
	case s.Ways.NoPasswords:
		return "", false
	case s.mailsLinks():
		return withQuery("/signin/forgot", "return", sealed), false
	default:
		return support, true
	}
}
