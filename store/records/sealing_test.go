package records_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/journal/chain"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/records"
)

// journaled writes entries of one kind.
func (h house) journaled(t testing.TB, n int) {
	t.Helper()
	for few := n; few > 0; few -= min(few, 500) {
		if err := h.change(func(tx *engine.Tx) error {
			entries := make([]engine.Event, min(few, 500))
			for i := range entries {
				entries[i] = engine.Event{Kind: journal.SignInFailed, Person: "ada", Address: "192.0.2.1", Detail: "wrong <password>\xff"}
			}
			return tx.Journal(entries...)
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// late writes an entry with the ID of a while ago, as one that was long under way.
func (h house) late(t testing.TB, ago time.Duration) (id string) {
	t.Helper()
	var ids engine.EventIDs
	at := h.Now().Add(-ago)
	e := engine.Event{ID: ids.Next(at), At: at.Unix(), Kind: journal.SignInFailed, Person: "tor"}
	if err := h.change(func(tx *engine.Tx) error {
		_, err := tx.Exec(engine.InsertEvent, e.Values()...)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return e.ID
}

func (h house) seal(t testing.TB) records.Sealed {
	t.Helper()
	out, err := h.Seal(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// proved verifies what the store exports.
func (h house) proved(t testing.TB, since int64, anchors ...chain.Anchor) *chain.Report {
	t.Helper()
	var out bytes.Buffer
	if err := h.WriteProof(context.Background(), since, &out); err != nil {
		t.Fatal(err)
	}
	r, err := chain.Verify(func() (io.ReadCloser, error) { return io.NopCloser(&out), nil }, anchors)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// whole is proved, without faults and with all entries in a block or told as not sealed.
func (h house) whole(t testing.TB, anchors ...chain.Anchor) *chain.Report {
	t.Helper()
	r := h.proved(t, 0, anchors...)
	if len(r.Faults) > 0 || r.AgreedCount != len(anchors) {
		t.Fatalf("%+v", r)
	}
	if n := h.counts(t, "journal"); r.Entries+r.Unsealed != n {
		t.Fatalf("%d entries, of which the export has %+v", n, r)
	}
	return r
}

func (h house) counts(t testing.TB, table string) int64 {
	t.Helper()
	return int64(h.rows(t, `SELECT COUNT(*) FROM `+table))
}

// Decision J4. Entries are sealed once they are settled, in blocks that are full where there are
// many, and what is sealed once stays so.
func TestSeal(t *testing.T) {
	h := furnished(t)
	if r := h.whole(t); r.To != 0 || r.Unsealed == 0 {
		t.Errorf("before: %+v", r)
	}
	if got := h.seal(t); !got.Mine || got.Blocks != 0 || got.Newest != (chain.Anchor{}) {
		t.Errorf("not settled: %+v", got)
	}
	h.clock.add(records.SealAfter + time.Second)
	first := h.seal(t)
	if first.Blocks != 1 || first.Entries == 0 || first.Newest.Number != 1 {
		t.Errorf("settled: %+v", first)
	}
	if again := h.seal(t); again.Blocks != 0 || again.Newest != first.Newest {
		t.Errorf("again: %+v", again)
	}
	h.journaled(t, 2500)
	h.clock.add(records.SealAfter + time.Second)
	h.journaled(t, 2)
	second := h.seal(t)
	if second.Blocks != 3 || second.Entries != 2500 || second.Newest.Number != 4 || second.Newest.Total != int64(first.Entries+2500) {
		t.Errorf("many: %+v", second)
	}
	if r := h.whole(t, first.Newest, second.Newest); r.Unsealed != 2 || r.To != 4 || r.Newest != second.Newest {
		t.Errorf("%+v", r)
	}
	if a, err := h.Anchor(context.Background()); err != nil || a != second.Newest {
		t.Errorf("anchor: %v, %v", a, err)
	}
	blocks, next, err := h.Blocks(context.Background(), 0, 3)
	if err != nil || len(blocks) != 3 || next != 2 || blocks[0].Anchor() != second.Newest {
		t.Errorf("blocks: %+v, %d, %v", blocks, next, err)
	}
	if blocks, next, err = h.Blocks(context.Background(), next, 3); err != nil || len(blocks) != 1 || next != 0 || blocks[0].Anchor() != first.Newest {
		t.Errorf("the rest: %+v, %d, %v", blocks, next, err)
	}
	if r := h.proved(t, h.Now().Unix()-30, first.Newest); len(r.Faults) > 0 || r.From != 2 || r.AgreedCount != 1 {
		t.Errorf("since: %+v", r)
	}
	if r := h.proved(t, h.Now().Unix()+5); len(r.Faults) > 0 || r.From != 0 || r.Unsealed != 0 {
		t.Errorf("since later: %+v", r)
	}
}

// Entries that come late are sealed, however late, and told as not sealed before.
func TestSealWhatComesLate(t *testing.T) {
	h := furnished(t)
	for range 5 {
		h.journaled(t, 1)
		h.clock.add(25 * time.Hour)
	}
	h.seal(t)
	if n := h.counts(t, "journal_block"); n < 5 {
		t.Errorf("%d blocks: those of days lie together", n)
	}
	h.clock.add(25 * time.Hour) // sealed entries are behind by less than this
	h.journaled(t, 1)
	h.clock.add(time.Minute)
	before := h.seal(t)
	h.late(t, 2*time.Minute)
	h.late(t, 5*time.Minute)
	if r := h.whole(t); r.Unsealed != 2 {
		t.Errorf("%+v", r)
	}
	if got := h.seal(t); got.Blocks != 1 || got.Entries != 2 {
		t.Errorf("%+v", got)
	}
	h.late(t, 26*time.Hour)
	h.late(t, 3*25*time.Hour)
	h.clock.add(time.Minute)
	for range 3 {
		h.seal(t)
	}
	if r := h.whole(t, before.Newest); r.Unsealed != 0 {
		t.Errorf("%+v", r)
	}
}

// What somebody changes in the rows is named, by its ID.
func TestChangedRowsAreNamed(t *testing.T) {
	h := furnished(t)
	h.journaled(t, 10)
	h.clock.add(time.Minute)
	anchor := h.seal(t).Newest
	h.journaled(t, 5)
	h.clock.add(time.Minute)
	h.seal(t)
	events, _, err := h.Events(context.Background(), records.EventFilter{Limit: 1000, OldestFirst: true})
	if err != nil {
		t.Fatal(err)
	}
	altered, missing := events[3].ID, events[5].ID
	h.ran(t, `UPDATE journal SET person = 'eve' WHERE id = $1`, altered)
	h.ran(t, `DELETE FROM journal WHERE id = $1`, missing)
	r := h.proved(t, 0, anchor)
	named := map[string]chain.Kind{}
	for _, f := range r.Faults {
		named[f.Entry] = f.Kind
	}
	if len(r.Faults) != 2 || named[altered] != chain.Altered || named[missing] != chain.Missing {
		t.Errorf("%+v", r.Faults)
	}
	h.ran(t, `UPDATE journal_block SET entries = entries + 1 WHERE number = 1`)
	if r := h.proved(t, 0); len(r.Faults) == 0 || r.Faults[0].Kind != chain.BlockAltered {
		t.Errorf("a block: %+v", r.Faults)
	}
	h.ran(t, `DELETE FROM journal_block WHERE number = 1`)
	if r := h.proved(t, 0, anchor); len(r.Faults) != 0 || r.From != 2 {
		t.Logf("without the first block: %+v", r)
	}
	h.ran(t, `DELETE FROM journal_block WHERE number = 2`)
	if r := h.proved(t, 0, anchor); len(r.Faults) == 0 || r.Faults[0].Kind != chain.CutOff {
		t.Errorf("without blocks: %+v", r.Faults)
	}
}

// Decision J5. Retention removes entries and the hashes of them; the blocks stay, and what is gone is
// told.
func TestSealedAndRetention(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	h.journaled(t, 5)
	h.clock.add(time.Minute)
	first := h.seal(t)
	h.clock.add(engine.JournalRetention - 10*time.Minute)
	h.journaled(t, 5)
	h.clock.add(time.Minute)
	second := h.seal(t)
	h.whole(t, first.Newest, second.Newest)
	h.clock.add(9 * time.Minute)
	if _, err := h.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	r := h.whole(t, first.Newest, second.Newest)
	if r.Gone != int64(first.Entries) || r.Entries != 5 || r.From != 1 || r.GoneBefore == 0 {
		t.Errorf("%+v", r)
	}
	var leaves int
	if err := h.Handle().Reader.QueryRow(`SELECT SUM(LENGTH(leaves)) FROM journal_block WHERE number <= $1`, first.Newest.Number).Scan(&leaves); err != nil || leaves != 0 {
		t.Errorf("%d bytes of hashes, %v", leaves, err)
	}
	h.Handle().Options.JournalRetention *= 2 // longer by now: what is gone is gone all the same
	h.whole(t, first.Newest)
	events, _, _ := h.Events(ctx, records.EventFilter{Kind: journal.SignInFailed, Limit: 1})
	h.ran(t, `DELETE FROM journal WHERE id = $1`, events[0].ID)
	if r := h.proved(t, 0); len(r.Faults) != 1 || r.Faults[0].Kind != chain.Missing {
		t.Errorf("one that is not due: %+v", r.Faults)
	}
}

// Sealing while others write, sweep and export: each entry is in one block.
func TestSealBesideOthers(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	// So many writes a round: on a machine where verifying is slow, writers that go on for as
	// long as it takes write ever more that is to be verified.
	const writes = 12
	turns, anchors := make(chan struct{}, writes), []chain.Anchor{}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for range turns {
				h.journaled(t, 7)
				h.clock.add(3 * time.Second)
			}
		})
	}
	for range rounds(25) {
		for range writes {
			turns <- struct{}{}
		}
		a := h.seal(t).Newest
		if a.Number > 0 && (len(anchors) == 0 || anchors[len(anchors)-1] != a) {
			anchors = append(anchors, a)
		}
		if r := h.proved(t, 0, anchors...); len(r.Faults) > 0 || r.AgreedCount != len(anchors) {
			t.Errorf("%+v", r)
		}
		if _, err := h.Sweep(ctx); err != nil {
			t.Error(err)
		}
	}
	close(turns)
	all.Wait()
	h.clock.add(time.Minute)
	h.seal(t)
	if r := h.whole(t, anchors...); r.Unsealed > 0 {
		t.Errorf("%+v", r)
	}
}

// Two that seal at once, each of which takes itself for the only one: one adds the block,
// the other nothing.
func TestTwoSealersAtOnce(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	for round := range rounds(20) {
		h.journaled(t, 3)
		h.clock.add(time.Minute)
		last, err := h.NewestBlock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		highest, err := h.Highest(ctx, last.Number)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := h.Handle().Reader.Query(records.SelectEvent+` WHERE id > $1 ORDER BY id`, highest)
		entries, err := engine.ListOf(rows, err, records.ScanEvent)
		if err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		errs := make([]error, 3)
		for i := range errs {
			both.Go(func() { _, errs[i] = h.AddBlock(ctx, last, entries) })
		}
		both.Wait()
		added := 0
		for _, err := range errs {
			switch {
			case err == nil:
				added++
			case !errors.Is(err, store.ErrConflict):
				t.Errorf("round %d: %v", round, err)
			}
		}
		if added != 1 {
			t.Errorf("round %d: %d added the block: %v", round, added, errs)
		}
	}
	h.whole(t)
}

// A sealer that is stopped between blocks has left whole ones, and the next goes on.
func TestSealerIsStopped(t *testing.T) {
	h := furnished(t)
	h.journaled(t, 3500)
	h.clock.add(time.Minute)
	for blocks := range 4 {
		ctx, cancel := context.WithCancel(context.Background())
		last, _ := h.NewestBlock(ctx)
		highest, _ := h.Highest(ctx, last.Number)
		rows, err := h.Handle().Reader.Query(records.SelectEvent+` WHERE id > $1 ORDER BY id LIMIT 2000`, highest)
		entries, err := engine.ListOf(rows, err, records.ScanEvent)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		var out records.Sealed
		if _, err := h.SealAll(ctx, last, entries, &out); !errors.Is(err, context.Canceled) || out.Blocks != 1 {
			t.Errorf("stopped after block %d: %+v, %v", blocks, out, err)
		}
		if r := h.whole(t); r.To != int64(blocks+1) {
			t.Errorf("after block %d: %+v", blocks, r)
		}
	}
	h.seal(t)
	if r := h.whole(t); r.Unsealed > 0 {
		t.Errorf("%+v", r)
	}
}

// Entries of before the first block, as of a database that was migrated, are sealed
// like all others; a clock that goes back changes nothing.
func TestSealOldEntries(t *testing.T) {
	h := furnished(t)
	h.journaled(t, 1200)
	h.ran(t, `DELETE FROM journal_block`)
	h.clock.add(time.Hour)
	first := h.seal(t)
	if first.Blocks != 2 {
		t.Errorf("%+v", first)
	}
	h.clock.add(-30 * time.Minute)
	h.journaled(t, 3)
	h.clock.add(31 * time.Minute)
	h.seal(t)
	if r := h.whole(t, first.Newest); r.Unsealed > 0 {
		t.Errorf("%+v", r)
	}
}

// A backup that was put back goes on with another history than the one that was lost: an
// anchor of the lost one agrees no more, and one from before does.
func TestAnchorsAfterARestore(t *testing.T) {
	if !embedded() {
		return
	}
	ctx, h := context.Background(), furnished(t)
	h.clock.add(time.Minute)
	kept := h.seal(t).Newest
	backup, to := filepath.Join(t.TempDir(), "backup.db"), filepath.Join(t.TempDir(), "to.db")
	if _, err := h.Backup(ctx, backup); err != nil {
		t.Fatal(err)
	}
	h.journaled(t, 3)
	h.clock.add(time.Minute)
	lost := h.seal(t).Newest
	if _, err := store.Restore(ctx, store.RestoreOptions{From: backup, To: to, Ring: h.ring, Now: h.clock.Now()}); err != nil {
		t.Fatal(err)
	}
	h.at.Path = to
	back := h.open(t)
	back.clock.add(time.Minute)
	back.seal(t)
	r := back.proved(t, 0, kept, lost)
	if r.AgreedCount != 1 || len(r.Faults) != 1 || r.Faults[0].Kind != chain.AgainstAnchor || r.Restored == 0 {
		t.Errorf("%+v", r)
	}
}

// A database whose schema has no blocks yet keeps its entries, and they are sealed.
func TestSealAfterAMigration(t *testing.T) {
	h := furnished(t)
	h.journaled(t, 5)
	for _, m := range store.Migrations() { // the tables and columns that it and later ones make
		if m.Version <= 7 {
			continue
		}
		for _, made := range regexp.MustCompile(`(?m)^CREATE (?:UNIQUE )?INDEX (\w+)`).FindAllStringSubmatch(m.SQL+m.Postgres, -1) {
			h.ran(t, `DROP INDEX IF EXISTS `+made[1])
		}
		for _, made := range regexp.MustCompile(`(?m)^CREATE TABLE (\w+)`).FindAllStringSubmatch(m.SQL+m.Postgres, -1) {
			h.ran(t, `DROP TABLE `+made[1])
		}
		for _, added := range regexp.MustCompile(`(?m)^ALTER TABLE (\w+) ADD COLUMN (\w+)`).FindAllStringSubmatch(m.SQL+m.Postgres, -1) {
			h.ran(t, `ALTER TABLE `+added[1]+` DROP COLUMN `+added[2])
		}
	}
	h.ran(t, `UPDATE meta SET value = '7' WHERE name = 'schema'`)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	o := store.MigrateOptions{Path: h.at.Path}
	if !embedded() {
		o = store.MigrateOptions{URL: h.at.URL, Ring: h.ring, Release: "0.9.0"}
	}
	if from, to, err := store.Migrate(context.Background(), o); from != 7 || to != store.SchemaVersion || err != nil {
		t.Fatal(from, to, err)
	}
	h = h.open(t)
	h.clock.add(time.Minute)
	if got := h.seal(t); got.Blocks != 1 {
		t.Errorf("%+v", got)
	}
	if r := h.whole(t); r.Unsealed > 0 || r.Entries < 5 {
		t.Errorf("%+v", r)
	}
}

// What the names of times and of blocks are to the last digit.
func TestJournalIDs(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	var ids engine.EventIDs
	if id := ids.Next(at); records.JournalID(at) > id || records.JournalID(at.Add(time.Millisecond)) <= id {
		t.Errorf("%s is not of its time", id)
	}
	if got, want := records.Later(records.JournalID(at), time.Hour), records.JournalID(at.Add(time.Hour)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := records.JournalID(time.Unix(-5, 0)); got != strings.Repeat("0", chain.IDLen) {
		t.Error(got)
	}
	if got := records.Later("x", time.Hour); got != "x" {
		t.Error(got)
	}
	if fmt.Sprint(len(records.JournalID(at))) != fmt.Sprint(chain.IDLen) {
		t.Error(records.JournalID(at))
	}
}
