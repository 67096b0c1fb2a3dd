package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/server"
	"github.com/grantkeeper/grantkeeper/store"
)

// A Key is one of GET /v1/keys.
type Key struct {
	ID        string `json:"id"`
	Number    int    `json:"number"`
	State     string `json:"state"`
	Approvals int    `json:"approvals"`
	Ended     *int   `json:"ended,omitempty"` // approvals, by its retirement
}

// Keys are the secret keys that the server knows, retired ones too.
func (c *Server) Keys(ctx context.Context) ([]Key, error) {
	var list struct{ Items []Key }
	err := c.Do(ctx, http.MethodGet, "/v1/keys", nil, nil, &list)
	return list.Items, err
}

// AddKey writes a key with a number that none has had into the key file of a
// configuration, and has the server take it; nil is no server that runs. Where the server
// refuses, the file is as it was. Where it is not known what the server has done, the key
// stays in the file: one that nobody uses harms nobody, and a server does not start again
// without one that it has taken.
func AddKey(ctx context.Context, c config.Checked, running *Server, reason string) (int, error) {
	var number int
	add := func(keys []config.NumberedKey) ([]config.NumberedKey, error) {
		newest, err := newestKey(ctx, c, running)
		if err != nil {
			return nil, err
		}
		for _, k := range keys {
			newest = max(newest, k.Number)
		}
		number = newest + 1
		key := config.NumberedKey{Number: number}
		rand.Read(key.Secret[:])
		return append(keys, key), nil
	}
	var take func() error
	if running != nil {
		take = func() error { return running.takeKey(ctx, number, c.SecretKeyFile, reason) }
	}
	if err := config.EditKeys(ctx, c.SecretKeyFile, add, take); err != nil {
		return 0, err
	}
	return number, nil
}

// A refusedKey is one that the server certainly does not have.
type refusedKey struct{ error }

func (e refusedKey) Unwrap() error { return e.error }

func (refusedKey) Is(err error) bool { return err == config.ErrRefused }

// takeKey has the server read its key file. A config.ErrRefused says that it has not taken
// the key; of any other error that is not known.
func (c *Server) takeKey(ctx context.Context, number int, file, reason string) error {
	var taken struct{ Added []int }
	err := c.Do(ctx, http.MethodPost, "/v1/keys/reload", nil, map[string]string{"reason": reason}, &taken)
	switch fault.CodeOf(err) {
	case 0:
	case fault.Use, fault.Unknown, fault.State:
		return refusedKey{err}
	default:
		return stays(err, number, file)
	}
	if slices.Contains(taken.Added, number) {
		return nil
	}
	keys, err := c.Keys(ctx) // it may have read the file before, by SIGHUP
	if err != nil {
		return stays(err, number, file)
	}
	if slices.ContainsFunc(keys, func(k Key) bool { return k.Number == number }) {
		return nil
	}
	return refusedKey{&fault.Error{Code: fault.State, What: fmt.Sprintf("the server at %s does not read %s", c.Base, file), Hint: "name its configuration: -c FILE"}}
}

// stays says of a key that the server may have taken that it is in the file.
func stays(err error, number int, file string) error {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		e.What += fmt.Sprintf("; key %d stays in %s, since the server may have taken it: grantkeeper keys list says", number, file)
	}
	return err
}

// newestKey is the highest number that any key has had, retired ones included.
func newestKey(ctx context.Context, c config.Checked, running *Server) (newest int, err error) {
	if running != nil {
		keys, err := running.Keys(ctx)
		for _, k := range keys {
			newest = max(newest, k.Number)
		}
		return newest, err
	}
	if c.Path == "" {
		return 0, fault.CannotOpen("start one: grantkeeper serve", "no server runs that knows the numbers of retired keys")
	}
	info, err := store.Inspect(ctx, c.Path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, server.OpenError(err)
	}
	for n := range info.Keys {
		newest = max(newest, n)
	}
	for _, n := range info.Retired {
		newest = max(newest, n)
	}
	return newest, nil
}

// keepCopy says which backups need a key that retires.
func keepCopy(keys []Key, number int) string {
	oldest := 0 // of those that stay: a backup that has it can do without the other
	for _, k := range keys {
		if k.Number != number && k.State != "retired" && (oldest == 0 || k.Number < oldest) {
			oldest = k.Number
		}
	}
	return fmt.Sprintf("Backups made before key %d was added cannot be restored without key %d, on PostgreSQL none made before now: keep a copy of it as long as them.", oldest, number)
}

// Retirable is the key with a number, as the server has it, and which backups will need
// it once it has retired: it is nowhere then but where somebody has copied it. The key
// that seals cannot retire.
func (c *Server) Retirable(ctx context.Context, number string) (k Key, keep string, err error) {
	keys, err := c.Keys(ctx)
	if err != nil {
		return Key{}, "", err
	}
	at := slices.IndexFunc(keys, func(k Key) bool { return k.ID == number })
	if at < 0 {
		return Key{}, "", &fault.Error{Code: fault.Unknown, What: "there is no key " + number, Hint: "see: grantkeeper keys list"}
	}
	k = keys[at]
	if k.State == "seals" {
		return Key{}, "", &fault.Error{Code: fault.State, What: "key " + number + " seals, so it cannot retire", Hint: "run: grantkeeper keys add, then keys rotate"}
	}
	if k.State != "retired" {
		keep = keepCopy(keys, k.Number)
	}
	return k, keep, nil
}

// Retire ends what a key has sealed last, and has it never used again.
func (c *Server) Retire(ctx context.Context, number, reason string) (done Key, err error) {
	err = c.Patient().Do(ctx, http.MethodPost, "/v1/keys/"+number+"/retire", nil, map[string]string{"reason": reason}, &done)
	if err == nil && done.Ended == nil {
		err = c.Stranger()
	}
	return done, err
}
