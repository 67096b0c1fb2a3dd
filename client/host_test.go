package client

import "testing"

func TestHostOf(t *testing.T) {
	for uri, want := range map[string]string{
		"https://App.Example:8443/cb?x": "app.example", "https://192.0.2.7/": "192.0.2.7", "https://[2001:DB8:0::1]:8443/": "[2001:db8::1]",
		"http://127.0.0.1:7000/": "127.0.0.1", "": "", "https://%zz/": "",
	} {
		if got := HostOf(uri); got != want {
			t.Errorf("%s: %q, want %q", uri, got, want)
		}
	}
	for host, good := range map[string]bool{
		"app.example": true, "xn--bcher-kva.example": true, "8.8.8.8": true, "[2606:4700::1111]": true, "App.example": false, "[2606:4700:0::1111]": false,
		"app.example:8443": false, "app.example.": false, "b\u00fccher.example": false, "localhost": false, "": false, "app.example/x": false, "a@app.example": false,
	} {
		if err := CheckRuleHost(host); (err == nil) != good {
			t.Errorf("%q: %v", host, err)
		}
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
