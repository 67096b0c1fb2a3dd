package consent

import (
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
)

func elementsOf(p *pagetest.Shown) (n int) {
	for e := range p.Doc.Descendants() {
		if e.Type == html.ElementNode {
			n++
		}
	}
	return n
}

// UX-12: whatever a client calls itself, the name stands where names stand, is
// whole, and adds nothing to the page. (What registration refuses in a name is
// a test of the room client.)
func TestUX12Names(t *testing.T) {
	s := newSite(t)
	b := s.SignedIn("ada")
	elements := elementsOf(b.Get(pagetest.Authorize()).Want(200))
	for i, c := range []struct {
		name string
		ours bool // W2
	}{
		{"<b>x</b>", false}, {`"><script>alert(1)</script>`, false}, {strings.Repeat("W", 100), false}, {"🔒✅🦊", false}, {"مساعد البحث", false},
		{"Svalinn Security", true}, {"Ѕvаlіnn", true}, {"{{.Person}}", false}, {"a\u200db", false}, {"  spaced  out  ", false},
	} {
		at := "https://connect.quill.example/" + string(rune('a'+i))
		s.Register(client.Client{ID: "c" + string(rune('a'+i)), Name: c.name, RedirectURIs: []string{at}})
		p := b.Get(pagetest.Authorize("client_id", "c"+string(rune('a'+i)), "redirect_uri", at)).Want(200)
		shown := false
		for _, n := range p.All(atom.Bdi) {
			shown = shown || n.FirstChild != nil && n.FirstChild.Data == c.name && n.FirstChild == n.LastChild
		}
		if !shown {
			t.Errorf("%q is not in the page, whole and isolated", c.name)
		}
		if warned := strings.Contains(p.Text(), "looks like Svalinn's own"); warned != c.ours {
			t.Errorf("%q is warned of: %v, want %v", c.name, warned, c.ours)
		}
		want := elements
		if c.ours {
			want += 2 // the note and its bold half
		}
		if got := elementsOf(p); got != want {
			t.Errorf("%q: the page has %d elements, want %d", c.name, got, want)
		}
		for _, n := range append(p.All(atom.H1), append(p.All(atom.Title), append(p.All(atom.A), p.All(atom.Button)...)...)...) {
			if text := strings.TrimSpace(renderText(n)); strings.Contains(text, strings.TrimSpace(c.name)) {
				t.Errorf("%q stands in %s", c.name, text)
			}
		}
	}
	s.Register(client.Client{ID: "none", RedirectURIs: []string{"https://connect.quill.example/none"}})
	b.Get(pagetest.Authorize("client_id", "none", "redirect_uri", "https://connect.quill.example/none")).Want(200).Says("connect.quill.example No name Not checked by Svalinn")
}

// UX-13, cases B-06 and B-07: the host is whole, in ASCII, with its port, and
// what somebody had to register is bold.
func TestUX13Hosts(t *testing.T) {
	s := newSite(t)
	b := s.SignedIn("ada")
	for i, c := range []struct{ at, lead, bold, port string }{
		{"https://xn--bcher-kva.example/cb", "", "xn--bcher-kva.example", ""},
		{"https://connect.quill.example:8443/cb", "connect.", "quill.example", ":8443"},
		{"https://a.b.c.quill.example/cb", "a.b.c.", "quill.example", ""},
		{"https://app.quill.co.uk/cb", "app.", "quill.co.uk", ""},
		{"https://quill.github.io/cb", "", "quill.github.io", ""}, // each is somebody else's
		{"https://8.8.8.8/cb", "", "8.8.8.8", ""},
		{"https://" + strings.Repeat("a.", 60) + "quill.example/cb", strings.Repeat("a.", 60), "quill.example", ""},
	} {
		id := "h" + string(rune('a'+i))
		s.Register(client.Client{ID: id, Name: "Quill", RedirectURIs: []string{c.at}})
		p := b.Get(pagetest.Authorize("client_id", id, "redirect_uri", c.at)).Want(200)
		want := `<bdi class="host" dir="ltr">`
		if c.lead != "" {
			want += "<span>" + c.lead + "</span>"
		}
		want += "<b>" + c.bold + "</b>" + c.port + "</bdi>"
		if strings.Count(p.Body, want) != 2 { // under the name, and where the buttons lead
			t.Errorf("%s: %q is %d times in the page, want 2", c.at, want, strings.Count(p.Body, want))
		}
		if name, at := strings.Index(p.Body, "Not checked by"), strings.Index(p.Body, want); at < name || strings.Count(p.Body[name:at], "<p") != 1 {
			t.Errorf("%s: the host does not stand right under the name and its tag", c.at)
		}
		if !strings.Contains(p.Text(), "just now, at "+c.bold+"?") {
			t.Errorf("%s: the question names another domain", c.at)
		}
	}
}
