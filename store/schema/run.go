package schema

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/grantkeeper/grantkeeper/token"
)

// Options say what a migration does.
type Options struct {
	Path       string
	URL        string      // of a PostgreSQL database; then Path is not asked
	Ring       *token.Ring // its keys must be those of the database; nil does not ask
	Release    string      // which one migrates
	Migrations []Migration // all that there are; nil is Migrations()
	To         int         // a version; 0 is the newest
	Backup     string      // a new file for a copy of before; "" makes none. Not on PostgreSQL

	Rekeyed func(Rekeyed) // told of each after the commit; may be nil
}

// Newest is the version of the last migration.
func (o Options) Newest() int { return o.Migrations[len(o.Migrations)-1].Version }

// Run runs what is pending, one after another.
func (o Options) Run(from int, one func(Migration) error) (_, to int, err error) {
	to = from
	for _, m := range Pending(o.Migrations, from, o.To) {
		if err := one(m); err != nil {
			return from, to, &Failed{m.Version, err}
		}
		to = m.Version
	}
	return from, to, nil
}

// Failed is what went wrong in one migration.
type Failed struct {
	version int
	err     error
}

// Error names the migration.
func (e *Failed) Error() string {
	return fmt.Sprintf("database: migration %d: %v", e.version, e.err)
}

// Unwrap gives what went wrong.
func (e *Failed) Unwrap() error { return e.err }

// LogRekeyed is who is told where a server migrates by itself.
func LogRekeyed(log *slog.Logger) func(Rekeyed) {
	return func(one Rekeyed) {
		log.Warn("a person was found by an email that looks like theirs, and is not any more", "person", one.Person)
	}
}

// ErrNotBefore is for a migration that does not follow what the database has.
var ErrNotBefore = errors.New("the schema before it is another one")

// Tell names them, once the migration stands.
func (o Options) Tell(all []Rekeyed) {
	for _, one := range all {
		if o.Rekeyed != nil {
			o.Rekeyed(one)
		}
	}
}
