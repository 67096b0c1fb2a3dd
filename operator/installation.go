package operator

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/grantkeeper/grantkeeper/store"
)

// TakenAt is the header of a backup with the time that it is of, Unix seconds.
const TakenAt = "Grantkeeper-Taken-At"

// installation are the paths of what keeps an installation healthy.
func (s *Server) installation(mux *http.ServeMux) {
	mux.Handle("GET /v1/backup", http.HandlerFunc(s.backup))
	mux.Handle("POST /v1/backup", s.answer(s.recordBackup))
}

// backup sends a copy of the database as it stands at one moment, made beside
// it first, so that a reader who is slow holds up nothing.
func (s *Server) backup(w http.ResponseWriter, r *http.Request) {
	c := s.call(w, r)
	// A large one takes longer than an answer may otherwise.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
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
	if _, err := io.Copy(w, f); err != nil { // the length tells the reader
		s.Log.WarnContext(c.Context(), "a backup was not read to its end", "request_id", c.reference, "err", err)
	}
}

// copyDatabase gives the copy, open and already without a name.
func (s *Server) copyDatabase(ctx context.Context) (*os.File, time.Time, error) {
	at, name := s.Store.Now(), s.Store.BackupFile()
	if err := s.Store.Backup(ctx, name); errors.Is(err, store.ErrBusy) {
		return nil, at, &Error{http.StatusConflict, "busy", "a backup is under way already"}
	} else if err != nil {
		return nil, at, err
	}
	f, err := os.Open(name)
	return f, at, errors.Join(err, os.Remove(name))
}

// kept is the body that tells of a backup that is safe.
type kept struct {
	reasoned
	TakenAt int64 `json:"taken_at"`
}

type backupObject struct {
	ID      string `json:"id"`       // always "backup"
	TakenAt int64  `json:"taken_at"` // of the last backup that was kept, Unix seconds
}

// recordBackup notes when the last backup was taken, once it is safe.
func (s *Server) recordBackup(c call) (any, error) {
	var body kept
	if err := decode(c, &body, maxBody); err != nil {
		return nil, err
	}
	at, now := time.Unix(body.TakenAt, 0), s.Store.Now()
	if body.TakenAt == 0 {
		at = now
	}
	if body.TakenAt < 0 || at.After(now.Add(time.Minute)) {
		return nil, badRequest("taken_at: not a time that has been, in Unix seconds")
	}
	if err := s.Store.RecordBackup(c.Context(), at, c.act(body.Reason)); err != nil {
		return nil, err
	}
	return backupObject{"backup", at.Unix()}, nil
}
