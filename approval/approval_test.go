package approval

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestID(t *testing.T) {
	id := ID{0: 0x01, 1: 0xab, 15: 0xff}
	const text = "01ab00000000000000000000000000ff"
	if got := id.String(); got != text {
		t.Errorf("written as %s, want %s", got, text)
	}
	if got, err := ParseID(text); err != nil || got != id {
		t.Errorf("read as %v, %v", got, err)
	}
	for _, bad := range []string{"", "0", text[1:], text + "0", text + "00", strings.ToUpper(text), strings.Repeat("g", 32), strings.Repeat(" ", 32), text[:31] + "\n", "0x" + text[2:]} {
		if got, err := ParseID(bad); err == nil || got != (ID{}) {
			t.Errorf("%q read as %v, %v", bad, got, err)
		}
	}
	if _, err := ParseID("0"); err == nil || err.Error() != "an approval's ID has 32 characters, not 1" {
		t.Error(err)
	}
}

// What is read is written back the same.
func FuzzParseID(f *testing.F) {
	for _, s := range []string{"", "01ab00000000000000000000000000ff", "01AB00000000000000000000000000FF", strings.Repeat("é", 16)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := ParseID(s); err == nil && id.String() != s {
			t.Fatalf("two spellings of one ID: %q and %q", s, id)
		}
	})
}

// The reasons are written into rows and events: none changes its word (decision J2).
func TestReasons(t *testing.T) {
	want := strings.Fields(`revoked_by_person revoked_by_admin revoked_by_operator revoked_by_client replaced
		refresh_reused code_reused left_organization person_deactivated client_disabled integration_off
		never_connected unused key_retired restored state_lost ended_on_date app_blocked redirect_uri_gone`)
	var got []string
	for _, r := range Reasons {
		got = append(got, string(r))
	}
	if !slices.Equal(got, want) {
		t.Errorf("reasons %q, want %q", got, want)
	}
	source, err := os.ReadFile("approval.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\t\w+\s+Reason = "(\w+)"`).FindAllSubmatch(source, -1) {
		if !slices.Contains(got, string(m[1])) {
			t.Errorf("%s is not in the list", m[1])
		}
	}
}

func TestVerdictNames(t *testing.T) {
	want := strings.Fields("unknown ok wrong_client wrong_issuer wrong_redirect wrong_verifier expired over reused lost wrong_key replayed unknown")
	for v, name := range want {
		if got := Verdict(v).String(); got != name {
			t.Errorf("verdict %d is called %s, want %s", v, got, name)
		}
	}
	if got := Verdict(255).String(); got != "unknown" {
		t.Errorf("verdict 255 is called %s", got)
	}
}

// Phases are written into rows as numbers.
func TestPhases(t *testing.T) {
	if CodeIssued != 1 || Live != 2 || Ended != 3 {
		t.Errorf("phases %d, %d, %d, want 1, 2, 3", CodeIssued, Live, Ended)
	}
}

// At shows what no row says yet, and writes nothing.
func TestAt(t *testing.T) {
	end := after(CodeLifetime)
	earlier := issued()
	earlier.State = ended(earlier, Replaced, after(time.Minute))
	tests := []struct {
		name  string
		from  Approval
		facts Standing
		now   time.Time
		want  State
	}{
		{"issued", issued(), stand, noon, issued().State},
		{"issued, one second before it expires", issued(), stand, end.Add(-time.Second), issued().State},
		{"issued, as it expires", issued(), stand, end, ended(issued(), NeverConnected, end)},
		{"issued, one second after", issued(), stand, end.Add(time.Second), ended(issued(), NeverConnected, end)},
		{"issued, long after", issued(), stand, end.Add(9000 * time.Hour), ended(issued(), NeverConnected, end)},
		{"live, long after", live(3), stand, end.Add(9000 * time.Hour), live(3).State},
		{"issued, fact lost", issued(), without(ClientDisabled), noon, ended(issued(), ClientDisabled, noon)},
		{"live, fact lost", live(3), without(LeftOrganization), end, ended(live(3), LeftOrganization, end)},
		{"ended", over(), stand, end, over().State},
		{"ended, fact lost since", over(), without(PersonDeactivated), end, over().State},
		{"ended before its code expired", earlier, stand, end.Add(time.Hour), earlier.State},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := tt.from
			if got := a.At(tt.facts, tt.now); got != tt.want {
				t.Errorf("shown as %+v, want %+v", got, tt.want)
			}
			if a.State != tt.from.State {
				t.Errorf("changed to %+v", a.State)
			}
		})
	}
}

// Cases T-04 and T-05, and decision T7: an access token lives to its own
// expiry, whatever the generation has become since, and only under a live
// approval on standing facts.
func TestAccepts(t *testing.T) {
	expires := noon.Add(AccessLifetime)
	tests := []struct {
		name       string
		from       Approval
		facts      Standing
		generation int64
		now        time.Time
		want       bool
	}{
		{"at once", live(1), stand, 1, noon, true},
		{"one second before it expires", live(1), stand, 1, expires.Add(-time.Second), true},
		{"in its last second", live(1), stand, 1, expires.Add(-time.Nanosecond), true},
		{"as it expires", live(1), stand, 1, expires, false},
		{"one second after", live(1), stand, 1, expires.Add(time.Second), false},
		{"after refreshes", live(1000), stand, 1, noon, true},
		{"after one refresh", live(2), stand, 1, noon, true},
		{"ahead of its row", live(1), stand, 2, noon, false},
		{"of no generation", live(1), stand, 0, noon, false},
		{"of a negative generation", live(1), stand, -1, noon, false},
		{"before the exchange", issued(), stand, 1, noon, false},
		{"before the exchange, of no generation", issued(), stand, 0, noon, false},
		{"ended", over(), stand, 3, noon, false},
		{"person deactivated", live(1), without(PersonDeactivated), 1, noon, false},
		{"left the organization", live(1), without(LeftOrganization), 1, noon, false},
		{"AI integration off", live(1), without(IntegrationOff), 1, noon, false},
		{"client disabled", live(1), without(ClientDisabled), 1, noon, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.from.Accepts(tt.facts, tt.generation, expires.Unix(), tt.now); got != tt.want {
				t.Errorf("accepted: %t, want %t", got, tt.want)
			}
		})
	}
}

// The row remembers the key of its current refresh token (decision T11), also
// after it ended.
func TestKeyFollowsTheRefreshToken(t *testing.T) {
	a := issued()
	for i, move := range []Move{exchange(noon), Refresh("c1", 1, 9, noon), Refresh("c1", 2, 10, noon)} {
		state, verdict := move(a, stand)
		if verdict != OK || state.Key != 8+i || state.Generation != int64(i+1) {
			t.Fatalf("move %d: %s, %+v", i, verdict, state)
		}
		a.State = state
	}
	if state, _ := End(KeyRetired, noon)(a, stand); state.Key != 10 || state.Generation != 3 {
		t.Errorf("ended: %+v, want key and generation kept", state)
	}
}

// Of N simultaneous refreshes with one token at most one succeeds, and the
// approval then ends (decision T6): each is computed from the row before it.
func TestRefreshAtOnce(t *testing.T) {
	a := live(3)
	var got []Verdict
	for range 8 {
		var v Verdict
		a.State, v = Refresh("c1", 3, 8, noon)(a, stand)
		got = append(got, v)
	}
	if want := []Verdict{OK, Reused, Over, Over, Over, Over, Over, Over}; !slices.Equal(got, want) {
		t.Errorf("verdicts %v, want %v", got, want)
	}
}

func BenchmarkRefresh(b *testing.B) {
	a := live(3)
	b.ReportAllocs()
	for b.Loop() {
		if _, v := Refresh("c1", 3, 8, noon)(a, stand); v != OK {
			b.Fatal(v)
		}
	}
}

func BenchmarkExchange(b *testing.B) {
	a := issued()
	b.ReportAllocs()
	for b.Loop() {
		if _, v := exchange(noon)(a, stand); v != OK {
			b.Fatal(v)
		}
	}
}

func BenchmarkAccepts(b *testing.B) {
	a, expires := live(3), noon.Add(AccessLifetime).Unix()
	b.ReportAllocs()
	for b.Loop() {
		if !a.Accepts(stand, 2, expires, noon) {
			b.Fatal("refused")
		}
	}
}
