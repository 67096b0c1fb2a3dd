package postgres

import (
	"context"
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

// What is the matter is told by the server's code, or by what there is instead of one.
func TestCauses(t *testing.T) {
	server := func(code, text string) error {
		return fmt.Errorf("move: %w", &pgconn.PgError{Code: code, Message: text})
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{server("53100", ""), engine.FullDisk},
		{server("XX000", "could not write init file"), engine.FullDisk},
		{server("XX000", "cache lookup failed"), ""},
		{server("53200", ""), "it is out of memory"},
		{server("53300", ""), engine.NoConnection},
		{server("25006", ""), engine.ReadOnly},
		{server("42501", ""), engine.NoRight},
		{server("42P01", ""), engine.NoTable},
		{server("3F000", ""), engine.NoTable},
		{server("55P03", ""), engine.Slow},
		{server("57014", ""), engine.Slow},
		{fmt.Errorf("read: %w", errNoFacts), engine.NoTable},
		{fmt.Errorf("read: %w", context.DeadlineExceeded), engine.Slow},
		{context.Canceled, ""},
	} {
		if got := causeOf(tt.err); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
	}
}

// That it is slow may follow from what was said before, and does not take its place while
// that goes on. What a read meets too is over when none has met it for a minute.
func TestRefusedSlowly(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := &Engine{Env: engine.NewEnv(engine.Options{Now: func() time.Time { return now }})}
	at := func(sqlstate string) error { return &pgconn.PgError{Code: sqlstate} }
	for n, step := range []struct {
		do   func()
		want string
	}{
		{func() { s.refusals.note(at("55P03"), now) }, engine.Slow},
		{func() { now = now.Add(RefusedFor - 1) }, engine.Slow},
		{func() { now = now.Add(1) }, ""},
		{func() { s.refusals.note(at("53100"), now) }, engine.FullDisk},
		{func() { s.refusals.note(at("57014"), now) }, engine.FullDisk},
		{func() { s.refusals.wrote() }, engine.FullDisk},
		{func() { s.refusals.note(at("57014"), now) }, engine.Slow},
		{func() { s.refusals.note(at("42501"), now) }, engine.NoRight},
		{func() { now = now.Add(RefusedFor) }, ""},
		{func() { s.refusals.note(at("42P01"), now) }, engine.NoTable},
	} {
		if step.do(); s.Refused().Cause != step.want {
			t.Errorf("step %d: %+v, want %q", n, s.Refused(), step.want)
		}
	}
	s.refusals.note(at("53100"), now)
	for err, want := range map[error]string{nil: "", at("57014"): engine.FullDisk, at("42501"): engine.NoRight, errors.New("reset"): engine.FullDisk} {
		if got := s.WhyNot(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	s.refusals.wrote()
	if got := s.WhyNot(at("57014")); got != engine.Slow {
		t.Errorf("slow, after the disk was full: %q", got)
	}
}
