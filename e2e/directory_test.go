package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

// A service tells, with the program of docs/integrating.md, that a person is no
// member any more, and what their client holds is worth nothing from then on.
func TestDirectoryEventFromPython(t *testing.T) {
	t.Parallel()
	h, gateways := withGateways(t, "")
	_, held := h.connectedBy("tor@nordlys.example", "", "organization", "nordlys", "grant", "everything")
	if !h.works(held.access) {
		t.Fatal("the access token does not work at first")
	}
	c := exec.Command("python3", "../docs/examples/directory.py", secretFile(t, peopleKey), "http://"+gateways)
	c.Stdin = strings.NewReader(`{"id":"evt-1","version":1,"kind":"membership_removed","object":{"organization":"nordlys","person":"tor"}}`)
	if out, err := c.CombinedOutput(); err != nil || string(out) != `{"id":"evt-1","result":"applied"}`+"\n" {
		t.Fatalf("%v: %s", err, out)
	}
	if h.works(held.access) {
		t.Error("the access token still works")
	}
	c = exec.Command("python3", "../docs/examples/directory.py", secretFile(t, billingKey), "http://"+gateways)
	c.Stdin = strings.NewReader(`{"id":"evt-2","version":2,"kind":"person_removed","object":{"id":"ada"}}`)
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "signature_refused") {
		t.Errorf("with the key of another scope: %v %s", err, out)
	}
	if events := h.journaled("directory_refused"); len(events) != 1 || events[0]["reason"] != "signature_refused" {
		t.Errorf("journal %v", events)
	}
}
