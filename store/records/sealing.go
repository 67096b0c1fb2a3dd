package records

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/journal/chain"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

const (
	// sealAfter is how old an entry is before it is sealed: others that began before it
	// and commit after it are in order then.
	sealAfter = 20 * time.Second
	// lateFor is how far back each sealing looks for entries that came late. What comes
	// later than that is found by a walk through all of the journal, lookAt entries at a
	// time.
	lateFor = 10 * time.Minute
	lookAt  = 5000
	// blockSpan is how far the IDs of a block lie apart at most, in time, so that the
	// blocks of a time can be asked for.
	blockSpan = 24 * time.Hour
)

// Rows of meta: the name of the chain, which is made with the first block, and the ID
// that entries lie below which retention may have removed.
const (
	metaChain = "journal_chain"
	metaGone  = "journal_gone"
)

// Sealed says what Seal has done.
type Sealed struct {
	Mine    bool // this process is the one that seals
	Blocks  int
	Entries int
	Newest  chain.Anchor // zero where there is no block
}

// sealer is where the walk through the journal has come to.
type sealer struct {
	mu   sync.Mutex
	walk string // ID
}

// Seal puts the entries that are settled and in no block into blocks (decision J4). It
// holds up nobody who writes: it reads what is committed, and each block is one insert. Two
// processes at once cannot both add the next block; the one that comes second does
// nothing. It can be repeated, and stops at the first error.
func (s *Records) Seal(ctx context.Context) (Sealed, error) {
	s.sealer.mu.Lock()
	defer s.sealer.mu.Unlock()
	var out Sealed
	var err error
	if out.Mine, err = s.db.Engine.Sweeps(ctx); err != nil || !out.Mine {
		return out, err
	}
	last, err := s.newestBlock(ctx)
	if err != nil {
		return out, err
	}
	out.Newest = last.Anchor()
	late, highest, err := s.late(ctx, last.Number)
	if err != nil {
		return out, err
	}
	if last, err = s.sealAll(ctx, last, late, &out); err != nil {
		return out, err
	}
	until := JournalID(s.db.Now().Add(-sealAfter))
	for {
		rows, err := s.db.Reader.QueryContext(ctx, selectEvent+` WHERE id > $1 AND id < $2 ORDER BY id LIMIT 1000`, highest, until)
		entries, err := engine.ListOf(rows, err, scanEvent)
		if err != nil {
			return out, engine.Unavailable("seal", err)
		}
		if len(entries) == 0 {
			return out, nil
		}
		highest = entries[len(entries)-1].ID
		entries = slices.DeleteFunc(entries, func(e engine.Event) bool { return !chain.IsID(e.ID) }) // not written by us
		if last, err = s.sealAll(ctx, last, entries, &out); err != nil {
			return out, err
		}
	}
}

// sealAll adds blocks of entries in the order of their IDs.
func (s *Records) sealAll(ctx context.Context, last chain.Block, entries []engine.Event, out *Sealed) (chain.Block, error) {
	for len(entries) > 0 {
		far := later(entries[0].ID, blockSpan)
		n := slices.IndexFunc(entries, func(e engine.Event) bool { return e.ID >= far })
		if n < 0 {
			n = len(entries)
		}
		n = min(n, chain.BlockMax)
		var err error
		if last, err = s.addBlock(ctx, last, entries[:n]); err != nil {
			return last, err
		}
		out.Blocks, out.Entries, out.Newest = out.Blocks+1, out.Entries+n, last.Anchor()
		if entries = entries[n:]; ctx.Err() != nil {
			return last, ctx.Err()
		}
	}
	return last, nil
}

// addBlock adds the block behind another. ErrConflict: somebody else has.
func (s *Records) addBlock(ctx context.Context, last chain.Block, entries []engine.Event) (b chain.Block, err error) {
	leaves := make([]chain.Leaf, len(entries))
	for i, e := range entries {
		leaves[i] = ChainEntry(e).Leaf()
	}
	return b, s.db.Change(func(tx *engine.Tx) error {
		name, err := chainName(tx)
		if err != nil {
			return err
		}
		b = last.Next(name, max(last.At, s.db.Now().Unix()), leaves)
		_, err = tx.Exec(`
			INSERT INTO journal_block (number, previous, entries, total, first_id, last_id, sealed_at, root, hash, leaves, kept)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 1)`,
			b.Number, b.Previous[:], b.Entries, b.Total, b.First, b.Last, b.At, b.Root[:], b.Hash[:], chain.Pack(leaves))
		return err
	})
}

// chainName gives the name of the chain; the first block makes it.
func chainName(tx *engine.Tx) (string, error) {
	name, err := tx.Meta(metaChain)
	if !errors.Is(err, sql.ErrNoRows) {
		return name, err
	}
	random := make([]byte, chain.ChainLen/2)
	rand.Read(random)
	name = hex.EncodeToString(random)
	return name, tx.PutMeta(metaChain, name)
}

// ChainEntry is an entry as it is sealed.
func ChainEntry(e engine.Event) chain.Entry {
	return chain.Entry{
		ID: e.ID, At: e.At, Kind: string(e.Kind), Client: e.Client, Person: e.Person, Organization: e.Organization, Approval: e.Approval,
		Actor: e.Actor, Address: e.Address, Reason: e.Reason, Detail: e.Detail, Reference: e.Reference,
	}
}

// JournalID is the ID that every entry from before a time lies below.
func JournalID(at time.Time) string { return fmt.Sprintf("%016x00000000", max(at.UnixMilli(), 0)<<16) }

// later is the ID a while behind another one.
func later(id string, by time.Duration) string {
	var ms int64
	if _, err := fmt.Sscanf(id[:min(12, len(id))], "%x", &ms); err != nil {
		return id
	}
	return JournalID(time.UnixMilli(ms).Add(by))
}

// late gives entries that no block up to a number has and that lie below the highest ID
// of them: those of lateFor, and of the part of the journal that is looked at this time.
func (s *Records) late(ctx context.Context, upTo int64) (entries []engine.Event, highest string, err error) {
	if highest, err = s.highest(ctx, upTo); err != nil || highest == "" {
		return nil, highest, err
	}
	ids, next, err := s.notIn(ctx, upTo, s.sealer.walk, highest)
	if err != nil {
		return nil, "", err
	}
	if s.sealer.walk = next; next >= highest || next == "" {
		s.sealer.walk = ""
	}
	for from := later(highest, -lateFor); from != "" && from < highest; {
		var more []string
		if more, from, err = s.notIn(ctx, upTo, from, highest); err != nil {
			return nil, "", err
		}
		ids = append(ids, more...)
	}
	slices.Sort(ids)
	entries, err = s.eventsOf(ctx, slices.Compact(ids))
	return entries, highest, err
}

// highest is the highest ID that a block up to a number has, "" where none has.
func (s *Records) highest(ctx context.Context, upTo int64) (id string, err error) {
	err = s.db.Reader.QueryRowContext(ctx, `SELECT COALESCE(MAX(last_id), '') FROM journal_block WHERE kept = 1 AND number <= $1`, upTo).Scan(&id)
	return id, engine.Unavailable("seal", err)
}

// notIn looks at lookAt entries behind an ID, up to another one, and gives those that no
// block up to a number has, and the last that it looked at: "" is the end.
func (s *Records) notIn(ctx context.Context, upTo int64, behind, to string) (ids []string, next string, err error) {
	rows, err := s.db.Reader.QueryContext(ctx, `SELECT id FROM journal WHERE id > $1 AND id <= $2 ORDER BY id LIMIT 5000`, behind, to)
	looked, err := engine.Column[string](rows, err)
	if err != nil || len(looked) == 0 {
		return nil, "", engine.Unavailable("seal", err)
	}
	lowest, last := looked[0], looked[len(looked)-1]
	packed, err := s.db.Reader.QueryContext(ctx, `
		SELECT leaves FROM journal_block
		 WHERE kept = 1 AND last_id >= $1 AND last_id <= $2 AND first_id <= $3 AND number <= $4`,
		lowest, later(last, 2*blockSpan), last, upTo)
	all, err := engine.Column[[]byte](packed, err)
	if err != nil {
		return nil, "", engine.Unavailable("seal", err)
	}
	in := map[string]bool{}
	for _, text := range all {
		leaves, err := chain.Unpack(text)
		if err != nil {
			return nil, "", err
		}
		for _, l := range leaves {
			in[l.ID] = true
		}
	}
	for _, id := range looked {
		if !in[id] && chain.IsID(id) {
			ids = append(ids, id)
		}
	}
	if len(looked) < lookAt {
		last = ""
	}
	return ids, last, nil
}

// eventsOf gives the entries of these IDs that are there, in the order of the IDs.
func (s *Records) eventsOf(ctx context.Context, ids []string) (entries []engine.Event, err error) {
	for few := range slices.Chunk(ids, chain.BlockMax) {
		q := query.Builder{Text: selectEvent}
		q.OneOf("id", query.Padded(query.IDs(few, func(id string) any { return id })))
		rows, err := s.db.Reader.QueryContext(ctx, q.Page("id", chain.BlockMax), q.Args...)
		some, err := engine.ListOf(rows, err, scanEvent)
		if err != nil {
			return nil, engine.Unavailable("seal", err)
		}
		entries = append(entries, some...)
	}
	return entries, nil
}

const selectBlock = `SELECT number, previous, entries, total, first_id, last_id, sealed_at, root, hash FROM journal_block`

func scanBlock(row engine.Scanner, b *chain.Block) error {
	var previous, root, hash []byte
	if err := row.Scan(&b.Number, &previous, &b.Entries, &b.Total, &b.First, &b.Last, &b.At, &root, &hash); err != nil {
		return err
	}
	copy(b.Previous[:], previous)
	copy(b.Root[:], root)
	copy(b.Hash[:], hash)
	return nil
}

// newestBlock is the zero Block where there is none.
func (s *Records) newestBlock(ctx context.Context) (b chain.Block, err error) {
	name, err := s.chainName(ctx)
	if err != nil || name == "" {
		return b, err
	}
	err = scanBlock(s.db.Reader.QueryRowContext(ctx, selectBlock+` ORDER BY number DESC LIMIT 1`), &b)
	if errors.Is(err, sql.ErrNoRows) {
		return chain.Block{}, nil
	}
	b.Chain = name
	return b, engine.Unavailable("block", err)
}

// chainName is "" where nothing is sealed yet.
func (s *Records) chainName(ctx context.Context) (string, error) { return s.meta(ctx, metaChain) }

func (s *Records) meta(ctx context.Context, name string) (value string, err error) {
	err = s.db.Reader.QueryRowContext(ctx, `SELECT value FROM meta WHERE name = $1`, name).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return value, engine.Unavailable("meta", err)
}

// Anchor names the newest block; zero where there is none.
func (s *Records) Anchor(ctx context.Context) (chain.Anchor, error) {
	b, err := s.newestBlock(ctx)
	if err != nil || b.Number == 0 {
		return chain.Anchor{}, err
	}
	return b.Anchor(), nil
}

// Blocks lists the blocks below a number, 0 is all, newest first, and gives the number
// of the last one if there are more, else 0. The limit is as that of EventFilter.
func (s *Records) Blocks(ctx context.Context, below int64, limit int) ([]chain.Block, int64, error) {
	limit = query.PageSize(limit)
	name, err := s.chainName(ctx)
	if err != nil {
		return nil, 0, err
	}
	q := query.Builder{Text: selectBlock}
	if below > 0 {
		q.Where("number < ", below)
	}
	rows, err := s.db.Reader.QueryContext(ctx, q.Page("number DESC", limit), q.Args...)
	out, err := engine.ListOf(rows, err, scanBlock)
	if err != nil {
		return nil, 0, engine.Unavailable("blocks", err)
	}
	for i := range out {
		out[i].Chain = name
	}
	if len(out) > limit {
		return out[:limit], out[limit-1].Number, nil
	}
	return out, 0, nil
}
