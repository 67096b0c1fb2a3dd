package e2e

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

// readyAs waits until a server answers /readyz with a status and a text.
func (h *house) readyAs(t *testing.T, status int, text string) {
	t.Helper()
	c := h.caller()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		a := c.get(h.operator + "/readyz")
		if a.status == status && strings.Contains(a.body, text) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("ready: %s; want %d %s", a, status, text)
		}
	}
}

// refusesEverything wants everything to be refused for a cause, and doctor to name it.
func (a *asked) refusesEverything(t *testing.T, cause string) {
	t.Helper()
	a.h.readyAs(t, 503, `["the database does not answer a write: `+cause+`"]`)
	if refused := strings.Join(a.all(t), " "); refused != "refresh exchange approve revoke remove register import" {
		t.Errorf("refused were %q; want everything", refused)
	}
	if text, healthy := a.h.examined(t); healthy || !strings.Contains(text, "not ready: the database does not answer a write: "+cause+"\n") {
		t.Errorf("doctor says:\n%s", text)
	}
}

// A database that becomes read-only while the server runs: what is known is still
// checked, all else is told to come back.
func TestPostgresReadOnly(t *testing.T) {
	t.Parallel()
	pg, all := nodes(t, 1)
	h := all[0]
	a := asking(h)
	if err := pg.Exec("postgres", `ALTER SYSTEM SET default_transaction_read_only = on`, `SELECT pg_reload_conf()`); err != nil {
		t.Fatal(err)
	}
	a.refusesEverything(t, "it is read-only")
	if !h.works(a.keptTokens.access) {
		t.Error("a check is refused")
	}
	if code, stderr := h.startsAnother(t, ""); code != 4 || !strings.Contains(stderr, "it is read-only") {
		t.Errorf("another start: %d %s", code, stderr)
	}
	if err := pg.Exec("postgres", `ALTER SYSTEM RESET default_transaction_read_only`, `SELECT pg_reload_conf()`); err != nil {
		t.Fatal(err)
	}
	h.readyAs(t, 200, "ok")
	a.finish(t)
	if text, healthy := h.examined(t); !healthy {
		t.Errorf("afterwards doctor says:\n%s", text)
	}
}

// Others take all connections of the database: everybody is told to come back.
func TestPostgresWithoutConnections(t *testing.T) {
	t.Parallel()
	const connections = 40
	pg, err := pgtest.Start("max_connections = " + strconv.Itoa(connections))
	if err != nil {
		t.Fatal(err, "- run scripts/setup-debian.sh")
	}
	t.Cleanup(func() { pg.Stop() })
	database, err := pg.Database()
	if err != nil {
		t.Fatal(err)
	}
	h := nodesOn(t, 1, pg.URL(database))[0]
	a := asking(h)
	ctx := context.Background()
	var taken []*pgx.Conn
	for len(taken) < connections {
		conn, err := pgx.Connect(ctx, pg.URL("postgres"))
		if err == nil {
			taken = append(taken, conn)
			continue
		}
		if _, err := taken[0].Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'grantkeeper'`); err != nil {
			t.Fatal(err)
		}
	}
	a.refusesEverything(t, "it has no connection left")
	if r := h.caller().me(a.keptTokens.access); r.status != 503 || r.header.Get("Retry-After") == "" {
		t.Errorf("a check: %s; want 503", r)
	}
	if code, stderr := h.startsAnother(t, ""); code != 4 || !strings.Contains(stderr, "\nthe server has no connection left: raise max_connections") {
		t.Errorf("another start: %d %s", code, stderr)
	}
	for _, conn := range taken {
		conn.Close(ctx)
	}
	h.readyAs(t, 200, "ok")
	a.finish(t)
	if text, healthy := h.examined(t); !healthy {
		t.Errorf("afterwards doctor says:\n%s", text)
	}
}
