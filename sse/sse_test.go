package sse

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// read gives all events of a text: what they say, their IDs, and their lines written again.
func read(r io.Reader, most int) (data []string, ids, written string, err error) {
	from := NewReader(r, most)
	for {
		v, err := from.Next()
		if err != nil {
			return data, ids, written, err
		}
		data = append(data, string(v.Data()))
		if id, ok := v.ID(); ok {
			ids += "<" + id + ">"
		}
		for l := range v.Lines {
			written += string(l.Whole) + "\n"
		}
		written += "\n"
	}
}

// Events come whole and in order, however their lines end.
func TestEvents(t *testing.T) {
	for name, c := range map[string]struct {
		text, want, ids string
		data            []string
	}{
		"nothing":         {"", "", "", nil},
		"one":             {"id: 1\nevent: message\ndata: {\"a\":1}\n\n", "id: 1\nevent: message\ndata: {\"a\":1}\n\n", "<1>", []string{`{"a":1}`}},
		"CR LF":           {"id:1\r\ndata: a\r\n\r\n", "id:1\ndata: a\n\n", "<1>", []string{"a"}},
		"CR":              {"id:1\rdata: a\r\rdata: b\r\r", "id:1\ndata: a\n\ndata: b\n\n", "<1>", []string{"a", "b"}},
		"mixed":           {"data: a\r\ndata: b\rdata: c\n\r\n", "data: a\ndata: b\ndata: c\n\n", "", []string{"a\nb\nc"}},
		"no space":        {"data:a\ndata:  b\ndata\n\n", "data:a\ndata:  b\ndata\n\n", "", []string{"a\n b\n"}},
		"priming":         {"id: 7\ndata:\n\n", "id: 7\ndata:\n\n", "<7>", []string{""}},
		"retry, comment":  {": hello\n\nretry: 5\n\n:\n\n", ": hello\n\nretry: 5\n\n:\n\n", "", []string{"", "", ""}},
		"empty lines":     {"\n\n\r\n\rdata: a\n\n\n\n", "data: a\n\n", "", []string{"a"}},
		"no ID any more":  {"id: 1\n\nid:\ndata: a\n\n", "id: 1\n\nid:\ndata: a\n\n", "<1><>", []string{"", "a"}},
		"an ID with NUL":  {"id: 1\nid: a\x00b\ndata: a\n\n", "id: 1\nid: a\x00b\ndata: a\n\n", "<1>", []string{"a"}},
		"NUL in front":    {"id: \x00b\ndata: a\n\n", "id: \x00b\ndata: a\n\n", "", []string{"a"}},
		"two IDs":         {"id: 1\nid: 2\n\n", "id: 1\nid: 2\n\n", "<2>", []string{""}},
		"another field":   {"ID: 1\nx: y\ndata: a\n\n", "ID: 1\nx: y\ndata: a\n\n", "", []string{"a"}},
		"a BOM":           {"\ufeffid: 1\ndata: a\n\n", "id: 1\ndata: a\n\n", "<1>", []string{"a"}},
		"cut in an event": {"data: a\n\nid: 2\ndata: b", "data: a\n\n", "", []string{"a"}},
		"cut at its end":  {"data: a\n\ndata: b\n", "data: a\n\n", "", []string{"a"}},
	} {
		for _, way := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader} {
			data, ids, got, err := read(way(strings.NewReader(c.text)), 100)
			if err != io.EOF || got != c.want || ids != c.ids || strings.Join(data, "|") != strings.Join(c.data, "|") {
				t.Errorf("%s: %q, %q, %q, %v", name, got, data, ids, err)
			}
		}
	}
	for _, most := range []string{"data: " + strings.Repeat("x", 86), strings.Repeat("data\n", 7) + "dataxxxx"} { // each line end counts for eight
		if _, _, got, err := read(strings.NewReader(most+"\n\n"), 100); err != io.EOF || got != most+"\n\n" {
			t.Errorf("%.20q: %q, %v", most, got, err)
		}
	}
	for _, long := range []string{"data: " + strings.Repeat("x", 87) + "\n\n", strings.Repeat("data\n", 7) + "dataxxxxx\n\n", strings.Repeat(":\n", 60), "data: " + strings.Repeat("x", 95)} { // the last is so before its line ends
		if _, _, got, err := read(strings.NewReader("data: a\n\n"+long), 100); err != ErrTooLong || got != "data: a\n\n" {
			t.Errorf("%.20q: %q, %v", long, got, err)
		}
	}
}

// An event that has come is there before the stream says more: a CR may be its last
// byte for hours.
func TestEventsDoNotWait(t *testing.T) {
	for _, text := range []string{"data: a\n\n", "data: a\r\n\r\n", "data: a\r\r"} {
		r, w := io.Pipe()
		go w.Write([]byte(text))
		if v, err := NewReader(r, 100).Next(); err != nil || string(v.Data()) != "a" {
			t.Errorf("%q: %q, %v", text, v.Data(), err)
		}
		w.Close()
	}
}

// However a stream is cut into pieces, its events are the same, and written again
// and read again they still are.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{"id: 1\ndata: a\n\n", "data: a\r\rdata:b\r\n\r\n", ": c\n\n", "\ufeffdata\n\n", "id\nid:\nid: \x00\n\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		data, ids, written, _ := read(bytes.NewReader(text), 1<<16)
		slow, slowIDs, slowly, _ := read(iotest.OneByteReader(bytes.NewReader(text)), 1<<16)
		if written != slowly || ids != slowIDs || !slices.Equal(data, slow) {
			t.Errorf("%q: %q, in pieces %q", text, written, slowly)
		}
		again, sameIDs, same, _ := read(strings.NewReader("\n"+written), 1<<16)
		if written != same || ids != sameIDs || !slices.Equal(data, again) {
			t.Errorf("%q: %q, again %q", text, written, same)
		}
	})
}

// Whoever has seen enough of an event's lines goes no farther.
func TestLinesEnd(t *testing.T) {
	v, err := NewReader(strings.NewReader("data: a\ndata: b\n\n"), 100).Next()
	for l := range v.Lines {
		if string(l.Value) != "a" || err != nil {
			t.Errorf("%q, %v", l.Value, err)
		}
		break
	}
}

// A long event leaves no memory behind.
func TestEventsLeaveNoMemory(t *testing.T) {
	for had, keeps := range map[int]bool{64 << 10: true, 64<<10 + 1: false} {
		r := NewReader(strings.NewReader("data: a\n\n"), 100)
		r.text = make([]byte, 0, had)
		if _, err := r.Next(); err != nil || (cap(r.text) >= had) != keeps {
			t.Errorf("after an event that took %d bytes there are %d, %v", had, cap(r.text), err)
		}
	}
}

// How long to wait is a number of milliseconds, or is not said.
func TestRetry(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"retry: 70": 70 * time.Millisecond, "retry:0": 0, "retry: 2147483647": 2147483647 * time.Millisecond, "retry: 2147483648": -1, "retry: 1\nretry: 2": 2 * time.Millisecond, "retry: 1\nretry: x": time.Millisecond,
		"retry: -5": -1, "retry: +5": -1, "retry": -1, "retry: 1s": -1, "retry: 99999999999": -1, "data: 5": -1,
	} {
		v, err := NewReader(strings.NewReader(text+"\n\n"), 100).Next()
		wait, ok := v.Retry()
		if err != nil || ok != (want >= 0) || ok && wait != want {
			t.Errorf("%q: %v, %v, %v", text, wait, ok, err)
		}
	}
}
