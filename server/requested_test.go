package server

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
)

// posting is a server whose letters nobody sends: posted gives those of an entry of the
// journal, each as whom it is to and what it says.
func posting(t *testing.T) (s *Server, posted func(store.Event) map[string]string) {
	t.Helper()
	l := good(t)
	c, err := l.Check()
	if err != nil {
		t.Fatal(err)
	}
	s = withAda(t, c, Options{})
	s.mail = &mailer{log: slog.New(slog.DiscardHandler), queue: make(chan letter, 100)}
	return s, func(e store.Event) map[string]string {
		t.Helper()
		all := map[string]string{}
		s.noticing()(e)
		for len(s.mail.queue) > 0 {
			l := <-s.mail.queue
			to, subject, text, err := l.make(t.Context())
			switch {
			case errors.Is(err, errNobody):
			case err != nil || l.kind != string(e.Kind) || all[to.Address] != "":
				t.Errorf("%s to %v: %v", l.kind, to, err)
			default:
				all[to.Address] = to.Name + ": " + strings.Join(strings.Fields(subject+" "+text), " ") + " "
			}
		}
		return all
	}
}

func addresses(of map[string]string) (all []string) {
	for address := range of {
		all = append(all, address)
	}
	slices.Sort(all)
	return all
}

// That a request waits is mailed to admins who are active, but for whoever asked, once an
// hour in each organization.
func TestAdminsAreMailedThatARequestWaits(t *testing.T) {
	s, posted := posting(t)
	d := store.Directory{Organizations: []org.Organization{{ID: "fjell", Name: "Fjell", AIIntegration: true}}}
	for _, id := range []string{"eva", "gone", "tor"} {
		d.People = append(d.People, store.DirectoryPerson{Person: org.Person{ID: id, Email: id + "@nordlys.example", Name: strings.ToUpper(id), Active: id != "gone"}})
		d.Members = append(d.Members, store.DirectoryMember{Person: id, Organization: "nordlys", Admin: id != "tor"}, store.DirectoryMember{Person: id, Organization: "fjell"})
	}
	if err := s.store.AddDirectory(t.Context(), d, store.Act{}); err != nil {
		t.Fatal(err)
	}
	made := store.Event{Kind: journal.RequestMade, Organization: "nordlys", Person: "eva"}
	all := posted(made)
	if got := addresses(all); !slices.Equal(got, []string{"ada@nordlys.example"}) {
		t.Errorf("to %v", got)
	}
	if got := all["ada@nordlys.example"]; !strings.HasPrefix(got, "Ada Aasen: ") || !strings.Contains(got, "Nordlys") || !strings.Contains(got, s.mailBase()+"/organizations/nordlys/settings/ai-integration/requests ") {
		t.Errorf("%s", got)
	}
	if got := posted(made); len(got) != 0 {
		t.Errorf("within the hour: %v", got)
	}
	made.Organization = "fjell" // which has no admin
	if got := posted(made); len(got) != 0 {
		t.Errorf("without an admin: %v", got)
	}
	s.requested = hourly{}
	made.Organization, made.Person = "nordlys", "tor"
	if got := addresses(posted(made)); !slices.Equal(got, []string{"ada@nordlys.example", "eva@nordlys.example"}) {
		t.Errorf("of a member: to %v", got)
	}
	if _, _, _, err := s.requestNotice(t.Context(), store.Event{Kind: journal.RequestMade, Organization: "none"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of no organization: %v", err)
	}
}

// However many admins there are, so many are mailed.
func TestSoManyAdminsAreMailed(t *testing.T) {
	s, posted := posting(t)
	var d store.Directory
	for i := range 2 * adminsMailed {
		id := fmt.Sprintf("admin%02d", i)
		d.People = append(d.People, store.DirectoryPerson{Person: org.Person{ID: id, Email: id + "@nordlys.example", Name: id, Active: true}})
		d.Members = append(d.Members, store.DirectoryMember{Person: id, Organization: "nordlys", Admin: true})
	}
	if err := s.store.AddDirectory(t.Context(), d, store.Act{}); err != nil {
		t.Fatal(err)
	}
	if got := len(posted(store.Event{Kind: journal.RequestMade, Organization: "nordlys", Person: "tor"})); got != adminsMailed {
		t.Errorf("%d letters", got)
	}
}

// That connections are due for review is mailed by the rules as they are when the letter
// is written (decision P23).
func TestAdminsAreMailedThatAReviewIsDue(t *testing.T) {
	s, posted := posting(t)
	due := store.Event{Kind: journal.ReviewDue, Organization: "nordlys", Actor: "system", Detail: "2 connections"}
	rules := func(p policy.Policy) {
		t.Helper()
		now, err := s.store.Policy(t.Context(), "nordlys")
		r := store.Rules{Organization: "nordlys", Policy: p}
		if now != nil {
			r.Seen = now.Version
		}
		if _, _, saved := s.store.SetPolicy(t.Context(), r, store.Act{}); err != nil || saved != nil {
			t.Fatal(err, saved)
		}
	}
	if got := posted(due); len(got) != 0 {
		t.Errorf("without rules: %v", got)
	}
	for _, days := range []int{90, 365} {
		rules(policy.Policy{ReviewDays: days})
		all := posted(due)
		got := all["ada@nordlys.example"]
		if len(all) != 1 || !strings.Contains(got, fmt.Sprintf("reviewed every %d days", days)) || !strings.Contains(got, s.mailBase()+"/organizations/nordlys/settings/ai-integration ") ||
			strings.Contains(got, "2 connections") {
			t.Errorf("%v", all)
		}
	}
	rules(policy.Policy{Unknown: policy.Ask})
	if got := posted(due); len(got) != 0 {
		t.Errorf("nobody reviews any more: %v", got)
	}
	rules(policy.Policy{ReviewDays: 90})
	if err := s.store.SetAdmin(t.Context(), "nordlys", "ada", false, store.Act{}); err != nil {
		t.Fatal(err)
	}
	if got := posted(due); len(got) != 0 {
		t.Errorf("without an admin: %v", got)
	}
	due.Organization = "none"
	if _, _, _, err := s.reviewNotice(t.Context(), due); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of no organization: %v", err)
	}
}

// One an hour, of each organization; it remembers no more than ask within an hour.
func TestHourly(t *testing.T) {
	var h hourly
	now := time.Unix(1_800_000_000, 0)
	for _, step := range []struct {
		organization string
		later        time.Duration
		first        bool
	}{{"a", 0, true}, {"a", 0, false}, {"b", 0, true}, {"a", time.Hour - 1, false}, {"a", time.Hour, true}, {"a", time.Hour + 1, false}, {"b", 90 * time.Minute, true}} {
		if got := h.first(step.organization, now.Add(step.later)); got != step.first {
			t.Errorf("%+v: %v", step, got)
		}
	}
	for i := range 25_000 {
		if h.first(fmt.Sprint(i), now); len(h.last) > 10_000 {
			t.Fatalf("%d are remembered", len(h.last))
		}
	}
}
