package main

import "testing"

func TestChosenOf(t *testing.T) {
	for said, want := range map[string]string{"always [madvise] never\n": "madvise", "[always] madvise never\n": "always", "0\n": "0", "6515\n": "6515"} {
		if got := chosenOf(said); got != want {
			t.Errorf("%q: %q", said, got)
		}
	}
}
