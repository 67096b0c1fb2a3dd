package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// The directory: every person is in one organization, fills three of its
// roles, and approved clients with these three.
const (
	people      = 4_000
	membersEach = 10 // of an organization
	rolesEach   = 6  // of an organization
	filledEach  = 3  // by a person
	clients     = 20

	mostPeople = 70_000 // that there are names for
)

const (
	issuer      = "https://" + host
	redirectURI = "https://client.example/callback"
	verifier    = "a-verifier-of-the-generator-that-is-long-enough"
	prefix      = "sv"
)

// A stock is what a scenario needs in the database, and the key to it.
type stock struct {
	ring      *token.Ring
	secret    [32]byte
	people    int
	approvals int
	phase     approval.Phase
	made      int64     // Unix seconds: when codes were issued and approvals made
	grown     bool      // approvals of a month ago
	chosen    []int     // numbers of those that are asked for; nil is all
	holder    *holder   // of half of the approvals (isHeld); nil is of none
	halves    [2]*stock // those without it, and those with it

	// skewed gives what an approval has that most have not; nil where all are
	// alike.
	skewed func(number int, r *stocked)
	// journaled has the journal say what became of each approval.
	journaled bool
}

// A stocked is the row of an approval, as far as rows differ.
type stocked struct {
	client, person, organization string
	grant, picks                 string
	phase                        approval.Phase
	generation                   int64 // and number of the key: none before the exchange
	created, ended               int64
	reason                       string
}

// newStock gives so many live approvals.
func newStock(approvals int) (*stock, error) {
	s := &stock{people: people, approvals: approvals, phase: approval.Live, made: time.Now().Unix()}
	rand.Read(s.secret[:])
	var err error
	s.ring, err = token.NewRing(prefix, 1, token.NewKey(1, s.secret))
	return s, err
}

// handle is that of the approval with the number, as random as any.
func (s *stock) handle(number int) token.Handle {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(s.secret[:len(s.secret):len(s.secret)], uint64(number)))
	return token.Handle(sum[:16])
}

// asked is how many approvals are asked for.
func (s *stock) asked() int {
	if s.chosen != nil {
		return len(s.chosen)
	}
	return s.approvals
}

// inOrganization is the most approvals of one organization that are asked for.
func (s *stock) inOrganization() (most int) {
	if s.chosen == nil {
		return membersEach * max(1, (s.approvals+s.people-1)/s.people)
	}
	of := make([]int, s.people/membersEach+1)
	for _, number := range s.chosen {
		at := number % s.people / membersEach
		of[at]++
		most = max(most, of[at])
	}
	return most
}

// Names are made beforehand: the generator asks for them all the time.
var personIDs, clientIDs = names("person-%05d", mostPeople), names("client-%02d", clients)

// populate gives the stock so many people.
func (s *stock) populate(people int) {
	s.people = people
	if people > len(personIDs) {
		personIDs = names("person-%05d", people)
	}
}

func names(form string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(form, i)
	}
	return all
}

// personOf and clientOf say whose approval it is, and for whom. People approve
// in turn.
func (s *stock) personOf(number int) string { return personIDs[number%s.people] }
func (s *stock) clientOf(number int) string { return clientIDs[(number+number/s.people)%clients] }

// rows gives the row of each approval by its number.
func (s *stock) rows() func(number int) stocked {
	grants := make([]string, s.people)
	for person := range grants {
		grants[person] = picks(person)
	}
	return func(number int) stocked {
		person := number % s.people
		r := stocked{client: s.clientOf(number), person: s.personOf(number), organization: organizationOf(person),
			grant: "roles", picks: grants[person], phase: s.phase, created: s.made}
		if s.phase == approval.Live {
			r.generation = 1
		}
		if s.skewed != nil {
			s.skewed(number, &r)
		}
		return r
	}
}

// used is the last use of an approval: what lives was refreshed just now, as whoever
// calls was, and those of generation 2 were never used after they were made.
func (s *stock) used(r stocked) int64 {
	switch {
	case r.phase != approval.Live:
		return 0
	case r.generation == 2:
		return r.created
	}
	return s.made
}

func organizationOf(person int) string { return fmt.Sprintf("organization-%04d", person/membersEach) }
func roleID(organization, role int) string {
	return fmt.Sprintf("role-%04d-%d", organization, role%rolesEach)
}

func challenge() string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// picks is the grant set of a person: the roles that they fill, in order.
func picks(person int) string {
	var all []string
	for role := range rolesEach {
		if (role-person%membersEach+2*rolesEach)%rolesEach < filledEach {
			access := "read"
			if role%2 == 0 {
				access = "change"
			}
			all = append(all, roleID(person/membersEach, role)+"="+access)
		}
	}
	return strings.Join(all, " ")
}

// A table is rows that are written past the store, which has no need for a million at
// once.
type table struct {
	name, columns string
	rows          iter.Seq[[]any] // of string, int64 and []byte
}

// count gives rows by their number.
func count(n int, row func(i int) []any) iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		for i := range n {
			if !yield(row(i)) {
				return
			}
		}
	}
}

// tables are the directory, the approvals, and perhaps the journal. Each organization has
// a circle in another one, and roles in both.
func (s *stock) tables() []table {
	organizations := (s.people + membersEach - 1) / membersEach
	all := []table{
		{"person", "id email email_key name active support epoch password", count(s.people, func(p int) []any {
			email := personIDs[p] + "@client.example"
			return []any{personIDs[p], email, email, "Person " + personIDs[p], int64(1), int64(0), int64(0), ""}
		})},
		{"organization", "id name ai_integration epoch", count(organizations, func(o int) []any {
			id := organizationOf(o * membersEach)
			return []any{id, id, int64(1), int64(0)}
		})},
		{"membership", "person organization admin present epoch", count(s.people, func(p int) []any {
			admin := int64(0)
			if p%membersEach == 0 {
				admin = 1
			}
			return []any{personIDs[p], organizationOf(p), admin, int64(1), int64(0)}
		})},
		{"circle", "id organization parent name", count(2*organizations, func(i int) []any {
			if i%2 == 0 {
				return []any{circleID(i/2, 0), organizationOf(i / 2 * membersEach), "", "Whole"}
			}
			return []any{circleID(i/2, 1), organizationOf(i / 2 * membersEach), circleID(i/2, 0), "Inner"}
		})},
		{"role", "id organization circle name", count(rolesEach*organizations, func(i int) []any {
			o, r := i/rolesEach, i%rolesEach
			return []any{roleID(o, r), organizationOf(o * membersEach), circleID(o, r%2), fmt.Sprintf("Role %d", r)}
		})},
		{"filler", "role person", count(filledEach*s.people, func(i int) []any {
			p := i / filledEach
			return []any{roleID(p/membersEach, p%membersEach+i%filledEach), personIDs[p]}
		})},
		s.approvalTable(),
	}
	if s.journaled {
		all = append(all, s.journalTable())
	}
	return all
}

func circleID(organization, circle int) string {
	return fmt.Sprintf("circle-%04d-%d", organization, circle)
}

// monthOld is the age of grown approvals, in seconds: a sweep looks through all that was
// made of late.
const monthOld = 30 * 24 * 60 * 60

func (s *stock) approvalTable() table {
	row, older, zero := s.rows(), int64(0), int64(0)
	if s.grown {
		older = monthOld
	}
	return table{"approval", "id client person organization grant_kind picks personal redirect_uri issuer challenge issued_at created_at replaces " +
		"membership_epoch person_epoch organization_epoch client_epoch phase generation used_at key_number reason ended_at bound",
		count(s.approvals, func(number int) []any {
			id, r, bound := s.handle(number).ID(), row(number), []byte{}
			if s.holder != nil && r.phase == approval.Live && isHeld(number) {
				bound = s.holder.thumbprint[:]
			}
			return []any{id[:], r.client, r.person, r.organization, r.grant, r.picks, zero, redirectURI, issuer, challenge(), r.created - older, r.created - older, "",
				zero, zero, zero, zero, int64(r.phase), r.generation, s.used(r), min(r.generation, 1), r.reason, r.ended, bound}
		})}
}

// journalTable says of each approval that it was granted, exchanged, and perhaps that it
// ended; here all at one moment.
func (s *stock) journalTable() table {
	row := s.rows()
	return table{"journal", "id at kind client person organization approval actor address reason detail reference", func(yield func([]any) bool) {
		for number := range s.approvals {
			r, id := row(number), s.handle(number).ID()
			for i, kind := range []string{"approval_granted", "code_exchanged", "approval_ended"} {
				at := fmt.Sprintf("%016x%08x", (r.created*1000)<<16+int64(number%1000*3+i), number)
				if kind == "approval_ended" && r.phase != approval.Ended {
					break
				}
				if !yield([]any{at, r.created, kind, r.client, r.person, r.organization, fmt.Sprintf("%x", id[:]),
					"person:" + r.person, "198.51.100.7", r.reason, "", reference(number)}) {
					return
				}
			}
		}
	}}
}

const databaseName = "grantkeeper.db"

func (s *stock) writeKey(folder string) error {
	key := base64.StdEncoding.EncodeToString(s.secret[:]) + "\n"
	return os.WriteFile(filepath.Join(folder, "secret.key"), []byte(key), 0o600)
}

// writeClients makes the database that at names, and puts the clients into it.
func (s *stock) writeClients(ctx context.Context, at store.Options) (err error) {
	at.Ring = s.ring
	db, err := store.Open(ctx, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, id := range clientIDs {
		c := client.Client{ID: id, Name: id, RedirectURIs: []string{redirectURI}, IssuedAt: s.made, Approved: true}
		if err := db.AddClient(ctx, c, store.Origin{}, store.Act{Actor: "system", Reason: "bench"}); err != nil {
			return err
		}
	}
	return nil
}

// write makes the key file and the database in a folder, on the disk before anything is
// measured. Indexes of approvals are made from what is there.
func (s *stock) write(ctx context.Context, folder string) (err error) {
	path := filepath.Join(folder, databaseName)
	if err := errors.Join(s.writeKey(folder), s.writeClients(ctx, store.Options{Path: path})); err != nil {
		return err
	}
	db, err := sqlite3.Open("file:" + path + "?vfs=grantkeeper")
	if err != nil {
		return err
	}
	if err := s.writeTables(db); err != nil {
		return errors.Join(err, db.Close())
	}
	if err := db.Close(); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (s *stock) writeTables(db *sqlite3.Conn) error {
	indexes, err := indexesOf(db, "approval")
	if err != nil {
		return err
	}
	again := ""
	if err := db.Exec("PRAGMA journal_mode=off; PRAGMA synchronous=off; BEGIN"); err != nil {
		return err
	}
	for name, text := range indexes {
		if err := db.Exec("DROP INDEX " + name); err != nil {
			return err
		}
		again += text + ";"
	}
	for _, t := range s.tables() {
		if err := t.insert(db); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return db.Exec(again + "COMMIT; PRAGMA journal_mode=wal")
}

func (t table) insert(db *sqlite3.Conn) error {
	columns := strings.Fields(t.columns)
	st, _, err := db.Prepare("INSERT INTO " + t.name + " (" + strings.Join(columns, ", ") + ") VALUES (?" + strings.Repeat(", ?", len(columns)-1) + ")")
	if err != nil {
		return err
	}
	defer st.Close()
	for row := range t.rows {
		for i, v := range row {
			switch v := v.(type) {
			case string:
				err = st.BindText(i+1, v)
			case int64:
				err = st.BindInt64(i+1, v)
			case []byte:
				err = st.BindBlob(i+1, v)
			}
			if err != nil {
				return err
			}
		}
		if err := st.Exec(); err != nil {
			return err
		}
	}
	return nil
}

func indexesOf(db *sqlite3.Conn, table string) (map[string]string, error) {
	st, _, err := db.Prepare(`SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL`)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	if err := st.BindText(1, table); err != nil {
		return nil, err
	}
	all := map[string]string{}
	for st.Step() {
		all[st.ColumnText(0)] = st.ColumnText(1)
	}
	return all, st.Err()
}

// askFile asks the database of a server that is gone.
func askFile(path string) asked {
	return func(query string) (n int64, err error) {
		db, err := sqlite3.Open("file:" + path + "?vfs=grantkeeper")
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		st, _, err := db.Prepare(query)
		if err != nil {
			return 0, err
		}
		defer st.Close()
		if !st.Step() {
			return 0, errors.Join(st.Err(), errors.New("the query gave no row"))
		}
		return st.ColumnInt64(0), nil
	}
}
