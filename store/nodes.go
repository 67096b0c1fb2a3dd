package store

import "context"

// Opens is nil when a token that the ring does not open was sealed by no node.
// ErrUnavailable: this node was paused or cut off for so long that the others may
// have let a key seal that it does not have (decision T11). Nothing is asked.
func (s *Store) Opens() error {
	if s.db.Engine == nil { // the zero Store, which no node works beside
		return nil
	}
	return s.db.Engine.Opens()
}

// Nodes lists the processes that work on the database now, this one first. On
// the embedded engine it is alone.
func (s *Store) Nodes(ctx context.Context) ([]Node, error) { return s.db.Engine.Nodes(ctx) }

// LiveNodes counts the processes that work on the database, this one included:
// as it was when the database was last asked, which is every 10 seconds.
func (s *Store) LiveNodes() int { return s.db.Engine.LiveNodes() }
