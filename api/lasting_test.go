package api_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
)

// line is a connection that notes its deadlines, in seconds from the beginning: 0 is none.
type line struct {
	*httptest.ResponseRecorder
	begun   time.Time
	writing func() // while a piece is written
	set     []string
}

func (l *line) note(what string, at time.Time) error {
	after := at.Sub(l.begun).Seconds()
	if at.IsZero() {
		after = 0
	} else if after < 0 {
		after = -1 // at once
	}
	l.set = append(l.set, fmt.Sprint(what, " ", after))
	return nil
}

func (l *line) SetWriteDeadline(at time.Time) error { return l.note("write", at) }
func (l *line) SetReadDeadline(at time.Time) error  { return l.note("read", at) }

func (l *line) Write(p []byte) (int, error) {
	if l.writing != nil {
		l.writing()
	}
	return l.ResponseRecorder.Write(p)
}

// slowly is a body that comes to its end, or to a deadline.
type slowly struct {
	text string
	end  error
	asks int
}

func (s *slowly) Read(p []byte) (int, error) {
	s.asks++
	if s.text == "" {
		return 0, s.end
	}
	n := copy(p, s.text)
	s.text = s.text[n:]
	return n, nil
}

func (s *slowly) Close() error { return nil }

// Each piece of an answer that lasts has its time and the silence between them none; what
// is cut or has ended is bounded by nobody any more.
func TestLasting(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(w *line, l *api.Lasting)
		want string
	}{
		{"silence", func(*line, *api.Lasting) {}, "write 0"},
		{"a piece", func(_ *line, l *api.Lasting) { time.Sleep(time.Minute); l.Write([]byte("x")) }, "write 0, write 70, write 0"},
		{"a flush", func(_ *line, l *api.Lasting) { http.NewResponseController(l).Flush() }, "write 0, write 10, write 0"},
		{"an end", func(_ *line, l *api.Lasting) { l.End(); l.Write([]byte("x")); l.Cut() }, "write 0, write 10"},
		{"a cut in silence", func(_ *line, l *api.Lasting) { l.Cut(); l.Write([]byte("x")) }, "write 0, write 10, write 0"},
		{"a cut after a piece", func(_ *line, l *api.Lasting) { l.Write([]byte("x")); l.Cut() }, "write 0, write 10, write 0"},
		{"a cut in a piece", func(w *line, l *api.Lasting) { w.writing = l.Cut; l.Write([]byte("x")); l.Write([]byte("y")); l.End() }, "write 0, write 10, write -1"},
		{"a cut in a piece, twice", func(w *line, l *api.Lasting) { w.writing = func() { l.Cut(); l.Cut() }; l.Write([]byte("x")) }, "write 0, write 10, write -1"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &line{ResponseRecorder: httptest.NewRecorder(), begun: time.Now()}
			tt.do(w, api.NewLasting(w, httptest.NewRequest("GET", "/", nil), 10*time.Second))
			if got := strings.Join(w.set, ", "); got != tt.want {
				t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
			}
		})
	}
}

// Each piece of a body has its time; one that comes too slowly is told as that, and after
// its end it is not asked again. Over HTTP/2 no time is left between two pieces.
func TestLastingBody(t *testing.T) {
	for _, tt := range []struct {
		name  string
		body  *slowly
		err   error
		asks  int
		want  string
		want2 string // over HTTP/2
	}{
		{"to its end", &slowly{text: "abc", end: io.EOF}, io.EOF, 2, "write 0, read 10, read 10", "write 0, read 10, read 0, read 10"},
		{"too slowly", &slowly{text: "abc", end: fmt.Errorf("read: %w", os.ErrDeadlineExceeded)}, api.ErrSlowBody, 3, "write 0, read 10, read 10, read 10", "write 0, read 10, read 0, read 10, read 10"},
		{"broken", &slowly{end: io.ErrUnexpectedEOF}, io.ErrUnexpectedEOF, 2, "write 0, read 10, read 10", "write 0, read 10, read 10"},
	} {
		for proto, want := range map[int]string{1: tt.want, 2: tt.want2} {
			synctest.Test(t, func(t *testing.T) {
				w := &line{ResponseRecorder: httptest.NewRecorder(), begun: time.Now()}
				r, body := httptest.NewRequest("POST", "/", nil), *tt.body
				r.Body, r.ProtoMajor = &body, proto
				api.NewLasting(w, r, 10*time.Second)
				for range 2 {
					if _, err := io.ReadAll(r.Body); !errors.Is(err, tt.err) && !(err == nil && tt.err == io.EOF) {
						t.Errorf("%s: %v", tt.name, err)
					}
				}
				if got := strings.Join(w.set, ", "); got != want || body.asks != tt.asks {
					t.Errorf("%s: %s, asked %d times; want %s, %d", tt.name, got, body.asks, want, tt.asks)
				}
			})
		}
	}
	for _, body := range []io.ReadCloser{nil, http.NoBody} {
		r := httptest.NewRequest("POST", "/", nil)
		r.Body = body
		if api.NewLasting(httptest.NewRecorder(), r, time.Second); r.Body != body {
			t.Errorf("%v became %v", body, r.Body)
		}
	}
	if faults := []int{api.ErrSlowBody.Status, api.ErrEnded.Status, api.ErrManyOfOne.Status, api.ErrChanged.Status}; !slices.Equal(faults, []int{408, 401, 429, 503}) {
		t.Errorf("faults %d", faults)
	}
}
