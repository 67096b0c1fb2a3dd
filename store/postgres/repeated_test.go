package postgres

import (
	"slices"
	"testing"
	"time"
)

// What is so with every try is said at the first, and then once a minute with
// how many there were; after a pause at once again, and also after the clock was
// set back.
func TestRepeatedIsSaidOnceAMinute(t *testing.T) {
	var r repeated
	start := time.Unix(1_800_000_000, 0)
	var said []int
	try := func(second int) {
		if n, say := r.again(start.Add(time.Duration(second) * time.Second)); say {
			said = append(said, second, n)
		}
	}
	for second := range 130 {
		try(second)
	}
	try(500)
	try(501)
	try(400)
	if want := []int{0, 1, 60, 60, 120, 60, 500, 10, 400, 2}; !slices.Equal(said, want) {
		t.Errorf("said at, and how many: %v, want %v", said, want)
	}
}
