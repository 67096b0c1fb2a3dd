package server

import (
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
)

// dev's line of a request on a terminal is short, and leads to the fault of one
// that failed; other lines have all that they say, each on its line.
func TestShortLog(t *testing.T) {
	var b strings.Builder
	level := new(slog.LevelVar)
	log := slog.New(newShortLog(&b, level))
	request := func(method, route string, status int, more ...any) {
		log.Info("request", append([]any{"request_id", "0123456789abcdef", "method", method, "route", route, "status", status, "duration_ms", 1.25, "bytes", 1, "client_addr", "127.0.0.1"}, more...)...)
	}
	request("GET", "/oauth/authorize", 303)
	request("GET", "/fails", 400, "client_id", "quill7890123", "approval_id", "01020304050000000000000000000000", "error", "invalid_grant")
	request("GET", "none", 404, "path", "/nothing/here")
	log.Warn("a mail\nis lost", "err", errors.New("no \x1b[31m room"), "kind", "reset")
	log.With("part", "mail").WithGroup("x").Info("on")
	log.Debug("hidden")
	want := regexp.MustCompile(`^\d\d:\d\d:\d\d 303 GET  /oauth/authorize \d+ ms
\d\d:\d\d:\d\d 400 GET  /fails \d+ ms client=quill789… approval=01020304… error=invalid_grant reference=[0-9a-f]{16}
\d\d:\d\d:\d\d 404 GET  none \d+ ms path=/nothing/here reference=[0-9a-f]{16}
\d\d:\d\d:\d\d WARN a mail is lost err="no \\x1b\[31m room" kind=reset
\d\d:\d\d:\d\d on part=mail
$`)
	if got := b.String(); !want.MatchString(got) {
		t.Errorf("got\n%s", got)
	}
	level.Set(slog.LevelError)
	b.Reset()
	request("GET", "/fails", 400)
	if b.Len() > 0 {
		t.Errorf("at level error: %s", b.String())
	}
}
