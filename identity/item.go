package identity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/grantkeeper/grantkeeper/strictjson"
)

// HeaderItems is a header of a service's answer: which items the call has touched. The
// client does not get it. MetaItems is the same in the _meta of an MCP result.
const (
	HeaderItems = Prefix + "Items"
	MetaItems   = "grantkeeper/items"
)

// Bounds of what a service says of items. Texts are counted in code points.
const (
	MaxItems     = 20
	MaxItemsText = 16 << 10 // bytes
	MaxItemText  = 100      // of an ID, a kind and a detail; a title has PreviewTitle
	MaxItemCount = 1_000_000
)

// itemsDepth is how deep it nests: list, item.
const itemsDepth = 2

// Did says what a call has done to an item.
type Did string

const (
	Created Did = "created"
	Changed Did = "changed"
	Closed  Did = "closed"
	Deleted Did = "deleted"
	Viewed  Did = "read"
)

// An Item is one that a call has touched or, with Count, many that it has read.
type Item struct {
	ID       string // the service's own; alike where it is the same item
	Title    string // as it is now, or was last; empty is not said
	Kind     string // the service's word for what it is, such as order
	Did      Did    // empty is what the call does: changed or read
	Role     string // ID of the role that it belongs to
	Private  bool   // to those who fill a role in its role's circle
	Personal bool   // the person's own: nobody else sees it
	Detail   string // what of it has changed, in a few words
	Count    int    // of Viewed: how many of the kind were read; 0 is one
}

type item struct {
	ID       string `json:"id,omitempty"`
	Title    string `json:"title,omitempty"`
	Kind     string `json:"kind,omitempty"`
	Did      Did    `json:"did,omitempty"`
	Role     string `json:"role,omitempty"`
	Private  bool   `json:"private,omitempty"`
	Personal bool   `json:"personal,omitempty"`
	Detail   string `json:"detail,omitempty"`
	Count    int    `json:"count,omitempty"`
}

// ItemsText writes items for HeaderItems: JSON in ASCII. It refuses what ReadItems would.
func ItemsText(all ...Item) (string, error) {
	out := make([]item, len(all))
	for i, one := range all {
		out[i] = item(one)
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(err) // texts, words and numbers
	}
	text = inASCII(text)
	_, err = ReadItems(text)
	return string(text), err
}

// inASCII escapes what of a JSON text is not ASCII.
func inASCII(text []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(text) {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r > 0xFFFF:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xD800+r>>10, 0xDC00+r&0x3FF)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

// ReadItems reads what a service says of the items that a call has touched: a list of
// objects. What is wrong anywhere makes all of it worth nothing.
func ReadItems(text []byte) ([]Item, error) {
	if len(text) > MaxItemsText {
		return nil, fmt.Errorf("items: more than %d bytes", MaxItemsText)
	}
	if err := strictjson.Check(text, itemsDepth); err != nil {
		return nil, fmt.Errorf("items: %w", err)
	}
	var parts []json.RawMessage
	if !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("[")) || json.Unmarshal(text, &parts) != nil {
		return nil, errors.New("items: they are a list")
	}
	if len(parts) > MaxItems {
		return nil, fmt.Errorf("items: at most %d", MaxItems)
	}
	all := make([]Item, len(parts))
	for i, part := range parts {
		if err := all[i].read(part); err != nil {
			return nil, fmt.Errorf("items: %w", err)
		}
	}
	return all, nil
}

func (i *Item) read(text []byte) error {
	err := strictjson.Fields(text, 1, map[string]any{"id": &i.ID, "title": &i.Title, "kind": &i.Kind, "did": &i.Did, "role": &i.Role,
		"private": &i.Private, "personal": &i.Personal, "detail": &i.Detail, "count": &i.Count})
	if err != nil {
		return err
	}
	for name, said := range map[string]string{"id": i.ID, "title": i.Title, "kind": i.Kind, "detail": i.Detail} {
		if said != "" && untitled(said) { // what is longer than PreviewTitle is, too
			return fmt.Errorf("%s: 1 to %d characters, without controls and signs that turn text around", name, MaxItemText)
		}
	}
	switch i.Did {
	case "", Created, Changed, Closed, Deleted, Viewed:
	default:
		return fmt.Errorf("did: unknown word %.20q", i.Did)
	}
	switch {
	case len(i.Role) > 64 || strings.ContainsFunc(i.Role, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("role: it is no ID")
	case i.Count < 0 || i.Count > MaxItemCount:
		return fmt.Errorf("count: 0 to %d", MaxItemCount)
	case i.Count > 1 && i.Did != Viewed && i.Did != "":
		return errors.New("count: of what is read alone")
	}
	return nil
}
