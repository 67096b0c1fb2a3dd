package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/org"
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
	made      int64 // Unix seconds: when codes were issued and approvals made
	grown     bool  // approvals of a month ago
	chosen    []int // numbers of those that are asked for; nil is all

	// skewed gives what an approval has that most have not; nil where all are
	// alike.
	skewed func(number int, r *stocked)
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

func newStock(approvals int, phase approval.Phase) (*stock, error) {
	s := &stock{people: people, approvals: approvals, phase: phase, made: time.Now().Unix()}
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

func (s *stock) directory() store.Directory {
	var d store.Directory
	for o := range s.people / membersEach {
		id := organizationOf(o * membersEach)
		root, inner := fmt.Sprintf("circle-%04d-0", o), fmt.Sprintf("circle-%04d-1", o)
		d.Organizations = append(d.Organizations, org.Organization{ID: id, Name: id, AIIntegration: true})
		d.Circles = append(d.Circles,
			org.Circle{ID: root, Organization: id, Name: "Whole"},
			org.Circle{ID: inner, Organization: id, Parent: root, Name: "Inner"})
		for r := range rolesEach {
			circle := root
			if r%2 == 1 {
				circle = inner
			}
			d.Roles = append(d.Roles, org.Role{ID: roleID(o, r), Organization: id, Circle: circle, Name: fmt.Sprintf("Role %d", r)})
		}
	}
	for p, id := range personIDs[:s.people] {
		d.People = append(d.People, store.DirectoryPerson{
			Person: org.Person{ID: id, Email: id + "@client.example", Name: "Person " + id, Active: true},
		})
		d.Members = append(d.Members, store.DirectoryMember{Person: id, Organization: organizationOf(p), Admin: p%membersEach == 0})
		for r := range filledEach {
			d.Fillers = append(d.Fillers, store.Filler{Role: roleID(p/membersEach, p%membersEach+r), Person: id})
		}
	}
	return d
}

const databaseName = "grantkeeper.db"

// write makes the key file and the database in a folder.
func (s *stock) write(ctx context.Context, folder string) error {
	if err := s.writeKey(folder); err != nil {
		return err
	}
	path := filepath.Join(folder, databaseName)
	if err := s.writeFacts(ctx, store.Options{Path: path}, s.directory()); err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	if err := s.writeApprovals(path); err != nil {
		return fmt.Errorf("approvals: %w", err)
	}
	return syncFile(path)
}

func (s *stock) writeKey(folder string) error {
	key := base64.StdEncoding.EncodeToString(s.secret[:]) + "\n"
	return os.WriteFile(filepath.Join(folder, "secret.key"), []byte(key), 0o600)
}

// writeFacts puts a directory and the clients into the database that at names.
func (s *stock) writeFacts(ctx context.Context, at store.Options, d store.Directory) (err error) {
	at.Ring = s.ring
	db, err := store.Open(ctx, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	act := store.Act{Actor: "system", Reason: "bench"}
	if err := db.AddDirectory(ctx, d, act); err != nil {
		return err
	}
	for _, id := range clientIDs {
		c := client.Client{ID: id, Name: id, RedirectURIs: []string{redirectURI}, IssuedAt: s.made, Approved: true}
		if err := db.AddClient(ctx, c, store.Origin{}, act); err != nil {
			return err
		}
	}
	return nil
}

// writeApprovals puts the rows into the file, past the store, which has no
// need for a million at once. Nothing is on the disk before syncFile.
func (s *stock) writeApprovals(path string) (err error) {
	db, err := sqlite3.Open("file:" + path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	indexes, err := indexesOf(db, "approval")
	if err != nil {
		return err
	}
	// The indexes are made at the end, from what is there: much quicker.
	text := "PRAGMA journal_mode=off; PRAGMA synchronous=off; PRAGMA cache_size=-50000; PRAGMA temp_store=file; BEGIN;"
	for name := range indexes {
		text += "DROP INDEX " + name + ";"
	}
	if err := db.Exec(text); err != nil {
		return err
	}
	if err := s.insert(db); err != nil {
		return err
	}
	text = ""
	for _, index := range indexes {
		text += index + ";"
	}
	return db.Exec(text + "COMMIT; PRAGMA journal_mode=wal;")
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

func (s *stock) insert(db *sqlite3.Conn) error {
	st, _, err := db.Prepare(`
		INSERT INTO approval (id, client, person, organization, grant_kind, picks, personal,
		       redirect_uri, issuer, challenge, issued_at, created_at, replaces,
		       membership_epoch, person_epoch, organization_epoch, client_epoch,
		       phase, generation, used_at, key_number, reason, ended_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, ?8, ?9, ?10, ?10, '', 0, 0, 0, 0, ?11, ?12, ?15, MIN(?12, 1), ?13, ?14)`)
	if err != nil {
		return err
	}
	defer st.Close()
	if err := errors.Join(st.BindText(7, redirectURI), st.BindText(8, issuer), st.BindText(9, challenge())); err != nil {
		return err
	}
	row := s.rows()
	for number := range s.approvals {
		id, r := s.handle(number).ID(), row(number)
		if err := errors.Join(st.BindBlob(1, id[:]), st.BindText(2, r.client), st.BindText(3, r.person),
			st.BindText(4, r.organization), st.BindText(5, r.grant), st.BindText(6, r.picks), st.BindInt64(10, r.created),
			st.BindInt(11, int(r.phase)), st.BindInt64(12, r.generation), st.BindText(13, r.reason), st.BindInt64(14, r.ended),
			st.BindInt64(15, s.used(r)),
			st.Exec()); err != nil {
			return err
		}
	}
	return nil
}

// syncFile has the file on the disk before anything is measured.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// ask gives the one number that a query finds in the database of a server
// that is gone.
func ask(path, query string) (n int64, err error) {
	db, err := sqlite3.Open("file:" + path)
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
