package server

import (
	"context"
	"fmt"
	"net/mail"
	"net/url"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

// adminsMailed bounds how many admins get a letter for one request.
const adminsMailed = 20

// hourly lets one through an hour, of each organization, on each node.
type hourly struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func (h *hourly) first(organization string, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at, ok := h.last[organization]; ok && now.Sub(at) < time.Hour {
		return false
	}
	if h.last == nil || len(h.last) >= 10_000 { // more than ask in an hour
		h.last = map[string]time.Time{}
	}
	h.last[organization] = now
	return true
}

// requestNotice has letters written to an organization's admins that a request waits, one
// for each. Whoever asked knows it.
func (s *Server) requestNotice(ctx context.Context, e store.Event) (mail.Address, string, string, error) {
	return s.toAdmins(ctx, e, "/requests", func(organization, at string) (page.Letter, error) {
		return page.RequestLetter(s.mail.Language, s.Service.Name, organization, at), nil
	})
}

// reviewNotice is requestNotice for connections that are due for review, by the rules as
// they stand then.
func (s *Server) reviewNotice(ctx context.Context, e store.Event) (mail.Address, string, string, error) {
	return s.toAdmins(ctx, e, "", func(organization, at string) (page.Letter, error) {
		p, err := s.store.Policy(ctx, e.Organization)
		if err != nil {
			return page.Letter{}, fmt.Errorf("notice: rules: %w", err)
		}
		if p == nil || p.ReviewDays == 0 {
			return page.Letter{}, errNobody
		}
		return page.ReviewLetter(s.mail.Language, s.Service.Name, organization, p.ReviewDays, at), nil
	})
}

// toAdmins posts a letter to each admin of an organization who is active, up to
// adminsMailed, but not to the person whom the entry is about. It gives none itself, and
// errNobody. where is the page of the admins that the letter leads to, below that of AI
// integration.
func (s *Server) toAdmins(ctx context.Context, e store.Event, where string, write func(organization, at string) (page.Letter, error)) (to mail.Address, subject, text string, err error) {
	admins, err := s.store.Admins(ctx, e.Organization, adminsMailed)
	if err != nil {
		return to, "", "", fmt.Errorf("notice: admins: %w", err)
	}
	o, err := s.store.Organization(ctx, e.Organization)
	if err != nil {
		return to, "", "", fmt.Errorf("notice: organization: %w", err)
	}
	l, err := write(o.Name, s.mailBase()+"/organizations/"+url.PathEscape(o.ID)+"/settings/ai-integration"+where)
	if err != nil {
		return to, "", "", err
	}
	for _, p := range admins {
		if p.ID != e.Person {
			s.mail.post(letter{kind: string(e.Kind), make: adminLetter(p, l)})
		}
	}
	return to, "", "", errNobody
}

func adminLetter(p org.Person, l page.Letter) func(context.Context) (mail.Address, string, string, error) {
	return func(context.Context) (mail.Address, string, string, error) {
		return mail.Address{Name: p.Name, Address: p.Email}, l.Subject, l.Text, nil
	}
}
