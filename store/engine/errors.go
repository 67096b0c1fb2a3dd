package engine

import (
	"errors"

	"github.com/grantkeeper/grantkeeper/directory"
)

// Errors that a caller decides on.
var (
	ErrNotFound    = directory.ErrNotFound
	ErrConflict    = directory.ErrConflict
	ErrChanged     = errors.New("it is not any more as it was read")
	ErrUnavailable = errors.New("the database cannot answer now")   // 503: nothing that anybody may rely on has happened
	ErrOutcome     = errors.New("nobody knows whether it was done") // beside ErrUnavailable: asked again, it may be the second time
	ErrAnswered    = errors.New("the page was answered and its code exchanged")
	ErrNotAllowed  = errors.New("a fact that this stands on has ended")
	ErrRules       = errors.New("these rules cannot be") // with a sentence for whoever wrote them
	ErrFull        = errors.New("there are too many")
	ErrNotEmpty    = errors.New("there is a database already") // refuses to write over it
	ErrRow         = errors.New("a row cannot be copied")
	ErrAhead       = errors.New("time would go back there")
	ErrInUse       = errors.New("another process works on this database")
	ErrLogBeside   = errors.New("what was written last is beside it, and would be lost")
	ErrParted      = errors.New("the log of a database that is gone, empty or replaced")
	ErrRestoring   = errors.New("a restore into its place was begun, and not finished")
	ErrDamaged     = errors.New("the database is damaged")
	ErrNodes       = errors.New("nodes of an older release work on this database")
	ErrKeys        = errors.New("the secret keys are not the database's")
)
