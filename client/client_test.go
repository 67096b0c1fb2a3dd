package client_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
)

var noon = time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)

// registered is a client as it stands after its registration at noon.
func registered(t *testing.T) client.Client {
	t.Helper()
	m, refusal := client.ParseMetadata([]byte(
		`{"client_name":"Quill","redirect_uris":["https://quill.example/cb?a=1&b=2","https://quill.example:8443/cb"]}`), ownHosts)
	if refusal != nil {
		t.Fatal(refusal.Description)
	}
	return client.New(m, "c1", noon)
}

// T-07, T-08, T-09, T-10 and P-03, as far as they are the client's.
func TestKnown(t *testing.T) {
	const day = 24 * time.Hour
	for _, row := range []struct {
		name   string
		change func(*client.Client)
		after  time.Duration
		want   bool
	}{
		{"at once", nil, 0, true},
		{"T-07: registered, 13 d 23 h 59 m 59 s without approval", nil, 14*day - time.Second, true},
		{"a nanosecond before 14 d", nil, 14*day - time.Nanosecond, true},
		{"T-08: registered, 14 d without approval", nil, 14 * day, false},
		{"14 d and a second", nil, 14*day + time.Second, false},
		{"a year", nil, 365 * day, false},
		{"T-09: approved, day 100", func(c *client.Client) { c.Approved = true }, 100 * day, true},
		{"P-03: preregistered, day 100", func(c *client.Client) { c.Preregistered = true }, 100 * day, true},
		{"disabled, day 1", func(c *client.Client) { c.Disabled = true }, day, true},
		{"disabled and never approved, day 14", func(c *client.Client) { c.Disabled = true }, 14 * day, false},
		{"disabled after its approval, day 100", func(c *client.Client) { c.Approved, c.Disabled = true, true }, 100 * day, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := registered(t)
			if row.change != nil {
				row.change(&c)
			}
			if got := c.Known(noon.Add(row.after)); got != row.want {
				t.Fatalf("known is %v, want %v", got, row.want)
			}
		})
	}
}

// The whole second of the registration is what counts, as it is stored.
func TestKnownCountsFromTheStoredSecond(t *testing.T) {
	c := client.New(client.Metadata{}, "c1", noon.Add(999*time.Millisecond))
	if c.IssuedAt != noon.Unix() {
		t.Fatalf("issued at %d", c.IssuedAt)
	}
	if c.Known(noon.Add(client.UnapprovedRetention)) {
		t.Fatal("known 14 d after the second of its registration")
	}
}

func TestState(t *testing.T) {
	for _, row := range []struct {
		c    client.Client
		want string
	}{
		{client.Client{}, "registered"},
		{client.Client{Approved: true}, "approved"},
		{client.Client{Preregistered: true}, "preregistered"},
		{client.Client{Preregistered: true, Approved: true}, "preregistered"},
		{client.Client{Disabled: true}, "disabled"},
		{client.Client{Disabled: true, Approved: true}, "disabled"},
		{client.Client{Disabled: true, Preregistered: true, Approved: true}, "disabled"},
	} {
		if got := row.c.State(); got != row.want {
			t.Errorf("%+v is %s, want %s", row.c, got, row.want)
		}
	}
}

func TestNew(t *testing.T) {
	m := client.Metadata{Name: "Quill", RedirectURIs: []string{"https://quill.example/cb"}}
	c := client.New(m, "c1", noon)
	m.RedirectURIs[0] = "https://evil.example/"
	if c.ID != "c1" || c.Name != "Quill" || c.IssuedAt != noon.Unix() || c.Preregistered || c.Approved || c.Disabled ||
		!slices.Equal(c.RedirectURIs, []string{"https://quill.example/cb"}) {
		t.Fatalf("%+v", c)
	}
}

// A client is what its document says until then, unless its operator says who it is.
func TestDocumented(t *testing.T) {
	c := client.Of(client.Metadata{Name: "Quill"}, documentURL, noon.Add(time.Hour), noon)
	if c.ID != documentURL || c.Name != "Quill" || c.GoodUntil != noon.Unix()+3600 || !c.Documented() {
		t.Errorf("%+v", c)
	}
	if c.Preregistered = true; c.Documented() || client.New(client.Metadata{}, "c1", noon).Documented() {
		t.Error("by its ID alone, or without one that is a URL")
	}
}

// spec 2.1 rule 4: exactly a registered one.
func TestHasRedirectURI(t *testing.T) {
	c := registered(t)
	for _, uri := range []string{"https://quill.example/cb?a=1&b=2", "https://quill.example:8443/cb"} {
		if !c.HasRedirectURI(uri) {
			t.Errorf("%q is registered", uri)
		}
	}
	for _, uri := range []string{
		"", "https://quill.example/cb", "https://quill.example/cb?a=1&b=2&c=3", "https://quill.example/cb?b=2&a=1", "https://quill.example/cb?a=1&b=2#",
		"https://quill.example/cb?a=1&b=2 ", "https://QUILL.example/cb?a=1&b=2", "https://quill.example:443/cb?a=1&b=2", "https://quill.example:8443/cb/",
		"https://quill.example:8443/c%62", "HTTPS://quill.example:8443/cb", "https://quill.example:8443/", "https://quill.example:8443/cb?",
	} {
		if c.HasRedirectURI(uri) {
			t.Errorf("%q is not registered", uri)
		}
	}
}

// spec 2.2: these members, in words and types, and no other.
func TestResponse(t *testing.T) {
	got, err := json.Marshal(registered(t).Response())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"client_id":"c1","client_id_issued_at":1795262400,"client_name":"Quill",` +
		`"redirect_uris":["https://quill.example/cb?a=1\u0026b=2","https://quill.example:8443/cb"],"token_endpoint_auth_method":"none",` +
		`"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"scope":"api"}`
	if string(got) != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

// Decisions R3 and R4: client_name is left out when not sent; nothing is null.
func TestResponseWithoutName(t *testing.T) {
	got, err := json.Marshal(client.New(client.Metadata{}, "c1", noon).Response())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"client_id":"c1","client_id_issued_at":1795262400,"redirect_uris":[],"token_endpoint_auth_method":"none",` +
		`"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"scope":"api"}`
	if string(got) != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

// What one caller does to an answer is not seen by the next.
func TestResponseIsACopy(t *testing.T) {
	c := registered(t)
	r := c.Response()
	r.RedirectURIs[0], r.GrantTypes[0], r.ResponseTypes[0] = "x", "x", "x"
	if again := c.Response(); again.RedirectURIs[0] == "x" || again.GrantTypes[0] == "x" || again.ResponseTypes[0] == "x" {
		t.Fatalf("%+v", again)
	}
}

// Decision R6, P-05: the same grammar; a bad one is an error, and no client.
func TestPreregistered(t *testing.T) {
	good := []string{"https://assistant.example/api/mcp/auth_callback"}
	c, err := client.Preregistered("assistant", "Assistant", good, ownHosts)
	if err != nil {
		t.Fatal(err)
	}
	good[0] = "https://evil.example/"
	if c.ID != "assistant" || c.Name != "Assistant" || !c.Preregistered || c.Approved || c.Disabled || !c.HasRedirectURI("https://assistant.example/api/mcp/auth_callback") {
		t.Fatalf("%+v", c)
	}
}

func TestPreregisteredRefused(t *testing.T) {
	good := []string{"https://assistant.example/cb"}
	for _, row := range []struct {
		name, id, client string
		uris             []string
		want             string
	}{
		{"no id", "", "", good, "client_id: it is empty"},
		{"129 characters", strings.Repeat("a", 129), "", good, "client_id: it has more than 128 characters"},
		{"a space", "a b", "", good, "client_id: only visible ASCII characters are allowed, and no space"},
		{"a control character", "a\n", "", good, "client_id: only visible ASCII characters are allowed, and no space"},
		{"delete", "a\x7f", "", good, "client_id: only visible ASCII characters are allowed, and no space"},
		{"not ASCII", "é", "", good, "client_id: only visible ASCII characters are allowed, and no space"},
		{"a bad name", "a", "<b>", good, "client_name: markup is not allowed"},
		{"no redirect URI", "a", "", nil, "redirect_uris: it must have 1 to 5 entries"},
		{"6 redirect URIs", "a", "", slices.Repeat(good, 6), "redirect_uris: it must have 1 to 5 entries"},
		{"a bad redirect URI", "a", "", []string{good[0], "http://assistant.example/"}, "redirect_uris[1]: it must begin with https://, there is no http on loopback and no custom scheme"},
		{"a drill that leads elsewhere", "drill.a", "", good, "client_id: one that begins with drill. is a drill's, and has https://demo-client.example/callback as its only redirect URI"},
		{"a drill that leads elsewhere too", "drill.a", "", []string{client.DrillRedirect, good[0]}, "client_id: one that begins with drill. is a drill's, and has https://demo-client.example/callback as its only redirect URI"},
		{"an own host", "a", "", []string{"https://svalinn.example/"}, "redirect_uris[0]: the host is one of this service"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, err := client.Preregistered(row.id, row.client, row.uris, ownHosts)
			if err == nil || err.Error() != row.want || c.ID != "" {
				t.Fatalf("%+v, %v; want %s", c, err, row.want)
			}
		})
	}
}

// Operators alone make the client of a drill, and none that leads anywhere.
func TestDrill(t *testing.T) {
	c, err := client.Preregistered("drill.a", "", []string{client.DrillRedirect}, ownHosts)
	if err != nil || !client.Drill(c.ID) {
		t.Errorf("%+v, %v", c, err)
	}
	for _, id := range []string{"", "drill", "Drill.a", "a.drill.", " drill."} {
		if client.Drill(id) {
			t.Errorf("%q is a drill", id)
		}
	}
}

func TestPreregisteredIDsThatAreFine(t *testing.T) {
	for _, id := range []string{"a", strings.Repeat("a", 128), "https://assistant.example/id", "!#$%&'()*+,-./09:;<=>?@AZ[]^_`az{|}~", `"\`} {
		if c, err := client.Preregistered(id, "  ", []string{"https://assistant.example/cb"}, nil); err != nil || c.ID != id || c.Name != "" {
			t.Errorf("%q: %+v, %v", id, c, err)
		}
	}
}
