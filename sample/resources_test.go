package sample

import (
	"net/url"
	"testing"
)

// Whatever the service is called: its scheme is one (RFC 3986 section 3.1).
func TestScheme(t *testing.T) {
	for service, want := range map[string]string{
		"Svalinn": "svalinn", "Nord & Sons 2": "nordsons2", "3D-Print": "dprint", "神": "grantkeeper", "": "grantkeeper", "42": "grantkeeper", "Ærø://x": "rx",
	} {
		got := scheme(service)
		if u, err := url.Parse(got + "://nordlys/notes/7"); got != want || err != nil || u.Scheme != want || u.Host != "nordlys" {
			t.Errorf("%q: got %q, %v; want %q", service, got, err, want)
		}
	}
}
