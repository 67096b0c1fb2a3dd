//go:build !linux

package main

import "errors"

// limitCPUs is there on Linux alone.
func limitCPUs(n int) error {
	if n == 0 {
		return nil
	}
	return errors.New("processors can be limited on Linux only: use -cpus 0")
}
