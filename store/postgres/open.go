package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/schema"
)

// ErrDatabase is a PostgreSQL database that cannot be worked on as it is. The
// error says what to mend.
var ErrDatabase = errors.New("the database cannot be used")

// Two of these are known by names of their own.
var (
	ErrAbsent     = fmt.Errorf("%w", ErrDatabase) // the server has none of this name
	ErrUnexamined = fmt.Errorf("%w", ErrDatabase) // nothing is known of it: who asks elsewhere, or soon, may be answered
)

// ChangeTimeout bounds one transaction. The server has the same bounds, so that a node
// that stands still with a lock holds nobody for longer. A test has another.
var ChangeTimeout = 15 * time.Second

const (
	// oldestPostgres is the first release that is served, as
	// server_version_num.
	oldestPostgres = 150000

	connectTimeout = 5 * time.Second
	// askTimeout bounds one statement, and how long it waits for a connection.
	askTimeout = 5 * time.Second
	// longChangeTimeout bounds one transaction of a whole directory. Its statements have the
	// bounds of all others: a node that stands still in it holds nobody for longer than
	// those allow.
	longChangeTimeout = 10 * time.Minute
	// ownConns are the readers', those of who makes moves and saves refreshes, and one
	// each for those who register, load facts and tell that the node lives. Five at
	// least are for all else.
	ownConns   = MaxReaders + moveWorkers + refreshWorkers + 3
	LeastConns = ownConns + 5
)

// Open opens a PostgreSQL database that other nodes may be working on.
func Open(ctx context.Context, env *engine.Env) (engine.Engine, error) {
	config, err := configOf(env.Options.URL)
	if err != nil {
		return nil, err
	}
	config.MaxConns = max(config.MaxConns, LeastConns)
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	p := newEngine(env, pool)
	p.DB.SetMaxOpenConns(int(config.MaxConns) - ownConns)
	p.Memory.Approvals.Elsewhere = true
	if err := p.prepare(ctx); err != nil {
		err = p.explain(err)
		p.closePool()
		return nil, err
	}
	p.start()
	return p, nil
}

// configOf reads a connection string, with what is not said in it.
func configOf(address string) (*pgxpool.Config, error) {
	config, err := parseURL(address)
	if err != nil {
		return nil, fmt.Errorf("database: %w: %w; write postgres://user@host:5432/database", ErrDatabase, withoutURL(err))
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	if config.ConnConfig.ValidateConnect == nil { // what leads to a server may lead to a standby, which answers what was
		config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsPrimary
	}
	config.BeforeConnect = leaveCommits
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "grantkeeper"
	}
	if ConfigOf != nil {
		ConfigOf(config)
	}
	return config, nil
}

// urlFiles are the parameters of a connection string that name files, and the variables
// that stand for them.
var urlFiles = [][2]string{
	{"sslrootcert", "PGSSLROOTCERT"}, {"sslcert", "PGSSLCERT"}, {"sslkey", "PGSSLKEY"}, {"passfile", "PGPASSFILE"}, {"servicefile", "PGSERVICEFILE"},
}

// parseURL reads a connection string, and the files that it names. These pgx opens by their
// names, so that they are judged before: it would wait for ever for who writes a FIFO.
func parseURL(s string) (*pgxpool.Config, error) {
	if u, err := url.Parse(s); err == nil {
		for _, f := range urlFiles {
			name := cmp.Or(u.Query().Get(f[0]), os.Getenv(f[1]))
			if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() && name != os.DevNull { // which says that there is none
				return nil, &fs.PathError{Op: f[0], Path: name, Err: errors.New("it is not a regular file")}
			}
		}
	}
	return pgxpool.ParseConfig(s)
}

// ConfigOf changes how a node connects, where it is set. Tests have a network of their own.
var ConfigOf func(*pgxpool.Config)

// leaveCommits keeps the driver from asking the server to stop a commit when its caller's
// time is over. One that waits for a synchronous standby would stand then, and be shown,
// though no standby has it: a failover takes back what others have seen.
func leaveCommits(_ context.Context, c *pgx.ConnConfig) error {
	var commits atomic.Bool
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if commits.Load() { // a connection is made once: this one would carry the request to stop
			return nil, errors.New("a commit is not stopped")
		}
		return dial(ctx, network, address)
	}
	c.AfterConnect = func(_ context.Context, conn *pgconn.PgConn) error {
		conn.CustomData()[commitsName] = &commits
		return nil
	}
	return nil
}

const commitsName = "commits"

// commits says that what is sent next on a connection commits, until done is called.
func commits(c *pgx.Conn) (done func()) {
	on := c.PgConn().CustomData()[commitsName].(*atomic.Bool)
	on.Store(true)
	return func() {
		if !c.IsClosed() { // by a driver that may be about to ask
			on.Store(false)
		}
	}
}

// withoutURL leaves out what an error quotes of a connection string.
func withoutURL(err error) error {
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) {
		if inner := parse.Unwrap(); inner != nil {
			return fmt.Errorf("%w", inner)
		}
		return errors.New("database.url cannot be read")
	}
	return err
}

func (p *Engine) prepare(whole context.Context) error {
	if err := p.examineServer(whole); err != nil {
		return err
	}
	if p.Options.Migrate {
		o := schema.Options{Migrations: schema.Migrations(), Release: p.Options.Release, Rekeyed: schema.LogRekeyed(p.Log)}
		if _, _, err := p.migrate(whole, o); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(whole, 2*ChangeTimeout)
	defer cancel()
	var err error
	for try := 0; ; try++ { // two nodes may find it empty at once
		if err = p.Transact(ctx, p.prepareSchema); err == nil || !firstElsewhere(err) || try == 20 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	if err := p.FollowKeys(ctx); err != nil {
		return err
	}
	if err := p.Transact(ctx, (*engine.Tx).CheckKeys); err != nil {
		return err
	}
	if err := p.Beat(ctx); err != nil {
		return err
	}
	if err := p.Transact(ctx, p.staysWorking); err != nil {
		return err
	}
	p.Clock.Machine = p.now
	return p.catchUp(whole, seen{}, true) // as long as it takes
}

// firstElsewhere reports whether another node made the schema meanwhile.
func firstElsewhere(err error) bool {
	switch Code(err) {
	case "42P07", "42710", "23505", "40001", "40P01", // relation or object exists, unique, retry
		"55P03": // it takes longer than one waits for a lock
		return true
	}
	return false
}

// prepareSchema makes the schema in an empty database, and refuses another.
func (p *Engine) prepareSchema(tx *engine.Tx) error {
	empty, err := p.isEmpty(tx)
	if err != nil {
		return err
	}
	if empty {
		return tx.MakeSchema(true)
	}
	has, err := p.examineSchema(tx)
	if err != nil {
		return err
	}
	return has.Works()
}

// Code is the SQLSTATE of an error of the server, or "".
func Code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// retryable reports an error after which the same is worth trying again: the
// server has undone everything, or was sent nothing.
func retryable(err error) bool {
	switch Code(err) {
	case "40001", "40P01": // serialization failure, deadlock
		return true
	}
	return pgconn.SafeToRetry(err)
}

// cut reports an error that says nothing about the database but that the
// connection to it is gone or no good any more.
func cut(err error) bool {
	switch c := Code(err); {
	case c == "":
		var e net.Error
		return errors.Is(err, driver.ErrBadConn) || errors.As(err, &e) && !e.Timeout() ||
			strings.Contains(err.Error(), "unexpected EOF") || strings.Contains(err.Error(), "conn closed")
	case c == "25006": // it was the primary, and is a standby now
		return true
	default:
		return strings.HasPrefix(c, "57P") || strings.HasPrefix(c, "08")
	}
}

// textConn is a connection on which every text can be sent: what PostgreSQL cannot
// hold is U+FFFD, and what is looked up by such a text is not there.
type textConn struct{ *stdlib.Conn }

// CheckNamedValue makes a text one that PostgreSQL can hold.
func (c textConn) CheckNamedValue(v *driver.NamedValue) error {
	if s, ok := v.Value.(string); ok {
		v.Value = storable(s)
	}
	return c.Conn.CheckNamedValue(v)
}

func storable(s string) string {
	if org.Storable(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// connector gives such connections out of the pool.
type connector struct{ driver.Connector }

// Connect takes a connection out of the pool.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return textConn{conn.(*stdlib.Conn)}, nil
}

// Raw gives pgx's own connection under one of database/sql.
func Raw(conn *sql.Conn, f func(*pgx.Conn) error) error {
	return conn.Raw(func(c any) error { return f(c.(textConn).Conn.Conn()) })
}
