package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// A flood is what attempts to connect by strangers, each from an address of its own, leave
// behind in memory and in the database.
type flood struct {
	Attempts  int            `json:"attempts" col:"attempts"`
	Seconds   float64        `json:"seconds" col:"seconds,%.0f"`
	BeforeMiB float64        `json:"before_mib" col:"before MiB,%.1f"` // resident, after the first of them
	AfterMiB  float64        `json:"after_mib" col:"after MiB,%.1f"`   // resident, when it is written
	MostMiB   float64        `json:"most_mib" col:"most MiB,%.1f"`     // meanwhile
	Kept      int            `json:"kept" col:"kept"`                  // rows
	Counted   int            `json:"counted" col:"counted"`            // that there was no room for
	Errors    int            `json:"errors" col:"errors"`
	Faults    map[string]int `json:"faults,omitempty"`
}

// floodFirst is the part of a flood after which memory is read first: what every server
// has once it is used is there by then.
const floodFirst = 20

// flood lets strangers call without a token, read metadata and register in vain.
func (b *bench) flood(ctx context.Context, n int) (out flood, err error) {
	folder, err := os.MkdirTemp(b.folder, "flood-")
	if err != nil {
		return out, err
	}
	s, err := newStock(0)
	if err != nil {
		return out, err
	}
	if err := s.writeKey(folder); err != nil {
		return out, err
	}
	srv, err := startServerOn(ctx, b.binary, folder, "sqlite://"+filepath.Join(folder, databaseName), "", b.settings)
	if err != nil {
		return out, err
	}
	defer srv.kill()
	l := b.players(strangerPlayer, s, srv.public)
	begin := time.Now()
	total, err := l.run(ctx, span{most: n / floodFirst})
	if err != nil {
		return out, err
	}
	time.Sleep(3 * settling) // attempts are written every two seconds
	before, err := srv.resident()
	if err != nil {
		return out, err
	}
	watched, stop := srv.watch()
	rest, err := l.run(ctx, span{most: n - n/floodFirst})
	if err != nil {
		return out, err
	}
	time.Sleep(3 * settling)
	after, err := srv.resident()
	if err != nil {
		return out, err
	}
	stop()
	total.merge(rest)
	var reasons struct {
		Items []struct{ Attempts, Counted int }
	}
	if err := srv.operate(ctx, http.MethodGet, "/v1/attempts/reasons", nil, &reasons); err != nil {
		return out, err
	}
	out = flood{Attempts: total.good, Seconds: time.Since(begin).Seconds(), BeforeMiB: mebibytes(before), AfterMiB: mebibytes(after), MostMiB: mebibytes(<-watched),
		Errors: total.bad, Faults: total.faults}
	for _, r := range reasons.Items {
		out.Kept, out.Counted = out.Kept+r.Attempts, out.Counted+r.Counted
	}
	return out, nil
}

// strangers are clients that nobody knows, each request from another address.
type strangers struct{ number, step int }

func strangerPlayer(_ *stock, connection, connections int) player {
	return &strangers{connection, connections}
}

var inVain = []byte(`{"client_name":"A stranger","redirect_uris":["com.example.stranger:/callback"]}`)

func (p *strangers) next(b []byte) []byte {
	address := uint32(firstRegistrant + p.number)
	p.number += p.step
	switch p.number / p.step % 3 {
	case 0:
		return appendGet(b, "/api/v5/me", address, nil)
	case 1:
		return appendGet(b, "/.well-known/oauth-authorization-server", address, nil)
	}
	return appendPost(b, "/oauth/register", address, "application/json", inVain)
}

func (p *strangers) check(a answer) error {
	return right(a, [3]int{http.StatusUnauthorized, http.StatusOK, http.StatusBadRequest}[p.number/p.step%3], nil)
}
