package engine

import "time"

// Refused is what PostgreSQL did last when it could not do what was asked. Its
// zero value is that there is nothing to tell.
type Refused struct {
	Cause string    // what is the matter with the database, such as FullDisk
	At    time.Time // when it refused last
	Over  bool      // it has taken a write with an entry of the journal since
}

// Causes that an operator can mend.
const (
	FullDisk     = "its disk is full"
	BadDisk      = "its disk cannot be read or written" // a limit on the size of files too
	NoConnection = "it has no connection left"
	ReadOnly     = "it is read-only"
	NoRight      = "this user lacks a right"
	NoTable      = "a table is gone"
	Slow         = "it does not answer in time"
)
