package server

import (
	"testing"

	"github.com/grantkeeper/grantkeeper/config"
)

// What the service is told is signed with the key that was read last (decision V16).
func TestServiceKeyIsReread(t *testing.T) {
	h := newServer(config.Checked{ServiceKey: []byte("first")}, Options{})
	for _, c := range []struct {
		read *config.Checked
		want string
	}{{nil, "first"}, {&config.Checked{ServiceKey: []byte("second")}, "second"}, {&config.Checked{}, "first"}} {
		h.reread.Store(c.read)
		if got := string(h.serviceKey()); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
