package consent

import (
	"bytes"
	"compress/gzip"
	"context"
	"flag"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/pelletier/go-toml/v2"
	"golang.org/x/net/html"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/store"
)

// pictures is what make screenshots gives: TestLook then takes pictures of every
// page into that folder, and looks for nothing.
var pictures = flag.String("pictures", "", "take pictures of every page into this folder")

// widePages gives everything that others name a name of 100 wide letters, and a
// client a host of 60 labels: the pages that show them are to hold them.
func (s *site) widePages(visit func(name string, p *pagetest.Shown)) {
	wide := strings.Repeat("W", 100)
	long := "https://" + strings.Repeat("a12.", 58) + "co.uk:8443/cb"
	d := store.Directory{
		People:        []store.DirectoryPerson{{Person: org.Person{ID: "ada", Email: wide + "@nordlys.example", Name: wide, Active: true}}},
		Organizations: []org.Organization{{ID: "nordlys", Name: wide, AIIntegration: true}, {ID: "havn", Name: wide}},
		Circles:       []org.Circle{{ID: "n:anchor", Organization: "nordlys", Name: wide}},
		Roles:         []org.Role{{ID: "treasurer", Organization: "nordlys", Circle: "n:anchor", Name: wide}},
	}
	s.Do(s.Store.AddDirectory(context.Background(), d, store.Act{Actor: "operator"}))
	s.Register(client.Client{ID: "wide", Name: wide, RedirectURIs: []string{long}})
	ada, ask := s.SignedIn("ada"), pagetest.Authorize("client_id", "wide", "redirect_uri", long)
	visit("wide consent", ada.Get(ask).Want(200))
	visit("wide fault", ada.Get(ask).Approve("organization", "havn").Want(422))
	visit("wide sign-in", s.Browser().Get(ask).Follow().Want(200))
	visit("wide nowhere", s.SignedIn("ola").Get(ask).Want(403))
	visit("wide bad request", ada.Get(ask+"&scope=x").Want(400))
	ada.Get(ask).Approve("grant", "roles", "role:treasurer", "read").Want(303)
	r := s.Recording()
	id := ada.Connect("grant", "roles", "role:treasurer", "change")
	r.Begin().Done(id, pagetest.Deed(identity.Item{ID: "1", Title: wide, Kind: wide, Detail: wide, Role: "treasurer", Did: identity.Changed}, activity.Unanswered),
		activity.Record{Way: activity.MCP, Outcome: activity.Done, Method: "POST", Path: "/" + wide, Tool: wide})
	r.Read(id, identity.Item{Kind: wide, Count: 3_000_000})
	s.Do(r.Flush())
	visit("wide activity", ada.Get(didAt(id)).Want(200))
	visit("wide activity as an admin", ada.Get(adminsAt(id)).Want(200))
	for _, path := range []string{"/", pagetest.NordlysApps, pagetest.NordlysApps + "/clients/wide/revoke", "/organizations/nordlys/leave", pagetest.NordlysSettings} {
		visit("wide "+path, ada.Get(path).Want(200))
	}
}

// An album is every page in one language, as it was answered, and who answered.
type album struct {
	names []string
	pages []*pagetest.Shown
	by    *site
}

var albums = struct {
	mu sync.Mutex
	of map[string]album // by tag
}{of: map[string]album{}}

// everyPageIn visits every page in a language, once for all tests that look at them.
func everyPageIn(t *testing.T, tag string) album {
	t.Helper()
	albums.mu.Lock()
	defer albums.mu.Unlock()
	if _, visited := albums.of[tag]; !visited {
		a := album{by: newSite(t)}
		a.by.Accept = tag
		a.by.items()
		a.by.everyPage(func(name string, _ bool, p *pagetest.Shown) {
			a.names, a.pages = append(a.names, name), append(a.pages, p)
		})
		albums.of[tag] = a
	}
	return albums.of[tag]
}

// UX-2: no page weighs more than 30 KB on a first visit, compressed, with its
// stylesheet, script and icon, in any language.
func TestWeight(t *testing.T) {
	t.Parallel()
	b := newSite(t).Browser()
	b.Header.Set("Accept-Encoding", "gzip")
	for _, tag := range page.Languages() {
		every := everyPageIn(t, tag)
		for i, p := range every.pages {
			weight := compressed(p.Body)
			var needs []string
			for n := range p.Doc.Descendants() {
				if at := pagetest.Attr(n, "href") + pagetest.Attr(n, "src"); strings.HasPrefix(at, "/assets/") && !slices.Contains(needs, at) {
					needs = append(needs, at)
					size, _ := strconv.Atoi(b.Get(at).Want(200).Header.Get("Content-Length"))
					weight += size
				}
			}
			if weight > 30_000 {
				t.Errorf("%s in %s: %d bytes", every.names[i], tag, weight)
			}
		}
	}
}

// Every page is said in each language: nothing of English is left, in what is
// shown or in what only a screen reader says.
func TestEveryPageInEveryLanguage(t *testing.T) {
	t.Parallel()
	texts := func(tag string) (names []string, all [][]string) {
		every := everyPageIn(t, tag)
		for i, p := range every.pages {
			if p.Status == http.StatusSeeOther {
				continue
			}
			var lines []string
			for n := range p.Doc.Descendants() {
				if within(n, "lang") != tag {
					continue
				}
				for _, a := range []string{"aria-label", "placeholder", "data-label", "title", "alt"} {
					if text := pagetest.Attr(n, a); text != "" {
						lines = append(lines, text)
					}
				}
				if n.Type == html.TextNode && n.Parent != nil && n.Parent.Data != "bdi" && n.Parent.Data != "code" && len(strings.Fields(n.Data)) > 1 &&
					strings.ContainsFunc(n.Data, unicode.IsLetter) { // else others wrote it, or it is numbers
					lines = append(lines, strings.Join(strings.Fields(n.Data), " "))
				}
			}
			names, all = append(names, every.names[i]), append(all, lines)
		}
		return names, all
	}
	names, english := texts("en")
	for _, tag := range page.Languages()[1:] {
		_, theirs := texts(tag)
		alike := alikeIn(t, tag)
		for i := range english {
			for _, line := range english[i] {
				if slices.Contains(theirs[i], line) && !alike[wordsOf(line)] {
					t.Errorf("%s: %s says %q", tag, names[i], line)
				}
			}
		}
	}
}

// compressed is how long a page is when it is sent compressed.
func compressed(body string) int {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, body)
	z.Close()
	return b.Len()
}

// alikeIn gives the words that are the same in English, without numbers.
func alikeIn(t *testing.T, tag string) map[string]bool {
	t.Helper()
	out, english := map[string]bool{}, messagesIn(t, "en")
	for id, text := range messagesIn(t, tag) {
		if text == english[id] {
			out[wordsOf(strings.ReplaceAll(text, "{n}", ""))] = true
		}
	}
	return out
}

var markup = regexp.MustCompile(`<[^>]*>`)

// messagesIn gives the messages of a language by their IDs, without markup.
func messagesIn(t *testing.T, tag string) map[string]string {
	t.Helper()
	file, err := os.ReadFile("../page/words/" + tag + ".toml")
	var tree map[string]any
	if err == nil {
		err = toml.Unmarshal(file, &tree)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	var add func(id string, node any)
	add = func(id string, node any) {
		if text, ok := node.(string); ok {
			out[id] = markup.ReplaceAllString(text, "")
			return
		}
		for key, below := range node.(map[string]any) {
			add(id+"."+key, below)
		}
	}
	add("", tree)
	return out
}

func wordsOf(text string) string {
	return strings.Trim(strings.TrimSuffix(strings.Join(strings.Fields(text), " "), " – Svalinn"), "0123456789 ·")
}

// within gives an attribute of the nearest element around a node, or of itself.
func within(n *html.Node, name string) string {
	for ; n != nil; n = n.Parent {
		if value := pagetest.Attr(n, name); value != "" {
			return value
		}
	}
	return ""
}
