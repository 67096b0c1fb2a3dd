package signin

import (
	"strconv"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
)

func TestSignInLimitOfAnAddress(t *testing.T) {
	s := newSite(t)
	f := newFailures(nil, "signin", signInAccount)
	addr := s.SignIn.Address(nil)
	for i := range signInAddress.N {
		if f.wait("p"+strconv.Itoa(i), addr, s.Store.Now()) > 0 {
			t.Fatalf("throttled after %d", i)
		}
		f.add("p"+strconv.Itoa(i), addr, s.Store.Now())
	}
	if got := f.wait("another", addr, s.Store.Now()); got != signInAddress.Window {
		t.Errorf("wait %v, want %v", got, signInAddress.Window)
	}
	s.From = "203.0.113.10"
	if got := f.wait("another", s.SignIn.Address(nil), s.Store.Now()); got != 0 {
		t.Errorf("another address waits %v", got)
	}
}

func TestSignInLimitOfAnAccount(t *testing.T) {
	s := newSite(t)
	f := newFailures(nil, "signin", signInAccount)
	for i := range signInAccount.N {
		s.From = "203.0." + strconv.Itoa(i) + ".1"
		if f.wait("ada", s.SignIn.Address(nil), s.Store.Now()) > 0 {
			t.Fatalf("throttled after %d", i)
		}
		f.add("ada", s.SignIn.Address(nil), s.Store.Now())
	}
	s.From = "198.51.100.1"
	if got := f.wait("ada", s.SignIn.Address(nil), s.Store.Now()); got != signInAccount.Window {
		t.Errorf("wait %v, want %v", got, signInAccount.Window)
	}
	if got := f.wait("tor", s.SignIn.Address(nil), s.Store.Now()); got != 0 {
		t.Errorf("another account waits %v", got)
	}
	if got := limit.Key(s.SignIn.Address(nil)).String(); got != "198.51.100.1/32" {
		t.Errorf("key %q", got)
	}
}

// As many as may wait are waiting already.
func TestSignInBusy(t *testing.T) {
	s := newSite(t)
	s.SignIn.hasher.inside.Store(hashing + waiting)
	p := pagetest.SignIn(s.Browser().Get("/signin"), "ada@nordlys.example", pagetest.Password).Want(429)
	if p.Header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", p.Header.Get("Retry-After"))
	}
}

// Attempts at once fail no more often than attempts in turn.
func TestSignInLimitHoldsAtOnce(t *testing.T) {
	s := newSite(t)
	f := newFailures(nil, "signin", signInAccount)
	var ends []func()
	for i := range signInPair.N {
		end, wait := f.begin("ada", s.SignIn.Address(nil), s.Store.Now())
		if wait != 0 {
			t.Fatalf("attempt %d waits %v", i+1, wait)
		}
		ends = append(ends, end)
	}
	if _, wait := f.begin("ada", s.SignIn.Address(nil), s.Store.Now()); wait != time.Second {
		t.Errorf("with all under way the wait is %v, want a second", wait)
	}
	if end, wait := f.begin("tor", s.SignIn.Address(nil), s.Store.Now()); wait != 0 {
		t.Errorf("another account waits %v", wait)
	} else {
		end()
	}
	for _, end := range ends { // all were right: nothing is counted
		end()
	}
	if len(f.tried) != 0 {
		t.Errorf("still under way: %v", f.tried)
	}
	end, wait := f.begin("ada", s.SignIn.Address(nil), s.Store.Now())
	if wait != 0 {
		t.Fatalf("wait %v after ten that were right", wait)
	}
	end()

	statuses := make(chan int)
	pages := make([]*pagetest.Shown, 30)
	for i := range pages {
		pages[i] = s.Browser().Get("/signin")
	}
	for _, page := range pages {
		go func() { statuses <- pagetest.SignIn(page, "ada@nordlys.example", "wrong").Status }()
	}
	count := map[int]int{}
	for range pages {
		count[<-statuses]++
	}
	if count[422] != signInPair.N || count[429] != len(pages)-signInPair.N {
		t.Errorf("answers %v, want %d that fail", count, signInPair.N)
	}
}
