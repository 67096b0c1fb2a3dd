package sample

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Where the SDK answers nothing, because its caller is gone, the answer is not
// an empty 200.
func TestNothingAnswered(t *testing.T) {
	rec := httptest.NewRecorder()
	(&refusals{ResponseWriter: rec}).answer()
	if rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), `"temporarily_unavailable"`) {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	rec = httptest.NewRecorder()
	w := &refusals{ResponseWriter: rec}
	w.WriteHeader(http.StatusAccepted)
	if w.answer(); rec.Code != http.StatusAccepted || rec.Body.Len() > 0 {
		t.Errorf("what was answered: %d %s", rec.Code, rec.Body)
	}
}
