// Package flows drives the real server through whole flows, in any order and with any
// values, and holds every answer to a model of the contract (docs/protocol.md, and
// docs/decisions.md where that leaves something open). Any bytes are a walk: house_test.go
// starts the server on a clock that only a walk moves, model_test.go is the contract,
// steps_test.go reads bytes as steps and takes them, walk_test.go is what runs. A walk that
// fails is cut to the steps that it needs and printed in words.
package flows
