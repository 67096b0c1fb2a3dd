package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxAnswer is the greatest event, or answer that is one JSON value, in bytes.
const maxAnswer = 16 << 20

// errTooLong is an answer of more than maxAnswer.
var errTooLong = errors.New("an event or an answer in JSON has more than 16 MiB")

// events reads a stream of server-sent events (HTML, section 9.2), each whole.
type events struct {
	r       *bufio.Reader
	most    int    // bytes of an event
	text    []byte // of the event that is read, without line ends
	ends    []int  // where its lines end in text
	afterCR bool   // a line feed that comes now belongs to the line before
	begun   bool
}

func newEvents(r io.Reader, most int) *events {
	return &events{r: bufio.NewReaderSize(r, 4<<10), most: most}
}

// next reads the next event, or block of comments. What has no empty line after it
// when the stream ends is no event: the error is io.EOF, or why the stream broke.
func (e *events) next() (event, error) {
	if cap(e.text) > 64<<10 {
		e.text = nil
	}
	e.text, e.ends = e.text[:0], e.ends[:0]
	for {
		if err := e.readLine(); err != nil {
			return event{}, err
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
			return event{e.text, e.ends}, nil
		}
	}
}

// readLine appends a line without its end: LF, CR LF or CR.
func (e *events) readLine() error {
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
			return errTooLong
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

// event is one event, in the lines that it came in. It is good until the next.
type event struct {
	text []byte
	ends []int
}

// line is one of an event, and the field in it.
type line struct{ whole, field, value []byte }

func (v event) lines(yield func(line) bool) {
	begin := 0
	for _, end := range v.ends {
		whole := v.text[begin:end]
		field, value, _ := bytes.Cut(whole, []byte(":"))
		if !yield(line{whole, field, bytes.TrimPrefix(value, []byte(" "))}) {
			return
		}
		begin = end
	}
}

// data is what the event says: its data lines, with line feeds between them.
func (v event) data() (data []byte) {
	first := true
	for l := range v.lines {
		if string(l.field) != "data" {
			continue
		}
		if first {
			data, first = l.value[:len(l.value):len(l.value)], false
			continue
		}
		data = append(append(data, '\n'), l.value...)
	}
	return data
}

// append writes the event with its IDs bound, and with other data where that is
// not nil. All other lines stay as they came, but for their ends.
func (v event) append(out, data []byte, bind func(id string) string) []byte {
	told := false
	for l := range v.lines {
		switch {
		case string(l.field) == "id" && len(l.value) > 0:
			if bytes.IndexByte(l.value, 0) >= 0 {
				continue // readers ignore it
			}
			out = append(append(out, "id: "...), bind(string(l.value))...)
		case string(l.field) == "data" && data != nil:
			if told {
				continue
			}
			told = true
			out = append(append(out, "data: "...), data...)
		default:
			out = append(out, l.whole...)
		}
		out = append(out, '\n')
	}
	return append(out, '\n')
}
