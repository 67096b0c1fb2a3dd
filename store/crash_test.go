package store

import (
	"context"
	"errors"
	arguments "flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/journal/chain"
	"github.com/grantkeeper/grantkeeper/store/sqlite"
)

var crashSeeds = arguments.Int("crashes", 150, "how many seeds TestF11PowerLoss goes through")

// A power is the supply of the machines in one seed's folder. It fails at a
// given call to the disk, and then what had not been synced is there or not,
// each sector by chance. A sync may also fail on its own.
type power struct {
	mu      sync.Mutex
	random  *rand.Rand
	folder  string
	files   map[string]*platter // by path
	calls   int                 // until it fails; less than one is never
	syncs   int                 // until a sync fails
	failing func(images map[string][]byte)
}

// A platter is what has been written to one file since its last sync.
type platter struct {
	writes []unsynced
}

type unsynced struct {
	at        int64
	old, made []byte
	oldSize   int64
	truncate  bool
}

// powers finds the supply of a file; the folder's name tells.
var powers sync.Map // folder to *power

func powerOf(path string) *power {
	if p, ok := powers.Load(filepath.Dir(path)); ok {
		return p.(*power)
	}
	return nil
}

func init() {
	vfs.Register("power", powerVFS{vfs.Find("os").(vfs.VFSFilename)})
	sqlite.DiskOf = func(path string) string {
		if powerOf(path) != nil {
			return "power"
		}
		return "os"
	}
}

type powerVFS struct{ vfs.VFSFilename }

func (v powerVFS) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := v.VFSFilename.OpenFilename(name, flags)
	if err != nil || name == nil {
		return f, flags, err
	}
	return powered(f, name.String()), flags, nil
}

// Open is for whoever reads a log without SQLite.
func (v powerVFS) Open(name string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	return powered(systemFile{file: f}, name), flags, err
}

func powered(f vfs.File, name string) vfs.File {
	p := powerOf(name)
	if p == nil {
		return f
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.files[name] == nil {
		p.files[name] = &platter{}
	}
	return &powerFile{f, p, p.files[name]}
}

// systemFile is what of a file such a reader uses.
type systemFile struct {
	vfs.File
	file *os.File
}

func (f systemFile) ReadAt(b []byte, off int64) (int, error)  { return f.file.ReadAt(b, off) }
func (f systemFile) WriteAt(b []byte, off int64) (int, error) { return f.file.WriteAt(b, off) }
func (f systemFile) Close() error                             { return f.file.Close() }
func (f systemFile) Size() (int64, error) {
	info, err := f.file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

type powerFile struct {
	vfs.File
	power   *power
	platter *platter
}

func (f *powerFile) SharedMemory() vfs.SharedMemory { return vfsutil.WrapSharedMemory(f.File) }
func (f *powerFile) Unwrap() vfs.File               { return f.File }

func (f *powerFile) WriteAt(b []byte, off int64) (int, error) {
	f.power.mu.Lock()
	defer f.power.mu.Unlock()
	f.power.tick()
	size, err := f.File.Size()
	if err != nil {
		return 0, err
	}
	old := make([]byte, max(min(int64(len(b)), size-off), 0))
	if len(old) > 0 {
		if _, err := f.File.ReadAt(old, off); err != nil {
			return 0, err
		}
	}
	f.platter.writes = append(f.platter.writes, unsynced{at: off, old: old, made: append([]byte{}, b...), oldSize: size})
	return f.File.WriteAt(b, off)
}

func (f *powerFile) Truncate(to int64) error {
	f.power.mu.Lock()
	defer f.power.mu.Unlock()
	f.power.tick()
	size, err := f.File.Size()
	if err != nil {
		return err
	}
	old := make([]byte, max(size-to, 0))
	if len(old) > 0 {
		if _, err := f.File.ReadAt(old, to); err != nil {
			return err
		}
	}
	f.platter.writes = append(f.platter.writes, unsynced{at: to, old: old, oldSize: size, truncate: true})
	return f.File.Truncate(to)
}

// Sync makes what was written durable, in the test's sense: the real disk is not
// asked.
func (f *powerFile) Sync(vfs.SyncFlag) error {
	f.power.mu.Lock()
	defer f.power.mu.Unlock()
	f.power.tick()
	if f.power.syncs--; f.power.syncs == 0 {
		return sqlite3.IOERR_FSYNC
	}
	f.platter.writes = nil
	return nil
}

// tick counts a call to the disk, and fails before the one that it is time for.
func (p *power) tick() {
	if p.calls--; p.calls == 0 {
		p.failing(p.images())
	}
}

// images are the files as the next start finds them. The index of the WAL is in
// memory, and gone.
func (p *power) images() map[string][]byte {
	images := map[string][]byte{}
	for path, at := range p.files {
		b, err := os.ReadFile(path)
		if err == nil {
			images[filepath.Base(path)] = at.after(b, p.random)
		}
	}
	return images
}

// after is the file's content after a loss of power: what was synced, and of the
// rest each sector of 512 bytes or not.
func (at *platter) after(now []byte, random *rand.Rand) []byte {
	b := append([]byte{}, now...)
	for i := len(at.writes) - 1; i >= 0; i-- {
		w := at.writes[i]
		b = resized(b, max(int64(len(b)), w.at+int64(len(w.old))))
		copy(b[w.at:], w.old)
		b = resized(b, w.oldSize)
	}
	keep := [...]float64{0, 0.5, 0.9, 1}[random.IntN(4)]
	for _, w := range at.writes {
		if w.truncate {
			if random.Float64() < keep {
				b = resized(b, w.at)
			}
			continue
		}
		for from := 0; from < len(w.made); from += 512 {
			sector := w.made[from:min(from+512, len(w.made))]
			if random.Float64() < keep {
				b = resized(b, max(int64(len(b)), w.at+int64(from+len(sector))))
				copy(b[w.at+int64(from):], sector)
			}
		}
	}
	return b
}

func resized(b []byte, size int64) []byte {
	if int64(len(b)) >= size {
		return b[:size]
	}
	return append(b, make([]byte, size-int64(len(b)))...)
}

// lossy is the model of one approval for the checker: what was not answered, or
// was answered by a machine that had lost power, may have been done or not.
var lossy = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{[2]int64{int64(approval.CodeIssued), 0}} },
	Step: func(state, in, out any) []any {
		if in.(input).kind == "fact" {
			s := state.([2]int64)
			over := [2]int64{int64(approval.Ended), s[1]}
			if out == nil {
				return []any{state, over}
			}
			return []any{over}
		}
		if v, told := out.(approval.Verdict); told {
			if ok, next := linear.Step(state, in, v); ok {
				return []any{next}
			}
			return nil
		}
		all := []any{state}
		for _, v := range []approval.Verdict{approval.OK, approval.Reused} {
			if ok, next := linear.Step(state, in, v); ok {
				all = append(all, next)
			}
		}
		return all
	},
}).ToModel()

// A crashing is one seed: approvals in a database on a machine that loses power
// again and again.
type crashing struct {
	*testing.T
	random *rand.Rand
	clock  *machine
	house  house
	power  *power
	start  time.Time
	pages  []crashPage

	mu    sync.Mutex
	epoch int // how often power was lost
	image map[string][]byte

	failed, lost int
	sealed       int
	anchors      []chain.Anchor // of blocks that Seal said were there
}

type crashPage struct {
	id      approval.ID
	issued  int64
	history []porcupine.Operation
}

// F-11, F-10: whatever the disk lost when the power went, nothing is lost, doubled or
// revived that was acknowledged.
func TestF11PowerLoss(t *testing.T) {
	if !embedded() {
		return // store/simulate has its own
	}
	const lanes = 8
	var mu sync.Mutex
	operations, failed, lost, sealed := 0, 0, 0, 0
	t.Run("seeds", func(t *testing.T) {
		for lane := range lanes {
			t.Run(fmt.Sprint(lane), func(t *testing.T) {
				t.Parallel()
				for seed := lane; seed < *crashSeeds && !t.Failed(); seed += lanes {
					c := &crashing{T: t, random: rand.New(rand.NewPCG(uint64(seed), 11)), clock: &machine{now: time.Unix(1_800_000_000, 0)}, start: time.Now()}
					c.run(seed)
					mu.Lock()
					for _, p := range c.pages {
						operations += len(p.history)
					}
					failed, lost, sealed = failed+c.failed, lost+c.lost, sealed+c.sealed
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d seeds: %d losses of power, %d operations, %d of them without an answer; %d anchors", *crashSeeds, lost, operations, failed, sealed)
	if lost < *crashSeeds || failed < *crashSeeds || sealed < *crashSeeds/4 {
		t.Error("too little happened for this to mean anything")
	}
}

func (c *crashing) run(seed int) {
	folder, err := os.MkdirTemp(c.TempDir(), "")
	if err != nil {
		c.Fatal(err)
	}
	defer os.RemoveAll(folder)
	c.boot(folder, nil)
	c.house.furnish(c)
	for nonce := range byte(2) {
		handle, issued, err := c.house.Approve(ctx, c.house.answer(nonce+1), Act{})
		if err != nil {
			c.Fatal(err)
		}
		c.pages = append(c.pages, crashPage{id: approval.ID(handle.ID()), issued: issued})
	}
	for epoch := range 3 {
		c.power.mu.Lock()
		// The first commit after a start brings the log into the file, page by page.
		c.power.calls, c.power.syncs = 1+c.random.IntN(60)+40*c.random.IntN(4), c.random.IntN(25)
		c.power.mu.Unlock()
		c.work(epoch)
		c.mu.Lock()
		image := c.image
		c.mu.Unlock()
		c.clock.add(time.Duration(c.random.IntN(60)) * time.Second)
		if image != nil {
			c.lost++
			folder = filepath.Join(filepath.Dir(folder), fmt.Sprint("after", seed, "-", epoch))
			c.boot(folder, image)
			defer os.RemoveAll(folder)
		}
	}
	for i := range c.pages {
		c.ask(9, i, input{kind: "check"})
		if len(c.pages[i].history) > 0 && !porcupine.CheckOperations(lossy, c.pages[i].history) {
			for _, o := range c.pages[i].history {
				c.Logf("%d %+v -> %v [%d, %d]", o.ClientId, o.Input, o.Output, o.Call, o.Return)
			}
			c.Errorf("seed %d: not linearizable", seed)
		}
	}
	c.clock.add(time.Minute)
	c.boot(folder, nil) // power stays, and a disk that had failed is as new
	c.house.seal(c)
	if r := c.house.whole(c, slices.Compact(c.anchors)...); r.Unsealed > 0 { // what was sealed is whole, and what was heard of is there
		c.Errorf("seed %d: %+v", seed, r)
	}
	c.sealed += len(c.anchors)
	c.house.Close()
	powers.Delete(c.power.folder)
}

// boot starts on the files that a loss of power left. The machine before it is
// switched off for good.
func (c *crashing) boot(folder string, image map[string][]byte) {
	if c.power != nil {
		c.power.mu.Lock()
		c.power.calls, c.power.syncs = 0, 0
		c.power.mu.Unlock()
		c.house.Close()
		powers.Delete(c.power.folder)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		c.Fatal(err)
	}
	for name, b := range image {
		if !strings.HasSuffix(name, "-shm") {
			if err := os.WriteFile(filepath.Join(folder, name), b, 0o600); err != nil {
				c.Fatal(err)
			}
		}
	}
	c.power = &power{random: rand.New(rand.NewPCG(c.random.Uint64(), 2)), folder: folder, files: map[string]*platter{}, failing: c.fail}
	powers.Store(folder, c.power)
	path := filepath.Join(folder, "grantkeeper.db")
	s, err := Open(context.Background(), Options{Path: path, Ring: ring(c), Now: c.clock.Now})
	if err != nil {
		c.Fatalf("after a loss of power: %v", err)
	}
	c.house = house{Store: s, clock: c.clock, path: path, ring: ring(c)}
	c.halves()
	c.mu.Lock()
	c.image = nil
	c.mu.Unlock()
}

// fail is the moment at which power is lost: what is answered from here on, nobody
// hears.
func (c *crashing) fail(image map[string][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	c.image = image
}

func (c *crashing) dark() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.image != nil
}

// work lets four workers at the approvals until they have had enough or power is lost.
func (c *crashing) work(epoch int) {
	var wg sync.WaitGroup
	for worker := range 4 {
		random := rand.New(rand.NewPCG(c.random.Uint64(), uint64(worker)))
		wg.Go(func() {
			for range 12 {
				if c.dark() {
					return
				}
				i := random.IntN(len(c.pages))
				in := input{kind: [...]string{"exchange", "refresh", "refresh", "refresh", "refresh", "refresh", "check", "check"}[random.IntN(8)]}
				if in.kind == "refresh" {
					a, err := c.house.Check(ctx, c.pages[i].id)
					if err != nil || a.Approval.Phase != approval.Live {
						in.kind = "exchange"
					} else {
						in.generation = max(1, a.Approval.Generation-int64(random.IntN(20)/19))
					}
				} else if in.kind == "exchange" && random.IntN(10) > 0 {
					if a, err := c.house.Check(ctx, c.pages[i].id); err == nil && a.Approval.Phase != approval.CodeIssued {
						in.kind = "check"
					}
				}
				switch random.IntN(60) {
				case 0:
					in = input{kind: "revoke"}
				case 1:
					c.leave(worker)
					continue
				case 2, 3:
					c.seal()
					continue
				}
				c.ask(worker, i, in)
			}
		})
	}
	if c.random.IntN(2) == 0 {
		wg.Go(func() { c.long(epoch) })
	}
	wg.Wait()
}

// long makes changes that are there whole or not at all, slowly: refreshes go on beside them.
func (c *crashing) long(epoch int) {
	for n := 0; n < 3 && !c.dark(); n++ {
		_ = c.house.changeMany(func(tx *Tx) error {
			for _, name := range longNames {
				if err := tx.PutMeta(name, fmt.Sprint(epoch, " ", n)); err != nil {
					return err
				}
				time.Sleep(2 * time.Millisecond)
			}
			return nil
		})
	}
}

var longNames = []string{"test.first", "test.second"}

// halves wants all of the last long change, or none.
func (c *crashing) halves() {
	var of [2]string
	for i, name := range longNames {
		_ = c.house.db.Reader.QueryRowContext(ctx, `SELECT value FROM meta WHERE name = $1`, name).Scan(&of[i])
	}
	if of[0] != of[1] {
		c.Errorf("half of a long change is there: %q", of)
	}
}

// leave takes the person out of the organization and back in, which ends both.
func (c *crashing) leave(worker int) {
	call := time.Since(c.start).Nanoseconds()
	epoch := c.now()
	err := c.house.RemoveMember(ctx, "nordlys", "ada", Act{})
	if errors.Is(err, ErrNotFound) {
		return // somebody else was quicker
	}
	for i := range c.pages {
		c.record(worker, i, input{kind: "fact"}, call, epoch, approval.OK, err)
	}
	_ = c.house.SetMember(ctx, "nordlys", "ada", false, Act{}) // brings nothing back
}

// seal seals the journal, and keeps the anchor that somebody has heard of.
func (c *crashing) seal() {
	epoch := c.now()
	out, err := c.house.Seal(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch heard := c.epoch == epoch && c.image == nil; {
	case err != nil && !errors.Is(err, ErrUnavailable):
		c.Errorf("seal: %v", err)
	case err == nil && heard && out.Newest.Number > 0:
		c.anchors = append(c.anchors, out.Newest)
	}
}

func (c *crashing) now() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.epoch
}

func (c *crashing) ask(worker, i int, in input) {
	p := &c.pages[i]
	call, epoch := time.Since(c.start).Nanoseconds(), c.now()
	var v approval.Verdict
	var err error
	switch in.kind {
	case "exchange":
		v, err = c.house.exchange(p.id, p.issued)
	case "refresh":
		v, err = c.house.refresh(p.id, in.generation)
	case "revoke":
		_, v, err = c.house.ApplyLive(ctx, p.id, approval.Revoke("quill", c.house.Now()), Act{})
	case "check":
		var a Access
		v = approval.Over
		if a, err = c.house.Check(ctx, p.id); err == nil &&
			a.Approval.Accepts(a.Standing, a.Approval.Generation, c.house.Now().Unix()+1, c.house.Now()) {
			v = approval.OK
		}
		if errors.Is(err, ErrNotFound) { // no member now
			err = nil
		}
	}
	c.record(worker, i, in, call, epoch, v, err)
}

// record notes an answer, unless power was lost before anybody heard it.
func (c *crashing) record(worker, i int, in input, call int64, epoch int, v approval.Verdict, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := porcupine.Operation{ClientId: worker, Input: in, Call: call, Output: v, Return: time.Since(c.start).Nanoseconds()}
	switch {
	case err != nil && !errors.Is(err, ErrUnavailable):
		c.Errorf("%+v: %v", in, err)
	case err != nil || c.epoch != epoch || c.image != nil:
		if in.kind == "check" {
			return
		}
		c.failed++
		o.Output, o.Return = nil, math.MaxInt64
	}
	c.pages[i].history = append(c.pages[i].history, o)
}
