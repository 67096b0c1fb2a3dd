package oauth

import "net/http"

// Values that many answers share. They are assigned to headers as they are and
// never changed.
var (
	everyOrigin    = []string{"*"}
	exposedHeaders = []string{"WWW-Authenticate, Retry-After, MCP-Protocol-Version"}
	allowedHeaders = []string{"Authorization, Content-Type, Accept, MCP-Protocol-Version, " +
		"Mcp-Session-Id, Mcp-Method, Mcp-Name, Last-Event-ID, X-Auth-Token"}

	// At the token endpoint there are proofs of the client's key (RFC 9449).
	exposedAtToken = []string{exposedHeaders[0] + ", DPoP-Nonce"}
	allowedAtToken = []string{allowedHeaders[0] + ", DPoP"}
)

const tokenPath = "/oauth/token"

// allowedAt are the headers that a script may send to an endpoint.
func allowedAt(path string) []string {
	if path == tokenPath {
		return allowedAtToken
	}
	return allowedHeaders
}

// allowEveryOrigin lets scripts of every origin read the answer: nothing here
// depends on a cookie, so there is nothing to protect from them (decision M5).
func allowEveryOrigin(h http.Header) {
	h["Access-Control-Allow-Origin"] = everyOrigin
	h["Access-Control-Expose-Headers"] = exposedHeaders
}

// preflight answers the question of a browser whether a script may send a
// request (Fetch, section "CORS protocol"), and reports whether this was one.
// Either header of such a question is enough; OPTIONS without them is a method
// like any other.
func preflight(w http.ResponseWriter, r *http.Request, methods string) bool {
	if r.Method != http.MethodOptions ||
		r.Header["Origin"] == nil && r.Header["Access-Control-Request-Method"] == nil {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", methods)
	h["Access-Control-Allow-Headers"] = allowedAt(r.URL.Path)
	w.WriteHeader(http.StatusNoContent)
	return true
}
