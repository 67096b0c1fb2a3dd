package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/mail"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/config"
)

// A post office is an SMTP server that keeps what it takes.
type postOffice struct {
	t      *testing.T
	server config.MailServer
	tls    *tls.Config   // offers STARTTLS with it
	refuse func() string // answers RCPT; "" takes it

	mu    sync.Mutex
	auths []string
	took  chan taken
}

type taken struct {
	from, to string
	tls      bool
	*mail.Message
	text string
}

func newPostOffice(t *testing.T) *postOffice {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	host, port, _ := net.SplitHostPort(l.Addr().String())
	o := &postOffice{t: t, took: make(chan taken, 100), refuse: func() string { return "" },
		server: config.MailServer{Host: host, Port: port, From: mail.Address{Name: "Svalinn", Address: "no-reply@svalinn.example"}}}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go o.talk(conn)
		}
	}()
	return o
}

var inBrackets = regexp.MustCompile(`<(.*)>`)

// talk is one session (RFC 5321).
func (o *postOffice) talk(conn net.Conn) {
	defer func() { conn.Close() }()
	in := bufio.NewReader(conn)
	say := func(line string) { io.WriteString(conn, line+"\r\n") }
	say("220 post office")
	var got taken
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		switch verb, rest, _ := strings.Cut(line, " "); strings.ToUpper(verb) {
		case "EHLO":
			say("250-post office")
			if o.tls != nil && !got.tls {
				say("250-STARTTLS")
			}
			say("250 AUTH PLAIN")
		case "STARTTLS":
			say("220 go on")
			secure := tls.Server(conn, o.tls)
			conn, in, got.tls = secure, bufio.NewReader(secure), true
		case "AUTH":
			plain, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(rest, "PLAIN "))
			o.mu.Lock()
			o.auths = append(o.auths, fmt.Sprintf("%q tls=%v", plain, got.tls))
			o.mu.Unlock()
			say("235 welcome")
		case "MAIL":
			got.from = inBrackets.FindStringSubmatch(rest)[1]
			say("250 ok")
		case "RCPT":
			if no := o.refuse(); no != "" {
				say(no)
				continue
			}
			got.to = inBrackets.FindStringSubmatch(rest)[1]
			say("250 ok")
		case "DATA":
			say("354 go on")
			if got.Message, got.text, err = readMail(in); err != nil {
				o.t.Error(err)
			}
			say("250 taken")
			o.took <- got
		case "QUIT":
			say("221 bye")
			return
		default:
			say("500 what?")
		}
	}
}

func readMail(in *bufio.Reader) (*mail.Message, string, error) {
	var b bytes.Buffer
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, "", err
		}
		if line == ".\r\n" {
			break
		}
		b.WriteString(strings.TrimPrefix(line, "."))
	}
	m, err := mail.ReadMessage(&b)
	if err != nil {
		return nil, "", err
	}
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	return m, strings.ReplaceAll(string(text), "\r\n", "\n"), err
}

// mailer sends to the office, with its log.
func (o *postOffice) mailer(waits ...time.Duration) (*mailer, *safeBuffer) {
	o.t.Helper()
	log := &safeBuffer{}
	m := &mailer{MailServer: o.server, log: slog.New(slog.NewTextHandler(log, nil)), waits: waits, queue: make(chan letter, 3)}
	m.start()
	o.t.Cleanup(m.Close)
	return m, log
}

func letterTo(name, address, subject, text string) letter {
	return letter{kind: "test", make: func(context.Context) (mail.Address, string, string, error) {
		return mail.Address{Name: name, Address: address}, subject, text, nil
	}}
}

func TestMail(t *testing.T) {
	t.Parallel()
	o := newPostOffice(t)
	m, _ := o.mailer()
	const text = "Grüße, 日本\n.a line that begins with a dot\n" + "a long line, a long line, a long line, a long line, a long line, a long line, a long line\n"
	m.post(letterTo("Ådå\r\nBcc: x@evil.example", "ada@nordlys.example", "Zurück\r\nBcc: y@evil.example", text))
	got := <-o.took
	if got.from != "no-reply@svalinn.example" || got.to != "ada@nordlys.example" || got.text != text {
		t.Errorf("got from %s to %s: %q", got.from, got.to, got.text)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
	if err != nil || subject != "Zurück\r\nBcc: y@evil.example" || got.Header.Get("Bcc") != "" {
		t.Errorf("subject %q, %v, headers %v", subject, err, got.Header)
	}
	if got.Header.Get("Auto-Submitted") != "auto-generated" || got.Header.Get("From") != `"Svalinn" <no-reply@svalinn.example>` ||
		got.Header.Get("Message-Id") == "" || got.Header.Get("Date") == "" {
		t.Errorf("headers %v", got.Header)
	}
}

// A password goes over TLS alone.
func TestMailWithPassword(t *testing.T) {
	t.Parallel()
	o := newPostOffice(t)
	o.server.User, o.server.Password = "svalinn", "the password of mail"
	certFile, keyFile, pool := certificate(t)
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	o.tls = &tls.Config{Certificates: []tls.Certificate{pair}}
	m, log := o.mailer()
	m.post(letterTo("Ada", "ada@nordlys.example", "x", "y\n")) // to a certificate that nobody knows
	m.Close()
	if len(o.took) != 0 || len(o.auths) != 0 || !strings.Contains(log.String(), "a mail is not sent") {
		t.Fatalf("sent to an unknown certificate: %v\n%s", o.auths, log)
	}
	m = &mailer{MailServer: o.server, log: m.log, roots: &tls.Config{RootCAs: pool}, queue: make(chan letter, 3)}
	m.start()
	t.Cleanup(m.Close)
	m.post(letterTo("Ada", "ada@nordlys.example", "x", "y\n"))
	if got := <-o.took; !got.tls {
		t.Error("sent in clear")
	}
	if len(o.auths) != 1 || o.auths[0] != `"\x00svalinn\x00the password of mail" tls=true` {
		t.Errorf("signed in by %v", o.auths)
	}
	if strings.Contains(log.String(), "the password of mail") {
		t.Error("the password is in the log")
	}
	for host, want := range map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true, "mail.example": false, "192.0.2.1": false, "localhost.example": false} {
		if got := isLoopback(host); got != want {
			t.Errorf("%s may be spoken to in clear: %v", host, got)
		}
	}
}

// A server that is away is tried again; what it refuses for good is not.
func TestMailIsTriedAgain(t *testing.T) {
	t.Parallel()
	o := newPostOffice(t)
	var mu sync.Mutex
	answers := []string{"451 later", "451 later", ""}
	o.refuse = func() (answer string) {
		mu.Lock()
		defer mu.Unlock()
		answer, answers = answers[0], answers[1:]
		return answer
	}
	m, log := o.mailer(time.Millisecond, time.Millisecond)
	m.post(letterTo("Ada", "ada@nordlys.example", "x", "y\n"))
	<-o.took
	answers = []string{"550 no such person", ""}
	m.post(letterTo("Ada", "ada@nordlys.example", "first", "y\n"))
	m.post(letterTo("Ada", "ada@nordlys.example", "second", "y\n"))
	if got := <-o.took; got.Header.Get("Subject") != "second" {
		t.Errorf("took %q", got.Header.Get("Subject"))
	}
	m.Close()
	if got := log.String(); strings.Count(got, "a mail waits") != 2 || strings.Count(got, "a mail is not sent") != 1 || strings.Contains(got, "ada@") {
		t.Errorf("log:\n%s", got)
	}
}

// Nobody waits for a mail, and what is queued at the end is still sent.
func TestMailQueue(t *testing.T) {
	t.Parallel()
	o := newPostOffice(t)
	held, free := make(chan bool), make(chan bool)
	m, log := o.mailer()
	m.post(letter{kind: "test", make: func(context.Context) (mail.Address, string, string, error) {
		close(held)
		<-free
		return mail.Address{}, "", "", errors.New("held up")
	}})
	<-held
	posted := 0
	for range 5 {
		if m.post(letterTo("Ada", "ada@nordlys.example", "x", "y\n")) {
			posted++
		}
	}
	if posted != cap(m.queue) || strings.Count(log.String(), "the queue is full") != 5-posted {
		t.Errorf("%d letters found room, want %d\n%s", posted, cap(m.queue), log)
	}
	close(free)
	m.Close()
	if len(o.took) != posted {
		t.Errorf("%d were sent at the end, want %d", len(o.took), posted)
	}
}

func subjectOf(t *testing.T, got taken) string {
	t.Helper()
	subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
	if err != nil {
		t.Fatal(err)
	}
	return subject
}

// Case S-13: who loses a connection to a second use of an old key is told by
// mail, in the language of the settings; and an operator's reset link is mailed, works once, and is in no log.
func TestS13PeopleAreMailed(t *testing.T) {
	t.Parallel()
	o := newPostOffice(t)
	operator := freePort(t)
	base, stderr, stop := startServe(t, "http", func(c *config.Config) {
		c.Mail = config.Mail{URL: "smtp://127.0.0.1:" + o.server.Port, From: "Svalinn <no-reply@svalinn.example>", PasswordFile: "", Language: "de"}
		c.Operator.Listen = operator
	})
	p := &process{T: t, public: base, operator: "http://" + operator, password: "long enough"}
	p.post("/v1/directory", `{"organizations":[{"id":"verksted","name":"Verksted","ai_integration":true}],
		"people":[{"id":"eva","email":"eva@verksted.example","name":"Eva","password":"the password of Eva"}],
		"members":[{"organization":"verksted","person":"eva"}],
		"circles":[{"id":"all","organization":"verksted","name":"All"}],
		"roles":[{"id":"keys","organization":"verksted","circle":"all","name":"Keeper of Keys","fillers":["eva"]}]}`)
	d, err := newDemo(demoOptions{baseURL: base, email: "eva@verksted.example", passwordFile: write(t, "password", "the password of Eva\n", 0o600)}, len(demoSteps))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range demoSteps {
		if _, err := step.run(d, t.Context()); err != nil && !errors.Is(err, errNothingBehind) {
			t.Fatal(err)
		}
	}
	got := <-o.took
	for _, want := range []string{"Ein alter Schlüssel dieser\nVerbindung wurde ein zweites Mal benutzt;", "\n" + base + "/organizations/verksted/profile/api\n"} {
		if !strings.Contains(got.text, want) || got.to != "eva@verksted.example" || subjectOf(t, got) != "Svalinn: Der Zugriff einer App wurde beendet" || got.Header.Get("Content-Language") != "de" {
			t.Errorf("to %s: %v %s", got.to, got.Header, got.text)
		}
	}
	if n := len(o.took); n != 0 {
		t.Errorf("%d mails more", n)
	}

	var answer struct {
		ID, URL string
		Mailed  bool
	}
	c := operatorClient{base: p.operator, password: p.password, http: http.DefaultClient}
	if err := c.do(t.Context(), "POST", "/v1/people/eva/reset-link", nil, json.RawMessage(`{"reason":"forgot it"}`), &answer); err != nil || !answer.Mailed || answer.URL != "" || answer.ID != "eva" {
		t.Fatalf("%v %+v", err, answer)
	}
	got = <-o.took
	link := regexp.MustCompile(regexp.QuoteMeta(base) + `/reset/([A-Za-z0-9_-]{43})\n`).FindStringSubmatch(got.text)
	if link == nil || subjectOf(t, got) != "Svalinn: ein neues Passwort setzen" {
		t.Fatalf("mailed %v %s", got.Header, got.text)
	}
	a, err := http.Get(strings.TrimSpace(link[0]))
	if err != nil {
		t.Fatal(err)
	}
	page, _ := io.ReadAll(a.Body)
	a.Body.Close()
	if a.StatusCode != 200 || !bytes.Contains(page, []byte("eva@verksted.example")) {
		t.Errorf("the link leads to %s: %s", a.Status, page)
	}
	stop()
	if strings.Contains(stderr.String(), link[1]) || strings.Contains(stderr.String(), "eva@") {
		t.Error("the log has the link's secret, or an address")
	}
}
