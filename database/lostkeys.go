package database

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/server"
	"github.com/grantkeeper/grantkeeper/store"
)

// ReplaceLost lets a database go on without the keys that its key file has lost.
func ReplaceLost(ctx context.Context, o store.LostOptions, keyFile string) (store.Replaced, error) {
	done, err := store.ReplaceLost(ctx, o)
	if err != nil {
		return done, lostError(err, keyFile)
	}
	return done, nil
}

// lostError says what to do about what store refuses.
func lostError(err error, file string) error {
	var differs *store.SchemaError
	switch {
	case errors.As(err, &differs) && differs.Older(): // migrate up wants the lost key
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: "run this command of the release that the database is of, and migrate up afterwards"}
	case errors.Is(err, store.ErrNothingLost):
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: "start the server; to exchange a key that has leaked: grantkeeper keys add, rotate, retire"}
	case errors.Is(err, store.ErrOtherKey), errors.Is(err, store.ErrRetired):
		return &fault.Error{Code: fault.State, What: fmt.Sprintf("%s: %v", file, err), Hint: "move that file away, it may be another installation's, and run this again: a new one is made"}
	case errors.Is(err, store.ErrInUse):
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: "stop every server first"}
	case errors.Is(err, fs.ErrNotExist):
		return fault.CannotOpen("name the database in database.url: where there is none, grantkeeper init makes a key file", "%v", err)
	case fault.NoRoom(err):
		return fault.CannotOpen("make room there, and run it again: nothing was changed", "%v", err)
	case fault.CodeOf(err) != fault.Failed:
		return err
	}
	return server.OpenError(err)
}
