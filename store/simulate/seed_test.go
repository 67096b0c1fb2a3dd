// The race detector has goroutines run in another order each time, and a seed decides it.
//go:build !race

package simulate

import (
	"bytes"
	"cmp"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

const database = "grantkeeper.db"

var (
	prepared string            // a folder in memory
	pristine map[string][]byte // the files of a database in which nothing has happened yet
)

// A simulation is one seed of the embedded engine.
type simulation struct {
	workload
	disk  *disk
	store *store.Store
	harm  bool // content is harmed in this seed

	remembered map[approval.ID]approval.Verdict

	powerLosses int
	named       string // the error that named the harm
	last        bool   // the harm was to the last commit of the log when the server was restarted
}

// simulate runs a seed, or what is asked of it.
func simulate(t *testing.T, seed uint64, traced bool, run func(*simulation)) *simulation {
	cryptotest.SetGlobalRandom(t, seed)
	s := &simulation{remembered: map[approval.ID]approval.Verdict{}}
	s.begins(t, seed, traced)
	folder := prepared
	s.disk = &disk{random: rand.New(rand.NewPCG(seed, 18)), folder: folder, files: map[string]*platter{}, deleted: map[string]*platter{}, harmedAt: -1, trace: s.trace, liesAboutLog: planted.liesAboutLog}
	for name, b := range pristine {
		s.disk.files[name] = &platter{name: name, data: bytes.Clone(b), durable: bytes.Clone(b)}
	}
	disks.Store(folder, s.disk)
	defer disks.Delete(folder)
	synctest.Test(t, func(*testing.T) {
		defer s.close()
		run(s)
	})
	return s
}

func (s *simulation) run() {
	if !s.boot() {
		return
	}
	s.harm = s.random.IntN(4) == 0
	s.approve()
	s.approve()
	for range 1 + s.random.IntN(3) {
		s.arm()
		s.work()
		if s.named != "" || !s.restart() {
			return
		}
	}
	s.settle()
}

// folderOf is what stands for the database's files where the operating system is asked.
func folderOf(t *testing.T) string {
	parent := "/dev/shm"
	if _, err := os.Stat(parent); err != nil {
		parent = ""
	}
	folder, err := os.MkdirTemp(parent, "simulate")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{database, database + "-wal"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("SQLite format 3\x00\x10\x00\x02\x02"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// boot starts the server on what is on the disk, again where the power goes meanwhile. It
// reports whether there is one: content that was harmed may keep it from starting, and then
// it says so.
func (s *simulation) boot() bool {
	for range 3 {
		os.Remove(filepath.Join(s.disk.folder, database+"-shm")) // is in memory
		st, err := store.Open(ctx, store.Options{
			Path: filepath.Join(s.disk.folder, database), Ring: keys, Now: s.machineTime,
			Log: slog.New(slog.NewTextHandler(&s.logged, &slog.HandlerOptions{Level: slog.LevelError})),
		})
		s.trace("boot: %v", err)
		switch {
		case err == nil && !s.disk.dark:
			s.store = st
			return true
		case err == nil:
			st.Close()
		case s.isNamed(err):
			return false
		case !s.disk.dark && s.disk.syncs >= 0 && !s.disk.full && !s.disk.broken:
			s.fault("the server does not start: %v", err)
			return false
		}
		s.disk.mend()
	}
	s.fault("the server does not start in three tries")
	return false
}

// isNamed reports whether an error says what was done to the content, which may be refused
// from then on.
func (s *simulation) isNamed(err error) bool {
	if s.disk.harmed == "" || !errors.Is(err, store.ErrDamaged) && !errors.Is(err, store.ErrForeign) {
		return false
	}
	s.named = err.Error()
	return true
}

// mend gives power back, and a disk that works.
func (d *disk) mend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dark, d.calls, d.syncs, d.full, d.broken = false, 0, 0, false, planted.staysBroken
}

// arm decides what goes wrong next.
func (s *simulation) arm() {
	d, r := s.disk, s.random
	d.mu.Lock()
	defer d.mu.Unlock()
	switch r.IntN(8) {
	case 0:
	case 1:
		d.syncs = 1 + r.IntN(12)
	default:
		d.calls = 1 + r.IntN(90)
	}
	if !s.harm || d.harmed != "" {
		return
	}
	d.at = []string{database, database + "-wal"}[r.IntN(2)]
	if d.writes = r.IntN(12); r.IntN(3) > 0 {
		d.write = []string{"lost", "misdirected"}[r.IntN(2)]
	}
}

func (s *simulation) approve() {
	s.made = len(s.pages) + 1
	p, err := s.workload.approve(s.store, byte(s.made))
	if s.trace("approve: %v", err); err == nil {
		s.pages = append(s.pages, p)
	} else if !s.isNamed(err) && !errors.Is(err, store.ErrUnavailable) {
		s.fault("approve: %v", err)
	}
}

// work is one life of the server: operations begin, the disk goes on, and time goes by, in
// an order that the seed decides.
func (s *simulation) work() {
	s.disk.mu.Lock()
	s.disk.gate = make(chan struct{})
	s.disk.mu.Unlock()
	for range 20 + s.random.IntN(30) {
		s.step.Add(1)
		switch n := s.random.IntN(100); {
		case s.disk.waits() && (n < 45 || len(s.pending) > 5):
			s.trace("the disk goes on")
			s.disk.gate <- struct{}{}
		case n < 90:
			s.begin()
		case n < 94:
			by := time.Duration([]int{1, 60, 150, 900, 2200}[s.random.IntN(5)]) * time.Second
			if s.random.IntN(4) == 0 && s.machineTime().Add(-by).After(started) {
				by = -by // somebody sets the clock
			}
			s.now.Add(int64(by))
			s.trace("the clock is set to %d", s.machineTime().Unix())
		case n < 96:
			s.disk.full = !s.disk.full
			s.trace("the disk is full: %v", s.disk.full)
		case n < 97:
			s.disk.broken = !s.disk.broken
			s.trace("the disk is broken: %v", s.disk.broken)
		case s.harm && s.disk.harmed == "" && s.disk.write == "":
			s.disk.rot([]string{database, database + "-wal"}[s.random.IntN(2)])
		}
		s.undisturbed(synctest.Wait)
		s.collect()
		if s.disk.dark || s.named != "" {
			break
		}
	}
	s.openGate()
	s.undisturbed(synctest.Wait)
	s.collect()
}

func (s *simulation) openGate() {
	s.disk.mu.Lock()
	gate := s.disk.gate
	s.disk.gate = nil
	s.disk.mu.Unlock()
	if gate != nil {
		close(gate)
	}
}

// begin lets one more operation begin.
func (s *simulation) begin() {
	if len(s.pages) == 0 {
		return
	}
	p, r := s.pages[s.random.IntN(len(s.pages))], s.random
	in := Input{Kind: "refresh", Generation: p.newest}
	switch n := r.IntN(100); {
	case n < 3:
		in.Kind = "revoke"
	case n < 5 && !slices.ContainsFunc(s.pending, func(o *operation) bool { return o.page == nil }):
		in.Kind, p = "fact", nil // one at a time: the second would wait for a lock, of which synctest knows nothing
	case n < 9:
		in.Kind = "stranger"
	case n < 25:
		in.Kind = "check"
	case n < 30 || s.anyNewest(p) == 0:
		in.Kind = "exchange"
	case n < 33:
		in.Generation = max(1, p.newest-1)
	}
	s.ask(in, p)
}

func (s *simulation) anyNewest(p *pages) int64 {
	if p == nil {
		return 0
	}
	return p.newest
}

func (s *simulation) ask(in Input, p *pages) *operation {
	in.From = s.store.Now().Unix()
	o := &operation{in: in, page: p}
	s.start(o, func() (approval.Verdict, error) {
		v, err := o.do(s.store)
		if in.Kind != "check" {
			return v, err
		}
		if old, ok := s.remembered[p.id]; ok && planted.forgets {
			v = old
		}
		s.remembered[p.id] = v
		return v, err
	})
	return o
}

// collect takes the answers that have come.
func (s *simulation) collect() {
	for _, o := range s.answered() {
		s.record(o)
	}
}

// record notes an answer, unless the power was lost before anybody heard it.
func (s *simulation) record(o *operation) {
	s.trace("%s %d of %d: %v %v", o.in.Kind, o.in.Generation, slices.Index(s.pages, o.page), o.verdict, o.err)
	s.operations++
	lost := o.err != nil || s.disk.dark
	switch {
	case o.err != nil && s.isNamed(o.err), o.in.Kind == "back":
	case errors.Is(o.err, store.ErrNotFound) && o.in.Kind == "fact":
		return // is away already
	case o.err != nil && !errors.Is(o.err, store.ErrUnavailable):
		s.fault("%s: %v", o.in.Kind, o.err)
	}
	if lost {
		s.unanswered++
	}
	of := []*pages{o.page}
	if o.page == nil {
		of = s.pages
	}
	o.in.To = s.store.Now().Unix()
	s.heard(o, of, lost)
	if o.page == nil && o.in.Kind == "fact" {
		s.ask(Input{Kind: "back"}, nil)
	}
}

// restart ends the server, in order or without power, and starts it again.
func (s *simulation) restart() bool {
	if s.disk.dark {
		s.powerLosses++
	} else if s.random.IntN(2) == 0 {
		s.disk.mu.Lock()
		s.disk.losePower()
		s.disk.mu.Unlock()
		s.powerLosses++
	}
	s.close()
	s.last = s.last || s.disk.inLastCommit()
	s.disk.mend()
	if s.random.IntN(4) == 0 {
		s.disk.calls = 1 + s.random.IntN(20) // while it starts
	}
	return s.boot()
}

func (s *simulation) close() {
	if s.store == nil {
		return
	}
	s.openGate()
	s.undisturbed(synctest.Wait)
	s.collect()
	s.trace("close: %v", s.store.Close() != nil)
	s.store, s.pending = nil, nil
}

// now asks one thing, and waits for its answer.
func (s *simulation) once(kind string, generation int64, p *pages) *operation {
	s.step.Add(1)
	o := s.ask(Input{Kind: kind, Generation: generation}, p)
	s.undisturbed(synctest.Wait)
	s.collect()
	return o
}

// settle is after all faults: what lives goes on living, what ended is over, and whatever
// the histories say is in the record of what happened.
func (s *simulation) settle() {
	s.disk.mend()
	for range 3 {
		if o := s.once("back", 0, nil); o.err == nil || s.named != "" {
			break
		}
	}
	if s.named != "" {
		return // and nobody can be told that the person is back
	}
	before := len(s.pages)
	s.approve()
	if s.named != "" {
		return
	}
	if len(s.pages) == before {
		s.fault("nobody can approve, and nothing is broken any more")
	}
	for _, p := range s.pages {
		kinds := []string{"check"}
		if p.newest == 0 {
			kinds = []string{"exchange", "check"}
		}
		for _, kind := range append(kinds, "refresh", "check", "refresh") {
			generation := int64(0)
			if kind == "refresh" {
				a, err := s.store.Check(ctx, p.id)
				if err != nil || a.Approval.Phase != approval.Live {
					break
				}
				generation = a.Approval.Generation
			}
			o := s.once(kind, generation, p)
			if s.named != "" {
				return
			}
			if o.err != nil || !o.done {
				s.fault("%s is not answered, and nothing is broken any more: %v", kind, o.err)
			}
		}
		if len(p.history) > 0 && !porcupine.CheckOperations(judge, Reduce(p.history)) {
			s.fault("a history that the protocol does not allow")
		}
	}
}

func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)      // two would run goroutines side by side, in no order
	runtime.MemProfileRate = 0 // each sample walks a deep stack
	status := m.Run()
	os.RemoveAll(prepared)
	if behind != nil {
		status = max(status, behind.stop())
	}
	os.Exit(status)
}

// prepare makes the database that every seed begins with.
func prepare(t *testing.T) {
	if pristine != nil {
		return
	}
	prepareKeys(t)
	prepared = folderOf(t)
	d := &disk{random: rand.New(rand.NewPCG(1, 1)), folder: prepared, files: map[string]*platter{}, deleted: map[string]*platter{}, trace: func(string, ...any) {}}
	disks.Store(d.folder, d)
	defer disks.Delete(d.folder)
	if err := furnish(store.Options{Path: filepath.Join(d.folder, database), Ring: keys, Now: func() time.Time { return started }}); err != nil {
		t.Fatal(err)
	}
	pristine = map[string][]byte{}
	for name, p := range d.files {
		pristine[name] = p.data
	}
}

func prepareKeys(t *testing.T) {
	if keys != nil {
		return
	}
	var err error
	if keys, err = token.NewRing("sv", 1, token.NewKey(1, [32]byte{1})); err != nil {
		t.Fatal(err)
	}
}

// furnish makes a database with an organization in it, a person and an app.
func furnish(o store.Options) error {
	s, err := store.Open(ctx, o)
	if err != nil {
		return err
	}
	return cmp.Or(s.AddDirectory(ctx, directory.Directory{
		People:        []directory.Person{{Person: org.Person{ID: "ada", Email: "ada@nordlys.example", Name: "Ada", Active: true}}},
		Organizations: []org.Organization{{ID: "nordlys", Name: "Nordlys", AIIntegration: true}},
		Members:       []directory.Member{{Person: "ada", Organization: "nordlys"}},
	}, store.Act{Actor: "system"}),
		s.AddClient(ctx, client.Client{ID: "quill", Name: "Quill", RedirectURIs: []string{redirect}, IssuedAt: started.Unix()}, store.Origin{}, store.Act{}),
		s.Close())
}
