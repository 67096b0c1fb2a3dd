package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/postgres"
	"github.com/grantkeeper/grantkeeper/token"
)

func key(number int, first byte) *token.Key { return token.NewKey(number, [32]byte{first}) }

// keysOf writes them down: number, s for the sealing one, r for retired ones,
// and how many approvals each holds.
func (h house) keysOf(t testing.TB) string {
	t.Helper()
	keys, err := h.Keys(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, k := range keys {
		word := fmt.Sprint(k.Number)
		if k.Seals {
			word += "s"
		}
		if k.Retired {
			word += "r"
		}
		out = append(out, fmt.Sprintf("%s:%d", word, k.Approvals))
	}
	return strings.Join(out, " ")
}

// refreshNow refreshes as the token endpoint does, under the key that seals.
func (h house) refreshNow(id approval.ID, generation int64) (approval.Verdict, error) {
	_, v, err := h.Refresh(context.Background(), id, "quill", generation, h.ring.Sealing(), Act{})
	return v, err
}

// Keys whose change is made a second time are added once.
func TestAddKeysThatIsRepeated(t *testing.T) {
	if embedded() {
		return
	}
	h := furnished(t)
	if _, err := h.db.Reader.ExecContext(ctx, `
		CREATE SEQUENCE tried;
		CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN IF nextval('tried') = 1 THEN RAISE SQLSTATE '40001'; END IF; RETURN NEW; END $$;
		CREATE TRIGGER conflict BEFORE INSERT ON meta FOR EACH ROW EXECUTE FUNCTION conflict()`); err != nil {
		t.Fatal(err)
	}
	if added, err := h.AddKeys(ctx, []*token.Key{key(1, 1), key(2, 2)}, Act{}); err != nil || fmt.Sprint(added) != "[2]" {
		t.Errorf("added %v, %v", added, err)
	}
}

// A key is added, seals, and the one before retires: the approvals that were
// refreshed meanwhile live, those whose current token it sealed end (decision
// T11).
func TestKeysFromAddToRetire(t *testing.T) {
	h := furnished(t)
	ctx, act := context.Background(), Act{Actor: "operator", Reason: "leaked"}
	lives, ends := h.live(t, h.answer(1)), h.live(t, h.answer(2))
	if n, err := h.RotateKeys(ctx, act, nil); n != 1 || err != nil || h.keysOf(t) != "1s:2" {
		t.Errorf("nothing to rotate to: %d %v, %s", n, err, h.keysOf(t))
	}
	if _, err := h.RetireKey(ctx, 1, act); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("the sealing key retires: %v", err)
	}
	if added, err := h.AddKeys(ctx, []*token.Key{key(1, 1), key(2, 2)}, act); err != nil || fmt.Sprint(added) != "[2]" || h.keysOf(t) != "1s:2 2:0" {
		t.Fatalf("added %v, %v: %s", added, err, h.keysOf(t))
	}
	if added, err := h.AddKeys(ctx, []*token.Key{key(2, 2)}, act); err != nil || len(added) != 0 {
		t.Errorf("added again: %v %v", added, err)
	}
	for _, other := range []*token.Key{key(1, 9), key(2, 9)} {
		if _, err := h.AddKeys(ctx, []*token.Key{other}, act); !errors.Is(err, ErrKeys) {
			t.Errorf("another key %d: %v", other.Number, err)
		}
	}
	if n, err := h.RotateKeys(ctx, act, nil); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if v, err := h.refreshNow(lives, 1); v != approval.OK || err != nil {
		t.Fatal(v, err)
	}
	if got := h.keysOf(t); got != "1:1 2s:1" {
		t.Errorf("after the rotation: %s", got)
	}
	if _, err := h.RetireKey(ctx, 7, act); !errors.Is(err, ErrNotFound) {
		t.Errorf("a key that there is not: %v", err)
	}
	ended, err := h.RetireKey(goneAtAll{gone{ctx, func() bool { return !h.accepts(t, ends) }}}, 1, act)
	if ended != 1 || err != nil || !h.accepts(t, lives) || h.accepts(t, ends) {
		t.Errorf("ended %d, %v; refreshed: %v, not refreshed: %v", ended, err, h.accepts(t, lives), h.accepts(t, ends))
	}
	if a, err := h.Approval(ctx, ends); err != nil || a.State.Reason != approval.KeyRetired {
		t.Errorf("%+v %v", a.State, err)
	}
	if ended, err := h.RetireKey(ctx, 1, act); ended != 0 || err != nil {
		t.Errorf("again: %d %v", ended, err)
	}
	if got := h.keysOf(t); got != "1r:0 2s:1" || len(h.ring.Keys()) != 1 {
		t.Errorf("in the end: %s, %d in use", got, len(h.ring.Keys()))
	}
	if kinds := h.kinds(t); strings.Count(kinds, "key_changed leaked") != 3 || !strings.Contains(kinds, "approval_ended key_retired") {
		t.Errorf("journal: %s", kinds)
	}
}

// What was rotated and retired stays so, whatever order the key file has, and
// a retired key in it is not used.
func TestKeysAtTheStart(t *testing.T) {
	h := furnished(t)
	ctx := context.Background()
	if _, err := h.AddKeys(ctx, []*token.Key{key(2, 2)}, Act{}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.RotateKeys(ctx, Act{}, nil); err != nil {
		t.Fatal(err)
	}
	start := func(sealing int, keys ...*token.Key) (*token.Ring, error) {
		t.Helper()
		r, err := token.NewRing("sv", sealing, keys...)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(ctx, at(t, h.path, Options{Ring: r}))
		if err == nil {
			err = s.Close()
		}
		return r, err
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := start(1, key(1, 1), key(2, 2)); err != nil || r.Sealing() != 2 {
		t.Errorf("key %d seals: %v", r.Sealing(), err)
	}
	if _, err := start(1, key(1, 1)); !errors.Is(err, ErrKeys) {
		t.Errorf("without the sealing key: %v", err)
	}
	again := open2(t, h.path, 1, key(1, 1), key(2, 2))
	if _, err := again.RetireKey(ctx, 1, Act{}); err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := start(1, key(1, 1), key(2, 2)); err != nil || len(r.Keys()) != 1 || r.Sealing() != 2 {
		t.Errorf("a retired key is in the file: %d keys, %v", len(r.Keys()), err)
	}
	if _, err := start(2, key(2, 2)); err != nil {
		t.Errorf("without the retired key: %v", err)
	}
	if _, err := start(2, key(1, 9), key(2, 2)); !errors.Is(err, ErrKeys) {
		t.Errorf("the number of a retired key for another one: %v", err)
	}
}

func open2(t testing.TB, path string, sealing int, keys ...*token.Key) *Store {
	t.Helper()
	r, err := token.NewRing("sv", sealing, keys...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(context.Background(), at(t, path, Options{Ring: r}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// While eight callers refresh, keys are added, rotated and retired: no refresh
// fails but those of approvals that the retirement ended, and nothing lives
// that a retired key has sealed.
func TestRotationWhileOthersWrite(t *testing.T) {
	h := furnished(t)
	ctx := context.Background()
	var ids []approval.ID
	for n := range 8 {
		ids = append(ids, h.live(t, h.answer(byte(n+1))))
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	var ended atomic.Int64
	for _, id := range ids {
		wg.Go(func() {
			for g := int64(1); !stop.Load(); g++ {
				switch v, err := h.refreshNow(id, g); {
				case v == approval.Over && err == nil:
					ended.Add(1)
					return
				case v != approval.OK || err != nil:
					t.Error(v, err)
					return
				}
			}
		})
	}
	told := 0
	for n := 2; n <= 6; n++ {
		if _, err := h.AddKeys(ctx, []*token.Key{key(n, byte(n))}, Act{}); err != nil {
			t.Error(err)
		}
		if _, err := h.RotateKeys(ctx, Act{}, nil); err != nil {
			t.Error(err)
		}
		k, err := h.RetireKey(ctx, n-1, Act{})
		if err != nil {
			t.Error(err)
		}
		told += k
	}
	stop.Store(true)
	wg.Wait()
	lost := 0
	for _, id := range ids {
		a, err := h.Approval(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if a.State.Phase == approval.Ended {
			lost++
		} else if a.State.Key != 6 && a.State.Key != 5 {
			t.Errorf("key %d has retired, and its token is current", a.State.Key)
		}
	}
	if lost != told || int(ended.Load()) > lost {
		t.Errorf("%d ended, told %d, %d callers noticed", lost, told, ended.Load())
	}
}

// A backup of before a key retired is restored without that key, if it has one
// that stayed: all its approvals end anyway. One without needs the key, which
// seals then until it is rotated and retires again.
func TestRestoreAfterAKeyRetired(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	ctx := context.Background()
	early := h.backup(t)
	if _, err := h.AddKeys(ctx, []*token.Key{key(2, 2)}, Act{}); err != nil {
		t.Fatal(err)
	}
	backup := h.backup(t)
	newer, err := token.NewRing("sv", 2, key(2, 2))
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "to.db")
	if _, err := Restore(ctx, RestoreOptions{From: backup, To: to, Ring: newer, KeepApprovals: true, Now: h.Now()}); !errors.Is(err, ErrKeys) {
		t.Errorf("a move without a key: %v", err)
	}
	if _, err := Restore(ctx, RestoreOptions{From: backup, To: to, Ring: newer, Now: h.Now()}); err != nil {
		t.Fatal(err)
	}
	s := open2(t, to, 2, key(2, 2))
	if got := (house{Store: s}).keysOf(t); got != "1r:0 2s:0" {
		t.Errorf("keys %s", got)
	}
	to = filepath.Join(t.TempDir(), "to.db")
	if _, err := Restore(ctx, RestoreOptions{From: early, To: to, Ring: newer, Now: h.Now()}); !errors.Is(err, ErrKeys) {
		t.Errorf("a backup of the retired key alone: %v", err)
	}
	both, err := token.NewRing("sv", 1, h.ring.Keys()[0], key(2, 2))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(ctx, RestoreOptions{From: early, To: to, Ring: both, Now: h.Now()}); err != nil {
		t.Fatal(err)
	}
	s = open2(t, to, 1, h.ring.Keys()[0], key(2, 2))
	if _, err := s.RotateKeys(ctx, Act{}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RetireKey(ctx, 1, Act{}); err != nil {
		t.Fatal(err)
	}
	if got := (house{Store: s}).keysOf(t); got != "1r:0 2s:0" {
		t.Errorf("keys %s after its key retired again", got)
	}
}

// An approval that was refreshed between being found and being ended lives.
func TestRetireAsksTheRowAgain(t *testing.T) {
	h := furnished(t)
	id := h.live(t, h.answer(1))
	if n, err := h.MoveBatch([]approval.ID{id}, retire(2, h.Now()), Act{}); n != 0 || err != nil || !h.accepts(t, id) {
		t.Errorf("another key's: ended %d, %v", n, err)
	}
	if n, err := h.MoveBatch([]approval.ID{id, {1, 2, 3}}, retire(1, h.Now()), Act{}); n != 1 || err != nil || h.accepts(t, id) {
		t.Errorf("its own: ended %d, %v", n, err)
	}
}

// A rotation waits for every node, and for no longer.
func TestRotateOnceEveryNodeHasTheKey(t *testing.T) {
	if embedded() {
		return
	}
	all, two := nodes(t, 2), []*token.Key{key(2, 2)}
	if _, err := all[0].AddKeys(ctx, two, Act{}); err != nil {
		t.Fatal(err)
	}
	if _, err := all[0].RotateKeys(ctx, Act{}, nil); !errors.Is(err, ErrNotAllowed) || err.Error() != "key 2 is not on every node that lives: 1 without it" {
		t.Errorf("before: %v", err)
	}
	if _, err := all[1].AddKeys(ctx, two, Act{}); err != nil {
		t.Fatal(err)
	}
	if n, err := all[0].RotateKeys(ctx, Act{}, nil); n != 2 || err != nil {
		t.Errorf("at once: %d %v", n, err)
	}
}

// A node that was away while the others began to seal with a key that it does not
// have tells nobody that a token which it cannot open is none, and goes on by itself
// once it has the key (decision T11).
func TestKeyThatSealsElsewhere(t *testing.T) {
	if embedded() {
		if err := furnished(t).Opens(); err != nil {
			t.Error(err)
		}
		return
	}
	place := at(t, "", Options{})
	var all []*Store
	for range 2 {
		s, err := Open(context.Background(), Options{URL: place.URL, Ring: ring(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		all = append(all, s)
	}
	here, away := all[0], all[1]
	ctx, keys := context.Background(), []*token.Key{key(1, 1), key(2, 2)}
	if _, err := here.AddKeys(ctx, keys, Act{}); err != nil {
		t.Fatal(err)
	}
	if _, err := here.RotateKeys(ctx, Act{}, nil); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("rotated while a node that lives lacks the key: %v", err)
	}
	if err := errors.Join(away.Opens(), here.Opens()); err != nil {
		t.Errorf("all keys are there: %v", err)
	}
	// As after a pause: nobody has heard of it, nor it of them.
	house{Store: here}.sql(t, `UPDATE node SET seen_at = 0 WHERE key_number = 1`)
	away.postgres().KeysAt.Store(postgres.Moment(time.Now().Add(-engine.NodeLife)))
	if _, err := here.RotateKeys(ctx, Act{}, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 { // before it has looked, and after
		if err := away.Opens(); !errors.Is(err, ErrUnavailable) {
			t.Errorf("without the key that seals: %v, want unavailable", err)
		}
		if err := away.postgres().FollowKeys(ctx); !errors.Is(err, ErrKeys) {
			t.Error(err)
		}
	}
	if err := here.Opens(); err != nil {
		t.Error(err)
	}
	if _, err := away.AddKeys(ctx, keys, Act{}); err != nil {
		t.Fatal(err)
	}
	if err := away.Opens(); err != nil || away.db.Options.Ring.Sealing() != 2 {
		t.Errorf("with the key: %v, %d seals", err, away.db.Options.Ring.Sealing())
	}
}
