package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	tries "github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/store"
)

var connecting = []behaviour{
	{"attempts: what doors of all nodes saw of one is one, with what its machine did before", "", showAttemptsJoin},
	{"attempts: what an address alone says is given to the one that waits, and to none of two", "", showAttemptsByAddress},
	{"attempts: no more are kept than their bound, for no longer than theirs, and strangers have a fifth", "", showAttemptsBound},
	{"attempts: a filter finds what it names, by pages of every length, as of now", "", showAttemptsFilter},
	{"attempts: they go with their person", "", showAttemptsOfPerson},
	{"attempts: a refresh token that came back from its own network is a race", "", showAttemptsRace},
}

// mostAttempts is the bound of these databases.
const mostAttempts = 50

// see tells a store of one observation.
func (d *database) see(s *store.Store, step tries.Step, how tries.Outcome, why tries.Reason, k tries.Keys) {
	d.t.Helper()
	d.must(s.AddAttempts(ctx, []tries.Record{tries.Of(tries.Observation{
		At: d.clock.Now().UnixMilli(), Step: step, Outcome: how, Reason: why, Status: 200, Agent: tries.Node, Keys: k,
	})}, nil))
}

func (d *database) kept(f store.AttemptFilter) []tries.Record {
	d.t.Helper()
	all, _, err := d.Attempts(ctx, f)
	d.must(err)
	return all
}

func showAttemptsJoin(t *testing.T, h Harness) {
	d := furnished(t, h)
	nodes := d.all()
	at := func(i int) *store.Store { return nodes[i%len(nodes)] }
	machine := tries.Keys{Address: "198.51.100.24"}
	named := tries.Keys{Client: "c1", Name: "Ledger Lens", Host: "app.ledgerlens.example", Address: machine.Address}
	walk := tries.Keys{Client: "c1", Walk: tries.WalkOf("c1", challenge())}
	asked, given := walk, walk
	asked.Person = "ada"
	given.Person, given.Organization, given.Approval = "ada", "nordlys", "00112233445566778899aabbccddeeff"
	for i, o := range []struct {
		step tries.Step
		keys tries.Keys
	}{
		{tries.Challenge, machine},
		{tries.Metadata, machine},
		{tries.Registration, named},
		{tries.Authorize, walk},
		{tries.SignIn, asked},
		{tries.Consent, given},
		{tries.Code, given},
		{tries.Token, tries.Keys{Client: "c1", Approval: given.Approval, Address: machine.Address}},
		{tries.FirstCall, tries.Keys{Client: "c1", Approval: given.Approval}},
	} {
		d.see(at(i), o.step, tries.Done, "", o.keys)
		d.clock.add(time.Second)
	}
	all := d.kept(store.AttemptFilter{})
	if len(all) != 1 || len(all[0].Seen) != 9 || all[0].Reached() != tries.FirstCall {
		t.Fatalf("%d: %+v", len(all), all)
	}
	want := given
	want.Name, want.Host, want.Address = named.Name, named.Host, named.Address
	if all[0].Keys != want {
		t.Errorf("%+v, want %+v", all[0].Keys, want)
	}
	if one, err := d.Attempt(ctx, all[0].ID); err != nil || !slices.Equal(one.Seen, all[0].Seen) {
		t.Errorf("%+v, %v", one, err)
	}
	// A preregistered client: what its machine did is joined once the code comes.
	other := tries.Keys{Client: "fixed", Walk: "w2"}
	d.see(at(0), tries.Challenge, tries.Done, "", tries.Keys{Address: "192.0.2.7"})
	d.clock.add(time.Second)
	d.see(at(1), tries.Authorize, tries.Done, "", other)
	other.Approval, other.Person = "ffeeddccbbaa99887766554433221100", "tor"
	d.see(at(0), tries.Code, tries.Done, "", other)
	d.clock.add(time.Second)
	if n := len(d.kept(store.AttemptFilter{})); n != 3 {
		t.Errorf("%d attempts before the exchange", n)
	}
	d.see(at(1), tries.Token, tries.Failed, tries.PKCEMismatch, tries.Keys{Client: "fixed", Approval: other.Approval, Address: "192.0.2.7"})
	all = d.kept(store.AttemptFilter{Client: "fixed"})
	if len(d.kept(store.AttemptFilter{})) != 2 || len(all) != 1 || all[0].Seen[0].Step != tries.Challenge || !tries.Read(all[0]).ByAddress {
		t.Errorf("%+v", all)
	}
	if _, err := d.Attempt(ctx, "none"); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

func showAttemptsByAddress(t *testing.T, h Harness) {
	d := furnished(t, h)
	const here = "198.51.100.24"
	waits := func(client string) {
		d.see(d.Store, tries.Registration, tries.Done, "", tries.Keys{Client: client, Name: client, Host: client + ".example", Address: here})
		d.see(d.Store, tries.Code, tries.Done, "", tries.Keys{Client: client, Walk: client, Approval: "0" + client, Person: "ada"})
	}
	reasons := func(client string) (all []string) {
		for _, r := range d.kept(store.AttemptFilter{Client: client}) {
			for _, o := range r.Seen {
				all = append(all, string(o.Reason))
			}
			all = append(all, fmt.Sprint(tries.Read(r).ByAddress))
		}
		return all
	}
	machine := tries.Keys{Address: here}
	waits("a")
	d.see(d.Store, tries.Token, tries.Failed, tries.TokenBody, machine)
	if got := reasons("a"); !slices.Equal(got, []string{"", "", "token_body", "true"}) {
		t.Errorf("of the one that waits: %q", got)
	}
	waits("c")
	for i := range 9 { // so many come between them
		d.clock.add(time.Second)
		d.see(d.Store, tries.Registration, tries.Failed, tries.RedirectScheme, tries.Keys{Name: fmt.Sprint("Other ", i), Address: here})
	}
	waits("e")
	d.see(d.Store, tries.Token, tries.Done, "", tries.Keys{Client: "c", Approval: "0c", Address: here})
	d.clock.add(time.Second)
	d.see(d.Store, tries.Token, tries.Failed, tries.TokenMethod, machine)
	for _, client := range []string{"a", "c", "e"} {
		if got := reasons(client); slices.Contains(got, "token_method") {
			t.Errorf("of two that wait, %s: %q", client, got)
		}
	}
	waits("g")
	if got := reasons("g"); !slices.Equal(got, []string{"", "", "false"}) {
		t.Errorf("of one that registered afterwards: %q", got)
	}
	// Refusals of two others, of which one began anew, and a good one between them.
	machine.Address = "198.51.100.25"
	for i, o := range []struct {
		step tries.Step
		how  tries.Outcome
		why  tries.Reason
		keys tries.Keys
	}{
		{tries.Challenge, tries.Done, "", machine},
		{tries.Registration, tries.Failed, tries.RedirectScheme, tries.Keys{Name: "First", Address: machine.Address}},
		{tries.Challenge, tries.Done, "", machine},
		{tries.Registration, tries.Failed, tries.RedirectScheme, tries.Keys{Name: "First", Address: machine.Address}},
		{tries.Registration, tries.Done, "", tries.Keys{Client: "good", Name: "Good", Host: "good.example", Address: machine.Address}},
		{tries.Registration, tries.Failed, tries.RedirectScheme, tries.Keys{Name: "Last", Address: machine.Address}},
	} {
		d.clock.add(time.Second)
		d.see(d.Store, o.step, o.how, o.why, o.keys)
		if all := d.kept(store.AttemptFilter{App: "First"}); i >= 1 && len(all) != 1 || i >= 3 && (all[0].Seen[0].Step != tries.Challenge || all[0].Seen[0].Again != 1) {
			t.Errorf("%d: %+v", i, all)
		}
	}
	if got := reasons("good"); !slices.Equal(got, []string{"", "false"}) || len(d.kept(store.AttemptFilter{App: "Last"})) != 1 {
		t.Errorf("of the good one: %q", got)
	}
}

func showAttemptsBound(t *testing.T, h Harness) {
	d := furnished(t, h)
	for i := range 40 {
		d.see(d.Store, tries.Consent, tries.Failed, tries.Cancelled, tries.Keys{Client: "c", Walk: fmt.Sprint("w", i), Person: "ada"})
	}
	var flood []tries.Record
	for i := range 300 {
		flood = append(flood, tries.Of(tries.Observation{At: d.clock.Now().UnixMilli(), Step: tries.Registration, Outcome: tries.Failed, Reason: tries.RedirectScheme,
			Keys: tries.Keys{Address: fmt.Sprintf("2001:db8:%x::/64", i)}}))
	}
	d.must(d.AddAttempts(ctx, flood, map[tries.Reason]int{tries.RedirectScheme: 1000, "": 7, "unheard_of": 1}))
	if n := len(d.kept(store.AttemptFilter{Limit: 1000})); n != mostAttempts {
		t.Errorf("%d attempts, the bound is %d", n, mostAttempts)
	}
	if n := len(d.kept(store.AttemptFilter{Person: "ada", Limit: 1000})); n != 40 {
		t.Errorf("%d of 40 of a person are left after a flood of strangers", n)
	}
	for i := range 60 {
		d.see(d.Store, tries.Consent, tries.Failed, tries.Cancelled, tries.Keys{Client: "c", Walk: fmt.Sprint("v", i), Person: "tor"})
	}
	if all := d.kept(store.AttemptFilter{Limit: 1000}); len(all) != mostAttempts || all[0].Walk != "v59" {
		t.Errorf("%d attempts, the last %s", len(all), all[0].Walk)
	}
	counts, err := d.AttemptReasons(ctx, d.clock.Now().Add(-time.Hour).Unix())
	d.must(err)
	if len(counts) != 3 || counts[0].Reason != tries.Cancelled || counts[0].Kept != mostAttempts ||
		counts[1] != (store.ReasonCount{Reason: tries.RedirectScheme, Result: tries.Broken, Counted: 1000}) || counts[2].Counted != 7 {
		t.Errorf("%+v", counts)
	}
	d.clock.add(7*24*time.Hour + time.Minute)
	_, err = d.Sweep(ctx)
	d.must(err)
	if all := d.kept(store.AttemptFilter{}); len(all) != 0 {
		t.Errorf("%d are left after 7 days", len(all))
	}
}

func showAttemptsFilter(t *testing.T, h Harness) {
	d := furnished(t, h)
	for i := range 9 {
		k := tries.Keys{Client: fmt.Sprint("c", i%3), Walk: fmt.Sprint("w", i), Person: []string{"", "ada", "tor"}[i%3], Name: []string{"Ledger Lens", "100% Notes", "Ålesund"}[i%3],
			Host: []string{"ledger.example", "notes.example", "sund.example"}[i%3], Address: "198.51.100.9"}
		if i == 1 {
			k.Organization = "nordlys"
		}
		d.see(d.Store, tries.Consent, []tries.Outcome{tries.Waiting, tries.Failed, tries.Done}[i%3], []tries.Reason{"", tries.OrganizationBlocks, ""}[i%3], k)
		d.clock.add(time.Second)
	}
	now := func() int64 { return d.clock.Now().UnixMilli() }
	for _, later := range []time.Duration{0, time.Hour} {
		d.clock.add(later)
		for name, tt := range map[string]struct {
			f    store.AttemptFilter
			want func(tries.Record) bool
		}{
			"all":             {store.AttemptFilter{}, func(tries.Record) bool { return true }},
			"failed":          {store.AttemptFilter{Result: tries.Broken}, func(r tries.Record) bool { got, _ := tries.Read(r).At(now()); return got == tries.Broken }},
			"left":            {store.AttemptFilter{Result: tries.LeftOff}, func(r tries.Record) bool { got, _ := tries.Read(r).At(now()); return got == tries.LeftOff }},
			"open":            {store.AttemptFilter{Result: tries.Open}, func(r tries.Record) bool { got, _ := tries.Read(r).At(now()); return got == tries.Open }},
			"a reason":        {store.AttemptFilter{Reason: tries.Left}, func(r tries.Record) bool { _, got := tries.Read(r).At(now()); return got == tries.Left }},
			"a client":        {store.AttemptFilter{Client: "c1"}, func(r tries.Record) bool { return r.Client == "c1" }},
			"a host":          {store.AttemptFilter{Find: "sund.example"}, func(r tries.Record) bool { return r.Host == "sund.example" }},
			"a name":          {store.AttemptFilter{Find: "åLES"}, func(r tries.Record) bool { return r.Name == "Ålesund" }},
			"a percent":       {store.AttemptFilter{Find: "%"}, func(r tries.Record) bool { return false }},
			"two":             {store.AttemptFilter{Find: "100%n", Person: "ada"}, func(r tries.Record) bool { return r.Person == "ada" }},
			"nothing":         {store.AttemptFilter{Find: "' OR 1=1 --"}, func(tries.Record) bool { return false }},
			"an address":      {store.AttemptFilter{Find: "198.51.100.9"}, func(tries.Record) bool { return true }},
			"an app's":        {store.AttemptFilter{App: "LEDG"}, func(r tries.Record) bool { return r.Name == "Ledger Lens" }},
			"an app's host":   {store.AttemptFilter{App: "sund.example"}, func(r tries.Record) bool { return r.Host == "sund.example" }},
			"no app's name":   {store.AttemptFilter{App: "198.51.100.9"}, func(tries.Record) bool { return false }},
			"nor its ID":      {store.AttemptFilter{App: "c1"}, func(tries.Record) bool { return false }},
			"an organization": {store.AttemptFilter{Organization: "nordlys"}, func(r tries.Record) bool { return r.Organization == "nordlys" }},
		} {
			var want, got []string
			for _, r := range d.kept(store.AttemptFilter{}) {
				if tt.want(r) {
					want = append(want, r.ID)
				}
			}
			for size := range 4 {
				got = nil
				for f := tt.f; ; {
					f.Limit = size + 1
					page, next, err := d.Attempts(ctx, f)
					d.must(err)
					for _, r := range page {
						got = append(got, r.ID)
					}
					if f.After = next; next == "" {
						break
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s, %s later, by %d: %d, want %d", name, later, size+1, len(got), len(want))
				}
			}
		}
	}
	for i, tt := range []struct {
		most int
		want []store.AppTrouble
	}{
		{9, []store.AppTrouble{{Name: "100% Notes", Host: "notes.example", Failed: 3, All: 3, Reason: tries.OrganizationBlocks}}},
		{0, nil},
	} {
		if got, err := d.FailingApps(ctx, d.clock.Now().Add(-24*time.Hour).Unix(), tt.most); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("failing apps %d: %+v, %v; want %+v", i, got, err, tt.want)
		}
	}
	worked := tries.Keys{Client: "new", Name: "100% NOTES", Host: "notes.example", Walk: "again", Approval: "0a"}
	d.see(d.Store, tries.FirstCall, tries.Done, "", worked)
	began := d.clock.Now().Unix()
	d.clock.add(2 * time.Hour)
	d.see(d.Store, tries.Token, tries.Failed, tries.PKCEMismatch, tries.Keys{Client: "newer", Name: "100% Notes", Host: "notes.example", Walk: "once more"})
	d.see(d.Store, tries.Token, tries.Failed, tries.PKCEMismatch, tries.Keys{Client: "c0", Name: "Ledger Lens", Host: "ledger.example", Walk: "theirs"})
	got, err := d.FailingApps(ctx, d.clock.Now().Add(-time.Hour).Unix(), 9)
	want := []store.AppTrouble{{Name: "Ledger Lens", Host: "ledger.example", Failed: 1, All: 1, Reason: tries.PKCEMismatch},
		{Name: "100% Notes", Host: "notes.example", Failed: 1, All: 1, Reason: tries.PKCEMismatch, Worked: began}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("within the hour: %+v, %v; want %+v", got, err, want)
	}
	if _, _, err := d.Attempts(ctx, store.AttemptFilter{After: "x"}); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

func showAttemptsOfPerson(t *testing.T, h Harness) {
	d := furnished(t, h)
	for _, person := range []string{"ada", "tor"} {
		d.see(d.Store, tries.Consent, tries.Waiting, "", tries.Keys{Client: "c", Walk: person, Person: person})
	}
	d.clock.add(time.Minute)
	dir, err := d.ExportDirectory(ctx)
	d.must(err)
	dir.People = slices.DeleteFunc(dir.People, func(p directory.Person) bool { return p.ID == "tor" })
	dir.Members = slices.DeleteFunc(dir.Members, func(m directory.Member) bool { return m.Person == "tor" })
	dir.Fillers = slices.DeleteFunc(dir.Fillers, func(f directory.Filler) bool { return f.Person == "tor" })
	dir.APIKeys = nil
	_, err = d.ImportDirectory(ctx, directory.Import{Directory: dir, Prune: map[string]bool{
		directory.ListPeople: true, directory.ListMembers: true, directory.ListFillers: true, directory.ListRoles: true, directory.ListAPIKeys: true,
	}}, operator)
	d.must(err)
	if left := d.kept(store.AttemptFilter{}); len(left) != 1 || left[0].Person != "ada" {
		t.Errorf("%+v", left)
	}
}

func showAttemptsRace(t *testing.T, h Harness) {
	d := furnished(t, h)
	for _, tt := range []struct {
		again string
		want  tries.Reason
	}{{"198.51.100.99", tries.RefreshRace}, {"192.0.2.1", tries.RefreshReused}} {
		one := d.approve(d.page())
		from := store.Act{Address: "198.51.100.24"}
		_, v, err := d.Apply(ctx, one.ID, d.exchanging(one), from)
		d.must(err)
		from.Generation = 1
		_, v2, err := d.Refresh(ctx, one.ID, one.Client, 1, 1, from)
		d.must(err)
		from.Address = tt.again
		_, v3, err := d.Refresh(ctx, one.ID, one.Client, 1, 1, from)
		d.must(err)
		if v != approval.OK || v2 != approval.OK || v3 != approval.Reused {
			t.Fatal(v, v2, v3)
		}
		d.see(d.Store, tries.Refresh, tries.Failed, tries.RefreshReused, tries.Keys{Client: one.Client, Approval: one.ID.String()})
		all := d.kept(store.AttemptFilter{Approval: one.ID.String()})
		if len(all) != 1 || all[0].Seen[0].Reason != tt.want {
			t.Errorf("from %s: %+v", tt.again, all)
		}
		d.clock.add(time.Second)
	}
}
