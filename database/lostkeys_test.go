package database

import (
	"errors"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/store"
)

// Nobody is sent where the lost key is asked for, nor told to mend a file that is only to go.
func TestLostErrorGoesOn(t *testing.T) {
	for _, tt := range []struct {
		err  error
		hint string
	}{
		{&store.SchemaError{Has: 1, Knows: 2}, "run this command of the release"},
		{store.ErrRetired, "move that file away"},
		{store.ErrOtherKey, "move that file away"},
	} {
		if told, ok := errors.AsType[*fault.Error](lostError(tt.err, "file")); !ok || told.Code != fault.State || !strings.HasPrefix(told.Hint, tt.hint) {
			t.Errorf("%v: %+v", tt.err, told)
		}
	}
}
