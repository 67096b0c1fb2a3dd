package server

import (
	"context"
	"os"
	"syscall"

	"github.com/grantkeeper/grantkeeper/fault"
)

// Ending says what ends a server, or has it reread its configuration; nil is never.
type Ending struct {
	Signals, Again <-chan os.Signal
	Reread         func()
}

// Until waits until a signal comes or ctx ends, and then closes the server. A second
// signal ends it at once. The error then says how it ended.
func Until(ctx context.Context, s *Server, o Options, e Ending) error {
	failed := make(chan error, 1)
	go func() { failed <- s.Wait() }()
	end, atOnce := context.WithCancel(context.Background())
	defer atOnce()
	for {
		select {
		case err := <-failed:
			atOnce()
			_ = s.Close(end)
			return err
		case <-e.Again:
			e.Reread()
			continue
		case got := <-e.Signals:
			o.Log.Info("stopping", "signal", got.String(), "drain", o.Drain.String())
		case <-ctx.Done():
			o.Log.Info("stopping", "drain", o.Drain.String())
		}
		closed := make(chan struct{})
		go func() {
			_ = s.Close(end) // what was cut off is logged
			close(closed)
		}()
		select {
		case <-closed:
			return nil
		case got := <-e.Signals:
			atOnce()
			<-closed
			return Interrupted(got)
		}
	}
}

// Interrupted is the end by a signal, before ready or by a second one.
func Interrupted(by os.Signal) error {
	if by == syscall.SIGTERM {
		return &fault.Error{Code: fault.Terminate, What: "terminated"}
	}
	return &fault.Error{Code: fault.Interrupt, What: "interrupted"}
}
