//go:build !race

package limit

// many is how many addresses are an installation's fill.
const many = Remembered
