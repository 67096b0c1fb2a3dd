package token

import (
	"bytes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

// ring gives a ring of the keys with these numbers; the first seals. The
// secret of a key follows from its number.
func ring(t testing.TB, numbers ...int) *Ring {
	t.Helper()
	var keys []*Key
	for _, n := range numbers {
		keys = append(keys, NewKey(n, secret(n)))
	}
	r, err := NewRing("sv", numbers[0], keys...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func secret(number int) (s [32]byte) {
	copy(s[:], fmt.Sprintf("the secret of key %d, for tests", number))
	return s
}

func handle(n int) (h Handle) {
	binary.BigEndian.PutUint64(h[:], uint64(n))
	return h
}

// replaced gives s with the character at i replaced.
func replaced(s string, i int, c byte) string { return s[:i] + string(c) + s[i+1:] }

func TestRoundTrip(t *testing.T) {
	r := ring(t, 1)
	h := Handle([]byte("a handle, 16 byt"))
	tests := []struct {
		name, token string
		want        Claim
	}{
		{"access", r.Access(h, 7, 1_800_000_000), Claim{Access, h, 7, 1_800_000_000, 1}},
		{"refresh", r.Refresh(h, 7), Claim{Refresh, h, 7, 0, 1}},
		{"code", r.Code(h, 1_800_000_000), Claim{Code, h, 0, 1_800_000_000, 1}},
		{"access, all zero", r.Access(Handle{}, 0, 0), Claim{Access, Handle{}, 0, 0, 1}},
		{"access, every other bit", r.Access(h, 0x5555_5555_5555, 0xaaaa_aaaa_aaaa), Claim{Access, h, 0x5555_5555_5555, 0xaaaa_aaaa_aaaa, 1}},
		{"access, in 2065", r.Access(h, 3_000_000_000, 3_000_000_000), Claim{Access, h, 3_000_000_000, 3_000_000_000, 1}},
		{"access, the greatest", r.Access(h, 1<<48-1, 1<<48-1), Claim{Access, h, 1<<48 - 1, 1<<48 - 1, 1}},
	}
	for _, tt := range tests {
		got, ok := r.Read(tt.want.Kind, tt.token)
		if !ok || got != tt.want {
			t.Errorf("%s: read %+v, %t, want %+v", tt.name, got, ok, tt.want)
		}
		if got, ok := r.ReadAny(tt.token); ok != (tt.want.Kind != Code) || ok && got != tt.want {
			t.Errorf("%s: ReadAny gives %+v, %t", tt.name, got, ok)
		}
		if len(tt.token) != Len {
			t.Errorf("%s: %d characters, want %d", tt.name, len(tt.token), Len)
		}
		prefix := "sv" + string(tt.want.Kind) + "_"
		if !strings.HasPrefix(tt.token, prefix) || strings.Trim(tt.token[4:], alphabet) != "" {
			t.Errorf("%s: %q is not %s and letters and digits", tt.name, tt.token, prefix)
		}
	}
}

// What an earlier release sealed is read for ever: the form of tokens is data.
func TestTokensOfEarlierReleases(t *testing.T) {
	r := ring(t, 1)
	h := Handle([]byte("a handle, 16 byt"))
	for want, got := range map[string]string{
		"svo_Gk14zSLU3KkD8Z0ohE6mKBJFGBj0AadTP5RB5UwAMwK9L4Q9guBJBUW13rdx1": r.Access(h, 7, 1_800_000_000),
		"svr_JAxhu0RdciUIx7ck8DS6dgDpHNVJiAfw4JHMy4v9JxGDLeiqM7mQGsQ34xDq2": r.Refresh(h, 7),
		"svc_8woB4opoZSe5oAlzg5frlH6rTtUZXnYyJCGBUFrX6FoF8YjdNkB5V0P42mFgR": r.Code(h, 1_800_000_000),
	} {
		if got != want {
			t.Errorf("sealed as %s, and before as %s", got, want)
		}
	}
	if got, want := fmt.Sprint(h), "0080c6f9843783fffaa0b729daf37164"; got != want {
		t.Errorf("approval ID %s, before %s", got, want)
	}
}

// One changed character is always refused, whatever it is changed to: letters,
// digits, other bytes, at every place, the prefix included.
func TestChangedCharacter(t *testing.T) {
	r := ring(t, 1)
	for kind, s := range map[Kind]string{
		Access: r.Access(handle(1), 3, 1_800_000_000), Refresh: r.Refresh(handle(1), 3), Code: r.Code(handle(1), 1_800_000_000),
	} {
		for i := range len(s) {
			for c := range 256 {
				if byte(c) == s[i] {
					continue
				}
				if got, ok := r.Read(kind, replaced(s, i, byte(c))); ok || got != (Claim{}) {
					t.Fatalf("%s with %q at %d read as %+v", s, byte(c), i, got)
				}
			}
		}
	}
}

func TestMisshapen(t *testing.T) {
	r := ring(t, 1)
	s := r.Refresh(handle(1), 3)
	for _, bad := range []string{
		"", "svr_", "s", s[:len(s)-1], s + "0", " " + s[:len(s)-1], s[1:], s[4:], "svr-" + s[4:], strings.ToUpper(s),
		"svr_" + strings.Repeat("z", Len-4), // more than 64 bits a block
		"svr_" + strings.Repeat("0", Len-4),
		"svr_" + strings.Repeat("0", Len-4-blockRest) + "zzzzzz", // more than 32 bits
		"svr_" + strings.Repeat("\x00", Len-4),
		"sxr_" + s[4:], "xvr_" + s[4:],
	} {
		if got, ok := r.Read(Refresh, bad); ok || got != (Claim{}) {
			t.Errorf("%q read as %+v", bad, got)
		}
		if got, ok := r.ReadAny(bad); ok || got != (Claim{}) {
			t.Errorf("%q read as %+v", bad, got)
		}
	}
}

// A token of one kind is never one of another, not even under its prefix.
func TestKindsNeverInterchange(t *testing.T) {
	r := ring(t, 1)
	sealed := map[Kind]string{
		Access: r.Access(handle(1), 0, 0), Refresh: r.Refresh(handle(1), 0), Code: r.Code(handle(1), 0),
	}
	for from, s := range sealed {
		for to := range sealed {
			relabelled := replaced(s, 2, byte(to))
			if _, ok := r.Read(to, s); ok != (from == to) {
				t.Errorf("%c read as %c: %t", from, to, ok)
			}
			if _, ok := r.Read(to, relabelled); ok != (from == to) {
				t.Errorf("%c relabelled %c and read: %t", from, to, ok)
			}
		}
		if got := r.KindOf(s); got != from || from.Name() == "" || !slices.Contains(Kinds, from) {
			t.Errorf("%c looks like %c", from, got)
		}
	}
	if len(Kinds) != len(sealed) {
		t.Errorf("%d kinds are listed, and %d looked at", len(Kinds), len(sealed))
	}
}

func TestKindOf(t *testing.T) {
	r := ring(t, 1)
	for s, want := range map[string]Kind{
		"svr_": Refresh, "svr_anything": Refresh, "svo_": Access, "svc_x": Code,
		"svr": 0, "": 0, "svr-": 0, "xvr_": 0, "syr_": 0, "SVR_": 0, "svx_anything": 0, "sv\x00_": 0,
	} {
		if got := r.KindOf(s); got != want {
			t.Errorf("%q looks like %d, want %d", s, got, want)
		}
	}
	if Kind(0).Name() != "" || Kind('x').Name() != "" {
		t.Error("what is no kind has a name")
	}
}

// Every key opens what it sealed, the sealing one seals, and what a retired or
// another installation's key sealed is refused (decision T11).
func TestKeys(t *testing.T) {
	before, rotated, retired := ring(t, 1), ring(t, 2, 1), ring(t, 2)
	old := before.Refresh(handle(1), 3)
	if got, ok := rotated.Read(Refresh, old); !ok || got.Key != 1 || got.Handle != handle(1) || got.Generation != 3 {
		t.Errorf("old key: %+v, %t", got, ok)
	}
	newer := rotated.Refresh(handle(1), 4)
	if got, ok := rotated.Read(Refresh, newer); !ok || got.Key != 2 {
		t.Errorf("new key: %+v, %t", got, ok)
	}
	if got, ok := retired.Read(Refresh, newer); !ok || got.Key != 2 {
		t.Errorf("the sealing key did not seal: %+v, %t", got, ok)
	}
	if _, ok := retired.Read(Refresh, old); ok {
		t.Error("retired key still opens")
	}
	if _, ok := before.Read(Refresh, newer); ok {
		t.Error("another installation's token is read")
	}
	// One number with two secrets is two keys.
	other, err := NewRing("sv", 1, NewKey(1, secret(9)))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := other.Read(Refresh, old); ok {
		t.Error("another secret under the same number opens")
	}
}

func TestNewRing(t *testing.T) {
	one, two := NewKey(1, secret(1)), NewKey(2, secret(2))
	tests := []struct {
		name    string
		prefix  string
		sealing int
		keys    []*Key
		ok      bool
	}{
		{"one key", "sv", 1, []*Key{one}, true},
		{"the older seals", "az", 1, []*Key{two, one}, true},
		{"the last and the first letter", "za", 1, []*Key{one}, true},
		{"no key", "sv", 1, nil, false},
		{"none seals", "sv", 3, []*Key{one, two}, false},
		{"number twice", "sv", 1, []*Key{one, two, NewKey(1, secret(3))}, false},
		{"number 0", "sv", 0, []*Key{NewKey(0, secret(0))}, false},
		{"negative number", "sv", 1, []*Key{one, NewKey(-1, secret(0))}, false},
		{"no prefix", "", 1, []*Key{one}, false},
		{"short prefix", "s", 1, []*Key{one}, false},
		{"long prefix", "svx", 1, []*Key{one}, false},
		{"upper case", "sV", 1, []*Key{one}, false},
		{"below a, first", "`a", 1, []*Key{one}, false},
		{"above z, first", "{a", 1, []*Key{one}, false},
		{"below a, second", "a`", 1, []*Key{one}, false},
		{"above z, second", "a{", 1, []*Key{one}, false},
		{"two bytes of one letter", "é", 1, []*Key{one}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := NewRing(tt.prefix, tt.sealing, tt.keys...)
			if (err == nil) != tt.ok {
				t.Fatalf("%v, %v", r, err)
			}
			if tt.ok && (r.Sealing() != tt.sealing || len(r.Keys()) != len(tt.keys) || r.Keys()[0].Number != tt.sealing) {
				t.Errorf("key %d seals of %v", r.Sealing(), r.Keys())
			}
		})
	}
}

// A number that does not fit would come back as another one, so it is never
// sealed.
func TestNumberOutOfRange(t *testing.T) {
	r := ring(t, 1)
	for name, seal := range map[string]func(){
		"negative generation": func() { r.Refresh(handle(1), -1) },
		"generation too big":  func() { r.Refresh(handle(1), 1<<48) },
		"negative time":       func() { r.Code(handle(1), -1) },
		"time too big":        func() { r.Code(handle(1), 1<<48) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is sealed", name)
				}
			}()
			seal()
		}()
	}
}

// Neither a handle nor a key's secret is printed, whatever prints it.
func TestSecretsAreNotPrinted(t *testing.T) {
	h := Handle([]byte("handle-handle-ha"))
	k := NewKey(3, [32]byte([]byte("secret-secret-secret-secret-secr")))
	r, err := NewRing("sv", 3, k)
	if err != nil {
		t.Fatal(err)
	}
	c, ok := r.Read(Refresh, r.Refresh(h, 1))
	if !ok {
		t.Fatal("not read")
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "% x", "%o", "%U"} {
		for _, v := range []any{h, &h, c, &c, k, r, []*Key{k}, []Handle{h}} {
			got := fmt.Sprintf(verb, v)
			for _, bytes := range []string{"handle-h", "secret-s"} {
				for _, shape := range []string{"%s", "%x", "%X", "% x", "%v", "%d", "%#v", "%o", "%U"} {
					leak := strings.Trim(fmt.Sprintf(shape, []byte(bytes)), "[]byte{}")
					if strings.Contains(got, leak) {
						t.Errorf("%s of %T shows %s", verb, v, got)
					}
				}
			}
		}
	}
	id := h.ID()
	if got, want := fmt.Sprint(h), fmt.Sprintf("%x", id[:]); got != want {
		t.Errorf("a handle prints as %q, want its approval's ID %q", got, want)
	}
}

// The encryption is AES-CTR as the standard library does it, also where the
// counter runs over.
func TestCrypt(t *testing.T) {
	k := NewKey(1, secret(1))
	for _, tag := range []string{
		"0123456789abcdef", strings.Repeat("\x00", 16), strings.Repeat("\xff", 16), "0123456789abcd\xff\xff", "\x01" + strings.Repeat("\xff", 15),
	} {
		src := []byte("twenty-eight bytes of a body")
		want := make([]byte, len(src))
		cipher.NewCTR(k.block, []byte(tag)).XORKeyStream(want, src)
		d := k.desks.New().(*desk)
		copy(d.sealed[:], tag)
		got := make([]byte, len(src))
		if d.crypt(got, src); !bytes.Equal(got, want) {
			t.Errorf("from %q: %x, want %x", tag, got, want)
		}
	}
}

func TestBase62(t *testing.T) {
	for _, v := range []uint64{0, 1, 61, 62, 1<<32 - 1, 1 << 32, 1<<63 - 1, 1 << 63, 1<<64 - 2, 1<<64 - 1} {
		raw := binary.BigEndian.AppendUint64(nil, v)
		raw = binary.BigEndian.AppendUint32(raw, uint32(v))
		text := encode(nil, raw)
		back := make([]byte, len(raw))
		if !decode(back, string(text)) || !bytes.Equal(back, raw) {
			t.Errorf("%d: %s came back as %x, want %x", v, text, back, raw)
		}
		want := fmt.Sprintf("%011s%06s", new(big.Int).SetUint64(v).Text(62), new(big.Int).SetUint64(v&(1<<32-1)).Text(62))
		if want = swapCase(strings.ReplaceAll(want, " ", "0")); string(text) != want {
			t.Errorf("%d written as %s, want %s", v, text, want)
		}
	}
	// The smallest texts that no value has.
	for text, ok := range map[string]bool{
		"LygHa16AHYF000000": true, "LygHa16AHYG000000": false, "LygHa16AHYz000000": false, "LygHa16AHZ0000000": false, "zzzzzzzzzzz000000": false,
		"000000000004gfFC3": true, "000000000004gfFC4": false, "00000000000zzzzzz": false, "00000000000-00000": false,
	} {
		if got := decode(make([]byte, 12), text); got != ok {
			t.Errorf("%s read: %t", text, got)
		}
	}
}

// A character that is not a digit is refused wherever it occurs: as a digit of its
// own it would give a block a second spelling.
func TestBase62ForeignCharacters(t *testing.T) {
	for at := range blockText + blockRest {
		for c := range 256 {
			text := replaced("00000000010000001"[:blockText+blockRest], at, byte(c))
			if got, want := decode(make([]byte, 12), text), strings.IndexByte(alphabet, byte(c)) >= 0; got != want && !tooGreat(text) {
				t.Errorf("%q read: %t", text, got)
			}
		}
	}
}

// tooGreat reports whether one of the two blocks has no value.
func tooGreat(text string) bool {
	return text[:blockText] > "LygHa16AHYF" || text[blockText:] > "4gfFC3"
}

// swapCase turns big.Int's digits (small letters first) into ours.
func swapCase(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return r
	}, s)
}

// Case S-03: 10,000 tokens of each kind all differ and have one length, and
// neither their bits nor their characters tell them from chance, although all
// but one number in them are the same. The tokens follow from fixed handles,
// so the figures are the same at every run; 4 standard deviations are allowed.
func TestTokensLookRandom(t *testing.T) {
	const n = 10_000
	r := ring(t, 1)
	rnd := rand.New(rand.NewChaCha8([32]byte{3}))
	random := func() (h Handle) {
		binary.BigEndian.PutUint64(h[:], rnd.Uint64())
		binary.BigEndian.PutUint64(h[8:], rnd.Uint64())
		return h
	}
	for name, seal := range map[string]func(i int) string{
		"access tokens of one approval":     func(i int) string { return r.Access(handle(1), int64(i), 1_800_000_000) },
		"access tokens of many approvals":   func(i int) string { return r.Access(random(), 1, 1_800_000_000) },
		"refresh tokens of one approval":    func(i int) string { return r.Refresh(handle(1), int64(i)) },
		"codes of approvals with near ones": func(i int) string { return r.Code(handle(i), 1_800_000_000) },
	} {
		t.Run(name, func(t *testing.T) {
			seen := map[string]bool{}
			var counts [Len - 4][62]float64
			ones, bits := 0, 0
			for i := range n {
				s := seal(i)
				if len(s) != Len {
					t.Fatalf("%d characters, want %d", len(s), Len)
				}
				seen[s] = true
				var raw [tagLen + bodyLen]byte
				if !decode(raw[:], s[4:]) {
					t.Fatalf("%s is not base62", s)
				}
				for _, b := range raw {
					for ; b != 0; b &= b - 1 {
						ones++
					}
				}
				bits += 8 * len(raw)
				for at := range len(s) - 4 {
					counts[at][digits[s[4+at]]]++
				}
			}
			if len(seen) != n {
				t.Errorf("%d of %d tokens differ", len(seen), n)
			}
			if z := (float64(ones) - float64(bits)/2) / math.Sqrt(float64(bits)/4); math.Abs(z) > 4 {
				t.Errorf("monobit: %d ones in %d bits, %.1f standard deviations", ones, bits, z)
			}
			chi, free := 0.0, 0.0
			for at := range counts {
				possible := -1.0
				for d, p := range digitOdds(at) {
					switch {
					case p > 0:
						possible++
						chi += (counts[at][d] - n*p) * (counts[at][d] - n*p) / (n * p)
					case counts[at][d] > 0:
						t.Errorf("%c at %d, which no value has there", alphabet[d], at)
					}
				}
				free += possible
			}
			if z := (chi - free) / math.Sqrt(2*free); math.Abs(z) > 4 {
				t.Errorf("characters: chi-square %.0f with %.0f degrees of freedom, %.1f standard deviations", chi, free, z)
			}
		})
	}
}

// digitOdds gives how likely each digit is at a place of the text, when all
// values of its block are equally likely: a block of 64 bits has fewer values
// than 11 digits could write, so its first digits are uneven.
func digitOdds(at int) (odds [62]float64) {
	values, length := new(big.Int).Lsh(big.NewInt(1), 64), blockText
	if at >= 5*blockText {
		values, length = new(big.Int).Lsh(big.NewInt(1), 32), blockRest
	}
	// The digit repeats in rounds of 62 runs of this length.
	run := new(big.Int).Exp(big.NewInt(62), big.NewInt(int64(length-1-at%blockText)), nil)
	rounds, rest := new(big.Int).DivMod(values, new(big.Int).Mul(run, big.NewInt(62)), new(big.Int))
	for d := range odds {
		n := new(big.Int).Mul(rounds, run)
		last := new(big.Int).Sub(rest, new(big.Int).Mul(run, big.NewInt(int64(d))))
		if last.Cmp(run) > 0 {
			last = run
		}
		if last.Sign() > 0 {
			n.Add(n, last)
		}
		odds[d], _ = new(big.Rat).SetFrac(n, values).Float64()
	}
	return odds
}

// Eight at once, each with its own approvals: what is kept for the next token
// never reaches another one.
func TestAtOnce(t *testing.T) {
	r := ring(t, 2, 1)
	old := ring(t, 1)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				h := handle(g*1000 + i)
				if c, ok := r.Read(Access, r.Access(h, int64(i), 5)); !ok || c != (Claim{Access, h, int64(i), 5, 2}) {
					t.Errorf("read %+v, %t", c, ok)
				}
				if c, ok := r.Read(Refresh, old.Refresh(h, int64(i))); !ok || c != (Claim{Refresh, h, int64(i), 0, 1}) {
					t.Errorf("read %+v, %t", c, ok)
				}
			}
		})
	}
	wg.Wait()
}

// Keys that are added at once are all there afterwards, with keys sealing and
// going beside them. It is tried often, because what a missing lock loses, it
// loses now and then (the race detector says so at once).
func TestKeysAddedAtOnce(t *testing.T) {
	const each, adders = 50, 4
	r := ring(t, 1)
	var wg sync.WaitGroup
	for a := range adders {
		wg.Go(func() {
			for i := range each {
				for _, k := range ring(t, 2+a*each+i).Keys() {
					if err := r.Add(k); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Go(func() {
		for range each * adders {
			if err := r.Seal(1); err != nil {
				t.Error(err)
			}
			if err := r.Drop(1000); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	if n := len(r.Keys()); n != 1+each*adders {
		t.Errorf("%d keys are there, want %d", n, 1+each*adders)
	}
}

// Sealing makes the string and nothing else, reading nothing. Measured behind
// the pool, which the race detector empties at random.
func TestAllocations(t *testing.T) {
	d := ring(t, 1).Keys()[0].desks.New().(*desk)
	h := handle(1)
	if n := testing.AllocsPerRun(1000, func() { d.seal("sv", Access, h, 3, 1_800_000_000) }); n > 1 {
		t.Errorf("sealing takes %v allocations, want 1", n)
	}
	sealed := d.sealed
	if n := testing.AllocsPerRun(1000, func() { d.open(Access, &sealed) }); n > 0 {
		t.Errorf("reading takes %v allocations, want none", n)
	}
}

// Case F-07: whatever is accepted is written back the same, so a token has one
// spelling, and the claim names nothing that the ring did not seal.
func FuzzRead(f *testing.F) {
	r := ring(f, 1)
	for _, s := range []string{
		r.Access(handle(1), 3, 1_800_000_000), r.Refresh(handle(1), 3), r.Code(handle(1), 1_800_000_000),
		"", "svr_", "svo_" + strings.Repeat("0", Len-4), "svc_" + strings.Repeat("z", Len-4),
		ring(f, 2).Refresh(handle(1), 3),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		read := 0
		for _, kind := range []Kind{Access, Refresh, Code} {
			c, ok := r.Read(kind, s)
			if !ok {
				if c != (Claim{}) {
					t.Fatalf("refused, and yet %+v", c)
				}
				continue
			}
			read++
			if again := r.seal(c.Kind, c.Handle, c.Generation, c.Time); c.Kind != kind || again != s {
				t.Fatalf("two spellings of one token: %q and %q", s, again)
			}
		}
		if read > 1 {
			t.Fatalf("%q is of %d kinds", s, read)
		}
	})
}

// Case F-07: what is sealed is read, one changed character is refused, and
// kinds and numbers make different tokens.
func FuzzSeal(f *testing.F) {
	f.Add([]byte("a handle, 16 byt"), int64(1), int64(1_800_000_000), uint(9), byte('x'))
	f.Add([]byte{}, int64(0), int64(0), uint(0), byte('s'))
	f.Add([]byte{0xff}, int64(maxField), int64(maxField), uint(Len-1), byte(0))
	r := ring(f, 2, 1)
	f.Fuzz(func(t *testing.T, b []byte, generation, time int64, at uint, c byte) {
		var h Handle
		copy(h[:], b)
		generation, time = generation&maxField, time&maxField
		access, refresh, code := r.Access(h, generation, time), r.Refresh(h, generation), r.Code(h, time)
		for kind, s := range map[Kind]string{Access: access, Refresh: refresh, Code: code} {
			want := Claim{kind, h, generation, time, 2}
			switch kind {
			case Refresh:
				want.Time = 0
			case Code:
				want.Generation = 0
			}
			if got, ok := r.Read(kind, s); !ok || got != want {
				t.Fatalf("read %+v, %t, want %+v", got, ok, want)
			}
			i := int(at % Len)
			if got, ok := r.Read(kind, replaced(s, i, c)); ok != (s[i] == c) {
				t.Fatalf("%s with %q at %d read as %+v", s, c, i, got)
			}
		}
		if access[4:] == refresh[4:] || refresh[4:] == code[4:] || code[4:] == access[4:] {
			t.Fatal("kinds share a text")
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	r := ring(b, 1)
	b.ReportAllocs()
	for b.Loop() {
		r.Access(handle(1), 3, 1_800_000_000)
	}
}

func BenchmarkRead(b *testing.B) {
	r := ring(b, 1)
	s := r.Access(handle(1), 3, 1_800_000_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := r.Read(Access, s); !ok {
			b.Fatal("refused")
		}
	}
}

func BenchmarkReadGarbage(b *testing.B) {
	r := ring(b, 1)
	s := ring(b, 2).Access(handle(1), 3, 1_800_000_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := r.Read(Access, s); ok {
			b.Fatal("accepted")
		}
	}
}

// A ring changes while everybody uses it: what was sealed before opens until
// its key is dropped, and the sealing key stays (decision T11).
func TestRingChanges(t *testing.T) {
	r, err := NewRing("sv", 1, NewKey(1, [32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	h := Handle{7}
	old := r.Refresh(h, 3)
	page := r.SealPage("page", []byte("x"))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if c, ok := r.Read(Refresh, r.Refresh(h, 4)); !ok || c.Generation != 4 {
				t.Error("a token that was just sealed does not open")
				return
			}
		}
	}()
	if err := r.Add(NewKey(2, [32]byte{2})); err != nil || r.Sealing() != 1 {
		t.Errorf("a key that was added seals: %d, %v", r.Sealing(), err)
	}
	if err := r.Add(NewKey(2, [32]byte{3})); err == nil {
		t.Error("a number was given twice")
	}
	if err := r.Seal(3); err == nil || r.Sealing() != 1 {
		t.Error("a key that is not there seals")
	}
	if err := r.Seal(2); err != nil || r.Sealing() != 2 {
		t.Errorf("sealing %d, %v", r.Sealing(), err)
	}
	if c, ok := r.Read(Refresh, old); !ok || c.Key != 1 {
		t.Error("what was sealed before does not open")
	}
	if c, ok := r.Read(Refresh, r.Refresh(h, 4)); !ok || c.Key != 2 {
		t.Errorf("sealed by key %d", c.Key)
	}
	if err := r.Drop(2); err == nil || len(r.Keys()) != 2 {
		t.Error("the sealing key was dropped")
	}
	close(stop)
	<-done
	if err := r.Drop(1); err != nil || len(r.Keys()) != 1 {
		t.Errorf("%d keys, %v", len(r.Keys()), err)
	}
	if _, ok := r.Read(Refresh, old); ok {
		t.Error("what a dropped key sealed opens")
	}
	if _, _, ok := r.OpenPage("page", page); ok {
		t.Error("a page of a dropped key opens")
	}
}
