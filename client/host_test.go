package client

import (
	"net/netip"
	"strings"
	"testing"
)

func TestHostOf(t *testing.T) {
	for uri, want := range map[string]string{
		"https://App.Example:8443/cb?x": "app.example", "https://192.0.2.7/": "192.0.2.7", "https://[2001:DB8:0::1]:8443/": "[2001:db8::1]",
		"http://127.0.0.1:7000/": "127.0.0.1", "": "", "https://%zz/": "",
	} {
		if got := HostOf(uri); got != want {
			t.Errorf("%s: %q, want %q", uri, got, want)
		}
	}
	for host, why := range map[string]string{
		"app.example": "", "xn--bcher-kva.example": "", "8.8.8.8": "", "[2606:4700::1111]": "",
		"App.example": "write it as app.example", "XN--BCHER-KVA.example": "write it as xn--bcher-kva.example", "[2606:4700:0::1111]": "write it as [2606:4700::1111]",
		"app.example:8443": "a host alone", "[2606:4700::1111]:443": "a host alone", "https://app.example": "a host alone", "app.example/x": "a host alone",
		"app.example.": "must not end with a dot", "b\u00fccher.example": "in A-labels", "app\u3002example": "in A-labels", "\uff41pp.example": "in A-labels",
		"app\u0080.example": "in A-labels", "xn--a.example": "not an A-label", "xn--a1w.example": "not an A-label", // of U+0080 and another
		"localhost": "loopback", "": "empty label", "a@app.example": "letters, digits", "2606:4700::1111": "a host alone",
	} {
		if err := CheckRuleHost(host); (err == nil) != (why == "") || err != nil && !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %q", host, err, why)
		}
	}
}

// An IPv4 address counts for itself in each form that leads to it.
func TestIsPublic(t *testing.T) {
	for text, want := range map[string]bool{
		"8.8.8.8": true, "::ffff:8.8.8.8": true, "64:ff9b::8.8.8.8": true, "2606:4700::1111": true, "2606:4700::1111%eth0": true,
		"10.0.0.1": false, "::ffff:10.0.0.1": false, "64:ff9b::10.0.0.1": false, "64:ff9b::127.0.0.1": false, "::ffff:127.0.0.1%eth0": false,
		"fc00::1": false, "fe80::1%eth0": false, "::1": false, "64:ff9b:1::8.8.8.8": false,
	} {
		if got := IsPublic(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	if IsPublic(netip.Addr{}) {
		t.Error("no address is public")
	}
}

func TestNameKey(t *testing.T) {
	for _, same := range [][]string{{"Notes", "NOTES", " n-o.t\u200be s ", "notes\ufe0f"}, {"\u03a3ky", "\u03c2KY"}, {"", "  ", "-."}, {"\u2605", "\u2605!"}, {"\u212aey", "key"}} {
		for _, name := range same {
			if NameKey(name) != NameKey(same[0]) {
				t.Errorf("%q and %q are two", name, same[0])
			}
		}
	}
	for _, two := range [][2]string{{"Notes", "Note"}, {"\u2605", "\u2606"}, {"1", "2"}, {"\u0915\u093e", "\u0915\u093f"}, {"a", ""}} {
		if NameKey(two[0]) == NameKey(two[1]) {
			t.Errorf("%q and %q are one", two[0], two[1])
		}
	}
}

// Only what can mean no other machine is loopback.
func TestLoopback(t *testing.T) {
	for name, want := range map[string]bool{
		"localhost": true, "a.localhost": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "localhost.example": false, "alocalhost": false, "mail.example": false, "192.0.2.1": false, "0.0.0.0": false, "::1%lo": false, "fe80::1": false,
	} {
		if Loopback(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}
