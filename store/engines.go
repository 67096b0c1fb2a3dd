package store

import "github.com/grantkeeper/grantkeeper/store/engine"

// What doors and commands hand to engines and get back of them, by their names here.
type (
	Options   = engine.Options
	Act       = engine.Act
	Proof     = engine.Proof
	Event     = engine.Event
	Access    = engine.Access
	Asked     = engine.Asked
	APIKeyID  = engine.APIKeyID
	ClientUse = engine.ClientUse
	Node      = engine.Node
	Refused   = engine.Refused
	Swept     = engine.Swept
)

// JournalRetention is how long the journal keeps its entries unless the
// options say otherwise.
const JournalRetention = engine.JournalRetention

// AttemptsKeep and AttemptsMax are how long, and how many, attempts to connect are kept
// unless the options say otherwise.
const (
	AttemptsKeep = engine.AttemptsKeep
	AttemptsMax  = engine.AttemptsMax
)

// Causes of Refused that an operator can mend.
const (
	FullDisk     = engine.FullDisk
	BadDisk      = engine.BadDisk
	NoConnection = engine.NoConnection
	ReadOnly     = engine.ReadOnly
	NoRight      = engine.NoRight
	NoTable      = engine.NoTable
	Slow         = engine.Slow
)

// What a used refresh token that comes back looks like.
const (
	LooksLikeCopies = engine.LooksLikeCopies
	LooksLikeTheft  = engine.LooksLikeTheft
	LooksUnknown    = engine.LooksUnknown
)
