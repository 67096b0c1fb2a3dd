package api

import (
	"encoding/json"
	"strconv"
	"strings"
)

// me answers GET /api/v5/me, and the same on v3 and v4. It has no tag: nobody
// changes it by itself, and to make one would cost more than the answer.
func (s *Server) me(c *call) (answer, error) {
	m, err := s.meWith(c.Context(), c.actor, c.roles)
	if err != nil {
		return answer{}, err
	}
	c.roles = m.Roles
	c.room = m.append(c.room)
	return answer{status: 200, body: c.room}, nil
}

// append writes what json.Marshal would, in a quarter of its time: this is what
// clients ask first and most, and it should cost no more than the check.
func (m *Me) append(b []byte) []byte {
	b = append(b, `{"person":`...)
	b = m.Person.append(b)
	b = append(b, `,"organization":`...)
	b = m.Organization.append(b)
	if m.Client != "" {
		b = append(b, `,"client_id":`...)
		b = appendString(b, m.Client)
	}
	b = append(b, `,"grant":{"kind":`...)
	b = appendString(b, m.Grant.Kind)
	b = append(b, `,"words":`...)
	b = appendString(b, m.Grant.Words)
	b = append(b, `,"personal_items":`...)
	b = strconv.AppendBool(b, m.Grant.PersonalItems)
	b = append(b, `,"administers":`...)
	b = strconv.AppendBool(b, m.Grant.Administers)
	b = append(b, `},"roles":[`...)
	for i := range m.Roles {
		if i > 0 {
			b = append(b, ',')
		}
		b = m.Roles[i].append(b)
	}
	return append(b, "]}"...)
}

func (n *Named) append(b []byte) []byte {
	b = append(b, `{"id":`...)
	b = appendString(b, n.ID)
	b = append(b, `,"name":`...)
	b = appendString(b, n.Name)
	return append(b, '}')
}

func (r *Role) append(b []byte) []byte {
	b = append(b, `{"id":`...)
	b = appendString(b, r.ID)
	b = append(b, `,"name":`...)
	b = appendString(b, r.Name)
	b = append(b, `,"circle":`...)
	b = appendString(b, r.Circle)
	b = append(b, `,"access":`...)
	b = appendString(b, r.Access)
	return append(b, '}')
}

// appendString writes a JSON string. Plain ASCII is copied; the rest is left to
// encoding/json.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if !plain[s[i]] {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic(err) // strings are always JSON
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// plain says of each byte whether it stands in JSON as it is.
var plain = func() (ok [256]bool) {
	for c := byte(' '); c < 0x7f; c++ {
		ok[c] = strings.IndexByte(`"\<>&`, c) < 0
	}
	return ok
}()
