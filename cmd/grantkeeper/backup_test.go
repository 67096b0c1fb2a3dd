package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/grantkeeper/grantkeeper/demo"
)

// A backup that was made while a client refreshes is restored elsewhere with
// the installation's key: doctor finds no fault there, the client's tokens are
// over, and its person approves again (DX-10, case S-14).
func TestBackupWhileOthersWriteIsRestored(t *testing.T) {
	t.Parallel()
	dir, public, operators := installed(t)
	p := serve(t, dir, public, operators)
	p.post("/v1/directory", `{"organizations":[{"id":"verksted","name":"Verksted","ai_integration":true}],
		"people":[{"id":"eva","email":"eva@verksted.example","name":"Eva","password":"the password of Eva"}],
		"members":[{"organization":"verksted","person":"eva"}],
		"circles":[{"id":"all","organization":"verksted","name":"All"}],
		"roles":[{"id":"keys","organization":"verksted","circle":"all","name":"Keeper of Keys","fillers":["eva"]}]}`)
	password := write(t, "password", "the password of Eva\n", 0o600)
	d, err := demo.New(demo.Options{BaseURL: p.public, Email: "eva@verksted.example", PasswordFile: password}, 6)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range demo.Steps[:6] {
		if _, err := step.Run(d, t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stop, begun := make(chan struct{}), make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() {
		for n := range 250 {
			if _, err := d.Refresh(t.Context()); err != nil {
				t.Errorf("a refresh during the backup: %v", err)
				return
			}
			if n == 3 {
				close(begun)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	<-begun
	backup := filepath.Join(t.TempDir(), "backup.db.gz")
	stdout, stderr, code := ran(t, "backup", "create", backup, "--gzip", "-c", filepath.Join(dir, "grantkeeper.toml"), "--operator", p.operator, "--password-file", filepath.Join(dir, "operator.password"))
	close(stop)
	load.Wait()
	if code != 0 {
		t.Fatalf("backup: %d %s%s", code, stdout, stderr)
	}
	p.signal(syscall.SIGTERM)
	p.exits()

	again, _, operators := installed(t)
	key, err := os.ReadFile(filepath.Join(dir, "secret.key"))
	if err == nil {
		err = os.WriteFile(filepath.Join(again, "secret.key"), key, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(again, "grantkeeper.toml")
	stdout, stderr, code = ran(t, "backup", "restore", backup, "--yes", "-c", config)
	if code != 0 || !strings.Contains(stdout, ": 1 approval ended, people approve again.") {
		t.Fatalf("restore: %d %s%s", code, stdout, stderr)
	}
	p = serve(t, again, public, operators, "--base-url", "http://"+public)
	stdout, stderr, code = ran(t, "doctor", "-c", config, "--operator", p.operator, "--password-file", filepath.Join(again, "operator.password"), "--base-url", p.public)
	if code != 0 || !strings.Contains(stdout, ", 0 faults.") {
		t.Errorf("doctor: %d\n%s%s", code, stdout, stderr)
	}
	if _, err := d.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "invalid_grant") {
		t.Errorf("a refresh after the restore: %v", err)
	}
	if stdout, stderr, code := ran(t, "demo", "--steps", "1-6", "--base-url", p.public, "--email", "eva@verksted.example", "--password-file", password); code != 0 {
		t.Errorf("approving again: %d\n%s%s", code, stdout, stderr)
	}
}
