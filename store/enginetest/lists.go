package enginetest

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

var lists = []behaviour{
	{"lists: what matches, in order, and the same by pages of every length", "", showLists},
	{"lists while rows change: what matches all the while is there once, and nothing twice", "", showListsWhileRowsChange},
}

// lister gives a page of a list, as IDs.
type lister func(s *store.Store, after string, limit int) (ids []string, next string, err error)

func ids[T any](list []T, next string, err error, id func(T) string) ([]string, string, error) {
	var out []string
	for _, one := range list {
		out = append(out, id(one))
	}
	return out, next, err
}

func approvalsBy(f store.ApprovalFilter) lister {
	return func(s *store.Store, after string, limit int) ([]string, string, error) {
		f.After, f.Limit = after, limit
		list, next, err := s.Approvals(ctx, f)
		return ids(list, next, err, func(r store.ApprovalRow) string { return r.ID.String() })
	}
}

func clientsBy(f store.ClientFilter) lister {
	return func(s *store.Store, after string, limit int) ([]string, string, error) {
		f.After, f.Limit = after, limit
		list, next, err := s.Clients(ctx, f)
		return ids(list, next, err, clientID)
	}
}

func peopleBy(f store.PeopleFilter) lister {
	return func(s *store.Store, after string, limit int) ([]string, string, error) {
		f.After, f.Limit = after, limit
		list, next, err := s.People(ctx, f)
		return ids(list, next, err, func(p org.Person) string { return p.ID })
	}
}

func eventsBy(f store.EventFilter) lister {
	return func(s *store.Store, after string, limit int) ([]string, string, error) {
		f.After, f.Limit = after, limit
		list, next, err := s.Events(ctx, f)
		return ids(list, next, err, func(e store.Event) string { return e.ID })
	}
}

func idsBy(kind, prefix string) lister {
	return func(s *store.Store, after string, limit int) ([]string, string, error) {
		return s.IDs(ctx, kind, prefix, after, limit)
	}
}

func organizations(s *store.Store, after string, limit int) ([]string, string, error) {
	list, next, err := s.Organizations(ctx, after, limit)
	return ids(list, next, err, func(o org.Organization) string { return o.ID })
}

// walk reads a list by pages of a length, with something happening after each.
func (d *database) walk(what string, s *store.Store, list lister, limit int, between func()) (all []string) {
	d.t.Helper()
	for after, n := "", 0; ; n++ {
		some, next, err := list(s, after, limit)
		if err != nil || len(some) > limit || next != "" && next == after || n > 10_000 {
			d.t.Fatalf("%s, %d at a time: %d, next %q, %v", what, limit, len(some), next, err)
		}
		all = append(all, some...)
		if after = next; next == "" {
			return all
		}
		between()
	}
}

// crowded has approvals of all kinds, some made within one second.
func (d *database) crowded() (all []*subject) {
	d.t.Helper()
	d.must(d.AddClient(ctx, d.client("bridge"), store.Origin{}, operator))
	for n := range 24 {
		a := d.page()
		switch n % 6 {
		case 1:
			a.Client = "bridge"
		case 2:
			a = d.pageIn("fjell")
		case 3:
			a = d.pageIn("nordlys")
			a.Person = "tor"
		}
		s := d.approve(a)
		if n%4 != 3 {
			d.must(moved(d.exchange(d.Store, s)))
			s.make(d.exchanging(s))
		}
		if n%5 == 4 {
			d.must(d.EndApproval(ctx, s.ID, approval.RevokedByOperator, operator))
			s.make(approval.End(approval.RevokedByOperator, d.Now()))
		}
		if all = append(all, s); n%8 == 7 {
			d.clock.add(time.Second)
		}
	}
	return all
}

// approvalFilters are filters, and what each takes.
var approvalFilters = []struct {
	store.ApprovalFilter
	takes func(*subject) bool
}{
	{store.ApprovalFilter{}, func(*subject) bool { return true }},
	{store.ApprovalFilter{Client: "bridge"}, func(s *subject) bool { return s.Client == "bridge" }},
	{store.ApprovalFilter{Person: "tor"}, func(s *subject) bool { return s.Person == "tor" }},
	{store.ApprovalFilter{Organization: "fjell"}, func(s *subject) bool { return s.Organization == "fjell" }},
	{store.ApprovalFilter{Grant: grantset.Everything}, func(s *subject) bool { return s.Grant.Kind == grantset.Everything }},
	{store.ApprovalFilter{State: "live"}, func(s *subject) bool { return s.Phase == approval.Live }},
	{store.ApprovalFilter{State: "ended"}, func(s *subject) bool { return s.Phase == approval.Ended }},
	{store.ApprovalFilter{State: "code_issued"}, func(s *subject) bool { return s.Phase == approval.CodeIssued }},
	{store.ApprovalFilter{Unended: true}, func(s *subject) bool { return s.Phase != approval.Ended }},
	{store.ApprovalFilter{State: "live", Client: "quill", Organization: "nordlys"}, func(s *subject) bool {
		return s.Phase == approval.Live && s.Client == "quill" && s.Organization == "nordlys"
	}},
	{store.ApprovalFilter{Client: "none"}, func(*subject) bool { return false }},
}

// newest orders as lists do.
func newest(a, b *subject) int {
	return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), bytes.Compare(b.ID[:], a.ID[:]))
}

func showLists(t *testing.T, h Harness) {
	d := furnished(t, h)
	all := d.crowded()
	slices.SortFunc(all, newest)
	d.must(d.AddDirectory(ctx, newcomers("eva"), operator), d.AddDirectory(ctx, newcomers("siv"), operator))
	for n := range 9 {
		d.must(d.AddClient(ctx, d.client(fmt.Sprintf("c%d%d", n/3, n)), store.Origin{}, operator))
	}
	for _, f := range approvalFilters {
		var want []string
		for _, s := range all {
			if f.takes(s) {
				want = append(want, s.ID.String())
			}
		}
		d.wantList(fmt.Sprintf("approvals %+v", f.ApprovalFilter), approvalsBy(f.ApprovalFilter), want)
	}
	for what, list := range map[string]struct {
		lister
		want []string
	}{
		"people":              {peopleBy(store.PeopleFilter{}), []string{"ada", "eva", "siv", "tor"}},
		"people of fjell":     {peopleBy(store.PeopleFilter{Organization: "eva"}), []string{"ada", "eva"}},
		"people by email":     {peopleBy(store.PeopleFilter{Query: "@havn"}), []string{"eva", "siv"}},
		"organizations":       {organizations, []string{"eva", "fjell", "nordlys", "siv"}},
		"IDs of people":       {idsBy("person", ""), []string{"ada", "eva", "siv", "tor"}},
		"IDs with a prefix":   {idsBy("client", "c1"), []string{"c13", "c14", "c15"}},
		"clients":             {clientsBy(store.ClientFilter{State: "registered"}), []string{"c28", "c27", "c26", "c15", "c14", "c13", "c02", "c01", "c00"}},
		"clients by name":     {clientsBy(store.ClientFilter{Query: "client c2"}), []string{"c28", "c27", "c26"}},
		"clients in use":      {clientsBy(store.ClientFilter{State: "approved"}), []string{"quill", "bridge"}},
		"clients not in use":  {clientsBy(store.ClientFilter{State: "disabled"}), nil},
		"entries of an other": {eventsBy(store.EventFilter{Person: "nobody"}), nil},
	} {
		d.wantList(what, list.lister, list.want)
	}
	for what, f := range map[string]store.EventFilter{
		"the journal": {}, "the journal of a person": {Person: "tor"}, "registrations": {Kind: journal.ClientRegistered},
		"the journal of some time": {Since: all[20].CreatedAt, Until: all[0].CreatedAt},
	} {
		whole, _, err := eventsBy(f)(d.Store, "", 1000)
		d.must(err)
		d.wantList(what, eventsBy(f), whole)
		f.OldestFirst = true
		slices.Reverse(whole)
		d.wantList(what+", oldest first", eventsBy(f), whole)
	}
}

// wantList wants every store to give a list, by pages of every length.
func (d *database) wantList(what string, list lister, want []string) {
	d.t.Helper()
	for _, s := range d.all() {
		for _, limit := range []int{1, 2, 3, 5, len(want), len(want) + 1, 1000} {
			limit, pages := max(limit, 1), 1
			if got := d.walk(what, s, list, limit, func() { pages++ }); !slices.Equal(got, want) {
				d.t.Errorf("%s, %d at a time: got %v, want %v", what, limit, got, want)
			}
			if most := max(1, (len(want)+limit-1)/limit); pages != most { // full ones, and the last is known to be
				d.t.Errorf("%s, %d at a time: %d pages, want %d", what, limit, pages, most)
			}
		}
	}
}

func clientID(c client.Client) string { return c.ID }

func showListsWhileRowsChange(t *testing.T, h Harness) {
	d := furnished(t, h)
	all, random := d.crowded(), rand.New(rand.NewPCG(1, 2))
	touched := map[*subject]bool{}
	change := func() {
		switch s := all[random.IntN(len(all))]; {
		case random.IntN(3) == 0:
			d.approve(d.page())
			d.pages++
			d.must(d.AddClient(ctx, d.client(fmt.Sprint("c", d.pages)), store.Origin{}, operator))
		case s.Phase == approval.CodeIssued:
			touched[s] = true
			d.must(moved(d.exchange(d.Store, s)))
			s.make(d.exchanging(s))
		case s.Phase == approval.Live && random.IntN(3) > 0: // which changes its place nowhere
			d.must(moved(d.refresh(d.Store, s, s.Generation)))
			s.make(approval.Refresh(s.Client, s.Generation, 1, d.Now()))
		case s.Phase == approval.Live:
			touched[s] = true
			d.must(d.EndApproval(ctx, s.ID, approval.RevokedByOperator, operator))
			s.make(approval.End(approval.RevokedByOperator, d.Now()))
		}
	}
	for _, f := range approvalFilters {
		for _, limit := range []int{1, 2, 5} {
			clear(touched)
			var want []string
			matched := map[*subject]bool{}
			for _, s := range all {
				matched[s] = f.takes(s)
			}
			what := fmt.Sprintf("approvals %+v", f.ApprovalFilter)
			got := d.walk(what, d.all()[limit%len(d.all())], approvalsBy(f.ApprovalFilter), limit, change)
			for _, s := range all {
				if matched[s] && f.takes(s) && !(touched[s] && f.State != "") {
					want = append(want, s.ID.String())
				}
			}
			d.once(what, got, want)
		}
	}
	for what, list := range map[string]lister{
		"clients": clientsBy(store.ClientFilter{}), "IDs of clients": idsBy("client", ""),
		"the journal": eventsBy(store.EventFilter{}), "the journal, oldest first": eventsBy(store.EventFilter{OldestFirst: true, Until: d.Now().Unix() + 1}),
		"the journal of Ada": eventsBy(store.EventFilter{Person: "ada"}),
	} {
		before := d.walk(what, d.Store, list, 1000, func() {})
		d.once(what, d.walk(what, d.Store, list, 7, change), before)
	}
}

// once wants each of a list's IDs once, and none twice.
func (d *database) once(what string, got, want []string) {
	d.t.Helper()
	times := map[string]int{}
	for _, id := range got {
		if times[id]++; times[id] == 2 {
			d.t.Errorf("%s: %s is there twice", what, id)
		}
	}
	for _, id := range want {
		if times[id] == 0 {
			d.t.Errorf("%s: %s is not there", what, id)
		}
	}
}
