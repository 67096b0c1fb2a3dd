package engine

import (
	"fmt"
	"time"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/journal"
)

// FactorRecovery is the kind of a list of recovery codes.
const FactorRecovery = "recovery"

// revivable deletes what a past state would bring back though it was ended or
// used up since: nobody can know which of it was.
var revivable = []string{
	`DELETE FROM session`,
	`DELETE FROM operator_session`,
	`DELETE FROM reset`,
	`DELETE FROM factor WHERE kind = '` + FactorRecovery + `'`,
	ForgetRewound,
}

// noteRestored says that what calls did since a past state may be missing: from its last
// entry of the journal on. Where nothing was recorded before, nothing is missing.
const noteRestored = `
	INSERT INTO activity_gap (id, from_at, to_at, why)
	SELECT 'restored-' || id, at, CAST($1 AS BIGINT), $2 FROM journal
	 WHERE EXISTS (SELECT 1 FROM activity_gap) ORDER BY id DESC LIMIT 1
	ON CONFLICT (id) DO UPDATE SET to_at = excluded.to_at`

// NoteRestored notes it, before anything else is journaled.
func NoteRestored(exec func(text string, args ...any) (int64, error), now time.Time) error {
	_, err := exec(noteRestored, now.Unix(), string(activity.SetBack))
	return err
}

// ReviveNothing deletes what is revivable, and gives the number of API keys among it.
func ReviveNothing(exec func(text string, args ...any) (int64, error)) (keys int, err error) {
	for _, text := range revivable {
		if _, err := exec(text); err != nil {
			return 0, err
		}
	}
	n, err := exec(`DELETE FROM api_key`)
	return int(n), err
}

// RestoredEvent is the entry of the journal.
func RestoredEvent(of string, ended, keys int) Event {
	return Event{Kind: journal.Restored, Detail: fmt.Sprintf("%sapprovals ended: %d, API keys: %d", of, ended, keys)}
}
