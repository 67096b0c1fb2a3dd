package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

const (
	wrongTokens  = 1000 // of each kind
	wrongSignIns = 150  // of each kind; a password is hashed for each, more than once
	lockedTries  = 10   // that fail from one address, until one has to wait

	// telling is from where on Welch's t tells two kinds of requests apart.
	telling = 4.5
	// slowest is the part of the samples that is left out at the slow end,
	// where the machine's other work is and the secret is not.
	slowest = 0.05
)

// A timing compares how long two kinds of requests take that nobody may tell apart.
type timing struct {
	What    string  `json:"what" col:"request"`
	A       string  `json:"a" col:"one kind"`
	B       string  `json:"b" col:"other kind"`
	Samples int     `json:"samples" col:"samples"` // of each
	MedianA float64 `json:"median_a_us" col:"median us,%.1f"`
	MedianB float64 `json:"median_b_us" col:"median us,%.1f"`
	T       float64 `json:"t" col:"t,%.2f"` // Welch's
}

// timings measures wrong tokens that share more or less with a right one (case
// S-06), and sign-ins that fail for different reasons (case S-07).
func (b bench) timings(ctx context.Context) (all []timing, err error) {
	folder := filepath.Join(b.folder, "timing")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	s, err := newStock(1)
	if err != nil {
		return nil, err
	}
	s.people = membersEach
	if err := s.write(ctx, folder); err != nil {
		return nil, err
	}
	if err := s.writePasswords(ctx, filepath.Join(folder, databaseName)); err != nil {
		return nil, err
	}
	server, err := startServer(ctx, b.binary, folder)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	for _, measure := range []func(*worker) ([]timing, error){s.timeTokens, timeSignIns} {
		a := &worker{address: server.public}
		if err := a.dial(); err != nil {
			return nil, err
		}
		some, err := measure(a)
		a.conn.Close()
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// Every sign-in is for another account and from another address, so that no
// limit is reached.
func emailOf(kind string, n int) string { return fmt.Sprintf("%s-%04d@client.example", kind, n) }

// signInKinds are people, by the beginning of their email: the hash of their
// password, and what the table calls their sign-in.
var signInKinds = []struct{ name, hash, what string }{
	{"known", signin.Hash("the right password"), "wrong password"},
	{"nobody", "", "unknown email"},
	{"gone", signin.Hash("the right password"), "deactivated account"},
	{"weak", "$argon2id$v=19$m=8,t=1,p=1$" + someHash, "imported, m=8 t=1"},
	{"costly", "$argon2id$v=19$m=65536,t=4,p=1$" + someHash, "imported, m=65536 t=4"},
	{"elsewhere", "", "no password"},
}

const someHash = "MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"

// writePasswords adds people who could sign in, and some who could not.
func (s *stock) writePasswords(ctx context.Context, path string) (err error) {
	db, err := store.Open(ctx, store.Options{Path: path, Ring: s.ring})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var d store.Directory
	for n := range wrongSignIns {
		for _, k := range signInKinds {
			if k.name != "nobody" {
				d.People = append(d.People, store.DirectoryPerson{PasswordHash: k.hash, Person: org.Person{
					ID: fmt.Sprintf("%s-%04d", k.name, n), Email: emailOf(k.name, n), Name: k.name, Active: k.name != "gone"}})
			}
		}
	}
	return db.AddDirectory(ctx, d, store.Act{Actor: "system", Reason: "bench"})
}

// timed tells how long an answer took that must have the status.
func (w *worker) timed(request []byte, status int) (time.Duration, error) {
	begin := time.Now()
	got, _, err := w.ask(request, begin.Add(grace))
	took := time.Since(begin)
	if err == nil && got.status != status {
		err = fmt.Errorf("status %d, want %d: %.200s", got.status, status, got.body)
	}
	return took, err
}

// timeTokens sends wrong tokens that begin as a right one does, for none, 10
// and 30 characters after the prefix, in a random order.
func (s *stock) timeTokens(a *worker) ([]timing, error) {
	right := s.ring.Access(s.handle(0), 1, time.Now().Add(time.Hour).Unix())
	request := func(access string) []byte {
		return fmt.Appendf(nil, "GET /api/v5/me HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", host, access)
	}
	if _, err := a.timed(request(right), 200); err != nil {
		return nil, fmt.Errorf("the right token: %w", err)
	}
	shared := []int{0, 10, 30}
	took, err := interleaved(len(shared), wrongTokens, func(kind, _ int) (time.Duration, error) {
		return a.timed(request(wrongToken(right, shared[kind])), 401)
	})
	if err != nil {
		return nil, fmt.Errorf("wrong tokens: %w", err)
	}
	return pairs("access token, characters shared with a right one", []string{"0", "10", "30"}, took), nil
}

// wrongToken keeps the prefix and as many characters after it; the next is
// another one, and the rest are random.
func wrongToken(right string, shared int) string {
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	b := []byte(right)
	from := len(right) - (token.Len - 4) + shared
	for i := from; i < len(b); i++ {
		for next := letters[rand.IntN(len(letters))]; ; next = letters[rand.IntN(len(letters))] {
			if i > from || next != b[i] {
				b[i] = next
				break
			}
		}
	}
	return string(b)
}

var csrfField = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// timeSignIns tries passwords for people there are, were and never were.
func timeSignIns(a *worker) ([]timing, error) {
	page, cookie, err := signInPage(a.address)
	if err != nil {
		return nil, err
	}
	csrf := csrfField.FindSubmatch(page)
	if csrf == nil {
		return nil, errors.New("the sign-in page has no form token")
	}
	try := func(email string, address, status int) (time.Duration, error) {
		body := url.Values{"email": {email}, "password": {"a wrong password"}, "csrf": {string(csrf[1])}}.Encode()
		request := fmt.Appendf(nil, "POST /signin HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\nX-Forwarded-For: 198.18.%d.%d\r\n"+
			"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s",
			host, cookie, address>>8, address&0xff, len(body), body)
		return a.timed(request, status)
	}
	var names []string
	for _, k := range signInKinds {
		names = append(names, k.what)
	}
	address := 0
	took, err := interleaved(len(signInKinds), wrongSignIns, func(kind, n int) (time.Duration, error) {
		address++
		return try(emailOf(signInKinds[kind].name, n), address, 422)
	})
	if err != nil {
		return nil, fmt.Errorf("wrong sign-ins: %w", err)
	}
	all := pairs("sign-in that fails", names, took)

	// Each account is locked for an address of its own.
	for kind, k := range signInKinds {
		for range lockedTries {
			if _, err := try(emailOf(k.name, 0), address+1+kind, 422); err != nil {
				return nil, fmt.Errorf("sign-ins until one has to wait: %w", err)
			}
		}
	}
	took, err = interleaved(len(signInKinds), wrongSignIns, func(kind, _ int) (time.Duration, error) {
		return try(emailOf(signInKinds[kind].name, 0), address+1+kind, 429)
	})
	if err != nil {
		return nil, fmt.Errorf("sign-ins that have to wait: %w", err)
	}
	return append(all, pairs("sign-in that has to wait", names, took)...), nil
}

// signInPage reads the page, with its cookie.
func signInPage(address string) (page []byte, cookie string, err error) {
	r, err := http.NewRequest(http.MethodGet, "http://"+address+"/signin", nil)
	if err != nil {
		return nil, "", err
	}
	r.Host = host
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer a.Body.Close()
	if len(a.Cookies()) == 0 {
		return nil, "", errors.New("the sign-in page sets no cookie")
	}
	page, err = io.ReadAll(a.Body)
	return page, a.Cookies()[0].Name + "=" + a.Cookies()[0].Value, err
}

// interleaved takes n samples of each kind in a random order, so that whatever
// the machine does meanwhile meets all kinds alike. The first tenth is not
// counted.
func interleaved(kinds, n int, sample func(kind, n int) (time.Duration, error)) ([][]float64, error) {
	var order []int
	for i := range kinds * n {
		order = append(order, i%kinds)
	}
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	taken, out := make([]int, kinds), make([][]float64, kinds)
	for i, kind := range order {
		d, err := sample(kind, taken[kind])
		if err != nil {
			return nil, err
		}
		if taken[kind]++; i >= len(order)/10 {
			out[kind] = append(out[kind], float64(d.Nanoseconds())/1000)
		}
	}
	return out, nil
}

// pairs compares each kind with each other.
func pairs(what string, names []string, took [][]float64) (all []timing) {
	limit := quantile(slices.Concat(took...), 1-slowest)
	for i := range took {
		for j := i + 1; j < len(took); j++ {
			a, b := below(took[i], limit), below(took[j], limit)
			all = append(all, timing{what, names[i], names[j], min(len(a), len(b)), quantile(a, 0.5), quantile(b, 0.5), welch(a, b)})
		}
	}
	return all
}

func quantile(of []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// below leaves the samples up to a limit that is the same for all kinds, so
// that a kind that is slow more often still differs.
func below(of []float64, limit float64) []float64 {
	return slices.DeleteFunc(slices.Clone(of), func(x float64) bool { return x > limit })
}

// welch gives Welch's t of two samples: the difference of their means in units
// of its own standard error.
func welch(a, b []float64) float64 {
	ma, va := moments(a)
	mb, vb := moments(b)
	return (ma - mb) / math.Sqrt(va/float64(len(a))+vb/float64(len(b)))
}

// moments gives the mean and the variance of a sample.
func moments(of []float64) (mean, variance float64) {
	for _, x := range of {
		mean += x / float64(len(of))
	}
	for _, x := range of {
		variance += (x - mean) * (x - mean) / float64(len(of)-1)
	}
	return mean, variance
}

func printTimings(w io.Writer, all []timing) {
	if printRows(w, all); all != nil {
		fmt.Fprintf(w, "\nWelch's t; from %.1f on, two kinds can be told apart.\n", telling)
	}
}

// toldApart counts the comparisons in which two kinds differ.
func toldApart(all []timing) (n int) {
	for _, t := range all {
		if math.IsNaN(t.T) || math.Abs(t.T) >= telling {
			n++
		}
	}
	return n
}
