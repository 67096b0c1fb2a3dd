package postgres

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/grantkeeper/grantkeeper/store/engine"
)

// What is the matter with the database is told until it takes a write again, and for a
// minute more; an error of another kind neither tells it nor takes it back.
func TestRefused(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := &Engine{Env: engine.NewEnv(engine.Options{Now: func() time.Time { return now }})}
	at := func(sqlstate string) error {
		return fmt.Errorf("move: %w", &pgconn.PgError{Severity: "PANIC", Code: sqlstate})
	}
	gone := errors.New("connection refused")
	if why := s.WhyNot(gone); why != "" {
		t.Errorf("never refused: %q", why)
	}
	for sqlstate, want := range map[string]string{"53100": "its disk is full", "53300": "it has no connection left", "25006": "it is read-only"} {
		s.refusals.note(at(sqlstate), now)
		s.refusals.note(at("40001"), now)
		if got := s.Refused(); got != (engine.Refused{Cause: want, At: now, Over: false}) || s.WhyNot(gone) != want || s.WhyNot(at(sqlstate)) != want {
			t.Errorf("%s: %+v", sqlstate, got)
		}
	}
	s.refusals.note(at("53100"), now)
	now = now.Add(time.Hour)
	if got := s.Refused(); got.Cause == "" {
		t.Error("forgotten, though nothing was written since")
	}
	s.refusals.note(at("53100"), now)
	s.refusals.wrote()
	now = now.Add(RefusedFor - 1)
	if got := s.Refused(); got.Cause == "" || !got.Over || s.WhyNot(gone) != "" {
		t.Errorf("within the minute: %+v", got)
	}
	now = now.Add(1)
	if got := s.Refused(); got != (engine.Refused{}) {
		t.Errorf("after the minute: %+v", got)
	}
}
