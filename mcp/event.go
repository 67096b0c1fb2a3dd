package mcp

import (
	"errors"

	"github.com/grantkeeper/grantkeeper/sse"
)

// maxAnswer is the greatest event, or answer that is one JSON value, in bytes.
const maxAnswer = 16 << 20

// errTooLong is an answer of more than maxAnswer.
var errTooLong = errors.New("an event or an answer in JSON has more than 16 MiB")

// rewritten is an event with its IDs bound, and with other data where that is
// not nil. All other lines stay as they came, but for their ends.
func rewritten(v sse.Event, data []byte, bind func(id string) string) (out []byte) {
	told := false
	for l := range v.Lines {
		switch {
		case l.HasID() && len(l.Value) > 0:
			out = append(append(out, "id: "...), bind(string(l.Value))...)
		case string(l.Field) == "id" && !l.HasID():
			continue // readers ignore it
		case string(l.Field) == "data" && data != nil:
			if told {
				continue
			}
			told = true
			out = append(append(out, "data: "...), data...)
		default:
			out = append(out, l.Whole...)
		}
		out = append(out, '\n')
	}
	return append(out, '\n')
}
