package main

import (
	"context"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store"
)

// smallPostgres ends with the test, and gives nothing back by itself.
func smallPostgres(t *testing.T) *postgres {
	t.Helper()
	p, err := startPostgres("64MB", "autovacuum = off")
	if err != nil {
		t.Fatal(err, "- run scripts/setup-debian.sh")
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// What is written past the store is what the store finds, and pgbench answers
// on the same server.
func TestStockOnPostgres(t *testing.T) {
	p := smallPostgres(t)
	s, err := newStock(300)
	if err != nil {
		t.Fatal(err)
	}
	s.people = 50
	url, asked, err := p.place(context.Background(), s, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := asked(`SELECT SUM(generation) FROM approval WHERE phase = 2`); err != nil || n != 300 {
		t.Errorf("%d, %v", n, err)
	}
	db, err := store.Open(context.Background(), store.Options{URL: url, Ring: s.ring})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	id := approval.ID(s.handle(299).ID())
	a, err := db.Check(context.Background(), id)
	if err != nil || !a.Approval.Accepts(a.Standing, 1, db.Now().Unix()+60, db.Now()) || len(a.Approval.Grant.Picks) != filledEach {
		t.Errorf("%+v, %v", a.Approval, err)
	}
	if rate, err := p.pgbench(context.Background(), 4, 100, time.Second); err != nil || rate <= 0 {
		t.Errorf("pgbench: %v, %v", rate, err)
	}
}
