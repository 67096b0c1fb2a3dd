package main

import (
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
		if got := median(m.of); got != m.want {
			t.Errorf("of %v: %v, want %v", m.of, got, m.want)
		}
	}
}

// runOf is a run of a second with that many right answers, each of the same
// time.
func runOf(good, bad int, took time.Duration) run {
	r := run{good: good, bad: bad, elapsed: time.Second, faults: map[string]int{}}
	for range good + bad {
		r.latency.add(took)
	}
	if bad > 0 {
		r.faults["status 503 without an error code"] = bad
	}
	return r
}

// The first pair warms up: its errors count, its rates do not. The ratio is
// that of the pairs, not of the medians.
func TestSumUp(t *testing.T) {
	c := sumUp("refresh", []pair{
		{bare: runOf(1, 1, 1), scenario: runOf(1, 2, time.Hour)},
		{bare: runOf(100, 0, 1), scenario: runOf(30, 0, time.Millisecond)},
		{bare: runOf(200, 0, 1), scenario: runOf(80, 0, time.Millisecond)},
		{bare: runOf(50, 0, 1), scenario: runOf(25, 4, 2*time.Millisecond)},
	})
	if c.Rate != 30 || c.Bare != 100 || c.Ratio != 0.4 || c.Errors != 7 || len(c.Runs) != 3 {
		t.Errorf("%+v", c)
	}
	if c.P50 < 1 || c.P50 > 1.02 || c.P99 < 2 || c.P99 > 2.04 {
		t.Errorf("p50 %v, p99 %v", c.P50, c.P99)
	}
	if c.Faults["status 503 without an error code"] != 6 || c.Faults["bare: status 503 without an error code"] != 1 {
		t.Errorf("faults: %v", c.Faults)
	}
}

func TestPrintComparisons(t *testing.T) {
	var b strings.Builder
	c := sumUp("refresh", []pair{{}, {bare: runOf(2000, 0, 1), scenario: runOf(1000, 3, time.Millisecond)}, {bare: runOf(2000, 0, 1), scenario: runOf(1200, 0, time.Millisecond)}})
	c.Early = true
	printComparisons(&b, []comparison{c})
	want := "" +
		"scenario   requests/s  lowest  highest  bare/s  of bare  p50 ms  p99 ms  bare p50  bare p99  errors\n" +
		"refresh *       1,100   1,000    1,200   2,000     0.55    1.01    1.01      0.00      0.00       3\n" +
		"\n* ended before its time: nothing was left to ask for\n" +
		"\nrefresh: 3 times: status 503 without an error code\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestPrintSizes(t *testing.T) {
	var b strings.Builder
	printSizes(&b, []size{
		{Approvals: 0, Ready: 40.4, Idle: 20 << 20, Load: 30 << 20, File: 1 << 19},
		{Approvals: 10_000, Ready: 80, Idle: 30 << 20, Load: 40 << 20, File: 4 << 20},
		{Approvals: 1_000_000, Ready: 2000, Idle: 230 << 20, Load: 240 << 20, File: 400 << 20, IdleEach: 211.8, LoadEach: 212, Errors: 1,
			Faults: map[string]int{"status 503 without an error code": 1}},
	})
	want := "" +
		"approvals  ready ms  idle MiB  load MiB  idle B/approval  load B/approval  file MiB  errors\n" +
		"0                40      20.0      30.0                                         0.5       0\n" +
		"10,000           80      30.0      40.0                                         4.0       0\n" +
		"1,000,000      2000     230.0     240.0              212              212     400.0       1\n" +
		"\n1,000,000 approvals: 1 times: status 503 without an error code\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestPrintGrowth(t *testing.T) {
	var b strings.Builder
	printGrowth(&b, growth{
		Approvals: 10_000, Refreshes: 100_000,
		Tables: []tableGrowth{{"approval", 10_000, 10_000}, {"journal", 1, 3}},
		Files:  []fileGrowth{{"database", 1000, 1000, 2000, 3000}, {"write-ahead log", 0, 10, 20, 0}},
	})
	want := "" +
		"100,000 refreshes of 10,000 approvals, 0 errors\n\n" +
		"table     rows before   after  more\n" +
		"approval       10,000  10,000     0\n" +
		"journal             1       3     2\n\n" +
		"bytes            before  ready  after  stopped\n" +
		"database          1,000  1,000  2,000    3,000\n" +
		"write-ahead log       0     10     20        0\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
