package engine

import (
	"log/slog"
	"time"

	"github.com/grantkeeper/grantkeeper/token"
)

const (
	// JournalRetention is how long the journal keeps its entries unless the
	// options say otherwise.
	JournalRetention = 365 * 24 * time.Hour
	// AttemptsKeep is how long attempts to connect are kept, unless the options say
	// otherwise, and AttemptsMax how many where they say no number of their own.
	AttemptsKeep = 7 * 24 * time.Hour
	AttemptsMax  = 100_000
	// PageLife bounds how long a page can be answered again, with room: until
	// then an approval whose code has expired is left for that (decision A12).
	PageLife = 35 * time.Minute
	// MaxBatch bounds how many operations share a commit.
	MaxBatch = 256
)

// Options say where the rows are and what belongs to them.
type Options struct {
	Path string           // of the SQLite file; empty keeps everything in memory
	URL  string           // of a PostgreSQL database, postgres://; then Path is not asked
	Ring *token.Ring      // its keys must be those of the database (decision T11)
	Now  func() time.Time // the machine's clock; nil is time.Now
	Log  *slog.Logger     // nil discards

	Migrate bool   // take an older schema forward first
	Release string // which one this is, for the database to say who has migrated it

	SessionIdle time.Duration // 0 is 12 hours (decision S2)
	SessionMax  time.Duration // 0 is 30 days

	Impersonal       bool          // the service has no personal items: no authority has any (decision P4)
	MaxDays          int           // that an approval lasts at most; 0 is no bound (decision P17)
	EndUnusedAfter   time.Duration // ends approvals that nobody used for so long; 0 ends none (decision P11)
	JournalRetention time.Duration // how long the journal keeps its entries; 0 is 365 days
	AttemptsKeep     time.Duration // how long attempts are kept; 0 is 7 days
	AttemptsMax      int           // how many; 0 keeps none

	ActivityKeep time.Duration // how long what calls did is kept; 0 is none

	// Journaled, unless nil, is told of every entry of the journal once it is
	// durable; Took, how long the database took for something, by a few names.
	// Journaled is called by those who write, on PostgreSQL by several at once,
	// Took by whoever asks, so they must not wait.
	Journaled func(Event)
	Took      func(query string, took time.Duration)
	Swept     func(Swept) // unless nil, is told what each sweep has done, also one that failed

	// MaxStaleness is how old the rows and facts may be by which Check and
	// CheckAPIKey accept. 0 is exact: they are read after the request arrived.
	// What is missing or refused is asked for first (decision B8). On PostgreSQL only.
	MaxStaleness time.Duration

	// DatabaseTime stands in for the database's own clock, in tests that let
	// time pass by themselves.
	DatabaseTime func() time.Time
}

// Swept counts what a sweep has done.
type Swept struct {
	Clients   int // gone: 14 days without an approval (spec 3), or deleted and nothing left under them
	Ended     int // rows whose end was written, since their facts were lost or whose code expired
	Approvals int // ended ones deleted after 90 days
	Sessions  int
	Resets    int // links to set a password that were not used
	Events    int // of the journal
	Activity  int // rows of what calls did
}

// Sum is how many rows that is in all.
func (s Swept) Sum() int {
	return s.Clients + s.Ended + s.Approvals + s.Sessions + s.Resets + s.Events + s.Activity
}
