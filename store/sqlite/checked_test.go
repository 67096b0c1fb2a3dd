package sqlite

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/grantkeeper/grantkeeper/store/engine"
)

// What a process reads of the log of writes is what it wrote there, at each place, whatever
// it has written behind that since; SQLite does not look at the sums of the log again.
func TestTheLogIsReadAsWritten(t *testing.T) {
	for frame := range 4 {
		path := filepath.Join(t.TempDir(), "grantkeeper.db")
		db, err := Connect(DSN(path))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		db.SetMaxOpenConns(1)
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := withSums(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		// Three tables take three pages, and the list of them the first.
		for _, text := range []string{`PRAGMA wal_checkpoint(TRUNCATE)`,
			`CREATE TABLE a (text); INSERT INTO a VALUES ('a'); CREATE TABLE b (text); INSERT INTO b VALUES ('b'); CREATE TABLE c (text); INSERT INTO c VALUES ('c')`,
			`PRAGMA wal_checkpoint(TRUNCATE)`,
			`BEGIN; UPDATE a SET text = 'd'; UPDATE b SET text = 'e'; UPDATE c SET text = 'f'; PRAGMA user_version = 7; COMMIT`} {
			if _, err := conn.ExecContext(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		log, err := os.OpenFile(path+"-wal", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		info, err := log.Stat()
		if err != nil || info.Size() != logHeader+4*(logFrame+pageSize) {
			t.Fatalf("the log has %d bytes, want those of four frames (%v)", info.Size(), err)
		}
		at := int64(logHeader + logFrame + frame*(logFrame+pageSize) + 2000)
		one := make([]byte, 1)
		if _, err := log.ReadAt(one, at); err != nil {
			t.Fatal(err)
		}
		one[0] ^= 1
		if _, err := log.WriteAt(one, at); err != nil {
			t.Fatal(err)
		}
		other, err := Connect(DSN(path)) // has no page in memory yet
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		var text string
		err = other.QueryRow(`SELECT a.text || b.text || c.text FROM a, b, c`).Scan(&text)
		if !errors.Is(damaged(err), engine.ErrDamaged) {
			t.Errorf("frame %d is another: %q %v, want that the file is damaged", frame, text, err)
		}
	}
}

// A plain file is one of the system; forget is asked to drop what it has of it in memory.
type plain struct {
	vfs.File // has all that is not used here
	at       *os.File
	forget   func(off, n int64)
}

func (f plain) ReadAt(b []byte, off int64) (int, error)  { return f.at.ReadAt(b, off) }
func (f plain) WriteAt(b []byte, off int64) (int, error) { return f.at.WriteAt(b, off) }
func (f plain) Sync(vfs.SyncFlag) error                  { return f.at.Sync() }
func (f plain) Truncate(to int64) error                  { return f.at.Truncate(to) }
func (f plain) Close() error                             { return f.at.Close() }
func (f plain) Forget(off, n int64)                      { f.forget(off, n) }

func openPlain(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "pages"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// What is synced is read from the disk again, each page that was written and no other, however
// many lie between them; of a page that was written in part nothing is compared.
func TestWhatIsSyncedIsReadBack(t *testing.T) {
	for _, harmed := range []int64{-1, 0, 1, 3, 64, 200} { // the number of a page
		below := openPlain(t)
		dropped := map[int64]bool{}
		f := &checkedFile{path: below.Name(), wrote: wroteTo(below.Name()), main: true, File: plain{at: below, forget: func(off, n int64) {
			if n > readBack {
				t.Errorf("%d bytes at once", n)
			}
			for at := off; at < off+n; at += pageSize {
				dropped[at/pageSize] = true
			}
			if at := harmed * pageSize; harmed >= 0 && off <= at && at < off+n {
				if _, err := below.WriteAt([]byte("other"), at+7); err != nil {
					t.Error(err)
				}
			}
		}}}
		page := func(n byte) []byte { b := make([]byte, pageSize); b[0] = n; return b }
		for n := int64(200); n >= 0; n-- { // from the last on
			if _, err := below.WriteAt(page(0), n*pageSize); err != nil {
				t.Fatal(err)
			}
		}
		for _, n := range []int64{200, 64, 1, 0, 1} {
			if _, err := f.WriteAt(page(byte(n)), n*pageSize); err != nil {
				t.Fatal(err)
			}
		}
		wrote := harmed >= 0 && harmed != 3
		if err := f.Sync(vfs.SYNC_FULL); errors.Is(err, sqlite3.IOERR_DATA) != wrote {
			t.Errorf("page %d is another: %v", harmed, err)
		}
		if !wrote && (!dropped[0] || !dropped[1] || !dropped[64] || !dropped[200] || dropped[100]) {
			t.Errorf("read back: %v", dropped)
		}
		clear(dropped)
		if err := f.Sync(vfs.SYNC_FULL); errors.Is(err, sqlite3.IOERR_DATA) != wrote || !wrote && len(dropped) > 0 || wrote && !dropped[harmed] {
			t.Errorf("once more, where page %d is another: %v, %v", harmed, err, dropped)
		}
		if _, err := f.WriteAt(make([]byte, 20), 2*pageSize-10); err != nil { // of two pages
			t.Fatal(err)
		}
		b := make([]byte, pageSize)
		if _, err := f.ReadAt(b, pageSize); err != nil {
			t.Errorf("a page that was written in part: %v", err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What one connection has brought into the file is read back when another syncs it; until then
// the log does not begin anew, and the next start brings in what the disk has lost.
func TestAPartOfACheckpointIsReadBack(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "grantkeeper.db")
	dial := func() *sql.Conn {
		t.Helper()
		db, err := Connect(DSN(path))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		conn, err := db.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	do := func(c *sql.Conn, text string) {
		t.Helper()
		if _, err := c.ExecContext(ctx, text); err != nil {
			t.Fatal(text, err)
		}
	}
	checkpoint := func(c *sql.Conn) (pages, copied int, err error) {
		var busy int
		err = c.QueryRowContext(ctx, `PRAGMA wal_checkpoint(PASSIVE)`).Scan(&busy, &pages, &copied)
		return pages, copied, err
	}
	writer, other, reader := dial(), dial(), dial()
	if err := withSums(ctx, writer); err != nil {
		t.Fatal(err)
	}
	do(writer, `CREATE TABLE a (t); INSERT INTO a VALUES ('old'); CREATE TABLE b (t); INSERT INTO b VALUES ('old'); PRAGMA wal_checkpoint(TRUNCATE)`)
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	do(writer, `UPDATE a SET t = 'new'`)
	do(reader, `BEGIN; SELECT t FROM a`) // and nothing newer is brought in while this is open
	do(writer, `UPDATE b SET t = 'new'`)
	if pages, copied, err := checkpoint(other); err != nil || copied == 0 || copied >= pages {
		t.Fatalf("no part: %d of %d, %v", copied, pages, err)
	}
	do(reader, `ROLLBACK`)
	if err := os.WriteFile(path, old, 0o600); err != nil { // the disk has not written it
		t.Fatal(err)
	}
	for range 2 {
		if _, _, err := checkpoint(writer); !errors.Is(err, sqlite3.IOERR_DATA) {
			t.Errorf("the rest is brought in, and nobody has looked at the part: %v", err)
		}
	}
	images := map[string][]byte{}
	for _, suffix := range []string{"", "-wal"} {
		if images[suffix], err = os.ReadFile(path + suffix); err != nil {
			t.Fatal(err)
		}
	}
	path = filepath.Join(t.TempDir(), "again.db") // as the next start finds them
	for suffix, image := range images {
		if err := os.WriteFile(path+suffix, image, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var a, b string
	if err := dial().QueryRowContext(ctx, `SELECT a.t, b.t FROM a, b`).Scan(&a, &b); err != nil || a != "new" || b != "new" {
		t.Errorf("the next start finds %s and %s: %v", a, b, err)
	}
}

// A place is due until it was read back as it was written last, or is cut off.
func TestDue(t *testing.T) {
	below := openPlain(t)
	f := &checkedFile{path: below.Name(), wrote: wroteTo(below.Name()), main: true, File: plain{at: below, forget: func(int64, int64) {}}}
	defer f.Close()
	write := func(n byte, off int64) {
		t.Helper()
		b := make([]byte, pageSize)
		b[0] = n
		if _, err := f.WriteAt(b, off); err != nil {
			t.Fatal(err)
		}
	}
	write(1, 0)
	write(1, pageSize)
	due := f.wrote.due()
	write(2, pageSize)
	if f.wrote.readBack([]int64{0, pageSize}, due); len(f.wrote.unsynced) != 1 || f.wrote.unsynced[pageSize] != 3 {
		t.Errorf("due are %v", f.wrote.unsynced)
	}
	write(1, 0)
	if err := f.Truncate(2*pageSize - 1); err != nil || len(f.wrote.unsynced) != 1 || f.wrote.unsynced[0] != 4 {
		t.Errorf("cut off, due are %v: %v", f.wrote.unsynced, err)
	}
	if err := f.Sync(vfs.SYNC_FULL); err != nil || len(f.wrote.unsynced) != 0 {
		t.Errorf("synced, due are %v: %v", f.wrote.unsynced, err)
	}
}

// In the log of writes a page is what lies behind the header of a frame.
func TestPlacesOfTheLog(t *testing.T) {
	below := openPlain(t)
	f := &checkedFile{path: below.Name(), wrote: wroteTo(below.Name()), File: plain{at: below}}
	defer f.Close()
	const second = logHeader + 2*logFrame + pageSize
	known := func(want ...int64) {
		t.Helper()
		for _, off := range want {
			if _, is := f.wrote.sums[off]; !is {
				t.Errorf("of the page at %d nothing is known", off)
			}
		}
		if len(f.wrote.sums) != len(want) {
			t.Errorf("known are %v, want %v", f.wrote.sums, want)
		}
	}
	write := func(n int, off int64) {
		t.Helper()
		if _, err := f.WriteAt(make([]byte, n), off); err != nil {
			t.Fatal(err)
		}
	}
	write(logHeader, 0)
	write(logFrame, logHeader)
	write(pageSize, logHeader+logFrame)
	write(logFrame, second-logFrame)
	write(pageSize, second)
	known(logHeader+logFrame, second)
	write(logHeader+logFrame, 0)
	known(logHeader+logFrame, second)
	write(logFrame+1, second-logFrame) // and the first byte of the page
	known(logHeader + logFrame)
	write(pageSize, second)
	write(1, second+pageSize-1)
	known(logHeader + logFrame)
	write(pageSize, second)
	write(second+1, 0)
	known()
}

// Pages that lie near each other are read together, and no more than a piece at once.
func TestPartsOf(t *testing.T) {
	page := func(n int64) int64 { return n * pageSize }
	var many []int64
	for n := range int64(70) {
		many = append(many, page(n))
	}
	for _, tt := range []struct {
		name   string
		places []int64
		want   [][]int64
	}{
		{"none", nil, nil},
		{"one", []int64{page(3)}, [][]int64{{page(3)}}},
		{"near", []int64{0, page(5), page(10)}, [][]int64{{0, page(5), page(10)}}},
		{"apart", []int64{0, page(6)}, [][]int64{{0}, {page(6)}}},
		{"a long piece", many, [][]int64{many[:64], many[64:]}},
	} {
		if got := partsOf(tt.places); !slices.EqualFunc(got, tt.want, slices.Equal) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A connection that is opened while an empty file is in the database's place does not delete
// the log that is the database's: what was written last is in it alone.
func TestTheLogOutlivesAnEmptyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grantkeeper.db")
	connect := func() *sql.DB {
		db, err := Connect(DSN(path))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db
	}
	written := connect()
	for _, text := range []string{`CREATE TABLE a (text)`, `PRAGMA wal_checkpoint(TRUNCATE)`, `INSERT INTO a VALUES ('last')`} {
		if _, err := written.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Rename(path, path+".aside"), os.WriteFile(path, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := connect().ExecContext(t.Context(), `PRAGMA wal_checkpoint(PASSIVE)`); err == nil {
		t.Error("an empty file is taken for the log's database")
	}
	if err := os.Rename(path+".aside", path); err != nil {
		t.Fatal(err)
	}
	var last string
	if err := connect().QueryRowContext(t.Context(), `SELECT text FROM a`).Scan(&last); err != nil || last != "last" {
		t.Errorf("%q, %v", last, err)
	}
}
