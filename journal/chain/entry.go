// Package chain makes the journal one that can be checked: entries are gathered in
// blocks, each block names the one before it by its hash, and an anchor names the
// newest block in one line. An export with blocks is verified here, line by line and
// without the server (decisions J4 to J6).
//
// Hashes are SHA-256 over a canonical form: a tag that names what is hashed, then
// each value as text with its length in front, so that no two values make the same
// bytes.
package chain

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/strictjson"
)

// Form is the number of the canonical form and of the export's lines.
const Form = 1

// Sum is a SHA-256.
type Sum [sha256.Size]byte

// String is in hexadecimal.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// MarshalText writes it in hexadecimal.
func (s Sum) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote, and nothing else.
func (s *Sum) UnmarshalText(text []byte) error {
	if len(text) != 2*len(s) || !isHex(string(text)) {
		return errors.New("not a hash")
	}
	_, err := hex.Decode(s[:], text)
	return err
}

// isHex reports whether a text is of digits and a to f alone.
func isHex(text string) bool {
	for _, c := range []byte(text) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// sumOf hashes texts under a tag.
func sumOf(tag string, texts ...string) Sum {
	var text []byte
	for _, t := range append([]string{"grantkeeper " + tag + " " + strconv.Itoa(Form)}, texts...) {
		text = strconv.AppendInt(text, int64(len(t)), 10)
		text = append(text, ':')
		text = append(text, t...)
	}
	return sha256.Sum256(text)
}

// An Entry is one of the journal, as the operator API writes it.
type Entry struct {
	ID           string `json:"id"` // 24 digits in hexadecimal, which sort by time
	At           int64  `json:"at"` // Unix seconds
	Kind         string `json:"kind"`
	Client       string `json:"client"`
	Person       string `json:"person"`
	Organization string `json:"organization"`
	Approval     string `json:"approval"`
	Actor        string `json:"actor"`
	Address      string `json:"address"`
	Reason       string `json:"reason"`
	Detail       string `json:"detail"`
	Reference    string `json:"reference"`
}

// IDLen is the digits of an entry's ID.
const IDLen = 24

// IsID reports whether a text has the form of an entry's ID.
func IsID(id string) bool { return len(id) == IDLen && isHex(id) }

// Sum is over all that the entry says. Bytes that are not UTF-8 count as U+FFFD, as JSON
// writes them, and so does NUL: PostgreSQL holds neither, and an entry that is copied
// there is the same one.
func (e Entry) Sum() Sum {
	texts := []string{
		e.ID, strconv.FormatInt(e.At, 10), e.Kind, e.Client, e.Person, e.Organization, e.Approval,
		e.Actor, e.Address, e.Reason, e.Detail, e.Reference,
	}
	for i, t := range texts {
		if !utf8.ValidString(t) {
			t = string([]rune(t))
		}
		texts[i] = strings.ReplaceAll(t, "\x00", "\uFFFD")
	}
	return sumOf("journal entry", texts...)
}

// Leaf is what a block knows of an entry.
func (e Entry) Leaf() Leaf { return Leaf{e.ID, e.Sum()} }

// ReadEntry reads one line: all members of an entry, each once, and no other.
func ReadEntry(line []byte) (e Entry, err error) {
	fields := map[string]any{
		"id": &e.ID, "at": &e.At, "kind": &e.Kind, "client": &e.Client, "person": &e.Person,
		"organization": &e.Organization, "approval": &e.Approval, "actor": &e.Actor, "address": &e.Address,
		"reason": &e.Reason, "detail": &e.Detail, "reference": &e.Reference,
	}
	if err := whole(line, fields); err != nil {
		return Entry{}, err
	}
	if !IsID(e.ID) {
		return Entry{}, errors.New("id is not one of an entry")
	}
	return e, nil
}

// whole reads an object that has all of these members and no other.
func whole(text []byte, fields map[string]any) error {
	members, err := strictjson.Object(text, strictjson.Depth)
	if err != nil {
		return err
	}
	for name := range fields {
		if _, there := members[name]; !there {
			return fmt.Errorf("%s is missing", name)
		}
	}
	return strictjson.Fields(text, strictjson.Depth, fields)
}

// A Leaf is an entry in a block: its ID and the hash of what it says.
type Leaf struct {
	ID  string
	Sum Sum
}

// MarshalText writes ID and hash with a colon between them.
func (l Leaf) MarshalText() ([]byte, error) { return []byte(l.ID + ":" + l.Sum.String()), nil }

// UnmarshalText reads what MarshalText wrote, and nothing else.
func (l *Leaf) UnmarshalText(text []byte) error {
	if len(text) <= IDLen || text[IDLen] != ':' || !IsID(string(text[:IDLen])) {
		return errors.New("not an entry's ID and hash")
	}
	l.ID = string(text[:IDLen])
	return l.Sum.UnmarshalText(text[IDLen+1:])
}

// packed is the bytes of a leaf where many stand together.
const packed = IDLen/2 + sha256.Size

// Pack writes leaves one behind the other, 44 bytes each. Their IDs are those of
// entries.
func Pack(leaves []Leaf) []byte {
	out := make([]byte, 0, packed*len(leaves))
	for _, l := range leaves {
		id, _ := hex.DecodeString(l.ID)
		out = append(append(out, id...), l.Sum[:]...)
	}
	return out
}

// Unpack reads what Pack wrote.
func Unpack(text []byte) ([]Leaf, error) {
	if len(text)%packed != 0 {
		return nil, errors.New("chain: a part of a leaf is missing")
	}
	leaves := make([]Leaf, 0, len(text)/packed)
	for ; len(text) > 0; text = text[packed:] {
		leaves = append(leaves, Leaf{hex.EncodeToString(text[:IDLen/2]), Sum(text[IDLen/2 : packed])})
	}
	return leaves, nil
}

// line is an object on a line of its own.
func line(object any) []byte {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err) // texts and numbers alone
	}
	return append(text, '\n')
}
