package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// maxNotes bounds what nobody waits for.
const maxNotes = 4096

// note is a change that nobody waits for, but who asks whether it is written.
type note struct {
	run     func(*engine.Tx) error
	written chan struct{} // or nil
}

// Later tries again what cannot be written, so that nothing is lost while it runs but what the
// database refuses for what is in it.
func (p *Engine) Later(run func(*engine.Tx) error, _ func()) bool {
	return p.notes.Join(note{run: run}, maxNotes)
}

// writeNotes writes what nobody waits for, together. What cannot be written is
// tried again until there is no more room for it, unless it is refused for good.
func (p *Engine) writeNotes() {
	var unwritten repeated
	for {
		batch := p.notes.take(nil, engine.MaxBatch, 1)
		if len(batch) == 0 && p.uses.none() {
			return
		}
		used := p.uses.take()
		err := p.writeTogether(batch, used)
		if err == nil {
			continue
		}
		p.refusals.note(err, p.Options.Now())
		if n, say := unwritten.again(p.Options.Now()); say {
			p.Log.Warn("what was noted is not written yet", "tries", n, "notes", len(batch), "uses", len(used), "err", err)
		}
		p.uses.giveBack(used) // of these each can be written, whatever was the matter with a note
		if mayBeOneNotes(err) && len(batch) > 0 {
			if batch = p.writeSingly(batch); len(batch) == 0 {
				continue
			}
		}
		if !p.pause(time.Second) {
			if len(batch) == 0 {
				p.uses.take() // closing: there is no more to wait for
			}
			continue
		}
		for _, n := range batch {
			p.notes.Join(n, maxNotes)
		}
	}
}

// mayBeOneNotes reports that the server has refused notes for what may be in one of them.
// Whether that one is lost is for engine.Unwritable to say: an unknown code may be about
// the writing.
func mayBeOneNotes(err error) bool {
	return Code(err) != "" && !retryable(err) && !cut(err) && causeOf(err) == ""
}

// writeSingly writes notes one by one, so that one that is refused holds up no other. It
// loses what can never be written, and gives those that may be tried again.
func (p *Engine) writeSingly(batch []note) (again []note) {
	lost, why := 0, error(nil)
	for _, n := range batch {
		switch err := p.writeTogether([]note{n}, nil); {
		case engine.Unwritable(err):
			lost, why = lost+1, err
		case err != nil:
			again = append(again, n)
		}
	}
	if lost > 0 {
		p.Log.Warn("what was noted can never be written and is lost", "notes", lost, "err", why)
	}
	return again
}

// writeTogether writes notes and uses in one transaction.
func (p *Engine) writeTogether(batch []note, used map[approval.ID]uint32) error {
	var entries []engine.Event
	ctx, cancel := context.WithTimeout(context.Background(), ChangeTimeout)
	defer cancel()
	err := p.Transact(ctx, func(tx *engine.Tx) error {
		for _, n := range batch {
			if err := n.run(tx); err != nil && !engine.Refusal(err) {
				return err
			}
		}
		entries = tx.Events
		return WriteUses(tx, used)
	})
	if errors.Is(err, errUnknown) && p.wasMade(entries) {
		p.tell(entries)
		err = nil
	}
	if err != nil {
		return err
	}
	for _, n := range batch {
		if n.written != nil {
			close(n.written)
		}
	}
	return nil
}

// errAsked takes back what was only asked.
var errAsked = errors.New("asked")

// wasMade finds out whether a commit of unknown outcome was made that wrote these
// entries: if it was, to try again would write them twice. To write the first of them
// once more waits for the server, should it be at the commit still. It is asked until
// there is an answer, and once more when the store closes.
func (p *Engine) wasMade(entries []engine.Event) (made bool) {
	var unknown repeated
	for open := len(entries) > 0; open; {
		open = p.pause(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), ChangeTimeout)
		err := p.Transact(ctx, func(tx *engine.Tx) error {
			n, err := tx.Exec(insertOnce, engine.Event{ID: entries[0].ID}.Values()...)
			if err == nil {
				made, err = n == 0, errAsked
			}
			return err
		})
		cancel()
		if errors.Is(err, errAsked) {
			return made
		}
		p.refusals.note(err, p.Options.Now())
		if n, say := unknown.again(p.Options.Now()); say {
			p.Log.Warn("nobody knows yet whether what was noted is written", "tries", n, "notes", len(entries), "err", err)
		}
	}
	return false
}

const insertOnce = engine.InsertEvent + ` ON CONFLICT (id) DO NOTHING`

// settleNotes waits until what was noted before is written, as the embedded
// engine's Ready does; tests rely on it.
func (p *Engine) settleNotes(ctx context.Context) error {
	n := note{run: func(*engine.Tx) error { return nil }, written: make(chan struct{})}
	if !p.notes.Join(n, 0) {
		return fmt.Errorf("closing: %w", engine.ErrUnavailable)
	}
	select {
	case <-n.written:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, ctx.Err())
	}
}

// pause waits, and reports false when the store closes meanwhile.
func (p *Engine) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-p.Stopped:
		return false
	}
}
