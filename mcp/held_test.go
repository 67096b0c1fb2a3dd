package mcp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

// ends are what ends a right of Tor, and what his calls are answered then.
var ends = []struct {
	name   string
	end    func(ctx context.Context, h *house, of approval.ID) error
	status int
}{
	{"role lost", func(ctx context.Context, h *house, _ approval.ID) error {
		return h.store.SetFiller(ctx, "host", "tor", false, act)
	}, 200},
	{"approval revoked", func(ctx context.Context, h *house, of approval.ID) error {
		return h.store.EndApproval(ctx, of, approval.RevokedByPerson, act)
	}, 401},
	{"member removed", func(ctx context.Context, h *house, _ approval.ID) error {
		return h.store.RemoveMember(ctx, "nordlys", "tor", act)
	}, 401},
	{"person deactivated", func(ctx context.Context, h *house, _ approval.ID) error {
		return h.store.SetActive(ctx, "tor", false, act)
	}, 401},
	{"AI integration off", func(ctx context.Context, h *house, _ approval.ID) error {
		return h.store.SetIntegration(ctx, "nordlys", false, act)
	}, 401},
	{"client disabled", func(ctx context.Context, h *house, _ approval.ID) error {
		return h.store.SetClientEnabled(ctx, "client-1", false, act)
	}, 401},
}

// secret is the title of what only those in Tor's circle may read.
const secret = "Sealed salaries"

// held are the bodies of requests that would give something away, or change it.
func held(id string) map[string]string {
	read := call("read_item", `{"kind":"note","id":"`+id+`"}`)
	return map[string]string{
		"read_item":      read,
		"list_items":     call("list_items", `{"kind":"note"}`),
		"resources/read": `{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"svalinn://nordlys/notes/` + id + `"}}`,
		"a batch":        "[" + read + "," + strings.Replace(read, `"id":7`, `"id":8`, 1) + "]",
		"create_item":    call("create_item", `{"kind":"note","title":"`+secret+`","role":"host"}`),
		"change_item":    call("change_item", `{"kind":"note","id":"`+id+`","body":"mine"}`),
		"whoami":         call("whoami", `{}`),
		"list_roles":     call("list_roles", `{"mine":true}`),
		"list_people":    call("list_people", `{}`),
		"tools/list":     `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`,
	}
}

// A request whose headers came while a right stood, and whose body comes after it
// has ended, is answered as one that came afterwards: however the right ended,
// whatever is asked, however the body is framed, on either engine.
func TestHeldOpen(t *testing.T) {
	pg, err := pgtest.Start()
	if err != nil {
		t.Fatal(err, "- run scripts/setup-debian.sh")
	}
	t.Cleanup(func() { pg.Stop() })
	for _, e := range ends {
		t.Run(e.name, func(t *testing.T) {
			for _, engine := range []string{"SQLite", "PostgreSQL"} {
				for n, chunked := range []bool{false, true} {
					if engine == "PostgreSQL" && n > 0 {
						continue // what frames a body is not the engine's
					}
					database := ""
					if engine == "PostgreSQL" {
						name, err := pg.Database()
						if err != nil {
							t.Fatal(err)
						}
						database = pg.URL(name)
					}
					h := newHouseOn(t, database)
					h.holdOpen(fmt.Sprintf("%s, chunked %t", engine, chunked), chunked, e.end, e.status)
				}
			}
		})
	}
}

func (h *house) holdOpen(name string, chunked bool, end func(context.Context, *house, approval.ID) error, status int) {
	t := h.t
	t.Helper()
	admitted := make(chan struct{}, 16)
	h.api.Checked = func(api.Result) { admitted <- struct{}{} }
	server := httptest.NewServer(h.handler)
	defer server.Close()
	access, of := h.lives("tor", "nordlys", grantset.Set{Kind: grantset.Everything})
	i := h.item(store.Item{Title: secret, Item: org.Item{Role: "host", Private: true}})
	answers := map[string]func() (int, string){}
	for what, body := range held(i.ID) {
		answers[what] = heldOpen(t, server.URL, access, body, chunked)
		<-admitted
	}
	if err := end(t.Context(), h, of); err != nil {
		t.Fatal(err)
	}
	for what, rest := range answers {
		got, body := rest()
		if got != status || strings.Contains(body, secret) || status == 401 && strings.Contains(body, "Tor") {
			t.Errorf("%s: %s: got %d %s, want %d", name, what, got, body, status)
		}
		if status == 200 && strings.Contains(what, "_item") && what != "list_items" && !strings.Contains(body, `"isError":true`) {
			t.Errorf("%s: %s: got %s", name, what, body)
		}
	}
	if now, err := h.store.Item(t.Context(), "nordlys", "note", i.ID); err != nil || now.Body != "" {
		t.Errorf("%s: got %+v, %v", name, now, err)
	}
}

// heldOpen sends the headers of a request and one byte of its body, and gives
// what sends the rest.
func heldOpen(t testing.TB, server, access, body string, chunked bool) (rest func() (int, string)) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(server, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	framing, first, last := fmt.Sprintf("Content-Length: %d", len(body)), body[:1], body[1:]
	if chunked {
		framing = "Transfer-Encoding: chunked"
		first, last = "1\r\n"+first+"\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(last), last)
	}
	if _, err := io.WriteString(conn, "POST /api/v5/mcp HTTP/1.1\r\nHost: app.example\r\nAuthorization: Bearer "+access+
		"\r\nContent-Type: application/json\r\n"+framing+"\r\n\r\n"+first); err != nil {
		t.Fatal(err)
	}
	return func() (int, string) {
		defer conn.Close()
		if _, err := io.WriteString(conn, last); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
}
