package operator

// resetSignIn lets a person in again who has lost what they sign in with:
// second factors and accounts at providers are forgotten, sessions end.
func (s *Server) resetSignIn(c call, body reasoned) (any, error) {
	p, err := s.Store.ResetSignIn(c.Context(), c.PathValue("id"), c.act(body.Reason))
	return newPerson(p), err
}
