package operator

import (
	"fmt"
	"strconv"
)

// Number writes a number that is not negative with its thousands apart: 12,432.
func Number[N int | int64 | uint64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Count gives the form of a text that goes with a number; %s in many is the
// number.
func Count(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf(many, Number(n))
}
