package consent

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
)

const filledIn = "Filled in below is what you had chosen on"

// raced has an approval end as it does when two copies of an app refresh at once, or when
// a stranger does from another network.
func (s *site) raced(id approval.ID, from string) {
	s.T.Helper()
	row, err := s.Store.Approval(context.Background(), id)
	s.Do(err)
	for _, one := range []struct {
		address string
		want    approval.Verdict
	}{{"192.0.2.1", approval.OK}, {from, approval.Reused}} {
		_, v, err := s.Store.ApplyLive(context.Background(), id, approval.Refresh(row.Client, row.Generation, 1, s.Store.Now()),
			store.Act{Actor: "client:" + row.Client, Address: one.address, Generation: row.Generation})
		if s.Do(err); v != one.want {
			s.T.Fatal(v, "wanted", one.want)
		}
	}
}

// Whose connection ended because two copies of an app refreshed at once finds the choices
// filled in when the app asks again, and approves them with one press (decision P24).
func TestChoicesAreFilledInAgain(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	s.raced(ada.Connect("grant", "roles", "role:treasurer", "change", "role:buddy", "read", "personal", "1", "ends", "7"), "192.0.2.9")
	s.Pass(time.Minute)
	p := ada.Get(pagetest.Authorize()).Want(200).Says(filledIn, "Its connection was ended on")
	form := p.Fill("/oauth/authorize")
	for name, want := range map[string]string{"organization": "nordlys", "grant": "roles", "role:treasurer": "change", "role:buddy": "read", "role:facilitator": "none", "personal": "1", "ends": "7"} {
		if got := form.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	p.Press("/oauth/authorize", "decision", "approve").Sent(pagetest.Callback)
	if a := s.Approvals("ada")[0]; a.Grant.EncodePicks() != "buddy=read treasurer=change" || !a.Grant.Personal || a.EndsAt == 0 {
		t.Errorf("approved: %+v", a.Grant)
	}
	if strings.Contains(ada.Get(pagetest.Authorize()).Text(), filledIn) {
		t.Error("filled in once more, though the newest was given since")
	}
}

// What is filled in is never more than what the form offers: roles that were left, what the
// organization withholds, and what is an admin's alone are not there.
func TestNoMoreIsFilledInThanIsOffered(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	s.raced(ada.Connect("grant", "roles", "role:treasurer", "change", "role:buddy", "change", "personal", "1", "ends", "30"), "192.0.2.9")
	s.Do(s.Store.SetFiller(context.Background(), "buddy", "ada", false, store.Act{Actor: "system"}))
	s.WithRules(policy.Policy{MaxDays: 10, Ceiling: grantset.Ceiling{ReadOnly: true, NoPersonal: true}})
	form := ada.Get(pagetest.Authorize()).Says(filledIn).Fill("/oauth/authorize")
	for name, want := range map[string]string{"role:treasurer": "read", "role:buddy": "", "personal": "", "ends": "max"} {
		if got := form.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	admin := newSite(t)
	ada = admin.SignedIn("ada")
	admin.raced(ada.Connect("grant", "organization"), "192.0.2.9")
	admin.Do(admin.Store.SetAdmin(context.Background(), "nordlys", "ada", false, store.Act{Actor: "system"}))
	if got := ada.Get(pagetest.Authorize()).Fill("/oauth/authorize").Get("grant"); got != "roles" {
		t.Errorf("who is no admin any more is offered %q", got)
	}
}

// Choices are filled in for the app that they were made for, as far as that can be known,
// and only where nobody ended its connection on purpose or stole a key.
func TestWhenNothingIsFilledIn(t *testing.T) {
	const elsewhere = "https://other.example/cb"
	again := func(id, name, uri string) func(*site) string {
		return func(s *site) string {
			s.Register(client.Client{ID: id, Name: name, RedirectURIs: []string{uri}})
			return pagetest.Authorize("client_id", id, "redirect_uri", uri)
		}
	}
	cases := map[string]struct {
		from   string
		then   func(*site) string
		filled bool
	}{
		"the same client":                      {from: "192.0.2.9", filled: true},
		"it registered again":                  {from: "192.0.2.9", then: again("quill-2", "QUILL  assistant", pagetest.Callback), filled: true},
		"its name at another path of its host": {from: "192.0.2.9", then: again("q2", "Quill Assistant", pagetest.Callback+"/tenants/evil")},
		"its name at another port":             {from: "192.0.2.9", then: again("q2", "Quill Assistant", strings.Replace(pagetest.Callback, ".example/", ".example:8443/", 1))},
		"another name at its host":             {from: "192.0.2.9", then: again("q2", "Quill Helper", pagetest.Callback)},
		"its name at another host":             {from: "192.0.2.9", then: again("q2", "Quill Assistant", elsewhere)},
		"it looks like theft":                  {from: "198.51.100.7"},
		"its person revoked it":                {},
		"another organization's rules shut it": {from: "192.0.2.9", then: func(s *site) string { s.WithRules(policy.Policy{Unknown: policy.Block}); return "" }},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			ada := s.SignedIn("ada")
			id := ada.Connect("grant", "roles", "role:treasurer", "change")
			if tt.from != "" {
				s.raced(id, tt.from)
			} else {
				s.Do(s.Store.EndApproval(context.Background(), id, approval.RevokedByPerson, store.Act{Actor: "person:ada"}))
			}
			path := pagetest.Authorize()
			if tt.then != nil {
				if other := tt.then(s); other != "" {
					path = other
				}
			}
			if got := strings.Contains(ada.Get(path).Text(), filledIn); got != tt.filled {
				t.Errorf("filled in: %v, want %v", got, tt.filled)
			}
		})
	}
}

// Whose approval counts as one of the same app, where no request shows it.
func TestSameApp(t *testing.T) {
	const uri = "https://connect.quill.example/cb"
	row := func(id, name, uri string, preregistered bool) (r store.ApprovalRow) {
		r.Client, r.ClientName, r.RedirectURI, r.Preregistered = id, name, uri, preregistered
		return r
	}
	for _, tt := range []struct {
		what string
		row  store.ApprovalRow
		of   client.Client
		want bool
	}{
		{"the client, at another of its addresses", row("quill", "Quill", uri+"/2", false), client.Client{ID: "quill", Name: "Quill"}, true},
		{"its name at its address", row("quill", "Quill", uri, false), client.Client{ID: "q2", Name: "QUILL"}, true},
		{"none has a name", row("quill", "", uri, false), client.Client{ID: "q2"}, false},
		{"the operator set one up", row("quill", "Quill", uri, true), client.Client{ID: "q2", Name: "Quill"}, false},
		{"the operator set the other up", row("quill", "Quill", uri, false), client.Client{ID: "q2", Name: "Quill", Preregistered: true}, false},
		{"another program on a computer", row(client.DesktopID, client.DesktopName, uri, true), client.Client{ID: client.DesktopID, Name: client.DesktopName, Preregistered: true}, false},
	} {
		if got := sameApp(tt.row, tt.of, uri); got != tt.want {
			t.Errorf("%s: %v", tt.what, got)
		}
	}
}
