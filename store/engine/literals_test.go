package engine

import (
	"strconv"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
)

func TestLiteralsAreTheValuesOfRows(t *testing.T) {
	for text, want := range map[string]int64{
		SQLCodeIssued: int64(approval.CodeIssued), SQLLive: int64(approval.Live), SQLEnded: int64(approval.Ended),
	} {
		if text != strconv.FormatInt(want, 10) {
			t.Errorf("a phase is %s in statements, want %d", text, want)
		}
	}
	for text, want := range map[string]int64{
		SQLEnabled: Enabled, SQLNotConfigured: NotConfigured, SQLDeleted: Deleted,
	} {
		if text != strconv.FormatInt(want, 10) {
			t.Errorf("a client's state is %s in statements, want %d", text, want)
		}
	}
	if SQLTrue != strconv.FormatInt(Flag(true), 10) || SQLFalse != strconv.FormatInt(Flag(false), 10) {
		t.Errorf("flags are %s and %s in statements", SQLTrue, SQLFalse)
	}
}
