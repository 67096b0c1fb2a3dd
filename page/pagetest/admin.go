package pagetest

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
)

// Paths of Nordlys, for its admins.
const (
	NordlysRequests    = NordlysSettings + "/requests"
	NordlysRules       = NordlysSettings + "/rules"
	NordlysAttempts    = NordlysSettings + "/attempts"
	NordlysConnections = NordlysSettings + "/connections"
)

// WithRules has the rules of Nordlys be these.
func (s *Site) WithRules(p policy.Policy) policy.Policy {
	s.T.Helper()
	now := s.RulesNow()
	saved, _, err := s.Store.SetPolicy(context.Background(), store.Rules{Organization: "nordlys", Seen: now.Version, Policy: p}, store.Act{Actor: "person:ada"})
	s.Do(err)
	return *saved
}

// RulesNow gives the rules of Nordlys.
func (s *Site) RulesNow() policy.Policy {
	s.T.Helper()
	p, err := s.Store.Policy(context.Background(), "nordlys")
	s.Do(err)
	if p == nil {
		return policy.Policy{}
	}
	return *p
}

// Asks has a member ask for an app, which is one of Ledger Lens's own.
func (s *Site) Asks(person, clientID, message string) store.Request {
	s.T.Helper()
	r, _, err := s.Store.Ask(context.Background(), store.Asking{Organization: "nordlys", Person: person, Client: clientID,
		RedirectURI: "https://app." + clientID + ".example/cb", Message: message}, store.Act{Actor: "person:" + person})
	s.Do(err)
	return r
}

// Unlisted registers apps that members may want.
func (s *Site) Unlisted() {
	s.Register(client.Client{ID: "ledgerlens", Name: "Ledger Lens", RedirectURIs: []string{"https://app.ledgerlens.example/cb"}})
	s.Register(client.Client{ID: "sync", Name: "Svalinn Sync", RedirectURIs: []string{"https://app.sync.example/cb"}})
}

// Pressed sends the form that has a button, with it: name, value, and what changes.
func Pressed(p *Shown, action, name, value string, changes ...string) *Shown {
	p.T.Helper()
	for _, f := range p.All(atom.Form) {
		if Attr(f, "action") != action || Attr(f, "id") == "undo" && name != "decision" {
			continue
		}
		for n := range f.Descendants() {
			if Attr(n, "name") == name && Attr(n, "value") == value && (n.DataAtom == atom.Button || Attr(n, "type") == "hidden") {
				one := *p
				one.Doc = f
				form := url.Values{}
				for n := range f.Descendants() {
					kind := Attr(n, "type")
					switch {
					case n.DataAtom == atom.Option && Has(n, "selected"):
						form.Set(Attr(n.Parent, "name"), Attr(n, "value"))
					case n.DataAtom != atom.Input || Attr(n, "name") == "":
					case (kind == "radio" || kind == "checkbox") && !Has(n, "checked"):
					default:
						form.Add(Attr(n, "name"), Attr(n, "value"))
					}
				}
				form.Set(name, value)
				for i := 0; i < len(changes); i += 2 {
					form.Set(changes[i], changes[i+1])
					if changes[i+1] == "" {
						form.Del(changes[i])
					}
				}
				return p.B.Post(action, form)
			}
		}
	}
	p.T.Fatalf("no button %s=%s posts to %s: %s", name, value, action, p.Text())
	return nil
}

// AdminPages visits those of an organization's admins.
func (s *Site) AdminPages(visit func(name string, flow bool, p *Shown)) {
	s.T.Helper()
	s.Unlisted()
	ada, ctx := s.SignedIn("ada"), context.Background()
	was := s.WithRules(policy.Policy{ReviewDays: 90, Apps: []policy.App{
		{Host: "app.ledgerlens.example", Name: "Ledger Lens", Rule: policy.Ask}, {Host: "app.sync.example", Name: "Svalinn Sync", Rule: policy.Ask},
		{Host: "cdn.grabit.example", Rule: policy.Block, Reason: "It keeps copies of our minutes."},
		{Host: "quill.example", Name: "Quill Assistant", Person: "tor", Rule: policy.Allow}}})
	s.Pages.Mails = true
	s.Asks("tor", "ledgerlens", "I would like it to prepare the quarterly figures.")
	s.Asks("ada", "ledgerlens", "")
	sync := s.Asks("tor", "sync", "A colleague sent me the link.")
	visit("AI integration with requests", false, ada.Get(NordlysSettings).Want(200))
	none := ada.Get(NordlysSettings + "?access=roles").Want(200)
	visit("AI integration filtered", false, none)
	visit("nothing selected", false, none.Press(NordlysConnections, "action", "end").Want(422))
	id := Attr(Input(none, "connection"), "value")
	visit("end connections", false, none.Press(NordlysConnections, "action", "end", "connection", id).Want(200))
	visit("end connections with a fault", false, none.Press(NordlysConnections, "action", "ended", "connection", id, "note", strings.Repeat("x", 501)).Want(422))
	visit("mark all", false, none.Press(NordlysConnections, "action", "all").Want(200))
	visit("marked as reviewed", false, none.Press(NordlysConnections, "action", "review", "connection", id).Follow().Want(200))
	requests := ada.Get(NordlysRequests).Want(200)
	visit("requests", false, requests)
	visit("decline", false, ada.Get(NordlysRequests+"/"+sync.ID+"/decline").Want(200))
	visit("decline with a fault", false, ada.Get(NordlysRequests+"/"+sync.ID+"/decline").Press(NordlysRequests, "decision", "decline", "reason", strings.Repeat("x", 201)).Want(422))
	visit("declined", false, ada.Get(NordlysRequests+"/"+sync.ID+"/decline").Press(NordlysRequests, "decision", "decline", "reason", "We have our own.").Follow().Want(200))
	allowed := Pressed(requests, NordlysRequests, "decision", "allow")
	visit("allowed", false, allowed.Follow().Want(200))
	visit("decided by another", false, Pressed(requests, NordlysRequests, "decision", "person").Follow().Want(200))
	visit("requests, none waiting", false, ada.Get(NordlysRequests).Want(200))
	visit("attempts, none", false, ada.Get(NordlysAttempts).Want(200))
	s.Tried()
	visit("attempts", false, ada.Get(NordlysAttempts).Want(200).Says("<b>Evil</b>"))
	visit("attempts, nothing found", false, ada.Get(NordlysAttempts+"?find=x").Want(200))
	rules := ada.Get(NordlysRules).Want(200)
	visit("rules", false, rules)
	found := Pressed(rules, NordlysRules, "action", "find", "role", "people")
	visit("rules, roles found", false, found.Want(200))
	wrong := Pressed(rules, NordlysRules, "action", "check", "new", "no host", "rule:0", "allow", "role", "xyz")
	visit("rules with a fault", false, wrong.Want(422))
	full := Pressed(found, NordlysRules, "take", "buddy", "role", "", "widest", "roles", "readonly", "1", "nopersonal", "1", "days", "14", "reviewed", "365", "rule:0", "block")
	visit("rules, many changed", false, full.Want(200))
	check := Pressed(full, NordlysRules, "action", "check", "default", "ask").Want(200)
	visit("rules, to be saved", false, check)
	visit("rules, to be saved with a fault", false, check.Press(NordlysRules, "action", "save", "reason", strings.Repeat("x", 201)).Want(422))
	was.Ceiling, was.Apps = grantset.Ceiling{}, nil
	s.WithRules(policy.Policy{})
	visit("rules, overtaken", false, check.Press(NordlysRules, "action", "save").Want(409))
	s.Do(s.Store.SwitchIntegration(ctx, "nordlys", "ada", true, store.Act{Actor: "person:ada"}))
	s.Pages.Mails = false
	s.Do(s.Store.AddDirectory(ctx, store.Directory{Members: []store.DirectoryMember{{Person: "eve", Organization: "nordlys"}}}, store.Act{Actor: "system"}))
	eve := s.SignedIn("eve")
	csrf := url.Values{"csrf": {eve.Get("/").Fill("/signout").Get("csrf")}}
	visit("not an admin any more", true, eve.Post(NordlysConnections, csrf).Want(403))
	s.Do(s.Store.RemoveMember(ctx, "nordlys", "eve", store.Act{Actor: "system"}))
}

// Tried puts attempts of Tor and of a person from elsewhere to connect to Nordlys there,
// one of each kind of reason, with names that others wrote, and one that is Fjell's.
func (s *Site) Tried() {
	s.T.Helper()
	var all []attempt.Record
	at := s.Store.Now().UnixMilli()
	add := func(k attempt.Keys, step attempt.Step, how attempt.Outcome, why attempt.Reason) {
		at++
		k.Walk, k.Address = fmt.Sprint("walk", at), "203.0.113.77"
		all = append(all, attempt.Of(attempt.Observation{At: at, Step: step, Outcome: how, Reason: why, Status: 400, Keys: k}))
	}
	ledger := attempt.Keys{Client: "ledgerlens", Name: "Ledger Lens", Host: "app.ledgerlens.example", Person: "tor", Organization: "nordlys"}
	for _, why := range []attempt.Reason{attempt.OrganizationBlocks, attempt.OrganizationAsks, attempt.Cancelled} {
		add(ledger, attempt.Consent, attempt.Failed, why)
	}
	for _, why := range []attempt.Reason{attempt.PKCEMismatch, attempt.RateLimited, attempt.ServerFault, attempt.CodeReused} {
		add(ledger, attempt.Token, attempt.Failed, why)
	}
	add(ledger, attempt.FirstCall, attempt.Failed, attempt.ApprovalEnded)
	add(ledger, attempt.FirstCall, attempt.Done, "")
	evil := attempt.Keys{Client: "gone", Name: "<b>Evil</b>\u202e" + strings.Repeat("W", 60), Host: "evil.example", Person: "ola", Organization: "nordlys"}
	add(evil, attempt.Consent, attempt.Waiting, "")
	evil.Name, evil.Host, evil.Organization = "Of Fjell", "fjell.example", "fjell"
	add(evil, attempt.Token, attempt.Failed, attempt.PKCEMismatch)
	evil.Name, evil.Host, evil.Organization, evil.Person = "Of nobody", "nobody.example", "", "tor"
	add(evil, attempt.SignIn, attempt.Waiting, "")
	s.Do(s.Store.AddAttempts(context.Background(), all, nil))
}
