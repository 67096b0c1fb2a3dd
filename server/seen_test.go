package server

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/operator"
)

func TestSeenAddresses(t *testing.T) {
	s := newSeenAddresses()
	from := func(address, peer string, forwards bool) {
		r := &http.Request{RemoteAddr: peer + ":1", Header: http.Header{}}
		if forwards {
			r.Header.Set("X-Forwarded-For", address)
		}
		s.request(r, netip.MustParseAddr(address), time.Now())
	}
	if got := s.seen(); got != (operator.Seen{}) {
		t.Errorf("nobody came: %+v", got)
	}
	for range 100 {
		from("192.0.2.1", "192.0.2.1", false)
	}
	if got := s.seen(); got != (operator.Seen{Addresses: 1, Only: "192.0.2.1"}) {
		t.Errorf("one came: %+v", got)
	}
	from("192.0.2.2", "10.0.0.1", true) // through a proxy that is trusted
	if got := s.seen(); got != (operator.Seen{Addresses: 2}) {
		t.Errorf("two came: %+v", got)
	}
	from("10.0.0.9", "10.0.0.9", true)
	if got := s.seen(); got.Addresses != 3 || got.Unbelieved != "10.0.0.9" {
		t.Errorf("one forwards: %+v", got)
	}
	for i := range 1000 {
		a := fmt.Sprintf("198.51.%d.%d", i/250, i%250)
		from(a, a, false)
	}
	if got := s.seen(); got.Addresses < 30 || got.Addresses > 64 {
		t.Errorf("a thousand came: %+v", got)
	}
	for i := range s.slots { // eleven minutes later
		s.slots[i].at.Add(-660)
	}
	if got := s.seen(); got.Addresses != 0 || got.Only != "" {
		t.Errorf("long ago: %+v", got)
	}
	if n := testing.AllocsPerRun(100, func() { s.note(netip.AddrFrom4([4]byte{192, 0, 2, 7}), 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
