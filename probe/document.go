package probe

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/grantkeeper/grantkeeper/strictjson"
)

// A document is one answer that should be metadata.
type document struct {
	address string
	asked   bool
	answer  Answer
	members strictjson.Members
	wrong   string // why it is none; "" of one that can be used
}

// document gives what was answered at an address.
func (q *Inquiry) document(address string) document {
	d := document{address: address}
	if d.answer, d.asked = q.find("document", address); !d.asked {
		d.wrong = "was not asked"
		return d
	}
	d.members, d.wrong = d.answer.object()
	if d.answer.Error == "" && d.answer.Status != 200 {
		d.wrong = "answers " + status(d.answer)
	}
	return d
}

func (d document) usable() bool { return d.asked && d.wrong == "" }

// missing reports whether the server, which was asked, says that there is no such document.
func (d document) missing() bool {
	return d.answer.Error == "" && d.answer.Status != 200
}

// object reads the body as one JSON object, or says why it is none.
func (a Answer) object() (strictjson.Members, string) {
	if a.Error != "" {
		return nil, failures[a.Error]
	}
	members, err := strictjson.Object([]byte(a.Body), strictjson.Depth)
	twice, isTwice := errors.AsType[strictjson.Twice](err)
	switch start := strings.TrimLeft(a.Body, " \t\r\n"); {
	case err == nil:
		return members, ""
	case isTwice:
		return nil, "has the member " + shown(twice.Name) + " twice, which readers take differently"
	case errors.Is(err, strictjson.ErrJSON) && strings.HasPrefix(start, "<"):
		return nil, "is HTML and not JSON"
	case errors.Is(err, strictjson.ErrJSON):
		return nil, "is not JSON"
	case errors.Is(err, strictjson.ErrUTF8):
		return nil, "is not valid UTF-8"
	case errors.Is(err, strictjson.ErrObject):
		return nil, "is not a JSON object"
	}
	return nil, "is nested too deep"
}

// json reports whether an answer says that it is JSON.
func (a Answer) json() bool {
	kind, _, _ := strings.Cut(a.Type, ";")
	return strings.EqualFold(strings.TrimSpace(kind), "application/json")
}

// text gives a member that is a string, and whether it is there at all.
func (d document) text(name string) (value string, there bool) {
	raw, there := d.members[name]
	_ = json.Unmarshal(raw, &value) // what is no string leaves ""
	return value, there
}

// list gives a member that is a list of strings; ok is false where it is anything else.
func (d document) list(name string) (all []string, there, ok bool) {
	raw, there := d.members[name]
	var some []*string // null is no string
	if !there || json.Unmarshal(raw, &some) != nil || string(raw) == "null" {
		return nil, there, !there
	}
	for _, s := range some {
		if s == nil {
			return nil, true, false
		}
		all = append(all, *s)
	}
	return all, true, true
}

// yes reports whether a member is true.
func (d document) yes(name string) bool { return string(d.members[name]) == "true" }
