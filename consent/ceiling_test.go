package consent

import (
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/policy"
)

// shut are the inputs of a form that cannot be chosen: name=value.
func shut(p *pagetest.Shown) map[string]bool {
	out := map[string]bool{}
	for _, n := range p.All(atom.Input) {
		if pagetest.Has(n, "disabled") {
			out[pagetest.Attr(n, "name")+"="+pagetest.Attr(n, "value")] = true
			if pagetest.Has(n, "checked") {
				out["chosen"] = true
			}
		}
	}
	return out
}

// What an organization withholds is shut in place, with the reason; sent all the same
// it is refused with it.
func TestCeilings(t *testing.T) {
	everything := policy.Policy{Ceiling: grantset.Ceiling{Widest: grantset.Roles, ReadOnly: true, NoPersonal: true, Never: []string{"treasurer"}}}
	s := newSite(t)
	s.rulesFor("nordlys", "person:ada", everything)
	s.rulesFor("fjell", "person:ada", policy.Policy{Unknown: policy.Block})
	s.rulesFor("havn", "person:ola", policy.Policy{})
	ada := s.SignedIn("ada")
	p := ada.Get(pagetest.Authorize()).Want(200).Says("limits what apps may get", "Not in Nordlys Cooperative: apps get selected roles only.",
		"Nordlys Cooperative lets apps read only. “Change” cannot be chosen.", "Never given to apps", "Nordlys Cooperative keeps personal entries from apps.")
	got := shut(p)
	for _, want := range []string{"grant=everything", "grant=organization", "role:treasurer=read", "role:treasurer=change", "role:buddy=change", "personal=1"} {
		if !got[want] {
			t.Errorf("%s can be chosen", want)
		}
	}
	if got["role:buddy=read"] || got["role:treasurer=none"] || got["grant=roles"] || got["chosen"] {
		t.Errorf("shut are %v", got)
	}
	for says, changes := range map[string][]string{
		"Not in Nordlys Cooperative: apps get selected roles only.":           {"grant", "everything"},
		"Nordlys Cooperative lets apps read only. “Change” cannot be chosen.": {"grant", "roles", "role:buddy", "change"},
		"Never given to apps": {"grant", "roles", "role:treasurer", "read"},
		"Nordlys Cooperative keeps personal entries from apps.": {"grant", "roles", "role:buddy", "read", "personal", "1"},
	} {
		again := p.Approve(changes...).Want(422)
		if note := again.All(atom.Main)[0]; !strings.Contains(plainText(note), says) || shut(again)["chosen"] {
			t.Errorf("%v: does not say %q", changes, says)
		}
	}
	s.Nothing("ada")
	p.Press("/oauth/authorize", "organization", "nordlys", "grant", "roles", "bulk", "n:people:change").Want(200)
	p.Approve("grant", "roles", "role:buddy", "read").Want(303)
}

// Where one organization offers what another withholds nothing is shut, and the one
// that is chosen decides.
func TestCeilingsAmongSeveral(t *testing.T) {
	s := newSite(t)
	s.rulesFor("nordlys", "person:ada", policy.Policy{Ceiling: grantset.Ceiling{Widest: grantset.Everything, NoPersonal: true}})
	p := s.SignedIn("ada").Get(pagetest.Authorize()).Says("Not in Nordlys Cooperative: apps never get an admin's access.")
	if got := shut(p); got["grant=everything"] || got["personal=1"] {
		t.Errorf("shut are %v", got)
	}
	p.Approve("grant", "organization").Want(422).Says("Not in Nordlys Cooperative: apps never get an admin's access.")
	p.Approve("organization", "fjell", "grant", "roles", "personal", "1").Want(303)
}

// The summary says what the ceilings leave, as those say who decide requests.
func TestCeilingsSummed(t *testing.T) {
	for _, tt := range []struct {
		ceiling   grantset.Ceiling
		says, not []string
	}{
		{grantset.Ceiling{ReadOnly: true}, []string{"It may read all that you can"}, []string{"It may read and change all", "It may administer"}},
		{grantset.Ceiling{NoPersonal: true}, []string{"It may read and change all that you can", "It gets nothing of your personal entries"}, nil},
		{grantset.Ceiling{Widest: grantset.Everything}, []string{"It gets nothing of an admin's access."}, []string{"It may administer"}},
		{grantset.Ceiling{Never: []string{"treasurer"}}, []string{"It gets nothing through Treasurer."}, nil},
	} {
		s := newSite(t)
		s.rulesFor("nordlys", "person:ada", policy.Policy{Ceiling: tt.ceiling})
		p := s.SignedIn("ada").Get(pagetest.Authorize()).Press("/oauth/authorize", "organization", "nordlys", "grant", "everything", "action", "preview").Want(200)
		text := ""
		for n := range p.Doc.Descendants() {
			if pagetest.Attr(n, "class") == "said says-everything" && n.Data == "div" && strings.Contains(renderText(n), "org-2") {
				text = strings.Join(strings.Fields(plainText(n)), " ")
			}
		}
		for _, want := range tt.says {
			if !strings.Contains(text, want) {
				t.Errorf("%+v: %q does not say %q", tt.ceiling, text, want)
			}
		}
		for _, other := range tt.not {
			if strings.Contains(text, other) {
				t.Errorf("%+v: %q says %q", tt.ceiling, text, other)
			}
		}
	}
}

// Connected apps says of an approval what the ceilings take from it now, and only that.
func TestNarrowed(t *testing.T) {
	s := newSite(t)
	ada, tor := s.SignedIn("ada"), s.SignedIn("tor")
	ada.Connect("grant", "organization")
	id := ada.Connect("grant", "roles", "role:treasurer", "change", "role:buddy", "read")
	tor.Connect("grant", "roles", "role:secretary", "read")
	tor.Get(pagetest.NordlysApps).Want(200)
	for _, tt := range []struct {
		ceiling grantset.Ceiling
		ada     []string
		tor     bool
	}{
		{grantset.Ceiling{}, nil, false},
		{grantset.Ceiling{Widest: grantset.Roles}, []string{"It gets only what every member can see."}, false},
		{grantset.Ceiling{Widest: grantset.Everything}, []string{"It gets nothing of an admin's access."}, false},
		{grantset.Ceiling{ReadOnly: true}, []string{"It changes nothing.", "It changes nothing."}, false},
		{grantset.Ceiling{NoPersonal: true}, nil, false},
		{grantset.Ceiling{Never: []string{"buddy", "secretary"}}, []string{"It gets nothing through Buddy.", "It gets nothing through Buddy."}, true},
	} {
		s.rulesFor("nordlys", "person:ada", policy.Policy{Ceiling: tt.ceiling})
		p := ada.Get(pagetest.NordlysApps).Want(200)
		if len(tt.ada) > 0 {
			p.Says("Nordlys Cooperative limits it, by its rules of 21 November 2026:", "It is as before when the rules allow it again.")
		}
		if n := strings.Count(p.Text(), "limits it, by its rules"); n != len(tt.ada) {
			t.Errorf("%+v: narrowed are %d, want %d: %s", tt.ceiling, n, len(tt.ada), p.Text())
		}
		for _, line := range tt.ada {
			if strings.Count(p.Text(), line) != strings.Count(strings.Join(tt.ada, ""), line) {
				t.Errorf("%+v: %q is not said as often as it is so", tt.ceiling, line)
			}
		}
		if strings.Contains(tor.Get(pagetest.NordlysApps).Text(), "limits it") != tt.tor {
			t.Errorf("%+v: narrowed for Tor is not %v", tt.ceiling, tt.tor)
		}
	}
	// It can be made shorter without losing what the rules may give back.
	s.rulesFor("nordlys", "person:ada", policy.Policy{Ceiling: grantset.Ceiling{ReadOnly: true, Never: []string{"buddy"}}})
	path := editPath("nordlys", id)
	ada.Get(path).Press(path, "ends", "1", "decision", "save").Follow().Says("Ends on 22 November 2026")
	for _, row := range s.Approvals("ada") {
		if row.ID == id && row.Grant.EncodePicks() != "buddy=read treasurer=change" {
			t.Errorf("it is now %s", row.Grant.EncodePicks())
		}
	}
	ada.Get(path).Press(path, "role:treasurer", "none", "role:facilitator", "read", "decision", "save").Want(303)
	for _, row := range s.Approvals("ada") {
		if row.ID == id && row.Grant.EncodePicks() != "facilitator=read" {
			t.Errorf("it is now %s", row.Grant.EncodePicks())
		}
	}
}

// What an organization has to be asked about by now can be narrowed, and the page says why
// it cannot be widened (decision P18).
func TestWideningSaysWhy(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	id := ada.Connect("grant", "roles", "role:treasurer", "read")
	s.rulesFor("nordlys", "person:ada", policy.Policy{Unknown: policy.Ask})
	path, why := editPath("nordlys", id), "Your organization does not let this app be given more for now. What it has stays, and you can take some of it away."
	ada.Get(path).Says(why).Press(path, "role:treasurer", "change", "decision", "save").Want(422).Says(why)
	if row := s.Approvals("ada")[0]; row.Grant.EncodePicks() != "treasurer=read" {
		t.Errorf("it is now %s", row.Grant.EncodePicks())
	}
	s.rulesFor("nordlys", "person:ada", policy.Policy{})
	if strings.Contains(ada.Get(path).Text(), why) {
		t.Error("said where it is not so")
	}
	ada.Get(path).Press(path, "role:treasurer", "change", "decision", "save").Want(303)
}

// plainText is what a reader sees of an element.
func plainText(n *html.Node) (text string) {
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			text += c.Data
		}
	}
	return text
}
