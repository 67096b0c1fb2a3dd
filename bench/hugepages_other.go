//go:build !linux

package main

import "errors"

// hugePages is there on Linux alone.
func hugePages(string) (restore func() error, err error) {
	return nil, errors.New("-huge-pages: on Linux only")
}
