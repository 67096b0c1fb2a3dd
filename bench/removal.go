package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
)

// A removal is an import that removes many members, and what refreshes made of
// it beside.
type removal struct {
	Removed   int     `json:"members_removed"`
	Ended     int     `json:"approvals_ended"`
	Seconds   float64 `json:"seconds"` // from sending the import to its answer
	Before    float64 `json:"refreshes_per_second_before"`
	Meanwhile float64 `json:"refreshes_per_second_meanwhile"`
	Kept      float64 `json:"kept"` // the part of the rate before
	P99       float64 `json:"p99_ms_meanwhile"`
	Longest   float64 `json:"longest_ms_meanwhile"` // that a refresh waited
	Errors    int     `json:"errors"`

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
	folder, err := os.MkdirTemp(b.folder, "removal-")
	if err != nil {
		return r, err
	}
	s, err := newStock(eachRemoved*(members+kept), approval.Live)
	if err != nil {
		return r, err
	}
	s.people = members + kept
	b.progress("write %d members with %d approvals", s.people, s.approvals)
	database, ask, err := b.place(ctx, s, folder)
	if err != nil {
		return r, err
	}
	srv, err := startServerOn(ctx, b.binary, folder, database, "", "")
	if err != nil {
		return r, err
	}
	defer srv.kill()
	r.Removed = members
	if err := b.removeBeside(ctx, s, srv, &r); err != nil {
		return r, err
	}
	srv.kill()
	if err := r.prove(ask); err != nil {
		return r, err
	}
	if r.Errors == 0 {
		err = os.RemoveAll(folder)
	}
	return r, err
}

// removeBeside refreshes the approvals of those who stay: first alone, then
// for as long as the import takes.
func (b *bench) removeBeside(ctx context.Context, s *stock, srv *server, r *removal) error {
	sc, err := scenarioOf("refresh")
	if err != nil {
		return err
	}
	staying := *s
	staying.approvals = kept
	players := b.players(sc.player, &staying, srv.public)
	if _, err := players.run(ctx, span{lasts: b.warmup}); err != nil {
		return err
	}
	before, err := players.run(ctx, span{lasts: b.lasts})
	if err != nil {
		return err
	}
	body, err := s.stayingMembers()
	if err != nil {
		return err
	}
	during, end := context.WithCancel(ctx)
	defer end()
	done := make(chan error, 1)
	go func() {
		defer end()
		begin := time.Now()
		err := srv.takeDirectory(ctx, body, r)
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
	r.Before, r.Meanwhile = before.rate(), meanwhile.rate()
	r.Kept, r.P99 = r.Meanwhile/r.Before, milliseconds(meanwhile.latency.quantile(0.99))
	r.Longest = milliseconds(meanwhile.latency.quantile(1))
	before.merge(meanwhile)
	r.Errors, r.Faults = r.Errors+before.bad, before.faults
	return nil
}

// stayingMembers is the import: all members but those who are removed.
func (s *stock) stayingMembers() ([]byte, error) {
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
	return json.Marshal(all)
}

func (s *server) takeDirectory(ctx context.Context, body []byte, r *removal) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.operators+"/v1/directory?prune=true&reason=bench", bytes.NewReader(body))
	if err != nil {
		return err
	}
	q.SetBasicAuth("operator", operatorPassword)
	q.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		return err
	}
	var taken struct {
		Ended int `json:"approvals_ended"`
	}
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("the import: status %d: %s", a.StatusCode, text)
	}
	err = json.Unmarshal(text, &taken)
	r.Ended = taken.Ended
	return err
}

// prove sees that the import did what it answered.
func (r *removal) prove(ask func(string) (int64, error)) error {
	if r.Faults == nil {
		r.Faults = map[string]int{}
	}
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

func printRemovals(w io.Writer, all []removal) {
	var rows [][]string
	for _, r := range all {
		rows = append(rows, []string{thousands(int64(r.Removed)), thousands(int64(r.Ended)), fmt.Sprintf("%.1f", r.Seconds),
			thousands(int64(r.Before)), thousands(int64(r.Meanwhile)), fmt.Sprintf("%.2f", r.Kept),
			fmt.Sprintf("%.1f", r.P99), fmt.Sprintf("%.1f", r.Longest), thousands(int64(r.Errors))})
		for what, n := range r.Faults {
			rows = append(rows, []string{fmt.Sprintf("  %s: %d", what, n)})
		}
	}
	printTable(w, []string{"members", "approvals", "seconds", "before/s", "meanwhile/s", "kept", "p99 ms", "longest ms", "errors"}, rows)
}
