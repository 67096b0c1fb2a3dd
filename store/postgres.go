package store

import (
	"context"

	"github.com/grantkeeper/grantkeeper/store/postgres"
	"github.com/grantkeeper/grantkeeper/token"
)

// ErrDatabase is a PostgreSQL database that cannot be worked on as it is. The
// error says what to mend.
var ErrDatabase = postgres.ErrDatabase

// Two of these are known by names of their own.
var (
	ErrAbsent     = postgres.ErrAbsent     // the server has none of this name
	ErrUnexamined = postgres.ErrUnexamined // nothing is known of it: who asks elsewhere, or soon, may be answered
)

// CheckURL says what is wrong with a connection string, without repeating it.
func CheckURL(url string) error { return postgres.CheckURL(url) }

// InspectURL says what Open would find in a PostgreSQL database, and changes
// nothing. Of an empty one the schema has version 0. With an error the text is its name.
func InspectURL(ctx context.Context, url string, ring *token.Ring) (text string, has Schema, err error) {
	return postgres.InspectURL(ctx, url, ring)
}
