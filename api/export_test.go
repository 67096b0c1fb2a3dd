package api

import (
	"context"
	"fmt"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store"
)

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

// Break has the server find no approval, because the database does not answer.
func Break(s *Server) {
	s.standing = func(context.Context, approval.ID) (store.Access, error) {
		return store.Access{}, fmt.Errorf("sql: %w", store.ErrUnavailable)
	}
}
