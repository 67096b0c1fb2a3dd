package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
)

// A listing is what pages of one of the operators' lists took, over all combinations of
// its filters.
type listing struct {
	List     string  `json:"list" col:"list"`
	Limit    int     `json:"limit" col:"limit"` // items of a page
	Filters  int     `json:"filters" col:"combinations"`
	Pages    int     `json:"pages" col:"pages"`
	Short    int     `json:"short_pages" col:"short"` // with fewer items than the limit, and a next page
	P50      float64 `json:"p50_ms" col:"p50 ms,%.1f"`
	P99      float64 `json:"p99_ms" col:"p99 ms,%.1f"`
	Most     float64 `json:"most_ms" col:"most ms,%.1f"`
	Above    int     `json:"above_100_ms" col:"above 100 ms"`
	Slowest  []page  `json:"slowest"`
	Shortest []page  `json:"shortest,omitempty"` // those with the most short pages before the first item
}

// A page is one answer.
type page struct {
	Query string  `json:"query"`
	Took  float64 `json:"ms"`
	Items int     `json:"items"`
	Next  bool    `json:"next"`
}

// The skew: nine of ten approvals are of one client, four of ten are of ten
// people in one organization, and somebody has one. Most that ended are of
// the other clients.
const (
	bigClient    = 0
	smallClient  = 7
	bigCrowd     = 10 // people
	year         = 365 * 24 * 60 * 60
	unusedOf     = 97 // one of so many was never used after it was made
	loneApproval = 1
)

func skewed(s *stock) func(int, *stocked) {
	lone := s.people - 1
	return func(n int, r *stocked) {
		client, person := bigClient, n%lone
		if n%10 == 3 {
			client = 1 + n/10%(clients-1)
		}
		if n%5 < 2 {
			person = n / 5 % bigCrowd
		}
		if n == s.approvals/2 {
			person = lone
		}
		r.client, r.person, r.organization = clientIDs[client], personIDs[person], organizationOf(person)
		r.picks = picks(person)
		r.created = s.made - year + int64(float64(n)/float64(s.approvals)*year)
		switch {
		case n%9973 == 5:
			r.grant, r.picks = "organization", ""
		case n%10 == 6:
			r.grant, r.picks = "everything", ""
		}
		if client != bigClient && n%30 != 3 || n%1009 == 7 {
			r.phase, r.reason, r.ended = approval.Ended, "revoked_by_person", r.created+60*60
		} else if n%unusedOf == 11 {
			r.generation = 2
		}
		if n >= s.approvals-64 {
			r.phase, r.generation, r.reason, r.ended = approval.CodeIssued, 0, "", 0
		}
	}
}

// listings measures the lists over a database with so many approvals.
func (b *bench) listings(ctx context.Context, approvals int) ([]listing, error) {
	folder, s, database, _, err := b.placeNew(ctx, "lists", approvals, func(s *stock) { s.skewed, s.journaled = skewed(s), true })
	if err != nil {
		return nil, err
	}
	srv, err := startServerOn(ctx, b.binary, folder, database, "", "")
	if err != nil {
		return nil, err
	}
	defer srv.kill()
	var all []listing
	for _, list := range []struct {
		path string
		deep string // a cursor in the middle
		of   []string
	}{
		{"/v1/approvals", fmt.Sprintf("%d.%032x", s.made-year/2, 0), s.approvalQueries()},
		{"/v1/events", fmt.Sprintf("%016x00000000", (s.made-year/2)*1000<<16), s.eventQueries()},
	} {
		for _, limit := range []int{50, 1000} {
			l, err := srv.list(ctx, list.path, list.deep, list.of, limit)
			if err != nil {
				return all, err
			}
			b.progress("  %s: %d pages, the slowest %.0f ms", list.path, l.Pages, l.Most)
			all = append(all, l)
		}
	}
	return all, os.RemoveAll(folder)
}

// combine gives every combination of filters as queries. Each filter has its
// values; "" leaves it out.
func combine(filters map[string][]string) []string {
	all := []url.Values{{}}
	for name, values := range filters {
		var more []url.Values
		for _, q := range all {
			for _, v := range values {
				one := url.Values{}
				for k, had := range q {
					one[k] = had
				}
				if v != "" {
					one.Set(name, v)
				}
				more = append(more, one)
			}
		}
		all = more
	}
	out := make([]string, len(all))
	for i, q := range all {
		out[i] = q.Encode()
	}
	slices.Sort(out)
	return out
}

func (s *stock) approvalQueries() []string {
	filters := map[string][]string{
		"client":       {"", clientIDs[bigClient], clientIDs[smallClient]},
		"person":       {"", personIDs[0], personIDs[bigCrowd*20], personIDs[s.people-1]},
		"organization": {"", organizationOf(0), organizationOf(bigCrowd * 20)},
		"grant":        {"", "roles", "everything", "organization"},
		"state":        {"", "live", "ended", "code_issued"},
	}
	all := combine(filters)
	filters["state"], filters["unused-for"] = []string{"", "live"}, []string{"90d", "1h"}
	return append(all, combine(filters)...)
}

func (s *stock) eventQueries() []string {
	one := s.handle(s.approvals / 3).ID()
	return combine(map[string][]string{
		"kind":         {"", "approval_granted", "client_disabled"},
		"client":       {"", clientIDs[bigClient], clientIDs[smallClient]},
		"person":       {"", personIDs[0], personIDs[bigCrowd*20], personIDs[s.people-1]},
		"organization": {"", organizationOf(0), organizationOf(bigCrowd * 20)},
		"approval":     {"", fmt.Sprintf("%x", one[:])},
		"reference":    {"", reference(s.approvals / 3), "none"},
		"order":        {"", "oldest"},
	})
}

func reference(number int) string { return fmt.Sprintf("%08x", uint32(number)*2654435761) }

// mostFollowed is how many pages of one query are read after the first.
const mostFollowed = 3

func (s *server) list(ctx context.Context, path, deep string, queries []string, limit int) (listing, error) {
	l := listing{List: path, Limit: limit, Filters: len(queries)}
	var times []float64
	for _, query := range queries {
		for _, after := range []string{"", deep} {
			for range 1 + mostFollowed {
				q := query + fmt.Sprintf("&limit=%d", limit)
				if after != "" {
					q += "&after=" + after
				}
				p, next, err := s.page(ctx, path+"?"+strings.TrimPrefix(q, "&"))
				if err != nil {
					return l, err
				}
				times = append(times, p.Took)
				l.Slowest = append(l.Slowest, p)
				if p.Next && p.Items < limit {
					l.Short++
					l.Shortest = append(l.Shortest, p)
				}
				if after = next; next == "" {
					break
				}
			}
		}
	}
	slices.Sort(times)
	l.Pages, l.P50, l.P99, l.Most = len(times), times[len(times)/2], times[len(times)*99/100], times[len(times)-1]
	for _, t := range times {
		if t > 100 {
			l.Above++
		}
	}
	slices.SortFunc(l.Slowest, func(a, b page) int { return int(b.Took*1000) - int(a.Took*1000) })
	l.Slowest = slices.Clone(l.Slowest[:min(10, len(l.Slowest))])
	l.Shortest = slices.Clone(l.Shortest[:min(10, len(l.Shortest))])
	return l, nil
}

// page asks for one page, as the command does.
func (s *server) page(ctx context.Context, path string) (p page, next string, err error) {
	var list struct {
		Items []json.RawMessage `json:"items"`
		Next  string            `json:"next"`
	}
	begin := time.Now()
	err = s.operate(ctx, http.MethodGet, path, nil, &list)
	return page{Query: path, Took: milliseconds(time.Since(begin)), Items: len(list.Items), Next: list.Next != ""}, list.Next, err
}

func printListings(w io.Writer, all []listing) {
	printRows(w, all)
	for _, l := range all {
		fmt.Fprintf(w, "\n%s, %d a page: the slowest", l.List, l.Limit)
		if len(l.Shortest) > 0 {
			fmt.Fprint(w, ", and some short pages")
		}
		fmt.Fprintln(w)
		for _, p := range append(l.Slowest, l.Shortest...) {
			fmt.Fprintf(w, "  %7.1f ms  %4d items  %s\n", p.Took, p.Items, p.Query)
		}
	}
}
