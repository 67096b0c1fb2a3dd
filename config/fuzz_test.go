package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/token"
)

// Whatever a file holds, its faults are told with exit code 3.
func FuzzConfig(f *testing.F) {
	for _, s := range []string{
		"base_urls = [\"https://a.example\"]", "[http]\nlisten=1", "[[clients]]\nid='x'", "clients = [{id = 'x'}]", "[clients]\ndesktop = true\n[[clients.preregistered]]\nid = 'x'", "[[Clients]]\ndesktop = 1", "[session]\nidle = \"1d\"", "a.b.c = 1", "[limiter]\nnetworks=[{cidr='x'}]", "= =", "[api]\nrate_limit=\"1/1s\"",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l := Loaded{Config: Defaults(), Origins: map[string]Origin{}}
		err := l.decode("x.toml", []byte(text))
		var e *fault.Error
		if err != nil && (!errors.As(err, &e) || e.Code != fault.Config || !strings.HasPrefix(e.What, "x.toml") || e.Hint == "") {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

// A key file is refused, or makes a ring that opens what it seals.
func FuzzKeys(f *testing.F) {
	key := "0f1e2d3c0f1e2d3c0f1e2d3c0f1e2d3c0f1e2d3c0f1e2d3c0f1e2d3c0f1e2d3c"
	for _, s := range []string{key, "1:" + key, "2:" + key + "\n1:" + strings.ToUpper(key), "# c\n" + key, "1:", ":", "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := parseKeys(text)
		if err != nil {
			return
		}
		ring, err := token.NewRing("sv", keys[0].Number, keys...)
		if err != nil {
			return // a number twice
		}
		if c, ok := ring.Read(token.Code, ring.Code(token.Handle{7}, 8)); !ok || c.Time != 8 || c.Key != keys[0].Number {
			t.Fatalf("%q: %+v %v", text, c, ok)
		}
	})
}
