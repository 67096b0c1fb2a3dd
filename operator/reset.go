package operator

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"

	"github.com/grantkeeper/grantkeeper/store"
)

// resetLinkBody is the body of POST /v1/people/{id}/reset-link.
type resetLinkBody struct {
	reasonBody
	Mail *bool `json:"mail"` // nil is true where mail is sent
}

// ResetLink is a link by which a person sets a new password, once. Anybody who has
// the URL can, so the answer has it only where it is not mailed.
type ResetLink struct {
	ID        string `json:"id"` // of the person
	Mailed    bool   `json:"mailed"`
	URL       string `json:"url,omitempty"` // "" where it is mailed
	ExpiresAt int64  `json:"expires_at"`
}

// createResetLink makes a reset link. The old password stays valid until the person
// sets a new one.
func (s *Server) createResetLink(c Call, body resetLinkBody) (any, error) {
	link, err := s.MakeLink(c, c.PathValue("id"), body.Mail, body.Reason)
	return link, err
}

// CanLink reports whether reset links are made here, and Mails whether they are
// mailed.
func (s *Server) CanLink() bool { return s.ResetLink != nil }
func (s *Server) Mails() bool   { return s.MailReset != nil }

// MakeLink makes a reset link of a person, by ID or email. mail nil mails it where
// mail is sent.
func (s *Server) MakeLink(c Call, person string, mail *bool, reason string) (ResetLink, error) {
	if s.ResetLink == nil {
		return ResetLink{}, &Error{Status: http.StatusNotFound, Code: "not_found", Description: "there are no reset links here"}
	}
	mailed := s.MailReset != nil
	if mail != nil {
		if mailed = *mail; mailed && s.MailReset == nil {
			return ResetLink{}, &Error{Status: http.StatusConflict, Code: "no_mail", Description: "mail: no mail is sent, because mail.url is not set"}
		}
	}
	p, err := s.Store.Person(c.Context(), person)
	if err != nil {
		return ResetLink{}, err
	}
	random := make([]byte, 32)
	rand.Read(random)
	secret := base64.RawURLEncoding.EncodeToString(random)
	ends, err := s.Store.AddReset(c.Context(), secret, p.ID, store.ResetLifetime, c.Act(reason))
	if err != nil {
		return ResetLink{}, err
	}
	out := ResetLink{ID: p.ID, Mailed: mailed, ExpiresAt: ends}
	switch link := s.ResetLink(secret); {
	case !mailed:
		out.URL = link
	case !s.MailReset(p.Name, p.Email, link):
		return ResetLink{}, &Error{Status: http.StatusServiceUnavailable, Code: "temporarily_unavailable", Description: "too much mail waits to be sent"}
	}
	return out, nil
}
