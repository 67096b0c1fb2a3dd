package flows

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

var (
	lasting = flag.Duration("for", 5*time.Second, "for how much of the processor's time TestWalks walks")
	seed    = flag.Uint64("seed", 1, "of its first walk")
)

// mostSteps bounds a walk.
const mostSteps = 400

// walked takes a walk through a house. The error is what went wrong.
func (h *house) walked(bytes []byte, n int) (w *walk, err error) {
	w = &walk{h: h, m: &model{given: map[string]*credential{}, forms: map[string]*session{}}, id: fmt.Sprintf("w%d", n), bytes: bytes, events: map[string]int{}}
	defer func() {
		if f, is := recover().(failed); is {
			err = errors.New(f.why)
		} else if err == nil && w == nil {
			panic("unreachable")
		}
	}()
	w.begins()
	for w.read < len(bytes) && w.steps < mostSteps {
		w.step()
	}
	w.ends()
	return w, nil
}

// ends looks at everything that the walk has left.
func (w *walk) ends() {
	w.words = append(w.words, "at the end")
	for _, x := range w.held[max(0, len(w.held)-40):] {
		w.holdsStill(x)
		if x.kind == "access" {
			w.me(x)
		}
	}
	journal := w.operate("GET", fmt.Sprintf("/v1/events?limit=1000&since=%d", w.began), "", 200).body
	for where, text := range map[string]string{"the log": w.h.logged.Take(), "the journal": journal} {
		w.silent(where, text)
	}
}

// silent holds a text to telling nothing that is secret.
func (w *walk) silent(where, text string) {
	for _, secret := range append([]string{"svo_", "svr_", "svc_", verifierMark, stateMark, operatorPW, handoffKey, gatewayKey, "-key-of-", "assertion="}, w.cookies...) {
		if at := strings.Index(text, secret); at >= 0 {
			w.fail("%s tells %.13s: %.200s", where, secret, text[max(0, at-100):])
		}
	}
	for _, bad := range []string{`"level":"ERROR"`, "panic", "DATA RACE"} {
		if at := strings.Index(text, bad); at >= 0 && where == "the log" {
			w.fail("%s has %s: %.500s", where, bad, text[max(0, at-50):])
		}
	}
}

// minimised drops steps as long as a walk fails.
func (h *house) minimised(w *walk, err error, until time.Time) (*walk, error) {
	for changed := true; changed; {
		changed = false
		for size := len(w.cuts) / 2; size >= 1 && time.Now().Before(until); size /= 2 {
			for i := 0; i+size <= len(w.cuts); i++ {
				from, to := w.cuts[i], w.read
				if i+size < len(w.cuts) {
					to = w.cuts[i+size]
				}
				less := slices.Concat(w.bytes[:min(from, len(w.bytes))], w.bytes[min(to, len(w.bytes)):])
				if x, again := h.walked(less, h.next()); again != nil && len(less) < len(w.bytes) {
					w, err, changed = x, again, true
					break
				}
			}
		}
	}
	return w, err
}

// next numbers the walks of all houses of this process.
func (h *house) next() int { walks++; return walks }

var walks int

// report fails with the walk in words.
func (h *house) report(t testing.TB, w *walk, err error) {
	t.Helper()
	steps := w.steps
	w, err = h.minimised(w, err, time.Now().Add(10*time.Second))
	t.Errorf("after %d steps of %d: %v\n%s\nbytes: %q", w.steps, steps, err, strings.Join(w.words, "\n"), w.bytes)
}

// busy is the processor time of this process.
func busy() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// walkFor takes walks of chance for a processor time, and gives what happened in them.
func walkFor(t *testing.T, h *house, seed uint64, most time.Duration) map[string]int {
	t.Helper()
	began, events, steps, start := busy(), map[string]int{}, 0, time.Now()
	for busy()-began < most {
		chance := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
		seed++
		bytes := make([]byte, 600)
		chance.Read(bytes)
		w, err := h.walked(bytes, h.next())
		if err != nil {
			t.Logf("seed %d, after %s, %s of the processor and %d steps", seed-1, time.Since(start).Round(time.Millisecond), (busy() - began).Round(time.Millisecond), steps+w.steps)
			h.report(t, w, err)
			break
		}
		for what, n := range w.events {
			events[what] += n
		}
		steps += w.steps
	}
	events["steps"] = steps
	t.Logf("%d steps in %s, %s of the processor", steps, time.Since(start).Round(time.Millisecond), (busy() - began).Round(time.Millisecond))
	return events
}

// In any order and with any values, the server answers as the contract has it, refusals
// move nothing, and nothing secret is told.
func TestWalks(t *testing.T) {
	h := open(t, "")
	t.Cleanup(h.close)
	events := walkFor(t, h, *seed, *lasting)
	for _, what := range slices.Sorted(maps.Keys(events)) {
		t.Logf("%6d %s", events[what], what)
	}
	for _, what := range []string{"exchange 200 ", "refresh 200 ", "answered 303 access_denied", "revoke 200 ", "call 200", "edit 303", "tool isError true", "tool isError false", "decided true"} {
		if events["steps"] > 2000 && events[what] == 0 {
			t.Errorf("%q never came in %d steps: the walks lead past it", what, events["steps"])
		}
	}
}

// The same on PostgreSQL.
func TestWalksOnPostgres(t *testing.T) {
	pg, err := pgtest.Start()
	if err != nil {
		t.Fatal(err, "- run scripts/setup-debian.sh")
	}
	t.Cleanup(func() { pg.Stop() })
	at, err := pg.Schema()
	must(t, err)
	h := open(t, at)
	t.Cleanup(h.close)
	walkFor(t, h, 1<<16, 2*time.Second)
}

// housed is the house that fuzzed walks share, and how many it has seen: it is left for a
// new one now and then, so that what they leave does not grow.
var housed struct {
	*house
	n int
}

// FuzzFlows walks by any bytes.
func FuzzFlows(f *testing.F) {
	for seed := range 2 {
		bytes := make([]byte, 120)
		rand.NewChaCha8([32]byte{99, byte(seed)}).Read(bytes)
		f.Add(bytes)
	}
	f.Cleanup(func() {
		if housed.house != nil {
			housed.close()
		}
	})
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if housed.n++; housed.house == nil || housed.n%1000 == 0 {
			if housed.house != nil {
				housed.close()
			}
			housed.house = open(t, "")
		}
		if w, err := housed.walked(bytes, housed.next()); err != nil {
			housed.report(t, w, err)
		}
	})
}
