package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/org"
)

// manyApprovals puts n live approvals of three roles each into the file, past the
// writer, and gives their IDs.
func manyApprovals(b testing.TB, h house, n int) []approval.ID {
	b.Helper()
	ctx := context.Background()
	var conn *sql.Conn
	if embedded() {
		conn = h.embedded().Writer.Conn
	} else {
		var err error
		if conn, err = h.db.Reader.Conn(ctx); err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
	}
	exec := func(text string, args ...any) {
		if _, err := conn.ExecContext(ctx, text, args...); err != nil {
			b.Fatal(err)
		}
	}
	exec(`BEGIN`)
	ids := make([]approval.ID, n)
	for i := range ids {
		binary.BigEndian.PutUint64(ids[i][:], uint64(i)*0x9E3779B97F4A7C15)
		exec(`INSERT INTO approval (id, client, person, organization, grant_kind, picks, personal, redirect_uri, issuer,
			challenge, issued_at, created_at, replaces, membership_epoch, person_epoch, organization_epoch, client_epoch,
			phase, generation, key_number, reason, ended_at)
			VALUES ($1, 'quill', 'ada', 'nordlys', 'roles', 'buddy=read facilitator=read treasurer=change', 0, $2, $3, $4, $5, $5, '', 0, 0, 0, 0, 2, 1, 1, '', 0)`,
			ids[i][:], redirect, issuer, challenge(), h.Now().Unix())
	}
	exec(`COMMIT`)
	return ids
}

// Refreshes by 64 callers at once, each durable.
func BenchmarkRefresh64(b *testing.B) {
	h := furnished(b)
	ids := manyApprovals(b, h, 10_000)
	h.settle(b)
	h = h.reopen(b)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range 64 {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(b.N) {
					return
				}
				if v, err := h.refresh(ids[i%10_000], 1+i/10_000); v != approval.OK || err != nil {
					b.Error(i, v, err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "refreshes/s")
}

func BenchmarkCheck(b *testing.B) {
	h := furnished(b)
	id := h.live(b, h.answer(1))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Check(context.Background(), id); err != nil {
			b.Fatal(err)
		}
	}
}

// Opening a file of a million live approvals, and what each takes in memory.
func BenchmarkOpenMillion(b *testing.B) {
	const n = 1_000_000
	h := house{clock: &machine{now: time.Unix(1_800_000_000, 0)}, path: filepath.Join(b.TempDir(), "million.db"), ring: ring(b)}
	h = open(b, h.path, h.clock)
	h.furnish(b)
	manyApprovals(b, h, n)
	h.Close()
	if info, err := os.Stat(h.path); err == nil {
		b.ReportMetric(float64(info.Size())/n, "file-bytes/approval")
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for b.Loop() {
		start := time.Now()
		h = h.reopen(b)
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms-to-open")
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "heap-bytes/approval")
}

// Loading all facts again, on PostgreSQL: 100,000 people in organizations of a thousand, ten
// in a role.
func BenchmarkLoadAll(b *testing.B) {
	if embedded() {
		b.Skip("the embedded engine loads none again")
	}
	h := furnished(b)
	ok(b, h.AddDirectory(ctx, town(100_000), Act{}))
	p := h.postgres()
	conn, err := p.Pool.Acquire(ctx)
	ok(b, err)
	defer conn.Release()
	for b.Loop() {
		ok(b, p.Load(ctx, conn.Conn(), true, func() {}))
	}
}

// town is a directory of so many people, in organizations of a thousand and roles of ten.
func town(people int) (d directory.Directory) {
	for i := range people {
		id, in, role := fmt.Sprint("new-", i), fmt.Sprint("town-", i/1000), fmt.Sprint("town-role-", i/10)
		if i%1000 == 0 {
			d.Organizations = append(d.Organizations, org.Organization{ID: in, Name: in})
		}
		if i%10 == 0 {
			d.Roles = append(d.Roles, org.Role{ID: role, Organization: in, Name: role})
		}
		d.People = append(d.People, directory.Person{Person: org.Person{ID: id, Email: id + "@town.example", Name: "Name of " + id, Active: true}})
		d.Members = append(d.Members, directory.Member{Person: id, Organization: in})
		d.Fillers = append(d.Fillers, directory.Filler{Role: role, Person: id})
	}
	return d
}

// Checks by 64 callers at once: of approvals that were read before and, on
// PostgreSQL, of such as were not, and within a bound on staleness.
func BenchmarkCheck64(b *testing.B) {
	h := furnished(b)
	ids := manyApprovals(b, h, 10_000)
	h.settle(b)
	for _, c := range []struct {
		name      string
		room      int
		staleness time.Duration
	}{{"known", 0, 0}, {"unknown", 1, 0}, {"bounded", 0, 5 * time.Second}} {
		if embedded() && c.name != "known" {
			continue
		}
		b.Run(c.name, func(b *testing.B) {
			h := h.reopen(b)
			if h.db.Options.MaxStaleness = c.staleness; c.room > 0 {
				h.postgres().Rows.Most = c.room
			}
			at64(b, func(i int64) {
				if _, err := h.Check(context.Background(), ids[i%10_000]); err != nil {
					b.Error(i, err)
				}
			})
		})
	}
}

// Registrations by 64 callers at once, each durable.
func BenchmarkRegister64(b *testing.B) {
	h := furnished(b)
	at64(b, func(i int64) {
		c := client.Client{ID: fmt.Sprintf("client-%d-%d", b.N, i), Name: "Quill", RedirectURIs: []string{redirect}, IssuedAt: h.Now().Unix()}
		if err := h.AddClient(context.Background(), c, Origin{}, Act{Actor: "client:quill"}); err != nil {
			b.Error(i, err)
		}
	})
}

// Exchanges by 64 callers at once, each durable.
func BenchmarkExchange64(b *testing.B) {
	h := furnished(b)
	ids := manyApprovals(b, h, b.N)
	sum := sha256.Sum256([]byte(verifier))
	h.sql(b, `UPDATE approval SET phase = 1, generation = 0, challenge = '`+base64.RawURLEncoding.EncodeToString(sum[:])+`'`)
	h.settle(b)
	h = h.reopen(b)
	issued := h.Now().Unix()
	at64(b, func(i int64) {
		if v, err := h.exchange(ids[i], issued); v != approval.OK || err != nil {
			b.Error(i, v, err)
		}
	})
}

// settle leaves the rows as they are after a while: PostgreSQL knows how many
// there are, and each page has its room.
func (h house) settle(b *testing.B) {
	if !embedded() {
		h.sql(b, `VACUUM FULL approval`)
		h.sql(b, `ANALYZE approval`)
	}
}

// at64 lets 64 callers do b.N things.
func at64(b *testing.B, do func(int64)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	begin := processorTime()
	for range 64 {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(b.N) {
					return
				}
				do(i)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(processorTime()-begin)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "/s")
}

// processorTime is what this process has used of the processors: the server of
// PostgreSQL is another.
func processorTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
