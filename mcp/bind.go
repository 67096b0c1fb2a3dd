package mcp

import (
	"encoding/binary"
	"strings"

	"github.com/grantkeeper/grantkeeper/token"
)

// tagLen is the length of what the ring binds an ID with.
const tagLen = 22

// binder binds the service's IDs to who may use them (decisions V5 and V6). Nothing
// is stored: every node reads what another bound.
type binder struct {
	ring     *token.Ring
	who      string // api.Actor.Credential
	upstream string // URL, behind the path of an endpoint beside the contract's
}

// session gives a session ID as the client gets it.
func (b binder) session(id string) string { return b.bind("mcp session", id) }

// unbindSession gives the service's ID of a session that this client has.
func (b binder) unbindSession(bound string) (id string, ok bool) {
	return b.unbind("mcp session", bound)
}

// event gives an event's ID as the client gets it. Services may count their
// events, so that an ID says nothing without its session.
func (b binder) event(session, id string) string { return b.bind("mcp event", id, session) }

func (b binder) unbindEvent(session, bound string) (id string, ok bool) {
	return b.unbind("mcp event", bound, session)
}

func (b binder) bind(purpose, id string, more ...string) string {
	return id + "." + b.ring.Tag(purpose, b.over(id, more))
}

func (b binder) unbind(purpose, bound string, more ...string) (string, bool) {
	i := strings.LastIndexByte(bound, '.')
	if i < 1 || len(bound)-i-1 != tagLen {
		return "", false
	}
	id := bound[:i]
	return id, b.ring.Tagged(purpose, b.over(id, more), bound[i+1:])
}

// over writes each part behind its length, so that no two lists are one text.
func (b binder) over(id string, more []string) (out []byte) {
	for _, part := range append([]string{b.who, b.upstream, id}, more...) {
		out = binary.AppendUvarint(out, uint64(len(part)))
		out = append(out, part...)
	}
	return out
}

// headerSafe reports whether an ID of the service can stand in a header, as a
// session's has to (visible ASCII).
func headerSafe(id string) bool {
	for i := range len(id) {
		if id[i] < 0x21 || id[i] > 0x7e {
			return false
		}
	}
	return id != "" && len(id) <= 1024
}
