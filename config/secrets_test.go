package config

import (
	"io/fs"
	"testing"
)

func TestDeniedFiles(t *testing.T) {
	if got := ifDenied(&fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission}, "run: grantkeeper init"); got != "run grantkeeper as the user who owns it" {
		t.Error(got)
	}
	if got := ifDenied(fs.ErrNotExist, "run: grantkeeper init"); got != "run: grantkeeper init" {
		t.Error(got)
	}
}
