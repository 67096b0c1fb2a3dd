package faults

import (
	"testing"

	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

// The main job on three nodes through pgbouncer in transaction mode, which is killed and
// started again, as nodes and the database are: callers are told to come back at most,
// and never anything wrong.
func TestPgbouncer(t *testing.T) {
	t.Parallel()
	database := startPostgres(t)
	var bouncer *pgtest.Bouncer
	s := newSiteOn(t, database, func(string) (to, more string) {
		b, err := database.Bouncer()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Stop() })
		bouncer = b
		return b.Address(), "&" + pgtest.Mode
	})
	s.furnish(40)
	l := newLoad(s.cluster)
	l.run(24)
	m := newMaker(t, l)
	restart := fault{"pgbouncer restarted", func(m *maker) {
		m.must(bouncer.Kill())
		m.sleep(100, 2000)
		m.must(bouncer.Run())
	}}
	m.work(l, restart, restart, restart, kill(s.cluster), fault{"database killed", s.restart}, fault{"connections ended", s.endConnections})
	s.all()
	l.stop()
	l.verdict(t)
	t.Logf("faults: %v", m.made)
}
