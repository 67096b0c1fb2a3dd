package main

import (
	"io"
	"log"
	"log/slog"
	"os"

	"golang.org/x/term"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/server"
)

// logTo lets a server log to lines that end up in stderr: on a terminal short
// ones, if so.
func logTo(o *server.Options, l *server.Lines, c config.Checked, stderr io.Writer, short bool) {
	f, isFile := stderr.(*os.File)
	terminal := isFile && isTerminal(f)
	o.Level = new(slog.LevelVar)
	o.Level.Set(c.Level)
	o.Log, o.Requests = server.NewLogger(l, o.Level, c.Log.Format, terminal)
	if short && c.Log.Format == "auto" && terminal {
		o.Log = slog.New(newShortLog(l, o.Level))
	}
	log.SetFlags(0)
	log.SetOutput(server.HTTPLog(o.Log)) // net/http's clients have no other
	l.Missed = func(n int) {
		o.Log.Warn("nobody took the log for a while: lines were left out", "lines", n)
	}
}

// isTerminal reports whether somebody sits at a file: /dev/null is none.
func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
