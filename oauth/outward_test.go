package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/store"
)

// What is ours is logged and told to no one, also where the client has gone
// meanwhile; and that it has gone is not ours.
func TestOutward(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	leave()
	fault := errors.New("a table is missing")
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		err    error
		status int
		logged bool
	}{
		{"a refusal", t.Context(), fmt.Errorf("wrapped: %w", missing("code")), 400, false},
		{"the database is away", t.Context(), fmt.Errorf("approval: %w", store.ErrUnavailable), 503, false},
		{"nobody knows", t.Context(), fmt.Errorf("approval: %w: %w", store.ErrUnavailable, store.ErrOutcome), 503, false},
		{"the client has gone", gone, fmt.Errorf("approval: %w", context.Canceled), 503, false},
		{"a fault", t.Context(), fault, 500, true},
		{"a fault, and the client has gone", gone, fault, 500, true},
		{"given up by something else than the client", t.Context(), context.Canceled, 500, true},
	} {
		var log bytes.Buffer
		s := &Server{Log: slog.New(slog.NewTextHandler(&log, nil))}
		r := httptest.NewRequestWithContext(tt.ctx, "POST", "/oauth/token", nil)
		e := s.outward(call{Request: r, reference: "ref-1"}, tt.err)
		if logged := strings.Contains(log.String(), tt.err.Error()) && strings.Contains(log.String(), "ref-1"); e.Status != tt.status || logged != tt.logged {
			t.Errorf("%s: %d %s, logged %q", tt.name, e.Status, e.Code, log.String())
		}
		w := httptest.NewRecorder()
		e.write(w)
		var body struct {
			Error, Outcome string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || (body.Outcome == "unknown") != errors.Is(tt.err, store.ErrOutcome) || body.Error != e.Code {
			t.Errorf("%s: the client gets %s, %v", tt.name, w.Body, err)
		}
		if strings.Contains(e.Description, "table") {
			t.Errorf("%s: the client is told %q", tt.name, e.Description)
		}
	}
}
