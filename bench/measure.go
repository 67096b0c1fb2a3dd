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
	stock       int // approvals for scenarios that use each once; 0: as many as may be needed
	live        int // approvals for the others
	progress    func(format string, args ...any)
	postgres    *postgres // nil: SQLite
	buffers     string    // of PostgreSQL, for -scale
	huge        bool      // in huge pages
}

// likely is how many requests a second a scenario that uses each approval
// once is prepared for. A quicker server ends its repetitions early.
const likely = 25_000

// A comparison is one scenario beside the bare server.
type comparison struct {
	Scenario string       `json:"scenario"`
	Runs     []pairOfRuns `json:"runs"`

	// Pgbench is the median rate of pgbench's UPDATEs of one row by its key on
	// the same server, and OfPgbench of the ratios to it; on PostgreSQL only.
	Pgbench   float64 `json:"pgbench_per_second,omitempty"`
	OfPgbench float64 `json:"of_pgbench,omitempty"`

	Rate  float64 `json:"requests_per_second"` // median
	Bare  float64 `json:"bare_per_second"`     // median
	Ratio float64 `json:"ratio"`               // median of the pairs' ratios
	P50   float64 `json:"p50_ms"`              // of all answers together
	P99   float64 `json:"p99_ms"`

	// The same of the bare server's answers. What the scenario's p99 is above it is
	// what the server itself adds, its longer queue included.
	BareP50 float64 `json:"bare_p50_ms"`
	BareP99 float64 `json:"bare_p99_ms"`
	Errors  int     `json:"errors"`
	// Faults says what the errors were; those of the bare server begin with
	// "bare: ".
	Faults map[string]int `json:"faults,omitempty"`
	Early  bool           `json:"ended_early"` // a repetition had no request left
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
	return runReport{
		Rate: r.rate(), P50: milliseconds(r.latency.quantile(0.5)), P99: milliseconds(r.latency.quantile(0.99)),
		Good: r.good, Errors: r.bad, Seconds: r.elapsed.Seconds(),
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// compare measures one scenario against a server of its own.
func (b *bench) compare(ctx context.Context, sc scenario, bare string) (comparison, error) {
	folder, err := os.MkdirTemp(b.folder, sc.name+"-")
	if err != nil {
		return comparison{}, err
	}
	s, err := b.stockFor(sc)
	if err != nil {
		return comparison{}, err
	}
	b.progress("%s: write %d approvals", sc.name, s.approvals)
	database, ask, err := b.place(ctx, s, folder)
	if err != nil {
		return comparison{}, err
	}
	further := ""
	if sc.behind {
		service, err := b.startBehind(starter(ctx))
		if err != nil {
			return comparison{}, err
		}
		defer service.end()
		if bare = service.proxy; sc.few > 0 {
			few := *b
			few.connections, b = sc.few, &few
		}
		if further, err = service.settings(folder, sc.ruled); err != nil {
			return comparison{}, err
		}
	}
	srv, err := startServerOn(ctx, b.binary, folder, database, sc.within, further)
	if err != nil {
		return comparison{}, err
	}
	defer srv.kill()
	at := srv.public
	if sc.name == "bare" {
		at = bare
	}
	pairs, err := b.pairs(ctx, b.players(sc.bare, s, bare), b.players(sc.player, s, at), s.approvals, sc.once)
	if err != nil {
		return comparison{}, fmt.Errorf("%s: %w", sc.name, err)
	}
	srv.kill()
	c := sumUp(sc.name, pairs)
	if err := prove(sc, ask, &c, pairs); err != nil {
		return c, err
	}
	if c.Errors == 0 { // otherwise the log is of use
		err = os.RemoveAll(folder)
	}
	return c, err
}

// place writes a stock where a server shall find it, and gives what asks the
// database for one number when the server is gone.
func (b *bench) place(ctx context.Context, s *stock, folder string) (url string, asked func(string) (int64, error), err error) {
	if b.postgres != nil {
		return b.postgres.place(ctx, s, folder)
	}
	path := filepath.Join(folder, databaseName)
	return "sqlite://" + path, func(query string) (int64, error) { return ask(path, query) }, s.write(ctx, folder)
}

func (b *bench) stockFor(sc scenario) (*stock, error) {
	n := 0
	switch {
	case sc.once && b.stock > 0:
		n = b.stock
	case sc.once:
		n = int((time.Duration(b.repetitions)*b.lasts + b.warmup).Seconds() * likely)
	case sc.phase != 0:
		n = b.live
	}
	if sc.phase != 0 {
		n = max(n, b.connections) // each has at least one
	}
	return newStock(n, sc.phase)
}

func (b *bench) players(of playing, s *stock, address string) load {
	l := load{address: address}
	for i := range b.connections {
		l.players = append(l.players, of(s, i, b.connections))
	}
	return l
}

// pair is one repetition; the first one warms up and is not reported.
type pair struct {
	bare, scenario run
	pgbench        float64 // a second
}

// pairs measures in turn, bare, scenario, bare, scenario, so that whatever
// else the machine does falls on both. What can be used once is spread over
// the repetitions.
func (b *bench) pairs(ctx context.Context, bare, other load, approvals int, once bool) ([]pair, error) {
	var all []pair
	for i := range b.repetitions + 1 {
		s := span{lasts: b.lasts}
		if i == 0 {
			s.lasts = b.warmup
		}
		var p pair
		var err error
		if p.bare, err = bare.run(ctx, s); err != nil {
			return nil, err
		}
		if once {
			whole := time.Duration(b.repetitions)*b.lasts + b.warmup
			s.most = max(1, int(float64(approvals)*s.lasts.Seconds()/whole.Seconds()))
		}
		if p.scenario, err = other.run(ctx, s); err != nil {
			return nil, err
		}
		if b.postgres != nil {
			if p.pgbench, err = b.postgres.pgbench(ctx, b.connections, b.live, s.lasts); err != nil {
				return nil, err
			}
		}
		all = append(all, p)
		b.progress("  bare %8.0f/s  scenario %8.0f/s%s", p.bare.rate(), p.scenario.rate(), beside(p.pgbench))
	}
	return all, nil
}

// sumUp makes the comparison of all pairs but the first. Errors of warming up
// count.
func sumUp(name string, pairs []pair) comparison {
	c := comparison{Scenario: name, Faults: map[string]int{}}
	var rates, bares, ratios, pgbenches, ofPgbench []float64
	var latency, idle histogram
	for i, p := range pairs {
		c.Errors += p.bare.bad + p.scenario.bad
		for what, n := range p.bare.faults {
			c.Faults["bare: "+what] += n
		}
		for what, n := range p.scenario.faults {
			c.Faults[what] += n
		}
		if i == 0 {
			continue
		}
		c.Early = c.Early || p.scenario.dry
		c.Runs = append(c.Runs, pairOfRuns{reportOf(p.bare), reportOf(p.scenario), p.pgbench})
		rates, bares = append(rates, p.scenario.rate()), append(bares, p.bare.rate())
		if p.bare.rate() > 0 {
			ratios = append(ratios, p.scenario.rate()/p.bare.rate())
		}
		if p.pgbench > 0 {
			pgbenches, ofPgbench = append(pgbenches, p.pgbench), append(ofPgbench, p.scenario.rate()/p.pgbench)
		}
		latency.merge(&p.scenario.latency)
		idle.merge(&p.bare.latency)
	}
	c.Pgbench, c.OfPgbench = median(pgbenches), median(ofPgbench)
	c.Rate, c.Bare, c.Ratio = median(rates), median(bares), median(ratios)
	c.P50, c.P99 = milliseconds(latency.quantile(0.5)), milliseconds(latency.quantile(0.99))
	c.BareP50, c.BareP99 = milliseconds(idle.quantile(0.5)), milliseconds(idle.quantile(0.99))
	return c
}

func median(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// prove compares what was answered with what the database has, now that the
// server was killed. Whatever differs is an error of the scenario. A request
// without an answer may or may not be there.
func prove(sc scenario, ask func(string) (int64, error), c *comparison, pairs []pair) error {
	if sc.proof == "" {
		return nil
	}
	good, bad := 0, 0
	for _, p := range pairs {
		good += p.scenario.good
		bad += p.scenario.bad
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
