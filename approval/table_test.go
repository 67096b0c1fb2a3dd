package approval

import (
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/grantset"
)

// The approval of these tests: ann's, for client c1, with a code that was
// issued at noon. Every state begins from it.
const (
	verifier  = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk" // RFC 7636 appendix B
	challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
	issuer    = "https://service.example"
	redirect  = "https://client.example/back"
)

var (
	noon  = time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
	born  = Epochs{Membership: 4, Person: 3, Organization: 2, Client: 1}
	stand = Standing(born)
)

func after(d time.Duration) time.Time { return noon.Add(d) }

// issued gives the approval before its exchange.
func issued() Approval {
	return Approval{
		ID: ID{1}, Client: "c1", Person: "ann", Organization: "acme",
		Grant:       grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "r1", Change: true}}},
		RedirectURI: redirect, Issuer: issuer, Challenge: challenge,
		IssuedAt: noon.Unix(), CreatedAt: noon.Unix(), Born: born,
		State: State{Phase: CodeIssued},
	}
}

// live gives the approval exchanged, its refresh token in this generation and
// sealed with key 7.
func live(generation int64) Approval {
	a := issued()
	a.State = State{Phase: Live, Generation: generation, Key: 7}
	return a
}

// over gives the approval ended a minute after noon, by its person.
func over() Approval {
	a := live(3)
	a.State = ended(a, RevokedByPerson, after(time.Minute))
	return a
}

// ended gives the state of the approval after it ended so.
func ended(a Approval, why Reason, at time.Time) State {
	return State{Phase: Ended, Generation: a.Generation, Key: a.Key, Reason: why, EndedAt: at.Unix()}
}

// exchange is the right request with the code, sealed with key 8.
func exchange(now time.Time) Move {
	return Exchange("c1", issuer, redirect, verifier, noon.Unix(), 8, now)
}

// without gives the facts after one of them has ended.
func without(fact Reason) Standing {
	s := stand
	switch fact {
	case PersonDeactivated:
		s.Person++
	case LeftOrganization:
		s.Membership++
	case IntegrationOff:
		s.Organization++
	case ClientDisabled:
		s.Client++
	default:
		panic(fact)
	}
	return s
}

// Section 3 of the contract, row for row and in its words. Its first two rows
// are about clients ("Client, registered, 14 days pass" and "Client,
// registered, person approves at consent") and are tested in package client.
// A row without a move is one of time, or of what happens outside.
func TestContractTable(t *testing.T) {
	const minute = time.Minute
	tests := []struct {
		object, state, trigger string
		from                   Approval
		facts                  Standing
		move                   Move
		now                    time.Time // of the move, or when it is looked at
		want                   State
		verdict                Verdict
		// Whether an access token, issued at noon with the generation of from,
		// worked at noon and works now.
		worked, works bool
	}{
		{"authorization code", "issued", "redirect back to the client", issued(), stand,
			nil, noon, State{Phase: CodeIssued}, 0, false, false},
		// A person who cancels has no approval: "none issued" is a row that is
		// never made. One that cancels after approving ends it (decision A12).
		{"authorization code", "issued", "person cancels", issued(), stand,
			End(RevokedByPerson, after(minute)), after(minute), ended(issued(), RevokedByPerson, after(minute)), OK, false, false},
		{"authorization code", "issued", "token exchange", issued(), stand,
			exchange(after(minute)), after(minute), State{Phase: Live, Generation: 1, Key: 8}, OK, false, true},
		{"authorization code", "issued", "5 minutes pass", issued(), stand,
			exchange(after(5 * minute)), after(5 * minute), State{Phase: CodeIssued}, Expired, false, false},
		{"access token", "valid", "30 minutes pass", live(3), stand,
			nil, after(30 * minute), live(3).State, 0, true, false},
		{"refresh token", "current", "refresh-token grant", live(3), stand,
			Refresh("c1", 3, 8, after(minute)), after(minute), State{Phase: Live, Generation: 4, Key: 8}, OK, true, true},
		{"refresh token", "used", "presented again", live(3), stand,
			Refresh("c1", 2, 8, after(minute)), after(minute), ended(live(3), RefreshReused, after(minute)), Reused, true, false},
		{"approval's tokens", "valid", "client calls the revocation endpoint with one of its own tokens", live(3), stand,
			Revoke("c1", after(minute)), after(minute), ended(live(3), RevokedByClient, after(minute)), OK, true, false},
		{"approval's tokens", "valid", "person revokes the client under Connected apps", live(3), stand,
			End(RevokedByPerson, after(minute)), after(minute), ended(live(3), RevokedByPerson, after(minute)), OK, true, false},
		{"approval's tokens", "valid", "person leaves or is removed from the organization", live(3), without(LeftOrganization),
			End(LeftOrganization, after(minute)), after(minute), ended(live(3), LeftOrganization, after(minute)), Over, true, false},
		{"approval's tokens", "valid", "person's account is deactivated", live(3), without(PersonDeactivated),
			End(PersonDeactivated, after(minute)), after(minute), ended(live(3), PersonDeactivated, after(minute)), Over, true, false},
		{"approval's tokens", "valid", "the service disables the client", live(3), without(ClientDisabled),
			End(ClientDisabled, after(minute)), after(minute), ended(live(3), ClientDisabled, after(minute)), Over, true, false},
		// Not in the contract; the same by decision P7.
		{"approval's tokens", "valid", "AI integration is switched off in the organization", live(3), without(IntegrationOff),
			End(IntegrationOff, after(minute)), after(minute), ended(live(3), IntegrationOff, after(minute)), Over, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.object+"/"+tt.state+"/"+tt.trigger, func(t *testing.T) {
			generation, expires := max(tt.from.Generation, 1), noon.Add(AccessLifetime).Unix()
			if got := tt.from.Accepts(stand, generation, expires, noon); got != tt.worked {
				t.Errorf("access token worked: %t, want %t", got, tt.worked)
			}
			a := tt.from
			if tt.move != nil {
				var verdict Verdict
				if a.State, verdict = tt.move(a, tt.facts); verdict != tt.verdict {
					t.Errorf("verdict %s, want %s", verdict, tt.verdict)
				}
			}
			if a.State != tt.want {
				t.Errorf("state %+v, want %+v", a.State, tt.want)
			}
			if got := a.Accepts(tt.facts, generation, expires, tt.now); got != tt.works {
				t.Errorf("access token works: %t, want %t", got, tt.works)
			}
			if a.Phase == Ended {
				stayEnded(t, a)
			}
		})
	}
}

// stayEnded checks what the contract says below the table: the API answers 401
// and a refresh fails, whatever the facts are by then (decision P10).
func stayEnded(t *testing.T, a Approval) {
	t.Helper()
	later := after(2 * time.Minute)
	for name, move := range map[string]Move{
		"current refresh token": Refresh("c1", a.Generation, 8, later), "used refresh token": Refresh("c1", a.Generation-1, 8, later),
		"refresh token ahead": Refresh("c1", a.Generation+1, 8, later), "code": exchange(later),
		"revocation": Revoke("c1", later), "end": End(RevokedByAdmin, later),
	} {
		for _, facts := range []Standing{stand, without(ClientDisabled)} {
			if state, verdict := move(a, facts); state != a.State || verdict != Over {
				t.Errorf("%s: %s and %+v, want over and nothing moved", name, verdict, state)
			}
		}
	}
	for generation := range a.Generation + 2 {
		if a.Accepts(stand, generation, later.Add(time.Hour).Unix(), later) {
			t.Errorf("an access token of generation %d works", generation)
		}
	}
}

// What is refused and uses nothing up (decision T4): nothing moves, and the
// right request, where there is one, still gets its answer.
func TestRefusalsMoveNothing(t *testing.T) {
	soon := after(time.Minute)
	wrong := func(client, on, to, proof string) Move {
		return Exchange(client, on, to, proof, noon.Unix(), 8, soon)
	}
	older := func(a Approval) Approval { // the page was answered again at noon
		a.CreatedAt -= 240
		return a
	}
	code := func(issued int64) Move { return Exchange("c1", issuer, redirect, verifier, issued, 8, soon) }
	right, next := exchange(soon), Refresh("c1", 3, 8, soon)
	tests := []struct {
		name    string
		from    Approval
		facts   Standing
		move    Move
		verdict Verdict
		then    Move // still OK after it
	}{
		{"code, another client", issued(), stand, wrong("c2", issuer, redirect, verifier), WrongClient, right},
		{"code, another client with everything wrong", issued(), stand, wrong("c2", "", "", ""), WrongClient, right},
		{"code, no client", issued(), stand, wrong("", issuer, redirect, verifier), WrongClient, right},
		{"code, client in another case", issued(), stand, wrong("C1", issuer, redirect, verifier), WrongClient, right},
		{"code, on another host", issued(), stand, wrong("c1", "https://other.example", redirect, verifier), WrongIssuer, right},
		{"code, on another host with the rest wrong", issued(), stand, wrong("c1", "", "", ""), WrongIssuer, right},
		{"code, another redirect URI", issued(), stand, wrong("c1", issuer, redirect+"/", verifier), WrongRedirect, right},
		{"code, no redirect URI", issued(), stand, wrong("c1", issuer, "", verifier), WrongRedirect, right},
		{"code, another redirect URI and a wrong verifier", issued(), stand, wrong("c1", issuer, "", ""), WrongRedirect, right},
		{"code, wrong verifier", issued(), stand, wrong("c1", issuer, redirect, verifier[1:]+"x"), WrongVerifier, right},
		{"code, no verifier", issued(), stand, wrong("c1", issuer, redirect, ""), WrongVerifier, right},
		{"code, the challenge as verifier", issued(), stand, wrong("c1", issuer, redirect, challenge), WrongVerifier, right},

		// Decision T5: whoever cannot prove possession punishes nobody.
		{"used code, another client", live(3), stand, wrong("c2", issuer, redirect, verifier), WrongClient, next},
		{"used code, on another host", live(3), stand, wrong("c1", "https://other.example", redirect, verifier), WrongIssuer, next},
		{"used code, another redirect URI", live(3), stand, wrong("c1", issuer, redirect+"/", verifier), WrongRedirect, next},
		{"used code, wrong verifier", live(3), stand, wrong("c1", issuer, redirect, verifier[1:]+"x"), WrongVerifier, next},

		{"code of an ended approval", over(), stand, right, Over, nil},
		{"code of an ended approval, another client", over(), stand, wrong("c2", issuer, redirect, verifier), WrongClient, nil},
		{"code of an ended approval, on another host", over(), stand, wrong("c1", "", redirect, verifier), WrongIssuer, nil},
		{"code of an ended approval, another redirect URI", over(), stand, wrong("c1", issuer, "", verifier), WrongRedirect, nil},
		{"code of an ended approval, wrong verifier", over(), stand, wrong("c1", issuer, redirect, "x"), WrongVerifier, nil},

		// Decision A12: the code that the same page gave before.
		{"older code", older(issued()), stand, code(noon.Unix() - 240), Expired, right},
		{"older code, one second", older(issued()), stand, code(noon.Unix() - 1), Expired, right},
		{"older code, after the newer was used", older(live(3)), stand, code(noon.Unix() - 240), Expired, next},
		{"older code of an ended approval", older(over()), stand, code(noon.Unix() - 240), Over, nil},
		{"code from the future of an ended approval", over(), stand, code(noon.Unix() + 1), Over, nil},

		{"refresh token, another client", live(3), stand, Refresh("c2", 3, 8, soon), WrongClient, next},
		{"refresh token, no client", live(3), stand, Refresh("", 3, 8, soon), WrongClient, next},
		{"used refresh token, another client", live(3), stand, Refresh("c2", 2, 8, soon), WrongClient, next},
		{"refresh token ahead, another client", live(3), stand, Refresh("c2", 4, 8, soon), WrongClient, next},
		{"refresh token of a never exchanged approval, another client", issued(), stand, Refresh("c2", 1, 8, soon), WrongClient, right},
		{"generation 0 of a never exchanged approval", issued(), stand, Refresh("c1", 0, 8, soon), Over, right},
		{"a generation that no token has, never exchanged", issued(), stand, Refresh("c1", -1, 8, soon), Over, right},
		{"refresh token of an ended approval", over(), stand, Refresh("c1", 3, 8, soon), Over, nil},
		{"used refresh token of an ended approval", over(), stand, Refresh("c1", 2, 8, soon), Over, nil},
		{"refresh token ahead of an ended approval", over(), stand, Refresh("c1", 4, 8, soon), Over, nil},
		{"refresh token of an ended approval, another client", over(), stand, Refresh("c2", 3, 8, soon), WrongClient, nil},

		// Decision T9: another client's token is refused, dead or alive.
		{"revocation, another client, before the exchange", issued(), stand, Revoke("c2", soon), WrongClient, right},
		{"revocation, another client", live(3), stand, Revoke("c2", soon), WrongClient, next},
		{"revocation, no client", live(3), stand, Revoke("", soon), WrongClient, next},
		{"revocation of an ended approval, another client", over(), stand, Revoke("c2", soon), WrongClient, nil},
		{"revocation of an ended approval", over(), stand, Revoke("c1", soon), Over, nil},
		{"end of an ended approval", over(), stand, End(RevokedByOperator, soon), Over, nil},

		// Nor does a stranger's request write down that a fact was lost.
		{"fact lost, code, another client", issued(), without(ClientDisabled), wrong("c2", issuer, redirect, verifier), WrongClient, nil},
		{"fact lost, code, wrong verifier", issued(), without(ClientDisabled), wrong("c1", issuer, redirect, ""), WrongVerifier, nil},
		{"fact lost, refresh token, another client", live(3), without(ClientDisabled), Refresh("c2", 3, 8, soon), WrongClient, nil},
		{"fact lost, revocation, another client", live(3), without(ClientDisabled), Revoke("c2", soon), WrongClient, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := tt.from
			for range 2 { // as often as one likes
				state, verdict := tt.move(a, tt.facts)
				if verdict != tt.verdict {
					t.Errorf("verdict %s, want %s", verdict, tt.verdict)
				}
				if state != tt.from.State {
					t.Errorf("state %+v, want %+v", state, tt.from.State)
				}
				a.State = state
			}
			if tt.then == nil {
				return
			}
			if _, verdict := tt.then(a, stand); verdict != OK {
				t.Errorf("then the right request: %s, want ok", verdict)
			}
		})
	}
}

// What ends an approval although it is refused.
func TestPunishments(t *testing.T) {
	soon, late := after(time.Minute), after(365*24*time.Hour)
	future := Exchange("c1", issuer, redirect, verifier, noon.Unix()+1, 8, soon)
	tests := []struct {
		name    string
		from    Approval
		move    Move
		verdict Verdict
		why     Reason
		at      time.Time
	}{
		{"used code", live(1), exchange(soon), Reused, CodeReused, soon},
		{"used code, many refreshes later", live(1000), exchange(soon), Reused, CodeReused, soon},
		{"used code, a year later", live(9), exchange(late), Reused, CodeReused, late},
		{"used refresh token, a year later", live(3), Refresh("c1", 2, 8, late), Reused, RefreshReused, late},
		{"the very first refresh token after 1,000 rotations", live(1001), Refresh("c1", 1, 8, soon), Reused, RefreshReused, soon},
		{"the first of two", live(2), Refresh("c1", 1, 8, soon), Reused, RefreshReused, soon},

		// Decision T13: from a future that the database no longer knows.
		{"refresh token ahead by one", live(3), Refresh("c1", 4, 8, soon), Lost, StateLost, soon},
		{"refresh token far ahead", live(3), Refresh("c1", 1<<40, 8, soon), Lost, StateLost, soon},
		{"refresh token of an exchange that was forgotten", issued(), Refresh("c1", 1, 8, soon), Lost, StateLost, soon},
		{"the same after the code's 5 minutes", issued(), Refresh("c1", 1, 8, late), Lost, StateLost, late},
		{"code of an answer that was forgotten", issued(), future, Lost, StateLost, soon},
		{"the same after the exchange", live(3), future, Lost, StateLost, soon},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := tt.from
			state, verdict := tt.move(a, stand)
			if verdict != tt.verdict {
				t.Errorf("verdict %s, want %s", verdict, tt.verdict)
			}
			if want := ended(tt.from, tt.why, tt.at); state != want {
				t.Errorf("state %+v, want %+v", state, want)
			}
			a.State = state
			stayEnded(t, a)
		})
	}
}

// Cases T-01, T-02 and T-03: a code works for exactly 5 minutes, and one that
// waited too long harms nothing.
func TestCodeLifetime(t *testing.T) {
	if CodeLifetime != 300*time.Second || AccessLifetime != 1800*time.Second {
		t.Errorf("a code lives %s and an access token %s", CodeLifetime, AccessLifetime)
	}
	for second, want := range map[int]Verdict{0: OK, 299: OK, 300: Expired, 301: Expired, 86400: Expired} {
		now := after(time.Duration(second) * time.Second)
		a := issued()
		for range 2 {
			state, verdict := exchange(now)(a, stand)
			if verdict != want {
				t.Errorf("after %d s: %s, want %s", second, verdict, want)
			}
			if want == OK {
				break
			}
			if state != issued().State {
				t.Errorf("after %d s: %+v, want nothing moved", second, state)
			}
			a.State = state
		}
	}
	// A part of a second does not count.
	if _, verdict := exchange(after(300*time.Second-time.Nanosecond))(issued(), stand); verdict != OK {
		t.Errorf("in the last second: %s", verdict)
	}
}

// A code that expired is what ended the approval, whoever notices it first.
func TestEndAfterCodeExpired(t *testing.T) {
	for second, want := range map[int]struct {
		why     Reason
		at      int
		verdict Verdict
	}{
		299:  {RevokedByPerson, 299, OK},
		300:  {NeverConnected, 300, Over},
		301:  {NeverConnected, 300, Over},
		9000: {NeverConnected, 300, Over},
	} {
		now := after(time.Duration(second) * time.Second)
		state, verdict := End(RevokedByPerson, now)(issued(), stand)
		if verdict != want.verdict || state != ended(issued(), want.why, after(time.Duration(want.at)*time.Second)) {
			t.Errorf("after %d s: %s, %+v", second, verdict, state)
		}
		if shown := issued().At(stand, now); want.verdict == Over && shown != state {
			t.Errorf("after %d s shown as %+v, and written as %+v", second, shown, state)
		}
	}
	// One that was exchanged never expires so.
	if state, verdict := End(RevokedByPerson, after(time.Hour))(live(1), stand); verdict != OK || state.Reason != RevokedByPerson {
		t.Errorf("live: %s, %+v", verdict, state)
	}
}

// A lost fact ends the approval at the next move, whatever the move, and says
// which fact it was. A fact that was lost before is the truer reason.
func TestLostFacts(t *testing.T) {
	soon := after(time.Minute)
	facts := []Reason{PersonDeactivated, LeftOrganization, IntegrationOff, ClientDisabled}
	for i, fact := range facts {
		for _, a := range []Approval{issued(), live(3)} {
			for name, move := range map[string]Move{
				"exchange": exchange(soon), "exchange of a code from the future": Exchange("c1", issuer, redirect, verifier, noon.Unix()+9, 8, soon),
				"exchange of an older code": Exchange("c1", issuer, redirect, verifier, noon.Unix()-9, 8, soon),
				"refresh":                   Refresh("c1", a.Generation, 8, soon), "refresh with a used token": Refresh("c1", a.Generation-1, 8, soon),
				"refresh ahead": Refresh("c1", a.Generation+1, 8, soon),
				"revocation":    Revoke("c1", soon), "end": End(RevokedByAdmin, soon),
			} {
				state, verdict := move(a, without(fact))
				if verdict != Over || state != ended(a, fact, soon) {
					t.Errorf("%s with %s, phase %d: %s, %+v", name, fact, a.Phase, verdict, state)
				}
			}
			if got := a.Lost(without(fact)); got != fact {
				t.Errorf("lost %q, want %q", got, fact)
			}
		}
		// Of several, the first of the list is told.
		all := without(fact)
		for _, other := range facts[i:] {
			more := without(other)
			all.Person = max(all.Person, more.Person)
			all.Membership = max(all.Membership, more.Membership)
			all.Organization = max(all.Organization, more.Organization)
			all.Client = max(all.Client, more.Client)
		}
		if got := live(1).Lost(all); got != fact {
			t.Errorf("of %v the reason is %q, want %q", facts[i:], got, fact)
		}
	}
	if got := live(1).Lost(stand); got != "" {
		t.Errorf("lost %q while all stand", got)
	}
	// An epoch that went back is no better than one that grew (decision T13).
	for _, s := range []Standing{{4, 2, 2, 1}, {3, 3, 2, 1}, {4, 3, 1, 1}, {4, 3, 2, 0}, {}} {
		if live(1).Lost(s) == "" {
			t.Errorf("nothing lost with %+v, born with %+v", s, born)
		}
	}
}
