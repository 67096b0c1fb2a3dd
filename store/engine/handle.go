package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/org"
)

// A Handle is an open database as those use it whose statements run there: the engine,
// its clock, its facts in memory and where it is read.
type Handle struct {
	*Env
	Engine
	Reader *sql.DB // Engine.Reader
}

// Handle gives what the rooms of the store work with.
func (e *Env) Handle(of Engine) Handle { return Handle{e, of, of.Reader()} }

// Person finds somebody by ID or by email, in any case of A-Z.
func (h Handle) Person(ctx context.Context, idOrEmail string) (org.Person, error) {
	if err := h.Fresh(ctx); err != nil {
		return org.Person{}, err
	}
	h.Memory.RLock()
	defer h.Memory.RUnlock()
	at := h.Memory.People.Get(idOrEmail)
	if at == nil {
		at = h.Memory.ByEmail.Get(org.EmailKey(idOrEmail))
	}
	if at == nil {
		return org.Person{}, fmt.Errorf("person: %w", ErrNotFound)
	}
	return at.Person, nil
}

// Lookup says what the error of one row means: ErrNotFound that it is not there.
func Lookup(what string, err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	return Unavailable(what, err)
}

// IsAdmin gives ErrNotAllowed for everybody who is no admin of the
// organization, now.
func (tx *Tx) IsAdmin(personID, organizationID string) error {
	at := tx.Memory.Members.Get(facts.MemberKey{Person: personID, Organization: organizationID})
	if !at.AsMember().Exists() || !at.Admin {
		return fmt.Errorf("admin right: %w", ErrNotAllowed)
	}
	return nil
}

// JournalMany journals what an operator did to so many by batches, and gives the error that
// broke it off; nil is none. Where one broke it off before the first, nothing was done.
func (h Handle) JournalMany(n int, broken error, e Event) error {
	if broken != nil && n == 0 {
		return broken
	}
	e.Kind = journal.OperatorChanged
	if broken != nil {
		e.Detail += ", then broken off"
	}
	return errors.Join(broken, h.Change(func(tx *Tx) error { return tx.Journal(e) }))
}
