package operator

import (
	"net/http"
	"strconv"

	"github.com/grantkeeper/grantkeeper/journal/chain"
	"github.com/grantkeeper/grantkeeper/store"
)

// anchorObject names the newest block of the journal (decision J4).
type anchorObject struct {
	ID      string `json:"id"`     // always "anchor"
	Anchor  string `json:"anchor"` // in one word; "" where nothing is sealed yet
	Chain   string `json:"chain"`
	Number  int64  `json:"number"`
	Entries int64  `json:"entries"` // in it and in all before it
	At      int64  `json:"at"`      // when it was sealed
	Hash    string `json:"hash"`    // in hexadecimal
}

func (s *Server) anchor(c Call) (any, error) {
	if _, err := c.Filter(); err != nil {
		return nil, err
	}
	a, err := s.Store.Anchor(c.Context())
	if err != nil || a == (chain.Anchor{}) {
		return anchorObject{ID: "anchor"}, err
	}
	return anchorObject{"anchor", a.String(), a.Chain, a.Number, a.Total, a.At, a.Sum.String()}, nil
}

// blockObject is a block of the journal, without the hashes of its entries.
type blockObject struct {
	ID       string `json:"id"` // the number
	Number   int64  `json:"number"`
	Previous string `json:"previous"` // the hash of the block before
	Entries  int64  `json:"entries"`
	Total    int64  `json:"total"` // in it and in all before it
	First    string `json:"first"` // the lowest ID of its entries
	Last     string `json:"last"`  // the highest
	At       int64  `json:"at"`    // when it was sealed
	Root     string `json:"root"`  // over the hashes of its entries
	Hash     string `json:"hash"`
	Anchor   string `json:"anchor"`
}

func newBlock(b chain.Block) blockObject {
	return blockObject{
		strconv.FormatInt(b.Number, 10), b.Number, b.Previous.String(), b.Entries, b.Total, b.First, b.Last, b.At,
		b.Root.String(), b.Hash.String(), b.Anchor().String(),
	}
}

func (s *Server) blocks(c Call) (any, error) {
	f, err := c.Filter()
	if err != nil {
		return nil, err
	}
	var below int64
	if f.After != "" {
		if below, err = strconv.ParseInt(f.After, 10, 64); err != nil || below < 1 || strconv.FormatInt(below, 10) != f.After {
			return nil, f.CursorError(store.ErrNotFound)
		}
	}
	rows, last, err := s.Store.Blocks(c.Context(), below, f.Limit)
	next := ""
	if last > 0 {
		next = strconv.FormatInt(last, 10)
	}
	return newListPage(rows, next, newBlock), err
}

// proof answers with the journal and its blocks, line by line. What fails once a line
// was sent breaks the answer off: it has no closing line then.
func (s *Server) proof(w http.ResponseWriter, r *http.Request) {
	c := s.NewCall(w, r)
	f, err := c.Filter("since")
	var since int64
	if err == nil {
		since, err = f.time("since", s.Store.Now())
	}
	out := &begun{ResponseWriter: w}
	if err == nil {
		err = s.Store.WriteProof(c.Context(), since, out)
	}
	switch {
	case err == nil:
	case out.is:
		s.Log.WarnContext(c.Context(), "the journal's export broke off", "request_id", c.Reference, "err", err)
		panic(http.ErrAbortHandler)
	default:
		s.refuse(w, c, err)
	}
}

// begun knows whether an answer has begun.
type begun struct {
	http.ResponseWriter
	is bool
}

func (b *begun) Write(p []byte) (int, error) {
	if !b.is {
		b.is = true
		b.Header().Set("Content-Type", "application/jsonl")
	}
	return b.ResponseWriter.Write(p)
}
