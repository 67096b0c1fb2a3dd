package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/org"
)

// A teller tells events, each under an ID of its own.
type teller struct {
	*testing.T
	house
}

func (s teller) tell(id string, version int64, t directory.Event) (string, error) {
	s.Helper()
	t.ID, t.Version, t.Digest = id, version, id
	got, err := s.TellDirectory(context.Background(), t, Act{Actor: "gateway:hr", Reason: "event " + id})
	s.same(s, id)
	return got, err
}

func (s teller) wants(want, id string, version int64, t directory.Event) {
	s.Helper()
	if got, err := s.tell(id, version, t); got != want || err != nil {
		s.Fatalf("%s: %q, %v, want %q", id, got, err, want)
	}
}

func (s teller) refuses(want error, id string, version int64, t directory.Event) {
	s.Helper()
	if got, err := s.tell(id, version, t); !errors.Is(err, want) {
		s.Fatalf("%s: %q, %v, want %v", id, got, err, want)
	}
}

var tellings atomic.Int64

// tells takes one event of the house's own: each has another ID, and a later version.
func (h house) tells(t directory.Event) error {
	t.Version = tellings.Add(1)
	t.ID = fmt.Sprint("telling-", t.Version)
	t.Digest = t.ID
	_, err := h.TellDirectory(context.Background(), t, Act{Actor: "gateway:hr"})
	return err
}

func personTold(id, email string) directory.Event {
	return directory.Event{Person: &directory.Person{Person: org.Person{ID: id, Email: email, Name: strings.ToUpper(id), Active: true}}, Unsaid: true}
}

func memberTold(person, organization string, gone bool) directory.Event {
	return directory.Event{Member: &directory.Member{Person: person, Organization: organization}, Unsaid: true, Gone: gone}
}

// Every kind of object comes and goes by events.
func TestDirectoryEvents(t *testing.T) {
	ctx, s := context.Background(), teller{t, furnished(t)}
	s.wants(ToldApplied, "e1", 1, personTold("eva", "eva@nordlys.example"))
	s.wants(ToldApplied, "e2", 2, directory.Event{Organization: &org.Organization{ID: "verksted", Name: "Verksted", AIIntegration: true}})
	s.wants(ToldApplied, "e3", 3, memberTold("eva", "verksted", false))
	s.wants(ToldApplied, "e4", 4, directory.Event{Circle: &org.Circle{ID: "all", Organization: "verksted", Name: "All"}})
	s.wants(ToldApplied, "e5", 5, directory.Event{Role: &org.Role{ID: "keys", Organization: "verksted", Circle: "all", Name: "Keys"}})
	s.wants(ToldApplied, "e6", 6, directory.Event{Filler: &directory.Filler{Role: "keys", Person: "eva"}})
	if m, err := s.Member(ctx, "eva", "verksted"); err != nil || !m.Fills("keys") {
		t.Fatalf("%+v, %v", m, err)
	}
	s.wants(ToldUnchanged, "e7", 7, memberTold("eva", "verksted", false))
	s.refuses(ErrConflict, "e8", 8, directory.Event{Circle: &org.Circle{ID: "all"}, Gone: true})
	s.wants(ToldApplied, "e9", 9, directory.Event{Filler: &directory.Filler{Role: "keys", Person: "eva"}, Gone: true})
	s.wants(ToldUnchanged, "e10", 10, directory.Event{Filler: &directory.Filler{Role: "keys", Person: "eva"}, Gone: true})
	s.wants(ToldApplied, "e11", 11, directory.Event{Role: &org.Role{ID: "keys"}, Gone: true})
	s.wants(ToldApplied, "e12", 12, directory.Event{Circle: &org.Circle{ID: "all"}, Gone: true})
	s.wants(ToldApplied, "e13", 13, memberTold("eva", "verksted", true))
	s.wants(ToldApplied, "e14", 14, directory.Event{Organization: &org.Organization{ID: "verksted"}, Gone: true})
	s.wants(ToldApplied, "e15", 15, directory.Event{Person: &directory.Person{Person: org.Person{ID: "eva"}}, Gone: true})
	for i, gone := range []directory.Event{
		{Person: &directory.Person{Person: org.Person{ID: "nobody"}}}, {Organization: &org.Organization{ID: "nowhere"}}, {Member: &directory.Member{Person: "a", Organization: "b"}},
		{Circle: &org.Circle{ID: "none"}}, {Role: &org.Role{ID: "none"}}, {Filler: &directory.Filler{Role: "none", Person: "nobody"}},
	} {
		gone.Gone = true
		name, _ := gone.Object()
		s.wants(ToldUnchanged, strings.NewReplacer(":", "-", "/", "-").Replace(name), int64(16+i), gone)
	}
}

// A removal by an event ends what a removal by an operator ends, and says who
// told it.
func TestDirectoryEventEnds(t *testing.T) {
	ctx, s := context.Background(), teller{t, furnished(t)}
	id := s.live(t, s.answer(1))
	s.wants(ToldApplied, "left", 7, memberTold("ada", "nordlys", true))
	if s.accepts(t, id) {
		t.Error("the approval lives")
	}
	events, _, err := s.Events(ctx, EventFilter{Kind: "directory_changed", Person: "ada", Limit: 1})
	if e := events[0]; err != nil || e.Actor != "gateway:hr" || e.Detail != "member removed" || e.Reason != "event left" || e.Organization != "nordlys" {
		t.Errorf("journal %+v, %v", e, err)
	}
	if r, err := s.Approval(ctx, id); err != nil || r.Reason != "left_organization" || r.EndedAt == 0 {
		t.Errorf("row %+v, %v", r, err)
	}
	s.wants(ToldApplied, "named", 8, personTold("tor", "tor2@nordlys.example"))
	events, _, err = s.Events(ctx, EventFilter{Kind: "directory_changed", Person: "tor", Limit: 1})
	if err != nil || len(events) != 1 || events[0].Detail != "person:tor: people: 1 changed" {
		t.Errorf("journal %+v, %v", events, err)
	}
}

// A late event revives nothing: not the object itself, not what stands on one
// that was removed, and not after a picture of all was taken.
func TestLateDirectoryEvents(t *testing.T) {
	ctx, s := context.Background(), teller{t, furnished(t)}
	s.wants(ToldApplied, "e9", 9, memberTold("tor", "nordlys", true))
	s.wants(ToldOld, "e8", 8, memberTold("tor", "nordlys", false))
	s.wants(ToldOld, "e9b", 9, memberTold("tor", "nordlys", false))
	events, _, err := s.Events(ctx, EventFilter{Kind: "directory_refused", Limit: 1})
	if err != nil || len(events) != 1 || events[0].Reason != "old_version" || events[0].Person != "tor" || events[0].Actor != "gateway:hr" || events[0].Detail == "" {
		t.Errorf("journal %+v, %v", events, err)
	}
	s.wants(ToldApplied, "e20", 20, directory.Event{Person: &directory.Person{Person: org.Person{ID: "tor"}}, Gone: true})
	s.wants(ToldApplied, "e30", 30, personTold("tor", "tor@nordlys.example"))
	s.wants(ToldOld, "e15", 15, memberTold("tor", "nordlys", false)) // told before the removal that took it too
	s.wants(ToldOld, "e16", 16, memberTold("tor", "fjell", false))
	s.wants(ToldApplied, "e25", 25, memberTold("tor", "nordlys", false)) // late, and after the removal
	s.wants(ToldOld, "e10", 10, directory.Event{Filler: &directory.Filler{Role: "treasurer", Person: "tor"}})
	s.wants(ToldApplied, "e26", 26, directory.Event{Filler: &directory.Filler{Role: "treasurer", Person: "tor"}})
	if _, err := s.ImportDirectory(ctx, directory.Import{AsOf: 100}, Act{}); err != nil {
		t.Fatal(err)
	}
	s.wants(ToldOld, "e99", 99, personTold("uma", "uma@nordlys.example"))
	s.wants(ToldApplied, "e101", 101, personTold("uma", "uma@nordlys.example"))
}

// An event that comes twice counts once; another one under its ID is refused. What
// was refused is not remembered: in another order it may come again.
func TestDirectoryEventTwice(t *testing.T) {
	ctx, s := context.Background(), teller{t, furnished(t)}
	for range 3 {
		s.wants(ToldApplied, "e1", 1, personTold("eva", "eva@nordlys.example"))
	}
	other := personTold("ida", "ida@nordlys.example")
	other.ID, other.Version, other.Digest = "e1", 2, "other"
	if _, err := s.TellDirectory(ctx, other, Act{}); !errors.Is(err, ErrConflict) {
		t.Errorf("another one under its ID: %v", err)
	}
	s.refuses(ErrNotFound, "e3", 3, memberTold("uma", "nordlys", false))
	s.refuses(ErrNotFound, "e4", 4, directory.Event{Filler: &directory.Filler{Role: "treasurer", Person: "eva"}})
	s.refuses(ErrConflict, "e5", 5, personTold("uma", "EVA@nordlys.example"))
	s.wants(ToldApplied, "e6", 6, personTold("uma", "uma@nordlys.example"))
	s.wants(ToldApplied, "e3", 3, memberTold("uma", "nordlys", false))
	s.clock.add(ToldRetention + time.Minute)
	if _, err := s.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	s.wants(ToldOld, "e1", 1, personTold("eva", "eva@nordlys.example")) // its version is known for ever
}

// Decision V42: an event by another picture changes nothing, and is not
// remembered; by the same one it is the next of its object.
func TestDirectoryEventByAPicture(t *testing.T) {
	ctx, s := context.Background(), teller{t, furnished(t)}
	was, err := s.Picture(ctx, "nordlys")
	if err != nil {
		t.Fatal(err)
	}
	like := func(name string) func(directory.Picture) bool {
		return func(p directory.Picture) bool {
			return p.Organization.Name == name && len(p.Members) == len(was.Members)
		}
	}
	renamed := func(name string, version int64, by string) directory.Event {
		return directory.Event{Organization: &org.Organization{ID: "nordlys", Name: name}, Unsaid: true, Version: version, Like: like(by)}
	}
	s.wants(ToldApplied, "e1", 7, renamed("First", 7, "Nordlys"))
	s.refuses(ErrChanged, "e2", 0, renamed("Second", 0, "Nordlys"))
	s.wants(ToldApplied, "e2", 0, renamed("Second", 0, "First"))
	s.wants(ToldOld, "e3", 8, renamed("Third", 8, "Second"))
	p, err := s.Picture(ctx, "nordlys")
	if err != nil || p.Organization.Name != "Second" || !p.Organization.AIIntegration ||
		len(p.Members) != 2 || p.Members[0] != (directory.MemberRow{ID: "ada", Name: "Ada Lindqvist", Admin: true}) || p.Members[1].ID != "tor" ||
		len(p.Circles) != 1 || len(p.Roles) != 1 || p.Roles[0].ID != "treasurer" || len(p.Roles[0].Fillers) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := s.Picture(ctx, "nowhere"); !errors.Is(err, ErrNotFound) {
		t.Errorf("of no organization: %v", err)
	}
}
