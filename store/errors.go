package store

import (
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/oversight"
	"github.com/grantkeeper/grantkeeper/store/schema"
)

// Errors that a caller decides on.
var (
	ErrNotFound    = engine.ErrNotFound
	ErrConflict    = engine.ErrConflict
	ErrChanged     = engine.ErrChanged
	ErrUnavailable = engine.ErrUnavailable // 503: nothing that anybody may rely on has happened
	ErrOutcome     = engine.ErrOutcome     // beside ErrUnavailable: asked again, it may be the second time
	ErrAnswered    = engine.ErrAnswered
	ErrNotAllowed  = engine.ErrNotAllowed
	ErrInUse       = engine.ErrInUse
	ErrLogBeside   = engine.ErrLogBeside
	ErrParted      = engine.ErrParted
	ErrRestoring   = engine.ErrRestoring
	ErrDamaged     = engine.ErrDamaged
	ErrNodes       = engine.ErrNodes
	ErrKeys        = engine.ErrKeys
	ErrNotEmpty    = engine.ErrNotEmpty
	ErrRow         = engine.ErrRow
	ErrAhead       = engine.ErrAhead
	ErrUnfinished  = schema.ErrUnfinished
	ErrSchema      = schema.ErrVersion
	ErrForeign     = schema.ErrForeign // not a database of Grantkeeper
	ErrRules       = engine.ErrRules   // with a sentence for whoever wrote them, a PolicyError
	ErrAppRule     = oversight.ErrAppRule
	ErrCeiling     = oversight.ErrCeiling
	ErrEndDate     = oversight.ErrEndDate
	ErrDeclined    = oversight.ErrDeclined
	ErrFull        = oversight.ErrFull
)
