package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/devserver"
	"github.com/grantkeeper/grantkeeper/remote"
)

func operatorDocument(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/operator-api.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Every call that docs/operator-api.md names is answered as it says, and it
// names every call there is.
func TestOperatorDocumentCalls(t *testing.T) {
	t.Parallel()
	doc := operatorDocument(t)
	dev := startDev(t, devserver.Options{})
	_, id := connected(t, dev, "ada@nordlys.example")
	c := remote.Server{Base: dev.Operator, Password: remote.DevPassword, HTTP: http.DefaultClient}
	var events struct{ Items []struct{ ID string } }
	if err := c.Do(t.Context(), "GET", "/v1/events", nil, nil, &events); err != nil || len(events.Items) == 0 {
		t.Fatalf("%+v %v", events, err)
	}
	var attempts struct{ Items []struct{ ID string } }
	for until := time.Now().Add(time.Minute); len(attempts.Items) == 0 && time.Now().Before(until); time.Sleep(100 * time.Millisecond) { // written some seconds later
		if err := c.Do(t.Context(), "GET", "/v1/attempts", nil, nil, &attempts); err != nil {
			t.Fatal(err)
		}
	}
	if len(attempts.Items) == 0 {
		t.Fatal("the client has made no attempt")
	}
	ids := strings.NewReplacer("attempts/{id}", "attempts/"+attempts.Items[0].ID, "people/{id}", "people/tor", "organizations/{id}", "organizations/nordlys", "members/{person}", "members/tor",
		"clients/{id}/delete", "clients/assistant-connector/delete", "clients/{id}", "clients/"+devserver.DevClientID, "approvals/{id}", "approvals/"+id, "events/{id}", "events/"+events.Items[0].ID,
		"roles/{id}", "roles/nordlys-secretary", "{item}", "nordlys-renew-the-domain")
	directory := regexp.MustCompile("(?s)```json\n(.*?)```").FindStringSubmatch(doc)[1]
	var named []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(GET|POST|PUT|DELETE) (/[^`]*)` \\| ?(.*) \\|$").FindAllStringSubmatch(doc, -1) {
		method, path, rest := m[1], m[2], m[3]
		named = append(named, method+" "+strings.Split(path, "?")[0])
		var body any
		if method != "GET" {
			text := strings.Trim(rest, "`")
			if path == "/v1/directory" {
				text = directory
			}
			body = json.RawMessage(text)
		}
		to, query, _ := strings.Cut(ids.Replace(path), "?")
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		err = c.Do(t.Context(), method, to, values, body, &got)
		switch {
		case err != nil:
			t.Errorf("%s %s: %v", method, path, err)
		case strings.HasPrefix(path, "/v1/") && got["id"] == nil && got["items"] == nil:
			t.Errorf("%s %s: %v", method, path, got)
		}
		if method == "GET" && got["items"] != nil {
			filters := regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(rest, "") // without what a filter takes
			for _, filter := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(filters, -1) {
				if err := c.Do(t.Context(), "GET", to, url.Values{filter[1]: {""}}, nil, &got); err != nil {
					t.Errorf("%s: filter %s: %v", path, filter[1], err)
				}
			}
		}
	}
	var source []byte
	for _, file := range []string{"operator.go", "installation.go"} {
		b, err := os.ReadFile("../../operator/" + file)
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, b...)
	}
	for _, m := range regexp.MustCompile(`\.Handle\("([A-Z]+ /[^"]*)"`).FindAllStringSubmatch(string(source), -1) {
		if !slices.Contains(named, m[1]) && !strings.Contains(doc, "`"+m[1]+"` answers with") {
			t.Errorf("%s is not documented", m[1])
		}
	}
	if len(named) < 30 {
		t.Errorf("only %d calls were found: %v", len(named), named)
	}
}

// The refusals stand in the table under the name that they have.
func TestOperatorDocumentRefusals(t *testing.T) {
	t.Parallel()
	doc := operatorDocument(t)
	dev := startDev(t, devserver.Options{})
	for _, tt := range []struct {
		method, path, password string
		header                 [2]string
		status                 int
		code                   string
	}{
		{"GET", "/v1/people?nme=x", remote.DevPassword, [2]string{}, 400, "invalid_request"},
		{"GET", "/v1/people", "another", [2]string{}, 401, "unauthorized"},
		{"POST", "/v1/people/tor/deactivate", remote.DevPassword, [2]string{"Sec-Fetch-Site", "cross-site"}, 403, "cross_site"},
		{"GET", "/v1/people/nobody", remote.DevPassword, [2]string{}, 404, "not_found"},
		{"DELETE", "/v1/people", remote.DevPassword, [2]string{}, 405, "method_not_allowed"},
	} {
		r, err := http.NewRequest(tt.method, dev.Operator+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("operator", tt.password)
		if tt.header[0] != "" {
			r.Header.Set(tt.header[0], tt.header[1])
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var said struct{ Error string }
		err = json.NewDecoder(a.Body).Decode(&said)
		a.Body.Close()
		if err != nil || a.StatusCode != tt.status || said.Error != tt.code || !strings.Contains(doc, fmt.Sprintf("\n| %d | `%s`", tt.status, tt.code)) {
			t.Errorf("%s %s: %d %q, %v", tt.method, tt.path, a.StatusCode, said.Error, err)
		}
	}
}

// What the document shows of grantkeeper explain is what it prints, to the
// letter, but for ID and day.
func TestOperatorDocumentShowsExplain(t *testing.T) {
	t.Parallel()
	m := regexp.MustCompile("(?s)```\n\\$ grantkeeper (explain) ([0-9a-f]{32}) (--tool) (\\S+)\n(.*?)```").FindStringSubmatch(operatorDocument(t))
	if m == nil {
		t.Fatal("the document shows no explain")
	}
	dev := startDev(t, devserver.Options{})
	_, id := connected(t, dev, "ada@nordlys.example")
	stdout, stderr, code := ran(t, m[1], id, m[3], m[4], "--operator", dev.Operator)
	day := regexp.MustCompile(`\d{4}-\d\d-\d\d`)
	if got, want := day.ReplaceAllString(stdout, "{day}"), day.ReplaceAllString(m[5], "{day}"); got != want || code != 0 {
		t.Errorf("exit code %d %s\n got %s\nwant %s", code, stderr, got, want)
	}
}
