//go:build race

package limit

// many is how many addresses are an installation's fill: a tenth under the race detector,
// which makes memory ten times as slow.
const many = Remembered / 10
