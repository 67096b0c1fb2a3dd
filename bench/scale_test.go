package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// What is asked for lies all over the table, each approval once; and where a
// sample is wanted, it is of those alone.
func TestScattered(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10, 1000, 4096} {
		s, err := newStock(n)
		if err != nil {
			t.Fatal(err)
		}
		all := s.scattered(n).chosen
		if sorted := slices.Sorted(slices.Values(all)); len(slices.Compact(sorted)) != n || sorted[0] != 0 || sorted[n-1] != n-1 {
			t.Errorf("of %d: %v", n, all)
		}
	}
	s, err := newStock(100_000)
	if err != nil {
		t.Fatal(err)
	}
	few := s.scattered(1000)
	if len(few.chosen) != 1000 || few.asked() != 1000 || s.asked() != 100_000 {
		t.Fatalf("%d of them, %d and %d asked for", len(few.chosen), few.asked(), s.asked())
	}
	var of [10]int
	for _, number := range few.chosen {
		of[number/10_000]++
	}
	if slices.Min(of[:]) < 50 {
		t.Errorf("they lie in tenths of the table as %v", of)
	}
}

// A sample is counted by its own organizations, and each connection asks for
// its own part of it.
func TestChosen(t *testing.T) {
	s, err := newStock(100)
	if err != nil {
		t.Fatal(err)
	}
	s.people = 40
	s.chosen = []int{0, 1, 9, 40, 49, 10, 25} // people 0, 1, 9, 0, 9 of the first organization
	if got := s.inOrganization(); got != 5 {
		t.Errorf("%d of one organization", got)
	}
	var met []int
	for c := range 3 {
		of := shareOf(s, c, 3)
		for range of.count {
			_, number, _ := of.turn()
			met = append(met, number)
		}
	}
	slices.Sort(met)
	if !slices.Equal(met, []int{0, 1, 9, 10, 25, 40, 49}) {
		t.Errorf("asked for %v", met)
	}
}

func TestPrintScale(t *testing.T) {
	var b strings.Builder
	printScale(&b, []scaled{
		{Approvals: 10_000, OfSmallest: 1, InUseOfSmallest: 0.99, Table: 7_500_000},
		{Approvals: 20_000, OfSmallest: 0.75, InUseOfSmallest: 0.88, Refresh: comparison{OfPgbench: 0.95}, Errors: 2, Faults: map[string]int{"refresh: status 500": 2}},
	})
	for _, want := range []string{"approvals 10,000 20,000", "of the smallest's 1.00 0.75", "of the smallest's 0.99 0.88", "of pgbench 0.00 0.95", "disk: table B/approval 750 0",
		"20,000 approvals: 2 times: refresh: status 500"} {
		if !strings.Contains(strings.Join(strings.Fields(b.String()), " "), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// Turns are compared one by one, without the one that warms up, and by their median.
func TestComparedTo(t *testing.T) {
	of := func(good ...int) *lap {
		l := &lap{}
		for _, n := range good {
			l.runs = append(l.runs, run{good: n, elapsed: time.Second})
		}
		return l
	}
	if got := of(900, 50, 80, 10).comparedTo(of(1, 100, 100, 100)); got != 0.5 {
		t.Errorf("got %v; want 0.5", got)
	}
	if got := of(900, 50, 80).comparedTo(of(1, 0, 100)); got != 0.8 {
		t.Errorf("beside a turn without an answer: got %v; want 0.8", got)
	}
}
