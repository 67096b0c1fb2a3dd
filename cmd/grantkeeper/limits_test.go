package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/grantkeeper/grantkeeper/devserver"
)

// Of many requests at once exactly as many are let through as docs/limits.md says:
// none of the limits is checked first and counted later.
func TestLimitsHoldAtOnce(t *testing.T) {
	dev := startDev(t, devserver.Options{})
	browser := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 400},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	form := func(f url.Values) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Body = io.NopCloser(strings.NewReader(f.Encode()))
		}
	}
	json := func(body string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Content-Type", "application/json")
			r.Body = io.NopCloser(strings.NewReader(body))
		}
	}
	for _, c := range []struct {
		name, method, url string
		change            func(*http.Request)
		at                int // requests at once
		want              int // that were not told to wait
	}{
		{"/oauth/authorize", "GET", dev.Server + "/oauth/authorize", nil, 300, 150},
		{"/oauth/token and revoke", "POST", dev.Server + "/oauth/token", form(url.Values{"grant_type": {"refresh_token"}}), 450, 300},
		{"/oauth/register", "POST", dev.Server + "/oauth/register", json(`{"redirect_uris":["https://client.example/cb"]}`), 300, 20},
		{"/oauth/register, after what was refused", "POST", dev.Server + "/oauth/register", json(`{}`), 300, 0},
		{"the operators' password", "GET", dev.Operator + "/v1/people", func(r *http.Request) { r.SetBasicAuth("operator", "a wrong password") }, 300, 20},
		{"the API of an organization", "GET", dev.Server + "/api/v5/me", func(r *http.Request) { r.Header.Set("X-Auth-Token", dev.APIKeys["ola@havn.example"]) }, 3100, 3000},
	} {
		got := map[int]int{}
		var mu sync.Mutex
		var all sync.WaitGroup
		places := make(chan struct{}, 300)
		for range c.at {
			places <- struct{}{}
			all.Go(func() {
				defer func() { <-places }()
				r, err := http.NewRequest(c.method, c.url, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if c.change != nil {
					c.change(r)
				}
				a, err := browser.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, a.Body)
				a.Body.Close()
				mu.Lock()
				got[a.StatusCode]++
				mu.Unlock()
			})
		}
		all.Wait()
		if let := c.at - got[429]; let != c.want || got[500]+got[503] > 0 {
			t.Errorf("%s: %d of %d were let through, want %d: %v", c.name, let, c.at, c.want, got)
		}
	}
}

// Of wrong passwords for one account from one address ten are looked at, however
// many come at once: the others are told to wait, and none that it was wrong.
func TestWrongPasswordsAtOnceAreTen(t *testing.T) {
	dev := startDev(t, devserver.Options{})
	jar, _ := cookiejar.New(nil)
	browser := &http.Client{Jar: jar, Transport: &http.Transport{MaxIdleConnsPerHost: 400}}
	page, err := browser.Get(dev.Server + "/signin")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(page.Body)
	page.Body.Close()
	csrf := regexp.MustCompile(`name="csrf" value="([^"]+)"`).FindSubmatch(text)
	if csrf == nil {
		t.Fatalf("no form: %.300s", text)
	}
	got := map[int]int{}
	for range 3 { // as many as are hashed or wait at once, and then again
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				a, err := browser.PostForm(dev.Server+"/signin", url.Values{"csrf": {string(csrf[1])}, "email": {"ada@nordlys.example"}, "password": {"a wrong one"}})
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, a.Body)
				a.Body.Close()
				mu.Lock()
				got[a.StatusCode]++
				mu.Unlock()
			})
		}
		all.Wait()
	}
	if looked := 300 - got[429]; looked != 10 {
		t.Errorf("%d were looked at, want 10: %v", looked, got)
	}
}
