package faults

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// What one node has acknowledged as revoked, no other accepts, from the first
// request on, although their clocks are minutes apart: as grantkeeper drill sees it.
func TestDrillOnThreeNodes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.furnish(1)
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(s.password), 0o600); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"drill", "--json", "--rounds", "5", "--base-url", "http://" + s.host, "--email", "p0@nordlys.example",
		"--person-password-file", password, "--operator", "http://" + s.nodes[1].operator, "--password-file", password}
	for _, n := range s.nodes {
		arguments = append(arguments, "--node", "http://"+n.address)
	}
	out, err := exec.Command(binaries[0], arguments...).Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var report struct {
		OK      bool    `json:"ok"`
		Slowest float64 `json:"slowest_ms"`
		Rounds  []struct {
			Nodes []struct {
				Accepted int `json:"accepted_since"`
			} `json:"nodes"`
		} `json:"rounds"`
	}
	if err := json.Unmarshal(out, &report); err != nil || !report.OK || len(report.Rounds) != 5 {
		t.Fatalf("%v: %s", err, out)
	}
	for _, r := range report.Rounds {
		if len(r.Nodes) != 3 {
			t.Errorf("asked %d nodes", len(r.Nodes))
		}
		for _, n := range r.Nodes {
			if n.Accepted != 0 {
				t.Errorf("%d calls were accepted after the revocation was acknowledged", n.Accepted)
			}
		}
	}
	t.Logf("at most %.1f ms to refusal everywhere", report.Slowest)
}
