package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/schema"
	"github.com/grantkeeper/grantkeeper/token"
)

// CheckURL says what is wrong with a connection string, without repeating it.
func CheckURL(url string) error {
	if _, err := parseURL(url); err != nil {
		return withoutURL(err)
	}
	return nil
}

// InspectURL says what Open would find in a PostgreSQL database, and changes
// nothing. Of an empty one the schema has version 0. With an error the text is its name.
func InspectURL(ctx context.Context, url string, ring *token.Ring) (text string, has schema.State, err error) {
	p, err := askerOf(ctx, url, ring)
	if err != nil {
		return "", schema.State{}, err
	}
	defer p.Pool.Close()
	if text, has, err = p.inspect(ctx); err != nil {
		err = p.explain(err)
	}
	return text, has, err
}

// askerOf is for those who ask without being a node; they close its pool.
func askerOf(ctx context.Context, url string, ring *token.Ring) (*Engine, error) {
	config, err := configOf(url)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	return newEngine(engine.NewEnv(engine.Options{URL: url, Ring: ring}), pool), nil
}

func (p *Engine) inspect(ctx context.Context) (text string, has schema.State, err error) {
	text = nameOf(p.Pool.Config().ConnConfig)
	if err := p.examineServer(ctx); err != nil {
		return text, has, err
	}
	empty := false
	err = p.Transact(ctx, func(tx *engine.Tx) (err error) {
		if empty, err = p.isEmpty(tx); err == nil && empty {
			err = p.examineRoom(tx)
		}
		if err != nil || empty {
			return err
		}
		if has, err = p.examineSchema(tx); err != nil {
			return err
		}
		if err := p.examineKeys(tx); err != nil {
			return err
		}
		return has.Works()
	})
	switch {
	case err != nil:
	case empty:
		text += ", the tables are made at the first start"
	default:
		text += fmt.Sprintf(", schema %d", has.Version)
	}
	return text, has, err
}

// NameOf is a database as people call it, without a password.
func NameOf(url string) string {
	config, err := configOf(url)
	if err != nil {
		return "postgres"
	}
	return nameOf(config.ConnConfig)
}

func nameOf(c *pgx.ConnConfig) string {
	return fmt.Sprintf("postgres %s at %s", c.Database, net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))))
}

// examineRoom finds that this user may not make the tables.
func (p *Engine) examineRoom(tx *engine.Tx) error {
	var user, database string
	var in sql.NullString
	var may sql.NullBool
	if err := tx.QueryRow(`
		SELECT current_user, current_database(), current_schema(), has_schema_privilege(current_user, current_schema(), 'CREATE')`).
		Scan(&user, &database, &in, &may); err != nil {
		return err
	}
	switch {
	case !in.Valid:
		return fmt.Errorf("%w: the schema that search_path names is not there; CREATE SCHEMA", ErrDatabase)
	case !may.Bool:
		return fmt.Errorf("%w: user %s may not make tables here; ALTER DATABASE %s OWNER TO %s", ErrDatabase, user, database, user)
	}
	return nil
}

// examineKeys refuses a database that was used with other keys.
func (p *Engine) examineKeys(tx *engine.Tx) error {
	if p.Options.Ring == nil {
		return nil
	}
	if err := tx.MatchKeyRows(p.Options.Ring); err != nil {
		return err
	}
	known, err := tx.KeysKnown()
	if err != nil {
		return err
	}
	_, err = engine.NewKeys(p.Options.Ring, known)
	return err
}

// examineServer asks before anything else.
func (p *Engine) examineServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*ChangeTimeout)
	defer cancel()
	conn, err := p.Pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return p.examine(ctx, conn.Conn())
}

// examine refuses a database that would go wrong later.
func (p *Engine) examine(ctx context.Context, conn *pgx.Conn) error {
	setting := func(name string) (value string, err error) {
		err = conn.QueryRow(ctx, `SELECT current_setting($1)`, name).Scan(&value)
		return value, err
	}
	version, err := setting("server_version_num")
	if err != nil {
		return err
	}
	number, _ := strconv.Atoi(version)
	var product string
	if err := conn.QueryRow(ctx, `SELECT version()`).Scan(&product); err != nil {
		return err
	}
	p.IsPostgreSQL = strings.HasPrefix(product, "PostgreSQL") && !strings.Contains(product, "-YB-")
	if number < oldestPostgres && p.IsPostgreSQL {
		return fmt.Errorf("%w: the server is PostgreSQL %d; 15 or newer is needed", ErrDatabase, number/10000)
	}
	encoding, err := setting("server_encoding")
	if err != nil {
		return err
	}
	if encoding != "UTF8" {
		return fmt.Errorf("%w: its encoding is %s; make it anew: CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0", ErrDatabase, encoding)
	}
	readOnly, err := setting("transaction_read_only")
	if err != nil {
		return err
	}
	if readOnly == "on" {
		return fmt.Errorf("%w: it is read-only, as a standby is; name the primary, or all servers with target_session_attrs=read-write", ErrDatabase)
	}
	return p.examineCollation(ctx, conn)
}

// examineCollation refuses a database whose collation is of another version
// than the indexes were built with: they would not find rows that are there.
func (p *Engine) examineCollation(ctx context.Context, conn *pgx.Conn) error {
	if !p.IsPostgreSQL {
		return nil
	}
	var name, built, now string
	if err := conn.QueryRow(ctx, `
		SELECT datname, COALESCE(datcollversion, ''), COALESCE(pg_database_collation_actual_version(oid), '')
		  FROM pg_database WHERE datname = current_database()`).Scan(&name, &built, &now); err != nil {
		return err
	}
	if built != now && built != "" {
		return fmt.Errorf("%w: its collation was version %s and the system has %s, so its indexes may not find what is there; "+
			"run REINDEX DATABASE %s and ALTER DATABASE %s REFRESH COLLATION VERSION", ErrDatabase, built, now, name, name)
	}
	return nil
}

// isEmpty refuses a database with tables of something else.
func (p *Engine) isEmpty(tx *engine.Tx) (bool, error) {
	var tables, ours int
	if err := tx.QueryRow(`
		SELECT COUNT(*), COUNT(*) FILTER (WHERE c.relname = 'meta')
		  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		 WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p')`).Scan(&tables, &ours); err != nil {
		return false, err
	}
	if tables > 0 && ours == 0 {
		return false, fmt.Errorf("%w: it has %d tables of something else; use a database of its own", ErrDatabase, tables)
	}
	return tables == 0, nil
}

// examineSchema says which schema there is, and refuses one that this user may
// not work on.
func (p *Engine) examineSchema(tx *engine.Tx) (schema.State, error) {
	if err := p.examineRights(tx); err != nil {
		return schema.State{}, err
	}
	has, err := schema.Read(tx.Ctx, tx.Conn)
	if errors.Is(err, schema.ErrForeign) || Code(err) == "42703" { // no such column
		return has, fmt.Errorf("%w: its table meta is not Grantkeeper's; use a database of its own", ErrDatabase)
	}
	if err == nil {
		err = p.examineTables(tx, has)
	}
	return has, err
}

// examineTables finds a table that is gone, or that has been emptied and never is.
func (p *Engine) examineTables(tx *engine.Tx, has schema.State) error {
	there, err := engine.Column[string](tx.Conn.QueryContext(tx.Ctx, `
		SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		 WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p')`))
	if err != nil {
		return err
	}
	for _, name := range schema.TablesOf(has.Version) {
		if !slices.Contains(there, name) {
			return fmt.Errorf("%w: its table %s is gone; restore it", ErrDatabase, name)
		}
	}
	var facts, leases int
	if err := tx.QueryRow(`SELECT (SELECT COUNT(*) FROM facts), (SELECT COUNT(*) FROM lease)`).Scan(&facts, &leases); err != nil {
		return err
	}
	if facts == 0 || leases == 0 {
		return fmt.Errorf("%w: it has been emptied; restore it", ErrDatabase)
	}
	return nil
}

// examineRights finds a table that this user may not do everything with. Those that
// others have put beside ours are theirs.
func (p *Engine) examineRights(tx *engine.Tx) error {
	var table, right, user, in string
	err := tx.QueryRow(`
		SELECT c.relname, r.name, current_user, n.nspname
		  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		 CROSS JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS r (name)
		 WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p') AND NOT has_table_privilege(current_user, c.oid, r.name)
		   AND c.relname = ANY($1::text[])
		 LIMIT 1`, schema.TablesOf(schema.Version)).Scan(&table, &right, &user, &in)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	} else if err != nil {
		return err
	}
	return fmt.Errorf("%w: user %s has no right to %s on table %s; run GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %s TO %s",
		ErrDatabase, user, right, table, in, user)
}

// explain says what to mend where a start failed. It never repeats the
// connection string, which may hold a password.
func (p *Engine) explain(err error) error {
	for _, known := range []error{ErrDatabase, schema.ErrVersion, schema.ErrUnfinished, engine.ErrKeys, engine.ErrNodes, engine.ErrInUse, engine.ErrNotEmpty, engine.ErrRow} {
		if errors.Is(err, known) {
			return err
		}
	}
	c := p.Pool.Config().ConnConfig
	hint := Mend(err, c, max(p.Pool.Config().MaxConns, LeastConns))
	if text := err.Error(); strings.Contains(text, "ParseConfig") || strings.Contains(text, c.Password) && c.Password != "" {
		err = errors.New("it cannot be reached")
	}
	text := strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "database: ")
	return fmt.Errorf("database: %w: %s; %s", kindOf(err, p.Options.URL), text, hint)
}

// kindOf is ErrDatabase where whoever connects by this URL is refused like this. A server
// that stops, or has no connection left, says nothing of the database; and a user of the
// machine with another name, or another password file, may be let in.
func kindOf(err error, address string) error {
	switch Code(err) {
	case "3D000":
		return ErrAbsent
	case "3F000", "42501", "42704": // no such schema, no right, a parameter that is unknown
		return ErrDatabase
	case "28P01": // the password is wrong
		if u, err := url.Parse(address); err == nil {
			if password, _ := u.User.Password(); password+u.Query().Get("password") != "" {
				return ErrDatabase
			}
		}
	}
	return ErrUnexamined
}

const throughBouncer = "behind pgbouncer in transaction mode write ?default_query_exec_mode=exec into database.url"

// Mend says what to do about an error of the start. most is how many connections a
// node opens.
func Mend(err error, c *pgx.ConnConfig, most int32) string {
	migrating := errors.As(err, new(*schema.Failed))
	switch Code(err) {
	case "28P01", "28000":
		return fmt.Sprintf("the server refuses user %s: see the password in database.url, and pg_hba.conf", c.User)
	case "3D000":
		return fmt.Sprintf("make it: createdb --encoding UTF8 --template template0 %s", c.Database)
	case "55P03":
		return "somebody holds the table, such as pg_dump: run it again afterwards"
	case "42501":
		if migrating {
			return "run it as the owner of the tables, with that user's database.url"
		}
		return fmt.Sprintf("user %s may not make tables here: ALTER DATABASE %s OWNER TO %s", c.User, c.Database, c.User)
	case "42704":
		return "the server does not know a parameter that stands in database.url"
	case "3F000":
		return "the schema that search_path names is not there: CREATE SCHEMA"
	case "25006":
		return "it is read-only: name the primary, or all servers with target_session_attrs=read-write"
	case "53300":
		return fmt.Sprintf("the server has no connection left: raise max_connections, each node opens up to %d", most)
	case "57014":
		return fmt.Sprintf("its statement_timeout is too short for a start: ALTER ROLE %s SET statement_timeout = 0", c.User)
	case "57P03":
		return "the server is starting or stopping: its log says why, such as a full disk"
	case "26000", "42P05":
		return throughBouncer
	case "08P01": // what pgbouncer says of itself, whatever it is
		switch text := err.Error(); {
		case strings.Contains(text, "prepared statement"):
			return throughBouncer
		case strings.Contains(text, "server_login_retry"), strings.Contains(text, "cannot connect to server"):
			return "pgbouncer reaches no PostgreSQL: see that it runs, and pgbouncer's log"
		case strings.Contains(text, "startup parameter"):
			return "name the parameter in pgbouncer's ignore_startup_parameters, or take it out of database.url"
		}
		return "pgbouncer's log, or the server's, says why"
	}
	switch {
	case causeOf(err) == engine.FullDisk:
		return "the server's disk is full"
	case migrating && Code(err) != "":
		return "it has changed nothing, and nodes go on: report the fault"
	case Code(err) == "" && strings.Contains(err.Error(), "standby mode"):
		return "it is a standby: name the primary, or all servers with target_session_attrs=read-write"
	case Code(err) == "" && strings.Contains(err.Error(), "server refused TLS"):
		return "the server offers no TLS: see its setting ssl, or sslmode in database.url"
	}
	return "see that PostgreSQL runs at " + net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))) + " and can be reached from here"
}
