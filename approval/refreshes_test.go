package approval

import "testing"

// Of all that can become of an approval a refresh alone is a use (decision P11).
func TestRefreshes(t *testing.T) {
	for _, tt := range []struct {
		name          string
		before, after State
		want          bool
	}{
		{"a refresh", live(3).State, live(4).State, true},
		{"the exchange", issued().State, live(1).State, false},
		{"nothing", live(3).State, live(3).State, false},
		{"an end", live(3).State, over().State, false},
		{"the end of one not exchanged", issued().State, ended(issued(), NeverConnected, noon), false},
	} {
		if got := tt.after.Refreshes(tt.before); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
