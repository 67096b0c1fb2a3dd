package remote

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

// An export for which there is no room leaves nothing, and says so by the name that was asked for.
func TestToFileOnAFullDisk(t *testing.T) {
	disk, err := pgtest.NewDisk(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Unmount(); err != nil {
			t.Error(err)
		}
	})
	if err := disk.Fill(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadDir(disk.Dir())
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(disk.Dir(), "export.jsonl")
	for what, size := range map[string]int{"at its end": 10, "in the middle": 1 << 20} {
		_, err := ToFile(name, func(out io.Writer) (int, error) {
			_, err := out.Write(make([]byte, size))
			if err != nil {
				err = fault.CannotOpen(fault.MendWriting(err), "%v", err)
			}
			return 0, err
		})
		want := name + ": no space left on device"
		if what == "in the middle" {
			want = "write " + want
		}
		if e, ok := errors.AsType[*fault.Error](err); !ok || e.What != want || e.Code != fault.Reach || e.Hint != "make room there, or choose another place" {
			t.Errorf("%s: %+v", what, err)
		}
	}
	if left, err := os.ReadDir(disk.Dir()); err != nil || len(left) != len(before) {
		t.Errorf("there are %v, %v", left, err)
	}
}
