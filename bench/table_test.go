package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestPrintTable(t *testing.T) {
	var b strings.Builder
	printTable(&b, []string{"name", "n", "long heading"}, [][]string{{"a", "1", ""}, {"größer", "1,000", "2"}})
	want := "" +
		"name        n  long heading\n" +
		"a           1\n" +
		"größer  1,000             2\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 7: "7", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, m := range []struct {
		of   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 2, 100}, 3}} {
		if got, _, _ := rangeOf(m.of); got != m.want {
			t.Errorf("of %v: %v, want %v", m.of, got, m.want)
		}
	}
}

// runOf is a run of a second with that many right answers, each of the same time.
func runOf(good, bad int, took time.Duration) run {
	r := run{good: good, bad: bad, elapsed: time.Second}
	for range good + bad {
		r.took(took)
	}
	if bad > 0 {
		r.fault("status 503 without an error code", bad)
	}
	return r
}

// The first lap warms up: its errors count, its rates do not. The ratio is that of the
// pairs, not of the medians.
func TestSumUp(t *testing.T) {
	ms := time.Millisecond
	bare := &lap{runs: []run{runOf(1, 1, ms), runOf(100, 0, ms), runOf(200, 0, ms), runOf(50, 0, ms)}}
	of := &lap{name: "refresh", runs: []run{runOf(1, 2, time.Minute), runOf(30, 0, ms), runOf(80, 0, ms), runOf(25, 4, 2*ms)}}
	c := sumUp(bare, of, &lap{runs: []run{{}, {good: 15, elapsed: time.Second}, {good: 80, elapsed: time.Second}, {good: 50, elapsed: time.Second}}})
	if c.Rate != 30 || c.Lowest != 25 || c.Highest != 80 || c.Bare != 100 || c.Ratio != 0.4 || c.OfPgbench != 1 || c.Errors != 7 || len(c.Runs) != 3 {
		t.Errorf("%+v", c)
	}
	if c.P50 < 1 || c.P50 > 1.02 || c.P99 < 2 || c.P99 > 2.04 || c.BareP99 < 1 || c.BareP99 > 1.02 {
		t.Errorf("p50 %v, p99 %v, of the bare server %v", c.P50, c.P99, c.BareP99)
	}
	if c.Faults["status 503 without an error code"] != 6 || c.Faults["bare: status 503 without an error code"] != 1 {
		t.Errorf("faults: %v", c.Faults)
	}
}

// Quantiles are at most a hundredth above the truth, and it does not matter which
// connection counted what.
func TestQuantile(t *testing.T) {
	var whole run
	if whole.quantile(0.5) != 0 {
		t.Errorf("the median of nothing: %v", whole.quantile(0.5))
	}
	for i := range 4 {
		var part run
		for n := i; n < 1000; n += 4 {
			part.took(time.Duration(n+1) * 100 * time.Microsecond)
		}
		whole.merge(part)
	}
	for q, want := range map[float64]float64{0.5: 50, 0.99: 99, 1: 100} {
		if got := whole.quantile(q); got < want || got > 1.01*want {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
}

func TestPrintRows(t *testing.T) {
	var b strings.Builder
	bare := &lap{runs: []run{{}, runOf(2000, 0, time.Millisecond), runOf(2000, 0, time.Millisecond)}}
	of := &lap{name: "refresh", runs: []run{{}, runOf(1000, 3, time.Millisecond), runOf(1200, 0, time.Millisecond)}}
	printRows(&b, []comparison{sumUp(bare, of)})
	want := "" +
		"scenario  requests/s  lowest  highest  bare/s  of bare  p50 ms  p99 ms  bare p50  bare p99  errors\n" +
		"refresh        1,100   1,000    1,200   2,000     0.55    1.00    1.00      1.00      1.00       3\n" +
		"\nrefresh scenario: 3 times: status 503 without an error code\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	b.Reset()
	printRows(&b, []comparison{{Scenario: "a", Pgbench: 1}, {Scenario: "b", Early: true}})
	if rows := strings.Split(b.String(), "\n"); !strings.HasSuffix(rows[0], "errors  pgbench/s  ended early") || !strings.HasSuffix(rows[1], "1        false") {
		t.Errorf("columns that only some have:\n%s", b.String())
	}
	b.Reset()
	if printRows(&b, []size{}); b.String() != "" {
		t.Errorf("of nothing: %q", b.String())
	}
}

// Whatever is measured can be printed, and as JSON too.
func TestPrint(t *testing.T) {
	for want, r := range map[string]result{
		"of bare":                              {Comparisons: []comparison{{Scenario: "refresh"}}},
		"1,000,000 approvals: 1 times: x":      {Sizes: []size{{Approvals: 1_000_000, Errors: 1, Faults: map[string]int{"x": 1}}}},
		"disk: table B/approval":               {Scale: []scaled{{Approvals: 1}}},
		"journal            1      3     2":    {Growth: &growth{Tables: []tableGrowth{{"journal", 1, 3, 2}}, Files: []fileGrowth{{"database", 1, 2, 3, 4}}}},
		"two kinds can be told apart":          {Timings: []timing{{What: "a"}}},
		"50 a page: the slowest":               {Lists: []listing{{List: "/v1/events", Limit: 50, Slowest: []page{{Query: "a"}}}}},
		"refreshes of 0 approvals, 2 errors":   {Growth: &growth{Errors: 2}},
		"p99.9 ms":                             {Tails: []tail{{Disturbance: "none"}}},
		"meanwhile/s":                          {Removals: []removal{{Removed: 1}}},
		"node     streams  median ms  most ms": {Cuts: []cut{{Node: "another"}}},
	} {
		var b strings.Builder
		if err := (options{}).print(&b, r); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%v: no %q in\n%s", err, want, b.String())
		}
		b.Reset()
		if err := (options{json: "-"}).print(&b, r); err != nil || !json.Valid([]byte(b.String())) {
			t.Errorf("%v: %s", err, b.String())
		}
	}
}
