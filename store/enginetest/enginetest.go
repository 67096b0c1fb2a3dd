// Package enginetest is what an engine of the store has to show: one table of
// behaviours, the same for every engine, through what package store exports. An
// engine's own tests are about how it does it; these are about what it does.
//
// What only an engine can bring about, such as a disk that is full, is a knob of its
// Place. One that an engine does not have is named in Harness.Cannot with the reason,
// and the behaviours that need it are not run: Table says so, and a test compares it
// with testdata/table.txt.
package enginetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/store"
)

// A Harness gives the suite an engine.
type Harness struct {
	Name string
	// Place makes an empty place for a database. What it takes ends with the test.
	Place func(t testing.TB) Place
	// Cannot says of each knob that the engine's places do not have why it has none.
	Cannot map[Knob]string
}

// A Place is where one database of the engine lies, with the knobs of that place. All
// func fields but Options are knobs, and nil for those that Harness.Cannot names.
type Place struct {
	// Options completes options with where the rows are and whose time counts:
	// o.Now is the clock of the machine, and of the database's machine.
	Options func(o store.Options) store.Options

	// Refuse lets a statement fail, as a database does that cannot, where a row of the
	// table is inserted, updated or deleted for which the SQL condition holds.
	Refuse func(t testing.TB, verb, table, condition string) (lift func())
	// Abort lets every commit fail: nothing of it stands.
	Abort func(t testing.TB) (lift func())
	// Small is an empty place on a disk that Fill fills up.
	Small func(t testing.TB) Place
	Fill  func(t testing.TB) (free func())
	// Crash gives the place as it is when the machine stops now and starts again; the
	// store on it is closed, or goes on if the engine's stores outlive it.
	Crash func(t testing.TB) Place
	// Mislead gives options through which the answer to the next commit after
	// arm is lost: it was made, or it was not.
	Mislead func(t testing.TB) (through func(store.Options) store.Options, arm func(made bool))
}

// A Knob is what an engine may be unable to bring about.
type Knob string

// Knobs without a func of Place are what the suite does by itself.
const (
	Refuse   Knob = "a statement that fails"
	Abort    Knob = "a commit that fails"
	Fill     Knob = "a full disk"
	Crash    Knob = "a machine that stops"
	Mislead  Knob = "a commit of unknown outcome"
	Beside   Knob = "two processes on one database"
	Overlap  Knob = "facts that change while a move is computed"
	KeepTime Knob = "a clock that was set back while nobody was there"
)

func (p Place) knobs() map[Knob]bool {
	return map[Knob]bool{
		Refuse: p.Refuse != nil, Abort: p.Abort != nil, Fill: p.Small != nil,
		Crash: p.Crash != nil, Mislead: p.Mislead != nil,
	}
}

// A behaviour is a row of the table: one sentence that holds for every engine.
type behaviour struct {
	name  string
	needs Knob // or ""
	show  func(t *testing.T, h Harness)
}

var behaviours = slices.Concat(moves, proofs, refusedChanges, factsThatEnd, documents, requests, notes, lists, over, restarts, times, connecting)

// Run runs the table on an engine.
func Run(t *testing.T, h Harness) {
	has := h.Place(t).knobs()
	for knob, is := range has {
		if why := h.Cannot[knob]; is == (why != "") {
			t.Fatalf("%s, %s: the place has it: %t, and Cannot says %q", h.Name, knob, is, why)
		}
	}
	for _, b := range behaviours {
		if h.Cannot[b.needs] == "" {
			t.Run(b.name, func(t *testing.T) { b.show(t, h) })
		}
	}
}

// Table is what each engine shows, and what it cannot show and why, for people to
// review.
func Table(all ...Harness) string {
	var b strings.Builder
	for _, row := range behaviours {
		fmt.Fprintln(&b, row.name)
		for _, h := range all {
			if why := h.Cannot[row.needs]; why != "" {
				fmt.Fprintf(&b, "\tnot on %s, %s: %s\n", h.Name, row.needs, why)
			}
		}
	}
	return b.String()
}
