package signin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/crypto/argon2"

	"github.com/grantkeeper/grantkeeper/identity"
)

// Argon2id with 19 MiB, 2 passes and 1 lane (decision L4).
const (
	argonMemory = 19 * 1024 // KiB
	argonPasses = 2
	argonLanes  = 1
	argonSalt   = 16 // bytes
	argonKey    = 32 // bytes
)

// How many passwords are hashed at once, and how many may wait for that: each
// costs 19 MiB for a moment, or up to 64 where a directory brought such hashes, so
// neither may be unbounded (decision L4).
const (
	hashing = 2
	waiting = 32
)

// Hash gives the PHC string of a password, under a new salt.
func Hash(password string) string {
	salt := make([]byte, argonSalt)
	rand.Read(salt)
	key := argon2.IDKey([]byte(password), salt, argonPasses, argonMemory, argonLanes, argonKey)
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s",
		argon2.Version, argonMemory, argonPasses, argonLanes, b64(salt), b64(key))
}

// Matches reports whether a PHC string is of the password. It costs what Hash
// costs.
func Matches(hash, password string) bool {
	h, err := parsePHC(hash)
	return err == nil && h.matches(password)
}

// phc is a PHC string that was read.
type phc identity.PasswordHash

// ownCosts are those of Hash.
var ownCosts = identity.PasswordCosts{Memory: argonMemory, Passes: argonPasses, Lanes: argonLanes}

// parsePHC reads what Hash wrote. Other costs are read too, as a directory may
// bring them, within bounds that one sign-in may cost.
func parsePHC(s string) (phc, error) {
	h, err := identity.ReadPasswordHash(s)
	if err != nil {
		return phc{}, fmt.Errorf("a stored password: %w", err)
	}
	return phc(h), nil
}

// matches reports, in constant time, whether the password is the hashed one.
func (h phc) matches(password string) bool { return h.matchesBy(argon2.IDKey, password) }

// A derive is the work of one hash: argon2.IDKey, which tests count.
type derive func(password, salt []byte, passes, memory uint32, lanes uint8, keyLen uint32) []byte

func (h phc) matchesBy(d derive, password string) bool {
	key := d([]byte(password), h.Salt, h.Passes, h.Memory, h.Lanes, uint32(len(h.Key)))
	return subtle.ConstantTimeCompare(key, h.Key) == 1
}

// nobody stands in where there is no password of these costs to compare with.
func nobody(costs identity.PasswordCosts) phc {
	return phc{costs, make([]byte, argonSalt), make([]byte, argonKey)}
}

// compare hashes the password once with each of the costs that any stored one
// has, in their order, and with those of Hash: whatever is stored for this
// person, if anything, the work is the same, and so tells nothing (decision
// L4). all are as store.SignIn gives them; unknown costs of stored are not
// among them.
func (h *hasher) compare(stored phc, known bool, all []string, password string) (matches, unknown bool) {
	costs := []identity.PasswordCosts{ownCosts}
	for _, text := range all {
		if c, err := identity.ReadPasswordCosts(text); err == nil && !slices.Contains(costs, c) {
			costs = append(costs, c)
		}
	}
	if unknown = known && !slices.Contains(costs, stored.PasswordCosts); unknown {
		costs = append(costs, stored.PasswordCosts)
	}
	for _, c := range costs {
		if known && c == stored.PasswordCosts {
			matches = stored.matchesBy(h.derive, password)
		} else {
			nobody(c).matchesBy(h.derive, password)
		}
	}
	return matches, unknown
}

// Passwords compares passwords with hashes that others keep, such as operators': a
// few at once, and apart from people's, who cannot keep them out.
type Passwords struct{ hasher *hasher }

func NewPasswords() *Passwords { return &Passwords{newHasher()} }

// ErrBusy says that as many passwords wait to be compared as may.
var ErrBusy = errBusy

// Matches reports whether a PHC string, or "", is of the password, with the same work
// whichever of all it is. The error is ErrBusy or the context's.
func (p *Passwords) Matches(ctx context.Context, phc string, all []string, password string) (bool, error) {
	if err := p.hasher.enter(ctx); err != nil {
		return false, err
	}
	defer p.hasher.leave()
	stored, err := parsePHC(phc)
	matches, _ := p.hasher.compare(stored, err == nil, all, password)
	return matches, nil
}

// errBusy says that as many passwords wait to be hashed as may.
var errBusy = errors.New("too many sign-ins at once")

// A hasher bounds how many passwords are hashed at once.
type hasher struct {
	slots  chan struct{}
	inside atomic.Int32 // hashing or waiting
	derive derive
}

func newHasher() *hasher { return &hasher{slots: make(chan struct{}, hashing), derive: argon2.IDKey} }

// enter waits for a place; leave gives it back.
func (h *hasher) enter(ctx context.Context) error {
	if h.inside.Add(1) > hashing+waiting {
		h.inside.Add(-1)
		return errBusy
	}
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		h.inside.Add(-1)
		return ctx.Err()
	}
}

func (h *hasher) leave() {
	<-h.slots
	h.inside.Add(-1)
}
