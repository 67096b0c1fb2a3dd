package store

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// What a database can never write of what nobody waits for is lost, and nothing that is
// written with it. What it refuses for another reason is tried again, and holds up nothing.
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
	refused := func(code, detail string, most int) func(*engine.Tx) error {
		tries := 0
		return func(tx *engine.Tx) error {
			if tries++; tries > most {
				return noted(detail)(tx)
			}
			_, err := tx.Exec(fmt.Sprintf(`DO $$ BEGIN RAISE EXCEPTION 'planted' USING ERRCODE = '%s'; END $$`, code))
			return err
		}
	}
	want := []string{"after", "before", "deadlock", "other password"}
	all := []func(*engine.Tx) error{
		noted("before"), bad, refused("40P01", "deadlock", 2), refused("28P01", "other password", 2), refused("XX001", "never", math.MaxInt), noted("after"),
	}
	p.Later(func(*engine.Tx) error { close(begun); <-release; return nil }, nil)
	<-begun
	for _, run := range all {
		p.Later(run, nil)
	}
	close(release)
	for end := time.Now().Add(time.Minute); ; {
		if err := h.Ready(ctx); err != nil && !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		all, _, err := h.Events(ctx, EventFilter{Kind: journal.RateLimited})
		ok(t, err)
		var got []string
		for _, e := range all {
			got = append(got, e.Detail)
		}
		if slices.Sort(got); slices.Equal(got, want) {
			return
		} else if time.Now().After(end) {
			t.Fatalf("%q, want %q", got, want)
		}
	}
}
