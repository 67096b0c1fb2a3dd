package api

import (
	"mime"
	"net/http"
	"strings"
)

// IsJSON reports whether a body says that it is application/json: once, in UTF-8
// as far as it says, and with nothing around it.
func IsJSON(h http.Header) bool {
	types := h["Content-Type"]
	if len(types) != 1 || h.Get("Content-Encoding") != "" {
		return false
	}
	media, parameters, err := mime.ParseMediaType(types[0])
	charset, named := parameters["charset"]
	return err == nil && media == "application/json" && (!named || strings.EqualFold(charset, "utf-8"))
}

// HasLoneSurrogate says whether valid JSON has an escape of half a surrogate
// pair, for which encoding/json puts U+FFFD in silence.
func HasLoneSurrogate(body []byte) bool {
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' {
			continue
		}
		if i++; body[i] != 'u' {
			continue
		}
		high := surrogate(body[i+1:])
		i += 4
		if high == 0 {
			continue
		}
		low := byte(0)
		if next := body[i+1:]; len(next) >= 6 && next[0] == '\\' && next[1] == 'u' {
			low = surrogate(next[2:])
		}
		if high != 'h' || low != 'l' {
			return true
		}
		i += 6
	}
	return false
}

// surrogate tells 'h', the first half of a pair, from 'l', the second, and
// from 0, neither, by the four digits of an escape: D800 to DBFF, DC00 to DFFF.
func surrogate(digits []byte) byte {
	switch digits[1] {
	case '8', '9', 'a', 'b', 'A', 'B':
		return half(digits[0], 'h')
	case 'c', 'd', 'e', 'f', 'C', 'D', 'E', 'F':
		return half(digits[0], 'l')
	}
	return 0
}

func half(first, which byte) byte {
	if first != 'd' && first != 'D' {
		return 0
	}
	return which
}
