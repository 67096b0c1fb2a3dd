package consent

import "net/http"

// Paths of what belongs to an organization.
const (
	atOrganization = "/organizations/{organization}"
	atApps         = atOrganization + "/profile/api"
	atIntegration  = atOrganization + "/settings/ai-integration"
)

// routes are all pages of this door.
func (s *Server) routes(mux *http.ServeMux) {
	for pattern, page := range s.pages() {
		mux.Handle(pattern, s.handle(page))
	}
	for pattern, page := range s.ownPages() {
		mux.Handle(pattern, s.handle(s.themselves(page)))
	}
	mux.HandleFunc("GET /assets/{file}", s.asset)
}

// pages are those that support staff see too while they act as somebody.
func (s *Server) pages() map[string]func(*visit) error {
	return map[string]func(*visit) error{
		"GET /{$}":       s.home,
		"POST /language": s.changeTongue,

		"GET /oauth/authorize":  s.ask,
		"POST /oauth/authorize": s.decide,

		"GET /signin":                s.signInPage,
		"POST /signin":               s.signIn,
		"GET /signin/second":         s.secondPage,
		"POST /signin/second":        s.second,
		"GET /signin/with/{way}":     s.goOut,
		"GET /signin/callback/{way}": s.comeBack,
		"POST /signin/logout/{way}":  s.farewell,
		"POST /signout":              s.signOut,
		"GET /signin/forgot":         s.forgotPage,
		"POST /signin/forgot":        s.forgot,
		"GET /reset/{secret}":        s.resetPage,
		"POST /reset/{secret}":       s.reset,

		"GET /connected-apps": s.everyApp,

		"GET " + atApps: s.apps,
		"GET " + atApps + "/clients/{client}/revoke":  s.revokePage,
		"POST " + atApps + "/clients/{client}/revoke": s.revoke,

		"GET " + atIntegration:                 s.integration,
		"GET " + atIntegration + "/{approval}": s.connectionPage,

		"POST /support/stop": s.stopActing,
	}
}

// ownPages are for nobody but the person (decision P9).
func (s *Server) ownPages() map[string]func(*visit) error {
	return map[string]func(*visit) error{
		"POST /oauth/authorize/preview": s.preview,

		"GET " + atApps + "/{approval}/edit":  s.editPage,
		"POST " + atApps + "/{approval}/edit": s.edit,
		"GET " + atOrganization + "/leave":    s.leavePage,
		"POST " + atOrganization + "/leave":   s.leave,

		"GET " + atIntegration + "/off":                s.offPage,
		"POST " + atIntegration + "/off":               s.turn(false),
		"POST " + atIntegration + "/on":                s.turn(true),
		"GET " + atIntegration + "/{approval}/revoke":  s.endConnectionPage,
		"POST " + atIntegration + "/{approval}/revoke": s.endConnection,

		"GET /account":                         s.accountPage,
		"POST /account/password":               s.changePassword,
		"POST /account/sessions/end":           s.endOthers,
		"POST /account/sessions/{session}/end": s.endOne,

		"GET /account/sign-in":              s.factorsPage,
		"POST /account/sign-in/app":         s.newApp,
		"POST /account/sign-in/confirm":     s.confirmApp,
		"POST /account/sign-in/passkey":     s.newPasskey,
		"POST /account/sign-in/passkey/add": s.addPasskey,
		"POST /account/sign-in/recovery":    s.newRecovery,
		"POST /account/sign-in/remove":      s.removeFactor,
		"GET /signin/again":                 s.againPage,
		"POST /signin/again":                s.again,
		"GET /signin/again/{way}":           s.againOut,

		"GET /support":                          s.supportPage,
		"GET /support/{organization}/{person}":  s.actAsPage,
		"POST /support/{organization}/{person}": s.actAs,
	}
}
