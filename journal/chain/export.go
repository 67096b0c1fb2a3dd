package chain

import (
	"crypto/sha256"
	"hash"
	"io"
)

// What the lines of an export say beside its entries, which stand behind the block that
// they are in, in the order of their IDs:
//
//	{"journal":{"form":1,"chain":"..."}}
//	{"block":{"number":1, ..., "hash":"...","leaves":["ID:HASH", ...]}}
//	{"id":"...","at":1764152100,"kind":"approval_granted", ...}
//	{"unsealed":{}}
//	{"end":{"anchor":"...","lines":4,"sha256":"..."}}
type (
	headLine struct {
		Form  int    `json:"form"`
		Chain string `json:"chain"` // "" where nothing is sealed yet
	}
	blockLine struct {
		Block
		Leaves []Leaf `json:"leaves"`
		// GoneBefore is the ID that entries lie below which retention may have removed;
		// "" where all entries of the block are there.
		GoneBefore string `json:"gone_before"`
	}
	endLine struct {
		Anchor string `json:"anchor"` // of the last block; "" where there is none
		Lines  int64  `json:"lines"`  // before this one
		SHA256 Sum    `json:"sha256"` // of the bytes of these lines
	}
)

// A Writer writes an export that Verify reads: Begin, then Block for each, Unsealed for
// each entry that is in none, and End. The first error stays.
type Writer struct {
	to    io.Writer
	sum   hash.Hash
	lines int64
	last  Block
	tail  bool
	err   error
}

// NewWriter begins an export of a chain, "" where nothing is sealed yet.
func NewWriter(to io.Writer, chain string) *Writer {
	w := &Writer{to: to, sum: sha256.New()}
	w.write(map[string]headLine{"journal": {Form, chain}})
	return w
}

func (w *Writer) write(object any) {
	if w.err != nil {
		return
	}
	text := line(object)
	w.sum.Write(text)
	w.lines++
	_, w.err = w.to.Write(text)
}

// Block writes a block, its leaves and those of its entries that are there. Where
// retention may have removed entries, goneBefore is the ID that these lie below.
func (w *Writer) Block(b Block, leaves []Leaf, entries []Entry, goneBefore string) error {
	w.write(map[string]blockLine{"block": {b, append([]Leaf{}, leaves...), goneBefore}})
	for _, e := range entries {
		w.write(e)
	}
	w.last = b
	return w.err
}

// Unsealed writes an entry that is in no block.
func (w *Writer) Unsealed(e Entry) error {
	if !w.tail {
		w.tail = true
		w.write(map[string]struct{}{"unsealed": {}})
	}
	w.write(e)
	return w.err
}

// End writes the closing line.
func (w *Writer) End() error {
	w.write(map[string]endLine{"end": {w.last.Anchor().String(), w.lines, Sum(w.sum.Sum(nil))}})
	return w.err
}
