package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

// A removal is an import that removes many members, and what refreshes made of it beside.
type removal struct {
	Removed   int     `json:"members_removed" col:"members"`
	Ended     int     `json:"approvals_ended" col:"approvals"`
	Seconds   float64 `json:"seconds" col:"seconds,%.1f"` // from sending the import to its answer
	Before    float64 `json:"refreshes_per_second_before" col:"before/s"`
	Meanwhile float64 `json:"refreshes_per_second_meanwhile" col:"meanwhile/s"`
	Kept      float64 `json:"kept" col:"kept,%.2f"` // the part of the rate before
	P99       float64 `json:"p99_ms_meanwhile" col:"p99 ms,%.1f"`
	Longest   float64 `json:"longest_ms_meanwhile" col:"longest ms,%.1f"` // that a refresh waited
	Errors    int     `json:"errors" col:"errors"`

	Faults map[string]int `json:"faults,omitempty"`
}

const (
	mostRemoved = 60_000
	kept        = 10_000 // members who stay, and whose approvals are refreshed
	eachRemoved = 2      // approvals of a person
)

// removals measures one removal for each repetition, on a database of its own.
func (b *bench) removals(ctx context.Context, members int) (all []removal, err error) {
	for range b.repetitions {
		r, err := b.removal(ctx, members)
		if err != nil {
			return all, err
		}
		b.progress("  %d removed and %d approvals ended in %.1f s; refreshes %.0f/s, meanwhile %.0f/s", r.Removed, r.Ended, r.Seconds, r.Before, r.Meanwhile)
		all = append(all, r)
	}
	return all, nil
}

func (b *bench) removal(ctx context.Context, members int) (r removal, err error) {
	folder, s, database, ask, err := b.placeNew(ctx, "removal", eachRemoved*(members+kept), func(s *stock) { s.people = members + kept })
	if err != nil {
		return r, err
	}
	srv, err := startServerOn(ctx, b.binary, folder, database, "", "")
	if err != nil {
		return r, err
	}
	defer srv.kill()
	r.Removed, r.Faults = members, map[string]int{}
	if err := b.removeBeside(ctx, s, srv, &r); err != nil {
		return r, err
	}
	srv.kill()
	if err := r.prove(ask); err != nil || r.Errors > 0 {
		return r, err
	}
	return r, os.RemoveAll(folder)
}

// removeBeside refreshes the approvals of those who stay: first alone, then for as long
// as the import takes.
func (b *bench) removeBeside(ctx context.Context, s *stock, srv *server, r *removal) error {
	staying := *s
	staying.approvals = kept
	players := b.players(refreshPlayer, &staying, srv.public)
	if _, err := players.run(ctx, span{lasts: b.warmup}); err != nil {
		return err
	}
	before, err := players.run(ctx, span{lasts: b.lasts})
	if err != nil {
		return err
	}
	during, end := context.WithCancel(ctx)
	defer end()
	done := make(chan error, 1)
	go func() {
		defer end()
		begin := time.Now()
		err := srv.takeDirectory(ctx, r)
		r.Seconds = time.Since(begin).Seconds()
		done <- err
	}()
	meanwhile, err := players.run(during, span{lasts: patience})
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	if err := <-done; err != nil {
		return err
	}
	r.Before, r.Meanwhile, r.Kept = before.rate(), meanwhile.rate(), meanwhile.rate()/before.rate()
	r.P99, r.Longest = meanwhile.quantile(0.99), meanwhile.quantile(1)
	before.merge(meanwhile)
	r.Errors += before.bad
	for what, n := range before.faults {
		r.Faults[what] += n
	}
	return nil
}

// takeDirectory imports all members but those who are removed.
func (s *server) takeDirectory(ctx context.Context, r *removal) error {
	type member struct {
		Organization string `json:"organization"`
		Person       string `json:"person"`
	}
	var all struct {
		Members []member `json:"members"`
	}
	for p := range kept {
		all.Members = append(all.Members, member{organizationOf(p), personIDs[p]})
	}
	body, err := json.Marshal(all)
	if err != nil {
		return err
	}
	var taken struct {
		Ended int `json:"approvals_ended"`
	}
	err = s.operate(ctx, http.MethodPost, "/v1/directory?prune=true&reason=bench", bytes.NewReader(body), &taken)
	r.Ended = taken.Ended
	return err
}

// prove sees that the import did what it answered.
func (r *removal) prove(ask asked) error {
	for query, want := range map[string]int{
		`SELECT COUNT(*) FROM membership WHERE present = 0`:                                           r.Removed,
		`SELECT COUNT(*) FROM approval WHERE phase = 3 AND reason = 'left_organization'`:              eachRemoved * r.Removed,
		`SELECT COUNT(*) FROM journal WHERE kind = 'directory_changed' AND person <> ''`:              r.Removed,
		`SELECT COUNT(*) FROM journal WHERE kind = 'approval_ended' AND reason = 'left_organization'`: eachRemoved * r.Removed,
	} {
		got, err := ask(query)
		if err != nil {
			return err
		}
		if got != int64(want) {
			r.Errors++
			r.Faults[fmt.Sprintf("%d of %d: %s", got, want, query)]++
		}
	}
	return nil
}
