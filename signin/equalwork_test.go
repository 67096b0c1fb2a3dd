package signin

import (
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"golang.org/x/crypto/argon2"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/store"
)

// A counting hasher's work: the costs of each hash.
type worked struct {
	memory, passes uint32
	lanes          uint8
}

// counted lets a site count the hashes that sign-ins make.
func (s *site) counted() (since func() []worked) {
	var mu sync.Mutex
	var done []worked
	s.SignIn.hasher.derive = func(password, salt []byte, passes, memory uint32, lanes uint8, keyLen uint32) []byte {
		mu.Lock()
		done = append(done, worked{memory, passes, lanes})
		mu.Unlock()
		return argon2.IDKey(password, salt, passes, memory, lanes, keyLen)
	}
	return func() []worked {
		mu.Lock()
		defer mu.Unlock()
		out := done
		done = nil
		return out
	}
}

// hashWith is the PHC string of a password by other costs.
func hashWith(memory, passes uint32, lanes uint8, password string) string {
	b64, salt := base64.RawStdEncoding.EncodeToString, []byte("0123456789abcdef")
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$%s$%s", memory, passes, lanes, b64(salt),
		b64(argon2.IDKey([]byte(password), salt, passes, memory, lanes, argonKey)))
}

// Whatever is stored for whom, and whatever is typed, each sign-in makes the
// same hashes in the same order, and gets the same answer.
func TestEqualWork(t *testing.T) {
	s := newSite(t)
	hashes := map[string]string{
		"weak": hashWith(8, 1, 1, pagetest.Password), "costly": hashWith(1<<15, 2, 2, pagetest.Password), "usual": pagetest.PasswordHash,
		"left": pagetest.PasswordHash, "none": "", "broken": "$argon2id$v=19$m=19456,t=2,p=1$!$!",
	}
	var d store.Directory
	for id, hash := range hashes {
		d.People = append(d.People, store.DirectoryPerson{PasswordHash: hash,
			Person: org.Person{ID: id, Email: id + "@nordlys.example", Name: "Some Body", Active: id != "left"}})
	}
	s.Do(s.Store.AddDirectory(t.Context(), d, store.Act{Actor: "operator"}))
	since, b := s.counted(), s.Browser()
	var body string
	var header http.Header
	for _, email := range []string{"weak@nordlys.example", "costly@nordlys.example", "usual@nordlys.example", "left@nordlys.example", "none@nordlys.example",
		"broken@nordlys.example", "nobody@nordlys.example", "Weak@NORDLYS.example", "\xff", "a\x00b", ""} {
		for _, word := range []string{"wrong", pagetest.Password} {
			if id, _, _ := strings.Cut(email, "@"); word == pagetest.Password && strings.Contains("weak costly usual Weak", id) && id != "" {
				continue // that lets them in
			}
			got := pagetest.SignIn(b.Get("/signin"), email, word).Want(422)
			if work, want := since(), []worked{{19456, 2, 1}, {1 << 15, 2, 2}, {8, 1, 1}}; !slices.Equal(work, want) {
				t.Errorf("%q %s: work %v, want %v", email, word, work, want)
			}
			shown := strings.ReplaceAll(got.Body, html.EscapeString(email), "")
			shown = Varies.ReplaceAllString(shown, "")
			got.Header.Del("Date")
			got.Header.Del("Content-Length")
			if body == "" {
				body, header = shown, got.Header
			}
			if utf8.ValidString(email) && shown != body && email != "" && !strings.Contains(email, "\x00") {
				t.Errorf("%q %s: another page", email, word)
			}
			if !reflect.DeepEqual(got.Header, header) {
				t.Errorf("%q %s: header %v, want %v", email, word, got.Header, header)
			}
			s.Pass(time.Hour) // limits forget
		}
	}
}

// A weak hash becomes one of ours with the first right password, nothing ends by
// it, and afterwards nobody pays for its costs.
func TestWeakHashIsReplaced(t *testing.T) {
	s := newSite(t)
	weak := hashWith(8, 1, 1, pagetest.Password)
	s.Do(s.Store.SetPassword(t.Context(), "ada", weak, store.Act{Actor: "operator"}))
	before := s.SignedIn("ada")
	since, b := s.counted(), s.Browser()
	pagetest.SignIn(b.Get("/signin"), "ada@nordlys.example", "wrong").Want(422)
	if _, now, _ := s.Store.Password(t.Context(), "ada@nordlys.example"); now != weak {
		t.Error("a wrong password replaces the hash")
	}
	since()
	pagetest.SignIn(b.Get("/signin"), "ada@nordlys.example", pagetest.Password).Want(303)
	if work := since(); len(work) != 2 {
		t.Errorf("work %v", work)
	}
	_, now, _ := s.Store.Password(t.Context(), "ada@nordlys.example")
	if !strings.HasPrefix(now, "$argon2id$v=19$m=19456,t=2,p=1$") || !Matches(now, pagetest.Password) {
		t.Errorf("stored: %.40s", now)
	}
	before.Get("/account").Want(200)
	b.Get("/account").Want(200)
	pagetest.SignIn(s.Browser().Get("/signin"), "ada@nordlys.example", pagetest.Password).Want(303)
	if work := since(); len(work) != 1 {
		t.Errorf("afterwards: %v", work)
	}
	if _, again, _ := s.Store.Password(t.Context(), "ada@nordlys.example"); again != now {
		t.Error("a hash of ours is replaced")
	}
}

// Sign-ins at once with a weak hash all succeed: one replaces it.
func TestWeakHashIsReplacedAtOnce(t *testing.T) {
	s := newSite(t)
	s.Do(s.Store.SetPassword(t.Context(), "ada", hashWith(8, 1, 1, pagetest.Password), store.Act{Actor: "operator"}))
	statuses := make(chan int, 6)
	for range cap(statuses) {
		page := s.Browser().Get("/signin")
		go func() { statuses <- pagetest.SignIn(page, "ada@nordlys.example", pagetest.Password).Status }()
	}
	for range cap(statuses) {
		if got := <-statuses; got != 303 {
			t.Errorf("status %d", got)
		}
	}
}

// A sign-in that another one's new hash, or another password, overtakes.
func TestWeakHashIsReplacedMeanwhile(t *testing.T) {
	for now, want := range map[string]error{pagetest.Password: nil, "another password": errWrong} {
		s := newSite(t)
		weak := hashWith(8, 1, 1, pagetest.Password)
		s.Do(s.Store.SetPassword(t.Context(), "ada", weak, store.Act{Actor: "operator"}))
		in, err := s.Store.SignIn(t.Context(), "ada@nordlys.example")
		s.Do(err)
		read, err := parsePHC(weak)
		s.Do(err)
		changed := Hash(now)
		s.Do(s.Store.SetPassword(t.Context(), "ada", changed, store.Act{Actor: "operator"}))
		_, stored, err := s.SignIn.strengthenHash(t.Context(), in, read, pagetest.Password)
		if !errors.Is(err, want) || err == nil && stored != changed {
			t.Errorf("with %q: %q %v", now, stored, err)
		}
	}
}

// What cannot be written keeps nobody out.
func TestWeakHashStays(t *testing.T) {
	s := newSite(t)
	weak := hashWith(8, 1, 1, pagetest.Password)
	s.Do(s.Store.SetPassword(t.Context(), "ada", weak, store.Act{Actor: "operator"}))
	in, err := s.Store.SignIn(t.Context(), "ada@nordlys.example")
	s.Do(err)
	read, err := parsePHC(weak)
	s.Do(err)
	s.Do(s.Store.Close())
	p, stored, err := s.SignIn.strengthenHash(t.Context(), in, read, pagetest.Password)
	if err != nil || p.ID != "ada" || stored != weak {
		t.Errorf("%v %q %v", p, stored, err)
	}
	if log := s.Logged.String(); !strings.Contains(log, "a weak hash of a password stays") || strings.Contains(log, "argon2id") {
		t.Errorf("log: %s", log)
	}
}

// A password is right only when all of its key is.
func TestEveryByteOfAPasswordCounts(t *testing.T) {
	h := nobody(ownCosts)
	for i := range h.Key {
		key := slices.Clone(h.Key)
		key[i] ^= 1
		if h.matchesBy(func(_, _ []byte, _, _ uint32, _ uint8, n uint32) []byte { return key[:n] }, "x") {
			t.Errorf("byte %d makes no difference", i)
		}
	}
}

// Who has to wait is told so before a place to hash is asked for: guesses of one
// account do not keep others from theirs.
func TestWhoHasToWaitTakesNoPlace(t *testing.T) {
	s := newSite(t)
	for range signInPair.N {
		s.SignIn.failures.add("ada@nordlys.example", s.SignIn.Address(nil), s.Store.Now())
	}
	s.SignIn.hasher.inside.Store(hashing + waiting)
	p := pagetest.SignIn(s.Browser().Get("/signin"), "ada@nordlys.example", pagetest.Password).Want(429)
	if got := p.Header.Get("Retry-After"); got != "900" {
		t.Errorf("Retry-After %q", got)
	}
}

// Costs that only a row of the previous release has are known to all nodes after
// the first sign-in of its person.
func TestCostsOfThePreviousReleaseBecomeKnown(t *testing.T) {
	a, b, url := twoNodes(t, false)
	a.Do(a.Store.SetPassword(t.Context(), "ada", hashWith(16, 1, 1, pagetest.Password), store.Act{Actor: "operator"}))
	conn, err := pgx.Connect(t.Context(), url)
	a.Do(err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), `DELETE FROM password_costs WHERE costs LIKE '%m=16,%'`)
	a.Do(err)
	since := a.counted()
	for _, want := range []int{2, 2} {
		pagetest.SignIn(a.Browser().Get("/signin"), "ada@nordlys.example", "wrong").Want(422)
		if work := since(); len(work) != want {
			t.Errorf("work %v", work)
		}
	}
	for known := false; !known; time.Sleep(time.Millisecond) { // nobody waits for it to be written
		in, err := b.Store.SignIn(t.Context(), "")
		a.Do(err)
		known = len(in.Costs) == 2
	}
	since = b.counted()
	pagetest.SignIn(b.Browser().Get("/signin"), "nobody@nordlys.example", "wrong").Want(422)
	if work := since(); len(work) != 2 {
		t.Errorf("at the other node an unknown person makes %v", work)
	}
}

// Costs that a previous release's node stored are known after the first attempt.
func TestCostsBecomeKnown(t *testing.T) {
	h := newHasher()
	var work int
	h.derive = func(_, _ []byte, _, _ uint32, _ uint8, n uint32) []byte { work++; return make([]byte, n) }
	other, err := parsePHC(hashWith(16, 1, 1, pagetest.Password))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		known   bool
		all     []string
		work    int
		unknown bool
	}{
		{true, nil, 2, true}, {true, []string{"$argon2id$v=19$m=16,t=1,p=1$"}, 2, false}, {false, []string{"$argon2id$v=19$m=16,t=1,p=1$"}, 2, false},
		{false, nil, 1, false}, {false, []string{"x", "$argon2id$v=19$m=19456,t=2,p=1$"}, 1, false},
	} {
		work = 0
		matches, unknown := h.compare(other, c.known, c.all, "wrong")
		if matches || unknown != c.unknown || work != c.work {
			t.Errorf("%+v: matches %v, unknown %v, work %d", c, matches, unknown, work)
		}
	}
}
