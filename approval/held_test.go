package approval

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Two keys that clients may hold.
var (
	held    = Thumbprint{1}
	another = Thumbprint{2}
	noKey   = Thumbprint{}
)

// bound gives an approval that is bound to a key.
func bound(a Approval, to Thumbprint) Approval {
	a.Bound = to
	return a
}

// Decision T15: an exchange binds to the key that is proved, and from then on a refresh
// token moves nothing without that key, whatever it is.
func TestKeysThatAreProved(t *testing.T) {
	soon := after(time.Minute)
	refresh := func(generation int64) Move { return Refresh("c1", generation, 8, soon) }
	state := func(phase Phase, generation int64, key int, to Thumbprint) State {
		return State{Phase: phase, Generation: generation, Key: key, Bound: to}
	}
	over := func(a Approval, why Reason) State {
		s := ended(a, why, soon)
		s.Bound = a.Bound
		return s
	}
	for _, tt := range []struct {
		name    string
		from    Approval
		key     Thumbprint // that is proved
		move    Move
		verdict Verdict
		want    State
	}{
		{"exchange without a key", issued(), noKey, exchange(soon), OK, state(Live, 1, 8, noKey)},
		{"exchange with a key", issued(), held, exchange(soon), OK, state(Live, 1, 8, held)},
		{"exchange of a code for that key", bound(issued(), held), held, exchange(soon), OK, state(Live, 1, 8, held)},
		{"exchange of a code for a key, without one", bound(issued(), held), noKey, exchange(soon), WrongKey, bound(issued(), held).State},
		{"exchange of a code for a key, with another", bound(issued(), held), another, exchange(soon), WrongKey, bound(issued(), held).State},
		{"code for a key, another client and no key", bound(issued(), held), noKey,
			Exchange("c2", issuer, redirect, verifier, noon.Unix(), 8, soon), WrongClient, bound(issued(), held).State},
		{"code for a key, wrong verifier and no key", bound(issued(), held), noKey,
			Exchange("c1", issuer, redirect, challenge, noon.Unix(), 8, soon), WrongVerifier, bound(issued(), held).State},
		{"code that has expired, with its key", bound(issued(), held), held, exchange(after(time.Hour)), Expired, bound(issued(), held).State},

		// Whoever has code and verifier has what the client had, key or no key (decision T5).
		{"used code with its key", bound(live(3), held), held, exchange(soon), Reused, over(bound(live(3), held), CodeReused)},
		{"used code without a key", bound(live(3), held), noKey, exchange(soon), Reused, over(bound(live(3), held), CodeReused)},
		{"used code with another key", bound(live(3), held), another, exchange(soon), Reused, over(bound(live(3), held), CodeReused)},

		{"refresh with the key", bound(live(3), held), held, refresh(3), OK, state(Live, 4, 8, held)},
		{"used refresh token with the key", bound(live(3), held), held, refresh(2), Reused, over(bound(live(3), held), RefreshReused)},
		{"refresh token ahead, with the key", bound(live(3), held), held, refresh(4), Lost, over(bound(live(3), held), StateLost)},
		{"another client with the key", bound(live(3), held), held, Refresh("c2", 3, 8, soon), WrongClient, bound(live(3), held).State},

		{"refresh without a key", bound(live(3), held), noKey, refresh(3), WrongKey, bound(live(3), held).State},
		{"refresh with another key", bound(live(3), held), another, refresh(3), WrongKey, bound(live(3), held).State},
		{"used refresh token without a key", bound(live(3), held), noKey, refresh(2), WrongKey, bound(live(3), held).State},
		{"used refresh token with another key", bound(live(3), held), another, refresh(2), WrongKey, bound(live(3), held).State},
		{"the very first refresh token without a key", bound(live(900), held), noKey, refresh(1), WrongKey, bound(live(900), held).State},
		{"refresh token ahead without a key", bound(live(3), held), noKey, refresh(4), WrongKey, bound(live(3), held).State},
		{"refresh token ahead with another key", bound(live(3), held), another, refresh(1 << 40), WrongKey, bound(live(3), held).State},
		{"refresh token of a code for a key, without one", bound(issued(), held), noKey, refresh(1), WrongKey, bound(issued(), held).State},

		// A key that comes later binds nothing, and takes nothing from the approval.
		{"refresh of one that is bound to none, with a key", live(3), held, refresh(3), OK, state(Live, 4, 8, noKey)},
		{"used refresh token of one that is bound to none, with a key", live(3), held, refresh(2), Reused, over(live(3), RefreshReused)},

		{"end, of one that is bound", bound(live(3), held), noKey, End(RevokedByPerson, soon), OK, over(bound(live(3), held), RevokedByPerson)},
		{"revocation by the client, of one that is bound", bound(live(3), held), noKey, Revoke("c1", soon), OK, over(bound(live(3), held), RevokedByClient)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, verdict := HeldBy(tt.key, tt.move)(tt.from, stand)
			if verdict != tt.verdict || got != tt.want {
				t.Errorf("%s and %+v, want %s and %+v", verdict, got, tt.verdict, tt.want)
			}
			if tt.verdict == WrongKey {
				unmoved(t, tt.from, tt.key, tt.move)
			}
		})
	}
}

// unmoved checks that without its key an approval is moved neither on its end date nor
// when a fact under it is gone, and that its client goes on.
func unmoved(t *testing.T, from Approval, key Thumbprint, move Move) {
	t.Helper()
	past := from
	past.EndsAt = noon.Unix() + 1
	for _, a := range []Approval{from, past} {
		for _, facts := range []Standing{stand, without(ClientDisabled)} {
			if state, verdict := HeldBy(key, move)(a, facts); state != a.State || verdict != WrongKey {
				t.Errorf("ending on %d, under %+v: %s and %+v", a.EndsAt, facts, verdict, state)
			}
		}
	}
	next := Refresh("c1", from.Generation, 8, after(time.Minute))
	if from.Phase == CodeIssued {
		next = exchange(after(time.Minute))
	}
	if _, verdict := HeldBy(held, next)(from, stand); verdict != OK {
		t.Errorf("then the right request: %s, want ok", verdict)
	}
}

// A verdict that uses a proof up is one for whoever has proved all that is asked for.
func TestVerdictsThatUseAProofUp(t *testing.T) {
	for v, name := range verdicts {
		want := v == int(OK) || v == int(Reused) || v == int(Lost)
		if got := Verdict(v).Proven(); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// With its key an approval moves as one without any does, and without it no refresh token
// moves it, in whatever state both are.
func TestAKeyChangesNothingElse(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 2))
	for range 20_000 {
		a := issued()
		a.Phase = Phase(1 + random.IntN(3))
		if a.Generation = random.Int64N(4); a.Phase == Live {
			a.Generation++
		}
		if a.Phase == Ended {
			a.State = ended(a, RevokedByAdmin, noon)
		}
		a.EndsAt = []int64{0, noon.Unix() + random.Int64N(900)}[random.IntN(2)]
		facts := []Standing{stand, without(LeftOrganization)}[random.IntN(2)]
		now := after(time.Duration(random.IntN(600)) * time.Second)
		client := []string{"c1", "c2"}[min(random.IntN(8), 1)^1]
		proof := []string{verifier, challenge}[random.IntN(2)]
		refresh := Refresh(client, random.Int64N(6), 8, now)
		for name, m := range map[string]Move{
			"exchange": Exchange(client, issuer, redirect, proof, noon.Unix()+random.Int64N(3)-1, 8, now),
			"refresh":  refresh, "revoke": Revoke(client, now), "end": End(RevokedByPerson, now),
		} {
			want, v := m(a, facts)
			want.Bound = held
			if got, w := HeldBy(held, m)(bound(a, held), facts); got != want || w != v {
				t.Fatalf("seed %d: %s of %+v with its key: %s, %+v; without any %s, %+v", seed, name, a.State, w, got, v, want)
			}
		}
		for _, key := range []Thumbprint{noKey, another} {
			if got, v := HeldBy(key, refresh)(bound(a, held), facts); got != bound(a, held).State || v != WrongKey && v != WrongClient {
				t.Fatalf("seed %d: a refresh of %+v without its key: %s, %+v", seed, a.State, v, got)
			}
		}
	}
}
