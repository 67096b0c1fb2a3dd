//go:build !race

package limit

// fill is how many addresses are an installation's fill.
const fill = Remembered
