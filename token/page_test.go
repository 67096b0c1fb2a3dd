package token

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

func TestPageRoundTrip(t *testing.T) {
	r := ring(t, 1)
	for _, plain := range []string{"", "x", "a request\x00\xff", strings.Repeat("long ", 5000)} {
		sealed := r.SealPage("authorize", []byte(plain))
		got, key, ok := r.OpenPage("authorize", sealed)
		if !ok || string(got) != plain || key != 1 {
			t.Errorf("%.10q opened as %.10q, key %d, %t", plain, got, key, ok)
		}
		if strings.Trim(sealed, alphabet+"-_.") != "" {
			t.Errorf("%q is not fit for URLs", sealed)
		}
		if again := r.SealPage("authorize", []byte(plain)); again == sealed {
			t.Error("sealed twice alike: a page shows that it is the same")
		}
	}
}

// What an earlier release put into a page is still good, so nobody's open page
// dies by an upgrade, and nodes of two releases work side by side.
func TestPagesOfEarlierReleases(t *testing.T) {
	r := ring(t, 1)
	got, _, ok := r.OpenPage("authorize", "1.vmuCJCg0Roi82-KgIfSi63hXQfSuleWY9ejRL7H9M3hq7BI")
	if !ok || string(got) != "request" {
		t.Errorf("page opened as %q, %t", got, ok)
	}
	const form = "1.AAAAAAAAAAAAAAAAAAAAAAAAKFVSQG1cow1nZ1rZOoeW5ikF" // under a pad of zeros
	if !r.CheckFormToken("cookie", form) {
		t.Errorf("form token %s is refused", form)
	}
}

// What is sealed for one purpose cannot be opened for another.
func TestPurposesDoNotMix(t *testing.T) {
	r := ring(t, 1)
	purposes := []string{"authorize", "signin", "edit", ""}
	for _, from := range purposes {
		for _, to := range purposes {
			got, key, ok := r.OpenPage(to, r.SealPage(from, []byte("x")))
			if ok != (from == to) {
				t.Errorf("%q opened as %q: %t", from, to, ok)
			}
			if !ok && (got != nil || key != 0) {
				t.Errorf("refused, and yet %q, key %d", got, key)
			}
		}
	}
}

// A page that was changed in any way is refused: a character replaced, left
// out or added, line ends that base64 would skip, another way to write the
// number of the key.
func TestChangedPage(t *testing.T) {
	for _, plain := range []string{"request", "a request", "8 bytes."} { // the text ends in each way that base64 has
		changedPage(t, ring(t, 1, 2), plain)
	}
}

func changedPage(t *testing.T, r *Ring, plain string) {
	t.Helper()
	sealed := r.SealPage("authorize", []byte(plain))
	text := strings.TrimPrefix(sealed, "1.")
	changed := []string{
		"", ".", "1", "1.", text, "." + text, "2." + text, "3." + text, "01." + text, "+1." + text, " 1." + text, "1 ." + text, "-1." + text,
		"1.." + text, sealed + "=", sealed + "." + text, "1." + base64.RawURLEncoding.EncodeToString(make([]byte, 11)),
		"1." + base64.RawURLEncoding.EncodeToString(make([]byte, 12)), "1." + base64.RawURLEncoding.EncodeToString(make([]byte, 28)),
	}
	for i := range len(sealed) {
		changed = append(changed, sealed[:i], sealed[:i]+sealed[i+1:])
		for _, c := range []byte(alphabet + "-_.+/=\n\r \x00") {
			changed = append(changed, sealed[:i]+string(c)+sealed[i:])
			if sealed[i] != c {
				changed = append(changed, replaced(sealed, i, c))
			}
		}
	}
	for _, c := range []string{"\n", "\r", "\r\n", "A"} {
		changed = append(changed, sealed+c)
	}
	for _, s := range changed {
		if got, key, ok := r.OpenPage("authorize", s); ok && s != sealed || !ok && (got != nil || key != 0) {
			t.Fatalf("%q, from %q, opened as %q, key %d, %t", s, sealed, got, key, ok)
		}
	}
}

// A page outlives the rotation of keys, not the retirement of its own.
func TestPageKeys(t *testing.T) {
	sealed := ring(t, 1).SealPage("authorize", []byte("request"))
	if got, key, ok := ring(t, 2, 1).OpenPage("authorize", sealed); !ok || string(got) != "request" || key != 1 {
		t.Errorf("after rotation: %q, key %d, %t", got, key, ok)
	}
	if _, _, ok := ring(t, 2).OpenPage("authorize", sealed); ok {
		t.Error("opened without its key")
	}
	if sealed := ring(t, 2, 1).SealPage("authorize", nil); !strings.HasPrefix(sealed, "2.") {
		t.Errorf("%q is not sealed by the sealing key", sealed)
	}
}

// The same page leads to the same approval whichever key seals by then;
// another key, page or attempt to another one (decision A12).
func TestHandle(t *testing.T) {
	r := ring(t, 1, 2)
	type from struct {
		key     int
		nonce   byte
		attempt uint32
	}
	seen := map[Handle]from{}
	for key := 1; key <= 2; key++ {
		for _, nonce := range []byte{0, 1, 255} {
			for _, attempt := range []uint32{0, 1, 255, 256, 1 << 24, 1<<32 - 1} {
				f := from{key, nonce, attempt}
				h, ok := r.Handle(key, [16]byte{15: nonce}, attempt)
				if !ok {
					t.Fatalf("%+v: none", f)
				}
				if other, known := seen[h]; known {
					t.Errorf("%+v and %+v lead to one approval", f, other)
				}
				seen[h] = f
				if again, ok := ring(t, 3, 2, 1).Handle(key, [16]byte{15: nonce}, attempt); !ok || again != h {
					t.Errorf("%+v leads to another approval after rotation", f)
				}
			}
		}
	}
	if h, ok := r.Handle(3, [16]byte{}, 0); ok || h != (Handle{}) {
		t.Errorf("a key that is not there gives %v", h)
	}
	want := "6e8b97c24a2fa71a20b527a2121ca505"
	if h, _ := r.Handle(1, [16]byte([]byte("a page's nonce..")), 1); fmt.Sprint(h) != want {
		t.Errorf("approval %s, and before %s", h, want)
	}
}

// The nonce is the caller's and stays as it was.
func TestHandleLeavesTheNonce(t *testing.T) {
	long := []byte("a page's nonce..more")
	ring(t, 1).Handle(1, [16]byte(long), 7)
	if string(long) != "a page's nonce..more" {
		t.Errorf("nonce is now %q", long)
	}
}

// masked gives the pad of a form token, and the tag under it.
func masked(t *testing.T, s string) []byte {
	t.Helper()
	_, text, _ := strings.Cut(s, ".")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != 36 {
		t.Fatalf("%q is no form token: %v", s, err)
	}
	return raw
}

func TestFormToken(t *testing.T) {
	r := ring(t, 1, 2)
	s := r.FormToken("cookie")
	if !r.CheckFormToken("cookie", s) {
		t.Fatal("its own token is refused")
	}
	again := r.FormToken("cookie")
	if !r.CheckFormToken("cookie", again) {
		t.Error("the token of a second page is refused")
	}
	if a, b := masked(t, s), masked(t, again); bytes.Equal(a[:18], b[:18]) || bytes.Equal(a[18:], b[18:]) {
		t.Errorf("%s and %s repeat a half", s, again)
	}
	if strings.Contains(s, "cookie") || strings.Trim(s, alphabet+"-_.") != "" {
		t.Errorf("%q shows the secret or is not fit for a form", s)
	}
	for _, other := range []string{"", "cookie2", "Cookie", "cooki"} {
		if r.CheckFormToken(other, s) {
			t.Errorf("accepted for the session %q", other)
		}
	}
	text := strings.TrimPrefix(s, "1.")
	bad := []string{"", ".", "1", "1.", text, "." + text, "2." + text, "3." + text, "01." + text, text[:24], "1." + text[24:], "1." + text[:24] + "\n" + text[25:], "1." + strings.Repeat("\n", 48), s + "A", s + "=", s + "\n", s[:len(s)-1], s + " "}
	for i := range len(s) {
		for _, c := range []byte(alphabet + "-_.") {
			if s[i] != c {
				bad = append(bad, replaced(s, i, c))
			}
		}
	}
	for _, b := range bad {
		if r.CheckFormToken("cookie", b) {
			t.Fatalf("%q accepted for %q", b, s)
		}
	}
	if !ring(t, 2, 1).CheckFormToken("cookie", s) {
		t.Error("refused after rotation")
	}
	if ring(t, 2).CheckFormToken("cookie", s) {
		t.Error("accepted without its key")
	}
}

// A tag is good for its data and purpose, under every key of the ring, and for
// nothing else.
func TestTag(t *testing.T) {
	r := ring(t, 1, 2)
	tag := r.Tag("session", []byte("data"))
	if len(tag) != 22 || strings.Trim(tag, alphabet+"-_") != "" || tag != r.Tag("session", []byte("data")) {
		t.Errorf("%q", tag)
	}
	for _, keys := range [][]int{{1, 2}, {2, 1}} {
		if !ring(t, keys...).Tagged("session", []byte("data"), tag) {
			t.Errorf("refused with the keys %v", keys)
		}
	}
	bad := []string{"", tag + "A", tag[1:], tag + "\n", ring(t, 3).Tag("session", []byte("data"))}
	for i := range len(tag) {
		for _, c := range []byte(alphabet + "-_") {
			if tag[i] != c {
				bad = append(bad, replaced(tag, i, c))
			}
		}
	}
	for _, b := range bad {
		if r.Tagged("session", []byte("data"), b) {
			t.Errorf("%q accepted for %q", b, tag)
		}
	}
	if r.Tagged("event", []byte("data"), tag) || r.Tagged("session", []byte("Data"), tag) || r.Tagged("session", nil, tag) || ring(t, 2).Tagged("session", []byte("data"), tag) {
		t.Error("good for more than it was made for")
	}
}

// The check value of a key is the same at every start and tells keys apart,
// also those of one number (decision T11).
func TestFingerprint(t *testing.T) {
	const want = "GBBJvrC0rNjWpyJg"
	got := NewKey(1, secret(1)).Fingerprint()
	if got != want {
		t.Errorf("check value %s, and before %s: no node would start", got, want)
	}
	if got == NewKey(1, secret(2)).Fingerprint() {
		t.Error("two secrets have one check value")
	}
}

// What one key is used for never shows in what it is used for elsewhere.
func TestPurposesHaveTheirOwnKeys(t *testing.T) {
	k := NewKey(1, secret(1))
	seen := map[string]bool{}
	for _, purpose := range []string{"token encryption", "token tag", "page authorize", "page ", "handle", "form", "fingerprint", "tag session", "tag "} {
		b := string(k.derive(purpose))
		if len(b) != 32 || seen[b] {
			t.Errorf("the key for %s is short or shared", purpose)
		}
		seen[b] = true
	}
}

// Outside bytes that open a page are its only spelling, and so are those that
// are taken for a form token.
func FuzzOpenPage(f *testing.F) {
	r := ring(f, 1, 2)
	const sealed = "1.vmuCJCg0Roi82-KgIfSi63hXQfSuleWY9ejRL7H9M3hq7BI"
	for _, s := range []string{sealed, "", ".", "1.", "2." + sealed[2:], sealed + "\n", sealed[:20] + "\r\n" + sealed[20:], sealed + "=", "1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", r.FormToken("cookie")} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if plain, key, ok := r.OpenPage("authorize", s); ok {
			number, text, _ := strings.Cut(s, ".")
			raw, err := base64.RawURLEncoding.DecodeString(text)
			if err != nil || base64.RawURLEncoding.EncodeToString(raw) != text || fmt.Sprint(key) != number {
				t.Fatalf("two spellings of one page: %q", s)
			}
			if string(plain) == "request" && len(s) != len(sealed) {
				t.Fatalf("%q opened as %q", s, plain)
			}
		} else if plain != nil || key != 0 {
			t.Fatalf("%q refused, and yet %q, key %d", s, plain, key)
		}
		if r.CheckFormToken("cookie", s) {
			if _, text, _ := strings.Cut(s, "."); base64.RawURLEncoding.EncodeToString(masked(t, s)) != text {
				t.Fatalf("two spellings of one form token: %q", s)
			}
		}
	})
}

func BenchmarkSealPage(b *testing.B) {
	r := ring(b, 1)
	plain := make([]byte, 600)
	b.ReportAllocs()
	for b.Loop() {
		r.SealPage("authorize", plain)
	}
}

func BenchmarkOpenPage(b *testing.B) {
	r := ring(b, 1)
	s := r.SealPage("authorize", make([]byte, 600))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, ok := r.OpenPage("authorize", s); !ok {
			b.Fatal("refused")
		}
	}
}

func BenchmarkCheckFormToken(b *testing.B) {
	r := ring(b, 1)
	s := r.FormToken("cookie")
	b.ReportAllocs()
	for b.Loop() {
		if !r.CheckFormToken("cookie", s) {
			b.Fatal("refused")
		}
	}
}
