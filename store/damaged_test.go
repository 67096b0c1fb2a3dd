package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
)

// asItLies gives the file of a database and its log of writes while it is used, and the file
// once it is closed.
func asItLies(t *testing.T) (h house, used, log, closed []byte, ids []approval.ID) {
	t.Helper()
	h = furnished(t)
	file := func(name string) []byte {
		t.Helper()
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	for n := byte(1); n <= 20 || framesOf(file(h.path+"-wal")) < 60; n++ { // it may have begun anew meanwhile
		ids = append(ids, h.live(t, h.answer(n)))
	}
	used, log = file(h.path), file(h.path+"-wal")
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	return h, used, log, file(h.path), ids
}

const logHeader, logFrame = 32, 24 + 4096

// framesOf counts the frames of a log since it began anew: what lies behind is of before.
func framesOf(log []byte) (n int) {
	for at := logHeader; at+logFrame <= len(log) && bytes.Equal(log[at+8:][:8], log[16:24]); at += logFrame {
		n++
	}
	return n
}

// answers opens a database of these files and asks for the approvals: it gives the first
// error, nil where each answer is right.
func (h house) answers(t *testing.T, file, log []byte, ids []approval.ID) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "grantkeeper.db")
	for name, content := range map[string][]byte{path: file, path + "-wal": log} {
		if content == nil {
			continue
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(context.Background(), at(t, path, Options{Ring: h.ring, Now: h.clock.Now}))
	if err != nil {
		return err
	}
	defer s.Close()
	for _, id := range ids {
		a, err := s.Check(context.Background(), id)
		if err != nil {
			return err
		}
		if a.Approval.Phase != approval.Live || a.Approval.Generation != 1 {
			t.Errorf("answered from harmed content: %+v", a.Approval)
		}
	}
	if whole, err := s.Integrity(context.Background()); err != nil {
		return err
	} else if !whole {
		return errors.New("not looked at as a whole")
	}
	return nil
}

// Content of the file that is not as it was written is refused, page by page: a bit that is
// another one, and a page in another's place (decision T18).
func TestHarmedPages(t *testing.T) {
	if !embedded() {
		return
	}
	const page = 4096
	h, _, _, file, ids := asItLies(t)
	if err := h.answers(t, file, nil, ids); err != nil {
		t.Fatalf("as it was: %v", err)
	}
	if len(file)%page != 0 || len(file) < 10*page {
		t.Fatalf("%d bytes", len(file))
	}
	for n := 0; n < len(file)/page; n += 7 {
		harmed := bytes.Clone(file)
		harmed[n*page+page/2] ^= 1
		if err := h.answers(t, harmed, nil, ids); err == nil {
			t.Errorf("a bit of page %d is another one, and nothing says so", n+1)
		}
		if n == 0 {
			continue
		}
		harmed = bytes.Clone(file)
		copy(harmed[n*page:][:page], file[(n+1)%(len(file)/page)*page:][:page])
		if err := h.answers(t, harmed, nil, ids); err == nil {
			t.Errorf("page %d is in another's place, and nothing says so", n+1)
		}
	}
}

// A log of writes that is damaged before its end keeps the server from starting, since what
// was acknowledged is behind it; one that ends in a commit that was under way does not
// (decision T18).
func TestHarmedLog(t *testing.T) {
	if !embedded() {
		return
	}
	h, file, log, _, ids := asItLies(t)
	if err := h.answers(t, file, log, ids); err != nil {
		t.Fatalf("as it was: %v", err)
	}
	frames := framesOf(log)
	if err := h.answers(t, file, append(bytes.Clone(log), log[:logFrame/2]...), ids); err != nil {
		t.Errorf("a frame that was under way: %v", err)
	}
	for n := 0; n < frames/2; n += 3 {
		for _, at := range []int{0, 8, 16, 24 + 1000} { // page number, salt, sum, content
			harmed := bytes.Clone(log)
			harmed[logHeader+n*logFrame+at] ^= 1
			if err := h.answers(t, file, harmed, ids); !errors.Is(err, ErrDamaged) {
				t.Errorf("byte %d of frame %d is another one: %v", at, n, err)
			}
		}
	}
}

// Whoever has a file to itself looks at its log first, by whatever name it comes, and leaves
// all as it was where that is harmed (decision T18).
func TestHarmedLogAtEveryDoor(t *testing.T) {
	if !embedded() {
		return
	}
	h, file, log, _, _ := asItLies(t)
	log[logHeader+16] ^= 1
	ctx, dir := context.Background(), t.TempDir()
	path, link := filepath.Join(dir, "grantkeeper.db"), filepath.Join(dir, "link.db")
	if err := errors.Join(os.WriteFile(path, file, 0o600), os.WriteFile(path+"-wal", log, 0o600), os.Symlink(path, link)); err != nil {
		t.Fatal(err)
	}
	doors := doorsOf(h, dir)
	doors["inspect"] = func(path string) error {
		_, err := Inspect(ctx, path)
		return err
	}
	for door, open := range doors {
		for _, name := range []string{path, link} {
			if err := open(name); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path+"-wal: ") {
				t.Errorf("%s %s: %v", door, filepath.Base(name), err)
			}
			for name, want := range map[string][]byte{path: file, path + "-wal": log} {
				if is, err := os.ReadFile(name); err != nil || !bytes.Equal(is, want) {
					t.Fatalf("%s: %s is not as it was: %v", door, filepath.Base(name), err)
				}
			}
		}
	}
}

// A log that is harmed while a server works on it, who has not written it, is no more brought
// into the file than one that it wrote: a page would have a new sum there (decision T18).
func TestLogHarmedAfterTheStart(t *testing.T) {
	if !embedded() {
		return
	}
	h, file, log, _, ids := asItLies(t)
	last := framesOf(log) - 1 // of which harm cannot be told from what was under way
	for last--; bytes.Equal(log[logHeader+last*logFrame+4:][:4], make([]byte, 4)); last-- {
	}
	refused := 0
	for n := last; n >= 0; n -= 3 {
		dir := t.TempDir()
		path := filepath.Join(dir, "grantkeeper.db")
		if err := errors.Join(os.WriteFile(path, file, 0o600), os.WriteFile(path+"-wal", log, 0o600)); err != nil {
			t.Fatal(err)
		}
		s, err := Open(context.Background(), Options{Path: path, Ring: h.ring, Now: h.clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		const mark = "harmed here"
		harmed := bytes.Clone(log)
		copy(harmed[logHeader+n*logFrame+24+2000:], mark)
		if err := os.WriteFile(path+"-wal", harmed, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = s.Close() // which brings it into the file, or cannot
		left, _ := os.ReadFile(path + "-wal")
		now, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(now, []byte(mark)) {
			t.Errorf("frame %d is in the file as it was harmed", n)
		}
		if err := h.answers(t, now, left, ids); errors.Is(err, ErrDamaged) {
			refused++
		} else if err != nil {
			t.Errorf("frame %d: %v", n, err)
		}
	}
	if refused == 0 {
		t.Error("no frame was in the way: it means too little")
	}
}
