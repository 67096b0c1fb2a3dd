package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/grantkeeper/grantkeeper/terminal"
)

// shownID is how many characters of an ID a line has.
const shownID = 9

// shortLog is dev's log on a terminal: a line that can be read at a glance, for
// a request without what is always the same there.
type shortLog struct {
	mu    *sync.Mutex
	w     io.Writer
	level slog.Leveler
	with  string // attributes of every line
}

func newShortLog(w io.Writer, level slog.Leveler) *shortLog {
	return &shortLog{mu: new(sync.Mutex), w: w, level: level}
}

// Enabled is for slog, as are the others.
func (s *shortLog) Enabled(_ context.Context, l slog.Level) bool { return l >= s.level.Level() }

// WithGroup leaves the names of groups out.
func (s *shortLog) WithGroup(string) slog.Handler { return s }

// WithAttrs adds them to every line.
func (s *shortLog) WithAttrs(all []slog.Attr) slog.Handler {
	with := *s
	for _, a := range all {
		with.with += inShort(a)
	}
	return &with
}

// Handle writes a line: the time of day, what happened, and what goes with it.
func (s *shortLog) Handle(_ context.Context, r slog.Record) error {
	line := r.Time.Format("15:04:05") + " "
	if r.Message == "request" {
		line += shortRequest(r)
	} else {
		if r.Level != slog.LevelInfo {
			line += r.Level.String() + " "
		}
		line += terminal.Printable(r.Message)
		r.Attrs(func(a slog.Attr) bool {
			line += inShort(a)
			return true
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := io.WriteString(s.w, line+s.with+"\n")
	return err
}

// shortRequest is status, method, route and how long it took. What leads to
// more of it, the reference, stands behind an answer that is no success.
func shortRequest(r slog.Record) string {
	said, rest := map[string]slog.Value{}, ""
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "method", "route", "status", "duration_ms", "request_id":
			said[a.Key] = a.Value
		case "client_id", "approval_id": // as commands take them
			rest += " " + strings.TrimSuffix(a.Key, "_id") + "=" + terminal.CutTo(terminal.Printable(a.Value.String()), shownID)
		case "error", "path":
			rest += inShort(a)
		}
		return true
	})
	status, took := int64(0), 0.0
	if v := said["status"]; v.Kind() == slog.KindInt64 {
		status = v.Int64()
	}
	if v := said["duration_ms"]; v.Kind() == slog.KindFloat64 {
		took = v.Float64()
	}
	line := fmt.Sprintf("%d %-4s %s %.0f ms", status, said["method"], said["route"], took) + rest
	if status >= http.StatusBadRequest {
		line += " reference=" + said["request_id"].String()
	}
	return line
}

func inShort(a slog.Attr) string {
	v := a.Value.Resolve().String()
	if v == "" || strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r == '"' || r == '=' || !strconv.IsPrint(r) }) {
		v = strconv.Quote(v)
	}
	return " " + a.Key + "=" + v
}
