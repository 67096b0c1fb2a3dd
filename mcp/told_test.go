package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/store"
)

// What a tool says of an error: the refusal's own words, and of a fault of
// ours no cause.
func TestTold(t *testing.T) {
	for _, c := range []struct {
		err    error
		want   string
		logged bool
	}{
		{api.Forbidden("Treasurer is read-only in this approval."), "Treasurer is read-only in this approval.", false},
		{fmt.Errorf("roles: %w: disk", store.ErrUnavailable), "The server cannot answer now. Try again.", false},
		{errors.New("table role is damaged"), "Something went wrong in the server. Try again.", true},
	} {
		var log strings.Builder
		s := &Server{Log: slog.New(slog.NewTextHandler(&log, nil))}
		if got := s.told(context.Background(), c.err); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
		if got := strings.Contains(log.String(), c.err.Error()); got != c.logged {
			t.Errorf("%v: log %q", c.err, log.String())
		}
		(&Server{}).told(context.Background(), c.err) // without a log
	}
}
