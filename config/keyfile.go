package config

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/token"
)

// EditKeys changes a key file, which is there whole before and after.
func EditKeys(name string, edit func([]NumberedKey) []NumberedKey) error {
	b, err := readSecret("secret_key_file", name, "run: grantkeeper init")
	if err != nil {
		return err
	}
	keys, err := parseSecrets(b)
	if err != nil {
		return fault.BadConfig(BadKeyFile, "secret_key_file: %s: %v", name, err)
	}
	if err := replaceFile(name, keyText(edit(keys))); err != nil {
		return fault.CannotOpen(ifDenied(err, "see that there is room for it, and that its folder can be written"), "secret_key_file: %v", err)
	}
	return nil
}

func keyText(keys []NumberedKey) []byte {
	var text strings.Builder
	text.WriteString("# Secret keys by number. They seal tokens: keep them, and apart from backups of the database.\n")
	for _, k := range keys {
		fmt.Fprintf(&text, "%d:%s\n", k.Number, base64.StdEncoding.EncodeToString(k.Secret[:]))
	}
	return []byte(text.String())
}

// MakeKeys writes a key file with one new key where there is no file. It is there whole, and
// its owner's alone, or not at all.
func MakeKeys(name string, number int) (*token.Key, error) {
	one := NumberedKey{Number: number}
	rand.Read(one.Secret[:])
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err == nil {
		defer os.Remove(f.Name())
		_, err = f.Write(keyText([]NumberedKey{one}))
		if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
			err = os.Link(f.Name(), name) // never over another one
		}
	}
	if err != nil {
		return nil, fault.CannotOpen(ifDenied(err, "see that there is room for it, and that its folder can be written"), "secret_key_file: %v", err)
	}
	return token.NewKey(one.Number, one.Secret), nil
}

// replaceFile puts content in a file's place, with its mode and owner.
func replaceFile(name string, content []byte) error {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(info.Mode().Perm()))
	if of, ok := info.Sys().(*syscall.Stat_t); ok && (int(of.Uid) != os.Geteuid() || int(of.Gid) != os.Getegid()) {
		err = errors.Join(err, f.Chown(int(of.Uid), int(of.Gid)))
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
