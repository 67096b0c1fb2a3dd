package oauth

import "net/http"

// Error is what a client can be told. RFC 6749 section 5.2, RFC 7591 section
// 3.2.2; decisions T2 and T10 have the codes. Every other error is ours: it is
// logged at the door and told to no one.
type Error struct {
	Status      int    // of HTTP
	Code        string // the member error
	Description string // error_description: our own words, nothing of the request

	header, value string // one that belongs to the status, such as Allow
	reason        string // for Server.Count
	unknown       bool   // nobody knows whether what was asked for was done
}

func (e *Error) Error() string { return e.Code + ": " + e.Description }

func refuse(status int, code, description string) *Error {
	return &Error{Status: status, Code: code, Description: description}
}

func invalidRequest(description string) *Error {
	return refuse(http.StatusBadRequest, "invalid_request", description)
}

func missing(parameter string) *Error { return invalidRequest("missing parameter: " + parameter) }

func methodNotAllowed(allow string) *Error {
	return &Error{
		Status: http.StatusMethodNotAllowed, Code: "invalid_request",
		Description: "this endpoint takes only " + allow,
		header:      "Allow", value: allow,
	}
}

// unavailable asks the client to come again. Any other code would make client
// SDKs throw good tokens away (decision T10).
var unavailable = &Error{
	Status: http.StatusServiceUnavailable, Code: "temporarily_unavailable", reason: "unavailable",
	Description: "the server cannot answer now, send the same request again",
	header:      "Retry-After", value: "5",
}

// uncertain is that, of something that may have been done all the same: for a client
// that would rather ask its person again than present a token twice (decision T10).
var uncertain = &Error{
	Status: http.StatusServiceUnavailable, Code: "temporarily_unavailable", reason: "unavailable", unknown: true,
	Description: "the server cannot tell whether this was done: if it was, the same request presents a used code or token",
	header:      "Retry-After", value: "5",
}

func (e *Error) write(w http.ResponseWriter) {
	if e.header != "" {
		w.Header().Set(e.header, e.value)
	}
	b := append(make([]byte, 0, 256), `{"error":"`...)
	b = appendPlain(b, e.Code)
	b = append(b, `","error_description":"`...)
	b = appendPlain(b, e.Description)
	b = append(b, '"')
	if e.unknown {
		b = append(b, `,"outcome":"unknown"`...)
	}
	writeJSON(w, e.Status, append(b, '}'))
}

// appendPlain appends the characters that RFC 6749 section 5.2 allows in an
// error and its description, of which none is special in JSON; others become
// an apostrophe.
func appendPlain(b []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if c < 0x20 || c > 0x7E || c == '"' || c == '\\' {
			c = '\''
		}
		b = append(b, c)
	}
	return b
}

var (
	jsonType = []string{"application/json"}
	noStore  = []string{"no-store"}
	noCache  = []string{"no-cache"} // Pragma, RFC 6749 section 5.1
)

// writeJSON writes an answer that nobody may keep (decision M6).
func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Cache-Control"] = noStore
	h["Pragma"] = noCache
	w.WriteHeader(status)
	w.Write(body) // the client may have gone: nothing to do about it
}
