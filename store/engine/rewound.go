package engine

import (
	"strconv"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/journal"
)

// MetaRewound is the row of meta with the time when it was last seen that the
// database had gone back in time, Unix seconds (decision T13).
const MetaRewound = "went_back"

// ForgetRewound is for when all approvals were ended.
const ForgetRewound = `DELETE FROM meta WHERE name = 'went_back'`

// NoteRewound keeps that the database went back in time.
func (tx *Tx) NoteRewound() error {
	return tx.PutMeta(MetaRewound, strconv.FormatInt(tx.Env.Now().Unix(), 10))
}

// ProvesRewound reports whether an entry of the journal is of a token from the future.
func (e Event) ProvesRewound() bool {
	return e.Kind == journal.ApprovalEnded && e.Reason == string(approval.StateLost)
}
