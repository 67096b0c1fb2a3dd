package remote

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"github.com/grantkeeper/grantkeeper/durable"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/operator"
)

// PartPattern names what a backup is written to first. The job in contrib
// deletes such that a process which was killed has left.
func PartPattern(name string) string { return filepath.Base(name) + ".part-*" }

// BackUp has a backup made, writes it to a file that is there whole or not at
// all, and then tells the server that it is safe. It gives the time of the copy, in Unix
// seconds, and the bytes of the file.
func (c *Server) BackUp(ctx context.Context, name string, packed bool, reason string) (at, size int64, err error) {
	if _, err := os.Lstat(name); err == nil { // else whoever writes it says what is the matter
		return 0, 0, fault.AlreadyThere(name)
	}
	part, err := os.CreateTemp(filepath.Dir(name), PartPattern(name)) // its owner's alone
	if err != nil {
		err = unnamed(err)
		return 0, 0, fault.CannotOpen(fault.MendWriting(err), "%s: %v", name, err)
	}
	defer os.Remove(part.Name())
	at, err = c.readBackup(ctx, part, packed)
	if err = errors.Join(err, part.Close()); err != nil {
		if known, ok := errors.AsType[*fault.Error](err); ok {
			return 0, 0, known
		}
		if of, ok := errors.AsType[*fs.PathError](err); ok {
			return 0, 0, fault.CannotOpen(fault.MendWriting(of), "%s: %v", name, of.Err)
		}
		return 0, 0, fault.CannotOpen(repeat, "%s: %v", name, err) // of the connection
	}
	info, err := os.Stat(part.Name())
	if err == nil {
		err = durable.PutNew(part.Name(), name) // fails where the file has come to be meanwhile
	}
	if errors.Is(err, fs.ErrExist) {
		return 0, 0, fault.AlreadyThere(name)
	} else if err != nil {
		err = unnamed(err)
		return 0, 0, fault.CannotOpen(fault.MendWriting(err), "%s: %v", name, err)
	}
	_ = durable.SyncFolder(filepath.Dir(name)) // before the server relies on it
	body := map[string]any{"taken_at": at, "reason": reason}
	// Whatever becomes of ctx: the backup is there, and a second one under this name is refused.
	if err := c.Do(context.WithoutCancel(ctx), http.MethodPost, "/v1/backup", nil, body, &struct{}{}); err != nil {
		return 0, 0, &fault.Error{Code: fault.CodeOf(err), What: name + " is a whole backup, of which the server may not know: " + err.Error(),
			Hint: "keep it; what warns of old backups may go on until the next one", Left: true}
	}
	return at, info.Size(), nil
}

// repeat is what to do where the server has not gone on.
const repeat = "see its log, and repeat it"

// unnamed is why something failed with a file whose name nobody chose.
func unnamed(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err
	}
	if at, ok := errors.AsType[*os.LinkError](err); ok {
		return at.Err
	}
	return err
}

// readBackup reads the copy to its last byte and onto the disk, and gives its
// time.
func (c *Server) readBackup(ctx context.Context, to *os.File, packed bool) (at int64, err error) {
	answer, err := c.Open(ctx, "/v1/backup")
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	at, err = strconv.ParseInt(answer.Header.Get(operator.TakenAt), 10, 64)
	if err != nil || answer.ContentLength <= 0 {
		return 0, c.Stranger()
	}
	var into io.Writer = to
	done := func() error { return nil }
	if packed {
		z, err := gzip.NewWriterLevel(to, gzip.BestSpeed) // a large database is mostly random IDs anyway
		if err != nil {
			return 0, err
		}
		into, done = z, z.Close
	}
	n, err := io.Copy(into, answer.Body)
	if err == nil && n != answer.ContentLength {
		err = io.ErrUnexpectedEOF
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, fault.CannotOpen(repeat, "%s broke off its answer", c.Base)
	}
	if err == nil {
		err = done()
	}
	if err == nil {
		err = to.Sync()
	}
	return at, err
}
