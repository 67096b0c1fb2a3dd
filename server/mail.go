package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/store"
)

// A letter is one mail. Make gives it when it is its turn, so that whoever
// posts it waits for nothing.
type letter struct {
	kind string // for the log
	make func(context.Context) (to mail.Address, subject, text string, err error)
	try  int
}

const (
	mailQueue   = 500
	mailTimeout = 30 * time.Second // of one letter
	mailEnd     = 5 * time.Second  // for what is queued when the process ends
)

// mailWaits are between the tries of a letter.
var mailWaits = []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute, time.Hour}

// A mailer sends letters one after the other. Nobody waits for it: a letter
// that finds the queue full is lost, and the log says so.
type mailer struct {
	config.MailServer
	log   *slog.Logger
	roots *x509.CertPool // of tests; nil is the system's
	waits []time.Duration

	queue   chan letter
	stop    context.CancelFunc
	stopped chan struct{}
}

// newMailer begins to send. A nil server sends nothing.
func newMailer(m *config.MailServer, log *slog.Logger) *mailer {
	if m == nil {
		return nil
	}
	o := &mailer{MailServer: *m, log: log, waits: mailWaits, queue: make(chan letter, mailQueue)}
	o.start()
	return o
}

func (m *mailer) start() {
	ctx, stop := context.WithCancel(context.Background())
	m.stop, m.stopped = stop, make(chan struct{})
	go m.run(ctx)
}

// post hands in a letter; false when it is lost.
func (m *mailer) post(l letter) bool {
	select {
	case m.queue <- l:
		return true
	default:
		m.log.Error("a mail is lost: the queue is full", "kind", l.kind)
		return false
	}
}

// Close sends what is queued, as far as that goes quickly. It is called when
// nobody posts any more.
func (m *mailer) Close() {
	if m == nil {
		return
	}
	m.stop()
	<-m.stopped
}

func (m *mailer) run(ctx context.Context) {
	defer close(m.stopped)
	for {
		select {
		case l := <-m.queue:
			sending, cancel := context.WithTimeout(context.Background(), mailTimeout)
			m.send(sending, l)
			cancel()
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.Background(), mailEnd)
			defer cancel()
			m.drain(last)
			return
		}
	}
}

func (m *mailer) drain(ctx context.Context) {
	for {
		select {
		case l := <-m.queue:
			l.try = len(m.waits) // there is no next time
			m.send(ctx, l)
		default:
			return
		}
	}
}

// send sends a letter, or puts it back for later. What the server refuses for
// good is not tried again.
func (m *mailer) send(ctx context.Context, l letter) {
	to, subject, text, err := l.make(ctx)
	if err == nil {
		err = m.deliver(ctx, to, subject, text)
	}
	if errors.Is(err, errNobody) {
		return
	}
	refused, ok := errors.AsType[*textproto.Error](err)
	switch {
	case err == nil:
		m.log.Info("mailed", "kind", l.kind)
	case ok && refused.Code >= 500 || errors.Is(err, store.ErrNotFound) || l.try >= len(m.waits):
		m.log.Error("a mail is not sent", "kind", l.kind, "tries", l.try+1, "err", err)
	default:
		wait := m.waits[l.try]
		m.log.Warn("a mail waits", "kind", l.kind, "tries", l.try+1, "for", wait.String(), "err", err)
		l.try++
		time.AfterFunc(wait, func() { m.post(l) })
	}
}

// deliver hands over one mail.
func (m *mailer) deliver(ctx context.Context, to mail.Address, subject, text string) error {
	c, err := m.greet(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if m.User != "" {
		if err := c.Auth(smtp.PlainAuth("", m.User, m.Password, m.Host)); err != nil {
			return fmt.Errorf("mail server: sign in: %w", err)
		}
	}
	return m.hand(c, to, subject, text)
}

// GreetMail begins to speak to a mail server as for a mail, and sends none. It does
// not sign in: that would show the password to whoever answers there wrongly. roots
// are nil but in tests.
func GreetMail(ctx context.Context, server config.MailServer, roots *x509.CertPool) error {
	c, err := (&mailer{MailServer: server, roots: roots}).greet(ctx)
	if err == nil {
		_ = c.Quit()
	}
	return err
}

// greet begins to speak SMTP. Neither password nor text crosses a network in clear:
// without TLS the server has to be on this machine.
func (m *mailer) greet(ctx context.Context) (c *smtp.Client, err error) {
	dialer := &net.Dialer{}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(m.Host, m.Port))
	if err != nil {
		return nil, fmt.Errorf("mail server: %w", err)
	}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: m.Host, RootCAs: m.roots}
	speaks := conn
	if m.TLS {
		speaks = tls.Client(conn, secure)
	}
	if c, err = smtp.NewClient(speaks, m.Host); err != nil {
		return nil, fmt.Errorf("mail server: %w", err)
	}
	if err := c.Hello("localhost"); err != nil { // what net/smtp says by itself
		return nil, fmt.Errorf("mail server: %w", err)
	}
	if ok, _ := c.Extension("STARTTLS"); ok && !m.TLS {
		if err := c.StartTLS(secure); err != nil {
			return nil, fmt.Errorf("mail server: STARTTLS: %w", err)
		}
	} else if !m.TLS && !inClear(m.Host) {
		return nil, &textproto.Error{Code: 530, Msg: "the mail server offers no TLS"}
	}
	return c, nil
}

func (m *mailer) hand(c *smtp.Client, to mail.Address, subject, text string) error {
	if err := c.Mail(m.From.Address); err != nil {
		return fmt.Errorf("mail server: sender: %w", err)
	}
	if err := c.Rcpt(to.Address); err != nil {
		return fmt.Errorf("mail server: recipient: %w", err)
	}
	w, err := c.Data()
	if err != nil {
		return fmt.Errorf("mail server: %w", err)
	}
	if _, err := w.Write(m.message(to, subject, text, time.Now())); err != nil {
		return fmt.Errorf("mail server: %w", err)
	}
	if err := w.Close(); err != nil { // the server takes it, or not
		return fmt.Errorf("mail server: %w", err)
	}
	_ = c.Quit() // it has the mail
	return nil
}

// message writes a mail (RFC 5322). Whatever stands in a name or a subject, it
// stays in its header.
func (m *mailer) message(to mail.Address, subject, text string, now time.Time) []byte {
	id := make([]byte, 16)
	rand.Read(id)
	_, domain, _ := strings.Cut(m.From.Address, "@")
	var b bytes.Buffer
	for _, h := range [][2]string{
		{"From", m.From.String()}, {"To", to.String()}, {"Subject", mime.QEncoding.Encode("utf-8", subject)},
		{"Date", now.Format(time.RFC1123Z)}, {"Message-ID", "<" + hex.EncodeToString(id) + "@" + domain + ">"},
		{"Content-Language", cmp.Or(m.Language, "en")}, {"MIME-Version", "1.0"}, {"Content-Type", "text/plain; charset=utf-8"}, {"Content-Transfer-Encoding", "quoted-printable"},
		{"Auto-Submitted", "auto-generated"}, // RFC 3834: nobody answers it by itself
	} {
		b.WriteString(h[0] + ": " + h[1] + "\r\n")
	}
	b.WriteString("\r\n")
	q := quotedprintable.NewWriter(&b)
	q.Write([]byte(strings.ReplaceAll(text, "\n", "\r\n"))) // a bytes.Buffer takes everything
	q.Close()
	return b.Bytes()
}

// inClear reports whether a mail server may be spoken to without TLS: it is this machine. A name
// under localhost need not be, since resolvers may ask for it elsewhere.
func inClear(host string) bool {
	return client.Loopback(host) && !strings.HasSuffix(host, ".localhost")
}

// noticing tells people what they should know about (case S-13). It is called
// by the writer, for each entry of the journal, and so only posts.
func (s *Server) noticing() func(store.Event) {
	if s.mail == nil {
		return nil
	}
	return func(e store.Event) {
		post := func(kind string, notice func(context.Context, store.Event) (mail.Address, string, string, error)) {
			s.mail.post(letter{kind: kind, make: func(ctx context.Context) (mail.Address, string, string, error) { return notice(ctx, e) }})
		}
		switch kind := string(e.Kind); e.Kind {
		case journal.RefreshReused, journal.CodeReused:
			post(kind, s.reuseNotice)
		case journal.RequestAllowed, journal.RequestDeclined:
			post(kind, s.decidedNotice)
		case journal.RequestMade:
			if s.requested.first(e.Organization, s.store.Now()) {
				post(kind, s.requestNotice)
			}
		case journal.ReviewDue:
			post(kind, s.reviewNotice)
		case journal.EndsSoon:
			post(kind, s.endsNotice)
		case journal.SignInFailed:
			if e.Reason == journal.SecondFactorRepeated {
				post(e.Reason, s.factorsNotice)
			}
		}
	}
}

// reuseNotice says what has ended.
func (s *Server) reuseNotice(ctx context.Context, e store.Event) (to mail.Address, subject, text string, err error) {
	p, err := s.store.Person(ctx, e.Person)
	if err != nil {
		return to, "", "", fmt.Errorf("notice: person: %w", err)
	}
	l := page.ReuseLetter(s.mail.Language, s.Service.Name, s.mailBase()+"/organizations/"+url.PathEscape(e.Organization)+"/profile/api")
	return mail.Address{Name: p.Name, Address: p.Email}, l.Subject, l.Text, nil
}

// factorsNotice says that a password is known to somebody who has no factor.
func (s *Server) factorsNotice(ctx context.Context, e store.Event) (to mail.Address, subject, text string, err error) {
	p, err := s.store.Person(ctx, e.Person)
	if err != nil {
		return to, "", "", fmt.Errorf("notice: person: %w", err)
	}
	l := page.FactorsLetter(s.mail.Language, s.Service.Name, s.mailBase()+"/account")
	return mail.Address{Name: p.Name, Address: p.Email}, l.Subject, l.Text, nil
}

// mailBase is the host that links in mail lead to.
func (s *Server) mailBase() string {
	if s.options.Dev != nil {
		return s.Hosts.Base(s.PublicAddr().String())
	}
	return s.present().Hosts.List()[0]
}

// resetLink gives where a person sets a new password; nil where nobody has one.
func (s *Server) resetLink() func(secret string) string {
	if !s.SignIn.Passwords {
		return nil
	}
	return func(secret string) string { return s.mailBase() + "/reset/" + secret }
}

// mailReset mails a reset link; nil where no mail is sent.
func (s *Server) mailReset() func(name, address, link string) bool {
	if s.mail == nil {
		return nil
	}
	return func(name, address, link string) bool {
		l := page.ResetLetter(s.mail.Language, s.Service.Name, link, store.ResetLifetime)
		return s.mail.post(letter{kind: "reset_link", make: func(context.Context) (mail.Address, string, string, error) {
			return mail.Address{Name: name, Address: address}, l.Subject, l.Text, nil
		}})
	}
}

// errNobody says of a letter that nobody is to get it, and so nobody is told.
var errNobody = errors.New("nobody is to get this letter")

// forgotten mails a link to set a new password to whoever has an email; nil
// where no mail is sent. Whether somebody has it is asked when it is the
// letter's turn: whoever asked has had the answer by then (decision S6).
func (s *Server) forgotten() func(signin.Forgotten) bool {
	if s.mail == nil || !s.SignIn.Passwords {
		return nil
	}
	return func(f signin.Forgotten) bool {
		return s.mail.post(letter{kind: "forgotten_password", make: func(ctx context.Context) (mail.Address, string, string, error) {
			to, l, err := s.forgottenLetter(ctx, f)
			return to, l.Subject, l.Text, err
		}})
	}
}

// forgottenLetter has a link, or says to somebody who has no password here and
// signs in elsewhere that this is so.
func (s *Server) forgottenLetter(ctx context.Context, f signin.Forgotten) (to mail.Address, l page.Letter, err error) {
	p, stored, err := s.store.Password(ctx, f.Email)
	if errors.Is(err, store.ErrNotFound) || err == nil && !p.Active {
		return to, l, errNobody
	} else if err != nil {
		return to, l, fmt.Errorf("forgotten password: %w", err)
	}
	to = mail.Address{Name: p.Name, Address: p.Email}
	if stored == "" && (len(s.SignIn.Providers) > 0 || s.SignIn.HandOff.URL != "") {
		return to, page.ElsewhereLetter(s.mail.Language, s.Service.Name, s.mailBase()+"/signin"), nil
	}
	random := make([]byte, 32)
	rand.Read(random)
	secret := base64.RawURLEncoding.EncodeToString(random)
	_, err = s.store.AddReset(ctx, secret, p.ID, store.AskedLifetime, f.Act)
	if errors.Is(err, store.ErrNotAllowed) || errors.Is(err, store.ErrNotFound) { // deactivated, or removed, meanwhile
		return to, l, errNobody
	} else if err != nil {
		return to, l, fmt.Errorf("forgotten password: %w", err)
	}
	link := s.resetLink()(secret)
	if f.Back != "" {
		link += "?back=" + url.QueryEscape(f.Back)
	}
	return to, page.ResetLetter(s.mail.Language, s.Service.Name, link, store.AskedLifetime), nil
}
