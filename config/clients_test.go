package config

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/config/configtest"
)

// The list of preregistered clients is the same under its first name and in the table,
// and the environment goes with both.
func TestListOfClientsHasTwoNames(t *testing.T) {
	const entries = `id = "one"
name = "One"
redirect_uris = ["https://one.example/cb", "https://one.example/cb2"]
`
	want := []Client{{"one", "One", []string{"https://one.example/cb", "https://one.example/cb2"}}, {ID: "two"}}
	first := map[string]Origin{"clients.preregistered": "file"}
	inTable := maps.Clone(first)
	inTable["clients.desktop"] = "file"
	for name, tt := range map[string]struct {
		text    string
		origins map[string]Origin
		desktop bool
		key     string
	}{
		"list of tables":           {"[[clients]]\n" + entries + "[[clients]]\nid = 'two'\n", first, false, "clients"},
		"another spelling":         {"[[ \"clients\" ]]\n" + entries + "[['clients']]\nid = 'two'\n", first, false, "clients"},
		"on a line":                {"clients = [{id = 'one', name = 'One', redirect_uris = ['https://one.example/cb', 'https://one.example/cb2']}, {id = 'two'}]\n", first, false, "clients"},
		"in the table":             {"[clients]\ndesktop = true\n[[clients.preregistered]]\n" + entries + "[[clients.preregistered]]\nid = 'two'\n", inTable, true, "clients.preregistered"},
		"in the table, on a line":  {"clients.desktop = true\nclients.preregistered = [{id = 'one', name = 'One', redirect_uris = ['https://one.example/cb', 'https://one.example/cb2']}, {id = 'two'}]\n", inTable, true, "clients.preregistered"},
		"in the table, by one key": {"clients.preregistered = [{id = 'one', name = 'One', redirect_uris = ['https://one.example/cb', 'https://one.example/cb2']}, {id = 'two'}]\n", first, false, "clients.preregistered"},
	} {
		t.Run(name, func(t *testing.T) {
			file := withClients(t, tt.text)
			l, err := Load(file, nil, nil)
			maps.DeleteFunc(l.Origins, func(key string, _ Origin) bool { return !strings.HasPrefix(key, "clients.") })
			if err != nil || !reflect.DeepEqual(l.Clients, Clients{nil, tt.desktop, want}) || !maps.Equal(l.Origins, tt.origins) {
				t.Errorf("%+v, origins %v, %v", l.Clients, l.Origins, err)
			}
			_, err = l.Check() // of two
			if text, _ := refused(t, err); !strings.Contains(text, tt.key+`[1] "two": redirect_uris`) || !strings.Contains(text, "correct the entry [["+tt.key+"]]") {
				t.Errorf("checked: %s", text)
			}
			env := []string{"GRANTKEEPER_CLIENTS_METADATA_DOCUMENTS=a.example, b.example", fmt.Sprintf("GRANTKEEPER_CLIENTS_DESKTOP=%v", !tt.desktop)}
			l, err = Load(file, env, nil)
			if err != nil || !reflect.DeepEqual(l.Clients, Clients{[]string{"a.example", "b.example"}, !tt.desktop, want}) {
				t.Errorf("with the environment: %+v, %v", l.Clients, err)
			}
			if l.Origins["clients.metadata_documents"] != "environment" || l.Origins["clients.desktop"] != "environment" || l.Origins["clients.preregistered"] != "file" {
				t.Errorf("origins: %v", l.Origins)
			}
		})
	}
}

// withClients is the file of configtest with another list of clients.
func withClients(t *testing.T, text string) string {
	t.Helper()
	b, err := os.ReadFile(configtest.File(t))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(b), "\n")
	i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "clients = ") })
	lines[i] = text
	return write(t, "x.toml", strings.Join(lines, "\n"), 0o644)
}

// An empty list is one under each name, and both are read again as shown.
func TestEmptyListOfClients(t *testing.T) {
	for _, text := range []string{"clients = []\n", "[clients]\npreregistered = []\n", "[clients]\n"} {
		l, err := Load(write(t, "x.toml", text, 0o644), nil, nil)
		if err != nil || len(l.Clients.Preregistered) != 0 || l.Origins["clients.preregistered"] == "file" != strings.Contains(text, "= []") {
			t.Errorf("%q: %+v, %v, %v", text, l.Clients, l.Origins, err)
		}
	}
	l, err := Load(configtest.File(t), []string{"GRANTKEEPER_CLIENTS_METADATA_DOCUMENTS=any"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := l.Show(&out, false); err != nil {
		t.Fatal(err)
	}
	again, err := Load(write(t, "shown.toml", out.String(), 0o644), nil, nil)
	if err != nil || !reflect.DeepEqual(again.Clients, l.Clients) || len(again.Clients.Preregistered) != 1 {
		t.Errorf("%+v, %v\n%s", again.Clients, err, &out)
	}
}

// Whichever name a file has for the list, what is wrong in it is told by that name, and
// in its line.
func TestFaultsOfClients(t *testing.T) {
	for text, want := range map[string][]string{
		"[[clients]]\nid = 'x'\nredirect_uri = ['y']\n":                    {":3: unknown setting clients.redirect_uri", "did you mean clients.redirect_uris?"},
		"clients = [{id = 'x', redirect_uri = ['y']}]\n":                   {":1: unknown setting ", "did you mean clients.redirect_uris?"},
		"[[clients.preregistered]]\nid = 'x'\nredirect_uri = ['y']\n":      {":3: unknown setting clients.preregistered.redirect_uri", "did you mean clients.preregistered.redirect_uris?"},
		"[clients]\nmetadata_document = ['any']\n":                         {":2: unknown setting clients.metadata_document", "did you mean clients.metadata_documents?"},
		"[[clients]]\nid = 3\n":                                            {":2: clients.id: a text is wanted"},
		"clients = [3]\n":                                                  {":1: clients: a list of tables is wanted"},
		"clients = 'x'\n":                                                  {":1: clients: a table is wanted"},
		"[clients]\nmetadata_documents = 'any'\n":                          {`:2: clients.metadata_documents: a list of texts is wanted, such as ["one", "two"]`},
		"[clients]\ndesktop = 'yes'\n":                                     {":2: clients.desktop: true or false is wanted"},
		"[[clients]]\nid = 'x'\ndesktop = true\n":                          {":3: unknown setting clients.desktop", "write [[clients.preregistered]] for [[clients]]"},
		"[[clients]]\nid = 'x'\n\n[clients]\ndesktop = true\n":             {":4: clients: ", "write [[clients.preregistered]] for [[clients]]"},
		"[clients]\ndesktop = true\n\n[[clients]]\nid = 'x'\n":             {":4: clients: ", "write [[clients.preregistered]] for [[clients]]"},
		"clients.desktop = true\n[[clients]]\nid = 'x'\n":                  {":2: clients: ", "write [[clients.preregistered]] for [[clients]]"},
		"[log]\nlevel = 'x'\n[log]\n":                                      {":3: log: ", "correct that line"},
		"[[clients.preregistered]]\nid = 'x'\n[clients]\ndesktop = true\n": nil,
	} {
		_, err := Load(write(t, "x.toml", text, 0o644), nil, nil)
		if want == nil {
			if err != nil {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		got, code := refused(t, err)
		for _, w := range want {
			if code != 3 || !strings.Contains(got, w) {
				t.Errorf("%q: code %d, %q; want %q", text, code, got, w)
			}
		}
	}
}

func TestCheckDocuments(t *testing.T) {
	for _, hosts := range [][]string{nil, {"any"}, {"assistant.example"}, {"a.example", "xn--mnchen-3ya.example", "b.a.example"}} {
		l := good(t)
		l.Clients.MetadataDocuments = hosts
		if c, err := l.Check(); err != nil || !slices.Equal(c.Clients.MetadataDocuments, hosts) {
			t.Errorf("%q: %v", hosts, err)
		}
	}
	for _, bad := range []string{"", "Any", "*", "*.example.com", "https://assistant.example", "assistant.example:443", "assistant.example/", "Assistant.example", "münchen.example",
		"assistant", "localhost", "a.local", "8.8.8.8", "10.0.0.1", "[2606:4700::1]", "assistant.example.", "app.example", "a b.example", "u@a.example"} {
		l := good(t)
		l.Clients.MetadataDocuments = []string{"a.example", bad}
		_, err := l.Check()
		if text, code := refused(t, err); code != 3 || !strings.Contains(text, "clients.metadata_documents") {
			t.Errorf("%q: code %d, %q", bad, code, text)
		}
	}
	l := good(t)
	l.Clients.MetadataDocuments = []string{"any", "a.example"}
	_, err := l.Check()
	if text, code := refused(t, err); code != 3 || !strings.Contains(text, "any stands alone") {
		t.Errorf("any and another: code %d, %q", code, text)
	}
}

// The client of assistants on people's own computers is there while the setting is on, at
// every base URL, and nobody else gets its ID (decision A15).
func TestDesktopClient(t *testing.T) {
	for _, on := range []bool{false, true} {
		l := good(t)
		l.Clients.Desktop = on
		c, err := l.Check()
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(c.Preregistered, func(one client.Client) bool { return one.ID == client.DesktopID })
		if (i >= 0) != on || on && len(c.Preregistered[i].RedirectURIs) != len(c.Hosts.List()) {
			t.Errorf("%v: %+v", on, c.Preregistered)
		}
		l.Clients.Preregistered[0].ID = client.DesktopID
		_, err = l.Check()
		if text, _ := refused(t, err); !strings.Contains(text, "reserved") {
			t.Errorf("%v: %s", on, text)
		}
	}
}
