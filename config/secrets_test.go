package config

import (
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
)

func TestDeniedFiles(t *testing.T) {
	if got := ifDenied(&fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission}, "run: grantkeeper init"); got != "run grantkeeper as the user who owns it" {
		t.Error(got)
	}
	if got := ifDenied(fs.ErrNotExist, "run: grantkeeper init"); got != "run: grantkeeper init" {
		t.Error(got)
	}
}

// A secret has 64 KiB at most; of what has more it is said what to do.
func TestSecretsAreBounded(t *testing.T) {
	for size, fits := range map[int]bool{mostSecret: true, mostSecret + 1: false} {
		name := write(t, "secret", strings.Repeat("x", size), 0o600)
		b, err := readSecret("a.file", name, "make another")
		if fits && (err != nil || len(b) != size) {
			t.Errorf("%d bytes: %d, %v", size, len(b), err)
		}
		if !fits {
			if text, code := refused(t, err); code != 3 || !strings.Contains(text, "a.file: read "+name+": it has more than 65536 bytes") || !strings.Contains(text, "make another") {
				t.Errorf("%d bytes: code %d, %s", size, code, text)
			}
		}
	}
}

// owned is a file's status with an owner, which a test may not be able to set.
type owned struct {
	fs.FileInfo
	of syscall.Stat_t
}

func (o owned) Sys() any { return &o.of }

// A secret is the owner's alone, but that the process's own group may read what is root's.
func TestWhoMayReadSecrets(t *testing.T) {
	const service = 10001
	tests := []struct {
		mode       fs.FileMode
		uid, group uint32
		want       bool
	}{
		{0o600, service, service, false},
		{0o400, 0, 0, false},
		{0o440, 0, service, false}, // Kubernetes, with fsGroup
		{0o640, 0, service, false},
		{0o640, service, service, true},
		{0o640, 0, 1000, true},
		{0o640, 0, 0, true},
		{0o660, 0, service, true},
		{0o444, 0, service, true},
		{0o642, 0, service, true},
	}
	for _, tt := range tests {
		info, err := fs.Stat(fstest.MapFS{"f": {Mode: tt.mode}}, "f")
		if err != nil {
			t.Fatal(err)
		}
		if got := open(owned{info, syscall.Stat_t{Uid: tt.uid, Gid: tt.group}}, service); got != tt.want {
			t.Errorf("mode %04o of %d:%d: others may read it: %v, want %v", tt.mode, tt.uid, tt.group, got, tt.want)
		}
	}
	info, err := fs.Stat(fstest.MapFS{"f": {Mode: 0o640}}, "f")
	if err != nil {
		t.Fatal(err)
	}
	if !open(owned{info, syscall.Stat_t{}}, 0) {
		t.Error("root's group may read what is root's")
	}
}
