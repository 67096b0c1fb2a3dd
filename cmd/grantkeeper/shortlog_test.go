package main

import (
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/limit"
)

// dev's line of a request on a terminal is short, and leads to the fault of one
// that failed; other lines have all that they say, each on its line.
func TestShortLog(t *testing.T) {
	var b strings.Builder
	level := levelVar(slog.LevelInfo)
	log := slog.New(newShortLog(&b, level))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /oauth/authorize", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(303) })
	mux.HandleFunc("GET /fails", func(w http.ResponseWriter, _ *http.Request) {
		tell(w, "quill7890123", approval.ID{1, 2, 3, 4, 5}, "invalid_grant")
		w.WriteHeader(400)
	})
	g := &Gate{Next: mux, Address: limit.Proxies{}.ClientAddr, Log: log, Level: level}
	get(g, "/oauth/authorize?state=hush")
	get(g, "/fails")
	get(g, "/nothing/here")
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
	get(g, "/fails")
	if b.Len() > 0 {
		t.Errorf("at level error: %s", b.String())
	}
}
