package config

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/grantkeeper/grantkeeper/durable"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/token"
)

// ErrRefused is of what takes a changed key file, and puts the file back as it was.
var ErrRefused = errors.New("not taken")

// EditKeys changes a key file, which is there whole before and after, and has what was
// written taken: by take, nil is nobody. Nobody else edits the file until that is done, and
// it is as it was where take fails by ErrRefused; by any other error the keys may be in use,
// so they stay. An error of edit changes nothing and is given as it is.
func EditKeys(ctx context.Context, name string, edit func([]NumberedKey) ([]NumberedKey, error), take func() error) error {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target // one lock, by whatever name
	}
	unlock, err := lockBeside(ctx, name)
	if err != nil {
		return fault.CannotOpen(mendKeys(err), "secret_key_file: %v", err)
	}
	defer unlock()
	b, err := readSecret("secret_key_file", name, noKeyFile)
	if err != nil {
		return err
	}
	keys, err := parseSecrets(b)
	if err != nil {
		return fault.BadConfig(BadKeyFile, "secret_key_file: %s: %v", name, err)
	}
	if keys, err = edit(keys); err != nil {
		return err
	}
	if err := replaceFile(name, keyText(keys)); err != nil {
		return fault.CannotOpen(mendKeys(err), "secret_key_file: %v", err)
	}
	if take == nil {
		return nil
	}
	err = take()
	if errors.Is(err, ErrRefused) {
		if undone := replaceFile(name, b); undone != nil {
			err = fault.CannotOpen(mendKeys(undone), "secret_key_file: %v; and what was not taken is still in it: %v", err, undone)
		}
	}
	return err
}

// mendKeys is what mends a key file that cannot be changed, which takes another file beside it.
func mendKeys(err error) string {
	switch {
	case fault.NoRoom(err):
		return "make room there"
	case errors.Is(err, syscall.EROFS):
		return "run it where its folder is not read-only"
	case errors.Is(err, fs.ErrNotExist):
		return "make its folder"
	case errors.Is(err, fs.ErrPermission):
		return "run it as a user who may write in its folder"
	case errors.Is(err, errKeysLocked):
		return "let that one end, and repeat it"
	}
	return ""
}

var errKeysLocked = errors.New("another program changes the keys")

// lockPatience is how long one who edits a key file waits for another: longer than a server
// has to take the keys.
const lockPatience = time.Minute

// lockBeside locks a file beside the one with a name, which is gone once it is unlocked. The
// file itself would not do: it is another one after each change.
func lockBeside(ctx context.Context, name string) (unlock func(), err error) {
	name += ".lock"
	for deadline := time.Now().Add(lockPatience); ; {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil && stillAt(f, name) {
			return func() {
				os.Remove(name) // before it is let go: whoever waits for this one opens another
				f.Close()
			}, nil
		}
		f.Close()
		switch {
		case err != nil && !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return nil, fmt.Errorf("%s: %w", name, err)
		case err != nil && time.Now().After(deadline):
			return nil, fmt.Errorf("%s: %w", name, errKeysLocked)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// stillAt reports whether an open file is the one with a name.
func stillAt(f *os.File, name string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(name)
	return err == nil && os.SameFile(mine, there)
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
	err := durable.WriteBeside(name, 0o600, keyText([]NumberedKey{one}), durable.PutNew) // never over another one
	if err != nil {
		return nil, fault.CannotOpen(mendKeys(err), "secret_key_file: %v", err)
	}
	return token.NewKey(one.Number, one.Secret), nil
}

// replaceFile puts content in a file's place, with its mode and owner. The name is no link's.
func replaceFile(name string, content []byte) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	return durable.WriteBeside(name, info.Mode().Perm(), content, func(part, name string) error {
		if of, ok := info.Sys().(*syscall.Stat_t); ok && (int(of.Uid) != os.Geteuid() || int(of.Gid) != os.Getegid()) {
			if err := os.Chown(part, int(of.Uid), int(of.Gid)); err != nil {
				return err
			}
		}
		return os.Rename(part, name)
	})
}
