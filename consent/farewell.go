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
	address := s.Address(v.r)
	if wait := s.farewells.Wait(address, v.now); wait > 0 {
		return tooMany{wait}
	}
	form, err := readForm(v, otherBytes, otherFields)
	if err != nil {
		return err
	}
	out, err := p.Logout(v.r.Context(), one(form, "logout_token"))
	if errors.Is(err, provider.ErrDown) {
		return answerJSON(v, http.StatusServiceUnavailable, "temporarily_unavailable")
	}
	ended := 0
	if err == nil {
		ended, err = s.Store.EndSessionsAt(v.r.Context(), store.Farewell{Issuer: out.Issuer, Subject: out.Subject, SID: out.Session,
			Once: "logout " + out.Issuer + " " + out.ID, OnceUntil: out.Until},
			s.actBy(v, "system"))
	}
	if errors.Is(err, store.ErrUnavailable) {
		return answerJSON(v, http.StatusServiceUnavailable, "temporarily_unavailable")
	}
	if err != nil { // wrong ones alone are counted: each may ask the provider for keys
		s.farewells.Allow(address, v.now)
		s.Log.Info("logout refused", "way", p.ID, "why", err, "request_id", v.reference())
		return answerJSON(v, http.StatusBadRequest, "invalid_request")
	}
	s.Log.Info("logout", "way", p.ID, "sessions", ended, "request_id", v.reference())
	v.w.WriteHeader(http.StatusOK)
	return nil
}

func answerJSON(v *visit, status int, code string) error {
	v.w.Header().Set("Content-Type", "application/json")
	v.w.WriteHeader(status)
	_, err := v.w.Write([]byte(`{"error":"` + code + `"}`))
	return err
}
