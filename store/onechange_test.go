package store

import (
	"errors"
	"testing"

	"github.com/grantkeeper/grantkeeper/store/engine"
)

// Facts change one after the other, whichever node changes them: who changes
// some holds their version, and a removal that is acknowledged meanwhile by
// another node would be of facts that are no more.
func TestChangesOfFactsWaitForOneAnother(t *testing.T) {
	if embedded() {
		return // one writer
	}
	all := nodes(t, 2)
	one, other := all[0], all[1]
	id := one.live(t, one.answer(1))
	held, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	go func() {
		done <- one.changeFacts(func(tx *Tx) error {
			if _, err := tx.Exec(`UPDATE membership SET admin = 1 - admin WHERE person = $1 AND organization = $2`, "ada", "nordlys"); err != nil {
				return err
			}
			close(held)
			<-release
			return nil
		})
	}()
	<-held
	removed := make(chan error, 1)
	go func() { removed <- other.RemoveMember(ctx, "nordlys", "tor", Act{}) }()
	// It waits for the version of the facts: of another member, whose row nobody
	// holds.
	for waits := false; !waits; {
		select {
		case err := <-removed:
			t.Errorf("another change of facts went by one that is under way: %v", err)
			waits = true
			removed <- err
		default:
			waits = one.rows(t, `SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%FROM facts WHERE one = 1 FOR UPDATE%'`) > 0
		}
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := <-removed; err != nil {
		t.Error(err)
	}
	for _, h := range all {
		if !h.accepts(t, id) {
			t.Error("an approval of somebody else is not accepted")
		}
	}
}

// What is changed apart from the facts is refused in the words of whoever refuses, and stands
// only where nobody does.
func TestWhatIsChangedApart(t *testing.T) {
	h := furnished(t)
	failed := errors.New("failed")
	for _, tt := range []struct {
		name string
		run  func() error
		want error
	}{
		{"made", func() error { return nil }, nil},
		{"refused", func() error { return ErrNotFound }, ErrNotFound},
		{"a fault", func() error { return failed }, ErrUnavailable},
		{"a panic", func() error { panic(failed) }, ErrUnavailable},
	} {
		err := h.db.Engine.Apart(func(tx *engine.Tx) error {
			return errors.Join(tx.PutMeta("apart", tt.name), tt.run())
		})
		if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) || errors.Is(err, ErrUnavailable) != (tt.want == ErrUnavailable) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if n := h.rows(t, `SELECT COUNT(*) FROM meta WHERE name = 'apart' AND value = '`+tt.name+`'`); n != map[bool]int{true: 1}[err == nil] {
			t.Errorf("%s: %v, and %d rows", tt.name, err, n)
		}
	}
}
