// Package connect is grantkeeper connect: an MCP server on standard input and output
// for an assistant on a person's own computer. It passes messages on, as the bytes that
// they are, to an MCP server behind Grantkeeper, with the access that the person has
// approved in a browser, and keeps that for all assistants of the machine (decision A15).
//
// wire.go and endpoint.go decide and do nothing; record.go keeps, server.go asks the
// authorization server, listener.go waits for the browser, grant.go puts the three
// together, and bridge.go carries messages.
package connect

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// Options are what the command line of connect came to.
type Options struct {
	URL       string // of the MCP endpoint
	Store     string // file to keep the access in; "" is one for the URL in the user's folder of settings
	Version   string // of this binary
	NoBrowser bool   // print the address alone

	In       io.Reader
	Out, Err io.Writer
	Open     func(address string) error // opens a browser

	patience time.Duration // 0 is patience
}

// Serve passes messages on until In ends, and lets what is under way end.
func Serve(ctx context.Context, o Options) error {
	b, err := newBridge(o)
	if err != nil {
		return err
	}
	return b.run(ctx)
}

// SignIn has the person approve, unless they have, and ends. connected says whether they
// had.
func SignIn(ctx context.Context, o Options) (connected bool, err error) {
	g, err := newGrant(o)
	if err != nil {
		return false, err
	}
	defer g.close()
	_, err = g.token(ctx, "")
	if _, needed := needsApproval(err); !needed {
		return err == nil, err
	}
	a := g.begin(0)
	select {
	case <-a.done:
		return false, a.err
	case <-ctx.Done():
		g.close()
		if r, err := g.store.read(g.endpoint); err == nil && r.Refresh != "" { // it came last
			return false, nil
		}
		return false, fault.CannotOpen("", "it was stopped before anybody approved")
	}
}

// SignOut ends the access, at the server and here. was says whether there was any.
func SignOut(ctx context.Context, o Options) (was bool, err error) {
	g, err := newGrant(o)
	if err != nil {
		return false, err
	}
	defer g.close()
	return g.signOut(ctx)
}

// Command does what a command line asks for, and tells the person. name is what the
// program is called. On a terminal somebody is there to approve, and no assistant.
func Command(ctx context.Context, o Options, signIn, signOut bool, name string, tell func(string)) error {
	in, file := o.In.(*os.File)
	switch {
	case signOut:
		was, err := SignOut(ctx, o)
		if err == nil && was {
			tell("The access has ended.")
		} else if err == nil {
			tell("There was no access.")
		}
		return err
	case signIn, file && term.IsTerminal(int(in.Fd())):
		was, err := SignIn(ctx, o)
		if err != nil {
			return err
		}
		if was {
			tell("Connected already.")
		}
		tell("Have your assistant start: " + name + " " + o.URL)
		return nil
	}
	return Serve(ctx, o)
}

// newHTTP gives what requests go by: no redirect is followed, since a token is for one
// host. A kept connection may be dead after the machine slept: it is asked.
func newHTTP() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:       http.ProxyFromEnvironment,
			DialContext: (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,

			ForceAttemptHTTP2:   true,
			TLSHandshakeTimeout: 10 * time.Second,
			IdleConnTimeout:     4 * time.Second, // many servers end theirs after 5, and a call that meets this end is lost
			MaxIdleConnsPerHost: 4,
			HTTP2:               &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// newSecretHTTP is newHTTP for what must not be sent twice: each request has a
// connection of its own, so that none is lost on one that is dead without a word.
func newSecretHTTP() *http.Client {
	c := newHTTP()
	c.Timeout = 30 * time.Second
	c.Transport.(*http.Transport).DisableKeepAlives = true
	return c
}

// cannot is fault.CannotOpen where what is told may hold a server's words: they stay on
// their line, and move nothing on a terminal.
func cannot(hint, format string, args ...any) error {
	return fault.CannotOpen(hint, "%s", terminal.CutTo(terminal.Printable(fmt.Sprintf(format, args...)), mostSaid))
}

// mostSaid bounds an error, in characters.
const mostSaid = 1000

// say writes for people, and what it is given in one line each, as cannot does.
func say(w io.Writer, format string, args ...any) {
	for i, one := range args {
		switch one.(type) {
		case string, error:
			args[i] = terminal.Printable(fmt.Sprint(one))
		}
	}
	fmt.Fprintf(w, "grantkeeper connect: "+format+"\n", args...)
}
