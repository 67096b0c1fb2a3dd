package store

import (
	"context"
	"strconv"
	"time"

	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// Backup copies the database as it stands at one moment into a new file, while
// everything goes on: it reads one snapshot, and writers never wait for it.
// The file is its owner's alone, and the last time that it has seen is when it
// was taken. ErrBusy refuses a second one meanwhile.
func (s *Store) Backup(ctx context.Context, path string) (at time.Time, err error) {
	return s.db.Engine.Backup(ctx, path)
}

// BackupFile names a new file beside the database, for Backup, and removes
// what an earlier process may have left there. In memory it is in the
// machine's folder for such files.
func (s *Store) BackupFile() string { return s.db.Engine.BackupFile() }

// RecordBackup notes that a backup of a time has been kept, and journals it.
func (s *Store) RecordBackup(_ context.Context, at time.Time, act Act) error {
	return s.change(func(tx *Tx) error {
		if err := tx.PutMeta(engine.MetaBackup, strconv.FormatInt(at.Unix(), 10)); err != nil {
			return err
		}
		return tx.Journal(Event{Kind: journal.OperatorChanged, Detail: "backup of " + at.UTC().Format(time.RFC3339)}.By(act))
	})
}

// LastBackup is the time of the last backup that was kept; zero when there was
// none.
func (s *Store) LastBackup(ctx context.Context) (time.Time, error) {
	return s.metaTime(ctx, engine.MetaBackup)
}
