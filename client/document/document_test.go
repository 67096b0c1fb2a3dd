package document

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/client"
)

// The certificate of httptest is for this host.
const (
	host   = "doc.example.com"
	id     = "https://" + host + "/client.json"
	public = "93.184.216.34"
)

// A site serves documents, and counts who connects and who asks.
type site struct {
	*httptest.Server
	asked, dialled atomic.Int32
	addresses      func(n int32) []string // of the look-up, by how many there were before
	looked         atomic.Int32
	passed         atomic.Int64 // what the fetcher's clock is ahead by
}

func open(t *testing.T, answer http.HandlerFunc) *site {
	t.Helper()
	s := &site{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		answer(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *site) fetcher() *Fetcher {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return New(Options{
		Roots: roots, Within: time.Minute,
		Now: func() time.Time { return time.Now().Add(time.Duration(s.passed.Load())) },
		Lookup: func(_ context.Context, _, name string) (all []netip.Addr, err error) {
			n := s.looked.Add(1) - 1
			if !strings.HasSuffix(name, ".") {
				return nil, fmt.Errorf("%s is looked up in search domains too", name)
			}
			if s.addresses == nil {
				return []netip.Addr{netip.MustParseAddr(public)}, nil
			}
			for _, a := range s.addresses(n) {
				all = append(all, netip.MustParseAddr(a))
			}
			if all == nil {
				return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
			}
			return all, nil
		},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			s.dialled.Add(1)
			if address != net.JoinHostPort(public, "443") && !strings.HasPrefix(address, "[2606:") {
				return nil, fmt.Errorf("dialled %s", address)
			}
			return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
		},
	})
}

func fetch(t *testing.T, f *Fetcher) (m client.Metadata, kept time.Duration, err error) {
	t.Helper()
	err = f.Fetch(t.Context(), Wanted{ID: id, Host: host}, func(got client.Metadata, for_ time.Duration) error {
		m, kept = got, for_
		return nil
	})
	return m, kept, err
}

const good = `{"client_id":"` + id + `","client_name":"Assistant","redirect_uris":["https://doc.example.com/cb"]}`

// as answers with a type, header fields in pairs, and a body.
func as(kind, body string, fields ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		for i := 0; i+1 < len(fields); i += 2 {
			w.Header().Set(fields[i], fields[i+1])
		}
		io.WriteString(w, body)
	}
}

func TestFetch(t *testing.T) {
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		kept   time.Duration
	}{
		"JSON":               {as("application/json", good), time.Hour},
		"with a charset":     {as("application/json; charset=utf-8", good, "Cache-Control", "max-age=7200"), 2 * time.Hour},
		"a kind of JSON":     {as("application/oauth-client+json", good, "Cache-Control", "no-store"), 5 * time.Minute},
		"as large as it may": {as("application/json", good+strings.Repeat(" ", client.MaxDocument-len(good))), time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.Host != host || r.RequestURI != "/client.json" || r.Header.Get("Accept") != "application/json" || r.Header.Get("Accept-Encoding") != "" ||
					r.Header.Get("Cookie")+r.Header.Get("Authorization")+r.Header.Get("Referer") != "" || r.ProtoMajor != 1 {
					t.Errorf("asked by %+v", r)
				}
				tt.answer(w, r)
			})
			m, kept, err := fetch(t, s.fetcher())
			if err != nil || m.Name != "Assistant" || len(m.RedirectURIs) != 1 || kept != tt.kept {
				t.Errorf("%+v, %s, %v", m, kept, err)
			}
		})
	}
}

func gzipped(size int) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(bytes.Repeat([]byte(" "), size))
	w.Close()
	return b.String()
}

// What hostile servers answer, and what each gets.
func TestHostileAnswers(t *testing.T) {
	drip := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for range 100 {
			if _, err := io.WriteString(w, " "); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		why    attempt.Reason
		detail string
	}{
		"a redirect to loopback":     {redirectTo("http://127.0.0.1/"), attempt.DocumentStatus, "answers 302, and redirects are not followed"},
		"a redirect to itself":       {redirectTo(id), attempt.DocumentStatus, "redirects are not followed"},
		"404":                        {http.NotFound, attempt.DocumentStatus, "answers 404"},
		"410, and the document":      {status(http.StatusGone), attempt.DocumentStatus, "answers 410"},
		"201":                        {status(http.StatusCreated), attempt.DocumentStatus, "answers 201"},
		"204":                        {status(http.StatusNoContent), attempt.DocumentStatus, "answers 204"},
		"206":                        {status(http.StatusPartialContent), attempt.DocumentStatus, "answers 206"},
		"304 to what asked for none": {status(http.StatusNotModified), attempt.DocumentStatus, "answers 304"},
		"500":                        {status(http.StatusInternalServerError), attempt.DocumentStatus, "answers 500"},
		"HTML":                       {as("text/html", "<html>"+good), attempt.DocumentType, "Content-Type"},
		"JSON as text":               {as("text/plain", good), attempt.DocumentType, "Content-Type"},
		"JSON of a picture":          {as("image/svg+json", good), attempt.DocumentType, "Content-Type"},
		"a type that is none":        {as("application/json;;;=", good), attempt.DocumentType, "Content-Type"},
		"gzip that nobody asked for": {as("application/json", gzipped(100<<20), "Content-Encoding", "gzip"), attempt.DocumentType, "Content-Encoding"},
		"a byte too large":           {as("application/json", good+strings.Repeat(" ", client.MaxDocument-len(good)+1)), attempt.DocumentLarge, "8192"},
		"endless":                    {endless, attempt.DocumentLarge, "8192"},
		"header fields without end":  {fields, attempt.DocumentUnreachable, "cannot be reached"},
		"a byte now and then":        {drip, attempt.DocumentUnreachable, "in time"},
		"nothing":                    {silent, attempt.DocumentUnreachable, "in time"},
		"cut off":                    {cut, attempt.DocumentUnreachable, "cannot be reached"},
		"no HTTP":                    {noHTTP, attempt.DocumentUnreachable, "cannot be reached"},
		"no JSON":                    {as("application/json", "{"), attempt.DocumentJSON, "JSON"},
		"a member twice":             {as("application/json", strings.Replace(good, "{", `{"client_id":"https://bank.example/c",`, 1)), attempt.DocumentJSON, "twice"},
		"another client_id":          {as("application/json", strings.Replace(good, id, "https://bank.example/c", 1)), attempt.DocumentClientID, "byte for byte"},
		"the same but for a slash":   {as("application/json", strings.Replace(good, id, id+"/", 1)), attempt.DocumentClientID, "byte for byte"},
		"a secret":                   {as("application/json", strings.Replace(good, "{", `{"client_secret":"hidden",`, 1)), attempt.DocumentAuthentication, "client_secret"},
		"private_key_jwt":            {as("application/json", strings.Replace(good, "{", `{"token_endpoint_auth_method":"private_key_jwt",`, 1)), attempt.DocumentAuthentication, "must be none"},
		"redirects to loopback":      {as("application/json", strings.Replace(good, "https://doc.example.com/cb", "http://127.0.0.1/hidden", 1)), attempt.DocumentRedirects, "loopback"},
		"a name with markup":         {as("application/json", strings.Replace(good, "Assistant", "<script>hidden", 1)), attempt.DocumentName, "markup"},
		"client credentials":         {as("application/json", strings.Replace(good, "{", `{"grant_types":["client_credentials"],`, 1)), attempt.DocumentGrants, "authorization_code"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, late := open(t, tt.answer), tt.detail == "in time" // all others end by themselves
			f := s.fetcher()
			if late {
				f.within = 2 * time.Second
			}
			m, _, err := fetch(t, f)
			var bad *Error
			if !errors.As(err, &bad) || bad.Reason != tt.why || !strings.Contains(bad.Detail, tt.detail) || strings.Contains(bad.Detail, "hidden") || m.RedirectURIs != nil {
				t.Errorf("%+v, %v; want %s: %s", m, err, tt.why, tt.detail)
			}
			if n := s.asked.Load(); n != 1 && !(late && n == 0) && name != "header fields without end" {
				t.Errorf("asked %d times", n)
			}
			t.Logf("%-28s %s: %s", name, bad.Reason, bad.Detail)
		})
	}
}

func redirectTo(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		if code != http.StatusNoContent && code != http.StatusNotModified {
			io.WriteString(w, good)
		}
	}
}

func endless(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	for {
		if _, err := w.Write(bytes.Repeat([]byte(" "), 4096)); err != nil {
			return
		}
	}
}

func fields(w http.ResponseWriter, _ *http.Request) {
	for i := range 1000 {
		w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 100))
	}
	as("application/json", good)(w, nil)
}

func silent(_ http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-time.After(time.Minute):
	}
}

func cut(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", "1000")
	io.WriteString(w, good[:20])
	panic(http.ErrAbortHandler)
}

func noHTTP(w http.ResponseWriter, _ *http.Request) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		io.WriteString(c, "220 mail.example ESMTP\r\n")
		c.Close()
	}
}

// No address is dialled that is not public, whatever the name led to a moment ago, and
// what is dialled is what was looked up.
func TestPublicAddressesAlone(t *testing.T) {
	one := func(all ...string) func(int32) []string { return func(int32) []string { return all } }
	for name, tt := range map[string]struct {
		addresses func(int32) []string
		fetches   int // of which the last one counts
		why       attempt.Reason
		dialled   int32
	}{
		"public":                         {one(public), 1, "", 1},
		"public, over IPv6":              {one("2606:4700::1111"), 1, "", 1},
		"loopback":                       {one("127.0.0.1"), 1, attempt.DocumentPrivate, 0},
		"loopback, over IPv6":            {one("::1"), 1, attempt.DocumentPrivate, 0},
		"loopback, mapped":               {one("::ffff:127.0.0.1"), 1, attempt.DocumentPrivate, 0},
		"loopback, behind NAT64":         {one("64:ff9b::7f00:1"), 1, attempt.DocumentPrivate, 0},
		"loopback, by 6to4":              {one("2002:7f00:1::"), 1, attempt.DocumentPrivate, 0},
		"where clouds keep credentials":  {one("169.254.169.254"), 1, attempt.DocumentPrivate, 0},
		"the same, over IPv6":            {one("fd00:ec2::254"), 1, attempt.DocumentPrivate, 0},
		"private":                        {one("10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fc00::1", "fe80::1"), 1, attempt.DocumentPrivate, 0},
		"special":                        {one("0.0.0.0", "::", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "2001:db8::1", "ff02::1"), 1, attempt.DocumentPrivate, 0},
		"private, and a public one":      {one("10.0.0.1", public), 1, "", 1},
		"rebinding":                      {func(n int32) []string { return [][]string{{public}, {"127.0.0.1"}}[min(n, 1)] }, 2, attempt.DocumentPrivate, 1},
		"rebinding, back and forth":      {func(n int32) []string { return [][]string{{public}, {"127.0.0.1"}}[n%2] }, 3, "", 2},
		"rebinding, for a public moment": {func(n int32) []string { return [][]string{{"127.0.0.1"}, {public}}[min(n, 1)] }, 1, attempt.DocumentPrivate, 0},
		"none":                           {one(), 1, attempt.DocumentUnreachable, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, as("application/json", good))
			s.addresses = tt.addresses
			f := s.fetcher()
			var err error
			for range tt.fetches {
				s.passed.Add(int64(remembered))
				_, _, err = fetch(t, f)
			}
			if bad, ok := errors.AsType[*Error](err); ok && bad.Reason != tt.why || (err == nil) != (tt.why == "") {
				t.Errorf("%v, want %s", err, tt.why)
			}
			if n := s.dialled.Load(); n != tt.dialled || s.looked.Load() != int32(tt.fetches) {
				t.Errorf("dialled %d times, looked up %d times", n, s.looked.Load())
			}
			t.Logf("%-32s %v", name, err)
		})
	}
}

func TestCertificates(t *testing.T) {
	s := open(t, as("application/json", good))
	f := s.fetcher()
	const other = "https://doc.example.org/client.json"
	var bad *Error
	if err := f.Fetch(t.Context(), Wanted{ID: other, Host: "doc.example.org"}, nil); !errors.As(err, &bad) || bad.Reason != attempt.DocumentUnreachable || !strings.Contains(bad.Detail, "certificate") {
		t.Errorf("another host's certificate: %v", err)
	}
	f = New(Options{Lookup: f0(s), Dial: f1(s)})
	if err := f.Fetch(t.Context(), Wanted{ID: id, Host: host}, nil); !errors.As(err, &bad) || !strings.Contains(bad.Detail, "certificate") {
		t.Errorf("one that nobody trusts: %v", err)
	}
	if s.asked.Load() != 0 {
		t.Error("asked")
	}
}

func f0(*site) func(context.Context, string, string) ([]netip.Addr, error) {
	return func(context.Context, string, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr(public)}, nil
	}
}

func f1(s *site) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
	}
}

// Who asks for a document that is under way waits for it, and it does not stop where one
// of them leaves.
func TestOneFetchForAll(t *testing.T) {
	gate := make(chan struct{})
	s := open(t, func(w http.ResponseWriter, r *http.Request) {
		<-gate
		as("application/json", good)(w, r)
	})
	f := s.fetcher()
	var used atomic.Int32
	use := func(client.Metadata, time.Duration) error { used.Add(1); return nil }
	gone, leave := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- f.Fetch(gone, Wanted{ID: id, Host: host}, use) }()
	for s.asked.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	var all, begun sync.WaitGroup
	begun.Add(20)
	for range 20 {
		all.Go(func() {
			begun.Done()
			if err := f.Fetch(t.Context(), Wanted{ID: id, Host: host}, use); err != nil {
				t.Error(err)
			}
		})
	}
	leave()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("who left: %v", err)
	}
	begun.Wait()
	time.Sleep(100 * time.Millisecond)
	if s.asked.Load() != 1 || used.Load() != 0 {
		t.Errorf("asked %d times, used %d times", s.asked.Load(), used.Load())
	}
	close(gate)
	all.Wait()
	if used.Load() == 0 || used.Load() != s.asked.Load() {
		t.Errorf("in the end asked %d times, used %d times", s.asked.Load(), used.Load())
	}
	if err := f.Fetch(t.Context(), Wanted{ID: id, Host: host}, func(client.Metadata, time.Duration) error { return errors.New("no room") }); err == nil || err.Error() != "no room" {
		t.Errorf("what use says: %v", err)
	}
	if len(f.under) != 0 || f.others.n != 0 || len(f.others.hosts) != 0 || len(f.failed.at) != 0 {
		t.Errorf("left behind: %v, %v, %v", f.under, f.others, f.failed)
	}
}

// A host that is slow holds a few places, and all of them together no more than there are.
func TestBounds(t *testing.T) {
	gate := make(chan struct{})
	s := open(t, func(w http.ResponseWriter, _ *http.Request) {
		<-gate
		http.NotFound(w, nil)
	})
	f := s.fetcher()
	results := make(chan error, atOnce+1)
	ask := func(host string, n int) {
		go func() {
			results <- f.Fetch(t.Context(), Wanted{ID: fmt.Sprintf("https://%s/%d", host, n), Host: host}, nil)
		}()
	}
	under := func(want int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			f.mu.Lock()
			n := len(f.under)
			f.mu.Unlock()
			if n == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d under way, want %d", n, want)
			}
		}
	}
	for n := range atOnceHost {
		ask("slow.example.com", n)
	}
	under(atOnceHost)
	if err := f.Fetch(t.Context(), Wanted{ID: "https://slow.example.com/x", Host: "slow.example.com"}, nil); !errors.Is(err, ErrBusy) {
		t.Errorf("one more of a host: %v", err)
	}
	for n := range atOnce - atOnceHost {
		ask(fmt.Sprintf("h%d.example.com", n), n)
	}
	under(atOnce)
	if err := f.Fetch(t.Context(), Wanted{ID: id, Host: host}, nil); !errors.Is(err, ErrBusy) {
		t.Errorf("one more of all: %v", err)
	}
	close(gate)
	for range atOnce {
		if err := <-results; errors.Is(err, ErrBusy) {
			t.Error("busy")
		}
	}
	under(0)
}

// Whoever names URLs of a host that are no client's keeps nobody from one that people use,
// and sends no more requests there than a few.
func TestStrangersAtAHost(t *testing.T) {
	s := open(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/client.json" {
			as("application/json", good)(w, r)
			return
		}
		time.Sleep(10 * time.Millisecond)
		http.NotFound(w, r)
	})
	f := s.fetcher()
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := f.Fetch(t.Context(), Wanted{ID: fmt.Sprintf("https://%s/none/%d/%d", host, i, n), Host: host}, nil); errors.Is(err, ErrBusy) {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	used := 0
	more := 50 // once strangers have had all that they get
	for deadline := time.Now().Add(time.Minute); more > 0 && time.Now().Before(deadline); used++ {
		if int(s.asked.Load())-used >= failuresOfHost {
			more--
		}
		if err := f.Fetch(t.Context(), Wanted{ID: id, Host: host, Used: true}, func(client.Metadata, time.Duration) error { return nil }); err != nil {
			t.Fatalf("one that people use: %v", err)
		}
	}
	close(stop)
	all.Wait()
	if n := int(s.asked.Load()) - used; n < failuresOfHost || n >= failuresOfHost+atOnceHost {
		t.Errorf("strangers had it ask %d times", n)
	}
	if _, _, err := fetch(t, f); !errors.Is(err, ErrBusy) {
		t.Errorf("one more that nobody knows: %v", err)
	}
	s.passed.Add(int64(remembered))
	if _, _, err := fetch(t, f); err != nil {
		t.Errorf("a minute later: %v", err)
	}
}

// What failed is not asked for again within a minute, and so much is remembered and no more.
func TestFailuresAreRemembered(t *testing.T) {
	s := open(t, http.NotFound)
	f := s.fetcher()
	for _, used := range []bool{false, true} {
		before := s.asked.Load()
		for range 3 {
			var bad *Error
			if err := f.Fetch(t.Context(), Wanted{ID: id, Host: host, Used: used}, nil); !errors.As(err, &bad) || bad.Reason != attempt.DocumentStatus {
				t.Error(err)
			}
			s.passed.Add(int64(remembered / 4))
		}
		if n := s.asked.Load() - before; n != 1 {
			t.Errorf("asked %d times", n)
		}
		s.passed.Add(int64(remembered / 4))
	}
	r, now := recent{at: map[string]failure{}}, time.Now()
	for n := range mostRemembered + 10 {
		r.add(fmt.Sprint(n), ErrBusy, now)
		r.add(fmt.Sprint(n), ErrBusy, now)
	}
	if r.of("9", now).n != 0 || r.of("10", now).n != 2 || len(r.at) != mostRemembered || len(r.age) != mostRemembered {
		t.Errorf("%d, %d remembered", len(r.at), len(r.age))
	}
	r.add("10", ErrBusy, now.Add(remembered))
	if len(r.at) != mostRemembered || len(r.age) != mostRemembered || r.age[mostRemembered-1] != "10" {
		t.Errorf("again: %d, %d remembered", len(r.at), len(r.age))
	}
}
