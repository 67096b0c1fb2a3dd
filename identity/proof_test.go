package identity

import (
	"testing"
	"time"
)

// What a session has proved counts for a while, and for nothing that it has not.
func TestProof(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	const within = 10 * time.Minute
	ago := func(d time.Duration) int64 { return now.Add(-d).Unix() }
	if first := time.Unix(1, 0); recent(0, within, first) || !recent(1, within, first) {
		t.Error("what was never is 0, and what was in the first second is 1")
	}
	for name, tt := range map[string]struct {
		p              Proof
		proved, factor bool
		fresh          Demand // of strong approvals
		without, with  Demand // that ask for a factor, of who has none, and of who has one
	}{
		"nothing":                    {Proof{}, false, false, DemandAgain, DemandFactor, DemandAgain},
		"a password, just now":       {Proof{ProvedAt: ago(0)}, true, false, DemandNothing, DemandFactor, DemandAgain},
		"a password, a second short": {Proof{ProvedAt: ago(within - time.Second)}, true, false, DemandNothing, DemandFactor, DemandAgain},
		"a password, too long ago":   {Proof{ProvedAt: ago(within)}, false, false, DemandAgain, DemandFactor, DemandAgain},
		"both":                       {Proof{ProvedAt: ago(1), FactorAt: ago(1)}, true, true, DemandNothing, DemandNothing, DemandNothing},
		"both, too long ago":         {Proof{ProvedAt: ago(within), FactorAt: ago(within)}, false, false, DemandAgain, DemandFactor, DemandAgain},
		"a factor alone":             {Proof{FactorAt: ago(1)}, true, true, DemandNothing, DemandNothing, DemandNothing},
		"a provider, just now":       {Proof{ProvedAt: ago(0), Issuer: "i"}, true, false, DemandNothing, DemandFactor, DemandFactor},
		"a provider, long ago":       {Proof{ProvedAt: 1, Issuer: "i"}, false, false, DemandAgain, DemandAgain, DemandAgain},
		"a provider with a factor":   {Proof{ProvedAt: ago(0), FactorAt: ago(0), Issuer: "i"}, true, true, DemandNothing, DemandNothing, DemandNothing},
	} {
		if got := tt.p.Proved(within, now); got != tt.proved {
			t.Errorf("%s: proved is %v", name, got)
		}
		if got := tt.p.Factor(within, now); got != tt.factor {
			t.Errorf("%s: factor is %v", name, got)
		}
		for _, hasFactor := range []bool{false, true} {
			if got := tt.p.Strong(false, hasFactor, within, now); got != tt.fresh {
				t.Errorf("%s: fresh demands %v, want %v", name, got, tt.fresh)
			}
		}
		if got := tt.p.Strong(true, false, within, now); got != tt.without {
			t.Errorf("%s: a factor, of who has none: %v, want %v", name, got, tt.without)
		}
		if got := tt.p.Strong(true, true, within, now); got != tt.with {
			t.Errorf("%s: a factor, of who has one: %v, want %v", name, got, tt.with)
		}
	}
}
