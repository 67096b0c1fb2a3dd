// Command grantkeeper-connect is grantkeeper connect by itself, for people's own
// computers: a tenth of the server's binary, on more systems, and a third of its memory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/grantkeeper/grantkeeper/connect"
	"github.com/grantkeeper/grantkeeper/fault"
)

// version is set by make release.
var version = "0.1.0"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

const usage = `Usage: grantkeeper-connect URL [--sign-in | --sign-out] [--no-browser] [--store FILE]

The MCP server of an assistant on this computer, by a server that allows it. Have the
access approved first, then let the assistant start it with the URL alone:
  grantkeeper-connect https://app.example.com/api/v5/mcp --sign-in

`

// run is main without the process around it. It gives the exit code.
func run(ctx context.Context, args []string, in *os.File, out, stderr io.Writer) int {
	o := connect.Options{Version: version, Open: connect.OpenBrowser, In: in, Out: out, Err: stderr}
	var signIn, signOut, says bool
	f := flag.NewFlagSet("grantkeeper-connect", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, usage)
		f.PrintDefaults()
	}
	f.BoolVar(&signIn, "sign-in", false, "have the access approved, and end")
	f.BoolVar(&signOut, "sign-out", false, "end the access, here and at the server")
	f.BoolVar(&o.NoBrowser, "no-browser", false, "print the address to open, and open no browser")
	f.StringVar(&o.Store, "store", "", "`FILE` to keep the access in (default: one for the URL, in grantkeeper of your folder of settings)")
	f.BoolVar(&says, "version", false, "say what this binary is")
	var urls []string
	for rest := args; len(rest) > 0; rest = f.Args() { // flags may stand before and after the URL
		if !strings.HasPrefix(rest[0], "-") {
			urls, rest = append(urls, rest[0]), rest[1:]
		}
		if err := f.Parse(rest); errors.Is(err, flag.ErrHelp) {
			return 0
		} else if err != nil {
			return fault.Use
		}
	}
	if says {
		fmt.Fprintln(out, "grantkeeper-connect", version)
		return 0
	}
	if len(urls) != 1 || signIn && signOut {
		f.Usage()
		return fault.Use
	}
	o.URL = urls[0]
	err := connect.Command(ctx, o, signIn, signOut, "grantkeeper-connect", func(text string) { fmt.Fprintln(stderr, text) })
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, connect.Words(err))
	return fault.CodeOf(err)
}
