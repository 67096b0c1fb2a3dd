package sqlite

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/store/engine"
)

// The log of writes begins anew again and again while commits go on, and no commit waits
// for more than a few pages to be copied; while somebody reads an old state it grows, and
// afterwards it does no more.
func TestTheLogBeginsAnew(t *testing.T) {
	at, inline := checkpointAt, checkpointInline
	checkpointAt, checkpointInline = 40, 10
	defer func() { checkpointAt, checkpointInline = at, inline }()
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "grantkeeper.db")
	var said strings.Builder
	env := engine.NewEnv(engine.Options{Path: path, Log: slog.New(slog.NewTextHandler(io.MultiWriter(&said, t.Output()), &slog.HandlerOptions{Level: slog.LevelWarn}))})
	opened, err := Open(ctx, env)
	if err != nil {
		t.Fatal(err)
	}
	e := opened.(*Engine)
	most := int64(0)
	write := func(n int) {
		for i := range n {
			if err := e.Change(func(tx *engine.Tx) error { return tx.PutMeta(fmt.Sprint("test.", i%50), fmt.Sprint(i)) }); err != nil {
				t.Fatal(err)
			}
			most = max(most, e.Writer.log.pages.Load())
		}
	}
	for range 300 {
		write(1)
		for e.Writer.log.running.Load() { // however long a busy machine takes for it
			time.Sleep(time.Millisecond)
		}
	}
	if most > 150 { // of which the schema is most
		t.Errorf("the log came to %d pages of %d commits", most, 300)
	}
	reading, err := e.reader.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := reading.QueryRowContext(ctx, `SELECT COUNT(*) FROM meta`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	before := most
	if write(300); most < before+100 {
		t.Errorf("beside a reader the log came to %d pages, and %d before: it began anew under it", most, before)
	}
	if err := reading.Rollback(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); e.Writer.log.pages.Load() >= most && time.Now().Before(end); {
		write(5)
		most = max(before, most)
	}
	if pages := e.Writer.log.pages.Load(); pages >= most {
		t.Errorf("after the reader the log has %d pages", pages)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > 0 {
		t.Errorf("closed, the log has %d bytes", info.Size())
	}
	if said.Len() > 0 {
		t.Error("something was wrong")
	}
}
