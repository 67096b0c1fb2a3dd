package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/oversight"
	"github.com/grantkeeper/grantkeeper/store/postgres"
	"github.com/grantkeeper/grantkeeper/store/sqlite"
	"github.com/grantkeeper/grantkeeper/token"
	"github.com/jackc/pgx/v5"
)

// tell writes all that memory holds, one line each, in order.
func tell(m *engine.Memory) string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for id, p := range m.People.Each {
		add("person %s %+v epoch %d, found by email: %v", id, p.Person, p.Epoch, m.ByEmail.Get(strings.ToLower(p.Email)) == p)
	}
	add("emails %d", m.ByEmail.Len())
	for id, o := range m.Orgs {
		var members []string
		for _, at := range o.ByPerson() {
			members = append(members, at.Person.ID)
		}
		add("organization %s %+v epoch %d, circles %v, roles %v, members %v", id, o.Organization, o.Epoch,
			slices.Sorted(maps.Keys(o.Circles)), slices.Sorted(maps.Keys(o.Roles)), members)
		if o.Policy != nil {
			add("policy of %s %+v, limit %+v", id, *o.Policy, o.Limit)
		}
		for _, c := range o.Circles {
			add("circle %+v", c)
		}
	}
	for k, at := range m.Members.Each {
		var roles []string
		for _, r := range at.Roles {
			roles = append(roles, r.ID)
		}
		slices.Sort(roles)
		add("member %v admin %v present %v epoch %d roles %v, facts %+v", k, at.Admin, at.Present, at.Epoch, roles, at.AsMember())
	}
	for id, r := range m.Roles.Each {
		var fillers []string
		for _, f := range r.Fillers {
			fillers = append(fillers, f.Person.ID+" in "+f.Org.ID)
		}
		slices.Sort(fillers)
		add("role %s %+v fillers %v", id, r.Role, fillers)
	}
	for id, c := range m.Clients {
		add("client %s %+v", id, *c)
	}
	add("unapproved %d", m.Waiting)
	for hash, k := range m.APIKeys {
		add("API key %x of %v", hash[:4], k)
	}
	for id := range m.Approvals.Index {
		h := m.Approvals.At(id)
		add("approval %s %+v grant %+v used %d", id, m.Uncached(id, h), m.GrantSet(h), h.Used)
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// remembered is what memory tells when nothing is under way.
func (h house) remembered(t testing.TB) string {
	t.Helper()
	var out string
	err := h.changeFacts(func(tx *Tx) error {
		out = tell(tx.Memory)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// unlisted gives a membership that is found by its key and not by its person.
func unlisted(m *engine.Memory) (key facts.MemberKey, lost bool) {
	m.RLock()
	defer m.RUnlock()
	for k, at := range m.Members.Each {
		if !slices.Contains(at.Person.Members, at) {
			return k, true
		}
	}
	return facts.MemberKey{}, false
}

// same checks that memory holds what a server that starts now would load, once
// what was noted is written; uses are remembered by the embedded engine alone. It
// gives what memory tells.
func (h house) same(t testing.TB, when string) (now string) {
	t.Helper()
	if embedded() {
		if err := h.Ready(context.Background()); err != nil {
			t.Fatalf("%s: not ready: %v", when, err)
		}
	}
	if k, lost := unlisted(h.db.Memory); lost {
		t.Errorf("%s: member %v is not among those of the person", when, k)
	}
	e := engine.NewEnv(Options{})
	e.Memory.Approvals.Elsewhere = !embedded()
	if err := h.changeFacts(func(tx *Tx) error {
		now = tell(tx.Memory)
		if !embedded() {
			return postgres.Raw(tx.Conn, func(c *pgx.Conn) error {
				return (&postgres.Engine{Env: e}).Load(tx.Ctx, c, true, func() {})
			})
		}
		return sqlite.Load(context.Background(), tx.Conn, e.Memory)
	}); err != nil {
		t.Fatalf("%s: the rows cannot be loaded: %v", when, err)
	}
	difference(t, when+": memory is not what the rows say", now, tell(e.Memory))
	return now
}

func difference(t testing.TB, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	in := func(line, text string) bool { return strings.Contains("\n"+text+"\n", "\n"+line+"\n") }
	for line := range strings.Lines(got) {
		if line = strings.TrimSuffix(line, "\n"); !in(line, want) {
			t.Errorf("%s: only here:  %s", what, line)
		}
	}
	for line := range strings.Lines(want) {
		if line = strings.TrimSuffix(line, "\n"); !in(line, got) {
			t.Errorf("%s: only there: %s", what, line)
		}
	}
	t.FailNow()
}

func (h house) sql(t testing.TB, text string) {
	t.Helper()
	db := interface {
		ExecContext(context.Context, string, ...any) (sql.Result, error)
	}(h.db.Reader)
	if embedded() {
		db = h.embedded().Writer.Conn
	}
	if _, err := db.ExecContext(context.Background(), text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

var tables = []string{"meta", "person", "organization", "membership", "circle", "role", "filler",
	"api_key", "client", "approval", "session", "journal", "directory_event", "directory_version",
	"policy", "policy_app", "policy_never", "app_request"}

// wanderer does what comes, with parameters drawn from few.
type wanderer struct {
	house
	*rand.Rand
	known []approval.ID
	names int
	asked []string // IDs of requests
}

func (w *wanderer) one(of ...string) string { return of[w.IntN(len(of))] }
func (w *wanderer) person() string          { return w.one("ada", "tor", "eva", "nobody") }
func (w *wanderer) org() string             { return w.one("nordlys", "fjell", "havn") }
func (w *wanderer) client() string          { return w.one("quill", "quill", "fixed", "other") }
func (w *wanderer) on() bool                { return w.IntN(2) == 0 }
func (w *wanderer) role() string            { return w.one("treasurer", "reviewer", "keeper") }

func (w *wanderer) id() approval.ID {
	if len(w.known) == 0 {
		return approval.ID{9}
	}
	return w.known[w.IntN(len(w.known))]
}

func (w *wanderer) grant() grantset.Set {
	switch w.IntN(4) {
	case 0:
		return grantset.Set{Kind: grantset.Everything}
	case 1:
		return grantset.Set{Kind: grantset.Organization}
	case 2:
		return grantset.Set{Kind: grantset.Roles, Personal: true}
	}
	return grantset.Set{Kind: grantset.Roles, Personal: w.on(), Picks: []grantset.Pick{{Role: w.role(), Change: w.on()}}}
}

// end is an end date of an approval, mostly none.
func (w *wanderer) end() int64 {
	return []int64{0, 0, w.Now().Unix() + 3600, oversight.EndOf(w.Now(), 2)}[w.IntN(4)]
}

// policy is mostly one that lets something pass.
func (w *wanderer) policy() (p policy.Policy) {
	p.Unknown = policy.Rule(w.one("", "", "", "ask"))
	p.MaxDays = []int{0, 0, 0, 3}[w.IntN(4)]
	if w.IntN(3) == 0 {
		p.Ceiling = grantset.Ceiling{Widest: grantset.Kind(w.one("", "roles", "everything")), ReadOnly: w.on(), NoPersonal: w.on()}
		if w.on() {
			p.Ceiling.Never = []string{w.role()}
		}
	}
	if w.IntN(3) == 0 {
		p.Apps = []policy.App{{Host: w.one("connect.quill.example", "example"), Name: "Quill Assistant", Rule: policy.Rule(w.one("allow", "ask", "block")), Reason: "r"}}
	}
	return p
}

func (w *wanderer) directory() directory.Directory {
	o := w.org()
	return directory.Directory{
		People: []directory.Person{{Person: org.Person{ID: w.one("ada", "eva"), Name: w.one("A", "B"),
			Email: w.one("ada@nordlys.example", "eva@nordlys.example", "Eva@havn.example"), Active: w.IntN(4) > 0}, PasswordHash: w.one("", "x", "y")}},
		Organizations: []org.Organization{{ID: o, Name: o, AIIntegration: w.IntN(4) > 0}},
		Members:       []directory.Member{{Person: w.person(), Organization: o, Admin: w.on()}},
		Circles:       []org.Circle{{ID: "top-" + o, Organization: o, Name: w.one("Top", "Peak")}, {ID: w.one("a", "b"), Organization: w.org(), Parent: w.one("", "a", "b", "top-"+o)}},
		Roles:         []org.Role{{ID: w.role(), Organization: w.org(), Circle: w.one("top-"+o, "anchor", "grants", "a")}},
		Fillers:       []directory.Filler{{Role: w.role(), Person: w.person()}},
		APIKeys:       []directory.APIKey{{Key: w.one("a-key-of-16-characters", "another-key-of-16-ch"), Person: w.person(), Organization: o, Name: "k"}},
	}
}

func (w *wanderer) step() (string, error) {
	ctx, act := context.Background(), Act{Actor: "operator"}
	w.clock.add(time.Duration([]int64{0, 1, 60, 300, 3600, 3 * 24 * 3600}[w.IntN(6)]) * time.Second)
	w.names++
	switch w.IntN(32) {
	case 0:
		return "SetActive", w.SetActive(ctx, w.person(), w.on(), act)
	case 1:
		return "SetIntegration", w.SetIntegration(ctx, w.org(), w.IntN(3) > 0, act)
	case 2:
		return "SetMember", w.SetMember(ctx, w.org(), w.person(), w.on(), act)
	case 3:
		return "RemoveMember", w.RemoveMember(ctx, w.org(), w.person(), act)
	case 4:
		return "SetAdmin", w.SetAdmin(ctx, w.org(), w.person(), w.on(), act)
	case 5:
		return "SetFiller", w.SetFiller(ctx, w.role(), w.person(), w.on(), act)
	case 6:
		return "SetClientEnabled", w.SetClientEnabled(ctx, w.client(), w.IntN(3) > 0, act)
	case 7:
		return "AddClient", w.AddClient(ctx, client.Client{ID: w.one("other", fmt.Sprint("c", w.names)), RedirectURIs: []string{redirect}, IssuedAt: w.Now().Unix()}, Origin{}, act)
	case 8:
		var cs []client.Client
		if w.on() {
			cs = append(cs, client.Client{ID: "fixed", RedirectURIs: []string{redirect}, Preregistered: true})
		}
		return "SyncPreregistered", w.SyncPreregistered(ctx, cs, act)
	case 9, 10:
		return "AddDirectory", w.AddDirectory(ctx, w.directory(), act)
	case 11, 12, 13:
		a := w.answer(byte(w.IntN(12)))
		a.Client, a.Organization, a.Grant, a.Replace, a.EndsAt = w.client(), w.org(), w.grant(), w.on(), w.end()
		handle, issued, err := w.Approve(ctx, a, act)
		if err == nil && w.on() {
			w.known = append(w.known, approval.ID(handle.ID()))
			_, _, err = w.Apply(ctx, approval.ID(handle.ID()), approval.Exchange(a.Client, issuer, redirect, verifier, issued, 1, w.Now()), act)
			return "Exchange", err
		}
		return "Approve", err
	case 14, 15:
		_, _, err := w.Refresh(ctx, w.id(), w.client(), 1+w.Int64N(2), 1+w.IntN(2), act)
		return "Refresh", err
	case 16:
		return "Cancel", w.Cancel(ctx, Cancelled{w.page(byte(w.IntN(12))), w.client(), "ada"}, act)
	case 17:
		return "EndApproval", w.EndApproval(ctx, w.id(), approval.RevokedByOperator, act)
	case 18:
		_, err := w.EndApprovals(ctx, ApprovalFilter{Client: w.client(), Organization: w.org()}, approval.RevokedByAdmin, act)
		return "EndApprovals", err
	case 19:
		_, err := w.Sweep(ctx)
		return "Sweep", err
	case 20:
		row, err := w.Approval(ctx, w.id())
		if err == nil {
			err = w.EditApproval(ctx, row.ID, "ada", Edit{row.Grant, w.grant(), w.end()}, act)
		}
		return "EditGrant", err
	case 21:
		o := w.org()
		return "role told", w.tells(directory.Event{Role: &org.Role{ID: w.role(), Organization: o, Circle: w.one("anchor", "grants", "top-"+o), Name: w.one("R", "S")}})
	case 22:
		return "role told gone", w.tells(directory.Event{Role: &org.Role{ID: w.role()}, Gone: true})
	case 23, 24, 25:
		r := Rules{Organization: w.org(), Admin: w.one("", "ada"), Policy: w.policy()}
		if p, err := w.Policy(ctx, r.Organization); err == nil && p != nil {
			r.Seen = p.Version
		}
		_, _, err := w.SetPolicy(ctx, r, act)
		return "SetPolicy", err
	case 26:
		r, _, err := w.Ask(ctx, Asking{Organization: w.org(), Person: w.person(), Client: w.client(), RedirectURI: redirect, Message: "Please."}, act)
		w.asked = append(w.asked, r.ID)
		return "Ask", err
	case 27:
		o := w.org()
		_, err := w.DecideRequest(ctx, Decision{Organization: o, Request: w.one(append(w.asked, "none")...), State: RequestState(w.one("allowed", "allowed_person", "declined"))}, act)
		return "DecideRequest", err
	case 28:
		_, err := w.Withdraw(ctx, w.one(append(w.asked, "none")...), w.person(), act)
		return "Withdraw", err
	case 29:
		_, err := w.EndConnections(ctx, w.org(), "ada", []approval.ID{w.id(), w.id()}, act)
		return "EndConnections", err
	case 30:
		_, err := w.MarkReviewed(ctx, w.org(), "ada", []approval.ID{w.id(), w.id()}, act)
		return "MarkReviewed", err
	}
	o := w.org()
	c := org.Circle{ID: w.one("a", "b", "anchor", "top-"+o), Organization: o, Name: "C", Parent: w.one("", "a", "b", "top-"+o)}
	return "circle told", w.tells(directory.Event{Circle: &c, Gone: w.IntN(4) == 0})
}

// Whatever is done, and whichever statement or commit fails meanwhile, memory
// is what the rows say; and what could not be done has changed nothing.
func TestMemoryIsWhatTheRowsSay(t *testing.T) {
	for seed := range uint64(12) {
		h := open(t, "", &machine{now: time.Unix(1_800_000_000, 0)})
		h.furnish(t)
		h.withFaults(t)
		w := &wanderer{house: h, Rand: rand.New(rand.NewPCG(seed, 1))}
		now := h.remembered(t)
		for n := range 60 {
			before := now
			lift, fault := func() {}, "no fault"
			if w.IntN(3) == 0 {
				kind, verb, table := w.IntN(len(faults)), w.one("INSERT", "UPDATE", "DELETE"), w.one(tables...)
				fault = fmt.Sprint(faults[kind], " at ", verb, " on ", table)
				lift = h.plant(t, kind, verb, table)
			}
			name, err := w.step()
			lift()
			when := fmt.Sprintf("seed %d, step %d, %s, %s: %v", seed, n, fault, name, err)
			if err != nil && !engine.Refusal(err) && !errors.Is(err, ErrUnavailable) {
				t.Errorf("%s: an error that nobody knows", when)
			}
			now = h.same(t, when)
			if several := name == "Sweep" || name == "SyncPreregistered" || name == "Exchange"; err != nil && !several {
				difference(t, when+": it was refused, and changed something", now, before)
			}
		}
		h.Close()
	}
}

// touched gives the statements that a change runs, as verb and table.
func (h house) touched(t testing.TB, change func() error) [][2]string {
	t.Helper()
	verbs := []string{"INSERT", "UPDATE", "DELETE"}
	h.sql(t, `DELETE FROM planted_log`)
	for _, table := range tables {
		for _, verb := range verbs {
			h.sql(t, h.logTrigger(verb, table))
		}
	}
	if err := change(); err != nil {
		t.Fatal("without a fault:", err)
	}
	for _, table := range tables {
		for _, verb := range verbs {
			h.dropTrigger(t, fmt.Sprintf(`log_%s_%s`, verb, table), table)
		}
	}
	rows, err := h.db.Reader.QueryContext(context.Background(), `SELECT verb, name FROM planted_log WHERE name <> 'meta' ORDER BY name, verb`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var out [][2]string
	for rows.Next() {
		var one [2]string
		if err := rows.Scan(&one[0], &one[1]); err != nil {
			t.Fatal(err)
		}
		out = append(out, one)
	}
	return out
}

// Every statement of every change can fail, in every way: then nothing of the
// change stands, in memory or rows, and the next one goes on as if it had not
// been.
func TestEveryStatementCanFail(t *testing.T) {
	ctx, act := context.Background(), Act{Actor: "operator"}
	h := open(t, "", &machine{now: time.Unix(1_800_000_000, 0)})
	h.furnish(t)
	h.withFaults(t)
	h.sql(t, `CREATE TABLE planted_log (verb TEXT, name TEXT, PRIMARY KEY (verb, name))`)
	n := 0
	page := func() Answer { // that nobody has answered
		n++
		a := h.answer(0)
		nonce := [16]byte{byte(n), byte(n >> 8), 1}
		a.Handle = func(attempt uint32) token.Handle { hd, _ := h.ring.Handle(1, nonce, attempt); return hd }
		return a
	}
	approve := func(a Answer) approval.ID {
		t.Helper()
		handle, _, err := h.Approve(ctx, a, act)
		if err != nil {
			t.Fatal(err)
		}
		return approval.ID(handle.ID())
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	untold := func() { n++; h.sql(t, `DELETE FROM directory_version`) } // which an event inserts
	var a Answer
	var id approval.ID
	for _, tt := range []struct {
		name    string
		prepare func()
		change  func() error
	}{
		{"SetActive", func() { must(h.SetActive(ctx, "tor", true, act)) }, func() error { return h.SetActive(ctx, "tor", false, act) }},
		{"SetActive, on", func() { must(h.SetActive(ctx, "tor", false, act)) }, func() error { return h.SetActive(ctx, "tor", true, act) }},
		{"SetIntegration", func() { must(h.SetIntegration(ctx, "fjell", true, act)) }, func() error { return h.SetIntegration(ctx, "fjell", false, act) }},
		{"SetMember", func() { must(h.RemoveMember(ctx, "nordlys", "tor", act)) }, func() error { return h.SetMember(ctx, "nordlys", "tor", true, act) }},
		{"RemoveMember", func() {
			must(h.SetMember(ctx, "nordlys", "tor", true, act))
			must(h.SetFiller(ctx, "treasurer", "tor", true, act))
		}, func() error { return h.RemoveMember(ctx, "nordlys", "tor", act) }},
		{"SetFiller", func() {
			must(h.SetMember(ctx, "nordlys", "tor", true, act))
			must(h.SetFiller(ctx, "treasurer", "tor", false, act))
		}, func() error { return h.SetFiller(ctx, "treasurer", "tor", true, act) }},
		{"SetFiller, off", func() { must(h.SetFiller(ctx, "treasurer", "tor", true, act)) }, func() error { return h.SetFiller(ctx, "treasurer", "tor", false, act) }},
		{"SetClientEnabled", func() { must(h.SetClientEnabled(ctx, "quill", true, act)) }, func() error { return h.SetClientEnabled(ctx, "quill", false, act) }},
		{"AddClient", func() { must(h.SetClientEnabled(ctx, "quill", true, act)); n++ }, func() error {
			return h.AddClient(ctx, client.Client{ID: fmt.Sprint("c", n), RedirectURIs: []string{redirect}, IssuedAt: h.Now().Unix()}, Origin{}, act)
		}},
		{"SyncPreregistered", func() { n++ }, func() error {
			return h.SyncPreregistered(ctx, []client.Client{{ID: fmt.Sprint("fixed", n), RedirectURIs: []string{redirect}, Preregistered: true}}, act)
		}},
		{"SetPassword", func() { n++; must(h.AddSession(ctx, fmt.Sprint("session", n), "ada", act)) }, func() error { return h.SetPassword(ctx, "ada", fmt.Sprint(n), act) }},
		{"AddDirectory", func() { n++; must(h.AddSession(ctx, fmt.Sprint("session", n), "ada", act)) }, func() error {
			id := fmt.Sprint("new", n)
			return h.AddDirectory(ctx, directory.Directory{
				People: []directory.Person{{Person: org.Person{ID: "ada", Email: id + "@nordlys.example", Name: id, Active: true}, PasswordHash: id},
					{Person: org.Person{ID: id, Email: "b" + id + "@nordlys.example", Name: id, Active: true}}},
				Organizations: []org.Organization{{ID: id, Name: id, AIIntegration: true}},
				Members:       []directory.Member{{Person: "ada", Organization: id, Admin: true}, {Person: id, Organization: id, Admin: false}},
				Circles:       []org.Circle{{ID: id, Organization: id, Name: id}},
				Roles:         []org.Role{{ID: id, Organization: id, Circle: id, Name: id}},
				Fillers:       []directory.Filler{{Role: id, Person: "ada"}, {Role: id, Person: id}},
				APIKeys:       []directory.APIKey{{Key: "a-key-of-16-characters" + id, Person: "ada", Organization: id, Name: id}},
			}, act)
		}},
		{"Approve", func() { n++; h.register(t, fmt.Sprint("r", n)); c := fmt.Sprint("r", n); a = page(); a.Client = c }, func() error { _, _, err := h.Approve(ctx, a, act); return err }},
		{"Approve again", func() { a = page(); approve(a); a.Grant = grantset.Set{Kind: grantset.Everything} }, func() error { _, _, err := h.Approve(ctx, a, act); return err }},
		{"Exchange that replaces", func() {
			h.live(t, page())
			a = page()
			a.Replace = true
			id = approve(a)
		}, func() error { _, err := h.exchange(id, h.Now().Unix()); return err }},
		{"Refresh", func() { id = h.live(t, page()) }, func() error { _, err := h.refresh(id, 1); return err }},
		{"Reuse", func() { id = h.live(t, page()); h.refresh(id, 1) }, func() error { _, err := h.refresh(id, 1); return err }},
		{"Cancel", func() { a = page(); approve(a) }, func() error { return h.Cancel(ctx, Cancelled{a.Handle, "quill", "ada"}, act) }},
		{"EndApproval", func() { id = h.live(t, page()) }, func() error { return h.EndApproval(ctx, id, approval.RevokedByOperator, act) }},
		{"EndApprovals", func() { h.live(t, page()); h.live(t, page()) }, func() error {
			_, err := h.EndApprovals(ctx, ApprovalFilter{Person: "ada"}, approval.RevokedByPerson, act)
			return err
		}},
		{"EditGrant", func() { id = h.live(t, page()) }, func() error {
			return h.EditGrant(ctx, id, "ada", h.answer(0).Grant, grantset.Set{Kind: grantset.Roles, Personal: true}, act)
		}},
		{"role told", untold, func() error {
			return h.tells(directory.Event{Role: &org.Role{ID: "treasurer", Organization: "nordlys", Circle: "anchor", Name: fmt.Sprint(n)}})
		}},
		{"circle told", untold, func() error {
			return h.tells(directory.Event{Circle: &org.Circle{ID: "anchor", Organization: "nordlys", Name: fmt.Sprint(n)}})
		}},
		{"role told gone", func() {
			untold()
			must(h.AddDirectory(ctx, directory.Directory{Roles: []org.Role{{ID: "short", Organization: "nordlys", Circle: "anchor", Name: "S"}}, Fillers: []directory.Filler{{Role: "short", Person: "ada"}}}, act))
		}, func() error {
			return h.tells(directory.Event{Role: &org.Role{ID: "short"}, Gone: true})
		}},
		{"circle told gone", func() {
			untold()
			must(h.AddDirectory(ctx, directory.Directory{Circles: []org.Circle{{ID: "short", Organization: "nordlys", Parent: "anchor", Name: "S"}}}, act))
		}, func() error {
			return h.tells(directory.Event{Circle: &org.Circle{ID: "short"}, Gone: true})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.prepare()
			statements := h.touched(t, tt.change)
			marks := strings.HasPrefix(tt.name, "Set") || tt.name == "RemoveMember"
			if len(statements) == 0 {
				t.Fatal("it runs no statement")
			}
			for _, s := range statements {
				for kind, fault := range faults {
					tt.prepare()
					before := h.remembered(t)
					lift := h.plant(t, kind, s[0], s[1])
					err := tt.change()
					lift()
					later := err == nil && marks && s == [2]string{"UPDATE", "approval"} // the next sweep does it
					if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrConflict) && !later {
						t.Errorf("%v: got %v, want unavailable", s, err)
					}
					now := h.same(t, fmt.Sprint(s, fault))
					if err != nil {
						difference(t, fmt.Sprint(s, fault, " failed, and changed something"), now, before)
					}
				}
			}
		})
	}
}

// A role that was deleted counts for nothing, and what the person chose reads
// the same before and after a restart; one added again under its ID counts
// again, at once (decision P5).
func TestPickOfADeletedRole(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	id := h.live(t, h.answer(1))
	if err := h.tells(directory.Event{Role: &org.Role{ID: "treasurer"}, Gone: true}); err != nil {
		t.Fatal(err)
	}
	check := func(when string, fills bool) {
		t.Helper()
		a, err := h.Check(ctx, id)
		if err != nil || !a.Approval.Grant.Equal(h.answer(1).Grant) || a.Member().Fills("treasurer") != fills {
			t.Errorf("%s: grant %+v, fills %v, %v", when, a.Approval.Grant, a.Member().Fills("treasurer"), err)
		}
		row, err := h.Approval(ctx, id)
		if err != nil || !row.Grant.Equal(a.Approval.Grant) {
			t.Errorf("%s: the row has %+v, %v", when, row.Grant, err)
		}
		h.same(t, when)
	}
	check("deleted", false)
	h = h.reopen(t)
	check("after a restart", false)
	if err := h.EditGrant(ctx, id, "ada", h.answer(1).Grant, h.answer(1).Grant, Act{}); err != nil {
		t.Error("saving it unchanged:", err)
	}
	check("saved unchanged", false)
	if err := h.AddDirectory(ctx, directory.Directory{
		Roles:   []org.Role{{ID: "treasurer", Organization: "nordlys", Circle: "anchor", Name: "Treasurer"}},
		Fillers: []directory.Filler{{Role: "treasurer", Person: "ada"}},
	}, Act{}); err != nil {
		t.Fatal(err)
	}
	check("added again", true)
	h = h.reopen(t)
	check("added again, after a restart", true)
}

// The last use is written while a grant set is edited: the two must not race.
func TestEditWhileUsed(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	id := h.live(t, h.answer(1))
	all := grantset.Set{Kind: grantset.Everything}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 200 {
			h.clock.add(time.Hour)
			h.Used(id)
		}
	}()
	from, to := h.answer(1).Grant, all
	for range 100 {
		if err := h.EditGrant(ctx, id, "ada", from, to, Act{}); err != nil {
			t.Fatal(err)
		}
		from, to = to, from
	}
	<-done
	if a, err := h.Check(ctx, id); err != nil || !a.Approval.Grant.Equal(from) {
		t.Errorf("got %+v, %v; want %+v", a.Approval.Grant, err, from)
	}
}

// A check finds the names beside the IDs, and whether a use of the approval is
// to be noted (decision P11).
func TestCheckFinds(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	id := h.live(t, h.answer(1))
	person, err := h.Person(ctx, "ada")
	if err != nil {
		t.Fatal(err)
	}
	organization, err := h.Organization(ctx, "nordlys")
	if err != nil {
		t.Fatal(err)
	}
	want := func(what string, idle bool) {
		t.Helper()
		a, err := h.Check(ctx, id)
		if err != nil || a.PersonName != person.Name || a.OrganizationName != organization.Name {
			t.Errorf("%s: %q in %q, %v; want %q in %q", what, a.PersonName, a.OrganizationName, err, person.Name, organization.Name)
		}
		if a.Idle(h.Now()) != idle {
			t.Errorf("%s: idle %t", what, !idle)
		}
	}
	h.clock.add(time.Hour)
	want("an hour later", true)
	h.Used(id)
	h.eventuallyUsed(t, id)
	want("used", false)
	h.clock.add(time.Hour - time.Second)
	want("within the hour", false)
	h.clock.add(time.Second)
	want("an hour after the use", true)
}
