package records_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/records"
)

// Strangers who are refused without end fill no disk: an hour takes so many
// entries of a kind, and those of other kinds stay.
func TestJournalOfRefusalsIsBounded(t *testing.T) {
	defer func(was int) { *records.MostRecorded = was }(*records.MostRecorded)
	*records.MostRecorded = 5
	h := furnished(t)
	kept := func(kind string) int {
		t.Helper()
		if err := h.Ready(context.Background()); err != nil { // what was noted is written by then
			t.Fatal(err)
		}
		return h.rows(t, `SELECT COUNT(*) FROM journal WHERE kind = '`+kind+`'`)
	}
	for n := range 100 {
		h.Record(engine.Event{Kind: "registration_refused", Detail: fmt.Sprint(n)})
	}
	h.Record(engine.Event{Kind: "signin_failed"})
	if refused, failed := kept("registration_refused"), kept("signin_failed"); refused != 5 || failed != 1 {
		t.Errorf("%d refusals and %d failures, want 5 and 1", refused, failed)
	}
	h.clock.add(time.Hour)
	for n := range 100 {
		h.Record(engine.Event{Kind: "registration_refused", Detail: fmt.Sprint(n)})
	}
	if n := kept("registration_refused"); n != 10 {
		t.Errorf("%d after the next hour, want 10", n)
	}
	// What changes something has its entry, however many there were.
	for n := range 10 {
		if err := h.Enter(context.Background(), store.Entry{Value: fmt.Sprint("cookie ", n), Person: "ada"}, store.Act{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := kept("signin_succeeded"); n != 10 {
		t.Errorf("%d sign-ins, want 10", n)
	}
}
