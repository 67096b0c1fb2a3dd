package engine

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/token"
)

// rows is a database that answers every query with these, and then the end.
type rows struct {
	all [][]driver.Value
	end error
	at  int
}

func (r *rows) Connect(context.Context) (driver.Conn, error) { return r, nil }
func (r *rows) Driver() driver.Driver                        { return nil }
func (r *rows) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (r *rows) Begin() (driver.Tx, error)                    { return nil, errors.ErrUnsupported }
func (r *rows) Close() error                                 { return nil }
func (r *rows) Columns() []string                            { return []string{"name", "value"} }

func (r *rows) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	r.at = 0
	return r, nil
}

func (r *rows) Next(into []driver.Value) error {
	if r.at == len(r.all) {
		return r.end
	}
	copy(into, r.all[r.at])
	r.at++
	return nil
}

// engineOf is an engine that notes what it is asked for.
type engineOf struct {
	Statements
	rows    *rows
	failing string // what gives an error
	saves   bool
	said    []string
}

var errBroken = errors.New("broken")

func (e *engineOf) note(what string) error {
	e.said = append(e.said, what)
	if e.failing == what {
		return errBroken
	}
	return nil
}

func (e *engineOf) Exec(*Tx, string, ...any) (int64, error) { return 1, e.note("exec") }
func (e *engineOf) Journal(*Tx, []Event) error              { return e.note("journal") }
func (e *engineOf) Lock() string                            { return "" }
func (e *engineOf) Save(_ *Tx, all []Transition) (map[approval.ID]bool, error) {
	return map[approval.ID]bool{all[0].ID: e.saves}, e.note("save")
}

func (e *engineOf) Query(tx *Tx, text string, args ...any) (*sql.Rows, error) {
	if err := e.note("query"); err != nil {
		return nil, err
	}
	return sql.OpenDB(e.rows).QueryContext(tx.Ctx, text)
}

// A list is read to its end: an error at a row, or instead of the end, is no shorter list.
func TestEachRow(t *testing.T) {
	two := [][]driver.Value{{"a", "1"}, {"b", "2"}}
	for _, tt := range []struct {
		name   string
		end    error
		refuse string // of the rows
		broken error  // of the query
		want   []string
		failed bool
	}{
		{"all", io.EOF, "", nil, []string{"a", "b"}, false},
		{"an error at the end", errBroken, "", nil, []string{"a", "b"}, true},
		{"an error at a row", io.EOF, "a", nil, []string{"a"}, true},
		{"no rows", io.EOF, "", errBroken, nil, true},
	} {
		got, err := sql.OpenDB(&rows{all: two, end: tt.end}).Query("")
		if tt.broken != nil {
			got = nil
		}
		var names []string
		read := func(r Scanner) error {
			var name, value string
			err := r.Scan(&name, &value)
			if names = append(names, name); name == tt.refuse {
				return errBroken
			}
			return err
		}
		err = EachRow(got, errors.Join(err, tt.broken), read)
		if (err != nil) != tt.failed || !slices.Equal(names, tt.want) {
			t.Errorf("%s: %q, %v", tt.name, names, err)
		}
	}
	got, err := sql.OpenDB(&rows{all: two, end: errBroken}).Query("")
	if list, err := ListOf(got, err, func(r Scanner, one *[2]string) error { return r.Scan(&one[0], &one[1]) }); err == nil || list != nil {
		t.Errorf("a list that was cut: %q, %v", list, err)
	}
}

// A move is made of what memory has, once; where the row was another, of the row. What
// fails is told, and a proof that was not spent is no reason to refuse.
func TestMove(t *testing.T) {
	proof := Act{Proof: Proof{Key: approval.Thumbprint{1}, Until: 1}}
	for _, tt := range []struct {
		name, failing string
		act           Act
		saves         bool
		err           error
		moved         bool
		said          string
	}{
		{"a move", "", Act{}, true, nil, true, "save journal"},
		{"a move with a proof", "", proof, true, nil, true, "exec save journal"},
		{"a proof that cannot be looked for", "exec", proof, true, errBroken, false, "exec"},
		{"one that cannot be saved", "save", Act{}, true, errBroken, false, "save"},
		{"one that cannot be journaled", "journal", Act{}, true, errBroken, true, "save journal"},
		{"another row", "", Act{}, false, ErrNotFound, false, "save query"},
		{"another row that cannot be read", "query", Act{}, false, errBroken, false, "save query"},
	} {
		m := furnished(false)
		a := made(1)
		approvalMade{a}.apply(m)
		e := &engineOf{failing: tt.failing, saves: tt.saves, rows: &rows{end: io.EOF}}
		tx := NewTx(t.Context(), NewEnv(Options{Now: func() time.Time { return time.Unix(2000, 0) }}), nil, e)
		tx.Memory = m
		_, v, moved, err := tx.Move(a.ID, approval.Refresh("quill", 1, 1, time.Unix(2000, 0)), true, tt.act)
		if !errors.Is(err, tt.err) || moved != tt.moved || strings.Join(e.said, " ") != tt.said || tt.err == nil && v != approval.OK {
			t.Errorf("%s: %v, %v, moved %v, asked for %q", tt.name, v, err, moved, e.said)
		}
	}
}

// An exchange ends what its approval replaces, of which some may be gone.
func TestMoveThatReplaces(t *testing.T) {
	for _, tt := range []struct {
		name, replaces, failing string
		before                  approval.Phase
		failed                  bool
		asked                   int // for rows
	}{
		{"none", "", "", approval.CodeIssued, false, 0},
		{"two that are gone", numbered(7).String() + " " + numbered(8).String(), "", approval.CodeIssued, false, 2},
		{"what is no ID", "x", "", approval.CodeIssued, true, 0},
		{"one that cannot be read", numbered(7).String(), "query", approval.CodeIssued, true, 1},
		{"by a refresh", numbered(7).String(), "", approval.Live, false, 0},
	} {
		e := &engineOf{failing: tt.failing, rows: &rows{end: io.EOF}}
		tx := NewTx(t.Context(), NewEnv(Options{}), nil, e)
		err := tx.moved(made(1), approval.State{Phase: tt.before}, tt.replaces, Act{})
		asked := strings.Count(fmt.Sprint(e.said), "query")
		if (err != nil) != tt.failed || asked != tt.asked {
			t.Errorf("%s: %v, asked for %d rows", tt.name, err, asked)
		}
	}
}

// A ring that is not the database's is refused, and nothing of it is stored; nor is
// anything where nobody knows.
func TestKeysThatAreRefused(t *testing.T) {
	one := token.NewKey(1, [32]byte{1})
	ring, err := token.NewRing("sv", 1, one)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, failing string
		ring          *token.Ring
		known         [][]driver.Value
		err           error
		said          string
	}{
		{"no ring", "", nil, nil, nil, ""},
		{"as they are", "", ring, [][]driver.Value{{"key.1", one.Fingerprint()}}, nil, "query"},
		{"another key", "", ring, [][]driver.Value{{"key.1", "x"}}, ErrKeys, "query"},
		{"one that is missing", "", ring, [][]driver.Value{{"key.1", one.Fingerprint()}, {"key.2", "x"}}, ErrKeys, "query"},
		{"nobody knows", "query", ring, nil, errBroken, "query"},
		{"a new one that cannot be stored", "exec", ring, nil, errBroken, "query exec"},
	} {
		e := &engineOf{failing: tt.failing, rows: &rows{all: tt.known, end: io.EOF}}
		tx := NewTx(t.Context(), NewEnv(Options{Ring: tt.ring}), nil, e)
		if err := tx.CheckKeys(); !errors.Is(err, tt.err) || strings.Join(e.said, " ") != tt.said {
			t.Errorf("%s: %v, asked for %q", tt.name, err, e.said)
		}
	}
}

// fresh is an engine whose facts are current, or an error.
type fresh struct {
	Engine
	err error
}

func (f fresh) Fresh(context.Context) error { return f.err }

// Somebody is found by ID or by email in any case, unless nobody knows how things stand.
func TestPerson(t *testing.T) {
	env := NewEnv(Options{})
	env.Memory = furnished(false)
	for _, tt := range []struct {
		asked       string
		broken, err error
	}{{"ada", nil, nil}, {"Ada", nil, ErrNotFound}, {"tor", nil, ErrNotFound}, {"ada", errBroken, errBroken}} {
		h := Handle{Env: env, Engine: fresh{err: tt.broken}}
		if p, err := h.Person(t.Context(), tt.asked); !errors.Is(err, tt.err) || err == nil && p.ID != "ada" {
			t.Errorf("%+v: %+v, %v", tt, p, err)
		}
	}
}

// cells are the values of a row.
type cells []any

func (c *cells) next() (v any) { v, *c = (*c)[0], (*c)[1:]; return v }
func (c *cells) Text() string  { return c.next().(string) }
func (c *cells) Number() int64 { return int64(c.next().(int)) }

// The rules of an organization are put together of rows of three tables; what is said of
// one without rules is passed over.
func TestPolicyRows(t *testing.T) {
	p := PolicyRows{}
	for i, of := range []string{
		p.Policy(&cells{"nordlys", "ask", "allow", "roles", 1, 0, 30, 90, "ada", 5000, 3}),
		p.App(&cells{"nordlys", "app.example", "App", "", "block", "ada", 4000, "because"}),
		p.Never(&cells{"nordlys", "host"}),
	} {
		if of != "nordlys" {
			t.Errorf("row %d is of %q", i, of)
		}
	}
	if of := p.App(&cells{"fjell", "app.example", "App", "", "block", "ada", 4000, ""}) + p.Never(&cells{"fjell", "host"}); of != "fjellfjell" {
		t.Errorf("rows without rules are of %q", of)
	}
	got := p["nordlys"]
	if len(p) != 1 || len(got.Apps) != 1 || got.Apps[0].Host != "app.example" || got.Apps[0].Reason != "because" || !slices.Equal(got.Ceiling.Never, []string{"host"}) ||
		!got.Ceiling.ReadOnly || got.Ceiling.NoPersonal || got.MaxDays != 30 || got.ReviewDays != 90 || got.Version != 3 {
		t.Errorf("%+v", got)
	}
	if n := len(p.Changes([]string{"nordlys", "fjell"})); n != 2 {
		t.Errorf("%d changes", n)
	}
}

// An approval that is bound to no key has no octets in its column, and not NULL.
func TestBoundTo(t *testing.T) {
	if b := BoundTo(approval.Thumbprint{}); b == nil || len(b) > 0 {
		t.Errorf("%v", b)
	}
	if b := BoundTo(approval.Thumbprint{31: 7}); len(b) != 32 || b[31] != 7 {
		t.Errorf("%v", b)
	}
}
