package server

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/config"
)

// resident is how much of the program's own file is in memory, in KiB, of what
// cannot be written to. On a file system in memory it counts as shared, and not as
// of a file, so that the sum of the process would not tell.
func resident(t *testing.T) (kib int) {
	b, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for line := range strings.Lines(string(b)) {
		words := strings.Fields(line)
		switch {
		case !strings.HasSuffix(words[0], ":"): // the head of a mapping
			inside = words[1][1] == '-' && words[len(words)-1] == self
		case inside && words[0] == "Rss:":
			n, err := strconv.Atoi(words[1])
			if err != nil {
				t.Fatal(err)
			}
			kib += n
		}
	}
	return kib
}

func TestForgetStart(t *testing.T) {
	_, _ = os.ReadFile(os.Args[0]) // in the system's cache
	before := resident(t)
	ForgetStart()
	if after := resident(t); after > before/2 {
		t.Errorf("%d KiB of files before, %d after", before, after)
	}
	if config.Defaults().Service.Name == "" { // the program goes on
		t.Error("no defaults")
	}
}
