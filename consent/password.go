package consent

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"golang.org/x/crypto/argon2"
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
// costs 19 MiB for a moment, so neither may be unbounded (decision L4).
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
type phc struct {
	memory, passes uint32
	lanes          uint8
	salt, key      []byte
}

// parsePHC reads what Hash wrote. Other costs are read too, as a directory may
// bring them, within bounds that one sign-in may cost.
func parsePHC(s string) (phc, error) {
	part := strings.Split(s, "$")
	if len(part) != 6 || part[0] != "" || part[1] != "argon2id" || part[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return phc{}, errors.New("a stored password is not argon2id")
	}
	var h phc
	if n, err := fmt.Sscanf(part[3], "m=%d,t=%d,p=%d", &h.memory, &h.passes, &h.lanes); n != 3 || err != nil {
		return phc{}, errors.New("a stored password has no costs")
	}
	if h.memory < 8 || h.memory > 64*1024 || h.passes < 1 || h.passes > 10 || h.lanes < 1 || h.lanes > 4 {
		return phc{}, errors.New("a stored password has costs out of bounds")
	}
	var err error
	if h.salt, err = base64.RawStdEncoding.Strict().DecodeString(part[4]); err != nil || len(h.salt) < 8 {
		return phc{}, errors.New("a stored password has a broken salt")
	}
	if h.key, err = base64.RawStdEncoding.Strict().DecodeString(part[5]); err != nil || len(h.key) < 16 || len(h.key) > 64 {
		return phc{}, errors.New("a stored password has a broken key")
	}
	return h, nil
}

// matches reports, in constant time, whether the password is the hashed one.
func (h phc) matches(password string) bool {
	key := argon2.IDKey([]byte(password), h.salt, h.passes, h.memory, h.lanes, uint32(len(h.key)))
	return subtle.ConstantTimeCompare(key, h.key) == 1
}

// nobody stands in where there is no password to compare with, so that an
// unknown account costs what a wrong password costs.
var nobody = phc{
	memory: argonMemory, passes: argonPasses, lanes: argonLanes,
	salt: make([]byte, argonSalt), key: make([]byte, argonKey),
}

// errBusy says that as many passwords wait to be hashed as may.
var errBusy = errors.New("too many sign-ins at once")

// A hasher bounds how many passwords are hashed at once.
type hasher struct {
	slots  chan struct{}
	inside atomic.Int32 // hashing or waiting
}

func newHasher() *hasher { return &hasher{slots: make(chan struct{}, hashing)} }

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
