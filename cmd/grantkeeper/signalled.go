package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/server"
)

// untilSignal does something that cleans up behind itself when its context ends, as the
// first signal lets it; the second ends the process. Its error is then that of the signal,
// and says what stays behind.
func untilSignal(ctx context.Context, do func(context.Context) error) error {
	got := make(chan os.Signal, 1)
	signal.Notify(got, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(got)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		select {
		case by := <-got:
			signal.Stop(got)
			end(server.Interrupted(by))
		case <-ctx.Done():
		}
	}()
	err := do(ctx)
	if err == nil || ctx.Err() == nil {
		return err
	}
	ended := context.Cause(ctx)
	if left, ok := errors.AsType[*fault.Error](err); ok && left.Left {
		return &fault.Error{Code: fault.CodeOf(ended), What: ended.Error() + "; " + left.What, Hint: left.Hint, Left: true}
	}
	return ended
}
