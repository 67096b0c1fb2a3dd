package signin

import (
	"errors"
	"net/http"

	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/provider"
	"github.com/grantkeeper/grantkeeper/store"
)

// logout is POST /signin/logout/{way}: a provider says that somebody signed
// out (OpenID Connect Back-Channel Logout 1.0 section 2.5).
func (s *Server) logout(v *page.Visit) error {
	p := s.provider(v.R.PathValue("way"))
	if p == nil {
		return page.ErrNoPage
	}
	form, err := page.ReadForm(v, page.OtherBytes, page.OtherFields)
	if err != nil {
		return err
	}
	ended := 0
	// Wrong ones alone are counted: each may ask the provider for keys.
	wait := s.logouts.try(s.Address(v.R), v.Now, func() bool {
		ended, err = s.endSessionsAt(v, p, page.One(form, "logout_token"))
		return err != nil && !errors.Is(err, provider.ErrDown) && !errors.Is(err, store.ErrUnavailable)
	})
	switch {
	case wait > 0:
		return page.TooMany{Wait: wait}
	case errors.Is(err, provider.ErrDown), errors.Is(err, store.ErrUnavailable):
		return answerJSON(v, http.StatusServiceUnavailable, "temporarily_unavailable")
	case err != nil:
		s.Log.Info("logout refused", "way", p.ID, "why", err, "request_id", v.Reference())
		return answerJSON(v, http.StatusBadRequest, "invalid_request")
	}
	s.Log.Info("logout", "way", p.ID, "sessions", ended, "request_id", v.Reference())
	v.W.WriteHeader(http.StatusOK)
	return nil
}

// endSessionsAt ends the sessions that a logout token is about.
func (s *Server) endSessionsAt(v *page.Visit, p *provider.Provider, token string) (ended int, err error) {
	out, err := p.Logout(v.R.Context(), token)
	if err != nil {
		return 0, err
	}
	return s.Store.EndSessionsAt(v.R.Context(), store.Farewell{Issuer: out.Issuer, Subject: out.Subject, SID: out.Session,
		Once: "logout " + out.Issuer + " " + out.ID, OnceUntil: out.Until}, s.ActBy(v, "system"))
}

func answerJSON(v *page.Visit, status int, code string) error {
	v.W.Header().Set("Content-Type", "application/json")
	v.W.WriteHeader(status)
	_, err := v.W.Write([]byte(`{"error":"` + code + `"}`))
	return err
}
