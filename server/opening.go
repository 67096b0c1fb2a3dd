package server

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/store"
)

// LaterRelease says which release a newer schema wants.
func LaterRelease(schema *store.SchemaError) string {
	if schema != nil && schema.Release != "" {
		return "use release " + schema.Release + ", which this database belongs to, or a later one"
	}
	return "use the release that this database belongs to, or a later one"
}

// OpenError says what to do when the database does not open.
func OpenError(err error) error {
	var schema *store.SchemaError
	switch {
	case errors.As(err, &schema) && schema.Older():
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: "run: grantkeeper migrate up"}
	case errors.Is(err, store.ErrInUse):
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: "stop the other one, or use another database"}
	case errors.Is(err, store.ErrSchema):
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: LaterRelease(schema)}
	case errors.Is(err, store.ErrUnfinished):
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: "run grantkeeper migrate copy once more, which begins anew; or name the database that was to be copied"}
	case errors.Is(err, store.ErrNodes):
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: "stop them first, or give them the release before this one"}
	case errors.Is(err, store.ErrKeys):
		return fault.BadConfig("use the key file that this database was made with; if it is nowhere any more: grantkeeper keys replace-lost", "secret key: %v", err)
	case errors.Is(err, store.ErrDatabase):
		what, hint, _ := strings.Cut(err.Error(), "; ")
		return fault.CannotOpen(hint, "%s", what)
	case errors.Is(err, fs.ErrPermission):
		return Denied(err)
	case errors.Is(err, store.ErrParted):
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: "put the database back beside its log, or move the log away: it holds what was written last"}
	case errors.Is(err, store.ErrRestoring):
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: "run grantkeeper backup restore once more, which begins anew; or delete that file, to begin with an empty database"}
	case errors.Is(err, store.ErrDamaged):
		return fault.CannotOpen("restore a backup: grantkeeper backup restore FILE", "%v", err)
	case errors.Is(err, store.ErrForeign):
		return fault.CannotOpen("name another file, or move it away: an empty database is made where there is none", "%v", err)
	case errors.Is(err, syscall.EIO):
		return fault.CannotOpen("see the system's log about its disk", "%v", err)
	}
	return fault.CannotOpen("see that the folder exists, that this user may write in it, and that its disk has room and is not read-only", "%v", err)
}

// MendDatabase says what to do about what is the matter with PostgreSQL, and about a
// database file that was moved. The server goes on by itself then.
func MendDatabase(cause string) string {
	switch cause {
	case store.MovedFile:
		return "put it back where it was, or start the server anew with the one that is right"
	case store.FullDisk:
		return "make room for PostgreSQL's tables and its log"
	case store.NoConnection:
		return "raise max_connections: each node opens up to 20, or pool_max_conns in database.url if that is more"
	case store.ReadOnly:
		return "see default_transaction_read_only, or name the primary in database.url"
	case store.NoRight:
		return "GRANT SELECT, INSERT, UPDATE, DELETE on all tables to the user of database.url"
	case store.NoTable:
		return "restore the database, or name the right one in database.url"
	case store.Slow:
		return "see pg_stat_activity: somebody may hold a table or a row, or the network may be slow"
	}
	return "see PostgreSQL's log"
}
