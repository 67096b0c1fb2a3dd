package engine

import (
	"fmt"

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
