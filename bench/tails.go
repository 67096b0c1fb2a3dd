package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/ncruces/go-sqlite3"
)

// A tail is how long requests of one kind took while something else went on. Refreshes and
// calls come together, each at a quarter of the rate that the server gives to as many
// connections in a closed loop: half of what it can.
type tail struct {
	Disturbance string  `json:"disturbance" col:"disturbance"`
	Times       int     `json:"times" col:"times"`          // that it was done
	Took        float64 `json:"seconds" col:"seconds,%.2f"` // each, in the middle
	Kind        string  `json:"kind" col:"requests"`
	Rate        float64 `json:"per_second" col:"due/s"`
	P50         float64 `json:"p50_ms" col:"p50 ms,%.2f"`
	P99         float64 `json:"p99_ms" col:"p99 ms,%.1f"`
	P999        float64 `json:"p999_ms" col:"p99.9 ms,%.1f"`
	Most        float64 `json:"most_ms" col:"max ms,%.1f"`
	Errors      int     `json:"errors" col:"errors"`

	Faults map[string]int `json:"faults,omitempty"`
}

// A disturbance is done again and again while requests come, with a pause after each time.
type disturbance struct {
	name  string
	do    func(ctx context.Context) error // nil: nothing is done
	pause time.Duration                   // 0: it is done once
}

const (
	// sweptEach is how many approvals a sweep finds to delete, which ended long ago.
	sweptEach = 10_000
	inOne     = 1_000 // imported members in one organization
	fillers   = 100   // of a role there
)

// openLimits keep the organizations' limits out of what is measured.
const openLimits = "\n[api]\nrate_limit = \"1000000/24h\"\n"

// tailsOf is one server, or on PostgreSQL two, under the load.
type tailsOf struct {
	*bench
	srv, other *server // the load is at srv
	folder     string
	database   string
	stock      *stock
	keys       int // in the key file
}

// tails measures everything on one server: what was done before stays.
func (b *bench) tails(ctx context.Context) (all []tail, err error) {
	old := time.Now().AddDate(0, 0, -200).Unix()
	folder, s, database, _, err := b.placeNew(ctx, "tails", b.live+sweptEach, func(s *stock) {
		s.people = b.live
		s.skewed = func(number int, r *stocked) {
			if number >= b.live {
				r.phase, r.created, r.ended, r.reason = 3, old, old, "revoked_by_client"
			}
		}
	})
	if err != nil {
		return nil, err
	}
	t := &tailsOf{bench: b, folder: folder, database: database, stock: s, keys: 1}
	start := func() (*server, error) { return startServerOn(ctx, b.binary, folder, database, "", openLimits) }
	if t.srv, err = start(); err != nil {
		return nil, err
	}
	defer t.srv.kill()
	if b.postgres != nil {
		if t.other, err = start(); err != nil {
			return nil, err
		}
		defer t.other.kill()
	}
	live := *s
	live.approvals = b.live
	refreshes, calls := b.players(refreshPlayer, &live, t.srv.public), b.players(freePlayer, &live, t.srv.public)
	if all, err = t.measure(ctx, refreshes, calls); err != nil || slices.ContainsFunc(all, func(one tail) bool { return one.Errors > 0 }) {
		return all, err
	}
	return all, os.RemoveAll(folder)
}

// freePlayer is verifyPlayer where no organization's limit is reached.
func freePlayer(s *stock, connection, connections int) player {
	p := verifyPlayer(s, connection, connections).(*verifies)
	p.turns = math.MaxInt
	return p
}

func (t *tailsOf) measure(ctx context.Context, refreshes, calls load) (all []tail, err error) {
	var rates [2]float64
	for i, l := range []load{refreshes, calls} {
		if _, err := l.run(ctx, span{lasts: t.warmup}); err != nil {
			return nil, err
		}
		peak, err := l.run(ctx, span{lasts: t.lasts})
		if err != nil {
			return nil, err
		}
		rates[i] = peak.rate() / 4
	}
	if t.rate > 0 {
		rates = [2]float64{t.rate, 2 * t.rate}
	}
	t.progress("  a quarter of the peak of each, or -rate: %.0f refreshes and %.0f calls a second", rates[0], rates[1])
	for _, d := range t.disturbances() {
		pair, err := t.disturb(ctx, d, rates, refreshes, calls)
		if err != nil {
			return all, fmt.Errorf("%s: %w", d.name, err)
		}
		for _, one := range pair {
			t.progress("  %s, %s: p99 %.1f ms, longest %.1f ms", d.name, one.Kind, one.P99, one.Most)
		}
		all = append(all, pair...)
	}
	return all, nil
}

// both runs the two loads at once.
func both(one, other load, do func(which int, l load) (run, error)) (runs [2]run, err error) {
	errs, done := [2]error{}, make(chan struct{})
	go func() {
		defer close(done)
		runs[1], errs[1] = do(1, other)
	}()
	runs[0], errs[0] = do(0, one)
	<-done
	return runs, errors.Join(errs[:]...)
}

// disturb measures while one thing is done: for -duration, and for as long as it takes.
func (t *tailsOf) disturb(ctx context.Context, d disturbance, rates [2]float64, refreshes, calls load) ([]tail, error) {
	during, end := context.WithCancel(ctx)
	defer end()
	var took []float64
	failed := make(chan error, 1)
	go func() {
		defer end()
		failed <- d.again(during, t.lasts, func(seconds float64) { took = append(took, seconds) })
	}()
	runs, err := both(refreshes, calls, func(which int, l load) (run, error) { return l.open(during, rates[which]) })
	if err := errors.Join(err, <-failed, ctx.Err()); err != nil {
		return nil, err
	}
	var all []tail
	for i, r := range runs {
		one := tail{Disturbance: d.name, Times: len(took), Kind: [...]string{"refreshes", "calls"}[i], Rate: rates[i],
			P50: r.quantile(0.5), P99: r.quantile(0.99), P999: r.quantile(0.999), Most: r.quantile(1), Errors: r.bad, Faults: maps.Clone(r.faults)}
		one.Took, _, _ = rangeOf(took)
		all = append(all, one)
	}
	return all, nil
}

// again does it until the time is over, a second after the load began; what was begun is
// finished, and the load goes on for a second more.
func (d disturbance) again(ctx context.Context, lasts time.Duration, took func(seconds float64)) error {
	begin := time.Now()
	sleep := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	sleep(time.Second)
	for n := 0; d.do != nil && ctx.Err() == nil && (n == 0 || d.pause > 0 && time.Since(begin) < lasts); n++ {
		start := time.Now()
		if err := d.do(ctx); err != nil {
			return err
		}
		took(time.Since(start).Seconds())
		sleep(d.pause)
	}
	sleep(max(time.Second, lasts-time.Since(begin)))
	return nil
}

func (t *tailsOf) disturbances() []disturbance {
	all := []disturbance{
		{name: "none"},
		{"sweep", t.post("/v1/gc", "{}"), time.Second},
		{"key rotation", t.rotate, time.Second},
	}
	if t.postgres == nil {
		all = append(all, disturbance{"checkpoint", t.checkpoint, time.Second}, disturbance{"backup", t.backup, time.Second})
	} else {
		all = append(all, disturbance{"checkpoint", func(context.Context) error { return t.onDatabase(`CHECKPOINT`) }, time.Second},
			disturbance{"all facts loaded again", t.reload, time.Second})
	}
	for i, at := range []*server{t.srv, t.other} {
		if at != nil {
			all = append(all, t.importTo(at, i), t.removeFrom(at))
		}
	}
	return append(all, disturbance{name: "none, once more"})
}

func (t *tailsOf) post(path, body string) func(context.Context) error {
	return func(ctx context.Context) error {
		var ignored json.RawMessage
		return t.srv.operate(ctx, http.MethodPost, path, bytes.NewReader([]byte(body)), &ignored)
	}
}

// rotate adds a key at every node, and lets it seal.
func (t *tailsOf) rotate(ctx context.Context) error {
	t.keys++
	text := "1:" + base64.StdEncoding.EncodeToString(t.stock.secret[:]) + "\n"
	for n := 2; n <= t.keys; n++ {
		secret := t.stock.handle(-n)
		text += fmt.Sprintf("%d:%s\n", n, base64.StdEncoding.EncodeToString(append(secret[:], secret[:]...)))
	}
	if err := os.WriteFile(filepath.Join(t.folder, "secret.key"), []byte(text), 0o600); err != nil {
		return err
	}
	var ignored json.RawMessage
	for _, at := range []*server{t.other, t.srv} {
		if at == nil {
			continue
		}
		if err := at.operate(ctx, http.MethodPost, "/v1/keys/reload", bytes.NewReader([]byte("{}")), &ignored); err != nil {
			return err
		}
	}
	return t.post("/v1/keys/rotate", "{}")(ctx)
}

// checkpoint puts all that SQLite's log says into the database, as a tool of the operator's
// may do at any time.
func (t *tailsOf) checkpoint(context.Context) error {
	db, err := sqlite3.Open("file:" + filepath.Join(t.folder, databaseName) + "?vfs=grantkeeper&_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	_, _, err = db.WALCheckpoint("main", sqlite3.CHECKPOINT_PASSIVE)
	return errors.Join(err, db.Close())
}

func (t *tailsOf) backup(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.srv.operators+"/v1/backup", nil)
	if err != nil {
		return err
	}
	r.SetBasicAuth("operator", operatorPassword)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("backup: %s", a.Status)
	}
	_, err = io.Copy(io.Discard, a.Body)
	return err
}

func (t *tailsOf) onDatabase(texts ...string) error {
	return onURL(t.database, func(c *pgx.Conn) error { return execAll(context.Background(), c, texts) })
}

// reload has every node load all facts again, as after a change that names no row.
func (t *tailsOf) reload(context.Context) error {
	return t.onDatabase(`WITH next AS (UPDATE facts SET version = version + 1 WHERE one = 1 RETURNING version)
		INSERT INTO fact_change (version, what, key) SELECT version, '*', '' FROM next`)
}

// importTo takes a directory of new members at a node, as an operator does.
func (t *tailsOf) importTo(at *server, round int) disturbance {
	return t.taken(at, fmt.Sprintf("import of %d members", t.members), "/v1/directory?reason=bench", directoryOf(round, t.members))
}

// removeFrom takes a directory that names none of them any more.
func (t *tailsOf) removeFrom(at *server) disturbance {
	var stay []map[string]any
	for p := range t.stock.people {
		stay = append(stay, map[string]any{"organization": organizationOf(p), "person": personIDs[p]})
	}
	return t.taken(at, fmt.Sprintf("removal of %d members", t.members), "/v1/directory?prune=true&reason=bench", map[string]any{"members": stay})
}

func (t *tailsOf) taken(at *server, name, path string, d map[string]any) disturbance {
	if at != t.srv {
		name += ", at another node"
	}
	body, err := json.Marshal(d) // now: it takes the generator a while
	return disturbance{name: name, do: func(ctx context.Context) error {
		if err != nil {
			return err
		}
		var said struct {
			Counts map[string]struct{ Added, Removed int }
		}
		if err := at.operate(ctx, http.MethodPost, path, bytes.NewReader(body), &said); err != nil {
			return err
		}
		if got := said.Counts["members"]; got.Added+got.Removed != t.members {
			return fmt.Errorf("the directory was taken, and of %d members it says %+v", t.members, got)
		}
		return nil
	}}
}

// directoryOf is one of so many new members in organizations of a thousand, who fill a
// role each.
func directoryOf(round, members int) map[string]any {
	var people, organizations, belong, roles []map[string]any
	for i := range members {
		o := fmt.Sprintf("new-%d-%d", round, i/inOne)
		if i%inOne == 0 {
			organizations = append(organizations, map[string]any{"id": o, "name": o, "ai_integration": true})
		}
		p := fmt.Sprintf("new-%d-person-%d", round, i)
		people = append(people, map[string]any{"id": p, "email": p + "@client.example", "name": "Person " + p})
		belong = append(belong, map[string]any{"organization": o, "person": p})
		if i%fillers == 0 {
			r := fmt.Sprintf("%s-%d", o, i%inOne/fillers)
			roles = append(roles, map[string]any{"id": r, "organization": o, "name": "Role " + r, "fillers": []string{}})
		}
		last := roles[len(roles)-1]
		last["fillers"] = append(last["fillers"].([]string), p)
	}
	return map[string]any{"people": people, "organizations": organizations, "members": belong, "roles": roles}
}
