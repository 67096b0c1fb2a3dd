package engine

import (
	"sync"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/facts"
)

// Memory is what is kept of the rows: all facts, and on the embedded engine the
// part of every approval that has not ended which a check needs. The writer
// changes it under the lock; the writer alone may read it without.
type Memory struct {
	facts.Facts
	sync.RWMutex
	Settling  sync.RWMutex // held, before the other, from the commit of a change of facts until they are here
	Version   int64        // of the facts, on PostgreSQL
	Changes   int64        // how often facts may have changed here, on PostgreSQL
	Approvals ApprovalCache
	Arriving  facts.Crowd // clients that are being registered now

	// EndsWritten is what Ended was when the last writeEnds began that left nothing pending.
	// While they differ, there may be approvals that have ended by a fact without
	// their row saying so.
	EndsWritten int
}

// HasApprovals reports whether they are here; elsewhere the rows alone have them.
func (m *Memory) HasApprovals() bool { return !m.Approvals.Elsewhere }

func newMemory(impersonal bool) *Memory {
	return &Memory{Facts: facts.New(impersonal, 0, 0, 0), Approvals: ApprovalCache{Index: map[approval.ID]uint32{}}}
}

// A change is what a transaction does to memory once it is durable. Both engines
// apply it then, and both load their facts by changes of facts.
type change interface{ apply(m *Memory) }

// onFacts is a change of the facts.
type onFacts struct{ facts.Change }

func (c onFacts) apply(m *Memory) { c.Change.Apply(&m.Facts) }

// AwaitCommit waits, on the embedded engine, for the commit that is under way: its
// rows can be seen before its facts can.
func (m *Memory) AwaitCommit() {
	m.Settling.RLock()
	defer m.Settling.RUnlock()
}
