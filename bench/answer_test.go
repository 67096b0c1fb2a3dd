package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

const long = 5000 // bytes, more than the reader's first buffer

var goodAnswers = []struct {
	name, text string
	status     int
	body       string
	close      bool
}{
	{"a length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 200, "{}", false},
	{"no reason phrase", "HTTP/1.1 201\r\ncontent-length:2 \r\n\r\nab", 201, "ab", false},
	{"an empty body", "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n", 429, "", false},
	{"no content", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", false},
	{"chunks", "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n3\r\nabc\r\n0A\r\n0123456789\r\n0\r\n\r\n", 200, "abc0123456789", false},
	{"a chunk with line ends in it", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n\r\n0\r\n\r\na\r\n0\r\n\r\n", 200, "\r\n0\r\n\r\na", false},
	{"a body that looks like a header", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\na\r\n\r\nb", 200, "a\r\n\r\nb", false},
	{"closed", "HTTP/1.1 503 x\r\nConnection: Close\r\nContent-Length: 1\r\n\r\nx", 503, "x", true},
	{"a long body", "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + strings.Repeat("x", long), 200, strings.Repeat("x", long), false},
	{"a long header", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", long) + "\r\nContent-Length: 1\r\n\r\nz", 200, "z", false},
}

// Whatever pieces the answers come in, each is read whole and where the one
// before ends.
func TestAnswers(t *testing.T) {
	var stream strings.Builder
	for range 3 {
		for _, a := range goodAnswers {
			stream.WriteString(a.text)
		}
	}
	for name, from := range map[string]io.Reader{
		"at once":        strings.NewReader(stream.String()),
		"byte by byte":   iotest.OneByteReader(strings.NewReader(stream.String())),
		"half by half":   iotest.HalfReader(strings.NewReader(stream.String())),
		"data with EOF":  iotest.DataErrReader(strings.NewReader(stream.String())),
		"seven by seven": sevens{strings.NewReader(stream.String())},
	} {
		r := newAnswers(from)
		for range 3 {
			for _, want := range goodAnswers {
				got, err := r.next()
				if err != nil {
					t.Fatalf("%s: %s: %v", name, want.name, err)
				}
				if got.status != want.status || string(got.body) != want.body || got.close != want.close {
					t.Fatalf("%s: %s: %d %.20q close %v, want %d %.20q close %v",
						name, want.name, got.status, got.body, got.close, want.status, want.body, want.close)
				}
			}
		}
		if _, err := r.next(); err != io.ErrUnexpectedEOF {
			t.Fatalf("%s: after the last answer: %v", name, err)
		}
	}
}

type sevens struct{ io.Reader }

func (s sevens) Read(p []byte) (int, error) { return s.Reader.Read(p[:min(7, len(p))]) }

// What could be misread is refused.
func TestAnswersRefuse(t *testing.T) {
	ok := "HTTP/1.1 200 OK\r\n"
	for name, text := range map[string]string{
		"nothing":                   "",
		"half a header":             ok + "Content-Length: 2\r\n",
		"half a body":               ok + "Content-Length: 2\r\n\r\n{",
		"another version":           "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
		"a status of two digits":    "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
		"a status of four digits":   "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
		"an interim answer":         "HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n",
		"a line that LF ends":       "HTTP/1.1 200 \n\r\nContent-Length: 0\r\n\r\n0",
		"a short line":              "HTTP\r\n\r\n",
		"no length":                 ok + "\r\n",
		"a length and chunks":       ok + "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"two lengths":               ok + "Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
		"a signed length":           ok + "Content-Length: +1\r\n\r\nx",
		"an empty length":           ok + "Content-Length: \r\n\r\n",
		"a huge length":             ok + "Content-Length: 9999999\r\n\r\n",
		"another encoding":          ok + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"a folded line":             ok + "A: b\r\n Content-Length: 1\r\nContent-Length: 0\r\n\r\n",
		"a space before the colon":  ok + "Content-Length : 0\r\nContent-Length: 0\r\n\r\n",
		"a line without a colon":    ok + "hello\r\nContent-Length: 0\r\n\r\n",
		"no content with a length":  "HTTP/1.1 204 No\r\nContent-Length: 1\r\n\r\nx",
		"a chunk of no size":        ok + "Transfer-Encoding: chunked\r\n\r\n\r\n\r\n",
		"a chunk with an extension": ok + "Transfer-Encoding: chunked\r\n\r\n1;a=b\r\nx\r\n0\r\n\r\n",
		"a chunk of another size":   ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n0\r\n\r\n",
		"a chunk that is too large": ok + "Transfer-Encoding: chunked\r\n\r\n200000\r\n" + strings.Repeat("x", 2*maxBody) + "\r\n0\r\n\r\n",
		"trailers":                  ok + "Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n\r\n",
		"a body that is too large":  ok + "Content-Length: 2097152\r\n\r\n" + strings.Repeat("x", 2*maxBody),
		"a header that is too long": ok + "X: " + strings.Repeat("y", 4*maxHead) + "\r\nContent-Length: 0\r\n\r\n",
	} {
		if a, err := newAnswers(strings.NewReader(text)).next(); err == nil {
			t.Errorf("%s: read as %d %q", name, a.status, a.body)
		}
	}
}

// What the reader takes, net/http reads the same, and both stop at the same
// byte.
func FuzzAnswers(f *testing.F) {
	for _, a := range goodAnswers {
		f.Add([]byte(a.text))
	}
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 204 x\r\n\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		ours := newAnswers(iotest.OneByteReader(bytes.NewReader(text)))
		theirs := bufio.NewReader(bytes.NewReader(text))
		for {
			a, err := ours.next()
			if err != nil {
				return
			}
			r, err := http.ReadResponse(theirs, nil)
			if err != nil {
				return // of what is no matter of length we look at little
			}
			body, err := io.ReadAll(r.Body)
			if err != nil || r.StatusCode != a.status || !bytes.Equal(body, a.body) {
				t.Fatalf("read as %d %q, by net/http as %d %q %v", a.status, a.body, r.StatusCode, body, err)
			}
		}
	})
}
