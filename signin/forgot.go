package signin

import (
	"net/http"
	"time"

	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
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
	page.Frame
	Return string // sealed
	Email  string // as it was typed
	Fault  string // what went wrong, in words
	Wrong  bool   // the fault is in the field
	Sent   bool   // as far as anybody is told
	Back   string // path: to sign in
}

// forgotPage is GET /signin/forgot.
func (s *Server) forgotPage(v *page.Visit) error {
	sealed := s.Returned(v.R.URL.Query().Get("return"))
	switch {
	case !s.mailsLinks():
		return page.ErrNoPage
	case v.SignedIn():
		return v.See(s.ReturnPath(sealed))
	}
	return s.showForgot(v, http.StatusOK, &forgotPage{Return: sealed})
}

// mailsLinks reports whether who has forgotten a password can ask here.
func (s *Server) mailsLinks() bool { return s.Forgotten != nil && !s.NoPasswords }

func (s *Server) showForgot(v *page.Visit, status int, view *forgotPage) error {
	view.Frame = s.Frame(v, page.TitleOf(view.Fault, "forgot.title", "forgot.error"))
	if view.Sent {
		view.Title = v.Words.Say("forgot.short").String()
	}
	view.CSRF = s.Ring.FormToken(s.Before(v))
	view.Back = s.SignInPath(view.Return)
	view.Same = s.SealPath(page.WithQuery("/signin/forgot", "return", view.Return))
	return s.Show(v, status, forgotTemplate, view)
}

// forgot is POST /signin/forgot. Whether somebody has the email is looked up
// after the answer, by whoever mails: neither what the answer says nor how long
// it takes depends on it.
func (s *Server) forgot(v *page.Visit) error {
	form, err := page.Posted(v, page.OtherBytes, page.OtherFields)
	if err != nil {
		return err
	}
	view := &forgotPage{Return: s.Returned(page.One(form, "return")), Email: page.One(form, "email")}
	switch {
	case !s.mailsLinks():
		return page.ErrNoPage
	case v.SignedIn(): // in another tab, or as somebody else
		return v.See(s.ReturnPath(view.Return))
	case !s.Own(v, page.One(form, "csrf")):
		view.Fault = v.Words.Say("forgot.again").String()
		return s.showForgot(v, http.StatusUnprocessableEntity, view)
	case org.CheckEmail(view.Email) != nil:
		view.Fault, view.Wrong = v.Words.Say("forgot.invalid").String(), true
		return s.showForgot(v, http.StatusUnprocessableEntity, view)
	}
	if view.Fault = v.MustWait(s.forgotTooOften(v, view.Email)); view.Fault != "" {
		return s.showForgot(v, http.StatusTooManyRequests, view)
	}
	act := s.ActBy(v, "system")
	act.Reason = "asked for at the sign-in page"
	if !s.Forgotten(Forgotten{view.Email, s.sealForgotBack(v, view.Return), act}) {
		view.Fault = v.Words.Say("forgot.busy").String()
		v.W.Header().Set("Retry-After", page.UnavailableFor)
		return s.showForgot(v, http.StatusServiceUnavailable, view)
	}
	view.Sent = true
	return s.showForgot(v, http.StatusOK, view)
}

// forgotTooOften counts, and gives page.TooMany above the limits.
func (s *Server) forgotTooOften(v *page.Visit, email string) error {
	from := s.Address(v.R)
	if ok, wait := s.forgets.address.Allow(from, v.Now); !ok {
		return page.TooMany{Wait: wait}
	}
	if ok, wait := s.forgets.network.Allow(from, v.Now); !ok {
		return page.TooMany{Wait: wait}
	}
	if ok, wait := s.forgets.account.Allow(org.EmailKey(email), v.Now); !ok {
		return page.TooMany{Wait: wait}
	}
	return nil
}

func (s *Server) sealForgotBack(v *page.Visit, sealed string) string {
	path := s.ReturnPath(sealed)
	if path == "/" {
		return ""
	}
	return s.Seal(sealedForgot, forgotBack{path, s.Ring.FormToken(s.Before(v))})
}

// openForgotBack gives the path, sealed as signing in takes it; "" in another
// browser than the one that asked.
func (s *Server) openForgotBack(v *page.Visit, sealed string) string {
	var back forgotBack
	if !s.Open(sealedForgot, sealed, &back) || !s.Own(v, back.Browser) {
		return ""
	}
	return s.SealPath(back.Path)
}

// forgotLink leads from the sign-in page to where a new password is to be had:
// here where links are mailed, else where people get help, else nowhere.
func (s *Server) forgotLink(sealed, support string) (address string, out bool) {
	switch {
	case s.NoPasswords:
		return "", false
	case s.mailsLinks():
		return page.WithQuery("/signin/forgot", "return", sealed), false
	default:
		return support, true
	}
}
