package consent

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/store"
)

// late is a body that comes after something has happened.
type late struct {
	happens func() error
	t       testing.TB
	io.Reader
}

func (l *late) Read(p []byte) (int, error) {
	if l.happens != nil {
		if err := l.happens(); err != nil {
			l.t.Error(err)
		}
		l.happens = nil
	}
	return l.Reader.Read(p)
}

// A form that is held open until the session has ended is one of nobody
// (decision B7): nothing is approved, and nothing else is done.
func TestFormHeldOpen(t *testing.T) {
	ctx := context.Background()
	for name, end := range map[string]func(*pagetest.Browser) error{
		"signed out": func(b *pagetest.Browser) error {
			return b.Site.Store.EndSession(ctx, b.Cookies[b.CookieName("session")])
		},
		"password set": func(b *pagetest.Browser) error {
			return b.Site.Store.SetPassword(ctx, "tor", "$argon2id$other", store.Act{})
		},
		"person deactivated": func(b *pagetest.Browser) error { return b.Site.Store.SetActive(ctx, "tor", false, store.Act{}) },
	} {
		for _, path := range []string{"/oauth/authorize", "/organizations/nordlys/leave"} {
			s := newSite(t)
			b := s.SignedIn("tor")
			page := path
			if path == "/oauth/authorize" {
				page = pagetest.Authorize()
			}
			form := b.Get(page).Want(200).Fill(path)
			for field, value := range map[string]string{"organization": "nordlys", "grant": "everything", "decision": "approve"} {
				form.Set(field, value)
			}
			answer := b.Send("POST", path, &late{func() error { return end(b) }, t, strings.NewReader(form.Encode())})
			if to := answer.Header.Get("Location"); answer.Status != 303 || !strings.HasPrefix(to, "/signin") {
				t.Errorf("%s: %s: %d %q", name, path, answer.Status, to)
			}
			s.Nothing("tor")
			if err := s.Store.SetActive(ctx, "tor", true, store.Act{}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Store.Member(ctx, "tor", "nordlys"); err != nil {
				t.Errorf("%s: %s: %v", name, path, err)
			}
		}
	}
}

// What is longer than any form, or breaks off, is refused as it was.
func TestBodiesOfForms(t *testing.T) {
	b := newSite(t).SignedIn("tor")
	b.Send("POST", "/oauth/authorize", strings.NewReader("x="+strings.Repeat("y", 2*page.ChoiceBytes))).Want(413)
	b.Send("POST", "/oauth/authorize", io.MultiReader(strings.NewReader("x=1&"), &late{happens: func() error { return nil }, t: t, Reader: brokenReader{}})).Want(400)
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
