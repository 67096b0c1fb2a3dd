package store

import "testing"

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
