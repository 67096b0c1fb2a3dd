package remote

import (
	"bytes"
	"io"
	"os"
	"time"

	"github.com/grantkeeper/grantkeeper/fault"
)

// Bounds of a file that is imported, as the server has them: bytes. ImportTimeout is how long a
// server may take to import it, or to give it.
const (
	maxImport     = 128 << 20
	ImportTimeout = 10 * time.Minute
)

// ReadImport reads a file, or standard input for "-".
func ReadImport(stdin io.Reader, name string) (RawJSON, error) {
	in := stdin
	if name != "-" || stdin == nil {
		f, err := os.Open(name)
		if err != nil {
			return nil, fault.CannotOpen("", "%v", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxImport+1))
	switch {
	case err != nil:
		return nil, fault.CannotOpen("", "%s: %v", name, err)
	case len(text) > maxImport:
		return nil, fault.WrongUse("divide it, and leave out --prune", "%s has more than %d MiB", name, maxImport>>20)
	case len(bytes.TrimSpace(text)) == 0:
		return nil, fault.WrongUse("see: grantkeeper directory import --help", "%s is empty", name)
	}
	return text, nil
}
