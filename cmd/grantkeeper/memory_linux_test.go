package main

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// resident is how much of files is in memory, in KiB.
func resident(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "RssFile:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestForgetStart(t *testing.T) {
	_, _ = os.ReadFile(os.Args[0]) // in the system's cache
	before := resident(t)
	forgetStart()
	if after := resident(t); after > before/2 {
		t.Errorf("%d KiB of files before, %d after", before, after)
	}
	if Defaults().Service.Name == "" { // the program goes on
		t.Error("no defaults")
	}
}
