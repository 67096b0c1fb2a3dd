package gateway

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/identity"
)

// Previews asks the service what choices would give (decision V50). Its fields
// do not change once it is asked.
type Previews struct {
	URL *url.URL      // of the service's preview
	Key func() []byte // signs the question, as it is now; at least identity.MinKey bytes
	Now func() time.Time
	Log *slog.Logger

	budget time.Duration // 0 is PreviewBudget; tests make it short

	once  sync.Once
	http  http.Client
	slots chan struct{} // taken while the service is asked

	mu     sync.Mutex
	kept   map[[sha256.Size]byte]keptPreview // by the question
	logged time.Time
}

type keptPreview struct {
	answer identity.PreviewAnswer
	until  time.Time
}

// PreviewBudget is what a page waits for a preview in all, for a slot too
// (decision V50).
const PreviewBudget = 300 * time.Millisecond

// Bounds of what a page spends on a preview (decision V50).
const (
	previewBytes  = 64 << 10
	previewSlots  = 16
	previewKept   = 30 * time.Second
	previewsKept  = 256 // 16 MiB at most
	previewLogged = time.Minute
)

// Ask gives what the service says of the authorities, which are of one person
// in one organization; false when it says nothing in time that can be believed.
func (p *Previews) Ask(ctx context.Context, language string, sets []grantset.Authority) (identity.PreviewAnswer, bool) {
	p.once.Do(p.begin)
	of := sets[0].Member()
	q := identity.PreviewQuestion{Person: of.Person, Organization: of.Organization, Language: language, Titles: identity.PreviewTitles}
	for _, a := range sets {
		q.Sets = append(q.Sets, api.IdentityOf(a))
	}
	text, err := q.JSON()
	if err != nil {
		return identity.PreviewAnswer{}, false
	}
	key := sha256.Sum256(text)
	if a, ok := p.remembered(key); ok {
		return a, true
	}
	asking, cancel := context.WithTimeout(ctx, cmp.Or(p.budget, PreviewBudget))
	defer cancel()
	a, err := p.ask(asking, q, text)
	if err != nil {
		if ctx.Err() == nil { // else nobody waits any more
			p.warn(err)
		}
		return identity.PreviewAnswer{}, false
	}
	p.remember(key, a)
	return a, true
}

// PreviewStatus is a status other than 200 of a service that was asked.
type PreviewStatus int

func (s PreviewStatus) Error() string { return fmt.Sprintf("it answers %d", int(s)) }

// Check asks as a page does, but about nobody, and waits as long as ctx does. It says
// how long that took, or why a page would not believe the answer.
func (p *Previews) Check(ctx context.Context) (took time.Duration, err error) {
	p.once.Do(p.begin)
	q := identity.PreviewQuestion{Language: "en", Titles: identity.PreviewTitles,
		Sets: []identity.Identity{{Grant: "roles"}, {Grant: "everything", Personal: true}}}
	text, err := q.JSON()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	_, err = p.ask(ctx, q, text)
	return time.Since(began), err
}

func (p *Previews) begin() {
	p.slots, p.kept = make(chan struct{}, previewSlots), map[[sha256.Size]byte]keptPreview{}
	transport := api.NewTransport(0) // all of it has its time
	transport.MaxIdleConnsPerHost, transport.MaxResponseHeaderBytes, transport.DisableCompression = previewSlots, 16<<10, false
	p.http = http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (p *Previews) ask(ctx context.Context, q identity.PreviewQuestion, text []byte) (none identity.PreviewAnswer, err error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return none, errors.New("too many are asked for at once")
	}
	r, err := p.question(ctx, q, text)
	if err != nil {
		return none, err
	}
	answer, err := p.http.Do(r)
	if err != nil {
		return none, err
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode != http.StatusOK:
		return none, PreviewStatus(answer.StatusCode)
	case answer.Header.Get("Content-Encoding") != "":
		return none, errors.New("it compresses its answer, and none of that is accepted")
	case !api.IsJSON(answer.Header):
		return none, fmt.Errorf("it answers %.40q and not application/json", answer.Header.Get("Content-Type"))
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, previewBytes+1))
	switch {
	case err != nil:
		return none, err
	case len(body) > previewBytes:
		return none, fmt.Errorf("it answers more than %d bytes", previewBytes)
	}
	return identity.ReadPreviewAnswer(body, q)
}

// question is signed as the person, who has no approval yet, so it acts with
// nothing: what is asked about is in the body.
func (p *Previews) question(ctx context.Context, q identity.PreviewQuestion, text []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL.String(), bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	secret := p.Key()
	headers, err := identity.Identity{Person: q.Person, Organization: q.Organization}.Sign(secret, p.Now())
	if err != nil {
		return nil, err
	}
	if err := identity.SignCall(secret, headers, identity.Call{Method: r.Method, Target: r.URL.RequestURI(), Body: text}); err != nil {
		return nil, err
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Accept-Encoding", "identity")
	r.Header.Set("User-Agent", "Grantkeeper")
	return r, nil
}

func (p *Previews) remembered(key [sha256.Size]byte) (identity.PreviewAnswer, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, ok := p.kept[key]
	return k.answer, ok && p.Now().Before(k.until)
}

// remember makes room among what has run out, or else anywhere.
func (p *Previews) remember(key [sha256.Size]byte, a identity.PreviewAnswer) {
	now := p.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for other, k := range p.kept {
		if len(p.kept) >= previewsKept || now.After(k.until) {
			delete(p.kept, other)
		}
	}
	p.kept[key] = keptPreview{a, now.Add(previewKept)}
}

// warn logs why there was no answer, at most once a minute: a service that is
// down would fill the log with every page.
func (p *Previews) warn(err error) {
	now := p.Now()
	p.mu.Lock()
	quiet := now.Sub(p.logged) < previewLogged
	if !quiet {
		p.logged = now
	}
	p.mu.Unlock()
	if !quiet {
		p.Log.Warn("no preview by the service: consent pages say no numbers", "err", err)
	}
}
