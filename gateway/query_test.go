package gateway

import (
	"net/http"
	"testing"
)

// The service reads the query by itself: what one reader cannot parse, another
// may, and a filter that is left out would look as if it had been applied.
func TestQueryIsPassedOnAsItCame(t *testing.T) {
	got := ""
	b := newBehind(t, func(_ http.ResponseWriter, r *http.Request) { got = r.RequestURI }, nil)
	for _, query := range []string{"", "?a=1&b", "?role=host;circle=money", "?after=%zz", "?a=%20+%2B&a=1", "?;&&="} {
		b.call("GET", "/api/v5/notes"+query, nil).Body.Close()
		if got != "/api/v5/notes"+query {
			t.Errorf("%q came as %q", query, got)
		}
	}
}
