// Package faults is the protocol under faults: servers that are killed, paused and
// cut off from what they stand on while people approve and clients use their tokens
// at all of them. Everything that was asked of an approval, and told, is a history,
// and a checker looks for an order of it that the protocol allows: a code exchanged at
// most once, a generation refreshed at most once, nothing accepted after its end was
// acknowledged, and nothing lost that was acknowledged.
package faults
