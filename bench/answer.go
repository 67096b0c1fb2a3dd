package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// An answer is what was read of one HTTP/1.1 response. The body shares the
// reader's memory and stands until the next read.
type answer struct {
	status int
	body   []byte
	close  bool // the server closes the connection after it
}

// answers reads responses from one kept connection. It takes what a server
// sends to a generator that asks nothing unusual: a body with Content-Length
// or in chunks without trailers (RFC 9112 sections 6 and 7), and refuses what
// it could misread.
type answers struct {
	from   io.Reader
	buffer []byte // what was read and not used yet is buffer[start:end]
	start  int
	end    int
	whole  []byte // a body put together from chunks
}

const (
	maxHead = 16 << 10
	maxBody = 1 << 20
	maxLine = 256 // of the line before a chunk
)

var (
	errEncoding = errors.New("an answer with a Transfer-Encoding other than chunked")
	errLength   = errors.New("an answer whose length cannot be told")
	errLine     = errors.New("a header with a line that CRLF does not end")
	errChunk    = errors.New("an answer with a broken chunk")
	crlf        = []byte("\r\n")
)

func newAnswers(from io.Reader) *answers {
	return &answers{from: from, buffer: make([]byte, 4<<10)}
}

// next reads one response.
func (r *answers) next() (answer, error) {
	head, err := r.upTo([]byte("\r\n\r\n"), maxHead)
	if err != nil {
		return answer{}, err
	}
	h, err := readHead(head[:len(head)-len(crlf)])
	if err != nil {
		return answer{}, err
	}
	a := answer{status: h.status, close: h.close}
	if h.chunked {
		a.body, err = r.chunks()
	} else {
		a.body, err = r.take(h.length)
	}
	return a, err
}

type head struct {
	status  int
	length  int // of the body; -1 when the header does not say
	chunked bool
	close   bool
}

// readHead reads status line and header. The lines end with CRLF, the last
// one too.
func readHead(text []byte) (head, error) {
	h := head{length: -1}
	line, text, ok := cutLine(text)
	if !ok {
		return head{}, errLine
	}
	ok = len(line) >= 12 && string(line[:9]) == "HTTP/1.1 " && (len(line) == 12 || line[12] == ' ')
	if h.status, ok = number(line[min(9, len(line)):min(12, len(line))], ok); !ok || h.status < 200 {
		return head{}, fmt.Errorf("not the status line of an answer: %.40q", line)
	}
	for len(text) > 0 {
		if line, text, ok = cutLine(text); !ok {
			return head{}, errLine
		}
		if err := h.field(line); err != nil {
			return head{}, err
		}
	}
	switch {
	case h.chunked && h.length >= 0:
		return head{}, errLength
	case h.status == 204 || h.status == 304:
		if h.chunked || h.length > 0 {
			return head{}, errLength
		}
		h.length = 0
	case !h.chunked && (h.length < 0 || h.length > maxBody):
		return head{}, errLength
	}
	return h, nil
}

// cutLine cuts after the first line; not where LF alone ends it.
func cutLine(text []byte) (line, rest []byte, ok bool) {
	i := bytes.IndexByte(text, '\n')
	if i < 1 || text[i-1] != '\r' {
		return nil, nil, false
	}
	return text[:i-1], text[i+1:], true
}

// field reads one line of the header. Names are compared in any case.
func (h *head) field(line []byte) error {
	colon := bytes.IndexByte(line, ':')
	if colon < 1 || bytes.IndexByte(line[:colon], ' ') >= 0 || bytes.IndexByte(line[:colon], '\t') >= 0 {
		return fmt.Errorf("not a line of a header: %.40q", line)
	}
	name, ok := line[:colon], false
	if len(name) != 14 && len(name) != 17 && len(name) != 10 {
		return nil
	}
	value := bytes.Trim(line[colon+1:], " \t")
	switch {
	case len(name) == 14 && bytes.EqualFold(name, []byte("Content-Length")):
		if h.length >= 0 {
			return errLength
		}
		if h.length, ok = number(value, true); !ok {
			return errLength
		}
	case len(name) == 17 && bytes.EqualFold(name, []byte("Transfer-Encoding")):
		if h.chunked || !bytes.EqualFold(value, []byte("chunked")) {
			return errEncoding
		}
		h.chunked = true
	case len(name) == 10 && bytes.EqualFold(name, []byte("Connection")):
		h.close = h.close || bytes.EqualFold(value, []byte("close"))
	}
	return nil
}

// number reads up to nine decimal digits. ok passes through what was found
// before.
func number(text []byte, ok bool) (int, bool) {
	if !ok || len(text) == 0 || len(text) > 9 {
		return -1, false
	}
	n := 0
	for _, c := range text {
		if c < '0' || c > '9' {
			return -1, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}

func (r *answers) chunks() ([]byte, error) {
	r.whole = r.whole[:0]
	for {
		line, err := r.upTo(crlf, maxLine)
		if err != nil {
			return nil, err
		}
		size, ok := hexadecimal(line[:len(line)-len(crlf)])
		if !ok || len(r.whole)+size > maxBody {
			return nil, errChunk
		}
		chunk, err := r.take(size + len(crlf))
		if err != nil {
			return nil, err
		}
		if !bytes.HasSuffix(chunk, crlf) {
			return nil, errChunk // or a trailer, which nobody sends here
		}
		if size == 0 {
			return r.whole, nil
		}
		r.whole = append(r.whole, chunk[:size]...)
	}
}

// hexadecimal reads up to six digits, and no extension after them.
func hexadecimal(text []byte) (n int, ok bool) {
	if len(text) == 0 || len(text) > 6 {
		return 0, false
	}
	for _, c := range text {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		n = 16*n + int(c)
	}
	return n, true
}

// upTo takes what stands before the mark, and the mark, reading on as needed.
func (r *answers) upTo(mark []byte, most int) ([]byte, error) {
	for from := 0; ; {
		there := r.buffer[r.start:r.end]
		if i := bytes.Index(there[from:], mark); i >= 0 {
			return r.take(from + i + len(mark))
		}
		if len(there) > most {
			return nil, fmt.Errorf("an answer with more than %d bytes before %q", most, mark)
		}
		from = max(0, len(there)-len(mark)+1)
		if err := r.read(); err != nil {
			return nil, err
		}
	}
}

// take gives the next n bytes.
func (r *answers) take(n int) ([]byte, error) {
	for r.end-r.start < n {
		if err := r.read(); err != nil {
			return nil, err
		}
	}
	out := r.buffer[r.start : r.start+n]
	if r.start += n; r.start == r.end {
		r.start, r.end = 0, 0
	}
	return out, nil
}

// read adds what comes to the buffer.
func (r *answers) read() error {
	if r.end == len(r.buffer) {
		if r.start > 0 {
			r.end = copy(r.buffer, r.buffer[r.start:r.end])
			r.start = 0
		} else {
			r.buffer = append(r.buffer, make([]byte, len(r.buffer))...)
		}
	}
	n, err := r.from.Read(r.buffer[r.end:])
	r.end += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}
