package client

import (
	"net/url"
	"strings"
	"testing"
	"time"
)

func asksHandover(changes ...string) url.Values {
	q := url.Values{"port": {"49152"}, "path": {strings.Repeat("p", 43)}, "code_challenge": {strings.Repeat("c", 43)}, "program": {"Quill Desktop"}}
	for i := 0; i < len(changes); i += 2 {
		q.Set(changes[i], changes[i+1])
	}
	return q
}

func TestParseHandover(t *testing.T) {
	h, err := ParseHandover(asksHandover())
	if err != nil || h.Port != 49152 || h.Program != "Quill Desktop" {
		t.Fatal(h, err)
	}
	if to := h.Address(url.Values{"code": {"a b"}}); to != "http://127.0.0.1:49152/"+strings.Repeat("p", 43)+"?code=a+b" {
		t.Error(to)
	}
	for _, ok := range [][]string{{"port", "1024"}, {"port", "65535"}, {"program", ""}, {"path", strings.Repeat("-", 22)}, {"path", strings.Repeat("p", 64)}, {"path", "-_09azAZ-_09azAZ-_09azAZ"}} {
		if _, err := ParseHandover(asksHandover(ok...)); err != nil {
			t.Errorf("%q: %v", ok, err)
		}
	}
	// Whoever asks chooses no more of the address than a port and one segment.
	for _, bad := range [][]string{
		{"port", ""}, {"port", "0"}, {"port", "80"}, {"port", "1023"}, {"port", "65536"}, {"port", "+8080"}, {"port", "08080"}, {"port", "8080@evil.example"}, {"port", "８０８０"},
		{"path", ""}, {"path", "callback"}, {"path", strings.Repeat("p", 65)}, {"path", strings.Repeat("p", 21) + "/"}, {"path", strings.Repeat("p", 30) + "?a=b"}, {"path", strings.Repeat("p", 30) + "#"},
		{"path", strings.Repeat("p", 30) + "%2f"}, {"path", "../" + strings.Repeat("p", 30)}, {"path", strings.Repeat("p", 30) + "\r\n"},
		{"code_challenge", ""}, {"code_challenge", strings.Repeat("c", 42)}, {"code_challenge", strings.Repeat("c", 42) + "="},
		{"program", "<b>"}, {"program", "a\u202eb"}, {"program", strings.Repeat("n", 101)},
	} {
		if h, err := ParseHandover(asksHandover(bad...)); err == nil {
			t.Errorf("%q is taken: %+v", bad, h)
		} else if bad[1] != "" && len(bad[1]) > 3 && strings.Contains(err.Error(), bad[1]) {
			t.Errorf("%q is in its own refusal: %v", bad, err)
		}
	}
	twice := asksHandover()
	twice.Add("port", "49153")
	if _, err := ParseHandover(twice); err == nil || err.Error() != "port is sent more than once" {
		t.Error("two ports:", err)
	}
	if _, err := ParseHandover(url.Values{"tok": {"1", "2"}}); err == nil || err.Error() != "a parameter is sent more than once" {
		t.Error("what is none of ours, twice:", err)
	}
}

func TestHandoverIsOver(t *testing.T) {
	h := Handover{Made: 1000}
	if h.Over(time.Unix(1599, 0)) {
		t.Error("it is over too early")
	}
	if !h.Over(time.Unix(1600, 0)) {
		t.Error("it is never over")
	}
}

// Decision A15: nobody else gets the ID: what stands at it is shown as a program on a computer, and
// its redirect URI is the service's own.
func TestDesktopIsReserved(t *testing.T) {
	if _, err := Preregistered(DesktopID, "x", []string{"https://a.example/cb"}, nil); err == nil || !strings.Contains(err.Error(), "reserved") {
		t.Error(err)
	}
	c := Desktop([]string{"https://a.example", "https://b.example"})
	if !c.HasRedirectURI("https://b.example/oauth/desktop") || !c.Preregistered {
		t.Errorf("%+v", c)
	}
	if CheckRedirectURI(c.RedirectURIs[0], []string{"a.example"}) == nil {
		t.Error("registration takes a host of the service's own")
	}
}
