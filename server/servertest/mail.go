package servertest

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/grantkeeper/grantkeeper/config"
)

// A PostOffice is an SMTP server that keeps what it takes.
type PostOffice struct {
	t      *testing.T
	Server config.MailServer
	TLS    *tls.Config   // offers STARTTLS with it
	Refuse func() string // answers RCPT; "" takes it
	Took   chan Taken

	mu    sync.Mutex
	auths []string
}

// Taken is a mail that was handed in.
type Taken struct {
	From, To string
	TLS      bool // it came over TLS
	*mail.Message
	Text string
}

// NewPostOffice opens one, until the test ends.
func NewPostOffice(t *testing.T) *PostOffice {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	host, port, _ := net.SplitHostPort(l.Addr().String())
	o := &PostOffice{t: t, Took: make(chan Taken, 100), Refuse: func() string { return "" },
		Server: config.MailServer{Host: host, Port: port, From: mail.Address{Name: "Svalinn", Address: "no-reply@svalinn.example"}}}
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

// Auths are the passwords that were said, each with whether TLS was spoken.
func (o *PostOffice) Auths() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.auths)
}

// talk is one session (RFC 5321).
func (o *PostOffice) talk(conn net.Conn) {
	defer func() { conn.Close() }()
	in := bufio.NewReader(conn)
	say := func(line string) { io.WriteString(conn, line+"\r\n") }
	say("220 post office")
	var got Taken
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		switch verb, rest, _ := strings.Cut(line, " "); strings.ToUpper(verb) {
		case "EHLO":
			say("250-post office")
			if o.TLS != nil && !got.TLS {
				say("250-STARTTLS")
			}
			say("250 AUTH PLAIN")
		case "STARTTLS":
			say("220 go on")
			secure := tls.Server(conn, o.TLS)
			conn, in, got.TLS = secure, bufio.NewReader(secure), true
		case "AUTH":
			plain, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(rest, "PLAIN "))
			o.mu.Lock()
			o.auths = append(o.auths, fmt.Sprintf("%q tls=%v", plain, got.TLS))
			o.mu.Unlock()
			say("235 welcome")
		case "MAIL":
			got.From = inBrackets.FindStringSubmatch(rest)[1]
			say("250 ok")
		case "RCPT":
			if no := o.Refuse(); no != "" {
				say(no)
				continue
			}
			got.To = inBrackets.FindStringSubmatch(rest)[1]
			say("250 ok")
		case "DATA":
			say("354 go on")
			if got.Message, got.Text, err = readMail(in); err != nil {
				o.t.Error(err)
			}
			say("250 taken")
			o.Took <- got
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

// Subject gives the subject as people read it.
func Subject(t *testing.T, got Taken) string {
	t.Helper()
	subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
	if err != nil {
		t.Fatal(err)
	}
	return subject
}
