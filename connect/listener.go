package connect

import (
	"context"
	"crypto/subtle"
	"errors"
	"html"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
)

// The cookie of the browser that began. It lives on 127.0.0.1, at any port, below one
// path that nobody guesses.
const cookieName = "grantkeeper_connect"

// A listener waits on 127.0.0.1 for the browser that it has sent to the server to bring
// the answer of one approval.
type listener struct {
	pending pending
	issuer  string
	begins  func() error // notes that a browser has begun
	on      net.Listener
	server  *http.Server
	answers chan arrived // one

	mu     sync.Mutex
	opened bool   // a browser has begun
	taken  bool   // the answer has come; no other counts
	told   string // how it ended, for the browser; "" while that is not known
	known  chan struct{}
	seen   chan struct{} // the browser has been told
	closed sync.Once
}

// arrived is what the browser brought.
type arrived struct {
	code, fault string
	twice       bool // no answer: a second browser has opened the address
}

// listen waits where p says, or at any free port where it says none.
func listen(p pending, issuer string) (*listener, error) {
	on, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Port)))
	if err != nil {
		return nil, cannot("", "%v", err)
	}
	p.Port = on.Addr().(*net.TCPAddr).Port
	l := &listener{pending: p, issuer: issuer, begins: func() error { return nil }, opened: p.Started, on: on, answers: make(chan arrived, 1), known: make(chan struct{}), seen: make(chan struct{})}
	return l, nil
}

// serve begins to answer, once the state is known.
func (l *listener) serve(state string) {
	l.pending.State = state
	l.server = &http.Server{Handler: l, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, MaxHeaderBytes: 32 << 10}
	l.server.SetKeepAlivesEnabled(false)
	go l.server.Serve(l.on)
}

// ServeHTTP has one browser begin, and takes one answer from it, at paths that nobody
// guesses. Whatever else comes, from a page that asks around or a program that looks what
// listens here, ends nothing.
func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	answer := same(r.URL.Path, "/"+l.pending.Path)
	switch {
	case r.Host != "127.0.0.1:"+strconv.Itoa(l.pending.Port): // a name that leads here is somebody's trick
		http.Error(w, "this is not the host", http.StatusMisdirectedRequest)
	case !answer && !same(r.URL.Path, "/"+l.pending.Path+"/"+l.pending.Start):
		http.Error(w, "there is nothing here", http.StatusNotFound)
	case r.Method != http.MethodGet:
		h.Set("Allow", http.MethodGet)
		http.Error(w, "this takes GET", http.StatusMethodNotAllowed)
	case !inWindow(r):
		http.Error(w, "this is for a window of a browser", http.StatusForbidden)
	case !answer:
		l.begin(w, r)
	case !l.began(r):
		showPage(w, http.StatusForbidden, "This is not the browser where it began.",
			"Use the one in which the program's address was opened, and let it keep cookies of 127.0.0.1.")
	case r.URL.RawQuery == "":
		l.tell(w, r)
	default:
		l.take(w, r)
	}
}

// inWindow says whether a request is what a person sees the answer of. Programs and old
// browsers do not say (Fetch Metadata). Of another site it may be: an answer comes from
// the server's page.
func inWindow(r *http.Request) bool {
	dest, mode := r.Header.Get("Sec-Fetch-Dest"), r.Header.Get("Sec-Fetch-Mode")
	return (dest == "" || dest == "document") && (mode == "" || mode == "navigate")
}

// began says whether a request is of the browser that has begun.
func (l *listener) began(r *http.Request) bool {
	for _, c := range r.CookiesNamed(cookieName) {
		if same(c.Value, l.pending.Cookie) {
			return true
		}
	}
	return false
}

// begin leads the first browser that comes to the server, with a cookie, and the same
// one as often as it likes. A second one may be the person's, after somebody else's: it
// is told, and the attempt is over.
func (l *listener) begin(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.began(r) {
		if l.opened {
			if !l.taken {
				l.taken = true
				l.answers <- arrived{twice: true}
			}
			showPage(w, http.StatusGone, "This address was opened already.",
				"Another browser has, yours or somebody else's, and so it counts no more: nothing is connected by it. Begin again, and open the new address once.")
			return
		}
		if err := l.begins(); err != nil {
			http.Error(w, "it cannot be noted that this was opened", http.StatusInternalServerError)
			return
		}
		l.opened = true
		http.SetCookie(w, &http.Cookie{Name: cookieName, Value: l.pending.Cookie, Path: "/" + l.pending.Path,
			MaxAge: int(client.HandoverLifetime.Seconds()), HttpOnly: true, SameSite: http.SameSiteLaxMode})
	}
	w.Header().Set("Location", l.pending.Address)
	w.WriteHeader(http.StatusSeeOther)
}

// take takes the answer, and leads the browser to an address without it.
func (l *listener) take(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	for _, name := range []string{"code", "state", "iss", "error"} {
		if len(q[name]) > 1 {
			http.Error(w, "this is not the answer", http.StatusBadRequest)
			return
		}
	}
	got := arrived{code: q.Get("code"), fault: q.Get("error")}
	if !same(q.Get("state"), l.pending.State) || q.Get("iss") != l.issuer || (got.code == "") == (got.fault == "") {
		http.Error(w, "this is not the answer", http.StatusBadRequest)
		return
	}
	l.mu.Lock()
	first := !l.taken
	l.taken = true
	l.mu.Unlock()
	if first {
		l.answers <- got
	}
	w.Header().Set("Location", "/"+l.pending.Path)
	w.WriteHeader(http.StatusSeeOther)
}

// tell says how it ended, when that is known.
func (l *listener) tell(w http.ResponseWriter, r *http.Request) {
	select {
	case <-l.known:
	case <-r.Context().Done():
		return
	case <-time.After(8 * time.Second):
	}
	l.mu.Lock()
	says := l.told
	if says == "" && l.taken {
		says = "This takes longer. The assistant says how it ends."
	} else if says == "" {
		says = "Nothing has come here yet."
	}
	l.mu.Unlock()
	showPage(w, http.StatusOK, says, "You can close this window.")
	select {
	case <-l.known:
		l.closed.Do(func() { close(l.seen) })
	default:
	}
}

func showPage(w http.ResponseWriter, status int, says, more string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">`+
		`<meta name="color-scheme" content="light dark"><title>grantkeeper connect</title><link rel="icon" href="data:,"><h1>`+html.EscapeString(says)+`</h1><p>`+html.EscapeString(more)+`</p></html>`)
}

// finish says how it ended, and closes as soon as the browser has read it.
func (l *listener) finish(says string) {
	l.mu.Lock()
	l.told = says
	taken := l.taken
	l.mu.Unlock()
	close(l.known)
	if taken {
		select {
		case <-l.seen:
		case <-time.After(3 * time.Second): // the browser has gone
		}
	}
	l.close()
}

func (l *listener) close() {
	if l.server == nil {
		_ = l.on.Close()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := l.server.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
		_ = l.server.Close()
	}
}

// same compares what must not be guessed piece by piece.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
