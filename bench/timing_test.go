package main

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/token"
)

func TestWelch(t *testing.T) {
	// Means 3 and 6, variances 2.5 and 4, by hand: -3 / sqrt(2.5/5 + 4/3).
	if got, want := welch([]float64{1, 2, 3, 4, 5}, []float64{4, 6, 8}), -3/math.Sqrt(2.5/5+4.0/3); math.Abs(got-want) > 1e-9 {
		t.Errorf("t is %v, want %v", got, want)
	}
	if got := welch([]float64{1, 2, 3}, []float64{1, 2, 3}); got != 0 {
		t.Errorf("of equal samples: %v", got)
	}
}

// What takes longer is found, and what does not is not called so; and what is
// slow now and then, for all kinds, hides nothing.
func TestPairs(t *testing.T) {
	sample := func(add float64) (out []float64) {
		for i := range 1000 {
			x := 100 + float64(i*7919%100)/10 + add
			if i%50 == 0 {
				x = 5000
			}
			out = append(out, x)
		}
		return out
	}
	got := pairs("x", []string{"a", "b", "c"}, [][]float64{sample(0), sample(0), sample(2)})
	if len(got) != 3 || math.Abs(got[0].T) > 1 || got[1].T > -telling || got[2].T > -telling || toldApart(got) != 2 {
		t.Errorf("got %+v", got)
	}
	if got[0].Samples < 940 || got[0].MedianA > 110 || got[1].MedianB < 105 {
		t.Errorf("got %+v", got)
	}
	if toldApart([]timing{{T: math.NaN()}, {T: telling}, {T: -telling}, {T: 4.4}}) != 3 {
		t.Error("the bound does not hold")
	}
}

func TestInterleaved(t *testing.T) {
	var last [3]int
	changes, before := 0, -1
	took, err := interleaved(3, 100, func(kind, n int) (time.Duration, error) {
		if n != last[kind] {
			t.Fatalf("sample %d of kind %d after %d", n, kind, last[kind])
		}
		last[kind]++
		if kind != before {
			changes++
		}
		before = kind
		return time.Duration(kind) * time.Microsecond, nil
	})
	if err != nil || last != [3]int{100, 100, 100} || changes < 100 {
		t.Errorf("%v, %d changes of kind, %v", last, changes, err)
	}
	for kind, all := range took {
		if len(all) < 60 || len(all) > 100 || all[0] != float64(kind) {
			t.Errorf("kind %d: %d samples, the first %v", kind, len(all), all[0])
		}
	}
	if n := len(took[0]) + len(took[1]) + len(took[2]); n != 270 {
		t.Errorf("%d samples, want 270 without the first tenth", n)
	}
	wrong := errors.New("wrong")
	if _, err := interleaved(1, 1, func(int, int) (time.Duration, error) { return 0, wrong }); !errors.Is(err, wrong) {
		t.Errorf("got %v", err)
	}
}

func TestWrongToken(t *testing.T) {
	s, err := newStock(1)
	if err != nil {
		t.Fatal(err)
	}
	right := s.ring.Access(s.handle(0), 1, 1<<40)
	for _, shared := range []int{0, 10, 30} {
		seen := map[string]bool{}
		for range 50 {
			got := wrongToken(right, shared)
			same := 0
			for same < len(got) && got[same] == right[same] {
				same++
			}
			if len(got) != token.Len || same != 4+shared || !strings.HasPrefix(got, "svo_") {
				t.Fatalf("%d shared: %s of %s", shared, got, right)
			}
			if _, ok := s.ring.Read(token.Access, got); ok {
				t.Fatal("a right one")
			}
			seen[got] = true
		}
		if len(seen) < 50 {
			t.Errorf("%d shared: %d differ", shared, len(seen))
		}
	}
}
