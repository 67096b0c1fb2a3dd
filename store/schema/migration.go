// Package schema has the tables: numbered files, each a migration, and what a database
// says of the ones it has. Both engines run them, each in its own transactions.
package schema

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

//go:embed 0*.sql
var files embed.FS

// Version is the newest schema that this release knows: the number of
// the last file of this folder.
const Version = 12

// ErrVersion is for a database whose schema is of another release, ErrForeign for what is
// not a database of Grantkeeper.
var (
	ErrVersion = errors.New("the database has a schema of another release")
	ErrForeign = errors.New("not a database of Grantkeeper")
)

// A Migration is one number: it takes the schema before to its version. They
// go forward only, and each keeps the release before able to run.
type Migration struct {
	Version  int
	SQL      string // for both engines
	Postgres string // what PostgreSQL has beside it, after it
	Oldest   int    // releases of this schema and newer work beside it; 0 is none but its own
}

// oldest is what the first line of a migration says.
var oldest = regexp.MustCompile(`^-- Releases of schema (\d+) and newer work beside it\.\n`)

// Migrations are those of this release, from 1 on.
func Migrations() []Migration {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		panic(err) // the pattern is right
	}
	var all []Migration
	for _, name := range names { // 0001.postgres.sql comes before 0001.sql
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // it is in the binary
		}
		number, kind, _ := strings.Cut(path.Base(name), ".")
		version, err := strconv.Atoi(number)
		if err != nil || version < len(all) || version > len(all)+1 {
			panic("schema: " + name + " is not the next number")
		}
		if version > len(all) {
			all = append(all, Migration{Version: version})
		}
		m := &all[version-1]
		if kind == "postgres.sql" {
			m.Postgres = string(text)
			continue
		}
		m.SQL, m.Oldest = string(text), version
		if says := oldest.FindStringSubmatch(m.SQL); says != nil {
			m.Oldest, _ = strconv.Atoi(says[1])
		}
	}
	return all
}

// Text is what an engine runs.
func (m Migration) Text(postgres bool) string {
	if postgres {
		return m.SQL + m.Postgres
	}
	return m.SQL
}

// Saying gives the rows of meta that a migration leaves.
func (m Migration) Saying(release string) map[string]string {
	return map[string]string{MetaVersion: strconv.Itoa(m.Version), MetaOldest: strconv.Itoa(max(m.Oldest, 1)), MetaRelease: release}
}

// Pending are the migrations that a schema lacks, up to a version; 0 is all.
func Pending(all []Migration, has, to int) (pending []Migration) {
	for _, m := range all {
		if m.Version > has && (to == 0 || m.Version <= to) {
			pending = append(pending, m)
		}
	}
	return pending
}

// Make runs all migrations in an empty database, and writes into meta what they
// leave.
func Make(postgres bool, release string, exec func(text string) error, put func(name, value string) error) error {
	for _, m := range Migrations() {
		if err := exec(m.Text(postgres)); err != nil {
			return fmt.Errorf("database: schema %d: %w", m.Version, err)
		}
		for name, value := range m.Saying(release) {
			if err := put(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// ChangesRows reports whether it does more than to change tables.
func (m Migration) ChangesRows() bool {
	text := " " + strings.Join(strings.Fields(strings.ToUpper(m.SQL+" "+m.Postgres)), " ")
	for _, word := range []string{" INSERT ", " UPDATE ", " DELETE "} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

var tableMade = regexp.MustCompile(`(?m)^CREATE TABLE (\w+)`)

// TablesOf names the tables that migrations make, up to a version.
func TablesOf(version int) (names []string) {
	for _, m := range Migrations() {
		if m.Version > version {
			break
		}
		for _, made := range tableMade.FindAllStringSubmatch(m.SQL+m.Postgres, -1) {
			names = append(names, made[1])
		}
	}
	return names
}
