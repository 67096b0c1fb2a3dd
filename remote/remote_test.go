package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/operator"
)

// A cell of a list in CSV is no formula, whatever a client calls itself.
func TestCellsOfCSV(t *testing.T) {
	for _, tt := range []struct {
		value any
		want  string
	}{
		{"Quill", "Quill"}, {"=1+1", "'=1+1"}, {"+1", "'+1"}, {"-1", "'-1"}, {"@x", "'@x"}, {"\t=1", "'\t=1"}, {"", ""}, {nil, ""}, {0., ""}, {1795290656., "2026-11-21T19:50:56Z"},
	} {
		if got := csvCell(tt.value); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.value, got, tt.want)
		}
	}
}

// Each effect of rules is told in words.
func TestEffectsInWords(t *testing.T) {
	got := EffectsInWords([]any{
		map[string]any{"host": "a.example", "connections": 1.}, map[string]any{"ceiling": "read_only", "connections": 2.}, map[string]any{"ends_at": 1795290656., "connections": 3.},
	})
	want := []string{"1 connection to a.example: ended for good, because it is blocked", "2 connections: less access, by read_only", "3 connections: an end on 2026-11-21T19:50:56Z"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// What a server refuses becomes an exit code, and what it says stays on its
// line.
func TestOperatorRefusals(t *testing.T) {
	var status int
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	defer server.Close()
	c := Server{Base: server.URL, HTTP: server.Client()}
	for _, tt := range []struct {
		status int
		body   string
		code   int
		says   string
	}{
		{200, `{"error":"none"}`, 0, ""},
		{200, `{`, 4, "not as an operator API"},
		{204, ``, 4, "not as an operator API"},
		{307, `{}`, 4, "not as an operator API"},
		{400, `{"error":"invalid_request","error_description":"reason: too\nlong"}`, 2, "reason: too long"},
		{401, `{"error":"unauthorized","error_description":"sign in"}`, 4, "does not take the operators' password"},
		{404, `{"error":"not_found","error_description":"there is no such person"}`, 5, "there is no such person"},
		{404, `{"error":"api_off","error_description":"the operator API is off"}`, 4, server.URL + ": the operator API is off"},
		{404, `not found`, 4, "not as an operator API"},
		{409, `{"error":"conflict","error_description":"it exists already"}`, 6, "it exists already"},
		{500, `{"error":"server_error","error_description":"something went wrong here","reference":"abc\u001b[2J"}`, 1, server.URL + ": something went wrong here (reference abc [2J)"},
		{503, `{"error":"temporarily_unavailable","error_description":"later"}`, 4, server.URL + ": later"},
	} {
		status, body = tt.status, tt.body
		var into map[string]any
		err := c.Do(t.Context(), "GET", "/v1/x", nil, nil, &into)
		if fault.CodeOf(err) != tt.code || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%d %s: %d %v, want %d", tt.status, tt.body, fault.CodeOf(err), err, tt.code)
		}
	}
}

// Of a change whose answer was lost it is told that it may have been made; of one that was
// not sent, and of what changes nothing, it is not.
func TestLostAnswers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/half" {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, `{"id":`)
			w.(http.Flusher).Flush()
		}
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	strange := httptest.NewUnstartedServer(nil)
	strange.Config.ErrorLog = log.New(io.Discard, "", 0)
	strange.StartTLS() // with a certificate that nobody trusts
	defer strange.Close()
	const may = "may have done"
	for _, tt := range []struct {
		base, method, path string
		says               string
		may                bool
	}{
		{server.URL, http.MethodPost, "/", "broke off its answer", true},
		{server.URL, http.MethodPut, "/half", "broke off its answer", true},
		{server.URL, http.MethodGet, "/", "does not answer", false},
		{server.URL, http.MethodGet, "/half", "broke off its answer", false},
		{"http://127.0.0.1:1", http.MethodPost, "/", "does not answer", false},
		{strange.URL, http.MethodPost, "/", "does not answer", false},
	} {
		c := Server{Base: tt.base, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
		err := c.Do(t.Context(), tt.method, tt.path, nil, map[string]any{}, &struct{}{})
		if fault.CodeOf(err) != fault.Reach || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), may) != tt.may {
			t.Errorf("%s %s%s: %v", tt.method, tt.base, tt.path, err)
		}
	}
}

// The password goes to the server that was asked, with a body in JSON, and to
// nobody whom that server names.
func TestOperatorClientSends(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		got = append(got, fmt.Sprint(r.Method, " ", r.URL, " ", r.Header.Get("Content-Type"), " ", body["reason"], " ", password))
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("a long password\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := At{URL: server.URL, PasswordFile: file}.Connect(t.Context(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	var into any
	if err := c.Do(context.Background(), "POST", "/v1/x", url.Values{"a": {"b c"}}, map[string]string{"reason": "lost"}, &into); fault.CodeOf(err) != 4 {
		t.Errorf("a redirect: %v", err)
	}
	if c, err = (At{URL: server.URL, Password: "known"}).Connect(t.Context(), "", nil); err != nil {
		t.Fatal(err)
	}
	_ = c.Do(context.Background(), "GET", "/v1/y", nil, nil, &into)
	if want := []string{"POST /v1/x?a=b+c application/json lost a long password", "GET /v1/y  <nil> known"}; !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
}

// An import that takes a version changes something, also where no list has a change.
func TestImportedInWords(t *testing.T) {
	const question = "This adds 0, changes 0 and removes 0, and ends 0 approvals for good."
	for _, tt := range []struct {
		told           Imported
		says, question string
	}{
		{Imported{}, "nothing to change\napprovals      0 ended\n", question},
		{Imported{AsOf: 42, DryRun: true}, "as_of          42\napprovals      0 would end\n", question + " From then on a directory older than version 42 is refused."},
	} {
		if tt.told.String() != tt.says || tt.told.Question() != tt.question {
			t.Errorf("%+v:\n%s%s", tt.told, tt.told, tt.told.Question())
		}
	}
}

// A backup that is in its place is told of, also where its maker is ended meanwhile; where
// it cannot be, it is said that the file is whole.
func TestBackUpThatIsEnded(t *testing.T) {
	for _, lost := range []bool{false, true} {
		ctx, end := context.WithCancel(t.Context())
		name := filepath.Join(t.TempDir(), "backup.db")
		told := false
		server := Server{Base: "http://operators.example", HTTP: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			a := &http.Response{StatusCode: 200, Header: http.Header{operator.TakenAt: {"1795290656"}}, ContentLength: 4, Body: io.NopCloser(strings.NewReader("rows"))}
			if r.Method == http.MethodGet {
				return a, nil
			}
			if end(); lost || r.Context().Err() != nil {
				return nil, io.ErrUnexpectedEOF
			}
			told, a.Body = true, io.NopCloser(strings.NewReader("{}"))
			return a, nil
		})}}
		_, size, err := server.BackUp(ctx, name, false, "")
		if text, there := os.ReadFile(name); there != nil || string(text) != "rows" || told == lost {
			t.Errorf("lost %t: %q, %v, told %t", lost, text, there, told)
		}
		if lost && (fault.CodeOf(err) != fault.Reach || !strings.Contains(err.Error(), name+" is a whole backup")) || !lost && (err != nil || size != 4) {
			t.Errorf("lost %t: %d, %v", lost, size, err)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Where a name cannot be looked at, nobody says that something is there.
func TestBackUpWhereItCannotLook(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, code := range map[string]int{file: fault.State, filepath.Join(file, "x.db"): fault.Reach} {
		if _, _, err := (&Server{}).BackUp(t.Context(), name, false, ""); fault.CodeOf(err) != code || code == fault.Reach && strings.Contains(err.Error(), "is there already") {
			t.Errorf("%s: %v, want exit code %d", name, err, code)
		}
	}
}
