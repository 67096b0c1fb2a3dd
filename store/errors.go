package store

import (
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/schema"
)

// Errors that a caller decides on.
var (
	ErrNotFound    = engine.ErrNotFound
	ErrConflict    = engine.ErrConflict
	ErrChanged     = engine.ErrChanged
	ErrUnavailable = engine.ErrUnavailable // 503: nothing that anybody may rely on has happened
	ErrAnswered    = engine.ErrAnswered
	ErrNotAllowed  = engine.ErrNotAllowed
	ErrInUse       = engine.ErrInUse
	ErrParted      = engine.ErrParted
	ErrDamaged     = engine.ErrDamaged
	ErrNodes       = engine.ErrNodes
	ErrKeys        = engine.ErrKeys
	ErrSchema      = schema.ErrVersion
	ErrForeign     = schema.ErrForeign // not a database of Grantkeeper
)
