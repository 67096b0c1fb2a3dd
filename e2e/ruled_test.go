package e2e

import (
	"strings"
	"testing"
)

// With rules in force the recipes of docs/integrating.md tell the client what is
// denied and why, and let through what is allowed (decision V27, decision V29).
func TestProxiesTellWhatIsDenied(t *testing.T) {
	t.Parallel()
	for name, proxy := range map[string]func(t testing.TB, listen, server, gateways, service string){"nginx": nginx, "Caddy": caddy} {
		t.Run(name, func(t *testing.T) {
			h, gateways := withGateways(t, "[[rules]]\ncall = \"* /api/v5/notes/**\"\nrole = \"nordlys-treasurer\"")
			direct := h.host()
			front := h.at(proxied)
			proxy(t, front.host(), direct, gateways, notesService(t, nginxKey, "-forward-auth"))
			_, may := front.connected("", treasurer...)
			_, reads := front.connected("", "organization", "nordlys", "grant", "roles", "role:nordlys-treasurer", "read")
			c := front.caller()
			if a := c.postJSON("/api/v5/notes", "{}", header{"Authorization", "Bearer " + may.access}); a.status != 201 {
				t.Errorf("allowed: %s", a)
			}
			bearer := header{"Authorization", "Bearer " + reads.access}
			if a := c.get("/api/v5/notes?x=1", bearer); a.status != 200 {
				t.Errorf("a read: %s", a)
			}
			for path, reason := range map[string]string{"/api/v5/notes": "role_is_read_only", "/api/v5/Notes//": "role_is_read_only", "/api/v5/other": "unlisted"} {
				a := c.postJSON(path, "{}", bearer)
				if a.status != 403 || !strings.Contains(a.body, `"error":"forbidden"`) || !strings.Contains(a.body, `"reason":"`+reason+`"`) || a.header.Get("Www-Authenticate") != "" {
					t.Errorf("%s: %s", path, a)
				}
			}
		})
	}
}
