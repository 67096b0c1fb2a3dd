package main

import "testing"

func TestPagesFor(t *testing.T) {
	for buffers, want := range map[string]int{"12GB": 6515, "256MB": 198, "": 0, "GB": 0, "12": 0, "-1GB": 0, "12 GB": 0, "1TB": 0} {
		if n, err := pagesFor(buffers); n != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v", buffers, n, err)
		}
	}
}
