package schema

import (
	"context"
	"database/sql"

	"github.com/grantkeeper/grantkeeper/org"
)

// emailKeys is the migration that brings each email under org.EmailKey.
const emailKeys = 3

// Rekeyed is a person whose email was stored under another key than its own
// before migration 3: whoever signed in, or was vouched for, with the email Before
// was taken for this person, and is not any more. Nothing else about them changes.
type Rekeyed struct {
	Person string `json:"person"` // ID
	Email  string `json:"email"`
	Before string `json:"before"` // the key that found them
}

// Rekeyed lists who is about to be found by another key than before.
func (m Migration) Rekeyed(ctx context.Context, db interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}) (all []Rekeyed, err error) {
	if m.Version != emailKeys {
		return nil, nil
	}
	rows, err := db.QueryContext(ctx, `SELECT id, email, email_key FROM person WHERE email <> '' ORDER BY id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var one Rekeyed
		if err := rows.Scan(&one.Person, &one.Email, &one.Before); err != nil {
			return nil, err
		}
		if org.EmailKey(one.Email) != one.Before {
			all = append(all, one)
		}
	}
	return all, rows.Err()
}
