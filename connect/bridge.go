package connect

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/sse"
	"github.com/grantkeeper/grantkeeper/strictjson"
)

// How long a request waits for the person, from when an attempt has begun. Assistants
// give a server that starts 30 seconds, the shortest of them; whoever approves within 20
// sees nothing of the waiting.
const patience = 20 * time.Second

// How long what is under way may go on when the assistant has gone.
const lastWait = 10 * time.Second

// A bridge carries messages between an assistant and the server.
type bridge struct {
	grant *grant
	http  *http.Client

	writing sync.Mutex
	out     io.Writer

	opening sync.Mutex // one begins a session at a time

	mu      sync.Mutex
	hello   []byte                        // the assistant's initialize, to begin a session again
	asked   message                       // the same, read
	ready   bool                          // the assistant has said that it is initialized
	live    bool                          // the server knows the hello
	offered bool                          // it was answered here, while nobody had approved
	version string                        // that the server settled on
	session string                        // the server's
	calls   map[string]context.CancelFunc // requests under way, by ID
	stream  context.CancelFunc            // of what the server says by itself
	waits   bool                          // somebody carries on when the person has approved

	under sync.WaitGroup
	gone  chan struct{} // closed when the assistant has gone
}

func newBridge(o Options) (*bridge, error) {
	g, err := newGrant(o)
	if err != nil {
		return nil, err
	}
	g.patience = cmp.Or(g.patience, patience)
	return &bridge{grant: g, http: newHTTP(), out: o.Out, calls: map[string]context.CancelFunc{}, gone: make(chan struct{})}, nil
}

// run passes on what comes until there is no more, or ctx ends.
func (b *bridge) run(ctx context.Context) error {
	defer b.grant.close()
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	lines, ended := make(chan []byte), make(chan error, 1)
	go func() {
		in := bufio.NewReaderSize(b.grant.In, 64<<10)
		for {
			line, err := readLine(in)
			if err != nil {
				ended <- err
				return
			}
			lines <- line
		}
	}()
	var err error
	for open := true; open; {
		select {
		case line := <-lines:
			b.take(work, line)
		case err = <-ended:
			open = false
		case <-ctx.Done():
			open = false
		}
	}
	b.finish(work, cancel)
	if errors.Is(err, errLong) {
		return cannot("", "%v", err)
	}
	return nil
}

// finish lets what is under way end, and ends the session. Nobody waits for the person
// any more; another copy may.
func (b *bridge) finish(ctx context.Context, cancel context.CancelFunc) {
	close(b.gone)
	b.mu.Lock()
	if b.stream != nil {
		b.stream()
	}
	b.mu.Unlock()
	done := make(chan struct{})
	go func() {
		b.under.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(lastWait):
		cancel()
		<-done
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer stop()
	b.mu.Lock()
	session := b.session
	b.mu.Unlock()
	token := b.grant.last()
	if session == "" || token == "" {
		return
	}
	if r, err := b.request(ctx, http.MethodDelete, nil, message{}, token); err == nil {
		if answer, err := b.http.Do(r); err == nil {
			answer.Body.Close()
		}
	}
}

// write gives the assistant one message.
func (b *bridge) write(text []byte) {
	b.writing.Lock()
	defer b.writing.Unlock()
	_, _ = b.out.Write(oneLine(text)) // the assistant may have gone
}

// take passes on one line. Requests go side by side; what is no request goes in order,
// before anything that came after it.
func (b *bridge) take(ctx context.Context, line []byte) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return
	}
	all, err := readMessages(line)
	if err != nil {
		b.write(refusal("", codeUnreadable, "the message cannot be read: "+err.Error()))
		return
	}
	asks := false
	for _, m := range all {
		asks = asks || m.isRequest()
		b.note(line, m)
	}
	if !asks {
		b.tell(ctx, line, all[0])
		return
	}
	of, cancel := context.WithCancel(ctx)
	b.mu.Lock()
	for _, m := range all {
		if m.isRequest() {
			b.calls[m.id] = cancel
		}
	}
	b.mu.Unlock()
	b.under.Go(func() {
		defer cancel()
		b.ask(of, line, all)
		b.mu.Lock()
		for _, m := range all {
			delete(b.calls, m.id)
		}
		b.mu.Unlock()
	})
}

// note remembers what a session begins with.
func (b *bridge) note(line []byte, m message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.program != "" {
		b.grant.calls(m.program)
	}
	switch m.method {
	case "initialize":
		b.hello, b.asked, b.ready, b.live, b.offered, b.session, b.version = line, m, false, false, false, "", ""
	case "notifications/initialized":
		b.ready = true
	}
}

// tell passes on what has no answer. While there is no access it is not said: what
// matters of it, goes with the hello.
func (b *bridge) tell(ctx context.Context, line []byte, m message) {
	ctx, stop := context.WithTimeout(ctx, 15*time.Second)
	defer stop()
	b.mu.Lock()
	early, call := b.hello != nil && !b.live, b.calls[m.cancels]
	b.mu.Unlock()
	if !early {
		if answer, err := b.send(ctx, line, m, ""); err == nil {
			answer.Body.Close()
		}
	}
	if call != nil {
		call() // the assistant takes no answer any more
	}
	if m.method == "notifications/initialized" && !early {
		b.listen()
	}
}

// ask passes on requests, and gives the assistant an answer to each.
func (b *bridge) ask(ctx context.Context, line []byte, all []message) {
	answered, err := b.pass(ctx, line, all)
	if ctx.Err() != nil { // called off: nobody waits for an answer
		return
	}
	var now meanwhileError
	for _, m := range all {
		switch {
		case !m.isRequest() || answered[m.id]:
		case errors.As(err, &now) && b.answersItself(m):
			b.write(meanwhile(m, b.grant.Version, now.Error()))
		case err != nil:
			b.write(refusal(m.id, codeRefused, Words(err)))
		default:
			b.write(refusal(m.id, codeRefused, "the server gave no answer"))
		}
	}
}

// meanwhileError says that nobody has approved yet.
type meanwhileError struct{ why, address string }

func (m meanwhileError) Error() string {
	text := "Not connected: a person has to approve the access in a browser on this computer."
	if m.why != "" {
		text = "Not connected: " + m.why + ". A person has to approve again, in a browser on this computer."
	}
	if m.address != "" {
		return text + " It should be open there; if not, open this address: " + m.address
	}
	return text + " Start the assistant again for that, or run: grantkeeper connect URL --sign-in"
}

// answersItself notes that the session begins here, and says whether it does: a session
// that the server knows gets errors instead.
func (b *bridge) answersItself(m message) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.method == "initialize" {
		b.offered = true
	}
	return b.offered && !b.live
}

// Words is an error for whoever reads the assistant's answer.
func Words(err error) string {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		if e.Hint != "" {
			return e.What + " (" + e.Hint + ")"
		}
		return e.What
	}
	if why, ok := needsApproval(err); ok {
		return meanwhileError{why: why}.Error()
	}
	return err.Error()
}

// access gives a token. Where the person has to approve it waits for a while.
func (b *bridge) access(ctx context.Context, first message, refused string) (string, error) {
	for {
		token, err := b.grant.token(ctx, refused)
		why, needed := needsApproval(err)
		if !needed {
			return token, err
		}
		quiet := quietInCalls
		if first.method == "initialize" || first.method == "server/discover" {
			quiet = quietAtStart
		}
		a := b.grant.begin(quiet)
		select {
		case <-a.done:
			if a.err == nil {
				continue
			}
			if more, ok := needsApproval(a.err); ok {
				return "", meanwhileError{why: more}
			}
			return "", a.err
		case <-time.After(time.Until(a.began.Add(b.grant.patience))):
			b.carryOn(a)
			return "", meanwhileError{why: why, address: a.at()}
		case <-b.gone:
			return "", meanwhileError{why: why, address: a.at()}
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// carryOn opens the session as soon as the person has approved, so that the assistant
// hears of the tools without asking.
func (b *bridge) carryOn(a *attempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waits {
		return
	}
	b.waits = true
	go func() {
		<-a.done
		b.mu.Lock()
		b.waits = false
		begin := a.err == nil && b.offered && !b.live
		b.mu.Unlock()
		if begin {
			ctx, stop := context.WithTimeout(context.Background(), time.Minute)
			defer stop()
			if err := b.open(ctx, ""); err != nil {
				say(b.grant.Err, "%v", Words(err))
			}
		}
	}()
}

// pass sends requests, at most a few times: once more with another token, and once more
// in another session. answered are the IDs that have been.
func (b *bridge) pass(ctx context.Context, line []byte, all []message) (answered map[string]bool, err error) {
	refused := ""
	for try := 0; ; try++ {
		b.mu.Lock()
		offered, session := b.offered && all[0].method != "initialize", b.session
		behind := offered && !b.live
		b.mu.Unlock()
		if behind {
			if err := b.open(ctx, session); err != nil {
				return nil, err
			}
		}
		if offered && all[0].method == "tools/call" && all[0].name == approveTool {
			b.write(toolSays(all[0].id, b.grant.says()+" List the tools again; should none appear, start the assistant again.", false))
			return map[string]bool{all[0].id: true}, nil
		}
		token, err := b.access(ctx, all[0], refused)
		if err != nil {
			return nil, err
		}
		answer, err := b.post(ctx, line, all[0], token)
		if err != nil {
			return nil, err
		}
		switch {
		case answer.StatusCode == http.StatusUnauthorized && try < 2 && token != refused:
			answer.Body.Close()
			refused = token
		case answer.StatusCode == http.StatusNotFound && session != "" && try < 2 && all[0].method != "initialize":
			answer.Body.Close()
			if err := b.open(ctx, session); err != nil {
				return nil, err
			}
		default:
			return b.read(ctx, answer, all)
		}
	}
}

// send sends what is no request, with whatever token there is.
func (b *bridge) send(ctx context.Context, line []byte, m message, refused string) (*http.Response, error) {
	token, err := b.grant.token(ctx, refused)
	if err != nil {
		return nil, err
	}
	answer, err := b.post(ctx, line, m, token)
	if err == nil && answer.StatusCode == http.StatusUnauthorized && refused == "" {
		answer.Body.Close()
		return b.send(ctx, line, m, token)
	}
	return answer, err
}

func (b *bridge) post(ctx context.Context, line []byte, m message, token string) (*http.Response, error) {
	r, err := b.request(ctx, http.MethodPost, line, m, token)
	if err != nil {
		return nil, cannot("", "%v", err)
	}
	answer, err := b.http.Do(r)
	if err != nil {
		return nil, unreachable(b.grant.endpoint, err)
	}
	return answer, nil
}

// request makes a request. But for who, this is the one place where a token is put into
// one.
func (b *bridge) request(ctx context.Context, method string, line []byte, m message, token string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, b.grant.endpoint.url, bytes.NewReader(line))
	if err != nil {
		return nil, err
	}
	h := r.Header
	h.Set("Authorization", "Bearer "+token)
	h.Set("User-Agent", "grantkeeper-connect/"+b.grant.Version)
	h.Set("Accept", "application/json, text/event-stream")
	switch method {
	case http.MethodPost:
		h.Set("Content-Type", "application/json")
	case http.MethodGet:
		h.Set("Accept", "text/event-stream")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	version := m.version
	if version == "" && m.method != "initialize" {
		version = b.version
	}
	if version != "" {
		h.Set("MCP-Protocol-Version", version)
	}
	if b.session != "" && m.method != "initialize" {
		h.Set("Mcp-Session-Id", b.session)
	}
	if version >= stateless && m.method != "" {
		h.Set("Mcp-Method", m.method)
		if m.name != "" {
			h.Set("Mcp-Name", header(m.name))
		}
	}
	return r, nil
}

// read gives the assistant what an answer holds, which may be a stream.
func (b *bridge) read(ctx context.Context, answer *http.Response, all []message) (answered map[string]bool, err error) {
	defer answer.Body.Close()
	answered = map[string]bool{}
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if answer.StatusCode == http.StatusOK && kind == "text/event-stream" {
		return answered, b.follow(ctx, answer, all, answered)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxMessage+1))
	switch {
	case err != nil:
		return answered, lost(b.grant.endpoint, err)
	case len(text) > maxMessage:
		return answered, cannot("", "%v", errLong)
	case answer.StatusCode == http.StatusAccepted, answer.StatusCode == http.StatusNoContent:
		return answered, nil
	}
	if kind == "application/json" && b.answers(answer, text, all, answered) {
		b.write(text)
		return answered, nil
	}
	return answered, refused(b.grant.endpoint, answer, text)
}

// answers notes what a text answers; false is of one that answers nothing that was
// asked.
func (b *bridge) answers(answer *http.Response, text []byte, all []message, answered map[string]bool) (any bool) {
	each := [][]byte{text}
	for _, one := range elements(text) { // of a batch
		each = append(each, one)
	}
	for _, one := range each {
		id, version := answerTo(one)
		for _, m := range all {
			if id == "" || id != m.id {
				continue
			}
			any, answered[id] = true, true
			if m.method == "initialize" && version != "" {
				b.settle(version, answer.Header.Get("Mcp-Session-Id"))
			}
		}
	}
	return any
}

// settle notes the session that the server has begun.
func (b *bridge) settle(version, session string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.version, b.session, b.live = version, session, true
}

// follow gives the assistant the messages of a stream until what was asked is answered.
// A stream that breaks is taken up again where the server says how.
func (b *bridge) follow(ctx context.Context, answer *http.Response, all []message, answered map[string]bool) error {
	last, retry, tries := "", time.Duration(0), again{}
	for {
		before := last
		err := b.pour(answer.Body, &last, &retry, func(data []byte) { b.answers(answer, data, all, answered) })
		answer.Body.Close()
		done := true
		for _, m := range all {
			done = done && (!m.isRequest() || answered[m.id])
		}
		wait, more := tries.next(last != before, retry)
		switch {
		case done || ctx.Err() != nil:
			return nil
		case last == "" || !more:
			return lost(b.grant.endpoint, err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
		if answer, err = b.resume(ctx, last, all[0]); err != nil {
			return err
		}
	}
}

// pour gives the assistant the messages of a stream, as they come. last becomes the ID that
// the stream goes on behind, and retry how long to wait before, where it says so.
func (b *bridge) pour(body io.Reader, last *string, retry *time.Duration, seen func(data []byte)) error {
	for from := sse.NewReader(body, maxMessage); ; {
		e, err := from.Next()
		if err != nil {
			return err
		}
		if id, ok := e.ID(); ok {
			*last = id
		}
		if wait, ok := e.Retry(); ok {
			*retry = wait
		}
		if data := e.Data(); len(data) > 0 {
			seen(data)
			b.write(data)
		}
	}
}

// resume opens a stream again behind an event.
func (b *bridge) resume(ctx context.Context, last string, m message) (*http.Response, error) {
	token, err := b.grant.token(ctx, "")
	if err != nil {
		return nil, err
	}
	r, err := b.request(ctx, http.MethodGet, nil, message{version: m.version}, token)
	if err != nil {
		return nil, cannot("", "%v", err)
	}
	r.Header.Set("Last-Event-ID", last)
	answer, err := b.http.Do(r)
	if err != nil {
		return nil, unreachable(b.grant.endpoint, err)
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		return nil, lost(b.grant.endpoint, errors.New(answer.Status))
	}
	return answer, nil
}

// open begins a session with the assistant's own hello, whose answer it does not get: it
// has had one. before is the session that is no more.
func (b *bridge) open(ctx context.Context, before string) error {
	b.opening.Lock()
	defer b.opening.Unlock()
	b.mu.Lock()
	hello, asked, ready, done := b.hello, b.asked, b.ready, b.live && b.session != before
	offered := b.offered && !b.live
	b.mu.Unlock()
	if done || hello == nil {
		return nil
	}
	token, err := b.access(ctx, asked, "")
	if err != nil {
		return err
	}
	answer, err := b.post(ctx, hello, asked, token)
	if err != nil {
		return err
	}
	if err := b.settleFrom(answer); err != nil {
		return err
	}
	if ready {
		if answer, err := b.send(ctx, notice("notifications/initialized"), message{method: "notifications/initialized"}, ""); err == nil {
			answer.Body.Close()
		}
		b.listen()
	}
	if offered {
		for _, what := range []string{"tools", "resources", "prompts"} {
			b.write(notice("notifications/" + what + "/list_changed"))
		}
	}
	return nil
}

// settleFrom reads the answer to a hello.
func (b *bridge) settleFrom(answer *http.Response) error {
	defer answer.Body.Close()
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	body, version := io.LimitReader(answer.Body, maxMessage), ""
	if kind == "text/event-stream" {
		for from := sse.NewReader(body, maxMessage); version == ""; {
			e, err := from.Next()
			if err != nil {
				return lost(b.grant.endpoint, err)
			}
			_, version = answerTo(e.Data())
		}
	} else {
		text, err := io.ReadAll(body)
		if err != nil {
			return lost(b.grant.endpoint, err)
		}
		if _, version = answerTo(text); version == "" {
			return refused(b.grant.endpoint, answer, text)
		}
	}
	b.settle(version, answer.Header.Get("Mcp-Session-Id"))
	return nil
}

// listen opens the stream of what the server says by itself, where it has one.
func (b *bridge) listen() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stream != nil {
		b.stream()
	}
	if !b.live || b.version >= stateless {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.stream = cancel
	go b.hear(ctx)
}

func (b *bridge) hear(ctx context.Context) {
	last, wait, retry := "", time.Second, time.Duration(0)
	for ctx.Err() == nil {
		began := time.Now()
		token, err := b.grant.token(ctx, "")
		if _, needed := needsApproval(err); needed {
			return // the next request says so
		}
		if err == nil {
			r, err := b.request(ctx, http.MethodGet, nil, message{}, token)
			if err != nil {
				return
			}
			if last != "" {
				r.Header.Set("Last-Event-ID", last)
			}
			if answer, err := b.http.Do(r); err == nil {
				kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
				if answer.StatusCode == http.StatusOK && kind == "text/event-stream" {
					_ = b.pour(answer.Body, &last, &retry, func([]byte) {})
				} else if answer.StatusCode/100 == 4 && answer.StatusCode != http.StatusTooManyRequests && answer.StatusCode != http.StatusUnauthorized {
					answer.Body.Close()
					return // it has none, or the session is over: the next request finds out
				}
				answer.Body.Close()
			}
		}
		if wait = min(2*wait, time.Minute); time.Since(began) > time.Minute {
			wait = time.Second
		}
		select {
		case <-time.After(max(wait, min(retry, time.Minute))):
		case <-ctx.Done():
		}
	}
}

// lost is of an answer that did not come whole.
func lost(e endpoint, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return cannot("look first whether it was done", "the connection to %s ended before the answer", e.host)
	}
	return cannot("look first whether it was done", "the connection to %s broke before the answer: %v", e.host, err)
}

// refused is of an answer that is not one to the message, in words.
func refused(e endpoint, answer *http.Response, text []byte) error {
	says := ""
	if members, err := strictjson.Object(text, depth); err == nil {
		says = textOf(members["error_description"])
		for _, from := range []string{textOf(inside(members, "error")["message"]), textOf(members["reason"]), textOf(members["message"]), textOf(members["error"])} {
			if says == "" {
				says = from
			}
		}
	}
	switch {
	case answer.StatusCode == http.StatusTooManyRequests:
		wait, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		return cannot(fmt.Sprintf("wait %d seconds", max(1, wait)), "too many requests to %s", e.host)
	case answer.StatusCode == http.StatusUnauthorized:
		return cannot("approve again: grantkeeper connect URL --sign-in", "%s does not take the access", e.host)
	case says != "":
		return cannot("", "%s answers %d: %s", e.host, answer.StatusCode, says)
	}
	return cannot("", "%s answers %s", e.host, answer.Status)
}
