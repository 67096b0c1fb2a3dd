package faults

import (
	"testing"
	"time"
)

// S-04: a token with a wrong tag is refused without the database. What passes between
// the node and PostgreSQL is counted, and then cut.
func TestS04_WrongTagsOnPostgreSQL(t *testing.T) {
	t.Parallel()
	database := startPostgres(t)
	name, err := database.Database()
	if err != nil {
		t.Fatal(err)
	}
	between := newLink(t, "127.0.0.1", addressOf(database))
	c := newCluster(t, nil, place{binary: binaries[0], database: "postgres://postgres@" + between.address() + "/" + name + "?sslmode=disable"})
	c.furnish(1)
	l := newLoad(c)
	x := &life{load: l, person: <-l.people, client: l.register(), verifier: random()}
	if x.code = x.approve(); x.code == "" || x.exchange(0) != yes {
		t.Fatal("no approval")
	}
	good := x.access[0].token
	ask := func(token string) int {
		return c.nodes[0].ask("GET", "/api/v5/me", "", "Authorization", "Bearer "+token).status
	}
	wrong := func(i int) string { // one character is another one
		b := []byte(good)
		at := len("svo_") + i%(len(b)-len("svo_"))
		if b[at]++; b[at] == '9'+1 || b[at] == 'Z'+1 || b[at] == 'z'+1 {
			b[at] = '0'
		}
		return string(b)
	}
	const n = 200
	count := func(token func(i int) string, want int) int64 {
		before := between.carried.Load()
		for i := range n {
			if status := ask(token(i)); status != want {
				t.Fatalf("token %d is answered with %d, want %d", i, status, want)
			}
		}
		return between.carried.Load() - before
	}
	if m := count(func(int) string { return good }, 200); m < n {
		t.Errorf("%d checks took %d messages: they are not counted", n, m)
	}
	began := time.Now()
	m := count(wrong, 401)
	before, took := between.carried.Load(), time.Since(began)
	time.Sleep(took)
	if own := between.carried.Load() - before; m >= own+n { // what the node asks by itself, in as much time
		t.Errorf("%d wrong tokens took %d messages to and from the database, and nothing at all %d", n, m, own)
	}
	between.sever(true)
	if status := ask(good); status != 503 {
		t.Errorf("a good token without the database: %d, want 503", status)
	}
	count(wrong, 401)
	between.mend()
	for ask(good) == 503 {
		l.pause()
	}
}
