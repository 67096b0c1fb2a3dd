package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store/approvals"
	"github.com/grantkeeper/grantkeeper/store/oversight"
)

// connectMany puts so many approvals that live into one organization, past the writer: of a
// client each, as installations register themselves, and of a fifth as many people. They
// were made within two years, used and reviewed of late, and have no end date.
func (h house) connectMany(b *testing.B, n int) house {
	b.Helper()
	conn, err := h.db.Reader.Conn(ctx)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	if embedded() {
		conn = h.embedded().Writer.Conn
	}
	exec := func(text string, args ...any) {
		if _, err := conn.ExecContext(ctx, text, args...); err != nil {
			b.Fatal(text, err)
		}
	}
	now := h.Now().Unix()
	exec(`BEGIN`)
	if !embedded() { // a statement each instead
		exec(`INSERT INTO person (id, email, email_key, name, active, support, epoch, password)
			SELECT 'p' || i, 'p' || i || '@nordlys.example', 'p' || i || '@nordlys.example', 'Person ' || i, 1, 0, 0, '' FROM generate_series(0, $1::bigint / 5 - 1) AS i`, n)
		exec(`INSERT INTO membership (person, organization, admin, present, epoch)
			SELECT 'p' || i, 'nordlys', 0, 1, 0 FROM generate_series(0, $1::bigint / 5 - 1) AS i`, n)
		exec(`INSERT INTO client (id, name, redirect_uris, issued_at, preregistered, approved, disabled, epoch, network)
			SELECT 'client-' || i, 'Assistant ' || i, 'https://assistant.example/callback', 1, 0, 1, 0, 0, '' FROM generate_series(0, $1::bigint - 1) AS i`, n)
		exec(`INSERT INTO approval (id, client, person, organization, grant_kind, picks, personal, redirect_uri, issuer,
			challenge, issued_at, created_at, replaces, membership_epoch, person_epoch, organization_epoch, client_epoch,
			phase, generation, key_number, reason, ended_at, used_at, reviewed_by, reviewed_at)
			SELECT decode(md5(i::text), 'hex'), 'client-' || i, 'p' || i / 5, 'nordlys', CASE WHEN i % 10 = 0 THEN 'everything' ELSE 'roles' END,
			       CASE WHEN i % 10 = 0 THEN '' ELSE 'buddy=read facilitator=read treasurer=change' END, 0, 'https://assistant.example/callback', $2, $3,
			       $4::bigint - i * 63072000 / $1::bigint, $4::bigint - i * 63072000 / $1::bigint, '', 0, 0, 0, 0, 2, 1, 1, '', 0, $4::bigint - 86400, 'person:ada', $4::bigint - 86400
			  FROM generate_series(0, $1::bigint - 1) AS i`, n, issuer, challenge(), now)
		exec(`COMMIT`)
		exec(`VACUUM ANALYZE`) // as it does by itself within a minute
		conn.Close()
		return h.reopen(b)
	}
	for i := range n {
		client, person := fmt.Sprint("client-", i), fmt.Sprint("p", i/5)
		if i%5 == 0 {
			exec(`INSERT INTO person (id, email, email_key, name, active, support, epoch, password) VALUES ($1, $2, $2, $3, 1, 0, 0, '')`,
				person, person+"@nordlys.example", fmt.Sprint("Person ", i/5))
			exec(`INSERT INTO membership (person, organization, admin, present, epoch) VALUES ($1, 'nordlys', 0, 1, 0)`, person)
		}
		exec(`INSERT INTO client (id, name, redirect_uris, issued_at, preregistered, approved, disabled, epoch, network)
			VALUES ($1, $2, 'https://assistant.example/callback', 1, 0, 1, 0, 0, '')`, client, fmt.Sprint("Assistant ", i))
		kind, picks := "roles", "buddy=read facilitator=read treasurer=change"
		if i%10 == 0 {
			kind, picks = "everything", ""
		}
		id := approval.ID(h.unique(i).Handle(0).ID())
		exec(`INSERT INTO approval (id, client, person, organization, grant_kind, picks, personal, redirect_uri, issuer,
			challenge, issued_at, created_at, replaces, membership_epoch, person_epoch, organization_epoch, client_epoch,
			phase, generation, key_number, reason, ended_at, used_at, reviewed_by, reviewed_at)
			VALUES ($1, $2, $3, 'nordlys', $4, $5, 0, 'https://assistant.example/callback', $6, $7, $8, $8, '', 0, 0, 0, 0, 2, 1, 1, '', 0, $9, 'person:ada', $9)`,
			id[:], client, person, kind, picks, issuer, challenge(), now-int64(i)*2*365*86400/int64(n), now-86400)
	}
	exec(`COMMIT`)
	return h.reopen(b)
}

// What pages of an organization's connections take where 100,000 live: the filters that
// let nothing through, and so look at all, first.
func BenchmarkConnections(b *testing.B) {
	defer func(d time.Duration) { approvals.LongWalk = d }(approvals.LongWalk)
	approvals.LongWalk = 50 * time.Millisecond
	h := furnished(b).connectMany(b, 100_000)
	rules := policy.Policy{Apps: []policy.App{{Host: "other.example", Name: "Other", Rule: policy.Ask}}}
	for name, f := range map[string]ConnectionFilter{
		"1 find nobody":       {Find: "nobody at all"},
		"1 find a foreign":    {Find: "ørsted"},
		"1 find the last":     {Find: "assistant 99999"},
		"1 unused":            {Show: ShowUnused},
		"1 unreviewed":        {Show: ShowUnreviewed},
		"1 ending":            {Show: ShowEnding},
		"1 beyond":            {Show: ShowBeyond},
		"2 find one person":   {Find: "p12345@"},
		"2 find everybody":    {Find: "nordlys.example"},
		"2 unused and nobody": {Show: ShowUnused, Find: "nobody at all"},
		"3 all":               {},
		"3 everything":        {Access: "everything"},
	} {
		b.Run(name, func(b *testing.B) {
			if strings.HasSuffix(name, "beyond") {
				h.rules(b, rules)
			}
			f.Organization = "nordlys"
			var took []float64
			var walks, pages int
			for b.Loop() {
				walks++
				for f.After = ""; ; {
					start := time.Now()
					_, next, err := h.Connections(ctx, f)
					if err != nil {
						b.Fatal(err)
					}
					took = append(took, float64(time.Since(start))/1e6)
					if pages++; next == "" || pages >= 100*walks {
						break
					}
					f.After = next
				}
			}
			report(b, took)
			b.ReportMetric(float64(pages)/float64(walks), "pages")
		})
	}
	b.Run("counts", func(b *testing.B) {
		var took []float64
		for b.Loop() {
			start := time.Now()
			if n, err := h.ConnectionCounts(ctx, "nordlys"); err != nil || n.Connections != 100_000 || n.People != 20_000 {
				b.Fatal(n, err)
			}
			took = append(took, float64(time.Since(start))/1e6)
		}
		report(b, took)
	})
	b.Run("effects", func(b *testing.B) {
		p, _ := h.Policy(ctx, "nordlys")
		for b.Loop() {
			if _, err := h.PolicyEffects(ctx, Rules{Organization: "nordlys", Seen: oversight.Version(p), Policy: policy.Policy{MaxDays: 30}}); err != nil {
				b.Fatal(err)
			}
		}
	})
	start := time.Now()
	_, effects := h.rules(b, policy.Policy{MaxDays: 30, Apps: []policy.App{{Host: "assistant.example", Name: "A", Rule: policy.Block}}})
	b.Logf("a block of %d connections took %v", effects[0].Connections, time.Since(start))
}

func report(b *testing.B, took []float64) {
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2], "p50-ms")
	b.ReportMetric(took[len(took)*95/100], "p95-ms")
	b.ReportMetric(took[len(took)-1], "most-ms")
}

// How long after a lowered ceiling is acknowledged on one of three nodes each of them
// narrows an approval, in turn: what nobody may wait 50 ms for.
func BenchmarkLoweredCeiling(b *testing.B) {
	all := nodes(b, 3)
	h := all[0]
	a := h.answer(1)
	a.Grant = grantset.Set{Kind: grantset.Everything}
	id := h.live(b, a)
	var took []time.Duration
	for n := 0; b.Loop(); n++ {
		h.rules(b, policy.Policy{Ceiling: grantset.Ceiling{ReadOnly: n%2 == 0}})
		for _, node := range all {
			start := time.Now()
			for {
				now, err := node.Check(ctx, id)
				if err != nil {
					b.Fatal(err)
				}
				if now.ReadOnly() == (n%2 == 0) {
					break
				}
			}
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2])/1e6, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100])/1e6, "p99-ms")
	b.ReportMetric(float64(took[len(took)-1])/1e6, "max-ms")
}
