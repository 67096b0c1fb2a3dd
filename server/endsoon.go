package server

import (
	"context"
	"fmt"
	"net/mail"
	"net/url"

	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

// endsNotice tells a person that the access of an app ends in three days.
func (s *Server) endsNotice(ctx context.Context, e store.Event) (to mail.Address, subject, text string, err error) {
	p, err := s.store.Person(ctx, e.Person)
	switch {
	case err != nil:
		return to, "", "", fmt.Errorf("notice: person: %w", err)
	case !p.Active:
		return to, "", "", errNobody
	}
	l := page.EndsLetter(s.mail.Language, s.Service.Name, s.mailBase()+"/organizations/"+url.PathEscape(e.Organization)+"/profile/api")
	return mail.Address{Name: p.Name, Address: p.Email}, l.Subject, l.Text, nil
}
