package api

import "net/http"

// Document is the document of the API, for tests from outside.
func Document() []byte { return document }

// Operations are the methods and paths of the code.
func Operations() (all []string) {
	for _, r := range index {
		if r.path == "/api/v3/me" || r.path == "/api/v4/me" {
			continue
		}
		for _, o := range r.methods {
			all = append(all, o.method+" "+r.path)
		}
	}
	return all
}

// Fail answers an error as the server does.
func Fail(s *Server, w http.ResponseWriter, r *http.Request, err error) { s.fail(w, r, err) }
