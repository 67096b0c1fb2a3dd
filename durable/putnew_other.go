//go:build !linux

package durable

import "errors"

// renameNew is Linux's.
func renameNew(string, string) error { return errors.ErrUnsupported }
