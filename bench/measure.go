package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A bench is how everything is measured in one call of the program.
type bench struct {
	folder      string // everything is below it
	binary      string // of the server
	connections int
	repetitions int
	lasts       time.Duration // of one repetition
	warmup      time.Duration
	stock       int     // approvals for scenarios that use each once; 0: as many as may be needed
	live        int     // approvals for the others
	members     int     // that tails imports
	rate        float64 // of refreshes, that tails asks for; 0: what half of the peak is
	progress    func(format string, args ...any)
	postgres    *postgres // nil: SQLite
	buffers     string    // of PostgreSQL, for -scale
	settings    string    // TOML behind the configuration that a scenario is measured with
}

// likely is how many requests a second a scenario that uses each approval once is
// prepared for. A quicker server ends its repetitions early.
const likely = 25_000

// A comparison is one scenario beside the bare server.
type comparison struct {
	Scenario string       `json:"scenario" col:"scenario"`
	Runs     []pairOfRuns `json:"runs"`

	Rate    float64 `json:"requests_per_second" col:"requests/s"` // median
	Lowest  float64 `json:"lowest_per_second" col:"lowest"`
	Highest float64 `json:"highest_per_second" col:"highest"`
	Bare    float64 `json:"bare_per_second" col:"bare/s"` // median
	Ratio   float64 `json:"ratio" col:"of bare,%.2f"`     // median of the pairs' ratios
	P50     float64 `json:"p50_ms" col:"p50 ms,%.2f"`     // of all answers together
	P99     float64 `json:"p99_ms" col:"p99 ms,%.2f"`

	// The same of the bare server's answers. What the scenario's p99 is above it is
	// what the server itself adds, its longer queue included.
	BareP50 float64 `json:"bare_p50_ms" col:"bare p50,%.2f"`
	BareP99 float64 `json:"bare_p99_ms" col:"bare p99,%.2f"`
	Errors  int     `json:"errors" col:"errors"`

	// Pgbench is the median rate of pgbench's UPDATEs of one row by its key on the same
	// server, and OfPgbench of the ratios to it; on PostgreSQL only.
	Pgbench   float64 `json:"pgbench_per_second,omitempty" col:"pgbench/s,some"`
	OfPgbench float64 `json:"of_pgbench,omitempty" col:"of pgbench,%.2fsome"`

	// Faults says what the errors were; those of the bare server begin with "bare: ".
	Faults map[string]int `json:"faults,omitempty"`
	Early  bool           `json:"ended_early" col:"ended early,some"` // a repetition had no request left
}

// pairOfRuns is one repetition: the bare server, then the scenario.
type pairOfRuns struct {
	Bare     runReport `json:"bare"`
	Scenario runReport `json:"scenario"`
	Pgbench  float64   `json:"pgbench_per_second,omitempty"`
}

type runReport struct {
	Rate    float64 `json:"requests_per_second"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	Good    int     `json:"right_answers"`
	Errors  int     `json:"errors"`
	Seconds float64 `json:"seconds"`
}

func reportOf(r run) runReport {
	return runReport{r.rate(), r.quantile(0.5), r.quantile(0.99), r.good, r.bad, r.elapsed.Seconds()}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// A lap is what is measured in turn with others.
type lap struct {
	name string
	do   func(context.Context, span) (run, error)
	runs []run // the first one warms up
}

// inTurn does one lap after the other, again and again, so that whatever else the
// machine does falls on all of them.
func (b *bench) inTurn(ctx context.Context, laps ...*lap) error {
	for i := range b.repetitions + 1 {
		s, said := span{lasts: b.lasts}, ""
		if i == 0 {
			s.lasts = b.warmup
		}
		for _, l := range laps {
			r, err := l.do(ctx, s)
			if err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
			l.runs = append(l.runs, r)
			said += fmt.Sprintf("  %s %.0f/s", l.name, r.rate())
		}
		b.progress("%s", said)
	}
	return nil
}

// whole is the time of all laps of one thing.
func (b *bench) whole() time.Duration { return time.Duration(b.repetitions)*b.lasts + b.warmup }

// compare measures one scenario against a server of its own.
func (b *bench) compare(ctx context.Context, sc scenario, bare string) (c comparison, err error) {
	folder, s, database, ask, err := b.prepare(ctx, sc)
	if err != nil {
		return c, err
	}
	further := ""
	if sc.behind {
		service, err := startBehind(ctx)
		if err != nil {
			return c, err
		}
		defer service.end()
		if bare = service.proxy; sc.few > 0 {
			few := *b
			few.connections, b = sc.few, &few
		}
		if further, err = service.settings(folder, sc.ruled); err != nil {
			return c, err
		}
	}
	srv, err := startServerOn(ctx, b.binary, folder, database, sc.within, further+b.settings)
	if err != nil {
		return c, err
	}
	defer srv.kill()
	at := srv.public
	if sc.name == "bare" {
		at = bare
	}
	if sc.held {
		bare = srv.public
	}
	laps := []*lap{{name: "bare", do: b.players(sc.bare, s, bare).run}, {name: sc.name, do: b.players(sc.player, s, at).run}}
	if sc.once { // what can be used once is spread over the repetitions
		of := s.approvals
		if sc.held {
			of /= 2
			laps[0].do = b.spread(laps[0].do, of)
		}
		laps[1].do = b.spread(laps[1].do, of)
	}
	if b.postgres != nil {
		laps = append(laps, b.postgres.lap(b.connections, b.live))
	}
	if err := b.inTurn(ctx, laps...); err != nil {
		return c, err
	}
	srv.kill()
	c = sumUp(laps[0], laps[1], laps[2:]...)
	if err := prove(sc, ask, &c, laps[1].runs); err != nil || c.Errors > 0 { // then the log is of use
		return c, err
	}
	return c, os.RemoveAll(folder)
}

// spread gives each repetition its part of so many requests.
func (b *bench) spread(do func(context.Context, span) (run, error), requests int) func(context.Context, span) (run, error) {
	return func(ctx context.Context, s span) (run, error) {
		s.most = max(1, int(float64(requests)*s.lasts.Seconds()/b.whole().Seconds()))
		return do(ctx, s)
	}
}

// prepare writes the approvals that a scenario needs, into a folder of its own.
func (b *bench) prepare(ctx context.Context, sc scenario) (folder string, s *stock, database string, ask asked, err error) {
	n := 0
	switch {
	case sc.once && b.stock > 0:
		n = b.stock
	case sc.once:
		n = int(b.whole().Seconds() * likely)
	case sc.phase != 0:
		n = b.live
	}
	if sc.phase != 0 {
		n = max(n, b.connections) // each has at least one
	}
	var held *holder
	if sc.held {
		n *= 2
		if held, err = newHolder(max(int(b.whole().Seconds()*likely), b.connections)); err != nil {
			return
		}
	}
	return b.placeNew(ctx, sc.name, n, func(s *stock) { s.phase, s.holder = sc.phase, held })
}

// asked gives the one number that a query finds in a database.
type asked func(query string) (int64, error)

// placeNew writes a stock of so many live approvals, or as change has it, where a server
// shall find it.
func (b *bench) placeNew(ctx context.Context, name string, approvals int, change func(*stock)) (folder string, s *stock, database string, ask asked, err error) {
	if folder, err = os.MkdirTemp(b.folder, name+"-"); err != nil {
		return
	}
	if s, err = newStock(approvals); err != nil {
		return
	}
	if change != nil {
		change(s)
	}
	b.progress("%s: write %d approvals", name, s.approvals)
	database, ask, err = b.place(ctx, s, folder)
	return
}

func (b *bench) place(ctx context.Context, s *stock, folder string) (url string, ask asked, err error) {
	if b.postgres != nil {
		return b.postgres.place(ctx, s, folder)
	}
	path := filepath.Join(folder, databaseName)
	return "sqlite://" + path, askFile(path), s.write(ctx, folder)
}

func (b *bench) players(of playing, s *stock, address string) load {
	l := load{address: address}
	for i := range b.connections {
		l.players = append(l.players, of(s, i, b.connections))
	}
	return l
}

// sumUp makes the comparison of all laps but the first, whose errors count. Either of
// bare and more, which is pgbench, may be missing.
func sumUp(bare, of *lap, more ...*lap) comparison {
	c := comparison{Scenario: of.name, Faults: map[string]int{}}
	var all, idle run
	of.each(&all, &c, "")
	c.Rate, c.Lowest, c.Highest = rangeOf(of.rates())
	c.P50, c.P99, c.Early = all.quantile(0.5), all.quantile(0.99), all.dry
	if bare != nil {
		bare.each(&idle, &c, "bare: ")
		c.Bare, _, _ = rangeOf(bare.rates())
		c.Ratio, c.BareP50, c.BareP99 = of.comparedTo(bare), idle.quantile(0.5), idle.quantile(0.99)
	}
	for _, pgbench := range more {
		c.Pgbench, _, _ = rangeOf(pgbench.rates())
		c.OfPgbench = of.comparedTo(pgbench)
	}
	for i, r := range of.runs[1:] {
		pair := pairOfRuns{Scenario: reportOf(r)}
		if bare != nil {
			pair.Bare = reportOf(bare.runs[i+1])
		}
		for _, pgbench := range more {
			pair.Pgbench = pgbench.runs[i+1].rate()
		}
		c.Runs = append(c.Runs, pair)
	}
	return c
}

// each merges all runs but the first, and counts the errors of all.
func (l *lap) each(into *run, c *comparison, before string) {
	for i, r := range l.runs {
		c.Errors += r.bad
		for what, n := range r.faults {
			c.Faults[before+what] += n
		}
		if i > 0 {
			into.merge(r)
		}
	}
}

func (l *lap) rates() (all []float64) {
	for _, r := range l.runs[1:] {
		all = append(all, r.rate())
	}
	return all
}

// comparedTo is the median of the ratios to another's rates, turn by turn.
func (l *lap) comparedTo(other *lap) float64 {
	var ratios []float64
	for i, rate := range other.rates() {
		if rate > 0 {
			ratios = append(ratios, l.rates()[i]/rate)
		}
	}
	middle, _, _ := rangeOf(ratios)
	return middle
}

// rangeOf gives the median, the least and the most; nothing has zero.
func rangeOf(of []float64) (middle, least, most float64) {
	if len(of) == 0 {
		return 0, 0, 0
	}
	sorted := slices.Sorted(slices.Values(of))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1]
}

// prove compares what was answered with what the database has, now that the server was
// killed. Whatever differs is an error of the scenario. A request without an answer may
// or may not be there.
func prove(sc scenario, ask asked, c *comparison, runs []run) error {
	if sc.proof == "" {
		return nil
	}
	good, bad := 0, 0
	for _, r := range runs {
		good, bad = good+r.good, bad+r.bad
	}
	there, err := ask(sc.proof)
	if err != nil {
		return fmt.Errorf("%s: ask the database: %w", sc.name, err)
	}
	if missing := good - int(there); missing > 0 || -missing > bad {
		c.Errors += max(missing, -missing)
		c.Faults[fmt.Sprintf("%d right answers, and %d in the database", good, there)]++
	}
	return nil
}
