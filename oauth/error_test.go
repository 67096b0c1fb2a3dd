package oauth

import (
	"encoding/json"
	"net/http/httptest"
	"testing"
)

// refused is what an error's body says.
type refused struct {
	Error       string `json:"error"`
	Description string `json:"error_description"`
}

func readRefusal(t testing.TB, w *httptest.ResponseRecorder) refused {
	t.Helper()
	var e refused
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil {
		t.Fatalf("%d %q: %v", w.Code, w.Body, err)
	}
	return e
}

// wantRefusal checks all that every refusal has in common.
func wantRefusal(t testing.TB, w *httptest.ResponseRecorder, status int, code string) {
	t.Helper()
	e := readRefusal(t, w)
	if w.Code != status || e.Error != code {
		t.Fatalf("%d %s, want %d %s", w.Code, w.Body, status, code)
	}
	if e.Description == "" {
		t.Errorf("%s has no error_description", code)
	}
	for _, c := range e.Description {
		if c < 0x20 || c > 0x7E || c == '"' || c == '\\' { // RFC 6749 section 5.2
			t.Errorf("error_description %q has %q", e.Description, c)
		}
	}
	wantUnkept(t, w)
}

func wantUnkept(t testing.TB, w *httptest.ResponseRecorder) {
	t.Helper()
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Cache-Control": "no-store", "Pragma": "no-cache",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Error descriptions have the characters of RFC 6749 section 5.2 alone,
// whatever is put into them.
func TestDescriptionsArePlain(t *testing.T) {
	w := httptest.NewRecorder()
	refuse(400, "invalid_request", "a\"b\\c\nd\x00e\u00e9f ~\x7f").write(w)
	wantRefusal(t, w, 400, "invalid_request")
	if got, want := readRefusal(t, w).Description, "a'b'c'd'e''f ~'"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
