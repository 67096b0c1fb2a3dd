package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A scaled is what a node on PostgreSQL gives and costs with so many approvals.
type scaled struct {
	Approvals int     `json:"approvals"`
	People    int     `json:"people"`
	Ready     float64 `json:"ready_ms"`   // from the node's start to the first 200 of /readyz
	Idle      int64   `json:"idle_bytes"` // resident, a second later
	Load      int64   `json:"load_bytes"` // resident, after the refreshes

	// What the approvals take on the disk, freshly written.
	Table   int64 `json:"table_bytes"`
	Indexes int64 `json:"index_bytes"`

	Exact    comparison `json:"verify"`          // all over the table, each once
	InUse    comparison `json:"verify_in_use"`   // exact, of the same few all the time
	Smallest comparison `json:"verify_smallest"` // exact, all over the table of the smallest size
	Bounded  comparison `json:"verify_bounded"`  // of the same few, perhaps from memory
	Refresh  comparison `json:"refresh"`

	// Of the smallest size's rate in the same turn: the median of all turns.
	OfSmallest      float64 `json:"verify_of_smallest"`
	InUseOfSmallest float64 `json:"verify_in_use_of_smallest"`

	// Bytes of the write-ahead log for each refresh: straight after a
	// checkpoint, when each page that is touched is written whole, and without
	// images of pages.
	WALImages float64        `json:"wal_bytes_with_images"`
	WALPlain  float64        `json:"wal_bytes_without_images"`
	Errors    int            `json:"errors"`
	Faults    map[string]int `json:"faults,omitempty"`
}

const (
	// eachPerson is how many approvals a person has; there are no fewer people
	// than in the other measurements.
	eachPerson = 10
	// sampled bounds the approvals that are asked for: spread evenly over all,
	// and more than a run has time for.
	sampled = 2_000_000
	// active is how many approvals the calls come from that are in use.
	active = 10_000
	// logged is how many refreshes are made to see what they log.
	logged = 20_000
)

// What checks and refreshes read of an approval.
var hot = []string{"approval_pkey", "approval"}

// A placed is a database with so many approvals.
type placed struct {
	s                     *stock
	folder, url, database string
	ask                   asked
}

func (b *bench) placeScaled(ctx context.Context, n int) (at placed, err error) {
	begin := time.Now()
	at.folder, at.s, at.url, at.ask, err = b.placeNew(ctx, "scale", n, func(s *stock) {
		s.grown = true
		s.populate(max(people, n/eachPerson/membersEach*membersEach))
	})
	if err == nil {
		at.database = at.url[strings.LastIndexByte(at.url, '/')+1 : strings.IndexByte(at.url, '?')]
		b.progress("  written in %v", time.Since(begin).Round(time.Second))
	}
	return at, err
}

func (b *bench) drop(at placed) error {
	return errors.Join(os.RemoveAll(at.folder), b.postgres.Drop(at.database))
}

// scale measures each number of approvals in a database of its own. Checks are made in
// turn with those of the smallest number: a machine is not as fast all the time.
func (b *bench) scale(ctx context.Context, sizes []int, bare string) (all []scaled, err error) {
	if b.postgres, err = startPostgres(b.buffers); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.postgres.Stop()) }()
	smallest, err := b.placeScaled(ctx, slices.Min(sizes))
	if err != nil {
		return nil, err
	}
	for _, n := range sizes {
		one, err := b.scaleOf(ctx, n, smallest, bare)
		if err != nil {
			return all, fmt.Errorf("%d approvals: %w", n, err)
		}
		all = append(all, one)
	}
	if slices.ContainsFunc(all, func(s scaled) bool { return s.Smallest.Errors > 0 }) {
		return all, nil // what the node said stays
	}
	return all, b.drop(smallest)
}

func (b *bench) scaleOf(ctx context.Context, n int, smallest placed, bare string) (scaled, error) {
	out := scaled{Approvals: n, Faults: map[string]int{}}
	at, err := b.placeScaled(ctx, n)
	if err != nil {
		return out, err
	}
	out.People = at.s.people
	err = errors.Join(out.sizeOnDisk(at.ask), b.postgres.warm(at.database, hot...), b.postgres.warm(smallest.database, hot...))
	if err != nil {
		return out, err
	}
	if err := b.scaleCalls(ctx, at, smallest, bare, &out); err != nil {
		return out, err
	}
	if err := b.scaleRefreshes(ctx, at, &out); err != nil {
		return out, err
	}
	for _, c := range []comparison{out.Exact, out.InUse, out.Smallest, out.Bounded, out.Refresh} {
		out.Errors += c.Errors
		for what, n := range c.Faults {
			out.Faults[c.Scenario+": "+what] += n
		}
	}
	if out.Errors > 0 {
		return out, b.postgres.Drop(at.database) // what the node said stays
	}
	return out, b.drop(at)
}

func (out *scaled) sizeOnDisk(ask asked) (err error) {
	if out.Table, err = ask(`SELECT pg_table_size('approval')`); err == nil {
		out.Indexes, err = ask(`SELECT pg_indexes_size('approval')`)
	}
	return err
}

// scaleCalls asks four nodes in turn, after the bare server. Each takes only so many calls
// of an organization.
func (b *bench) scaleCalls(ctx context.Context, at, smallest placed, bare string, out *scaled) error {
	laps := []*lap{{name: "bare", do: b.players(endless(verifyPlayer, bareAnswer[:20]), at.s.scattered(active), bare).run}}
	for i, t := range []struct {
		name   string
		at     placed
		asked  int    // approvals, at most
		within string // of staleness
	}{
		{"verify", at, sampled, ""},
		{"verify of the smallest", smallest, sampled, ""},
		{"verify in use", at, active, ""},
		{"verify within a bound", at, active, staleness},
	} {
		srv, err := startServerOn(ctx, b.binary, t.at.folder, t.at.url, t.within, "")
		if err != nil {
			return err
		}
		defer srv.kill()
		if i == 0 {
			out.Ready = milliseconds(srv.ready)
			time.Sleep(settling)
			if out.Idle, err = srv.resident(); err != nil {
				return err
			}
		}
		laps = append(laps, &lap{name: t.name, do: b.players(verifyPlayer, t.at.s.scattered(t.asked), srv.public).run})
	}
	if err := b.inTurn(ctx, laps...); err != nil {
		return err
	}
	for i, into := range []*comparison{&out.Exact, &out.Smallest, &out.InUse, &out.Bounded} {
		*into = sumUp(laps[0], laps[i+1])
	}
	out.OfSmallest, out.InUseOfSmallest = laps[1].comparedTo(laps[2]), laps[3].comparedTo(laps[2])
	return nil
}

// scaleRefreshes refreshes approvals all over the table, in turn with pgbench, whose
// table has as many rows. Each finds its own table in memory: there may be no room for
// both.
func (b *bench) scaleRefreshes(ctx context.Context, at placed, out *scaled) error {
	srv, err := startServerOn(ctx, b.binary, at.folder, at.url, "", "")
	if err != nil {
		return err
	}
	defer srv.kill()
	sc, err := scenarioOf("refresh")
	if err != nil {
		return err
	}
	if err := b.postgres.preparePgbench(at.s.approvals); err != nil {
		return err
	}
	refreshes, pgbench := &lap{name: "refresh", do: b.players(sc.player, at.s.scattered(sampled), srv.public).run}, b.postgres.lap(b.connections, at.s.approvals)
	ask := refreshes.do
	refreshes.warm(b.postgres, at.database, hot...)
	pgbench.warm(b.postgres, b.postgres.beside, "beside_pkey", "beside")
	if err := b.inTurn(ctx, refreshes, pgbench); err != nil {
		return err
	}
	if out.Load, err = srv.resident(); err != nil {
		return err
	}
	first, second, err := b.logged(ctx, ask, at, out)
	if err != nil {
		return err
	}
	srv.kill()
	out.Refresh = sumUp(nil, refreshes, pgbench)
	return prove(sc, at.ask, &out.Refresh, append(refreshes.runs, first, second))
}

// warm has each lap find what it reads in PostgreSQL's memory.
func (l *lap) warm(p *postgres, database string, relations ...string) {
	do := l.do
	l.do = func(ctx context.Context, s span) (run, error) {
		if err := p.warm(database, relations...); err != nil {
			return run{}, err
		}
		return do(ctx, s)
	}
}

// logged sees what refreshes write to the log, with images of pages and
// without.
func (b *bench) logged(ctx context.Context, ask func(context.Context, span) (run, error), on placed, out *scaled) (first, second run, err error) {
	each := func(images string) (r run, bytes float64, err error) {
		if err := b.postgres.Exec(on.database, `ALTER SYSTEM SET full_page_writes = `+images, `SELECT pg_reload_conf()`, `SELECT pg_sleep(1)`, `CHECKPOINT`); err != nil {
			return r, 0, err
		}
		const at = `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint`
		before, err := on.ask(at)
		if err != nil {
			return r, 0, err
		}
		if r, err = ask(ctx, span{most: logged}); err != nil {
			return r, 0, err
		}
		time.Sleep(settling) // what is noted without waiting for it
		after, err := on.ask(at)
		return r, float64(after-before) / float64(max(1, r.good)), err
	}
	if first, out.WALImages, err = each("on"); err != nil {
		return first, second, err
	}
	second, out.WALPlain, err = each("off")
	return first, second, errors.Join(err, b.postgres.Exec(on.database, `ALTER SYSTEM RESET full_page_writes`, `SELECT pg_reload_conf()`))
}

// scattered gives a stock of which at most so many approvals are asked for. They lie
// all over the table, in no order.
func (s *stock) scattered(most int) *stock {
	few := *s
	few.chosen = make([]int, 0, min(most, s.approvals))
	step := stride(s.approvals)
	for k, number := 0, 0; k < s.approvals && len(few.chosen) < most; k++ {
		few.chosen = append(few.chosen, number)
		number = (number + step) % s.approvals
	}
	return &few
}

// stride is a step by which all of n are met before one is met again, those
// that follow one another far apart.
func stride(n int) int {
	step := max(1, int(float64(n)*0.6180339887))
	for divisor(step, n) != 1 {
		step++
	}
	return step
}

func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// sizesOf reads a list of numbers of approvals.
func sizesOf(text string) (all []int, err error) {
	for one := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(one))
		if err != nil || n < 1000 || n > 100_000_000 {
			return nil, fmt.Errorf("-scale: %q is no number of approvals from 1000 to 100000000", one)
		}
		all = append(all, n)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// scaleRows are the table of a scale, a row for each of its figures.
var scaleRows = []struct {
	name string
	cell func(scaled) string
}{
	{"people", func(s scaled) string { return thousands(int64(s.People)) }},
	{"node: ready ms", func(s scaled) string { return whole(s.Ready) }},
	{"node: idle MiB", func(s scaled) string { return tenths(mebibytes(s.Idle)) }},
	{"node: after load MiB", func(s scaled) string { return tenths(mebibytes(s.Load)) }},
	{"verify/s", func(s scaled) string { return whole(s.Exact.Rate) }},
	{"  of bare", func(s scaled) string { return hundredths(s.Exact.Ratio) }},
	{"  of the smallest's", func(s scaled) string { return hundredths(s.OfSmallest) }},
	{"  p99 ms", func(s scaled) string { return hundredths(s.Exact.P99) }},
	{"verify of 10,000 in use/s", func(s scaled) string { return whole(s.InUse.Rate) }},
	{"  of the smallest's", func(s scaled) string { return hundredths(s.InUseOfSmallest) }},
	{"  p99 ms", func(s scaled) string { return hundredths(s.InUse.P99) }},
	{"verify within " + staleness + "/s", func(s scaled) string { return whole(s.Bounded.Rate) }},
	{"  of bare", func(s scaled) string { return hundredths(s.Bounded.Ratio) }},
	{"  p99 ms", func(s scaled) string { return hundredths(s.Bounded.P99) }},
	{"refresh/s", func(s scaled) string { return whole(s.Refresh.Rate) }},
	{"  pgbench/s", func(s scaled) string { return whole(s.Refresh.Pgbench) }},
	{"  of pgbench", func(s scaled) string { return hundredths(s.Refresh.OfPgbench) }},
	{"  p99 ms", func(s scaled) string { return hundredths(s.Refresh.P99) }},
	{"log: B/refresh, images", func(s scaled) string { return whole(s.WALImages) }},
	{"log: B/refresh, without", func(s scaled) string { return whole(s.WALPlain) }},
	{"disk: table B/approval", func(s scaled) string { return thousands(s.Table / int64(s.Approvals)) }},
	{"disk: indexes B/approval", func(s scaled) string { return thousands(s.Indexes / int64(s.Approvals)) }},
	{"errors", func(s scaled) string { return thousands(int64(s.Errors)) }},
}

func printScale(w io.Writer, all []scaled) {
	if all == nil {
		return
	}
	heading := []string{"approvals"}
	for _, s := range all {
		heading = append(heading, thousands(int64(s.Approvals)))
	}
	var rows [][]string
	for _, r := range scaleRows {
		cells := []string{r.name}
		for _, s := range all {
			cells = append(cells, r.cell(s))
		}
		rows = append(rows, cells)
	}
	printTable(w, heading, rows)
	for _, s := range all {
		printFaults(w, thousands(int64(s.Approvals))+" approvals", s.Faults)
	}
}
