package operator

import "fmt"

// LeastPrefix is how many characters of an ID a search for it needs.
const LeastPrefix = 6

// idObject is an ID that a prefix matches.
type idObject struct {
	ID string `json:"id"`
}

func (s *Server) ids(c Call) (any, error) {
	f, err := c.Filter("kind", "prefix")
	if err != nil {
		return nil, err
	}
	kind, err := f.OneOf("kind", "approval", "client", "person", "organization")
	if err != nil {
		return nil, err
	}
	if kind == "" || len(f.Get("prefix")) < LeastPrefix {
		return nil, BadRequest(fmt.Sprintf("kind and prefix: what it names, and %d characters of its ID or more", LeastPrefix))
	}
	ids, next, err := s.Store.IDs(c.Context(), kind, f.Get("prefix"), f.After, f.Limit)
	return newListPage(ids, next, func(id string) idObject { return idObject{id} }), f.CursorError(err)
}
