package main

import (
	"fmt"
	"strconv"
	"strings"
)

// pagesFor is how many huge pages of 2 MB PostgreSQL takes with so much memory, as
// shared_buffers in MB or GB: what else it shares is some twentieth of that.
func pagesFor(buffers string) (int, error) {
	for unit, pages := range map[string]float64{"MB": 0.5, "GB": 512} {
		if text, ok := strings.CutSuffix(buffers, unit); ok {
			if n, err := strconv.Atoi(text); err == nil && n > 0 {
				return int(float64(n)*pages*1.05) + 64, nil
			}
		}
	}
	return 0, fmt.Errorf("-huge-pages: -buffers: %q is no memory in MB or GB", buffers)
}
