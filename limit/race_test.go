//go:build race

package limit

// fill is how many addresses are an installation's fill: a tenth under the race detector,
// which makes memory ten times as slow.
const fill = Remembered / 10
