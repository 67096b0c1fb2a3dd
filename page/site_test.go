package page

import "testing"

// Who has to sign in before a form is taken comes back to the page that had it.
func TestNearest(t *testing.T) {
	s := &Site{pages: map[string]func(*Visit) error{}}
	for _, pattern := range []string{
		"GET /{$}", "GET /account", "POST /account/password", "GET /account/sign-in", "GET /a/{id}/leave", "GET /a/{id}", "GET /a/{id}/{app}", "/any",
	} {
		s.pages[pattern] = func(*Visit) error { return nil }
	}
	for _, tt := range [][3]string{ // pattern, path, page
		{"POST /account/password", "/account/password", "/account"}, {"POST /account/sessions/{session}/end", "/account/sessions/1/end", "/account"},
		{"POST /account/sign-in/app", "/account/sign-in/app", "/account/sign-in"}, {"POST /account/sign-in", "/account/sign-in", "/account/sign-in"},
		{"POST /a/{id}/leave", "/a/x/leave", "/a/x/leave"}, {"POST /a/{id}/leave", "/a/x%2Fy/leave", "/a/x%2Fy/leave"}, {"POST /a/{id}/end", "/a/x/end", "/a/x"},
		{"POST /a/{id}/{app}/end", "/a/x/y/end", "/a/x/y"}, {"POST /signout", "/signout", "/"}, {"POST /any", "/any", "/"},
		{"POST /account/password", "/account//password", "/"}, {"POST /account/password", "/account/../account/password", "/"},
		{"POST /account/password", "//elsewhere.example/password", "/"}, {"POST /account/password", "/account/password/", "/"}, {"", "", "/"}, {"POST /{$}", "/", "/"},
	} {
		if got := s.nearest(tt[0], tt[1]); got != tt[2] {
			t.Errorf("%s: %s, want %s", tt[1], got, tt[2])
		}
	}
}
