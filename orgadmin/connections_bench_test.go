package orgadmin

import (
	"crypto/rand"
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

// manyConnections gives a site with so many approvals that live in Nordlys, past the
// store: of a client each and of a fifth as many people, made within two years. Half
// were reviewed of late.
func manyConnections(b *testing.B, place store.Options, driver, source string, n int) *site {
	b.Helper()
	s := openSite(b, place, nil)
	s.Furnish()
	now := s.Store.Now().Unix()
	s.Do(s.Store.Close())
	db, err := sql.Open(driver, source)
	s.Do(err)
	tx, err := db.Begin()
	s.Do(err)
	exec := func(text string, args ...any) {
		if _, err := tx.Exec(text, args...); err != nil {
			b.Fatal(text, err)
		}
	}
	for i := range n {
		client, person := fmt.Sprint("client-", i), fmt.Sprint("p", i/5)
		if i%5 == 0 {
			exec(`INSERT INTO person (id, email, email_key, name, active, support, epoch, password) VALUES ($1, $2, $2, $3, 1, 0, 0, '')`,
				person, person+"@nordlys.example", fmt.Sprint("Person ", i/5))
			exec(`INSERT INTO membership (person, organization, admin, present, epoch) VALUES ($1, 'nordlys', 0, 1, 0)`, person)
		}
		uri := fmt.Sprintf("https://app%d.example/cb", i%1000)
		exec(`INSERT INTO client (id, name, redirect_uris, issued_at, preregistered, approved, disabled, epoch, network)
			VALUES ($1, $2, $3, 1, 0, 1, 0, 0, '')`, client, fmt.Sprint("Assistant ", i), uri)
		kind, picks := "roles", "buddy=read facilitator=read treasurer=change"
		if i%10 == 0 {
			kind, picks = "everything", ""
		}
		id := make([]byte, 16)
		rand.Read(id)
		exec(`INSERT INTO approval (id, client, person, organization, grant_kind, picks, personal, redirect_uri, issuer,
			challenge, issued_at, created_at, replaces, membership_epoch, person_epoch, organization_epoch, client_epoch,
			phase, generation, key_number, reason, ended_at, used_at, reviewed_by, reviewed_at)
			VALUES ($1, $2, $3, 'nordlys', $4, $5, 0, $6, $7, $8, $9, $9, '', 0, 0, 0, 0, 2, 1, 1, '', 0, $10, 'person:ada', $11)`,
			id, client, person, kind, picks, uri, pagetest.Base, pagetest.Challenge(), now-int64(i)*2*365*86400/int64(n), now-86400, int64(i%2)*(now-86400))
	}
	s.Do(tx.Commit())
	if place.URL != "" { // as PostgreSQL does by itself within a minute
		_, err := db.Exec(`VACUUM ANALYZE`)
		s.Do(err)
	}
	s.Do(db.Close())
	return openSite(b, place, s.Clock)
}

// What the pages of an organization's admins take where 100,000 connections live, the
// page and all that it asks included, on both engines.
func BenchmarkAdminPages(b *testing.B) {
	b.Run("SQLite", func(b *testing.B) {
		place := pagetest.NewPlace(b)
		adminPages(b, manyConnections(b, place, "sqlite3", "file:"+place.Path+"?vfs=grantkeeper", 100_000))
	})
	pg, err := pgtest.Start()
	if err != nil {
		b.Fatal(err, "- run scripts/setup-debian.sh")
	}
	b.Cleanup(func() { pg.Stop() })
	b.Run("PostgreSQL", func(b *testing.B) {
		at, err := pg.Schema()
		if err != nil {
			b.Fatal(err)
		}
		adminPages(b, manyConnections(b, store.Options{URL: at}, "pgx", at, 100_000))
	})
}

func adminPages(b *testing.B, s *site) {
	s.Unlisted()
	s.WithRules(policy.Policy{ReviewDays: 365, Apps: []policy.App{{Host: "app.ledgerlens.example", Name: "Ledger Lens", Rule: policy.Ask}}})
	s.Asks("tor", "ledgerlens", "Figures.")
	ada := s.SignedIn("ada")
	next := ada.Get(pagetest.NordlysSettings).Want(200).Says("100,000 connections").Link("Next")
	for name, path := range map[string]string{
		"first": pagetest.NordlysSettings, "next": next, "unreviewed": pagetest.NordlysSettings + "?show=unreviewed", "unused": pagetest.NordlysSettings + "?show=unused",
		"beyond": pagetest.NordlysSettings + "?show=beyond", "find a host": pagetest.NordlysSettings + "?find=app7.example", "find a person": pagetest.NordlysSettings + "?find=Person+19999",
		"find nobody": pagetest.NordlysSettings + "?find=nobody+at+all", "requests": pagetest.NordlysRequests, "rules": pagetest.NordlysRules,
	} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				ada.Get(path).Want(200)
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2])/1e6, "p50-ms")
			b.ReportMetric(float64(took[len(took)*95/100])/1e6, "p95-ms")
		})
	}
}
