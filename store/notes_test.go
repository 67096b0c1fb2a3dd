package store

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// What a database can never write of what nobody waits for is lost, and nothing that is
// written with it.
func TestNoteThatCannotBeWritten(t *testing.T) {
	if embedded() {
		return // each note is undone by itself there
	}
	h := nodes(t, 1)[0]
	p, begun, release := h.postgres(), make(chan bool), make(chan bool)
	noted := func(detail string) func(*engine.Tx) error {
		return func(tx *engine.Tx) error {
			return tx.Journal(Event{Kind: journal.RateLimited, Detail: detail})
		}
	}
	bad := func(tx *engine.Tx) error {
		_, err := tx.Exec(`SELECT 1/0`)
		return err
	}
	tries := 0
	deadlock := func(tx *engine.Tx) error { // is tried again
		if tries++; tries > 2 {
			return noted("later")(tx)
		}
		_, err := tx.Exec(`DO $$ BEGIN RAISE EXCEPTION 'deadlock' USING ERRCODE = '40P01'; END $$`)
		return err
	}
	p.Later(func(*engine.Tx) error { close(begun); <-release; return nil }, nil)
	<-begun
	for _, run := range []func(*engine.Tx) error{noted("before"), bad, deadlock, noted("after")} {
		p.Later(run, nil)
	}
	close(release)
	for end := time.Now().Add(20 * time.Second); ; {
		if err := h.Ready(ctx); err != nil && !errors.Is(err, ErrUnavailable) || time.Now().After(end) {
			t.Fatal(err)
		}
		all, _, err := h.Events(ctx, EventFilter{Kind: journal.RateLimited})
		ok(t, err)
		var got []string
		for _, e := range all {
			got = append(got, e.Detail)
		}
		if slices.Contains(got, "later") {
			if slices.Sort(got); !slices.Equal(got, []string{"after", "before", "later"}) {
				t.Errorf("%q", got)
			}
			return
		}
	}
}
