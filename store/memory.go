package store

import (
	"sync"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/facts"
)

// memory is what is kept of the rows: all facts, and on the embedded engine the
// part of every approval that has not ended which a check needs. The writer
// changes it under the lock; the writer alone may read it without.
type memory struct {
	facts.Facts
	sync.RWMutex
	settling  sync.RWMutex // held, before the other, from the commit of a change of facts until they are here
	version   int64        // of the facts, on PostgreSQL
	changes   int64        // how often facts may have changed here, on PostgreSQL
	approvals approvalCache
	arriving  facts.Crowd // clients that are being registered now

	// endsWritten is what Ended was when the last writeEnds began that left nothing pending.
	// While they differ, there may be approvals that have ended by a fact without
	// their row saying so.
	endsWritten int
}

func newMemory(impersonal bool) *memory {
	return &memory{Facts: facts.New(impersonal, 0, 0, 0), approvals: approvalCache{index: map[approval.ID]uint32{}}}
}

// A change is what a transaction does to memory once it is durable. Both engines
// apply it then, and both load their facts by changes of facts.
type change interface{ apply(m *memory) }

// onFacts is a change of the facts.
type onFacts struct{ facts.Change }

func (c onFacts) apply(m *memory) { c.Change.Apply(&m.Facts) }
