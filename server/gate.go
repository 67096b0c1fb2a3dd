package server

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/page"
)

// Gate stands before every door of a listener. It refuses hosts that are not
// ours (decision M2), gives each request its ID, catches panics, and logs one
// line for each request.
type Gate struct {
	Next     http.Handler
	Base     func(host string) string // {base}, or "" for a host to refuse; nil refuses none
	Address  func(*http.Request) netip.Addr
	Log      *slog.Logger
	Level    *slog.LevelVar // of Log, for JSON; nil is info
	Draining *atomic.Bool   // connections end after their next answer; nil never

	// Seen, unless nil, is told of every request's address.
	Seen func(r *http.Request, address netip.Addr, at time.Time)

	// Count, unless nil, is told of every answer, for the metrics. pattern is
	// that of http.Request, never an address.
	Count func(pattern, method string, status int, took time.Duration)

	// Traces, unless nil, records each request. Trusts says whose word is taken
	// for the span that a request belongs to; nil is nobody's.
	Traces *traces
	Trusts func(*http.Request) bool

	// JSON, unless nil, takes the lines about requests, in the form that Log
	// would write them in as JSON at level info. To write them here costs a
	// quarter of what Log costs, on the way of every request.
	JSON io.Writer
}

// answer remembers what was answered. It is used again for later requests.
type answer struct {
	http.ResponseWriter
	status int
	bytes  int64
	said   said
	line   [512]byte // to write the log line in; not cleared
}

// said is what a door told of a request, for the log.
type said struct {
	client   string // ID, of a client that there is
	approval approval.ID
	fault    string // error code
}

// tell is the Tell of every door.
func tell(w http.ResponseWriter, client string, of approval.ID, fault string) {
	for {
		if a, ok := w.(*answer); ok {
			a.said.add(client, of, fault)
			return
		}
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = inner.Unwrap()
	}
}

func (s *said) add(client string, of approval.ID, fault string) {
	if client != "" {
		s.client = client
	}
	if of != (approval.ID{}) {
		s.approval = of
	}
	if fault != "" {
		s.fault = fault
	}
}

var answers = sync.Pool{New: func() any { return new(answer) }}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	n, err := a.ResponseWriter.Write(p)
	a.bytes += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Flush is for those who ask for http.Flusher by its type.
func (a *answer) Flush() {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	_ = http.NewResponseController(a.ResponseWriter).Flush()
}

var (
	nosniff    = []string{"nosniff"}
	hsts       = []string{"max-age=31536000"}
	connection = []string{"close"}
)

// ServeHTTP is on the way of every request, so it is written for speed: header
// values are set under their canonical names without a copy.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	id := newRequestID()
	h := w.Header()
	h["X-Request-Id"] = []string{id} // one that came with the request is not believed
	h["X-Content-Type-Options"] = nosniff
	if g.Draining != nil && g.Draining.Load() {
		h["Connection"] = connection
	}
	if g.Traces != nil {
		r = g.Traces.begin(r, start, g.Trusts != nil && g.Trusts(r))
	}
	a := answers.Get().(*answer)
	a.ResponseWriter, a.status, a.bytes, a.said = w, 0, 0, said{}
	if g.serve(a, r, id, start) {
		g.log(r, a, id, start)
		a.ResponseWriter = nil
		answers.Put(a)
	}
}

// serve reports whether nothing else can hold on to the answer: after a panic
// something may.
func (g *Gate) serve(a *answer, r *http.Request, id string, start time.Time) (whole bool) {
	defer func() {
		if whole {
			return
		}
		g.recovered(a, r, id, start, recover())
	}()
	if g.Base == nil {
		g.Next.ServeHTTP(a, r)
		return true
	}
	base := g.Base(r.Host)
	if base == "" {
		misdirected(a)
		return true
	}
	if strings.HasPrefix(base, "https:") {
		a.Header()["Strict-Transport-Security"] = hsts
	}
	g.Next.ServeHTTP(a, r)
	return true
}

// recovered answers after a panic, if there is still something to answer. A
// handler that aborted on purpose keeps its way (http.ErrAbortHandler).
func (g *Gate) recovered(a *answer, r *http.Request, id string, start time.Time, fault any) {
	if fault == http.ErrAbortHandler {
		panic(fault)
	}
	g.Log.LogAttrs(r.Context(), slog.LevelError, "panic",
		slog.String("request_id", id), slog.Any("fault", fault), slog.String("stack", string(debug.Stack())))
	begun := a.status != 0
	if !begun {
		ourFault(a, r, id)
	}
	g.log(r, a, id, start)
	if begun {
		panic(http.ErrAbortHandler) // half an answer must not look like a whole one
	}
}

func (g *Gate) log(r *http.Request, a *answer, id string, start time.Time) {
	if a.status == 0 {
		a.status = http.StatusOK // net/http sends it when nothing was written
	}
	now := time.Now()
	if g.Traces != nil {
		g.Traces.end(r, a, id)
	}
	if g.Count != nil {
		g.Count(r.Pattern, r.Method, a.status, now.Sub(start))
	}
	took, address := now.Sub(start), g.Address(r)
	if g.Seen != nil {
		g.Seen(r, address, now)
	}
	if g.JSON != nil {
		if g.Level != nil && g.Level.Level() > slog.LevelInfo {
			return
		}
		_, _ = g.JSON.Write(appendLine(a.line[:0], now, id, r, a, took, address))
		return
	}
	attributes := []slog.Attr{
		slog.String("request_id", id),
		slog.String("method", method(r.Method)),
		slog.String("route", route(r)),
		slog.Int("status", a.status),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
		slog.Int64("bytes", a.bytes),
		slog.String("client_addr", address.String()),
	}
	if a.status == http.StatusNotFound {
		attributes = append(attributes, slog.String("path", string(appendPath(nil, r.URL.Path))))
	}
	g.Log.LogAttrs(context.Background(), slog.LevelInfo, "request", append(attributes, a.said.attributes()...)...)
}

// Bounds of the path that a 404 is logged with, in bytes.
const (
	maxPathPart = 20
	maxPath     = 120
)

// appendPath writes a path so that it can stand in a log: a part that is longer
// than a word, or has anything but letters, digits, dots, hyphens and underscores,
// is a star. No token, code or cookie is as short.
func appendPath(b []byte, path string) []byte {
	most := len(b) + maxPath
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if len(part) > maxPathPart || strings.ContainsFunc(part, unwritten) {
			part = "*"
		}
		if len(b)+1+len(part) > most {
			return append(b, "/..."...)
		}
		b = append(append(b, '/'), part...)
	}
	return b
}

func unwritten(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_'
}

// attributes are what was said, without what was not.
func (s said) attributes() (all []slog.Attr) {
	if s.client != "" {
		all = append(all, slog.String("client_id", s.client))
	}
	if s.approval != (approval.ID{}) {
		all = append(all, slog.String("approval_id", s.approval.String()))
	}
	if s.fault != "" {
		all = append(all, slog.String("error", s.fault))
	}
	return all
}

func (s *said) append(b []byte) []byte {
	if s.client != "" {
		b = append(b, `,"client_id":"`...)
		for _, c := range []byte(s.client) { // visible ASCII, all of it
			if c == '"' || c == '\\' {
				b = append(b, '\\')
			}
			b = append(b, c)
		}
		b = append(b, '"')
	}
	if s.approval != (approval.ID{}) {
		b = append(b, `,"approval_id":"`...)
		b = append(hex.AppendEncode(b, s.approval[:]), '"')
	}
	if s.fault != "" {
		b = append(b, `,"error":"`...)
		b = append(append(b, s.fault...), '"')
	}
	return b
}

// appendLine writes what slog.JSONHandler would. No value needs an escape but
// the client's ID: they are ours, but the address, and that consists of digits.
func appendLine(b []byte, now time.Time, id string, r *http.Request, a *answer, took time.Duration, address netip.Addr) []byte {
	b = append(b, `{"time":"`...)
	b = appendTime(b, now)
	b = append(b, `","level":"INFO","msg":"request","request_id":"`...)
	b = append(b, id...)
	b = append(b, `","method":"`...)
	b = append(b, method(r.Method)...)
	b = append(b, `","route":"`...)
	b = append(b, route(r)...)
	b = append(b, `","status":`...)
	b = strconv.AppendInt(b, int64(a.status), 10)
	b = append(b, `,"duration_ms":`...)
	b = appendMilliseconds(b, took)
	b = append(b, `,"bytes":`...)
	b = strconv.AppendInt(b, a.bytes, 10)
	b = append(b, `,"client_addr":"`...)
	if address.IsValid() {
		b = address.AppendTo(b)
	} else {
		b = append(b, address.String()...)
	}
	b = append(b, '"')
	if a.status == http.StatusNotFound {
		b = append(appendPath(append(b, `,"path":"`...), r.URL.Path), '"')
	}
	return append(a.said.append(b), "}\n"...)
}

// appendMilliseconds writes a number with the microseconds behind the point, as
// few digits as will do.
func appendMilliseconds(b []byte, d time.Duration) []byte {
	b = strconv.AppendInt(b, d.Milliseconds(), 10)
	rest := d.Microseconds() % 1000
	if rest == 0 {
		return b
	}
	digits := [4]byte{'.', byte('0' + rest/100), byte('0' + rest/10%10), byte('0' + rest%10)}
	return append(b, bytes.TrimRight(digits[:], "0")...)
}

// second is how RFC3339Nano begins and ends in one second of the clock.
type second struct {
	unix        int64
	where       *time.Location
	begin, zone string
}

var lastSecond atomic.Pointer[second]

// appendTime writes what AppendFormat would with time.RFC3339Nano. Most lines
// are of the same second as the one before.
func appendTime(b []byte, now time.Time) []byte {
	at := lastSecond.Load()
	if at == nil || at.unix != now.Unix() || at.where != now.Location() {
		text := now.Truncate(time.Second).Format(time.RFC3339)
		at = &second{now.Unix(), now.Location(), text[:19], text[19:]}
		lastSecond.Store(at)
	}
	b = append(b, at.begin...)
	if n := now.Nanosecond(); n > 0 {
		digits := 9
		for ; n%10 == 0; digits-- {
			n /= 10
		}
		b = append(b, ".000000000"[:digits+1]...)
		for i := len(b) - 1; n > 0; i-- {
			b[i], n = byte('0'+n%10), n/10
		}
	}
	return append(b, at.zone...)
}

// route is the pattern that the request matched, never its address, which may
// hold secrets. Patterns are written with the method before them.
func route(r *http.Request) string {
	if _, path, ok := strings.Cut(r.Pattern, " "); ok {
		return path
	}
	if r.Pattern == "" {
		return "none"
	}
	return r.Pattern
}

// method bounds what a stranger can have logged.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return m
	}
	return "other"
}

// newRequestID gives 16 hexadecimal digits.
func newRequestID() string {
	const digits = "0123456789abcdef"
	var text [16]byte
	n := rand.Uint64() // it tells requests apart, and is no secret
	for i := range text {
		text[i], n = digits[n%16], n/16
	}
	return string(text[:])
}

// misdirected refuses a host that is not ours without repeating it (decision
// M2; RFC 9110 section 15.5.20).
func misdirected(w http.ResponseWriter) {
	page.PageHeaders(w.Header())
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusMisdirectedRequest)
	_, _ = w.Write([]byte("This server does not answer for the host that was asked.\n"))
}

// ourFault is what is told of a panic: a page to browsers, JSON to others.
func ourFault(w http.ResponseWriter, r *http.Request, id string) {
	h := w.Header()
	for name := range h { // what the door had begun to say
		switch name {
		case "X-Request-Id", "X-Content-Type-Options", "Strict-Transport-Security", "Connection":
		default:
			h.Del(name)
		}
	}
	h.Set("Cache-Control", "no-store")
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		page.PageHeaders(h)
		h.Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte("<!doctype html><html lang=\"en\"><title>Something went wrong here</title>" +
			"<h1>Something went wrong here.</h1><p>Try again. Reference " + id + "</p></html>\n"))
		return
	}
	h.Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = w.Write([]byte(`{"error":"server_error","error_description":"something went wrong here","reference":"` + id + `"}` + "\n"))
}
