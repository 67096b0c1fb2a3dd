// The race detector has goroutines run in another order each time, and a seed decides it.
//go:build !race

package simulate

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

// A real is the PostgreSQL behind the nodes of every seed, and the connections to it.
type real struct {
	*pgtest.Server
	schema  string
	own     *backend // the scheduler's
	spare   []*backend
	version string   // that the facts have when a seed begins
	empty   []string // tables that are empty when a seed begins
	others  []string // those that are not
}

var behind *real

// prepareReal starts the server, once, with the database that every seed begins with.
func prepareReal(t *testing.T) {
	if behind != nil {
		return
	}
	prepareKeys(t)
	server, err := pgtest.Start("fsync = off", "synchronous_commit = off", "full_page_writes = off", "autovacuum = off",
		"deadlock_timeout = 1ms", "max_parallel_workers_per_gather = 0", "jit = off")
	if err != nil {
		t.Fatal(err, "- run scripts/setup-debian.sh")
	}
	url, err := server.Schema()
	if err != nil {
		t.Fatal(err)
	}
	r := &real{Server: server, schema: url[strings.LastIndex(url, "=")+1:]}
	if err := errors.Join(furnish(store.Options{URL: url, Ring: keys, Now: func() time.Time { return started }}), r.keep()); err != nil {
		t.Fatal(err)
	}
	if r.own, err = dialBackend(server.Port(), r.schema); err != nil {
		t.Fatal(err)
	}
	rows, err := r.own.ask(`SELECT version::bigint || '::bigint' FROM facts`)
	if err != nil {
		t.Fatal(err)
	}
	r.version = rows[0]
	behind = r
}

// stop ends the server, and gives the status of this process.
func (r *real) stop() int {
	if err := r.Stop(); err != nil {
		fmt.Println("PostgreSQL does not end:", err)
		return 1
	}
	return 0
}

// keep notes what is in the database, so that it can be brought back.
func (r *real) keep() error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, r.URL("postgres")+"&search_path="+r.schema)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	rows, _ := conn.Query(ctx, `SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename`)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, `CREATE SCHEMA pristine`); err != nil {
		return err
	}
	for _, table := range tables {
		var some bool
		if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM `+table+`)`).Scan(&some); err != nil {
			return err
		}
		if !some {
			r.empty = append(r.empty, table)
			continue
		}
		r.others = append(r.others, table)
		if _, err := conn.Exec(ctx, `CREATE TABLE pristine.`+table+` AS TABLE `+table); err != nil {
			return err
		}
	}
	return nil
}

// reset brings the database back to where every seed begins.
func (r *real) reset() {
	var filled []string
	for _, table := range r.empty {
		filled = append(filled, fmt.Sprintf(`SELECT '%s' WHERE EXISTS (SELECT 1 FROM %[1]s)`, table))
	}
	tables, err := r.own.ask(strings.Join(filled, " UNION ALL "))
	must(err)
	var texts []string
	if len(tables) > 0 {
		texts = append(texts, `TRUNCATE `+strings.Join(tables, ", "))
	}
	for _, table := range r.others {
		texts = append(texts,
			fmt.Sprintf(`DELETE FROM %s t WHERE NOT EXISTS (SELECT 1 FROM pristine.%[1]s p WHERE p.* IS NOT DISTINCT FROM t.*)`, table),
			fmt.Sprintf(`INSERT INTO %s SELECT * FROM pristine.%[1]s EXCEPT SELECT * FROM %[1]s`, table))
	}
	_, err = r.own.ask(strings.Join(texts, ";\n"))
	must(err)
}

// take gives a connection on which nothing has happened.
func (r *real) take() *backend {
	if n := len(r.spare); n > 0 {
		b := r.spare[n-1]
		r.spare = r.spare[:n-1]
		return b
	}
	b, err := dialBackend(r.Port(), r.schema)
	must(err)
	return b
}

// give takes one back, as if it had ended.
func (r *real) give(b *backend) {
	texts := []string{"DISCARD ALL"}
	if b.status != 'I' {
		texts = []string{"ROLLBACK", "DISCARD ALL"}
	}
	_, err := b.ask(texts...)
	must(err)
	r.spare = append(r.spare, b)
}

var lockTimeout = regexp.MustCompile(`lock_timeout = '(\d+)s'`)

// untimed leaves the bounds of a transaction to the scheduler: those of the server would go by
// the clock of the machine.
var untimed = strings.NewReplacer("lock_timeout = '5s'", "lock_timeout = 0", "statement_timeout = '10s'", "statement_timeout = 0",
	"idle_in_transaction_session_timeout = '10s'", "idle_in_transaction_session_timeout = 0")

// rewrite gives what is sent to the server instead of what a node has sent: without bounds of
// time, and with the planted fault. It counts the answers that the server will give.
func (s *cluster) rewrite(c *conn, sent []byte) (out []byte, answers int, bye bool, label string) {
	var said []string
	for kind, message := range messages(&sent) {
		said = append(said, string(kind))
		var err error
		switch kind {
		case 'Q':
			var q pgproto3.Query
			must(q.Decode(message[5:]))
			said = append(said, called(q.String))
			q.String = s.alter(q.String)
			if c.backend.doomed && q.String == "COMMIT" {
				q.String, s.altered = "ROLLBACK", s.altered+1
			}
			if found := lockTimeout.FindStringSubmatch(q.String); found != nil {
				c.backend.lockTimeout, _ = time.ParseDuration(found[1] + "s")
			}
			q.String = untimed.Replace(q.String)
			message, err = q.Encode(nil)
			answers++
		case 'P':
			var p pgproto3.Parse
			must(p.Decode(message[5:]))
			said = append(said, called(p.Query))
			p.Query = s.alter(p.Query)
			c.statements[p.Name] = p.Query
			message, err = p.Encode(nil)
		case 'B':
			var b pgproto3.Bind
			must(b.Decode(message[5:]))
			text := c.statements[b.PreparedStatement]
			if b.PreparedStatement != "" {
				said = append(said, called(text))
			}
			if planted.rollsBack != "" && strings.Contains(text, planted.rollsBack) {
				c.backend.doomed = true
			}
			if strings.Contains(text, "set_config('lock_timeout'") {
				c.backend.lockTimeout, err = time.ParseDuration(string(b.Parameters[0]) + "ms")
				must(err)
				b.Parameters[0] = []byte("0")
			}
			message, err = b.Encode(nil)
		case 'S':
			answers++
		case 'X':
			return out, answers, true, strings.Join(said, " ")
		}
		must(err)
		out = append(out, message...)
	}
	if len(sent) > 0 {
		panic("half a message")
	}
	return out, answers, false, strings.Join(said, " ")
}

// alter is the planted fault of statements.
func (s *cluster) alter(text string) string {
	for i := 0; i+1 < len(planted.statements); i += 2 {
		if strings.Contains(text, planted.statements[i]) {
			s.altered++
			text = strings.ReplaceAll(text, planted.statements[i], strings.ReplaceAll(planted.statements[i+1], "%version", s.real.version))
		}
	}
	return text
}
