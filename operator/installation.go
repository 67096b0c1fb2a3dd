package operator

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/store"
)

// TakenAt is the header of a backup that says when it was taken, in Unix seconds.
const TakenAt = "Grantkeeper-Taken-At"

// installationRoutes are the paths for running an installation: status, sweep,
// backups and keys.
func (s *Server) installationRoutes(mux *http.ServeMux) {
	mux.Handle("GET /v1/status", s.answer(s.status))
	mux.Handle("POST /v1/gc", change(s, s.sweep))
	mux.Handle("GET /v1/backup", WithoutWriteDeadline(http.HandlerFunc(s.backup)))
	mux.Handle("POST /v1/backup", change(s, s.recordBackup))
	mux.Handle("POST /v1/restored", change(s, s.restored))
	mux.Handle("GET /v1/keys", s.answer(s.keys))
	mux.Handle("POST /v1/keys/reload", change(s, s.reloadKeys))
	mux.Handle("POST /v1/keys/rotate", change(s, s.rotateKeys))
	mux.Handle("POST /v1/keys/{id}/retire", change(s, s.retireKey))
}

// WithoutWriteDeadline lifts the write timeout of the listener for an answer that may take
// long: the answer to a change would be lost, and a change of very many is broken off with it.
func WithoutWriteDeadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		next.ServeHTTP(w, r)
	})
}

// backup sends a copy of the database as of one moment. The copy is a file beside
// the database, so that a slow reader holds no lock.
func (s *Server) backup(w http.ResponseWriter, r *http.Request) {
	c := s.NewCall(w, r)
	f, at, err := s.copyDatabase(c.Context())
	if err != nil {
		s.refuse(w, c, err)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		s.refuse(w, c, err)
		return
	}
	w.Header().Set("Content-Type", "application/vnd.sqlite3")
	w.Header().Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	w.Header().Set(TakenAt, strconv.FormatInt(at.Unix(), 10))
	if _, err := io.Copy(w, f); err != nil { // the reader sees that the length is short
		s.Log.WarnContext(c.Context(), "a backup was not read to its end", "request_id", c.Reference, "err", err)
	}
}

// copyDatabase returns the copy as an open file, which is removed from its folder
// already, and when it was taken.
func (s *Server) copyDatabase(ctx context.Context) (*os.File, time.Time, error) {
	name := s.Store.BackupFile()
	at, err := s.Store.Backup(ctx, name)
	if errors.Is(err, store.ErrBusy) {
		return nil, at, &Error{http.StatusConflict, "busy", "a backup is under way already"}
	} else if errors.Is(err, store.ErrNotAllowed) {
		return nil, at, &Error{http.StatusConflict, "not_embedded", "PostgreSQL is backed up by its own means: pg_dump, then POST /v1/backup"}
	} else if err != nil && ctx.Err() == nil {
		s.Log.ErrorContext(ctx, "a backup could not be made", "err", err)
		return nil, at, &Error{http.StatusServiceUnavailable, "temporarily_unavailable", "the copy beside the database could not be made: see that there is room for it"}
	} else if err != nil {
		return nil, at, err
	}
	f, err := os.Open(name)
	return f, at, errors.Join(err, os.Remove(name))
}

// backupBody is the body of POST /v1/backup.
type backupBody struct {
	reasonBody
	TakenAt int64 `json:"taken_at"`
}

type backupObject struct {
	ID      string `json:"id"`       // always "backup"
	TakenAt int64  `json:"taken_at"` // of the last recorded backup, Unix seconds
}

// recordBackup records when a backup was taken that has been stored safely.
func (s *Server) recordBackup(c Call, body backupBody) (any, error) {
	at, now := time.Unix(body.TakenAt, 0), s.Store.Now()
	if body.TakenAt == 0 {
		at = now
	}
	if body.TakenAt < 0 || at.After(now.Add(time.Minute)) {
		return nil, BadRequest("taken_at: not a time that has been, in Unix seconds")
	}
	if err := s.Store.RecordBackup(c.Context(), at, c.Act(body.Reason)); err != nil {
		return nil, err
	}
	return backupObject{"backup", at.Unix()}, nil
}

// Seen says from which addresses the public listener had requests lately.
type Seen struct {
	Addresses  int    `json:"addresses"`            // about how many different ones; at most 64
	Only       string `json:"only,omitempty"`       // the address, where there is only one
	Unbelieved string `json:"unbelieved,omitempty"` // a peer that sends forwarding headers and is no trusted proxy
}

// statusObject is the state of an installation, for grantkeeper doctor.
type statusObject struct {
	ID         string  `json:"id"` // always "status"
	Version    Version `json:"version"`
	Now        int64   `json:"now"`           // the time of every decision, Unix seconds
	Schema     int     `json:"schema"`        // version in the database
	Oldest     int     `json:"schema_oldest"` // oldest version whose releases work on it
	Bytes      int64   `json:"bytes"`         // of the database; 0 in memory
	Integrity  string  `json:"integrity"`
	LastBackup int64   `json:"last_backup"` // Unix seconds; 0 is never
	Overdue    int     `json:"overdue"`     // rows that should have been deleted ten minutes ago
	Seen       Seen    `json:"seen"`
	Nodes      int     `json:"nodes"`  // how many work on the database now
	Limits     string  `json:"limits"` // where they are counted: memory, shared, forgetful (shared, but the server drops counters) or away

	Refused  *RefusedObject `json:"refused,omitempty"`   // the last refusal of the database, if it was lately
	WentBack int64          `json:"went_back,omitempty"` // when the server noticed that the database had gone back in time, Unix seconds

	Unnamed []rules.Unnamed `json:"unnamed,omitempty"` // calls to the service that this process denied because no rule names them
}

// RefusedObject says why the database refused a write.
type RefusedObject struct {
	Cause string `json:"cause"` // such as "its disk is full"
	Ago   int64  `json:"ago"`   // seconds since it refused something
	Over  bool   `json:"over"`  // it accepts writes again
}

const (
	// integrityWithin bounds how long the integrity check reads the database.
	integrityWithin = time.Second
	// overdueAfter is how long an expired row may stay: the sweep runs every
	// minute.
	overdueAfter = 10 * time.Minute
)

func (s *Server) status(c Call) (any, error) {
	out := statusObject{ID: "status", Version: s.Version, Now: s.Store.Now().Unix(), Bytes: s.Store.Size(), Integrity: "ok"}
	schema, err := s.Store.Schema(c.Context())
	if err != nil && !errors.Is(err, store.ErrSchema) {
		return nil, err
	}
	out.Schema, out.Oldest = schema.Version, schema.Oldest
	last, err := s.Store.LastBackup(c.Context())
	if err != nil {
		return nil, err
	}
	if !last.IsZero() {
		out.LastBackup = last.Unix()
	}
	back, err := s.Store.WentBack(c.Context())
	if err != nil {
		return nil, err
	}
	if !back.IsZero() {
		out.WentBack = back.Unix()
	}
	expired, err := s.Store.Expired(c.Context(), s.Store.Now().Add(-overdueAfter))
	if err != nil {
		return nil, err
	}
	out.Overdue = expired.Sum()
	out.Nodes, out.Limits = s.Store.LiveNodes(), s.limits()
	if r := s.Store.Refused(); r.Cause != "" {
		out.Refused = &RefusedObject{r.Cause, int64(time.Since(r.At) / time.Second), r.Over}
	}
	if s.Seen != nil {
		out.Seen = s.Seen()
	}
	if s.Unnamed != nil {
		out.Unnamed = s.Unnamed.All()
	}
	ctx, cancel := context.WithTimeout(c.Context(), integrityWithin)
	defer cancel()
	switch whole, err := s.Store.Integrity(ctx); {
	case err != nil:
		out.Integrity = err.Error()
	case !whole:
		out.Integrity = "too large to be read through in a second"
	}
	return out, nil
}

// limits says where this node counts rate limits now.
func (s *Server) limits() string {
	switch {
	case s.Limits == nil:
		return "memory"
	case s.Limits.Away():
		return "away"
	case s.Limits.Forgets():
		return "forgetful"
	}
	return "shared"
}

type sweepBody struct {
	reasonBody
	DryRun bool `json:"dry_run"`
}

type sweptObject struct {
	ID        string `json:"id"` // always "gc"
	DryRun    bool   `json:"dry_run"`
	Clients   int    `json:"clients"`   // deleted: 14 days without an approval, or marked deleted and nothing left under them
	Ended     int    `json:"ended"`     // approvals marked ended whose facts were lost or whose code expired
	Approvals int    `json:"approvals"` // deleted: ended 90 days ago
	Sessions  int    `json:"sessions"`
	Resets    int    `json:"resets"` // links to set a password
	Events    int    `json:"events"`
	Activity  int    `json:"activity"` // records of what clients did, and counts
}

// sweep deletes expired rows, or counts them in a dry run.
func (s *Server) sweep(c Call, body sweepBody) (any, error) {
	swept, err := s.sweepOrCount(c.Context(), body.DryRun)
	return sweptObject{"gc", body.DryRun, swept.Clients, swept.Ended, swept.Approvals, swept.Sessions, swept.Resets, swept.Events, swept.Activity}, err
}

type restoredObject struct {
	ID    string `json:"id"`    // always "restored"
	Ended int    `json:"ended"` // approvals
}

// restored ends the approvals that must not live on after the database was restored
// by its own means. It has no time limit.
func (s *Server) restored(c Call, body reasonBody) (any, error) {
	ended, err := s.Store.SettleRestored(c.Context(), c.Act(body.Reason))
	return restoredObject{"restored", ended}, err
}

func (s *Server) sweepOrCount(ctx context.Context, dry bool) (store.Swept, error) {
	if !dry {
		return s.Store.Sweep(ctx)
	}
	swept, err := s.Store.Due(ctx)
	if err != nil {
		return swept, err
	}
	unused, err := s.Store.Unused(ctx)
	swept.Ended += unused
	return swept, err
}
