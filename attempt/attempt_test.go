package attempt_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	. "github.com/grantkeeper/grantkeeper/attempt"
)

func TestAgentOf(t *testing.T) {
	for header, want := range map[string]Agent{
		"":                                NoAgent,
		"Mozilla/5.0 (X11; Linux x86_64)": Browser,
		"curl/8.5.0":                      CurlAgent,
		"node":                            Node,
		"undici":                          Node,
		"python-httpx/0.27.0":             Python,
		"Go-http-client/2.0":              GoAgent,
		"okhttp/4.12.0":                   Java,
		"Faraday v2.9":                    Ruby,
		"GuzzleHttp/7":                    PHP,
		".NET/8":                          DotNet,
		"reqwest/0.12":                    Rust,
		"go/1":                            GoAgent,
		"apache-httpclient/5.3 (Java/21)": Java,
		"Ledger Lens/3":                   OtherAgent,
		"MyApp node/20":                   OtherAgent, // the beginning alone
		"\x00\xff<script>":                OtherAgent,
		strings.Repeat("m", 1<<16):        OtherAgent,
	} {
		if got := AgentOf(header); got != want {
			t.Errorf("%.30q: %s, want %s", header, got, want)
		}
	}
}

func TestAddressOf(t *testing.T) {
	for address, want := range map[string]string{
		"198.51.100.24": "198.51.100.24", "::ffff:198.51.100.24": "198.51.100.24",
		"2001:db8:1:2:3::4": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64",
	} {
		if got := AddressOf(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
	if got := AddressOf(netip.Addr{}); got != "" {
		t.Errorf("no address: %q", got)
	}
}

func TestWalkOf(t *testing.T) {
	a, b := WalkOf("c", "challenge"), WalkOf("d", "challenge")
	if a == b || a != WalkOf("c", "challenge") || len(a) != 20 || strings.Contains(a, "chal") || WalkOf("c", "") != "" {
		t.Error(a, b)
	}
}

const registered = "https://app.ledgerlens.example:8443/Cb"

func TestDiffers(t *testing.T) {
	const at = len("https://app.ledgerlens.example") + 1 // where the port begins
	for _, tt := range []struct {
		sent, registered string
		want             What
		at               int
	}{
		{"", registered, NothingSent, 0},
		{registered + "/", registered, Slash, len(registered) + 1},
		{registered, registered + "//", Slash, len(registered) + 1},
		{"https://app.ledgerlens.example:8443/cb", registered, Case, len(registered) - 1},
		{"https://app.ledgerlens.example/Cb", registered, Port, at},
		{"https://app.ledgerlens.example:8444/Cb", registered, Port, at + 4},
		{"http://app.ledgerlens.example:8443/Cb", registered, Scheme, 5},
		{"https://ledgerlens.example:8443/Cb", registered, HostDiffers, 9},
		{"https://app.ledgerlens.example:8443/Cd", registered, LastCharacter, len(registered)},
		{"https://app.ledgerlens.example:8443/Cbx", registered, LastCharacter, len(registered) + 1},
		{"https://app.ledgerlens.example:8443/C", registered, LastCharacter, len(registered)},
		{"https://app.ledgerlens.example:8443/back", registered, Path, len(registered) - 1},
		{"https://app.ledgerlens.example:8443/Cbxy", registered, Path, len(registered) + 1},
		{"https://app.ledgerlens.example:8443/Cb?tab=1", registered, Query, len(registered) + 1},
		{"https://app.ledgerlens.example?tab=1", "https://app.ledgerlens.example", Query, at},
		{"https:///back", "https:///other/back", Path, 10}, // of addresses without a host
		{"\x00", registered, Scheme, 1},
	} {
		for _, all := range [][]string{{tt.registered}, {"https://other.example/", tt.registered}, {tt.registered, "https://other.example/"}} {
			if got, at := Differs(tt.sent, all); got != tt.want || at != tt.at {
				t.Errorf("%q of %q: %s at %d, want %s at %d", tt.sent, all, got, at, tt.want, tt.at)
			}
		}
	}
	if how, at := Differs("https://a.example/", nil); how != NothingSent || at != 0 {
		t.Errorf("of a client without any: %s at %d", how, at)
	}
}

func TestResourceDiffers(t *testing.T) {
	const base = "https://app.svalinn.example/api/v5/mcp"
	for sent, want := range map[string]What{
		"": NothingSent, "http://app.svalinn.example/api/v5/mcp": Scheme, "https://other.example/api/v5/mcp": HostDiffers,
		"http://other.example/api/v5/mcp": HostDiffers, "http://app.svalinn.example:444/api/v5/mcp": Port, "http://app.svalinn.example/api/v4": Scheme,
		base + "/": Slash, base + "//": Slash, "https://app.svalinn.example:444/api/v5/mcp": Port, "https://app.svalinn.example/api/v4": Path,
		"HTTPS://APP.svalinn.example/api/v4": Path, "https://app.svalinn.example/API/v5/mcp": Case, base + "?tenant=7": Query, base + "#tools": Path, base: "",
	} {
		if got := ResourceDiffers(sent, base); got != want {
			t.Errorf("%s: %q, want %q", sent, got, want)
		}
	}
}

func TestVerifierAndChallenge(t *testing.T) {
	good := strings.Repeat("aZ0-._~", 7)[:43]
	hash := strings.Repeat("aZ0-_", 9)[:43]
	verifiers := map[string]What{
		good: "", good[:42]: WrongLength, strings.Repeat("a", 128): "", strings.Repeat("a", 129): WrongLength, good + "=": PaddedBase64, good[:42] + "=": PaddedBase64, "": WrongLength,
	}
	challenges := map[string]What{
		hash: "", "": NothingSent, hash[:42]: WrongLength, hash + "a": WrongLength, hash + "=": PaddedBase64, hash[:42] + "=": PaddedBase64,
	}
	for _, c := range "azAZ09-_" { // the ends of what may stand there
		verifiers[good[:42]+string(c)], challenges[hash[:42]+string(c)] = "", ""
	}
	for _, c := range "`{@[/:+ \x00" { // and what comes before and after them
		verifiers[good[:42]+string(c)], challenges[hash[:42]+string(c)] = WrongAlphabet, WrongAlphabet
	}
	for _, c := range ".~" {
		verifiers[good[:42]+string(c)], challenges[hash[:42]+string(c)] = "", WrongAlphabet
	}
	for text, want := range verifiers {
		if got, n := VerifierWrong(text); got != want || n != len(text) {
			t.Errorf("the verifier %q: %q, %d, want %q", text, got, n, want)
		}
	}
	for text, want := range challenges {
		if got, n := ChallengeWrong(text); got != want || n != len(text) {
			t.Errorf("the challenge %q: %q, %d, want %q", text, got, n, want)
		}
	}
}

// The words are those of package client; a test of oauth holds the two together.
func TestRegistrationReason(t *testing.T) {
	for _, tt := range []struct {
		code, description string
		want              Reason
	}{
		{"invalid_redirect_uri", "also on loopback", RedirectLoopback},
		{"invalid_redirect_uri", "a loopback name", RedirectLoopback},
		{"invalid_redirect_uri", "of private networks", RedirectLoopback},
		{"invalid_redirect_uri", "is not reachable from everywhere", RedirectLoopback},
		{"invalid_redirect_uri", "needs at least two labels", RedirectLoopback},
		{"invalid_redirect_uri", "must begin with https://, also on loopback", RedirectLoopback},
		{"invalid_redirect_uri", "must begin with https://", RedirectScheme},
		{"invalid_redirect_uri", "has a fragment", RedirectInvalid},
		{"invalid_redirect_uri", "client_name", RedirectInvalid},
		{"invalid_client_metadata", "grant_types has no authorization_code", RegistrationGrants},
		{"invalid_client_metadata", "response_types has no code", RegistrationGrants},
		{"invalid_client_metadata", "client_name is too long", RegistrationName},
		{"invalid_client_metadata", "the body is no JSON", RegistrationBody},
		{"invalid_client_metadata", "logo_uri must begin with https://", RegistrationBody},
		{"invalid_client_metadata", "logo_uri is on a loopback name", RegistrationBody},
	} {
		if got := RegistrationReason(tt.code, tt.description); got != tt.want {
			t.Errorf("%s, %s: %s, want %s", tt.code, tt.description, got, tt.want)
		}
	}
}

func TestCauses(t *testing.T) {
	codes := map[Reason]bool{}
	for _, c := range Causes {
		if codes[c.Code] || !Known(c.Code) || strings.ContainsFunc(string(c.Code), func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' }) {
			t.Errorf("%q is no code, or there are two", c.Code)
		}
		codes[c.Code] = true
		for _, words := range []string{c.Says, c.Do} {
			if len(words) < 10 || !strings.HasSuffix(words, ".") {
				t.Errorf("%s: %q is no sentence", c.Code, words)
			}
		}
		if c.Result != Broken && c.Result != LeftOff || c.Wait < 0 {
			t.Errorf("%s: %s, %s", c.Code, c.Result, c.Wait)
		}
		switch c.Who {
		case Author, Person, Admin, Operator:
		default:
			t.Errorf("%s: nobody can do anything about it", c.Code)
		}
	}
	if c := CauseOf("of_a_later_release"); c.Code != "of_a_later_release" || c.Result != Broken || c.Says == "" || Known(c.Code) {
		t.Errorf("%+v", c)
	}
}

// anyObservation draws one.
func anyObservation(t *rapid.T) Observation {
	o := Observation{
		At: rapid.Int64Range(0, 1_000_000).Draw(t, "at"), Step: Step(rapid.IntRange(1, Steps).Draw(t, "step")),
		Outcome: Outcome(rapid.IntRange(1, 3).Draw(t, "outcome")), What: rapid.SampledFrom([]What{"", AtMCP, Slash, SecondFactor, PromptNone}).Draw(t, "what"),
		Status: rapid.SampledFrom([]int{0, 200, 401}).Draw(t, "status"), N: rapid.IntRange(0, 50).Draw(t, "n"), Agent: rapid.SampledFrom([]Agent{"", Node, Browser}).Draw(t, "agent"),
	}
	if o.Outcome == Failed {
		o.Reason = Causes[rapid.IntRange(0, len(Causes)-1).Draw(t, "reason")].Code
	}
	return o
}

func anyRecord(t *rapid.T) (r Record) {
	for _, o := range rapid.SliceOfN(rapid.Custom(anyObservation), 1, 80).Draw(t, "seen") {
		r = Merge(r, Of(o))
	}
	return r
}

// Whatever was seen can be read: it has a result at every time, its marks agree with
// it, and it never has more observations than its bound.
func TestWhateverWasSeenCanBeRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRecord(t)
		if len(r.Seen) > MaxSeen || len(r.Seen) == 0 || !slices.IsSortedFunc(r.Seen, func(a, b Observation) int { return int(a.At - b.At) }) {
			t.Fatalf("%d observations", len(r.Seen))
		}
		read := Read(r)
		for _, now := range []int64{0, r.Began(), r.Last(), r.Last() + 1<<40} {
			result, reason := read.At(now)
			switch result {
			case Worked, Open:
				if reason != "" {
					t.Fatalf("%s because of %s", result, reason)
				}
			case Broken, LeftOff:
				if !Known(reason) || CauseOf(reason).Result != result || read.Stopped < 1 {
					t.Fatalf("%s because of %s at %d", result, reason, read.Stopped)
				}
			default:
				t.Fatalf("result %q", result)
			}
		}
		if result, _ := read.At(1 << 50); result == Open {
			t.Fatal("it is open for ever")
		}
		for i, s := range read.Stages {
			if s.Step != Step(i+1) || s.Mark == "" || (s.Mark == MarkNot) != (len(s.Seen) == 0 && s.Step >= read.Reached && s.Mark == MarkNot) {
				t.Fatalf("step %d is %s", s.Step, s.Mark)
			}
			for _, o := range s.Seen {
				if o.Says() == "" {
					t.Fatalf("nothing to say of %+v", o)
				}
			}
		}
	})
}

// In which order nodes tell what they have seen changes nothing.
func TestMergeHasNoOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfNDistinct(rapid.Custom(anyObservation), 1, 12, func(o Observation) int64 { return o.At }).Draw(t, "seen")
		in := func(order []int) (r Record) {
			for _, i := range order {
				r = Merge(r, Of(all[i]))
			}
			return r
		}
		order := make([]int, len(all))
		for i := range order {
			order[i] = i
		}
		there := in(order)
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		if back := in(order); Read(there).Outlook != Read(back).Outlook || there.Reached() != back.Reached() {
			t.Fatalf("%v\n%v", there.Seen, back.Seen)
		}
	})
}

// The first of each step stays, and the last of all.
func TestBoundKeepsTheEnds(t *testing.T) {
	r := seen(upTo(Token)...)
	for i := range 1000 {
		r = Merge(r, Of(Observation{At: r.Last() + 1, Step: FirstCall, Outcome: Failed, Reason: TokenUnknown, N: i}))
	}
	if len(r.Seen) != 48 || MaxSeen != 48 || r.Seen[0].Step != Challenge || r.Seen[MaxSeen-1].N != 999 {
		t.Errorf("%d, the first %+v, the last %+v", len(r.Seen), r.Seen[0], r.Seen[len(r.Seen)-1])
	}
	for s := Challenge; s <= FirstCall; s++ {
		if len(Read(r).Stages[s-1].Seen) == 0 {
			t.Errorf("%s is gone", s)
		}
	}
	var all []Observation // at once
	for i := range 1000 {
		all = append(all, Observation{At: r.Last() + int64(i), Step: FirstCall, Outcome: Failed, Reason: TokenUnknown, N: i})
	}
	r = Merge(seen(upTo(Token)...), Record{Seen: all})
	if len(r.Seen) != MaxSeen || r.Seen[8].N != 0 || r.Seen[9].N != 1000-(MaxSeen-9) || r.Seen[MaxSeen-1].N != 999 {
		t.Errorf("%d of 1,000 at once: %+v", len(r.Seen), r.Seen)
	}
	r = seen(upTo(Challenge)...)
	for range 1000 {
		o := r.Seen[0]
		o.At, o.Again = r.Last()+1, 0
		r = Merge(r, Of(o))
	}
	if len(r.Seen) != 1 || r.Seen[0].Again != 1000 {
		t.Errorf("the same thing is kept as %+v", r.Seen)
	}
	same := ok(Challenge)
	if r = Merge(Record{}, Record{Seen: []Observation{same, same, ok(Metadata), same}}); len(r.Seen) != 3 || r.Seen[0].Again != 1 || r.Seen[2].Again != 0 {
		t.Errorf("two and one are kept as %+v", r.Seen)
	}
	for _, s := range Read(seen(upTo(Refresh)...)).Stages {
		if s.Mark != MarkDone || len(s.Seen) != 1 || s.Seen[0].Step != s.Step {
			t.Errorf("%+v", s)
		}
	}
}

// What differs in anything but its time is told apart, and nothing else.
func TestSeenTwice(t *testing.T) {
	one := of(failed(Token, PKCEVerifier), WrongLength, 42)
	one.Agent = Node
	for name, change := range map[string]func(*Observation){
		"step": func(o *Observation) { o.Step = Refresh }, "outcome": func(o *Observation) { o.Outcome = Waiting },
		"reason": func(o *Observation) { o.Reason = CodeUnknown }, "what": func(o *Observation) { o.What = WrongAlphabet },
		"status": func(o *Observation) { o.Status = 401 }, "n": func(o *Observation) { o.N = 41 }, "agent": func(o *Observation) { o.Agent = Python },
	} {
		other := one
		if change(&other); len(seen(one, other).Seen) != 2 {
			t.Errorf("of another %s, it is kept as the same", name)
		}
	}
	if r := seen(one, one, one); len(r.Seen) != 1 || r.Seen[0].Again != 2 || r.Seen[0].At != 1_790_000_000_200 {
		t.Errorf("%+v", r.Seen)
	}
	const most = 1_000_000 // as far as it is counted
	for again, want := range map[int]int{most - 2: most - 1, most - 1: most, most: most} {
		often := one
		often.Again = again
		if r := seen(often, one); len(r.Seen) != 1 || r.Seen[0].Again != want {
			t.Errorf("%d and one more are kept as %+v", again, r.Seen)
		}
	}
}

// What is due is so from its time on, and 0 is no time.
func TestDue(t *testing.T) {
	for now, want := range map[int64]Outlook{0: {Result: Open}, 1: {Result: LeftOff, Reason: Left}, 2: {Result: LeftOff, Reason: Left}} {
		if result, reason := (Outlook{Result: Open, Due: 1, Later: LeftOff, Why: Left}).At(now); result != want.Result || reason != want.Reason {
			t.Errorf("at %d: %s, %s", now, result, reason)
		}
	}
	if result, reason := (Outlook{Result: Broken, Reason: PKCEMismatch}).At(1 << 50); result != Broken || reason != PKCEMismatch {
		t.Errorf("of what is never due: %s, %s", result, reason)
	}
}

func TestRecordOfNothing(t *testing.T) {
	read := Read(Record{Seen: []Observation{{Step: 0, Outcome: Done}, {Step: Steps + 1, Outcome: Done}}}) // of no step
	for _, stage := range read.Stages {
		if stage.Seen != nil {
			t.Errorf("at %s: %+v", stage.Step, stage.Seen)
		}
	}
	if r := (Record{}); r.Began() != 0 || r.Last() != 0 || r.Reached() != 0 || len(Merge(r, r).Seen) != 0 {
		t.Errorf("%d to %d, %s", r.Began(), r.Last(), r.Reached())
	}
}

// An observation that only an address joins says so, where nothing else is said of it.
func TestUnnamed(t *testing.T) {
	const here = "198.51.100.24"
	for _, tt := range []struct {
		seen Observation
		keys Keys
		want What
	}{
		{failed(Token, TokenBody), Keys{Address: here}, Unnamed},
		{failed(Token, TokenBody), Keys{Address: here, Name: "Ledger", Person: "p"}, Unnamed},
		{failed(Token, TokenBody), Keys{}, ""},
		{failed(Token, TokenBody), Keys{Address: here, Client: "c"}, ""},
		{failed(Token, TokenBody), Keys{Address: here, Walk: "w"}, ""},
		{failed(Token, TokenBody), Keys{Address: here, Approval: "a"}, ""},
		{of(failed(Token, ClientCredentials), OwnGrant, 0), Keys{Address: here}, OwnGrant},
		{failed(Token, CORSHeader), Keys{Address: here}, ""},
		{ok(Challenge), Keys{Address: here}, ""},
		{ok(Metadata), Keys{Address: here}, ""},
		{failed(Registration, RedirectScheme), Keys{Address: here}, ""},
		{ok(Registration), Keys{Address: here}, Unnamed},
	} {
		tt.seen.Keys = tt.keys
		if got := Of(tt.seen); got.Keys != tt.keys || len(got.Seen) != 1 || got.Seen[0].What != tt.want {
			t.Errorf("%+v: %+v", tt.seen, got)
		}
	}
}

// How the steps of a timeline stand, ten of them, at once and when nothing more comes.
func TestMarks(t *testing.T) {
	marks := func(t Timeline) (text string) {
		for _, s := range t.Stages {
			text += map[Mark]string{MarkDone: "d", MarkFailed: "f", MarkOpen: "o", MarkUnseen: "u", MarkNot: "-"}[s.Mark]
		}
		return text
	}
	for _, tt := range []struct {
		name        string
		seen        []Observation
		want, later string
		stopped     Step
	}{
		{"all at once", upTo(Refresh), "dddddddddd", "dddddddddd", 0},
		{"not refreshed", upTo(FirstCall), "ddddddddd-", "ddddddddd-", 0},
		{"one that knew where to go", []Observation{ok(Authorize), ok(Consent), ok(Code), ok(Token), ok(FirstCall)}, "uuududddd-", "uuududddd-", 0},
		{"a challenge alone", upTo(Challenge), "d---------", "f---------", Challenge},
		{"the person looks at the page", after(SignIn, asked(Consent, "")), "dddddo----", "dddddf----", Consent},
		{"the person is asked to sign in", after(Authorize, asked(SignIn, "")), "ddddo-----", "ddddf-----", SignIn},
		{"asked to sign in, and on the page then", after(Authorize, asked(SignIn, ""), asked(Consent, "")), "dddddo----", "dddddf----", Consent},
		{"refused", after(Metadata, failed(Registration, RedirectScheme)), "ddf-------", "ddf-------", Registration},
		{"refused, and then not", after(Metadata, failed(Registration, RedirectScheme), ok(Registration)), "ddd-------", "ddf-------", Registration},
		{"done, and then refused", after(Token, failed(Token, CodeReused)), "dddddddf--", "dddddddf--", Token},
		{"done, refused, and gone on with", after(Registration, failed(Registration, RateLimited), ok(Authorize)), "dddd------", "ddddf-----", SignIn},
		{"documents in vain, and it knew", after(Challenge, failed(Metadata, MetadataPath), ok(Authorize), ok(Consent), ok(Code), ok(Token), ok(FirstCall)), "dfududddd-", "dfududddd-", 0},
	} {
		r := seen(tt.seen...)
		read, later := Read(r), ReadAt(r, r.Last()+3_600_000)
		if got := marks(read); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		if got := marks(later); got != tt.later || later.Stopped != tt.stopped {
			t.Errorf("%s, an hour later: %s, stopped at %s; want %s at %s", tt.name, got, later.Stopped, tt.later, tt.stopped)
		}
	}
}

func TestText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRecord(t)
		text := Text(r.Seen)
		back, err := ParseText(text)
		if err != nil || !slices.Equal(back, r.Seen) {
			t.Fatalf("%v\n%s", err, text)
		}
	})
	for _, good := range []string{"0 1 1 - - 0 0 - 0\n", "1 10 3 az09_ az09_ 999 1000000000 az09_ 1000000\n", "1 1 2 - - 200 0 - 0\n2 2 1 - - 200 0 - 0\n", ""} {
		if all, err := ParseText(good); err != nil || Text(all) != good {
			t.Errorf("%q is read as %v (%v)", good, all, err)
		}
	}
	for _, bad := range []string{"x", "1 1 1 - - 200 0 -\n", "1 0 1 - - 200 0 - 0\n", "1 11 1 - - 200 0 - 0\n", "1 1 0 - - 200 0 - 0\n", "1 1 4 - - 200 0 - 0\n", "-1 1 1 - - 200 0 - 0\n",
		"1 1 1 <b> - 200 0 - 0\n", "1 1 1 - - 1000 0 - 0\n", "01 1 1 - - 200 0 - 0\n", "1 1 1 - - 200 0 - 0", "1 1 1 - - 200 -1 - 0\n", "1 1 1 - - 200 0 - -1\n", "\n",
		"1 1 1 - - -1 0 - 0\n", "1 1 1 - - 200 1000000001 - 0\n", "1 1 1 - - 200 0 - 1000001\n", "1 1 1 - - 200 0 - 0 0\n", "0 0 0 - - 0 0 - 0\n",
		"1 257 1 - - 200 0 - 0\n", "1 1 257 - - 200 0 - 0\n", "9223372036854775808 1 1 - - 200 0 - 0\n", "1 1 1 - - 200 0 - 0\n\n"} {
		if all, err := ParseText(bad); err == nil || all != nil {
			t.Errorf("%q is read as %v", bad, all)
		}
	}
	for _, c := range "`{/:A^ " { // what comes before and after what a word may have
		for _, line := range []string{"1 1 1 a%ca - 200 0 - 0\n", "1 1 1 - a%ca 200 0 - 0\n", "1 1 1 - - 200 0 a%ca 0\n"} {
			if all, err := ParseText(fmt.Sprintf(line, c)); err == nil {
				t.Errorf("%q is read as %v", fmt.Sprintf(line, c), all)
			}
		}
	}
}

func FuzzParseText(f *testing.F) {
	f.Add(Text(seen(upTo(Refresh)...).Seen))
	f.Add("1 3 3 redirect_uri_loopback slash 400 17 node 3\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParseText(text)
		if err == nil && Text(all) != text {
			t.Fatalf("%q is written back as %q", text, Text(all))
		}
		Read(Record{Seen: all})
	})
}

// with gives a record its keys.
func with(k Keys, steps ...Observation) Record {
	r := seen(steps...)
	r.Keys = k
	return r
}

func later(r Record, seconds int64) Record {
	r.Seen = slices.Clone(r.Seen)
	for i := range r.Seen {
		r.Seen[i].At += seconds * 1000
	}
	return r
}

func TestJoin(t *testing.T) {
	here, there := "198.51.100.24", "198.51.100.25"
	registration := with(Keys{Client: "c", Name: "Ledger", Host: "ledger.example", Address: here}, ok(Registration))
	tests := []struct {
		name string
		r    Record
		kept []Record
		want int
	}{
		{"nothing is kept", registration, nil, -1},
		{"a registration after the challenge of its address", registration, []Record{with(Keys{Address: here}, upTo(Metadata)...)}, 0},
		{"of another address", registration, []Record{with(Keys{Address: there}, upTo(Metadata)...)}, -1},
		{"eleven minutes later", later(registration, 660), []Record{with(Keys{Address: here}, upTo(Metadata)...)}, -1},
		{"ten minutes later", later(registration, 600), []Record{with(Keys{Address: here}, ok(Challenge))}, 0},
		{"one second more", later(registration, 601), []Record{with(Keys{Address: here}, ok(Challenge))}, -1},
		{"time that went back", registration, []Record{later(with(Keys{Address: here}, upTo(Metadata)...), 300)}, 0},
		{"the client once more, from elsewhere", with(Keys{Client: "c", Address: there}, ok(Registration)), []Record{registration}, 0},
		{"the client once more, the newest", with(Keys{Client: "c", Address: there}, ok(Registration)), []Record{later(registration, 1), registration}, 0},
		{"ten minutes later, of the client", later(with(Keys{Client: "c"}, failed(Authorize, PKCEMissing)), 600), []Record{registration}, 0},
		{"one second more, of the client", later(with(Keys{Client: "c"}, failed(Authorize, PKCEMissing)), 601), []Record{registration}, -1},
		{"again after ten minutes, of nobody", later(with(Keys{Address: here}, failed(Token, TokenBody)), 600), []Record{with(Keys{Address: here}, failed(Token, TokenMethod))}, 0},
		{"not into what has an approval", with(Keys{Client: "c"}, failed(Authorize, PKCEMissing)), []Record{with(Keys{Client: "c", Approval: "a"}, ok(Authorize))}, -1},
		{"not into what has a person", with(Keys{Client: "c"}, failed(Authorize, PKCEMissing)), []Record{with(Keys{Client: "c", Person: "p"}, ok(Authorize))}, -1},
		{"not into what has a walk", with(Keys{Client: "c"}, failed(Authorize, PKCEMissing)), []Record{with(Keys{Client: "c", Walk: "w"}, ok(Authorize))}, -1},
		{"not into what somebody looks at", with(Keys{Client: "c"}, failed(Authorize, PKCEMissing)), []Record{with(Keys{Client: "c", Approval: "a"}, ok(Authorize)), with(Keys{Client: "c", Person: "p"}, ok(Authorize))}, -1},
		{"the client once more, of two that are as new", with(Keys{Client: "c", Address: there}, ok(Registration)), []Record{registration, registration}, 1},
		{"another client of one address", registration, []Record{with(Keys{Client: "d", Address: here}, upTo(Registration)...)}, -1},
		{"a challenge and then the documents", with(Keys{Address: here}, ok(Metadata)), []Record{with(Keys{Address: here}, ok(Challenge))}, 0},
		{"no address and no host", with(Keys{}, failed(Authorize, ClientUnknown)), []Record{with(Keys{Address: here}, ok(Challenge)), with(Keys{}, failed(Authorize, ClientUnknown))}, 1},
		{"no address, and a later one with an address", with(Keys{}, failed(Authorize, ClientUnknown)), []Record{with(Keys{}, failed(Authorize, ClientUnknown)), with(Keys{Address: here}, ok(Challenge))}, 0},
		{"an unknown client of a host", with(Keys{Host: "a.example"}, failed(Authorize, ClientUnknown)), []Record{with(Keys{Host: "b.example"}, failed(Authorize, ClientUnknown)), with(Keys{Host: "a.example"}, failed(Authorize, ClientUnknown))}, 1},

		{"the first walk after a registration", later(with(Keys{Client: "c", Walk: "w"}, ok(Authorize)), 86400), []Record{registration}, 0},
		{"the same walk", with(Keys{Client: "c", Walk: "w", Person: "p"}, ok(SignIn)), []Record{with(Keys{Client: "c", Walk: "v"}, ok(Authorize)), with(Keys{Client: "c", Walk: "w"}, ok(Authorize))}, 1},
		{"another walk", with(Keys{Client: "c", Walk: "x"}, ok(Authorize)), []Record{with(Keys{Client: "c", Walk: "w"}, ok(Authorize))}, -1},
		{"a walk of another client", with(Keys{Client: "d", Walk: "w"}, ok(Authorize)), []Record{with(Keys{Client: "c", Walk: "w"}, ok(Authorize))}, -1},
		{"a request without a challenge", with(Keys{Client: "c"}, failed(Authorize, PKCEMissing)), []Record{registration}, 0},
		{"the same request again", with(Keys{Client: "c"}, failed(Authorize, PKCEMissing)), []Record{with(Keys{Client: "c", Address: here}, upTo(Authorize)...)}, 0},
		{"not into somebody's walk", with(Keys{Client: "c"}, failed(Authorize, PKCEMissing)), []Record{with(Keys{Client: "c", Walk: "w", Person: "p"}, upTo(SignIn)...)}, -1},

		{"an approval", later(with(Keys{Client: "c", Approval: "a"}, failed(Refresh, ApprovalEnded)), 500_000), []Record{with(Keys{Client: "c", Approval: "b"}, upTo(Token)...), with(Keys{Client: "c", Approval: "a"}, upTo(Token)...)}, 1},
		{"an approval, the first of two", with(Keys{Client: "c", Approval: "a"}, failed(Refresh, ApprovalEnded)), []Record{with(Keys{Client: "c", Approval: "a"}, upTo(Token)...), with(Keys{Client: "c", Approval: "b"}, upTo(Token)...)}, 0},
		{"an approval nobody knows of", with(Keys{Client: "c", Approval: "a"}, failed(Refresh, ApprovalEnded)), []Record{with(Keys{Client: "c", Approval: "b"}, upTo(Token)...)}, -1},
		{"made in a walk", with(Keys{Client: "c", Walk: "w", Approval: "a", Person: "p"}, ok(Code)), []Record{with(Keys{Client: "c", Walk: "w"}, upTo(Consent)...)}, 0},
		{"an exchange that cannot be read", with(Keys{Client: "c", Address: there}, failed(Token, TokenParameter)), []Record{with(Keys{Client: "c", Approval: "a"}, upTo(Code)...)}, 0},
		{"of one of two", with(Keys{Client: "c", Address: there}, failed(Token, TokenParameter)), []Record{with(Keys{Client: "c", Approval: "a"}, upTo(Code)...), with(Keys{Client: "c", Approval: "b"}, upTo(Code)...)}, -1},
		{"a refresh of a client that has tokens", with(Keys{Client: "c", Address: there}, failed(Refresh, RefreshUnknown)), []Record{with(Keys{Client: "c", Approval: "a"}, upTo(Token)...)}, 0},
		{"a refresh of a client that has none", with(Keys{Client: "c", Address: there}, failed(Refresh, RefreshUnknown)), []Record{with(Keys{Client: "c", Approval: "a"}, upTo(Code)...)}, -1},
		{"a code of no request, not into a registration", with(Keys{Client: "c"}, ok(Code)), []Record{registration}, -1},
		{"after all has worked", with(Keys{Client: "c", Address: there}, failed(Token, TokenParameter)), []Record{with(Keys{Client: "c", Approval: "a"}, upTo(FirstCall)...)}, -1},
		{"JSON at the token endpoint", with(Keys{Address: here}, failed(Token, TokenBody)), []Record{with(Keys{Client: "c", Address: here, Approval: "a"}, upTo(Code)...)}, 0},
		{"before there is a code", with(Keys{Address: here}, failed(Token, TokenBody)), []Record{with(Keys{Client: "c", Address: here}, upTo(Consent)...)}, -1},
		{"a call without a token", with(Keys{Address: here}, ok(Challenge)), []Record{with(Keys{Client: "c", Address: here, Approval: "a"}, upTo(Token)...)}, 0},
		{"a call without a token of one of two", with(Keys{Address: here}, ok(Challenge)), []Record{with(Keys{Client: "c", Address: here, Approval: "a"}, upTo(Token)...), with(Keys{Client: "d", Address: here, Approval: "b"}, upTo(Token)...)}, -1},
		{"what cannot be read, of one of two that wait", with(Keys{Address: here}, failed(Token, TokenBody)), []Record{with(Keys{Client: "c", Address: here, Approval: "a"}, upTo(Code)...), with(Keys{Client: "d", Address: here, Approval: "b"}, upTo(Code)...)}, -1},
		{"of one that waits beside one that has tokens", with(Keys{Address: here}, failed(Token, TokenBody)), []Record{with(Keys{Client: "c", Address: here, Approval: "a"}, upTo(Code)...), with(Keys{Client: "d", Address: here, Approval: "b"}, upTo(Token)...)}, 0},
		{"of one that failed and one that waits", with(Keys{Address: here}, failed(Token, TokenBody)), []Record{with(Keys{Client: "c", Address: here, Approval: "a"}, after(Code, failed(Token, TokenBody))...), with(Keys{Client: "d", Address: here, Approval: "b"}, upTo(Code)...)}, -1},
		{"of one whose exchange has failed", with(Keys{Address: here}, failed(Token, TokenBody)), []Record{with(Keys{Client: "c", Address: here, Approval: "a"}, after(Code, failed(Token, TokenBody))...)}, 0},
		{"of one that has tokens", with(Keys{Address: here}, failed(Token, TokenBody)), []Record{with(Keys{Client: "c", Address: here, Approval: "a"}, upTo(Token)...)}, -1},
		{"of another address", with(Keys{Address: there}, failed(Token, TokenBody)), []Record{with(Keys{Client: "c", Address: here, Approval: "a"}, upTo(Code)...)}, -1},
		{"of no address", with(Keys{}, failed(Token, TokenBody)), []Record{with(Keys{Client: "c", Approval: "a"}, upTo(Code)...)}, -1},
		{"too late", later(with(Keys{Address: here}, failed(Token, TokenBody)), 700), []Record{with(Keys{Client: "c", Address: here, Approval: "a"}, upTo(Code)...)}, -1},
		{"again, with two that wait", with(Keys{Address: here}, failed(Token, TokenBody)), []Record{with(Keys{Address: here}, failed(Token, TokenMethod)), with(Keys{Client: "c", Address: here, Approval: "a"}, upTo(Code)...), with(Keys{Client: "d", Address: here, Approval: "b"}, upTo(Code)...)}, 0},
		{"again, eleven minutes later", later(with(Keys{Address: here}, failed(Token, TokenBody)), 660), []Record{with(Keys{Address: here}, failed(Token, TokenMethod))}, -1},
		{"an unknown client of a host, the first of two", with(Keys{Host: "a.example"}, failed(Authorize, ClientUnknown)), []Record{with(Keys{Host: "a.example"}, failed(Authorize, ClientUnknown)), with(Keys{Host: "b.example"}, failed(Authorize, ClientUnknown))}, 0},
		{"again, once one waits", with(Keys{Address: here}, failed(Token, TokenBody)), []Record{with(Keys{Address: here}, failed(Token, TokenMethod)), with(Keys{Client: "c", Address: here, Approval: "a"}, upTo(Code)...)}, 1},
		{"not into a refused registration", with(Keys{Address: here}, failed(Token, TokenBody)), []Record{with(Keys{Address: here}, after(Metadata, failed(Registration, RedirectScheme))...)}, -1},
		{"not into what somebody reads", with(Keys{Address: here}, failed(Token, TokenBody)), []Record{with(Keys{Address: here}, upTo(Metadata)...)}, -1},
		{"not of another step", with(Keys{Address: here}, failed(Token, TokenBody)), []Record{with(Keys{Address: here}, failed(FirstCall, TokenInQuery))}, -1},
		{"not into an approval that no client is known of", with(Keys{Address: here}, failed(Token, TokenBody)), []Record{with(Keys{Address: here, Approval: "a"}, failed(Token, GrantType))}, -1},
		{"a registration after somebody's exchange", registration, []Record{with(Keys{Address: here}, failed(Token, ClientCredentials))}, -1},
		{"a refused registration after somebody's exchange", with(Keys{Address: here}, failed(Registration, RedirectScheme)), []Record{with(Keys{Address: here}, failed(Token, ClientCredentials))}, -1},
		{"a refused registration, and one that has tokens", with(Keys{Address: here}, failed(Registration, RedirectScheme)), []Record{with(Keys{Client: "c", Address: here, Approval: "a"}, upTo(Token)...)}, -1},
		{"a refused registration of a client that was refused", with(Keys{Address: here, Name: "Ledger"}, failed(Registration, RedirectScheme)), []Record{with(Keys{Address: here, Name: "Ledger"}, failed(Registration, RedirectLoopback)), with(Keys{Address: here, Name: "Other"}, failed(Registration, RedirectLoopback))}, 0},
		{"a refused registration that is told last", registration, []Record{later(with(Keys{Address: here}, failed(Registration, RedirectScheme)), 1)}, -1},
		{"a refused registration of the same time", registration, []Record{with(Keys{Address: here}, failed(Registration, RedirectScheme))}, 0},
		{"one of two that read the documents", registration, []Record{with(Keys{Address: here}, ok(Challenge)), with(Keys{Address: here}, ok(Metadata))}, -1},
		{"a challenge after somebody's exchange", with(Keys{Address: here}, ok(Challenge)), []Record{with(Keys{Address: here}, failed(Token, ClientCredentials))}, -1},
		{"a challenge after a refused registration", later(with(Keys{Address: here}, ok(Challenge)), 5), []Record{with(Keys{Address: here}, after(Metadata, failed(Registration, RedirectScheme))...)}, -1},
		{"a challenge that is told after the refused registration", with(Keys{Address: here}, ok(Challenge)), []Record{later(with(Keys{Address: here}, failed(Registration, RedirectScheme)), 5)}, 0},
		{"a challenge of the time of the refused registration, told after it", with(Keys{Address: here}, ok(Challenge)), []Record{with(Keys{Address: here}, failed(Registration, RedirectScheme))}, 0},
		{"a call without a token, and the client has called", with(Keys{Address: here}, ok(Challenge)), []Record{with(Keys{Client: "c", Address: here, Approval: "a"}, upTo(FirstCall)...)}, -1},
		{"a call without a token, and the client has refreshed", with(Keys{Address: here}, ok(Challenge)), []Record{with(Keys{Client: "c", Address: here, Approval: "a"}, after(Token, ok(Refresh))...)}, -1},
		{"a call without a token, and the exchange has failed", with(Keys{Address: here}, ok(Challenge)), []Record{with(Keys{Client: "c", Address: here, Approval: "a"}, after(Code, failed(Token, PKCEMismatch))...)}, -1},
		{"what cannot be read, and the client has called", with(Keys{Address: here}, failed(Token, TokenBody)), []Record{with(Keys{Client: "c", Address: here, Approval: "a"}, after(Code, ok(FirstCall))...)}, -1},
		{"what cannot be read, and the client has refreshed", with(Keys{Address: here}, failed(Token, TokenBody)), []Record{with(Keys{Client: "c", Address: here, Approval: "a"}, after(Code, ok(Refresh))...)}, -1},
		{"a token in the address, of one that has tokens", with(Keys{Address: here}, failed(FirstCall, TokenInQuery)), []Record{with(Keys{Client: "c", Address: here, Approval: "a"}, upTo(Token)...), with(Keys{Client: "d", Address: here, Approval: "b"}, upTo(Code)...)}, 0},
		{"a call without a token while the person looks at the page", with(Keys{Address: here}, ok(Challenge)), []Record{with(Keys{Client: "c", Address: here}, upTo(Consent)...)}, -1},
	}
	for _, tt := range tests {
		if got := Join(tt.r, tt.kept); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestPrelude(t *testing.T) {
	here := "198.51.100.24"
	challenge := with(Keys{Address: here}, upTo(Metadata)...)
	walk := later(with(Keys{Client: "c", Approval: "a", Address: here}, ok(Authorize), ok(Consent), ok(Code), ok(Token)), 60)
	for name, tt := range map[string]struct {
		r    Record
		kept []Record
		want int
	}{
		"what its machine did before":   {walk, []Record{challenge}, 0},
		"of another machine":            {walk, []Record{with(Keys{Address: "192.0.2.1"}, upTo(Metadata)...)}, -1},
		"of another client":             {walk, []Record{with(Keys{Client: "d", Address: here}, upTo(Metadata)...)}, -1},
		"after it began":                {walk, []Record{later(challenge, 120)}, -1},
		"too long before":               {later(walk, 700), []Record{challenge}, -1},
		"ten minutes before":            {later(with(Keys{Client: "c", Address: here}, ok(Authorize)), 600), []Record{with(Keys{Address: here}, ok(Challenge))}, 0},
		"one second more":               {later(with(Keys{Client: "c", Address: here}, ok(Authorize)), 601), []Record{with(Keys{Address: here}, ok(Challenge))}, -1},
		"a registration that failed":    {walk, []Record{with(Keys{Address: here}, after(Metadata, failed(Registration, RedirectScheme))...)}, -1},
		"at the same time":              {with(Keys{Client: "c", Address: here}, ok(Authorize)), []Record{with(Keys{Address: here}, ok(Challenge))}, 0},
		"no client is known":            {later(with(Keys{Address: here}, failed(Token, TokenBody)), 60), []Record{challenge}, -1},
		"it has read the documents":     {later(with(Keys{Client: "c", Address: here}, ok(Metadata), ok(Registration)), 60), []Record{challenge}, -1},
		"it has one":                    {with(Keys{Client: "c", Address: here}, upTo(Token)...), []Record{challenge}, -1},
		"nobody knows from where it is": {with(Keys{Client: "c"}, ok(Token)), []Record{with(Keys{}, upTo(Metadata)...)}, -1},
	} {
		if got := Prelude(tt.r, tt.kept); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
	refused := with(Keys{Address: here}, after(Metadata, failed(Registration, RedirectScheme))...)
	again := later(challenge, 60)
	for name, tt := range map[string]struct {
		r    Record
		kept []Record
		want int
	}{
		"it registers anew, and began anew":       {Merge(refused, later(with(Keys{Client: "c", Address: here}, ok(Registration)), 61)), []Record{again}, 0},
		"it is refused anew":                      {Merge(refused, later(with(Keys{Address: here}, failed(Registration, RedirectScheme)), 61)), []Record{again}, 0},
		"it registers anew ten minutes later":     {Merge(refused, later(with(Keys{Client: "c", Address: here}, ok(Registration)), 661)), []Record{again}, -1},
		"what began after it registered":          {Merge(refused, later(with(Keys{Client: "c", Address: here}, ok(Registration)), 30)), []Record{again}, -1},
		"it was refused, and has a person by now": {Merge(refused, later(with(Keys{Client: "c", Address: here, Person: "p"}, ok(Registration), ok(Authorize)), 61)), []Record{again}, -1},
		"one of two beginnings":                   {walk, []Record{challenge, later(challenge, 30)}, -1},
	} {
		if got := Prelude(tt.r, tt.kept); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

// An attempt says that some of it was joined by the address alone, whatever the step.
func TestByAddress(t *testing.T) {
	machine := Keys{Address: "198.51.100.24"}
	of := func(k Keys, o Observation) Record { o.Keys = k; return Of(o) }
	named := with(Keys{Client: "c", Approval: "a", Address: machine.Address}, ok(Registration), ok(Authorize), ok(Consent), ok(Code))
	preflight := failed(Token, CORSHeader)
	preflight.What = Preflight
	for name, tt := range map[string]struct {
		r    Record
		want bool
	}{
		"nothing":                                {Record{}, false},
		"all by the client":                      {named, false},
		"the client's own failures":              {Merge(named, of(Keys{Client: "c", Address: machine.Address}, failed(Token, TokenParameter))), false},
		"a browser's, by what it asks":           {Merge(named, of(Keys{Host: "h.example"}, failed(Authorize, ClientUnknown))), false},
		"by the walk":                            {Merge(named, of(Keys{Walk: "w", Address: machine.Address}, failed(Token, TokenBody))), false},
		"the challenge":                          {Merge(of(machine, ok(Challenge)), named), true},
		"the documents":                          {Merge(of(machine, ok(Metadata)), named), true},
		"a registration that was refused":        {Merge(of(machine, failed(Registration, RedirectScheme)), named), true},
		"a token request that cannot be read":    {Merge(named, of(machine, failed(Token, TokenBody))), true},
		"a first call in the address":            {Merge(named, of(machine, failed(FirstCall, TokenInQuery))), true},
		"a refresh of nobody":                    {Merge(named, of(machine, failed(Refresh, ClientUnknown))), true},
		"what a browser asks before":             {Merge(named, of(machine, preflight)), true},
		"a challenge and documents, no client":   {Merge(of(machine, ok(Challenge)), of(machine, ok(Metadata))), true},
		"one challenge, which nothing is joined": {of(machine, ok(Challenge)), false},
	} {
		back, err := ParseText(Text(tt.r.Seen)) // as it is kept
		if got := Read(Record{Keys: tt.r.Keys, Seen: back}).ByAddress; got != tt.want || err != nil {
			t.Errorf("%s: %t, want %t (%v)", name, got, tt.want, err)
		}
	}
	says := of(machine, failed(Token, TokenBody)).Seen[0].Says()
	if !strings.Contains(says, "Nothing but the address") || strings.Contains(failed(Token, TokenBody).Says(), "address") || strings.Contains(says, machine.Address) {
		t.Errorf("said of one that names nobody: %s", says)
	}
	for _, w := range []What{OwnGrant, OtherGrant, NoGrant} {
		if o := failed(Token, ClientCredentials); o.Says() == func() string { o.What = w; return o.Says() }() {
			t.Errorf("nothing is said of a code that is %s", w)
		}
	}
}

// keep adds records to those that are kept, as the store does: the last one kept is the
// one that was written last.
func keep(kept []Record, all ...Record) []Record {
	for _, r := range all {
		if at := Join(r, kept); at >= 0 {
			r = Merge(kept[at], r)
			kept = slices.Delete(slices.Clone(kept), at, at+1)
		}
		if at := Prelude(r, kept); at >= 0 {
			r = Merge(kept[at], r)
			kept = slices.Delete(slices.Clone(kept), at, at+1)
		}
		kept = append(kept, r)
	}
	return kept
}

// Registrations from one address, whether the doors tell of them at once or one by one:
// a refusal is of the client that it names, and of the one that comes next only where
// nothing tells them apart.
func TestRegistrationsOfOneAddress(t *testing.T) {
	const here = "198.51.100.24"
	opens := []Observation{ok(Challenge), ok(Metadata)}
	refused := func(name, host string) Observation {
		o := failed(Registration, RedirectScheme)
		o.Keys = Keys{Name: name, Host: host}
		return o
	}
	registers := func(client, name, host string) Observation {
		o := ok(Registration)
		o.Keys = Keys{Client: client, Name: name, Host: host}
		return o
	}
	limited := failed(Registration, RateLimited)
	for name, tt := range map[string]struct {
		seen []Observation
		want []string // name, client and steps of each
	}{
		"three apps": {
			[]Observation{refused("Other App", ""), registers("c", "Good Two", "two.example"), refused("Third App", "")},
			[]string{"Other App: 3!", "Good Two c: 3", "Third App: 3!"}},
		"three hosts": {
			[]Observation{refused("", "other.example"), registers("c", "", "two.example"), refused("", "third.example")},
			[]string{"other.example: 3!", "two.example c: 3", "third.example: 3!"}},
		"one name at two hosts": {
			[]Observation{refused("Agent", "other.example"), registers("c", "Agent", "two.example")},
			[]string{"Agent: 3!", "Agent c: 3"}},
		"two apps, each with its beginning": {
			slices.Concat(opens, []Observation{refused("Other App", "")}, opens, []Observation{registers("c", "Good One", "one.example")}),
			[]string{"Other App: 1 2 3!", "Good One c: 1 2 3"}},
		"two apps that read the documents alone": {
			[]Observation{ok(Metadata), refused("Other App", ""), ok(Metadata), registers("c", "Good One", "one.example")},
			[]string{"Other App: 2 3!", "Good One c: 2 3"}},
		"one that mends its redirect URI": {
			slices.Concat(opens, []Observation{refused("Ledger", ""), registers("c", "Ledger", "ledger.example")}),
			[]string{"Ledger c: 1 2 3! 3"}},
		"one that begins anew": {
			slices.Concat(opens, []Observation{refused("Ledger", "")}, opens, []Observation{registers("c", "Ledger", "ledger.example")}),
			[]string{"Ledger c: 1 2 3! 1 2 3"}},
		"one that begins anew and anew in vain": {
			slices.Concat(opens, []Observation{limited}, opens, []Observation{limited}, opens, []Observation{limited}),
			[]string{": 1 2 1 2 1 2 3!x3"}},
		"nothing tells them apart": {
			[]Observation{refused("", ""), registers("c", "Good Two", "two.example")},
			[]string{"Good Two c: 3! 3"}},
		"a refusal after a success": {
			[]Observation{refused("", ""), registers("c", "Good Two", "two.example"), refused("", "")},
			[]string{"Good Two c: 3! 3", ": 3!"}},
		"a refusal after one that began anew and has registered": {
			slices.Concat([]Observation{refused("", "")}, opens, []Observation{registers("c", "Good Two", "two.example"), refused("", "")}),
			[]string{"Good Two c: 3! 1 2 3", ": 3!"}},
		"a beginning after a refusal after a success": {
			slices.Concat(opens, []Observation{registers("c", "Good Two", "two.example"), refused("", "")}, opens),
			[]string{"Good Two c: 1 2 3", ": 3!", ": 1 2"}},
		"a beginning after a success": {
			slices.Concat(opens, []Observation{registers("c", "Good Two", "two.example")}, opens),
			[]string{"Good Two c: 1 2 3", ": 1 2"}},
		"a beginning after one app that was refused and one that was not": {
			slices.Concat(opens, []Observation{refused("One", ""), registers("c", "Good Two", "two.example")}, opens),
			[]string{"One: 1 2 3!", "Good Two c: 3", ": 1 2"}},
		"two apps, each with its beginning, that both register": {
			slices.Concat(opens, []Observation{registers("c", "Good One", "one.example")}, opens, []Observation{registers("d", "Good Two", "two.example")}),
			[]string{"Good One c: 1 2 3", "Good Two d: 1 2 3"}},
		"of two that can be meant": {
			[]Observation{refused("", "one.example"), refused("Other App", ""), registers("c", "", "one.example"), registers("d", "Other App", "two.example")},
			[]string{"one.example c: 3! 3", "Other App d: 3! 3"}},
		"none of two that can be meant": {
			[]Observation{refused("One", ""), refused("", "two.example"), registers("c", "", "three.example")},
			[]string{"One: 3!", "two.example: 3!", "three.example c: 3"}},
		"none of three that can be meant": {
			[]Observation{refused("One", ""), refused("Two", ""), registers("c", "", "three.example")},
			[]string{"One: 3!", "Two: 3!", "three.example c: 3"}},
		"too many, beside two others": {
			[]Observation{refused("One", ""), refused("Two", ""), limited, refused("One", ""), limited},
			[]string{"One: 3!x2", "Two: 3!", ": 3!x2"}},
	} {
		for _, pause := range []int64{100, 3000} { // within one writing, and in one each
			var g Gatherer
			var kept []Record
			for i, o := range tt.seen {
				o.At, o.Address = 1_790_000_000_000+int64(i)*pause, here
				if g.Observe(o); pause > 2000 {
					all, _ := g.Take()
					kept = keep(kept, all...)
				}
			}
			all, _ := g.Take()
			kept = keep(kept, all...)
			var got []string
			for _, r := range kept {
				text := cmp.Or(r.Name, r.Host)
				if r.Client != "" {
					text += " " + r.Client
				}
				text += ":"
				for _, o := range r.Seen {
					text += fmt.Sprint(" ", int(o.Step))
					if o.Outcome == Failed {
						text += "!"
					}
					if o.Again > 0 {
						text += fmt.Sprint("x", o.Again+1)
					}
				}
				got = append(got, text)
			}
			slices.Sort(got)
			slices.Sort(tt.want)
			if !slices.Equal(got, tt.want) {
				t.Errorf("%s, each %d ms: %q, want %q", name, pause, got, tt.want)
			}
		}
	}
}

func TestMergeKeepsKeys(t *testing.T) {
	a := with(Keys{Client: "c", Name: "Ledger", Host: "h", Address: "1", Walk: "w"}, ok(Authorize))
	a.ID = "kept"
	b := with(Keys{Client: "c", Approval: "a", Person: "p", Organization: "o", Address: "2"}, ok(Code))
	want := Keys{Client: "c", Name: "Ledger", Host: "h", Address: "2", Walk: "w", Approval: "a", Person: "p", Organization: "o"}
	if r := Of(Observation{Step: Token, Outcome: Done, Keys: want}); r.Keys != want || r.Seen[0].Keys != (Keys{}) {
		t.Errorf("%+v", r)
	}
	m := Merge(a, b)
	if m.Keys != want || m.ID != "kept" || m.Seen[0].Keys != (Keys{}) {
		t.Errorf("%+v", m)
	}
	// Another client has sent its code.
	if m = Merge(m, with(Keys{Client: "d", Name: "Evil", Host: "e", Approval: "a"}, failed(Token, CodeOtherClient))); m.Keys != want || Read(m).Reason != CodeOtherClient {
		t.Errorf("%+v", m)
	}
}

func TestRecognise(t *testing.T) {
	now := int64(1_790_000_000_000) + 86_400_000
	app := func(id, client, person string, reason Reason) Summary {
		r := with(Keys{Client: client, Name: "Ledger", Host: "ledger.example", Person: person, Address: "198.51.100.24"}, after(Code, failed(Token, reason))...)
		r.ID = id
		return Summed(r)
	}
	worked := with(Keys{Client: "c9", Name: "Ledger", Host: "ledger.example", Person: "p"}, upTo(FirstCall)...)
	worked.ID = "9"
	one := app("1", "c1", "p", PKCEMismatch)
	other := app("5", "c5", "p", PKCEMismatch)
	other.Host = "other.example"
	got := Recognise(one, []Summary{one, app("2", "c2", "p", PKCEMismatch), app("3", "c3", "p", CodeExpired), Summed(later(worked, 60)), other}, now)
	want := []Sighting{{RegistersAgain, 3}, {FailsAlike, 1}, {Mended, 1}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := Recognise(one, []Summary{app("2", "c1", "p", CodeExpired), app("3", "c2", "q", CodeExpired)}, now); slices.ContainsFunc(got, func(s Sighting) bool { return s.Pattern == FailsAlike }) {
		t.Errorf("%v", got)
	}
	three := []Summary{one, app("2", "c2", "p", CodeExpired), app("3", "c3", "p", CodeExpired)}
	if got := Recognise(one, three, now); !slices.Equal(got, []Sighting{{RegistersAgain, 2}}) {
		t.Errorf("three IDs: %v", got)
	}
	if got := Recognise(one, []Summary{three[1], app("3", "", "p", CodeExpired)}, now); got != nil {
		t.Errorf("two IDs, and an attempt without: %v", got)
	}
	nameless := app("4", "", "", PKCEMismatch)
	nameless.Name, nameless.Host = "", ""
	if got := Recognise(one, []Summary{nameless}, now); got != nil {
		t.Errorf("of an app without a name at its address: %v", got)
	}
	stranger := Summed(with(Keys{Address: "192.0.2.1"}, failed(Registration, RedirectLoopback)))
	again := stranger
	again.ID = "2"
	if got := Recognise(stranger, []Summary{again}, now); !slices.Equal(got, []Sighting{{FailsAlike, 1}}) {
		t.Errorf("of a machine without a client: %v", got)
	}
	elsewhere := again
	elsewhere.Address = "192.0.2.2"
	if got := Recognise(stranger, []Summary{elsewhere}, now); got != nil {
		t.Errorf("of another machine: %v", got)
	}
	for p := range PatternWords {
		if w := PatternWords[p]; w.Says == "" || w.Do == "" {
			t.Errorf("%s has no words", p)
		}
	}
}

// Which attempts have something in common, one with one other at a time.
func TestRecogniseOne(t *testing.T) {
	const now = 1_790_000_000_000 + 86_400_000
	of := func(id string, k Keys, steps ...Observation) Summary {
		r := with(k, steps...)
		r.ID = id
		return Summed(r)
	}
	began := func(s Summary, by int64) Summary {
		s.Began += by
		return s
	}
	fails, works := after(Code, failed(Token, PKCEMismatch)), upTo(FirstCall)
	ledger := Keys{Client: "c", Name: "Ledger", Host: "ledger.example", Person: "p"}
	alike, mended := []Sighting{{FailsAlike, 1}}, []Sighting{{Mended, 1}}
	nobodys := Keys{Client: "c", Name: "Ledger", Host: "ledger.example"}
	for name, tt := range map[string]struct {
		one, other Summary
		want       []Sighting
	}{
		"itself":                              {of("1", ledger, fails...), of("1", ledger, fails...), nil},
		"the same reason":                     {of("1", ledger, fails...), of("2", ledger, fails...), alike},
		"the same reason, of another person":  {of("1", ledger, fails...), of("2", Keys{Name: "Ledger", Host: "ledger.example", Person: "q"}, fails...), alike},
		"another reason":                      {of("1", ledger, fails...), of("2", ledger, after(Code, failed(Token, CodeExpired))...), nil},
		"both worked":                         {of("1", ledger, works...), began(of("2", ledger, works...), 1), nil},
		"it worked, and another did not":      {of("1", ledger, works...), of("2", ledger, fails...), nil},
		"both are open":                       {of("1", ledger, ok(Authorize), pause(86_400), asked(Consent, "")), of("2", ledger, ok(Authorize), pause(86_400), asked(Consent, "")), nil},
		"a later one worked":                  {of("1", ledger, fails...), began(of("2", ledger, works...), 1), mended},
		"one worked that began with it":       {of("1", ledger, fails...), of("2", ledger, works...), nil},
		"an earlier one worked":               {of("1", ledger, fails...), began(of("2", ledger, works...), -1), nil},
		"a later one of another person":       {of("1", ledger, fails...), began(of("2", Keys{Name: "Ledger", Host: "ledger.example", Person: "q"}, works...), 1), nil},
		"a later one, and nobody is known":    {of("1", nobodys, fails...), began(of("2", ledger, works...), 1), mended},
		"another name at its host":            {of("1", ledger, fails...), of("2", Keys{Name: "Other", Host: "ledger.example", Person: "p"}, fails...), nil},
		"its name at another host":            {of("1", ledger, fails...), of("2", Keys{Name: "Ledger", Host: "other.example", Person: "p"}, fails...), nil},
		"its name without a host":             {of("1", ledger, fails...), of("2", Keys{Name: "Ledger", Person: "p"}, fails...), nil},
		"one without a host, of its name":     {of("1", Keys{Name: "Ledger", Person: "p"}, fails...), of("2", ledger, fails...), nil},
		"two that nothing is known of":        {of("1", Keys{}, fails...), of("2", Keys{}, fails...), nil},
		"one address, before there is a host": {of("1", Keys{Address: "192.0.2.1"}, fails...), of("2", Keys{Address: "192.0.2.1"}, fails...), alike},
		"an address, and one without":         {of("1", Keys{Address: "192.0.2.1"}, fails...), of("2", Keys{}, fails...), nil},
	} {
		if got := Recognise(tt.one, []Summary{tt.other}, now); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	three := func(k Keys, clients ...string) (all []Summary) {
		for i, c := range clients {
			k.Name, k.Host, k.Client = "Ledger", "ledger.example", c
			all = append(all, of(fmt.Sprint(i), k, works...))
		}
		return all
	}
	again := []Sighting{{RegistersAgain, 2}}
	for name, tt := range map[string]struct {
		all  []Summary
		want []Sighting
	}{
		"three IDs of a person":            {three(Keys{Person: "p"}, "a", "b", "c"), again},
		"three IDs of a machine":           {three(Keys{Address: "192.0.2.1"}, "a", "b", "c"), again},
		"two IDs":                          {three(Keys{Person: "p"}, "a", "b", "b"), nil},
		"three IDs of nobody":              {three(Keys{}, "a", "b", "c"), nil},
		"two IDs, and one that is unknown": {three(Keys{Person: "p"}, "a", "b", ""), nil},
		"no ID, beside three":              {three(Keys{Person: "p"}, "", "a", "b", "c"), nil},
	} {
		if got := Recognise(tt.all[0], tt.all, now); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	one := three(Keys{Person: "p", Address: "192.0.2.1"}, "a")[0]
	for name, k := range map[string]Keys{"of others": {Person: "q", Address: "192.0.2.2"}, "of others nobody knows": {}} {
		if got := Recognise(one, append(three(k, "", "b", "c"), one), now); got != nil {
			t.Errorf("IDs %s: %v", name, got)
		}
	}
	s := Summed(later(with(ledger, fails...), 7))
	if s.Began != 1_790_000_007_000 || s.Last != s.Began+700 || s.Reached != Token || s.Keys != ledger || s.Reason != PKCEMismatch {
		t.Errorf("the summary is %+v", s)
	}
}

// Strangers have a share of their own, and nobody waits (decision O9).
func TestGathererIsBounded(t *testing.T) {
	var g Gatherer
	for range 2 { // what was taken leaves its room
		for i := range 100_000 {
			g.Observe(Observation{At: int64(i), Step: []Step{Challenge, Metadata}[i%2], Outcome: Done, Keys: Keys{Address: fmt.Sprint(i)}})
		}
		for i := range 100_000 {
			g.Observe(Observation{At: int64(i), Step: Registration, Outcome: Failed, Reason: RedirectScheme, Keys: Keys{Address: fmt.Sprint("r", i)}})
		}
		g.Observe(Observation{At: 1, Step: Consent, Outcome: Waiting, Keys: Keys{Client: "c", Walk: "w", Person: "p"}})
		all, counted := g.Take()
		if len(all) != 257 || counted[""]+counted[RedirectScheme] != 200_000-256 || counted[""] != 100_000-128 || !slices.ContainsFunc(all, func(r Record) bool { return r.Person == "p" }) {
			t.Errorf("%d records, %v", len(all), counted)
		}
	}
	for i := range 2 * MaxHeld { // the same takes one place
		g.Observe(Observation{At: int64(i), Step: Refresh, Outcome: Failed, Reason: RefreshUnknown, Keys: Keys{Client: "c", Approval: "a"}})
	}
	for i := range MaxHeld - 1 {
		g.Observe(Observation{At: int64(i), Step: FirstCall, Outcome: Done, Keys: Keys{Approval: fmt.Sprint(i)}})
	}
	if all, counted := g.Take(); len(all) != MaxHeld || counted != nil {
		t.Errorf("%d records, %v", len(all), counted)
	}
	for i := range 20_000 {
		g.Observe(Observation{At: int64(i), Step: FirstCall, Outcome: Done, Keys: Keys{Approval: fmt.Sprint(i)}})
	}
	if all, counted := g.Take(); len(all) != 4096 || MaxHeld != 4096 || counted[""] != 20_000-MaxHeld {
		t.Errorf("%d records, %v", len(all), counted)
	}
	if all, counted := g.Take(); all != nil || counted != nil {
		t.Errorf("%v, %v", all, counted)
	}
}

// A key that a database cannot hold says nothing, and the others of the same stay.
func TestGathererLeavesOutWhatCannotBeStored(t *testing.T) {
	long := strings.Repeat("é", 1280)
	for text, want := range map[string]string{"a\x00b": "", "a\xffb": "", long: long, long + "e": "", "né\u202E": "né\u202E"} {
		for at := range 8 {
			o := Observation{Step: Token, Outcome: Done, Keys: Keys{"client", "name", "host", "approval", "walk", "person", "organization", "address"}}
			kept := o.Keys
			*keyAt(&o.Keys, at), *keyAt(&kept, at) = text, want
			var g Gatherer
			g.Observe(o)
			if all, _ := g.Take(); len(all) != 1 || all[0].Keys != kept {
				t.Errorf("%.9q as key %d: %.200q", text, at, fmt.Sprint(all))
			}
		}
	}
}

func keyAt(k *Keys, at int) *string {
	return []*string{&k.Client, &k.Name, &k.Host, &k.Approval, &k.Walk, &k.Person, &k.Organization, &k.Address}[at]
}

func TestGathererCountsTheSame(t *testing.T) {
	var g Gatherer
	keys := Keys{Client: "c", Approval: "a"}
	for i := range 1000 {
		g.Observe(Observation{At: int64(i), Step: FirstCall, Outcome: Failed, Reason: TokenInQuery, Keys: keys})
	}
	g.Observe(Observation{At: 1000, Step: FirstCall, Outcome: Done, Keys: keys})
	g.Observe(Observation{At: 1001, Step: FirstCall, Outcome: Failed, Reason: TokenInQuery, Keys: keys})
	all, _ := g.Take()
	if len(all) != 1 || len(all[0].Seen) != 3 || all[0].Seen[0].Again != 999 || all[0].Seen[0].At != 999 || all[0].Seen[2].Again != 0 {
		t.Errorf("%+v", all)
	}
}

// What a machine does again and again takes one place, whatever others do in between; the
// same is looked for among the last 64.
func TestGathererLooksBack(t *testing.T) {
	const room = 256 // for strangers
	seen := func(client, address string) Observation {
		return Observation{Step: FirstCall, Outcome: Done, Keys: Keys{Client: client, Address: address}}
	}
	for between, places := range map[int]int{0: 1, 1: 1, 63: 1, 64: 2, 65: 2} {
		var g Gatherer
		g.Observe(seen("c", ""))
		for i := range between {
			g.Observe(seen(fmt.Sprint("between ", i), ""))
		}
		g.Observe(seen("c", ""))
		for i := range room - between {
			g.Observe(seen(fmt.Sprint("behind ", i), ""))
		}
		if all, counted := g.Take(); len(all) != room-places+1 || counted[""] != places {
			t.Errorf("with %d in between it takes %d places of %d", between, counted[""], room)
		}
	}
	var g Gatherer
	for i := range 1000 {
		for _, address := range []string{"192.0.2.1", "192.0.2.2"} {
			g.Observe(Observation{At: int64(i), Step: Challenge, Outcome: Done, Keys: Keys{Address: address}})
		}
	}
	if all, counted := g.Take(); len(all) != 2 || counted != nil || all[0].Seen[0].Again != 999 || all[1].Seen[0].Again != 999 {
		t.Errorf("two machines: %+v, %v", all, counted)
	}
}

func TestGathererSideBySide(t *testing.T) {
	var g Gatherer
	var all sync.WaitGroup
	total := make(chan int, 9)
	for n := range 8 {
		all.Go(func() {
			for i := range 500 {
				g.Observe(Observation{At: int64(i), Step: Token, Outcome: Failed, Reason: PKCEMismatch, Keys: Keys{Client: fmt.Sprint(n, i%3), Person: "p"}})
			}
			got, counted := g.Take()
			total <- count(got) + counted[PKCEMismatch]
		})
	}
	all.Wait()
	got, counted := g.Take()
	total <- count(got) + counted[PKCEMismatch]
	close(total)
	sum := 0
	for n := range total {
		sum += n
	}
	if sum != 8*500 {
		t.Errorf("%d of %d", sum, 8*500)
	}
}

func count(all []Record) (n int) {
	for _, r := range all {
		for _, o := range r.Seen {
			n += 1 + o.Again
		}
	}
	return n
}

func TestHeadersAllowed(t *testing.T) {
	const allowed = "Authorization, Content-Type, Accept"
	for asked, want := range map[string]bool{
		"": true, "authorization": true, "content-type,accept": true, " Accept , Authorization ": true, ",": true,
		"x-trace": false, "authorization,x-trace": false, "author": false, strings.Repeat("accept,", 60): false,
		strings.Repeat("accept,", 49) + "accept": true, strings.Repeat("accept,", 50) + "accept": false, // 50 are read
		strings.Repeat(",", 49): true, strings.Repeat(",", 50): false, "x-trace,accept": false,
	} {
		if got := HeadersAllowed(asked, allowed); got != want {
			t.Errorf("%.40s: %t", asked, got)
		}
	}
}

// What two clients of one machine did at different steps is told apart, and goes where
// it belongs.
func TestGathererKeepsStepsApart(t *testing.T) {
	var g Gatherer
	machine := Keys{Address: "198.51.100.24"}
	for i, o := range []Observation{
		{Step: Challenge, Outcome: Done}, {Step: Metadata, Outcome: Done, What: OfResource}, {Step: Metadata, Outcome: Done, What: OfServer},
		{Step: FirstCall, Outcome: Failed, Reason: TokenInQuery}, {Step: Refresh, Outcome: Failed, Reason: ClientUnknown},
	} {
		o.At, o.Keys = int64(i), machine
		g.Observe(o)
	}
	if all, _ := g.Take(); len(all) != 3 || len(all[0].Seen) != 3 || all[1].Reached() != FirstCall || all[2].Reached() != Refresh {
		t.Errorf("%+v", all)
	}
}

// Two apps of one machine that are refused in turns are two records until one registers.
func TestGathererKeepsRefusalsTogether(t *testing.T) {
	var g Gatherer
	for i := range 6 {
		g.Observe(Observation{At: int64(i), Step: Registration, Outcome: Failed, Reason: RedirectScheme, Keys: Keys{Address: "198.51.100.24", Name: []string{"One", "Two"}[i%2]}})
	}
	if all, _ := g.Take(); len(all) != 2 || all[0].Seen[0].Again != 2 || all[1].Seen[0].Again != 2 {
		t.Errorf("%+v", all)
	}
}
