// Package sse reads streams of server-sent events (HTML, section 9.2), each event whole.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// ErrTooLong is an event of more bytes than the reader takes.
var ErrTooLong = errors.New("an event is too long")

// A Reader reads the events of a stream.
type Reader struct {
	r       *bufio.Reader
	most    int    // bytes of an event
	text    []byte // of the event that is read, without line ends
	ends    []int  // where its lines end in text
	afterCR bool   // a line feed that comes now belongs to the line before
	begun   bool
}

// NewReader reads events of up to most bytes each, of the text and of where its lines end.
func NewReader(r io.Reader, most int) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 4<<10), most: most}
}

// Next reads the next event, or block of comments. What has no empty line after it
// when the stream ends is no event: the error is io.EOF, ErrTooLong, or why the stream broke.
func (e *Reader) Next() (Event, error) {
	if cap(e.text) > 64<<10 {
		e.text = nil
	}
	e.text, e.ends = e.text[:0], e.ends[:0]
	for {
		if err := e.readLine(); err != nil {
			return Event{}, err
		}
		if !e.begun {
			e.begun, e.text = true, bytes.TrimPrefix(e.text, []byte("\ufeff"))
		}
		begin := 0
		if n := len(e.ends); n > 0 {
			begin = e.ends[n-1]
		}
		switch {
		case len(e.text) > begin:
			e.ends = append(e.ends, len(e.text))
		case begin > 0:
			return Event{e.text, e.ends}, nil
		}
	}
}

// readLine appends a line without its end: LF, CR LF or CR.
func (e *Reader) readLine() error {
	for {
		if _, err := e.r.Peek(1); err != nil {
			return err
		}
		some, _ := e.r.Peek(e.r.Buffered())
		if e.afterCR {
			e.afterCR = false
			if some[0] == '\n' {
				_, _ = e.r.Discard(1)
				continue
			}
		}
		end := bytes.IndexAny(some, "\r\n")
		n := end
		if end < 0 {
			n = len(some)
		}
		if len(e.text)+n+len(e.ends)*8 > e.most {
			return ErrTooLong
		}
		e.text = append(e.text, some[:n]...)
		if end >= 0 {
			e.afterCR, n = some[end] == '\r', n+1
		}
		_, _ = e.r.Discard(n)
		if end >= 0 {
			return nil
		}
	}
}

// An Event is one event, in the lines that it came in. It is good until the next is read.
type Event struct {
	text []byte
	ends []int
}

// A Line is one of an event, and the field in it. Comments have none.
type Line struct{ Whole, Field, Value []byte }

// Lines gives the lines of an event, in order.
func (v Event) Lines(yield func(Line) bool) {
	begin := 0
	for _, end := range v.ends {
		whole := v.text[begin:end]
		field, value, _ := bytes.Cut(whole, []byte(":"))
		if !yield(Line{whole, field, bytes.TrimPrefix(value, []byte(" "))}) {
			return
		}
		begin = end
	}
}

// Data is what the event says: its data lines, with line feeds between them.
func (v Event) Data() (data []byte) {
	first := true
	for l := range v.Lines {
		if string(l.Field) != "data" {
			continue
		}
		if first {
			data, first = l.Value[:len(l.Value):len(l.Value)], false
			continue
		}
		data = append(append(data, '\n'), l.Value...)
	}
	return data
}

// HasID reports whether a line gives the event an ID, which may be empty: from there on
// the stream has none. An ID with NUL is none.
func (l Line) HasID() bool { return string(l.Field) == "id" && bytes.IndexByte(l.Value, 0) < 0 }

// ID gives the last ID that the event has; ok is false where it has none, and the one of
// an event before it stays.
func (v Event) ID() (id string, ok bool) {
	for l := range v.Lines {
		if l.HasID() {
			id, ok = string(l.Value), true
		}
	}
	return id, ok
}

// Retry gives how long the event says to wait before the stream is opened again; ok is
// false where it does not say.
func (v Event) Retry() (wait time.Duration, ok bool) {
	for l := range v.Lines {
		if string(l.Field) != "retry" {
			continue
		}
		if ms, err := strconv.ParseUint(string(l.Value), 10, 31); err == nil {
			wait, ok = time.Duration(ms)*time.Millisecond, true
		}
	}
	return wait, ok
}
