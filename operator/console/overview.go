package console

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/metrics"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/store"
)

// An overviewPage is the first page of the console.
type overviewPage struct {
	frame
	Spans   []span
	Span    span
	Reused  int
	Tiles   []tile
	Search  clientSearch
	Clients []clientRow
	InUse   bool // some client has a living approval
	All     int  // clients
	Events  []eventRow
	Trouble []appTrouble // apps whose attempts to connect failed most
}

// appTrouble is an app that does not connect. Name and Host are not ours.
type appTrouble struct {
	store.AppTrouble
	Worked moment // empty where no attempt that is kept did
	Path   string // of its attempts that failed
}

// How many rows the overview has.
const clientsShown, eventsShown, troubleShown = 5, 6, 5

func (s *Server) overview(v *visit) error {
	f, err := v.Filter("range")
	if err != nil {
		return err
	}
	over, err := spanNamed(f.Get("range"))
	if err != nil {
		return err
	}
	p := overviewPage{frame: s.frame(v, "overview", "Overview"), Spans: spans, Span: over}
	if err := s.tiles(v, &p); err != nil {
		return err
	}
	uses, err := s.API.Store.ClientUses(v.Context())
	if err != nil {
		return err
	}
	if p.Clients, err = s.mostUsed(v, uses); err != nil {
		return err
	}
	p.InUse = len(uses) > 0
	if p.Trouble, err = s.trouble(v, over); err != nil {
		return err
	}
	names := s.newNameCache(v)
	events, _, err := s.API.Store.Events(v.Context(), store.EventFilter{
		Kinds: journal.Notable(), Since: over.begin(v.now), NoDrills: true, Limit: eventsShown,
	})
	if err != nil {
		return err
	}
	for _, e := range events {
		p.Events = append(p.Events, names.event(e))
	}
	return s.render(v.w, 200, overviewTemplate, &p)
}

// trouble are the apps that failed most in the range.
func (s *Server) trouble(v *visit, over span) (out []appTrouble, err error) {
	apps, err := s.API.Store.FailingApps(v.Context(), over.begin(v.now), troubleShown)
	for _, a := range apps {
		one := appTrouble{AppTrouble: a, Path: "/attempts?" + url.Values{"query": {a.Host}, "result": {string(attempt.Broken)}}.Encode()}
		if a.Worked > 0 {
			one.Worked = onDay(a.Worked, v.now)
		}
		out = append(out, one)
	}
	return out, err
}

// tiles makes the tiles of the range. The numbers of the journal outlive a restart;
// this process counts the others, and their tiles say since when.
func (s *Server) tiles(v *visit, p *overviewPage) error {
	ctx, over := v.Context(), p.Span
	begin := over.begin(v.now)
	counts, err := s.API.Store.CountEvents(ctx, []journal.Kind{journal.ApprovalGranted, journal.ApprovalCancelled, journal.RefreshReused},
		begin, int64(over.bar/time.Second), over.bars)
	if err != nil {
		return err
	}
	figures, err := s.API.Store.Figures(ctx)
	if err != nil {
		return err
	}
	addresses, one, err := s.API.Store.LimitedAddresses(ctx, begin)
	if err != nil {
		return err
	}
	for _, n := range figures.Clients {
		p.All += n
	}
	p.Reused = int(total(counts[journal.RefreshReused]))
	p.Tiles = append(p.Tiles, over.chart(tile{
		ID: "approvals", Title: "Approvals", Under: fmt.Sprintf("%s · %s cancelled", over.Short(), operator.Number(total(counts[journal.ApprovalCancelled]))),
	}, begin, counts[journal.ApprovalGranted], v.now.Location()))
	if s.API.Metrics == nil {
		return nil
	}
	from := ""
	switch {
	case addresses == 1:
		from = "1 address: " + one
	case addresses > 1:
		from = operator.Number(addresses) + " addresses"
	}
	s.counted(v, p, begin, figures.Live, from)
	return nil
}

// counted adds the tiles of what this process has counted. limited names the
// addresses that reached a rate limit.
func (s *Server) counted(v *visit, p *overviewPage, begin int64, live int, limited string) {
	over, since := p.Span, ""
	if from := s.API.Metrics.Since(); from.Unix() > begin {
		since = "Counted since " + onDay(from.Unix(), v.now).Text + ", when this server started."
	}
	add := func(t tile, series metrics.Series) {
		t.Since = since
		t.Under = strings.TrimSuffix(over.Short()+" · "+t.Under, " · ")
		p.Tiles = append(p.Tiles, over.chart(t, begin, s.API.Metrics.History(series, over.bar, over.bars), v.now.Location()))
	}
	add(tile{ID: "refreshes", Title: "Refreshes", Under: operator.Count(live, "1 active approval", "%s active approvals")}, metrics.Refreshes)
	mostly := ""
	if code, n := s.API.Metrics.MostRefused(over.length()); n > 0 {
		mostly = fmt.Sprintf("mostly %s (%s)", code, operator.Number(n))
	}
	add(tile{ID: "refusals", Title: "Refusals", Tone: "bad", Under: mostly}, metrics.Refusals)
	add(tile{ID: "limits", Title: "Rate-limit hits", Tone: "care", Under: limited}, metrics.Limited)
}

func total(counts []uint64) (n uint64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// mostUsed returns the clients with the most living approvals, followed by the
// newest.
func (s *Server) mostUsed(v *visit, uses map[string]store.ClientUse) ([]clientRow, error) {
	ids := slices.SortedFunc(maps.Keys(uses), func(a, b string) int {
		return cmp.Or(cmp.Compare(uses[b].Live, uses[a].Live), cmp.Compare(uses[b].LastUsed, uses[a].LastUsed), strings.Compare(a, b))
	})
	var found []client.Client
	for _, id := range ids[:min(clientsShown, len(ids))] {
		c, err := s.API.Store.Client(v.Context(), id)
		if errors.Is(err, store.ErrNotFound) {
			continue // deleted since
		} else if err != nil {
			return nil, err
		}
		found = append(found, c)
	}
	newest, _, err := s.API.Store.Clients(v.Context(), store.ClientFilter{Limit: clientsShown})
	if err != nil {
		return nil, err
	}
	for _, c := range newest {
		if len(found) < clientsShown && !slices.ContainsFunc(found, func(f client.Client) bool { return f.ID == c.ID }) {
			found = append(found, c)
		}
	}
	return s.clientRows(v, found, uses)
}
