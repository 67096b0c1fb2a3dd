package identity

import (
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// PasswordCosts are the parameters of Argon2id (RFC 9106 section 3.1).
type PasswordCosts struct {
	Memory, Passes uint32 // Memory in KiB
	Lanes          uint8
}

// Work that a stored password may cost, in KiB of memory times passes.
const (
	leastRead   = 8       // KiB
	leastMemory = 7 << 10 // KiB
	leastWork   = 35 << 10
	mostMemory  = 64 << 10 // KiB
	mostWork    = 256 << 10
	mostPasses  = 10
	mostLanes   = 4
)

var phcCosts = regexp.MustCompile(`^\$argon2id\$v=19\$m=([1-9]\d{0,5}),t=([1-9]\d?),p=([1-9])\$`)

// ReadPasswordCosts reads the beginning of a PHC string, up to its salt. The
// error says why no sign-in could compare with it.
func ReadPasswordCosts(phc string) (c PasswordCosts, err error) {
	m := phcCosts.FindStringSubmatch(phc)
	if m == nil {
		return c, errors.New("it is not a PHC string of argon2id")
	}
	memory, _ := strconv.ParseUint(m[1], 10, 32) // digits, few enough
	passes, _ := strconv.ParseUint(m[2], 10, 32)
	lanes, _ := strconv.ParseUint(m[3], 10, 8)
	c = PasswordCosts{uint32(memory), uint32(passes), uint8(lanes)}
	if c.Memory < leastRead || c.Memory > mostMemory || c.Passes > mostPasses || c.Lanes > mostLanes {
		return PasswordCosts{}, fmt.Errorf("its costs are out of bounds: m from %d to %d, t to %d, p to %d", leastRead, mostMemory, mostPasses, mostLanes)
	}
	return c, nil
}

// A PasswordHash is a PHC string that was read.
type PasswordHash struct {
	PasswordCosts
	Salt, Key []byte
}

// ReadPasswordHash reads a PHC string of Argon2id. The error says why no
// sign-in could compare with it, and holds none of it.
func ReadPasswordHash(phc string) (h PasswordHash, err error) {
	if h.PasswordCosts, err = ReadPasswordCosts(phc); err != nil {
		return PasswordHash{}, err
	}
	part := strings.Split(phc, "$")
	if len(part) != 6 {
		return PasswordHash{}, errors.New("it is not a PHC string of argon2id")
	}
	if h.Salt, err = base64.RawStdEncoding.Strict().DecodeString(part[4]); err != nil || len(h.Salt) < 8 {
		return PasswordHash{}, errors.New("its salt is no base64 of 8 bytes or more")
	}
	if h.Key, err = base64.RawStdEncoding.Strict().DecodeString(part[5]); err != nil || len(h.Key) < 16 || len(h.Key) > 64 {
		return PasswordHash{}, errors.New("its hash is no base64 of 16 to 64 bytes")
	}
	return h, nil
}

// Weak reports costs below all that OWASP's Password Storage Cheat Sheet calls
// equal: 7 MiB of memory, and 35 MiB times passes.
func (c PasswordCosts) Weak() bool { return c.Memory < leastMemory || c.work() < leastWork }

// CheckImported refuses costs that are too weak to keep, and such that
// everybody's sign-in would be slow for (decision L4).
func (c PasswordCosts) CheckImported() error {
	switch {
	case c.Weak():
		return fmt.Errorf("its costs are too weak: m is at least %d and m*t at least %d", leastMemory, leastWork)
	case c.work() > mostWork:
		return fmt.Errorf("its costs are too high for a sign-in: m*t is at most %d", mostWork)
	}
	return nil
}

func (c PasswordCosts) work() uint32 { return c.Memory * c.Passes }
