package approval

import (
	oldrand "math/rand"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/quick"
	"time"
)

// Refresh asks nothing of an approval that has no end date behind it but what its
// token tells, and which facts stand: whatever else is in the row, verdict and next state are the same. The
// store saves refreshes by the token alone (store/refreshing.go), so a rule that
// asks for more, such as the approval's age, has to read the row first.
func TestRefreshAsksWhatTheTokenTells(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	values := oldrand.New(oldrand.NewSource(int64(seed)))
	now := time.Unix(1_800_000_000, 0)
	for range 5_000 {
		expected := Expected(ID{1}, "c1", 1+random.Int64N(4))
		expected.Phase = Phase(1 + random.IntN(3))
		full := expected
		fields := reflect.ValueOf(&full).Elem()
		for i := range fields.NumField() {
			switch name := fields.Type().Field(i).Name; name {
			case "Client", "Born", "State": // the facts under it are asked for
			case "EndsAt": // and that it is later, where there is one
				full.EndsAt = []int64{0, now.Unix() + 1, now.Unix() + 1<<40}[random.IntN(3)]
			default:
				v, ok := quick.Value(fields.Field(i).Type(), values)
				if !ok {
					t.Fatalf("no value for %s", name)
				}
				fields.Field(i).Set(v)
			}
		}
		full.Network, full.Key = uint16(random.Uint32()), random.IntN(9)
		standing := Standing{}
		if random.IntN(4) == 0 {
			standing.Person = 1
		}
		presented := 1 + random.Int64N(4)
		a, v := Refresh("c1", presented, 7, now)(expected, standing)
		b, w := Refresh("c1", presented, 7, now)(full, standing)
		// What stays or ends keeps network and key as they are.
		b.Network, b.Key = a.Network, a.Key
		if v != w || a != b {
			t.Fatalf("seed %d: %+v gives %v %+v, and with all of the row %v %+v", seed, expected, v, a, w, b)
		}
	}
}

// GivenTo notes a network where a new token is given, and nowhere else.
func TestGivenTo(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	a := Expected(ID{1}, "c1", 3)
	a.Network = 5
	for name, tt := range map[string]struct {
		m    Move
		want uint16
	}{
		"a refresh": {Refresh("c1", 3, 7, now), 9},
		"a refusal": {Refresh("c2", 3, 7, now), 5},
		"an end":    {End(RevokedByPerson, now), 5},
	} {
		if next, _ := GivenTo(9, tt.m)(a, Standing{}); next.Network != tt.want {
			t.Errorf("%s: network %d, want %d", name, next.Network, tt.want)
		}
	}
}
