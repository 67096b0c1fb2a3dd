package config

import (
	"net/mail"
	"net/url"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/page"
)

// MailServer is where mail is handed in (RFC 5321), and from whom.
type MailServer struct {
	Host, Port string
	TLS        bool // from the first byte (RFC 8314); else by STARTTLS
	User       string
	Password   string
	From       mail.Address
	Language   string // of the pages' words; empty is English
}

func (c *Checked) checkMail() error {
	if c.Mail == (Mail{}) {
		return nil
	}
	if all := page.Languages(); c.Mail.Language != "" && !slices.Contains(all, c.Mail.Language) {
		return fault.BadConfig("write one of "+strings.Join(all, ", "), "mail.language: %q is not a language of the pages", c.Mail.Language)
	}
	const hint = `write url = "smtp://user@mail.example.com:587", from = "Svalinn <no-reply@example.com>"`
	u, err := url.Parse(c.Mail.URL)
	if err != nil || u.Scheme != "smtp" && u.Scheme != "smtps" || u.Hostname() == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return fault.BadConfig(hint, "mail.url: not smtp://host:port or smtps://host:port") // it may hold a password
	}
	if _, in := u.User.Password(); in {
		return fault.BadConfig("write the password into the file that mail.password_file names", "mail.url: there is a password in it")
	}
	from, err := mail.ParseAddress(c.Mail.From)
	if err != nil {
		return fault.BadConfig(hint, "mail.from: %q is not an address", c.Mail.From)
	}
	m := MailServer{Host: u.Hostname(), Port: u.Port(), TLS: u.Scheme == "smtps", User: u.User.Username(), From: *from, Language: c.Mail.Language}
	if m.Port == "" {
		m.Port = map[bool]string{true: "465", false: "587"}[m.TLS]
	}
	if (m.User == "") != (c.Mail.PasswordFile == "") {
		return fault.BadConfig(hint, "mail: a user in mail.url and mail.password_file go together")
	}
	if m.User != "" {
		b, err := readSecret("mail.password_file", c.Mail.PasswordFile, "write the password into it, and chmod 600 it")
		if err != nil {
			return err
		}
		m.Password = strings.TrimRight(string(b), "\r\n")
	}
	c.MailServer = &m
	return nil
}
