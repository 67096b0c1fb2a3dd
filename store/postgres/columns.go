package postgres

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// columns takes the values of a row as they came, one after the other: to scan
// each into a variable takes most of the time of a check. Without prepared
// statements they come as text.
type columns struct {
	fields []pgconn.FieldDescription
	values [][]byte
	at     int
	err    error // the first one
	facts  *engine.Memory
}

// next begins a row.
func (c *columns) next(values [][]byte) { c.values, c.at = values, 0 }

// value gives the bytes of the next column, which are the reader's own.
func (c *columns) value() (v []byte, isText bool) {
	c.at++
	return c.values[c.at-1], c.fields[c.at-1].Format == pgx.TextFormatCode
}

func (c *columns) wrong(v []byte, err error) {
	if c.err == nil {
		c.err = fmt.Errorf("column %s: %d bytes: %w", c.fields[c.at-1].Name, len(v), err)
	}
}

func (c *columns) number() (n int64) {
	v, isText := c.value()
	var err error
	switch {
	case isText:
		n, err = strconv.ParseInt(string(v), 10, 64)
	case len(v) == 8:
		n = int64(binary.BigEndian.Uint64(v))
	default:
		err = strconv.ErrSyntax
	}
	if err != nil {
		c.wrong(v, err)
	}
	return n
}

func (c *columns) id() (id approval.ID) {
	if v := c.octets(); len(v) == len(id) {
		copy(id[:], v)
	} else {
		c.wrong(v, strconv.ErrSyntax)
	}
	return id
}

// octets gives bytes: they may be the reader's own.
func (c *columns) octets() []byte {
	v, isText := c.value()
	if !isText {
		return v
	}
	v, err := hex.DecodeString(strings.TrimPrefix(string(v), `\x`))
	if err != nil {
		c.wrong(v, err)
	}
	return v
}

// bytes gives a text that is not kept.
func (c *columns) bytes() []byte {
	v, _ := c.value()
	return v
}

func (c *columns) text() string { return string(c.bytes()) }

// texts takes texts that are kept, as one piece of memory.
func (c *columns) texts(into ...*string) {
	values, length := c.values[c.at:][:len(into)], 0
	for _, v := range values {
		length += len(v)
	}
	var whole strings.Builder
	whole.Grow(length)
	for range values {
		whole.Write(c.bytes())
	}
	rest := whole.String()
	for i, v := range values {
		*into[i], rest = rest[:len(v)], rest[len(v):]
	}
}

// row takes the columns after the version, in the order of selectWholes,
// selectChecks or selectStates.
func (c *columns) row(r *Reading) (*row, error) {
	id := c.id()
	var out *row
	if r.What == States {
		out = c.state(r.known[id], r.Began)
	} else {
		out = c.check(id, r.Began)
	}
	if r.What == Wholes {
		a := &out.A
		a.RedirectURI, a.Issuer, a.Challenge, a.CreatedAt = c.text(), c.text(), c.text(), c.number()
		out.replaces = c.text()
		a.Replace, a.Reason, a.EndedAt = out.replaces != "", approval.Reason(c.text()), c.number()
	}
	if c.err != nil {
		return nil, fmt.Errorf("approval %s: %w", id, c.err)
	}
	return out, nil
}

// check takes what a check needs.
func (c *columns) check(id approval.ID, began int64) *row {
	out := &row{}
	a := &out.A
	a.ID = id
	var kind string
	c.texts(&a.Client, &a.Person, &a.Organization, &kind, &out.Picks)
	c.grant(a, kind, out.Picks, c.number())
	a.Born.Membership, a.Born.Person, a.Born.Organization, a.Born.Client = c.number(), c.number(), c.number(), c.number()
	a.Phase, a.Generation, a.Key, a.Network = approval.Phase(c.number()), c.number(), int(c.number()), uint16(c.number())
	a.IssuedAt, out.Used, a.EndsAt = c.number(), uint32(c.number()), c.number()
	copy(a.Bound[:], c.octets())
	out.Read.Store(began)
	return out
}

// state takes what can have changed of a row that is known.
func (c *columns) state(known *row, began int64) *row {
	generation, key := c.number(), int(c.number())
	kind, picks, personal, used, endsAt := c.bytes(), c.bytes(), c.number(), uint32(c.number()), c.number()
	same := known.Picks == string(picks) && string(known.A.Grant.Kind) == string(kind) && known.A.Grant.Personal == (personal == 1)
	if same && known.A.Generation == generation && known.A.Key == key && known.Used == used && known.A.EndsAt == endsAt {
		known.found(began)
		return known
	}
	a, text := known.A, known.Picks
	a.Generation, a.Key, a.EndsAt = generation, key, endsAt
	if !same {
		text = string(picks)
		c.grant(&a, string(kind), text, personal)
	}
	return known.With(a, text, used, began)
}

func (c *columns) grant(a *approval.Approval, kind, picks string, personal int64) {
	var err error
	if a.Grant, err = grantset.Decode(kind, picks, personal == 1); err != nil && c.err == nil {
		c.err = err
	}
}
