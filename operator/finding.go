package operator

// A Finding is one line of doctor, as the console shows it.
type Finding struct {
	Name   string // of the check
	Result string // ok, warn or fail
	Text   string
	Fix    string // what mends it; "" is nothing
}
