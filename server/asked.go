package server

import (
	"context"
	"errors"
	"fmt"
	"net/mail"

	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

// decidedNotice tells a person what became of their request that an admin allow an
// app. An admin who decided their own knows it.
func (s *Server) decidedNotice(ctx context.Context, e store.Event) (to mail.Address, subject, text string, err error) {
	if e.Actor == "person:"+e.Person {
		return to, "", "", errNobody
	}
	p, err := s.store.Person(ctx, e.Person)
	if errors.Is(err, store.ErrNotFound) || err == nil && !p.Active {
		return to, "", "", errNobody
	} else if err != nil {
		return to, "", "", fmt.Errorf("notice: person: %w", err)
	}
	o, err := s.store.Organization(ctx, e.Organization)
	if err != nil {
		return to, "", "", fmt.Errorf("notice: organization: %w", err)
	}
	l := page.DecidedLetter(s.mail.Language, s.Service.Name, o.Name, "https://"+e.Detail, e.Kind == journal.RequestAllowed)
	return mail.Address{Name: p.Name, Address: p.Email}, l.Subject, l.Text, nil
}
