package store

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/store/sqlite"
	"github.com/grantkeeper/grantkeeper/token"
)

// backup makes one in a folder of the test.
func (h house) backup(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "backup.db")
	if _, err := h.Backup(context.Background(), name); err != nil {
		t.Fatal(err)
	}
	return name
}

// restored puts a backup into a folder of its own and opens it.
func restored(t testing.TB, h house, backup string, keep bool) (house, Restored) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "restored.db")
	out, err := Restore(context.Background(), RestoreOptions{From: backup, To: to, Ring: h.ring, KeepApprovals: keep, Now: h.Now(), Act: Act{Actor: "operator", Reason: "drill"}})
	if err != nil {
		t.Fatal(err)
	}
	return open(t, to, h.clock), out
}

// Case S-14: backup restored from yesterday, all approvals end, unless asked
// otherwise.
func TestS14RestoreEndsAllApprovals(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	kept, revoked := h.live(t, h.answer(1)), h.live(t, h.answer(2))
	if err := h.AddSession(context.Background(), "value", "ada", Act{}); err != nil {
		t.Fatal(err)
	}
	h.revivable(t)
	backup := h.backup(t)
	h.clock.add(24 * time.Hour)
	if _, v, err := h.Apply(context.Background(), revoked, approval.End(approval.RevokedByPerson, h.Now()), Act{}); v != approval.OK || err != nil {
		t.Fatal(v, err)
	}
	after, out := restored(t, h, backup, false)
	if out.Ended != 2 || after.accepts(t, kept) || after.accepts(t, revoked) {
		t.Errorf("ended %d; of yesterday: %v, of those revoked since: %v", out.Ended, after.accepts(t, kept), after.accepts(t, revoked))
	}
	if v, err := after.refresh(kept, 1); v != approval.Over || err != nil {
		t.Errorf("a refresh after the restore: %v %v", v, err)
	}
	a, err := after.Approval(context.Background(), kept)
	if err != nil || a.State.Reason != approval.Restored || a.State.EndedAt != h.Now().Unix() {
		t.Errorf("%+v %v", a.State, err)
	}
	if kinds := after.kinds(t); !strings.Contains(kinds, "restored drill") {
		t.Errorf("journal: %s", kinds)
	}
	after.revived(t, 0)
	if out.APIKeys != 2 {
		t.Errorf("%d API keys ended", out.APIKeys)
	}
	moved, out := restored(t, h, backup, true)
	if out.Ended != 0 || !moved.accepts(t, kept) || !moved.accepts(t, revoked) || out.APIKeys != 0 {
		t.Errorf("a move ended %d", out.Ended)
	}
	moved.revived(t, 1)
}

// Two copies of a database that both run know nothing of what the other ends; a token
// that went on at one is of the future at the other, and ends it there (decision T13).
// Settled like a restore, the copy has nothing of it left.
func TestTwoCopies(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	revoked, goesOn := h.live(t, h.answer(1)), h.live(t, h.answer(2))
	done(t, h.AddSession(ctx, "value", "ada", Act{}))
	h.revivable(t)
	backup := h.backup(t)
	other, _ := restored(t, h, backup, true)
	once := func() Entry {
		return Entry{Value: "another", Person: "ada", Once: "an assertion", OnceUntil: h.Now().Add(time.Minute)}
	}
	_, _, err := h.Apply(ctx, revoked, approval.End(approval.RevokedByPerson, h.Now()), Act{})
	done(t, err)
	done(t, h.RemoveMember(ctx, "nordlys", "tor", Act{}))
	done(t, h.Reset(ctx, "link", "$argon2id$y", Act{}))
	done(t, h.Enter(ctx, once(), Act{}))
	if _, err := other.ResetOf(ctx, "link"); err != nil {
		t.Errorf("a link that was used at one: %v at the other", err)
	}
	if _, err := other.Member(ctx, "tor", "nordlys"); err != nil {
		t.Errorf("who was removed at one: %v at the other", err)
	}
	if err := other.Enter(ctx, once(), Act{}); err != nil {
		t.Errorf("an assertion that was used at one: %v at the other", err)
	}
	if !other.accepts(t, revoked) {
		t.Error("what was revoked at one has ended at the other")
	}
	for generation := range int64(2) {
		if v, err := h.refresh(goesOn, generation+1); v != approval.OK || err != nil {
			t.Fatal(v, err)
		}
	}
	if v, err := other.refresh(goesOn, 3); v == approval.OK || err != nil || other.accepts(t, goesOn) {
		t.Errorf("a token of the future: %v %v, accepted %v", v, err, other.accepts(t, goesOn))
	}
	settled, out := restored(t, other, other.backup(t), false)
	if out.Ended != 1 || settled.accepts(t, revoked) || settled.accepts(t, goesOn) {
		t.Errorf("settled: ended %d", out.Ended)
	}
	settled.revived(t, 0)
}

// revivable adds one of each kind that a past state must not bring back: an API
// key, a link by which a password is set, a recovery code.
func (h house) revivable(t *testing.T) {
	t.Helper()
	if _, err := h.ImportDirectory(ctx, directory.Import{Directory: directory.Directory{APIKeys: []directory.APIKey{{Key: revivableKey, Person: "ada", Organization: "nordlys", Name: "n"}}}}, Act{}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.AddReset(ctx, "link", "ada", ResetLifetime, Act{}); err != nil {
		t.Fatal(err)
	}
	if err := h.BeginOperatorSession(ctx, "value", OperatorSession{Operator: "ingrid"}, Act{}); err != nil {
		t.Fatal(err)
	}
	factors := []Factor{{ID: "one", Kind: FactorOneTime, Name: "phone"}, {ID: "code", Kind: FactorRecovery, Secret: "hash"}}
	if err := h.AddFactors(ctx, "ada", "", factors, Act{}); err != nil {
		t.Fatal(err)
	}
}

const revivableKey = "a-key-of-thirty-two-characters-x"

// revived wants so many of each kind.
func (h house) revived(t *testing.T, want int) {
	t.Helper()
	for what, each := range map[string]int{"session": 1, "operator_session": 1, "reset": 1, "api_key": 2, "factor WHERE kind = 'recovery'": 1} {
		if n := h.rows(t, `SELECT COUNT(*) FROM `+what); n != want*each {
			t.Errorf("%s: got %d, want %d", what, n, want*each)
		}
	}
	if n := h.rows(t, `SELECT COUNT(*) FROM factor WHERE kind = 'one-time'`); n != 1 {
		t.Errorf("factors that are not used up: %d", n)
	}
	if _, err := h.APIKey(ctx, revivableKey); errors.Is(err, ErrNotFound) != (want == 0) {
		t.Errorf("the API key: %v", err)
	}
}

func (h house) rows(t testing.TB, text string) (n int) {
	t.Helper()
	if err := h.db.Reader.QueryRowContext(context.Background(), text).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A backup under load is one moment, and nobody waits for it.
func TestBackupWhileOthersWrite(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	var ids []approval.ID
	for n := range 8 {
		ids = append(ids, h.live(t, h.answer(byte(n+1))))
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	reached := make([]atomic.Int64, len(ids))
	for i, id := range ids {
		wg.Go(func() {
			for g := int64(1); !stop.Load(); g++ {
				if v, err := h.refresh(id, g); v != approval.OK || err != nil {
					t.Error(v, err)
					return
				}
				reached[i].Store(g + 1)
			}
		})
	}
	for range 5 {
		var least []int64
		for i := range reached {
			least = append(least, max(reached[i].Load(), 1))
		}
		backup := h.backup(t)
		if info, err := Verify(context.Background(), backup); err != nil || info.Approvals != len(ids) || info.Schema != SchemaVersion {
			t.Fatalf("%+v %v", info, err)
		}
		after, _ := restored(t, h, backup, true)
		for i, id := range ids {
			a, err := after.Approval(context.Background(), id)
			if err != nil || a.State.Generation < least[i] {
				t.Errorf("approval %d has generation %d, and %d was answered before: %v", i, a.State.Generation, least[i], err)
			}
		}
	}
	stop.Store(true)
	wg.Wait()
}

// A backup is of the time when it was taken, however long nothing had changed.
func TestBackupIsOfItsTime(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	h.clock.add(time.Hour)
	name := filepath.Join(t.TempDir(), "backup.db")
	at, err := h.Backup(context.Background(), name)
	if err != nil || !at.Equal(h.clock.Now()) {
		t.Errorf("taken at %v, %v; want %v", at, err, h.clock.Now())
	}
	if info, err := Verify(context.Background(), name); err != nil || !info.At.Equal(at) {
		t.Errorf("verified as of %v, %v; want %v", info.At, err, at)
	}
	if info, err := Inspect(context.Background(), h.path); err != nil || !info.At.Before(at) {
		t.Errorf("the database is of %v, %v; it was to be left alone", info.At, err)
	}
	h.clock.add(-30 * time.Minute) // decision T12: nor does the time go back when it is restored
	if after, _ := restored(t, h, name, true); after.Now().Before(at) {
		t.Errorf("restored at %v, before %v", after.Now(), at)
	}
}

func TestBackupIsTheOwnersAlone(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	backup := h.backup(t)
	info, err := os.Stat(backup)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	left, err := filepath.Glob(backup + "*")
	if err != nil || len(left) != 1 {
		t.Errorf("a backup is one file: %v %v", left, err)
	}
	if _, err := h.Backup(context.Background(), backup); err == nil {
		t.Error("written over another file")
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	gone := filepath.Join(t.TempDir(), "gone.db")
	if _, err := h.Backup(ended, gone); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
	if left, _ := filepath.Glob(gone + "*"); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	h.embedded().Copying.Lock()
	if _, err := h.Backup(context.Background(), gone); !errors.Is(err, ErrBusy) {
		t.Errorf("two at once: %v", err)
	}
	h.embedded().Copying.Unlock()
}

// What an earlier process left beside the database goes with the next backup, and nothing that
// somebody else has put there.
func TestBackupFileCleansUp(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	left := []string{h.BackupFile()}
	left = append(left, left[0]+"-journal", left[0]+"-wal", left[0]+"-shm")
	others := []string{h.path + ".backup-before-upgrade", h.path + ".backup-2026-11", h.path + ".backup-2026-journal", left[0] + "-mine"}
	for _, name := range slices.Concat(others, left) {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	name := h.BackupFile()
	if filepath.Dir(name) != filepath.Dir(h.path) {
		t.Errorf("%s is elsewhere", name)
	}
	for _, name := range left {
		if _, err := os.Stat(name); err == nil {
			t.Errorf("%s is there still", name)
		}
	}
	for _, name := range others {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
}

func TestLastBackup(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	ctx := context.Background()
	if at, err := h.LastBackup(ctx); !at.IsZero() || err != nil {
		t.Errorf("%v %v before the first", at, err)
	}
	if err := h.RecordBackup(ctx, h.Now(), Act{Actor: "operator", Reason: "nightly"}); err != nil {
		t.Fatal(err)
	}
	if at, err := h.LastBackup(ctx); at.Unix() != h.Now().Unix() || err != nil {
		t.Errorf("%v %v", at, err)
	}
	if kinds := h.kinds(t); !strings.Contains(kinds, "operator_changed nightly") {
		t.Errorf("journal: %s", kinds)
	}
	if info, err := Inspect(ctx, h.path); err != nil || info.LastBackup.Unix() != h.Now().Unix() {
		t.Errorf("%+v %v", info, err)
	}
}

// A database is read while a server works on it, after it has ended, and as a
// crash leaves it; no file is left behind or changed.
func TestInspect(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	h.live(t, h.answer(1))
	check := func(name, path string, idle bool) {
		t.Helper()
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files, _ := filepath.Glob(path + "*")
		info, err := Inspect(context.Background(), path)
		if err != nil || info.Approvals != 1 || info.Clients != 1 || info.Schema != SchemaVersion || info.CheckKeys(h.ring) != nil || info.CheckSchema() != nil {
			t.Fatalf("%s: %+v %v", name, info, err)
		}
		if err := info.CheckKeys(ringOf(t, 9, 2)); !errors.Is(err, ErrKeys) {
			t.Errorf("%s: other keys: %v", name, err)
		}
		after, err := os.ReadFile(path)
		left, _ := filepath.Glob(path + "*")
		left = slices.DeleteFunc(left, func(name string) bool { return slices.Contains(files, name) })
		// A server that works on it may bring its log of writes into it meanwhile.
		if err != nil || idle && !bytes.Equal(before, after) || len(left) > 0 {
			t.Errorf("%s: it was changed, or left %v: %v", name, left, err)
		}
	}
	check("while it runs", h.path, false)
	crashed := filepath.Join(t.TempDir(), "left.db")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		copyFile(t, h.path+suffix, crashed+suffix)
	}
	check("after a crash", crashed, true)
	if v, err := h.refresh(h.live(t, h.answer(2)), 1); v != approval.OK || err != nil {
		t.Errorf("the server goes on: %v %v", v, err)
	}
	other := furnished(t)
	other.live(t, other.answer(1))
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	check("after it has ended", other.path, true)
}

func TestNotADatabase(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no database\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty.db")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{text, empty} {
		if _, err := Inspect(context.Background(), path); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v", path, err)
		}
		to := filepath.Join(t.TempDir(), "to.db")
		if _, err := Restore(context.Background(), RestoreOptions{From: path, To: to, Ring: ring(t), Now: time.Now()}); !errors.Is(err, ErrForeign) {
			t.Errorf("restore of %s: %v", path, err)
		}
	}
	if _, err := Inspect(context.Background(), filepath.Join(t.TempDir(), "none.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// Where a restore was killed no server makes an empty database, and what it has left changes
// nothing of the next one's, which may be of another backup.
func TestRestoreAfterOneThatWasKilled(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	h.live(t, h.answer(1))
	first := h.backup(t)
	var lives []approval.ID
	for n := range 200 {
		lives = append(lives, h.live(t, h.answer(byte(n+2))))
	}
	second := h.backup(t)
	to := filepath.Join(t.TempDir(), "restored.db")
	killed := filepath.Join(t.TempDir(), "killed.db")
	copied := func(from, to string) {
		t.Helper()
		text, err := os.ReadFile(from)
		done(t, err)
		done(t, os.WriteFile(to, text, 0o600))
	}
	copied(first, killed)
	db, err := sql.Open("sqlite3", sqlite.FileURL(killed, url.Values{"_txlock": {"immediate"}, "_pragma": {"journal_mode(delete)", "synchronous(full)", "cache_size(1)"}}))
	done(t, err)
	defer db.Close()
	tx, err := db.Begin()
	done(t, err)
	defer tx.Rollback()
	for _, text := range []string{`UPDATE approval SET phase = 2`, `UPDATE meta SET value = 'x' || value`, `UPDATE person SET name = 'x'`, `UPDATE journal SET detail = 'x'`} {
		_, err = tx.Exec(text)
		done(t, err)
	}
	copied(killed, to+".restoring")
	copied(killed+"-journal", to+".restoring-journal")
	for range 2 { // also where one of before has left an empty file
		if s, err := Open(ctx, Options{Path: to, Ring: h.ring}); !errors.Is(err, ErrRestoring) {
			t.Fatalf("a server starts: %v, %v", s, err)
		}
		if _, err := Inspect(ctx, to); !errors.Is(err, ErrRestoring) {
			t.Errorf("inspected: %v", err)
		}
		done(t, os.WriteFile(to, nil, 0o600))
	}
	if _, err := Restore(ctx, RestoreOptions{From: to + ".none", To: to, Ring: h.ring, Now: h.Now()}); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if s, err := Open(ctx, Options{Path: to, Ring: h.ring}); !errors.Is(err, ErrRestoring) {
		t.Fatalf("a server starts after one that failed: %v, %v", s, err)
	}
	out, err := Restore(ctx, RestoreOptions{From: second, To: to, Ring: h.ring, KeepApprovals: true, Now: h.Now()})
	if err != nil || out.Approvals != 201 {
		t.Fatalf("%+v, %v", out, err)
	}
	if left, err := filepath.Glob(to + ".restoring*"); len(left) > 0 || err != nil {
		t.Errorf("left: %q, %v", left, err)
	}
	copied(killed, to+".restoring") // beside a database it is nothing
	after := open(t, to, h.clock)
	for _, id := range lives {
		if !after.accepts(t, id) {
			t.Fatalf("%s is lost", id)
		}
	}
	if whole, err := after.Integrity(ctx); !whole || err != nil {
		t.Errorf("damaged: %v", err)
	}
}

// A restore that is refused leaves nothing behind, and what is there alone.
func TestRestoreRefused(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	h.live(t, h.answer(1))
	backup := h.backup(t)
	whole, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	spoiled := func(name string, content []byte) string {
		at := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(at, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return at
	}
	torn := bytes.Clone(whole)
	for i := 4096; i < 3*4096; i++ {
		torn[i] ^= 0x5a
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write(whole)
	z.Close()
	wrong := bytes.Clone(packed.Bytes())
	wrong[len(wrong)/2] ^= 1
	newer := h.newer(t)
	there := filepath.Join(t.TempDir(), "there.db")
	if err := os.WriteFile(there, []byte("something"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log.db")
	if err := os.WriteFile(log+"-wal", []byte("something"), 0o600); err != nil {
		t.Fatal(err)
	}
	refreshes := filepath.Join(t.TempDir(), "beside.db")
	if err := os.WriteFile(refreshes+"-refreshes-wal", []byte("something"), 0o600); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, from, to string
		ring           *token.Ring
		want           error
	}{
		{"cut off", spoiled("x.db", whole[:len(whole)-4096]), "", h.ring, ErrDamaged},
		{"damaged", spoiled("x.db", torn), "", h.ring, ErrDamaged},
		{"packed and cut off", spoiled("x.gz", packed.Bytes()[:packed.Len()-100]), "", h.ring, ErrForeign},
		{"packed and damaged", spoiled("x.gz", wrong), "", h.ring, ErrForeign},
		{"of a later release", newer, "", h.ring, ErrSchema},
		{"of other keys", backup, "", ringOf(t, 9, 2), ErrKeys},
		{"of keys with other numbers", backup, "", ringOf(t, 0, 2), ErrKeys},
		{"onto a live one", backup, h.path, h.ring, ErrInUse},
		{"onto one that is there", backup, there, h.ring, ErrNotEmpty},
		{"onto a log of writes", backup, log, h.ring, ErrNotEmpty},
		{"onto refreshes beside", backup, refreshes, h.ring, ErrNotEmpty},
		{"onto a FIFO", backup, fifo, h.ring, ErrNotEmpty},
		{"no file", filepath.Join(t.TempDir(), "none"), "", h.ring, os.ErrNotExist},
	} {
		to := tt.to
		if to == "" {
			to = filepath.Join(t.TempDir(), "to.db")
		}
		_, err := Restore(context.Background(), RestoreOptions{From: tt.from, To: to, Ring: tt.ring, Now: h.Now()})
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
		left, _ := filepath.Glob(to + "*")
		if tt.to == "" && (len(left) != 1 || left[0] != to+".lock") {
			t.Errorf("%s: it leaves %v", tt.name, left)
		}
	}
	if b, err := os.ReadFile(there); err != nil || string(b) != "something" {
		t.Errorf("what was there: %q %v", b, err)
	}
	to := filepath.Join(t.TempDir(), "to.db")
	if out, err := Restore(context.Background(), RestoreOptions{From: spoiled("good.gz", packed.Bytes()), To: to, Ring: h.ring, Now: h.Now()}); err != nil || out.Ended != 1 {
		t.Errorf("packed: %+v %v", out, err)
	}
	if _, err := Restore(context.Background(), RestoreOptions{From: backup, To: to, Ring: h.ring, Now: h.Now()}); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("a second one: %v", err)
	}
}

// newer gives a backup with a schema that this release does not know.
func (h house) newer(t testing.TB) string {
	t.Helper()
	other := furnished(t)
	if _, err := other.embedded().Writer.Conn.ExecContext(context.Background(), `UPDATE meta SET value = '99' WHERE name IN ('schema', 'schema_oldest')`); err != nil {
		t.Fatal(err)
	}
	return other.backup(t)
}

// A backup of a million approvals, while 16 callers refresh.
func BenchmarkBackupMillion(b *testing.B) {
	h := furnished(b)
	ids := manyApprovals(b, h, 1_000_000)
	h = h.reopen(b)
	var stop atomic.Bool
	var refreshed, failed, slowest atomic.Int64
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop.Store(true)
	for caller := range 16 {
		wg.Go(func() {
			for i := caller; !stop.Load(); i += 16 {
				start := time.Now()
				if v, err := h.refresh(ids[i%len(ids)], 1+int64(i/len(ids))); v != approval.OK || err != nil {
					failed.Add(1)
				}
				slowest.Store(max(slowest.Load(), time.Since(start).Milliseconds()))
				refreshed.Add(1)
			}
		})
	}
	before := time.Now()
	time.Sleep(2 * time.Second)
	alone := float64(refreshed.Swap(0)) / time.Since(before).Seconds()
	slowest.Store(0)
	for b.Loop() {
		name := filepath.Join(b.TempDir(), "backup.db")
		start := time.Now()
		if _, err := h.Backup(context.Background(), name); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(refreshed.Swap(0))/time.Since(start).Seconds(), "refreshes/s-during")
		info, err := os.Stat(name)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(info.Size())/(1<<20), "MB")
	}
	b.ReportMetric(alone, "refreshes/s-before")
	b.ReportMetric(float64(slowest.Load()), "ms-slowest")
	b.ReportMetric(float64(failed.Load()), "failed")
}

// A database that was restored by its own means: nothing lives in it either.
func TestSettleRestored(t *testing.T) {
	h := furnished(t)
	ctx := context.Background()
	one, other := h.live(t, h.answer(1)), h.live(t, h.answer(2))
	if err := h.AddSession(ctx, "value", "ada", Act{}); err != nil {
		t.Fatal(err)
	}
	h.revivable(t)
	h.revived(t, 1)
	ended, err := h.SettleRestored(gone{ctx, func() bool { return !h.accepts(t, one) }}, Act{Actor: "operator", Reason: "disk failed"})
	if ended != 2 || err != nil || h.accepts(t, one) || h.accepts(t, other) {
		t.Errorf("ended %d, %v", ended, err)
	}
	if a, err := h.Approval(ctx, one); err != nil || a.State.Reason != approval.Restored {
		t.Errorf("%+v %v", a.State, err)
	}
	if _, err := h.Session(ctx, "value"); !errors.Is(err, ErrNotFound) {
		t.Errorf("the session: %v", err)
	}
	h.revived(t, 0)
	if kinds := h.kinds(t); !strings.Contains(kinds, "restored disk failed") {
		t.Errorf("journal: %s", kinds)
	}
}
