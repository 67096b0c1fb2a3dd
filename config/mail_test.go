package config

import (
	"net/mail"
	"strings"
	"testing"
)

func TestMailSettings(t *testing.T) {
	secret := write(t, "mail.password", "the password of mail\n", 0o600)
	for name, c := range map[string]struct {
		mail Mail
		want string // of the error; "" is none
	}{
		"none":               {Mail{}, ""},
		"with a user":        {Mail{"smtp://svalinn@mail.example:25", "Svalinn <no-reply@svalinn.example>", secret, ""}, ""},
		"without a user":     {Mail{"smtps://mail.example", "no-reply@svalinn.example", "", ""}, ""},
		"in a language":      {Mail{"smtps://mail.example", "no-reply@svalinn.example", "", "ar"}, ""},
		"in none of ours":    {Mail{"smtps://mail.example", "no-reply@svalinn.example", "", "tlh"}, "mail.language"},
		"no url":             {Mail{"", "no-reply@svalinn.example", "", ""}, "mail.url"},
		"another scheme":     {Mail{"http://mail.example", "no-reply@svalinn.example", "", ""}, "mail.url"},
		"a path":             {Mail{"smtp://mail.example/x", "no-reply@svalinn.example", "", ""}, "mail.url"},
		"a password in it":   {Mail{"smtp://svalinn:hunter2@mail.example", "no-reply@svalinn.example", secret, ""}, "mail.url: there is a password"},
		"no sender":          {Mail{"smtp://mail.example", "", "", ""}, "mail.from"},
		"a broken sender":    {Mail{"smtp://mail.example", "no-reply", "", ""}, "mail.from"},
		"a user alone":       {Mail{"smtp://svalinn@mail.example", "no-reply@svalinn.example", "", ""}, "go together"},
		"a password alone":   {Mail{"smtp://mail.example", "no-reply@svalinn.example", secret, ""}, "go together"},
		"no such file":       {Mail{"smtp://svalinn@mail.example", "no-reply@svalinn.example", "/nowhere", ""}, "mail.password_file"},
		"everybody's file":   {Mail{"smtp://svalinn@mail.example", "no-reply@svalinn.example", write(t, "open", "x", 0o644), ""}, "others than its owner"},
		"a sender with CRLF": {Mail{"smtp://mail.example", "x@y.example\r\nBcc: z@evil.example", "", ""}, "mail.from"},
	} {
		l := good(t)
		l.Config.Mail = c.mail
		checked, err := l.Check()
		if c.want == "" {
			if err != nil || (checked.MailServer == nil) != (c.mail.URL == "") {
				t.Errorf("%s: %v %+v", name, err, checked.MailServer)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	l := good(t)
	l.Config.Mail = Mail{"smtp://svalinn@mail.example", "Svalinn <no-reply@svalinn.example>", secret, ""}
	if c, err := l.Check(); err != nil || *c.MailServer != (MailServer{"mail.example", "587", false, "svalinn", "the password of mail", mail.Address{Name: "Svalinn", Address: "no-reply@svalinn.example"}, ""}) {
		t.Errorf("%v %+v", err, c.MailServer)
	}
}
