package limit

import (
	"strings"
	"testing"
	"time"
)

func TestParseLimit(t *testing.T) {
	for _, c := range []struct {
		text string
		want Limit
		form string
	}{
		{"3000/10m", Limit{3000, 10 * time.Minute}, "3000/10m"},
		{"1/1s", Limit{1, time.Second}, "1/1s"},
		{"20/1h", Limit{20, time.Hour}, "20/1h"},
		{"20/60m", Limit{20, time.Hour}, "20/1h"},
		{"5/90s", Limit{5, 90 * time.Second}, "5/1m30s"},
		{"5/1h30m", Limit{5, 90 * time.Minute}, "5/1h30m"},
		{"5/1h0m5s", Limit{5, time.Hour + 5*time.Second}, "5/1h0m5s"},
		{"1000000/24h", Limit{1_000_000, 24 * time.Hour}, "1000000/24h"},
	} {
		got, err := ParseLimit(c.text)
		if err != nil || got != c.want {
			t.Errorf("ParseLimit(%q) = %v, %v; want %v", c.text, got, err, c.want)
		}
		if got.String() != c.form {
			t.Errorf("ParseLimit(%q).String() = %q, want %q", c.text, got.String(), c.form)
		}
	}
}

func TestParseLimitRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"":                         "such as 3000/10m",
		"3000":                     "such as 3000/10m",
		"/10m":                     "number of requests",
		"0/10m":                    "number of requests",
		"-1/10m":                   "number of requests",
		"+1/10m":                   "number of requests",
		"007/10m":                  "number of requests",
		" 1/10m":                   "number of requests",
		"1.5/10m":                  "number of requests",
		"1000001/10m":              "number of requests",
		"99999999999999999999/10m": "number of requests",
		"3000/":                    "not a time",
		"3000/10":                  "not a time",
		"3000/m":                   "not a time",
		"3000/10m/1":               "not a time",
		"3000/0s":                  "whole seconds",
		"3000/-10m":                "whole seconds",
		"3000/500ms":               "whole seconds",
		"3000/1.5s":                "whole seconds",
		"3000/25h":                 "whole seconds",
		"3000/24h1s":               "whole seconds",
	} {
		got, err := ParseLimit(text)
		if err == nil || got != (Limit{}) {
			t.Errorf("ParseLimit(%q) = %v, %v; want an error alone", text, got, err)
			continue
		}
		if !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "limit \""+text) {
			t.Errorf("ParseLimit(%q) says %q, want it to name the setting and %q", text, err, says)
		}
	}
}

func TestContractNumbers(t *testing.T) {
	for _, c := range []struct {
		name string
		got  Limit
		want string
	}{
		{"/oauth/authorize", Authorize, "150/10m"},
		{"/oauth/token and /oauth/revoke", Token, "300/10m"},
		{"/oauth/register", Register, "20/1h"},
		{"an organization's API", API, "3000/10m"},
	} {
		if c.got.String() != c.want {
			t.Errorf("%s: %s, want %s", c.name, c.got, c.want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for wait, want := range map[time.Duration]string{time.Second: "1", 10 * time.Minute: "600", time.Hour: "3600"} {
		if got := RetryAfter(wait); got != want {
			t.Errorf("RetryAfter(%s) = %q, want %q", wait, got, want)
		}
	}
}

// What is accepted is written back with the same meaning, or refused.
func FuzzParseLimit(f *testing.F) {
	for _, s := range []string{"3000/10m", "1/1s", "20/1h", "0/0", "1/1h0m0s", "/", "9/24h", "1/1e3s", "5/0.5h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLimit(s)
		if err != nil {
			return
		}
		if l.N < 1 || l.Window < time.Second || l.Window%time.Second != 0 {
			t.Fatalf("ParseLimit(%q) = %+v", s, l)
		}
		if again, err := ParseLimit(l.String()); again != l || err != nil {
			t.Fatalf("%q is %+v, but its form %q is %+v, %v", s, l, l.String(), again, err)
		}
	})
}
