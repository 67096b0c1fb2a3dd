package connect

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/sse"
)

func TestReadMessages(t *testing.T) {
	for _, tt := range []struct {
		line string
		want []message
	}{
		{hello, []message{{id: "1", method: "initialize", asked: "2025-06-18", program: "Quill Desktop"}}},
		{`{"jsonrpc":"2.0","id":"a\"b","method":"tools/call","params":{"name":"añadir","arguments":{"name":"x"}}}`, []message{{id: `"a\"b"`, method: "tools/call", name: "añadir"}}},
		{`{"jsonrpc":"2.0","id":1.0,"method":"resources/read","params":{"uri":"a://b"}}`, []message{{id: "1.0", method: "resources/read", name: "a://b"}}},
		{`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"quill"}}}}`,
			[]message{{id: "2", method: "tools/list", version: "2026-07-28", program: "quill"}}},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7"}}`, []message{{method: "notifications/cancelled", cancels: `"7"`}}},
		{`{"jsonrpc":"2.0","id":3,"result":{}}`, []message{{id: "3"}}},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"}]`, []message{{id: "1", method: "ping"}, {method: "x"}}},
		{`{"jsonrpc":"2.0","id":null,"method":"ping","params":[1]}`, []message{{method: "ping"}}},
	} {
		if got, err := readMessages([]byte(tt.line)); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v %v", tt.line, got, err)
		}
	}
	for _, bad := range []string{`{`, `[]`, `[1]`, `{"id":1,"id":2}`, `"x"`, "{}{}", strings.Repeat("[", 200)} {
		if got, err := readMessages([]byte(bad)); err == nil {
			t.Errorf("%s is read: %+v", bad, got)
		}
	}
}

func TestHeader(t *testing.T) {
	for name, want := range map[string]string{"whoami": "whoami", "a b": "a b", " a": "=?base64?IGE=?=", "ñ": "=?base64?w7E=?=", "a\nb": "=?base64?YQpi?=", "=?base64?": "=?base64?PT9iYXNlNjQ/?="} {
		if got := header(name); got != want {
			t.Errorf("%q: %q", name, got)
		}
	}
}

// What a message is stays what it is: no line break of it ends the assistant's line.
func TestOneLine(t *testing.T) {
	text := "\r\n{\n\t\"a\": \"b\\nc\",\r\n \"d\": 1\n}\n"
	line := string(oneLine([]byte(text)))
	var before, after any
	if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "}\n") {
		t.Errorf("%q", line)
	}
	if json.Unmarshal([]byte(text), &before) != nil || json.Unmarshal([]byte(line), &after) != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("%q is another message", line)
	}
}

// The assistant's lines end with LF or CR LF, are whole, and have a bound.
func TestReadLine(t *testing.T) {
	in := bufio.NewReaderSize(strings.NewReader("a\r\n\n"+strings.Repeat("b", 100)+"\ncut"), 16)
	for _, want := range []string{"a", "", strings.Repeat("b", 100)} {
		if line, err := readLine(in); err != nil || string(line) != want {
			t.Errorf("%q, %v, want %q", line, err, want)
		}
	}
	if _, err := readLine(in); !errors.Is(err, io.EOF) {
		t.Errorf("a line that is cut off: %v", err)
	}
	if _, err := readLine(bufio.NewReader(endless{})); !errors.Is(err, errLong) {
		t.Errorf("a line without end: %v", err)
	}
}

// Of a stream the assistant gets the messages, a line each; the rest says where it goes on,
// and when.
func TestPour(t *testing.T) {
	var out strings.Builder
	last, retry, seen := "0", time.Duration(0), 0
	b := &bridge{out: &out}
	err := b.pour(strings.NewReader(": hi\n\nid: 1\nretry: 70\ndata: {\"a\":\ndata:1}\n\nid: 2\r\n\r\nid:3\n\ndata: cut off\n"), &last, &retry, func([]byte) { seen++ })
	if !errors.Is(err, io.EOF) || last != "3" || retry != 70*time.Millisecond || seen != 1 || out.String() != "{\"a\": 1}\n" {
		t.Errorf("%v, %q, %v, %d, %q", err, last, retry, seen, out.String())
	}
	if err := b.pour(io.MultiReader(strings.NewReader("id\n\ndata: "), endless{}), &last, &retry, nil); !errors.Is(err, sse.ErrTooLong) || last != "" {
		t.Errorf("an event without end: %v, %q", err, last)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestMeanwhile(t *testing.T) {
	for _, tt := range []struct {
		m     message
		holds []string
	}{
		{message{id: "1", method: "initialize", asked: "2025-03-26"}, []string{`"protocolVersion":"2025-03-26"`, `"listChanged":true`, `"instructions":"why"`}},
		{message{id: "1", method: "initialize", asked: "2027-01-01"}, []string{`"protocolVersion":"2025-11-25"`}},
		{message{id: "1", method: "initialize"}, []string{`"protocolVersion":"2025-11-25"`}},
		{message{id: `"x"`, method: "ping"}, []string{`"id":"x"`, `"result":{}`}},
		{message{id: "1", method: "tools/list"}, []string{`"name":"approve_access"`, "why"}},
		{message{id: "1", method: "tools/call", name: "approve_access"}, []string{`"isError":false`, "why"}},
		{message{id: "1", method: "tools/call", name: "other"}, []string{`"isError":true`, "why"}},
		{message{id: "1", method: "prompts/list"}, []string{`"prompts":[]`}},
		{message{id: "1", method: "sampling/x"}, []string{`"code":-32000`, `"message":"why"`}},
	} {
		got := string(meanwhile(tt.m, "v1", "why"))
		for _, text := range tt.holds {
			if !strings.Contains(got, text) {
				t.Errorf("%+v: %s has no %s", tt.m, got, text)
			}
		}
	}
}

func TestEndpoints(t *testing.T) {
	for text, good := range map[string]bool{
		"https://app.example.com/api/v5/mcp": true, "http://127.0.0.1:8080/api/v5/mcp": true, "http://[::1]:8080/mcp": true, "http://localhost/mcp": true,
		"http://app.example.com/mcp": false, "http://127.0.0.1.evil.example/mcp": false, "http://localhost.evil.example/mcp": false, "http://10.0.0.1/mcp": false,
		"https://user:secret@app.example.com/mcp": false, "https://app.example.com/mcp?x=1": false, "https://app.example.com/mcp#x": false,
		"ftp://app.example.com/": false, "app.example.com/mcp": false, "": false, "https:app.example.com": false, "https://": false,
	} {
		if _, err := parseEndpoint(text); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		} else if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("a password is told: %v", err)
		}
	}
	a, _ := parseEndpoint("https://app.example.com/api/v5/mcp")
	b, _ := parseEndpoint("https://app.example.com/api/v6/mcp")
	if a.fileName() == b.fileName() || !strings.HasPrefix(a.fileName(), "app.example.com-") {
		t.Error(a.fileName(), b.fileName())
	}
}

// However a server asks for it, a stream is taken up again once a second at most, and not
// without end.
func TestAgain(t *testing.T) {
	for retry, want := range map[time.Duration]time.Duration{0: time.Second, time.Millisecond: time.Second, 7 * time.Second: 7 * time.Second, 500 * time.Hour: time.Minute} {
		if wait, ok := new(again).next(true, retry); wait != want || !ok {
			t.Errorf("%s: %s %t", retry, wait, ok)
		}
	}
	for moved, most := range map[bool]int{true: mostAgain, false: mostIdle} {
		n := 0
		for a := (again{}); n <= mostAgain; n++ {
			if _, ok := a.next(moved, 0); !ok {
				break
			}
		}
		if n != most {
			t.Errorf("%d tries", n)
		}
	}
}
