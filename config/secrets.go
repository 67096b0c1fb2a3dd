package config

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/gateway"
	"github.com/grantkeeper/grantkeeper/token"
)

// MinPassword is the least length of the operators' password, in characters.
const MinPassword = 8

// mostSecret bounds files of keys and passwords.
const mostSecret = 64 << 10

// readSecret reads a small file that nobody but its owner may read or write; what is
// root's may be read by the group of this process as well.
func readSecret(what, name, hint string) ([]byte, error) {
	return readSecretUnless(nil, what, name, hint)
}

// readSecretUnless is readSecret, but that anybody may read what is public. The file is
// judged as it was opened and read, once: another may take its name meanwhile.
func readSecretUnless(public func([]byte) bool, what, name, hint string) ([]byte, error) {
	f, info, err := openRegular(name)
	var b []byte
	if err == nil {
		b, err = readAll(f, mostSecret)
	}
	switch {
	case name == "":
		return nil, fault.BadConfig(hint, "%s: there is none", what)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.BadConfig(hint, "%s: there is no file %s", what, name)
	case err != nil:
		return nil, fault.BadConfig(ifDenied(err, hint), "%s: %v", what, err)
	case open(info, os.Getegid()) && (public == nil || !public(b)):
		return nil, fault.BadConfig("chmod 600 "+name, "%s: others than its owner may read %s (mode %04o)", what, name, info.Mode().Perm())
	}
	return b, nil
}

// open says whether others than the owner, and root, may read or write a file. The
// process's own group may read what is root's: so a container gets its secrets, whose
// files Kubernetes gives to nobody but root and a group (fsGroup).
func open(info fs.FileInfo, group int) bool {
	mode := info.Mode().Perm()
	of, ok := info.Sys().(*syscall.Stat_t)
	if ok && of.Uid == 0 && int(of.Gid) == group && group != 0 {
		mode &^= 0o040
	}
	return mode&0o077 != 0
}

// ifDenied is what mends a file that cannot be read: another user, where it is
// there and this one may not.
func ifDenied(err error, hint string) string {
	if errors.Is(err, fs.ErrPermission) {
		return "run grantkeeper as the user who owns it"
	}
	return hint
}

func ReadPassword(name string) (string, error) {
	b, err := readSecret("operator.password_file", name, "make one: (umask 077; openssl rand -base64 18 > "+name+")")
	if err != nil {
		return "", err
	}
	password := strings.TrimRight(string(b), "\r\n")
	if utf8.RuneCountInString(password) < MinPassword || strings.ContainsAny(password, "\r\n") {
		return "", fault.BadConfig("write one line into it", "operator.password_file: %s has not one line of at least %d characters", name, MinPassword)
	}
	return password, nil
}

// readDatabaseURL reads a URL that may have a password, and never repeats it.
func readDatabaseURL(name string) (string, error) {
	const what, hint = "database.url_file", "write one line into it: postgres://user:password@host:5432/database"
	b, err := readSecret(what, name, hint)
	if err != nil {
		return "", err
	}
	address := strings.TrimSpace(string(b))
	if address == "" || strings.ContainsAny(address, "\r\n") {
		return "", fault.BadConfig(hint, "%s: %s has not one line", what, name)
	}
	return address, nil
}

const makeGatewayKey = "run: openssl rand -hex 32 > FILE, and chmod 600 FILE"

// readGatewayKey reads a key that also stands in a header: one line of text.
func readGatewayKey(what, name string) (string, error) {
	b, err := readSecret(what, name, makeGatewayKey)
	if err != nil {
		return "", err
	}
	return keyOfGateway(what, name, b)
}

// keyOfGateway is such a key, of what its file holds.
func keyOfGateway(what, name string, b []byte) (string, error) {
	secret := strings.TrimRight(string(b), "\r\n")
	if err := gateway.CheckSecret(secret); err != nil {
		return "", fault.BadConfig(makeGatewayKey, "%s: %s: %v", what, name, err)
	}
	return secret, nil
}

// BadKeyFile says how to mend a key file that cannot be read: a new key would
// open nothing of what there is.
const BadKeyFile = "correct it, or bring back the one that the database was made with; if that is nowhere, move this one away: grantkeeper keys replace-lost"

// NoKeyFile says what to do where there is none, or something else, but not for a new
// installation.
const NoKeyFile = "bring back the one that the database was made with, and if it is nowhere: grantkeeper keys replace-lost; for a new installation: "

const noKeyFile = NoKeyFile + "grantkeeper init"

// ReadKeys reads the key file of a server.
func ReadKeys(name string) ([]*token.Key, error) {
	return ReadKeysOr(name, noKeyFile, BadKeyFile)
}

// ReadKeysOr is ReadKeys for whoever has other words for what to do where there is no key file,
// and where it is bad.
func ReadKeysOr(name, none, bad string) ([]*token.Key, error) {
	b, err := readSecret("secret_key_file", name, none)
	if err != nil {
		return nil, err
	}
	keys, err := parseKeys(b)
	if err != nil {
		return nil, fault.BadConfig(bad, "secret_key_file: %s: %v", name, err)
	}
	return keys, nil
}

// parseKeys reads a key file (decision T11): 32 random bytes, as they are or
// in base64 or hexadecimal; or lines N:base64, one for each numbered key. All
// of them open; until a rotation names another one, the first seals. Lines that
// begin with # are comments.
func parseKeys(b []byte) ([]*token.Key, error) {
	all, err := parseSecrets(b)
	if err != nil {
		return nil, err
	}
	var keys []*token.Key
	for _, s := range all {
		keys = append(keys, token.NewKey(s.Number, s.Secret))
	}
	return keys, nil
}

// NumberedKey is one key of a key file.
type NumberedKey struct {
	Number int
	Secret [32]byte
}

func parseSecrets(b []byte) ([]NumberedKey, error) {
	if len(b) == 32 {
		// Of 32 random bytes some are no text, so 32 letters are a mistake.
		if !bytes.ContainsFunc(b, func(r rune) bool { return r < ' ' || r > '~' }) {
			return nil, errors.New("32 characters of text are not 32 random bytes")
		}
		one, err := oneKey(1, b)
		return []NumberedKey{one}, err
	}
	var keys []NumberedKey
	single := false // a key without a number stands alone
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		number, text, hasNumber := strings.Cut(line, ":")
		n := 1
		if hasNumber {
			var err error
			if n, err = strconv.Atoi(number); err != nil || n < 1 || n > 1<<30 || strconv.Itoa(n) != number {
				return nil, errors.New("a line does not begin with the number of a key")
			}
		} else {
			text = line
		}
		raw, ok := decodeKey(text)
		if !ok {
			return nil, errors.New("a key is not 32 bytes in base64 or hexadecimal")
		}
		if single = single || !hasNumber; single && len(keys) > 0 {
			return nil, errors.New("several keys need numbers, N:base64")
		}
		key, err := oneKey(n, raw)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key in it")
	}
	return keys, nil
}

func oneKey(number int, raw []byte) (NumberedKey, error) {
	if bytes.Count(raw, raw[:1]) == len(raw) {
		return NumberedKey{}, fmt.Errorf("key %d is one byte repeated, not random", number)
	}
	return NumberedKey{number, [32]byte(raw)}, nil
}

func decodeKey(s string) ([]byte, bool) {
	if b, err := hex.DecodeString(s); err == nil && len(b) == 32 {
		return b, true
	}
	s = strings.TrimRight(s, "=")
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if b, err := encoding.DecodeString(s); err == nil && len(b) == 32 {
			return b, true
		}
	}
	return nil, false
}
