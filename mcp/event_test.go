package mcp

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// readEvents gives all events of a text, as data and as they are written again.
func readEvents(r io.Reader, most int) (data []string, written string, err error) {
	from := newEvents(r, most)
	var out []byte
	for {
		v, err := from.next()
		if err != nil {
			return data, string(out), err
		}
		data = append(data, string(v.data()))
		out = v.append(out, nil, func(id string) string { return "<" + id + ">" })
	}
}

// Events pass whole and in order, however their lines end; IDs alone are others
// (decision V13).
func TestEvents(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string
		data       []string
	}{
		"nothing":         {"", "", nil},
		"one":             {"id: 1\nevent: message\ndata: {\"a\":1}\n\n", "id: <1>\nevent: message\ndata: {\"a\":1}\n\n", []string{`{"a":1}`}},
		"CR LF":           {"id:1\r\ndata: a\r\n\r\n", "id: <1>\ndata: a\n\n", []string{"a"}},
		"CR":              {"id:1\rdata: a\r\rdata: b\r\r", "id: <1>\ndata: a\n\ndata: b\n\n", []string{"a", "b"}},
		"mixed":           {"data: a\r\ndata: b\rdata: c\n\r\n", "data: a\ndata: b\ndata: c\n\n", []string{"a\nb\nc"}},
		"no space":        {"data:a\ndata:  b\ndata\n\n", "data:a\ndata:  b\ndata\n\n", []string{"a\n b\n"}},
		"priming":         {"id: 7\ndata:\n\n", "id: <7>\ndata:\n\n", []string{""}},
		"retry, comment":  {": hello\n\nretry: 5\n\n:\n\n", ": hello\n\nretry: 5\n\n:\n\n", []string{"", "", ""}},
		"empty lines":     {"\n\n\r\n\rdata: a\n\n\n\n", "data: a\n\n", []string{"a"}},
		"no ID any more":  {"id:\ndata: a\n\n", "id:\ndata: a\n\n", []string{"a"}},
		"an ID with NUL":  {"id: a\x00b\ndata: a\n\n", "data: a\n\n", []string{"a"}},
		"two IDs":         {"id: 1\nid: 2\n\n", "id: <1>\nid: <2>\n\n", []string{""}},
		"another field":   {"ID: 1\nx: y\ndata: a\n\n", "ID: 1\nx: y\ndata: a\n\n", []string{"a"}},
		"a BOM":           {"\ufeffid: 1\ndata: a\n\n", "id: <1>\ndata: a\n\n", []string{"a"}},
		"cut in an event": {"data: a\n\nid: 2\ndata: b", "data: a\n\n", []string{"a"}},
		"cut at its end":  {"data: a\n\ndata: b\n", "data: a\n\n", []string{"a"}},
	} {
		for _, way := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader} {
			data, got, err := readEvents(way(strings.NewReader(c.text)), 100)
			if err != io.EOF || got != c.want || strings.Join(data, "|") != strings.Join(c.data, "|") {
				t.Errorf("%s: %q, %q, %v", name, got, data, err)
			}
		}
	}
	for _, long := range []string{"data: " + strings.Repeat("x", 100), strings.Repeat("data\n", 30), strings.Repeat(":\n", 60)} {
		if _, got, err := readEvents(strings.NewReader("data: a\n\n"+long), 100); err != errTooLong || got != "data: a\n\n" {
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
		if v, err := newEvents(r, 100).next(); err != nil || string(v.data()) != "a" {
			t.Errorf("%q: %q, %v", text, v.data(), err)
		}
		w.Close()
	}
}

// Other data takes the place of all data lines.
func TestEventsWithOtherData(t *testing.T) {
	v, err := newEvents(strings.NewReader("event: message\ndata: a\ndata: b\nid: 1\n\n"), 100).next()
	if got := string(v.append(nil, []byte("c"), strings.ToUpper)); err != nil || got != "event: message\ndata: c\nid: 1\n\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// However a stream is cut into pieces, its events are the same, and written again
// and read again they still are.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{"id: 1\ndata: a\n\n", "data: a\r\rdata:b\r\n\r\n", ": c\n\n", "\ufeffdata\n\n", "id\nid:\nid: \x00\n\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		read := func(r io.Reader) (data []string, written []byte) {
			from := newEvents(r, 1<<16)
			for {
				v, err := from.next()
				if err != nil {
					return data, written
				}
				data = append(data, string(v.data()))
				written = v.append(written, nil, func(id string) string { return id })
			}
		}
		data, written := read(bytes.NewReader(text))
		slow, slowly := read(iotest.OneByteReader(bytes.NewReader(text)))
		if !bytes.Equal(written, slowly) || strings.Join(data, "\x00") != strings.Join(slow, "\x00") {
			t.Errorf("%q: %q, in pieces %q", text, written, slowly)
		}
		again, twice := read(bytes.NewReader(append([]byte("\n"), written...)))
		if strings.Join(data, "\x00") != strings.Join(again, "\x00") && !bytes.Contains(text, []byte("id")) {
			t.Errorf("%q: %q, again %q", text, data, again)
		}
		if third, _ := read(bytes.NewReader(append([]byte("\n"), twice...))); strings.Join(third, "\x00") != strings.Join(again, "\x00") {
			t.Errorf("%q: %q, then %q", text, again, third)
		}
	})
}
