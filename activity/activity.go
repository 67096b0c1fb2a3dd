// Package activity says what is kept of the calls that a client makes, and what of it is
// told to whom. A call that changes something is a Record by itself, and so is one that
// is refused; calls that only read are counted by the hour, in a Tally. Where records may
// be missing there is a Gap.
package activity

import (
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/identity"
)

// Keep is how long records are kept unless the configuration says otherwise, and at most: an
// approval that has ended is listed for as long.
const Keep = 90 * 24 * time.Hour

// Way is the door through which a call came.
type Way string

const (
	API     Way = "api"     // passed on to a service
	MCP     Way = "mcp"     // passed on to an MCP server
	Gateway Way = "gateway" // allowed to another proxy, which passes it on
)

// Outcome is what became of a call.
type Outcome string

const (
	Done       Outcome = "done"       // the service did it
	Failed     Outcome = "failed"     // the service says that it did not
	Refused    Outcome = "refused"    // the approval, the organization or the service does not allow it
	Unanswered Outcome = "unanswered" // the service was asked, and did not answer: nobody knows
	Allowed    Outcome = "allowed"    // another proxy was told that it may pass: what became of it is not seen here
)

// OutcomeOf gives what the status of a service's answer says of a call.
func OutcomeOf(status int) Outcome {
	switch {
	case status >= 200 && status < 400:
		return Done
	case status == 403:
		return Refused
	case status >= 400 && status < 500:
		return Failed
	}
	return Unanswered // of 500 and beyond, a part may be done
}

// A Record is one call that changed something, may have, or was refused; of a call that
// touched several items, each has its own.
type Record struct {
	ID       string // sorts by time; "" until it is queued
	At       int64  // Unix seconds
	Approval approval.ID

	Way     Way
	Outcome Outcome
	Status  int    // of the service's answer; 0 is none
	Method  string // of HTTP
	Path    string // without the query; as Path gives it
	Tool    string // the MCP tool that was called, or another method of MCP
	Reason  string // why it was refused, as package rules says it

	Item identity.Item // what the service says was touched; zero where it says nothing
}

// Told reports whether the service said what was touched: a role alone may be what rules
// say of the call.
func (r Record) Told() bool { return r.Item != identity.Item{Role: r.Item.Role} }

// A Tally counts calls of one approval in one hour that are not recorded one by one.
type Tally struct {
	Approval approval.ID
	Hour     int64 // Unix seconds at which it begins
	What     What
	Kind     string // the service's word; "" where it said none
	Calls    int64
	Items    int64 // that the service counted among them
	Private  int64 // of these
	Personal int64 // of these
}

// What says what a Tally counts.
type What string

const (
	Reads   What = "reads"
	Changes What = "changes" // beyond those that are recorded one by one
	Refusal What = "refused" // the same
	Unseen  What = "unseen"  // that another proxy was told may pass, and did not say what they are
)

// Bounds of what is kept of one approval in one day on each node: what comes beyond is
// counted by the hour.
const (
	MostChanges  = 20_000
	MostRefusals = 1_000
	MostKinds    = 20 // words of a service in one hour; more are counted under none
)

// Hour gives the hour that a time lies in.
func Hour(at int64) int64 { return at - at%3600 }

// Day gives the number of the day that a time lies in, from 1970 on, in UTC.
func Day(at int64) int64 { return at / (24 * 3600) }

// FirstDay is the oldest day of which anything is told at a time: days before are gone at
// once, whenever their rows are deleted.
func FirstDay(now time.Time, keep time.Duration) int64 { return Day(now.Add(-keep).Unix()) }
