package consent

import (
	"errors"
	"net/http"

	"github.com/grantkeeper/grantkeeper/provider"
	"github.com/grantkeeper/grantkeeper/store"
)

// farewell is POST /signin/logout/{way}: a provider says that somebody signed
// out (OpenID Connect Back-Channel Logout 1.0 section 2.5).
func (s *Server) farewell(v *visit) error {
	p := s.provider(v.r.PathValue("way"))
	if p == nil {
		return errNoPage
	}
	form, err := readForm(v, otherBytes, otherFields)
	if err != nil {
		return err
	}
	ended := 0
	// Wrong ones alone are counted: each may ask the provider for keys.
	wait := s.farewells.try(s.Address(v.r), v.now, func() bool {
		ended, err = s.endSessionsAt(v, p, one(form, "logout_token"))
		return err != nil && !errors.Is(err, provider.ErrDown) && !errors.Is(err, store.ErrUnavailable)
	})
	switch {
	case wait > 0:
		return tooMany{wait}
	case errors.Is(err, provider.ErrDown), errors.Is(err, store.ErrUnavailable):
		return answerJSON(v, http.StatusServiceUnavailable, "temporarily_unavailable")
	case err != nil:
		s.Log.Info("logout refused", "way", p.ID, "why", err, "request_id", v.reference())
		return answerJSON(v, http.StatusBadRequest, "invalid_request")
	}
	s.Log.Info("logout", "way", p.ID, "sessions", ended, "request_id", v.reference())
	v.w.WriteHeader(http.StatusOK)
	return nil
}

// endSessionsAt ends the sessions that a logout token is about.
func (s *Server) endSessionsAt(v *visit, p *provider.Provider, token string) (ended int, err error) {
	out, err := p.Logout(v.r.Context(), token)
	if err != nil {
		return 0, err
	}
	return s.Store.EndSessionsAt(v.r.Context(), store.Farewell{Issuer: out.Issuer, Subject: out.Subject, SID: out.Session,
		Once: "logout " + out.Issuer + " " + out.ID, OnceUntil: out.Until}, s.actBy(v, "system"))
}

func answerJSON(v *visit, status int, code string) error {
	v.w.Header().Set("Content-Type", "application/json")
	v.w.WriteHeader(status)
	_, err := v.w.Write([]byte(`{"error":"` + code + `"}`))
	return err
}
