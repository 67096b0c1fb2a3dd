package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"mime"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/server/servertest"
)

// mailTo sends to a post office, with its log.
func mailTo(t *testing.T, o *servertest.PostOffice, waits ...time.Duration) (*mailer, *safeBuffer) {
	t.Helper()
	log := &safeBuffer{}
	m := &mailer{MailServer: o.Server, log: slog.New(slog.NewTextHandler(log, nil)), waits: waits, queue: make(chan letter, 3)}
	m.start()
	t.Cleanup(m.Close)
	return m, log
}

func letterTo(name, address, subject, text string) letter {
	return letter{kind: "test", make: func(context.Context) (mail.Address, string, string, error) {
		return mail.Address{Name: name, Address: address}, subject, text, nil
	}}
}

func TestMail(t *testing.T) {
	t.Parallel()
	o := servertest.NewPostOffice(t)
	m, _ := mailTo(t, o)
	const text = "Grüße, 日本\n.a line that begins with a dot\n" + "a long line, a long line, a long line, a long line, a long line, a long line, a long line\n"
	m.post(letterTo("Ådå\r\nBcc: x@evil.example", "ada@nordlys.example", "Zurück\r\nBcc: y@evil.example", text))
	got := <-o.Took
	if got.From != "no-reply@svalinn.example" || got.To != "ada@nordlys.example" || got.Text != text {
		t.Errorf("got from %s to %s: %q", got.From, got.To, got.Text)
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
	o := servertest.NewPostOffice(t)
	o.Server.User, o.Server.Password = "svalinn", "the password of mail"
	certFile, keyFile, pool := certificate(t)
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	o.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	m, log := mailTo(t, o)
	m.post(letterTo("Ada", "ada@nordlys.example", "x", "y\n")) // to a certificate that nobody knows
	m.Close()
	if len(o.Took) != 0 || len(o.Auths()) != 0 || !strings.Contains(log.String(), "a mail is not sent") {
		t.Fatalf("sent to an unknown certificate: %v\n%s", o.Auths(), log)
	}
	m = &mailer{MailServer: o.Server, log: m.log, roots: pool, queue: make(chan letter, 3)}
	m.start()
	t.Cleanup(m.Close)
	m.post(letterTo("Ada", "ada@nordlys.example", "x", "y\n"))
	if got := <-o.Took; !got.TLS {
		t.Error("sent in clear")
	}
	if len(o.Auths()) != 1 || o.Auths()[0] != `"\x00svalinn\x00the password of mail" tls=true` {
		t.Errorf("signed in by %v", o.Auths())
	}
	if strings.Contains(log.String(), "the password of mail") {
		t.Error("the password is in the log")
	}
	for host, want := range map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true, "mail.example": false, "192.0.2.1": false, "localhost.example": false, "mail.localhost": false} {
		if got := inClear(host); got != want {
			t.Errorf("%s may be spoken to in clear: %v", host, got)
		}
	}
}

// A server that is away is tried again; what it refuses for good is not.
func TestMailIsTriedAgain(t *testing.T) {
	t.Parallel()
	o := servertest.NewPostOffice(t)
	var mu sync.Mutex
	answers := []string{"451 later", "451 later", ""}
	o.Refuse = func() (answer string) {
		mu.Lock()
		defer mu.Unlock()
		answer, answers = answers[0], answers[1:]
		return answer
	}
	m, log := mailTo(t, o, time.Millisecond, time.Millisecond)
	m.post(letterTo("Ada", "ada@nordlys.example", "x", "y\n"))
	<-o.Took
	answers = []string{"550 no such person", ""}
	m.post(letterTo("Ada", "ada@nordlys.example", "first", "y\n"))
	m.post(letterTo("Ada", "ada@nordlys.example", "second", "y\n"))
	if got := <-o.Took; got.Header.Get("Subject") != "second" {
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
	o := servertest.NewPostOffice(t)
	held, free := make(chan bool), make(chan bool)
	m, log := mailTo(t, o)
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
	if len(o.Took) != posted {
		t.Errorf("%d were sent at the end, want %d", len(o.Took), posted)
	}
}
