package server

import (
	"io"
	"log"
	"log/slog"
	"os"

	"golang.org/x/term"

	"github.com/grantkeeper/grantkeeper/config"
)

// LogTo lets a server log to lines that end up in stderr: on a terminal short
// ones, if so.
func LogTo(o *Options, l *Lines, c config.Checked, stderr io.Writer, short bool) {
	f, isFile := stderr.(*os.File)
	terminal := isFile && term.IsTerminal(int(f.Fd()))
	o.Level = new(slog.LevelVar)
	o.Level.Set(c.Level)
	o.Log, o.Requests = NewLogger(l, o.Level, c.Log.Format, terminal)
	if short && c.Log.Format == "auto" && terminal {
		o.Log = slog.New(newShortLog(l, o.Level))
	}
	log.SetFlags(0)
	log.SetOutput(HTTPLog(o.Log)) // net/http's clients have no other
	l.Missed = func(n int) {
		o.Log.Warn("nobody took the log for a while: lines were left out", "lines", n)
	}
}
