package chain

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// BlockMax is how many entries a block has at most.
const BlockMax = 1000

// A Block names entries and the block before it.
type Block struct {
	Chain    string `json:"chain"`    // of which installation: 32 digits in hexadecimal
	Number   int64  `json:"number"`   // from 1 on, without gaps
	Previous Sum    `json:"previous"` // the hash of the block before; zero in the first
	Entries  int64  `json:"entries"`  // in it
	Total    int64  `json:"total"`    // in it and in all before it
	First    string `json:"first"`    // the lowest ID in it
	Last     string `json:"last"`     // the highest
	At       int64  `json:"at"`       // when it was sealed, Unix seconds
	Root     Sum    `json:"root"`     // over its leaves, in the order of their IDs
	Hash     Sum    `json:"hash"`     // over all that it says; Sum computes it
}

// ChainLen is the digits of a chain's name.
const ChainLen = 32

// Next makes the block behind b, which is the zero Block where there is none, of
// entries that are not sealed yet. It sorts the leaves by their IDs; there is at least
// one, and no ID is there twice.
func (b Block) Next(chain string, at int64, leaves []Leaf) Block {
	slices.SortFunc(leaves, func(a, b Leaf) int { return strings.Compare(a.ID, b.ID) })
	n := Block{
		Chain: chain, Number: b.Number + 1, Entries: int64(len(leaves)), Total: b.Total + int64(len(leaves)),
		First: leaves[0].ID, Last: leaves[len(leaves)-1].ID, At: at, Root: rootOf(leaves),
	}
	n.Previous = b.Hash
	n.Hash = n.Sum()
	return n
}

// rootOf hashes leaves in their order.
func rootOf(leaves []Leaf) Sum { return sumOf("journal leaves", string(Pack(leaves))) }

// Sum is over all that the block says, but its own hash.
func (b Block) Sum() Sum {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return sumOf("journal block", b.Chain, number(b.Number), string(b.Previous[:]), number(b.Entries), number(b.Total),
		b.First, b.Last, number(b.At), string(b.Root[:]))
}

// Anchor names the block.
func (b Block) Anchor() Anchor {
	return Anchor{Chain: b.Chain, Number: b.Number, Total: b.Total, At: b.At, Sum: b.Hash}
}

// holds says what is wrong with a block by itself, given its leaves.
func (b Block) holds(leaves []Leaf) error {
	switch {
	case len(b.Chain) != ChainLen || !isHex(b.Chain):
		return errors.New("its chain has no name")
	case b.Number < 1 || b.Number == 1 && b.Previous != Sum{}:
		return errors.New("its number cannot be")
	case b.Entries < 1 || b.Entries > BlockMax || b.Total < b.Entries || b.Number == 1 && b.Total != b.Entries:
		return errors.New("its number of entries cannot be")
	case !IsID(b.First) || !IsID(b.Last) || b.First > b.Last:
		return errors.New("its first and last entry cannot be")
	case b.Sum() != b.Hash:
		return errors.New("it is not as it was sealed")
	case leaves == nil: // gone
		return nil
	case int64(len(leaves)) != b.Entries || leaves[0].ID != b.First || leaves[len(leaves)-1].ID != b.Last || rootOf(leaves) != b.Root:
		return errors.New("the hashes of its entries are not those that it was sealed with")
	}
	for i := range leaves[1:] {
		if leaves[i].ID >= leaves[i+1].ID {
			return errors.New("its entries are not in the order of their IDs")
		}
	}
	return nil
}

// An Anchor names a block, and by it all entries up to there.
type Anchor struct {
	Chain  string
	Number int64 // of the block
	Total  int64 // entries up to there
	At     int64 // when it was sealed, Unix seconds
	Sum    Sum   // of the block
}

// AnchorPrefix begins every anchor.
const AnchorPrefix = "grantkeeper-journal-1:"

// anchorTime is how an anchor writes a time.
const anchorTime = "20060102T150405Z"

// String is one word, such as
// grantkeeper-journal-1:CHAIN:NUMBER:ENTRIES:20261126T101500Z:HASH, or "" for the zero
// Anchor.
func (a Anchor) String() string {
	if a == (Anchor{}) {
		return ""
	}
	return fmt.Sprintf("%s%s:%d:%d:%s:%s", AnchorPrefix, a.Chain, a.Number, a.Total, time.Unix(a.At, 0).UTC().Format(anchorTime), a.Sum)
}

// MarshalText writes what String does.
func (a Anchor) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads what MarshalText wrote: of no text the zero anchor.
func (a *Anchor) UnmarshalText(text []byte) (err error) {
	if *a = (Anchor{}); len(text) > 0 {
		*a, err = ParseAnchor(string(text))
	}
	return err
}

// ParseAnchor reads what String wrote, and nothing else.
func ParseAnchor(text string) (a Anchor, err error) {
	rest, is := strings.CutPrefix(text, AnchorPrefix)
	parts := strings.Split(rest, ":")
	if !is || len(parts) != 5 {
		return a, errors.New("it is not an anchor of the journal")
	}
	at, errTime := time.Parse(anchorTime, parts[3])
	number, errNumber := strconv.ParseInt(parts[1], 10, 64)
	total, errTotal := strconv.ParseInt(parts[2], 10, 64)
	a = Anchor{Chain: parts[0], Number: number, Total: total, At: at.Unix()}
	if err := errors.Join(errTime, errNumber, errTotal, a.Sum.UnmarshalText([]byte(parts[4]))); err != nil ||
		len(a.Chain) != ChainLen || !isHex(a.Chain) || a.Number < 1 || a.String() != text {
		return Anchor{}, errors.New("an anchor of the journal is not whole")
	}
	return a, nil
}

// FindAnchors gives the anchors in a line of text, such as one of a log: words that
// begin as one does. The error is of one that cannot be read.
func FindAnchors(text string) (all []Anchor, err error) {
	for {
		at := strings.Index(text, AnchorPrefix)
		if at < 0 {
			return all, nil
		}
		text = text[at:]
		end := len(AnchorPrefix)
		for end < len(text) && (text[end] == ':' || text[end] >= '0' && text[end] <= '9' || text[end] >= 'a' && text[end] <= 'f' || text[end] == 'T' || text[end] == 'Z') {
			end++
		}
		a, err := ParseAnchor(text[:end])
		if err != nil {
			return all, err
		}
		all, text = append(all, a), text[end:]
	}
}
