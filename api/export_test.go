package api

import (
	"context"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store"
)

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

// Find has the server find an approval so, and if it asks again, so as now does.
func Find(s *Server, found store.Access, now func(context.Context, approval.ID) (store.Access, error)) {
	asked := false
	s.standing = func(ctx context.Context, id approval.ID) (store.Access, error) {
		if asked {
			return now(ctx, id)
		}
		asked = true
		return found, nil
	}
}
