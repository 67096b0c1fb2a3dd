package consent

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/client/document"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

// noDocument is the refusal of a client whose metadata document is not believed, with
// why, for attempts. Outsiders are told of one fault: else they could ask which names and
// addresses can be reached from here.
type noDocument struct {
	page.Refusal
	reason attempt.Reason
	host   string
}

func (e noDocument) Unwrap() error { return e.Refusal }

// staleWhileBusy is for how long a document is still used, of a client that somebody has
// approved, where too many are being fetched.
const staleWhileBusy = 24 * time.Hour

func notBelieved(status int, host string, why attempt.Reason, detail string) error {
	return noDocument{page.Refusal{Status: status, Why: "document", Titled: "refused.app.short", At: page.HostOf("https://" + host + "/"),
		Log: "client document " + string(why) + ": " + detail}, why, host}
}

// documented gives the client whose ID is the URL of its metadata document; known is what
// is kept of it, the zero Client for nothing. Where a request has just arrived the document
// is asked for again once what it said is not good any more: what then cannot be fetched,
// or not be believed, ends nothing, and goes no farther. A page that is answered, and a
// sign-in on the way to one, go by what is kept (decision R8).
func (s *Server) documented(v *page.Visit, id string, known client.Client, arriving bool) (client.Client, error) {
	host, own, err := s.documentHost(id)
	if err != nil {
		return client.Client{}, err
	}
	switch {
	case known.ID != "" && (!arriving || v.Now.Unix() < known.GoodUntil):
		return known, nil
	case !arriving:
		return client.Client{}, unknownClient("unknown")
	}
	var from store.Origin
	if !known.Approved && s.NewClients != nil {
		ok, wait := false, time.Duration(0)
		if from, ok, wait = s.NewClients(s.Address(v.R), v.Now); !ok {
			return client.Client{}, page.TooMany{Wait: wait}
		}
	}
	err = s.fetch(v.R.Context(), document.Wanted{ID: id, Host: host, OwnHosts: own, Used: known.Approved}, from, s.ActBy(v, "client:"+id))
	var bad *document.Error
	switch {
	case errors.As(err, &bad):
		return client.Client{}, notBelieved(http.StatusBadRequest, host, bad.Reason, bad.Detail)
	case errors.Is(err, document.ErrBusy) && known.Approved && v.Now.Before(time.Unix(known.GoodUntil, 0).Add(staleWhileBusy)):
		return known, nil
	case errors.Is(err, document.ErrBusy):
		v.W.Header().Set("Retry-After", page.UnavailableFor)
		return client.Client{}, notBelieved(http.StatusServiceUnavailable, host, attempt.ServerUnavailable, "too many are being fetched")
	case err != nil && !errors.Is(err, store.ErrConflict): // which has been preregistered a moment ago
		return client.Client{}, page.Wrap("client document", err)
	}
	c, err := s.Store.Client(v.R.Context(), id)
	if err != nil {
		return client.Client{}, page.Wrap("client", err)
	}
	return c, nil
}

// documentHost gives the host of a client ID that is the URL of a document, where those of
// that host are taken, and the service's own hosts.
func (s *Server) documentHost(id string) (host string, own []string, err error) {
	var hosts []string
	if s.DocumentHosts != nil {
		hosts, own = s.DocumentHosts(), s.OwnHosts()
	}
	if len(hosts) == 0 {
		return "", nil, noDocument{unknownClient("metadata documents are not taken").(page.Refusal), attempt.DocumentHost, ""}
	}
	host, err = client.DocumentHost(id, own)
	if err != nil {
		return "", nil, noDocument{unknownClient("URL: " + err.Error()).(page.Refusal), attempt.DocumentURL, ""}
	}
	if !slices.Contains(hosts, host) && !slices.Contains(hosts, client.AnyHost) {
		return "", nil, notBelieved(http.StatusBadRequest, host, attempt.DocumentHost, "this server takes no client ID metadata documents of its host")
	}
	return host, own, nil
}

// fetch asks for a document and keeps what it says, whether or not ctx ends meanwhile.
func (s *Server) fetch(ctx context.Context, w document.Wanted, from store.Origin, act store.Act) error {
	return s.Documents.Fetch(ctx, w, func(m client.Metadata, kept time.Duration) error {
		now := s.Store.Now()
		_, err := s.Store.PutDocument(context.WithoutCancel(ctx), client.Of(m, w.ID, now.Add(kept), now), from, act)
		return err
	})
}

// LookAgain asks for the document of a client that people use, which may have given up
// redirect URIs (store.LeavingFor). Its error says why nothing is known anew.
func (s *Server) LookAgain(ctx context.Context, id string) error {
	host, own, err := s.documentHost(id)
	if err != nil {
		return err
	}
	return s.fetch(ctx, document.Wanted{ID: id, Host: host, OwnHosts: own, Used: true}, store.Origin{}, store.Act{Actor: "system"})
}
