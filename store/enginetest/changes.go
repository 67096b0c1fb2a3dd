package enginetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

var refusedChanges = []behaviour{
	{"a change whose statement fails: unavailable, and nothing of it stands", Refuse, showRefused},
	{"a change whose commit fails: unavailable, and nothing of it stands", Abort, showAborted},
	{"a change with what is not allowed: refused, and nothing of it stands", "", showNotAllowed},
	{"a full disk: unavailable, nothing is half done or used up, and all goes on with room", Fill, showFull},
	{"a commit of unknown outcome: unavailable, it is made once or not, and memory follows the rows", Mislead, showMislead},
	{"a machine that stops: what was answered stands", Crash, showCrash},
}

// A change is asked of a store after its preparation, which gives it.
type change struct {
	name    string
	prepare func(d *database) (ask func(*store.Store) error)
}

// ask is a change of a store that needs no preparation.
func ask(f func(*store.Store) error) func(*database) func(*store.Store) error {
	return func(*database) func(*store.Store) error { return f }
}

// moved gives the error of a move.
func moved(v approval.Verdict, err error) error {
	if err == nil && v != approval.OK && v != approval.Reused {
		return fmt.Errorf("told %v", v)
	}
	return err
}

// changes are of all kinds that are answered when they are durable.
var changes = []change{
	{"approve", func(d *database) func(*store.Store) error {
		a := d.page()
		return func(s *store.Store) error { _, _, err := s.Approve(ctx, a, operator); return err }
	}},
	{"answer a page again", func(d *database) func(*store.Store) error {
		a := d.page()
		d.approve(a)
		a.Grant = grantset.Set{Kind: grantset.Everything}
		return func(s *store.Store) error { _, _, err := s.Approve(ctx, a, operator); return err }
	}},
	{"exchange", func(d *database) func(*store.Store) error {
		one := d.approve(d.page())
		return func(s *store.Store) error { return moved(d.exchange(s, one)) }
	}},
	{"exchange that replaces", func(d *database) func(*store.Store) error {
		d.live(d.page())
		a := d.page()
		a.Replace = true
		one := d.approve(a)
		return func(s *store.Store) error { return moved(d.exchange(s, one)) }
	}},
	{"refresh", func(d *database) func(*store.Store) error {
		one := d.live(d.page())
		return func(s *store.Store) error { return moved(d.refresh(s, one, 1)) }
	}},
	{"theft", func(d *database) func(*store.Store) error {
		one := d.live(d.page())
		d.must(moved(d.refresh(d.Store, one, 1)))
		return func(s *store.Store) error {
			_, v, err := s.ApplyLive(ctx, one.ID, approval.Refresh("quill", 1, 1, d.Now()), store.Act{})
			return moved(v, err)
		}
	}},
	{"revoke", func(d *database) func(*store.Store) error {
		one := d.live(d.page())
		return func(s *store.Store) error {
			_, v, err := s.ApplyLive(ctx, one.ID, approval.Revoke("quill", d.Now()), store.Act{})
			return moved(v, err)
		}
	}},
	{"cancel", func(d *database) func(*store.Store) error {
		a := d.page()
		d.approve(a)
		return func(s *store.Store) error {
			return s.Cancel(ctx, store.Cancelled{Handle: a.Handle, Client: a.Client, Person: a.Person}, operator)
		}
	}},
	{"end", func(d *database) func(*store.Store) error {
		one := d.live(d.page())
		return func(s *store.Store) error { return s.EndApproval(ctx, one.ID, approval.RevokedByOperator, operator) }
	}},
	{"end all of a person", func(d *database) func(*store.Store) error {
		a := d.pageIn("nordlys")
		a.Person = "tor"
		d.live(a)
		return func(s *store.Store) error {
			_, err := s.EndApprovals(ctx, store.ApprovalFilter{Person: "tor"}, approval.RevokedByPerson, operator)
			return err
		}
	}},
	{"edit", func(d *database) func(*store.Store) error {
		one := d.live(d.page())
		return func(s *store.Store) error {
			return s.EditGrant(ctx, one.ID, "ada", one.Grant, grantset.Set{Kind: grantset.Roles, Personal: true}, operator)
		}
	}},
	{"register", func(d *database) func(*store.Store) error {
		d.pages++
		c := d.client(fmt.Sprint("c", d.pages))
		return func(s *store.Store) error { return s.AddClient(ctx, c, store.Origin{}, operator) }
	}},
	{"a client by its document", func(d *database) func(*store.Store) error {
		d.pages++
		c := d.document("Assistant", redirect)
		c.ID = fmt.Sprint("https://assistant.example/", d.pages)
		return func(s *store.Store) error { _, err := s.PutDocument(ctx, c, store.Origin{}, operator); return err }
	}},
	{"a document that gives a redirect URI up", func(d *database) func(*store.Store) error {
		d.put(d.document("Assistant", redirect, otherRedirect), 0)
		d.live(d.documentPage(otherRedirect))
		d.put(d.document("Assistant", redirect), 0)
		d.clock.add(store.LeavingFor)
		c := d.document("Assistant", redirect)
		return func(s *store.Store) error { _, err := s.PutDocument(ctx, c, store.Origin{}, operator); return err }
	}},
	{"an entry of a session", ask(func(s *store.Store) error {
		return s.Enter(ctx, store.Entry{Value: "session", Person: "tor"}, operator)
	})},
	{"a directory", func(d *database) func(*store.Store) error {
		d.pages++
		return func(s *store.Store) error { return s.AddDirectory(ctx, newcomers(fmt.Sprint("n", d.pages)), operator) }
	}},
	{"take a role", ask(func(s *store.Store) error { return s.SetFiller(ctx, "reviewer", "ada", false, operator) })},
	{"give the admin right", ask(func(s *store.Store) error { return s.SetAdmin(ctx, "nordlys", "tor", true, operator) })},
	{"remove a member", func(d *database) func(*store.Store) error {
		d.live(d.pageIn("fjell"))
		return func(s *store.Store) error { return s.RemoveMember(ctx, "fjell", "ada", operator) }
	}},
	{"deactivate", ask(func(s *store.Store) error { return s.SetActive(ctx, "tor", false, operator) })},
	{"switch AI integration off", ask(func(s *store.Store) error { return s.SetIntegration(ctx, "nordlys", false, operator) })},
	{"switch AI integration on", ask(func(s *store.Store) error { return s.SetIntegration(ctx, "nordlys", true, operator) })},
	{"disable a client", ask(func(s *store.Store) error { return s.SetClientEnabled(ctx, "quill", false, operator) })},
	{"enable a client", ask(func(s *store.Store) error { return s.SetClientEnabled(ctx, "quill", true, operator) })},
}

// newcomers are a person, an organization, and what belongs to them.
func newcomers(id string) directory.Directory {
	return directory.Directory{
		People:        []directory.Person{{Person: org.Person{ID: id, Email: id + "@havn.example", Name: id, Active: true}, PasswordHash: id}},
		Organizations: []org.Organization{{ID: id, Name: id, AIIntegration: true}},
		Members:       []directory.Member{{Person: "ada", Organization: id}, {Person: id, Organization: id, Admin: true}},
		Circles:       []org.Circle{{ID: id, Organization: id, Name: id}},
		Roles:         []org.Role{{ID: id, Organization: id, Circle: id, Name: id}},
		Fillers:       []directory.Filler{{Role: id, Person: "ada"}, {Role: id, Person: id}},
		APIKeys:       []directory.APIKey{{Key: "a-key-of-16-characters" + id, Person: id, Organization: id, Name: id}},
	}
}

// failing prepares each change, lets it fail, and makes it when it can be made.
func failing(t *testing.T, h Harness, fail func(d *database, c change) (lift func())) {
	d := furnished(t, h)
	for _, c := range changes {
		do := c.prepare(d)
		told, before := d.toldOf(), d.view(d.Store)
		lift := fail(d, c)
		for range 2 {
			if err := do(d.Store); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s: %v, want unavailable", c.name, err)
			}
		}
		lift()
		d.same(c.name+" failed, and changed something", d.agree(c.name+" failed"), before)
		if now := d.toldOf(); now != told {
			t.Errorf("%s failed, and %d entries were told", c.name, now-told)
		}
		d.must(do(d.Store))
		if d.view(d.Store) == before {
			t.Errorf("%s changed nothing", c.name)
		}
	}
	d.agree("all made")
}

// toldOf counts the entries that were told of.
func (d *database) toldOf() int {
	d.settle()
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.events)
}

func showRefused(t *testing.T, h Harness) {
	failing(t, h, func(d *database, c change) func() {
		if c.name == "refresh" {
			return d.Refuse(t, "UPDATE", "approval", "1 = 1")
		}
		return d.Refuse(t, "INSERT", "journal", "1 = 1")
	})
}

func showAborted(t *testing.T, h Harness) {
	failing(t, h, func(d *database, _ change) func() { return d.Abort(t) })
}

// A refusal is a change that the rules do not allow, and how they refuse it.
type refusal struct {
	do   func() error
	want error
}

func notAllowed(d *database, exchanged, unknown, gone store.Answer) map[string]refusal {
	twice := newcomers("eva")
	twice.People[0].Email = "ADA@nordlys.example"
	approve := func(a store.Answer) error { _, _, err := d.Approve(ctx, a, operator); return err }
	return map[string]refusal{
		"a page that was exchanged":    {func() error { return approve(exchanged) }, store.ErrAnswered},
		"a client that nobody knows":   {func() error { return approve(unknown) }, store.ErrNotFound},
		"an organization of others":    {func() error { return approve(gone) }, store.ErrNotAllowed},
		"an ID that is taken":          {func() error { return d.AddClient(ctx, d.client("quill"), store.Origin{}, operator) }, store.ErrConflict},
		"a directory with another's":   {func() error { return d.AddDirectory(ctx, twice, operator) }, store.ErrConflict},
		"a person who is not there":    {func() error { return d.SetActive(ctx, "nobody", false, operator) }, store.ErrNotFound},
		"an organization not there":    {func() error { return d.SetIntegration(ctx, "nowhere", false, operator) }, store.ErrNotFound},
		"a member of nowhere":          {func() error { return d.SetMember(ctx, "nowhere", "ada", false, operator) }, store.ErrNotFound},
		"nobody as a member":           {func() error { return d.SetMember(ctx, "nordlys", "nobody", false, operator) }, store.ErrNotFound},
		"nobody removed":               {func() error { return d.RemoveMember(ctx, "nordlys", "nobody", operator) }, store.ErrNotFound},
		"one removed who is no member": {func() error { return d.RemoveMember(ctx, "fjell", "tor", operator) }, nil},
		"a client not there":           {func() error { return d.SetClientEnabled(ctx, "none", false, operator) }, store.ErrNotFound},
		"a password of nobody":         {func() error { return d.SetPassword(ctx, "nobody", "x", operator) }, store.ErrNotFound},
		"a directory with a stranger": {func() error {
			return d.AddDirectory(ctx, directory.Directory{Fillers: []directory.Filler{{Role: "reviewer", Person: "tor"}}}, operator)
		}, store.ErrNotFound},
		"a role not there":               {func() error { return d.SetFiller(ctx, "none", "ada", true, operator) }, store.ErrNotFound},
		"a role of others":               {func() error { return d.SetFiller(ctx, "reviewer", "tor", true, operator) }, store.ErrNotFound},
		"the right of one who is not in": {func() error { return d.SetAdmin(ctx, "fjell", "tor", true, operator) }, store.ErrNotFound},
		"an approval that is not there":  {func() error { return d.EndApproval(ctx, approval.ID{1}, approval.RevokedByOperator, operator) }, store.ErrNotFound},
		"a session of nobody":            {func() error { return d.Enter(ctx, store.Entry{Value: "x", Person: "nobody"}, operator) }, store.ErrNotFound},
	}
}

// What the rules refuse, the engine does not half make.
func showNotAllowed(t *testing.T, h Harness) {
	d := furnished(t, h)
	exchanged := d.page()
	d.live(exchanged)
	unknown, gone := d.page(), d.page()
	unknown.Client, gone.Organization = "none", "nowhere"
	before := d.agree("before")
	for name, c := range notAllowed(d, exchanged, unknown, gone) {
		if err := c.do(); !errors.Is(err, c.want) || errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		d.same(name, d.alike(name), before)
	}
	d.agree("nothing was allowed")
	once := store.Entry{Value: "x", Person: "nobody", Once: "an assertion", OnceUntil: d.Now().Add(time.Hour)}
	if err := d.Enter(ctx, once, operator); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an entry of nobody: %v", err)
	}
	once.Person = "tor"
	if err := d.Enter(ctx, once, operator); err != nil {
		t.Errorf("an entry that was refused has used up what counts once: %v", err)
	}
}

func showFull(t *testing.T, h Harness) {
	d := furnishedAt(t, h, h.Place(t).Small(t))
	live := d.live(d.page())
	codes := map[*subject]bool{} // whether each was exchanged
	for range 60 {
		codes[d.approve(d.page())] = false
	}
	free := d.Fill(t)
	d.fillUp()
	d.exchangeSome(codes)
	many := newcomers("big")
	for n := range 500 {
		id := fmt.Sprint("p", n)
		many.People = append(many.People, directory.Person{Person: org.Person{ID: id, Email: id, Name: strings.Repeat("x", 400), Active: true}})
	}
	if err := d.AddDirectory(ctx, many, operator); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a directory on a full disk: %v, want unavailable", err)
	}
	if !d.accepts(d.Store, live) {
		t.Error("a check is refused while the disk is full")
	}
	free()
	d.agree("with room again")
	for code, exchanged := range codes {
		want := approval.OK
		if exchanged {
			want = approval.Reused
		}
		if v, err := d.exchange(d.Store, code); v != want || err != nil {
			t.Errorf("with room again: %v, %v; want %v", v, err, want)
		}
	}
	d.must(moved(d.refresh(d.Store, live, 1)), d.AddDirectory(ctx, many, operator))
	d.agree("in the end")
}

// exchangeSome exchanges codes on a full disk, and marks those that were: an exchange is
// journaled, and so needs room.
func (d *database) exchangeSome(codes map[*subject]bool) {
	d.t.Helper()
	refused := 0
	for code := range codes {
		switch v, err := d.exchange(d.Store, code); {
		case err == nil && v == approval.OK:
			codes[code] = true
		case errors.Is(err, store.ErrUnavailable):
			refused++
		default:
			d.t.Fatalf("an exchange on a full disk: %v, %v", v, err)
		}
	}
	if refused == 0 {
		d.t.Error("the disk never was full for an exchange")
	}
}

// fillUp registers clients until the database has no room for another.
func (d *database) fillUp() {
	d.t.Helper()
	for n := range 20_000 {
		c := d.client(fmt.Sprint("filler", n))
		c.Name = strings.Repeat("x", 300)
		err := d.AddClient(ctx, c, store.Origin{}, operator)
		if errors.Is(err, store.ErrUnavailable) {
			if state, _ := d.ClientState(ctx, c.ID); state != store.ClientUnknown {
				d.t.Error("a client that was refused is known")
			}
			return
		}
		d.must(err)
	}
	d.t.Fatal("the disk never was full")
}

func showMislead(t *testing.T, h Harness) {
	d := furnished(t, h)
	through, arm := d.Mislead(t)
	misled := d.openAt(through)
	d.others = append(d.others, misled)
	for _, c := range changes {
		for _, made := range []bool{false, true} {
			do := c.prepare(d)
			when := fmt.Sprintf("%s, made: %t", c.name, made)
			d.settle()
			before, told := d.view(misled), d.toldOf()
			arm(made)
			err := do(misled)
			if again := c.name == "register"; !errors.Is(err, store.ErrUnavailable) || !again && !errors.Is(err, store.ErrOutcome) { // to register twice harms nobody
				t.Errorf("%s: %v, want unavailable, and that nobody knows", when, err)
			}
			if after := d.alike(when); (after != before) != made {
				t.Errorf("%s: the rows have changed: %t", when, after != before)
			}
			if now := d.toldOf(); now != told {
				t.Errorf("%s: %d entries were told of what nobody knows", when, now-told)
			}
		}
	}
	d.agree("after all of them")
	for _, made := range []bool{false, true} {
		arm(made)
		misled.Record(store.Event{Kind: journal.RegistrationRefused, Detail: fmt.Sprint(made)})
		d.settle()
	}
	list, _, err := d.Events(ctx, store.EventFilter{Kind: journal.RegistrationRefused})
	if err != nil || len(list) != 2 || list[0].Detail == list[1].Detail {
		t.Errorf("what was noted, made or not: %+v, %v; want each once", list, err)
	}
}

func showCrash(t *testing.T, h Harness) {
	d := furnished(t, h)
	all := make([]*subject, 8)
	answered := make([]atomic.Int64, len(all)) // the generation that each was given last
	begun := make(chan struct{}, len(all))
	var wg sync.WaitGroup
	for i := range all {
		all[i] = d.live(d.page())
		answered[i].Store(1)
	}
	for i, s := range all {
		wg.Go(func() { d.refreshUntilCrash(s, &answered[i], begun) })
	}
	for range all {
		<-begun
	}
	least := make([]int64, len(all))
	for i := range all {
		least[i] = answered[i].Load()
	}
	left := &database{Place: d.Crash(t), t: t, harness: h, clock: d.clock, ring: d.ring}
	wg.Wait()
	left.Store = left.open()
	for i, s := range all {
		a, err := left.Check(ctx, s.ID)
		if most := answered[i].Load() + 1; err != nil || a.Approval.Generation < least[i] || a.Approval.Generation > most {
			t.Errorf("generation %d, %v; %d was answered before it stopped, and at most %d asked for", a.Approval.Generation, err, least[i], most)
		}
	}
	left.agree("after the machine has stopped")
	if v, err := left.refresh(left.Store, all[0], 1); v != approval.Reused || err != nil {
		t.Errorf("a used token, after the machine has stopped: %v, %v", v, err)
	}
}

// refreshUntilCrash refreshes until it is told that it cannot be, or has done much, and
// says when it is under way.
func (d *database) refreshUntilCrash(s *subject, answered *atomic.Int64, begun chan<- struct{}) {
	for n := range int64(30) {
		if v, err := d.refresh(d.Store, s, n+1); err != nil || v != approval.OK {
			if !errors.Is(err, store.ErrUnavailable) {
				d.t.Error(v, err)
			}
			return
		}
		answered.Store(n + 2)
		if n == 5 {
			begun <- struct{}{}
		}
	}
}
