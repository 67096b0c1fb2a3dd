// Package store keeps the rows: one schema, one set of statements, and one
// writer that commits in groups. It carries moves in and verdicts out, and
// decides nothing about them.
//
// On the embedded engine, SQLite, this process is the only writer. So the
// facts that every check needs (approvals as they stand, people, memberships,
// roles, clients) also live in memory, and change there after, and only
// after, the durable commit of the row.
//
// On PostgreSQL any number of processes work on one database. Memory then
// holds the facts alone, as a replica whose version is asked for after each
// request has arrived; approvals are read as they stand.
//
// # In which order to read it
//
// The rows are in schema/0001.sql, and what PostgreSQL has beside them in
// schema/0001.postgres.sql. What happens to an approval is in
//
//   - store.go, which opens and closes; engine.go, what it asks of either engine, and
//     env.go, what it gives them: embedded.go opens SQLite (connector.go) and postgres.go
//     the other; fileinplace.go sees that SQLite's file is still where it was
//   - tx.go: a transaction, of either engine, and what it gathers for after its commit
//   - approval.go: a move is read, made, saved and journaled
//   - writer.go: the queue and the group commit; statement.go runs
//     statements, literals.go names the values in their text
//   - memory.go, where package facts lies beside approvalcache.go, the approvals, and change.go,
//     what a transaction does to both; load.go fills them at the start
//   - check.go and embeddedmemory.go: what a bearer check is answered
//   - approve.go, ending.go, many.go and pendingends.go: how approvals begin
//     and end
//   - journal.go, which writes what people ask about later; events.go lists it,
//     package journal names the kinds, reuse.go words what looks like theft
//
// Where the embedded engine has that writer and its memory, PostgreSQL has
//
//   - pgengine.go: who works there, and how facts change, by holding their version;
//     transact.go opens a transaction, queue.go is where callers wait
//   - rowread.go, which reads approvals together, and rowcache.go and columns.go
//   - refreshing.go, which saves refreshes by what their tokens say, and moves.go and
//     saving.go, which make all other moves together; register.go saves clients
//   - replica.go, which brings memory to the version of the facts, by factload.go
//   - notes.go: what nobody waits for, and uses.go, which notes last uses
//   - nodes.go, refused.go and rewound.go: what is known of other nodes, and of what
//     is the matter with the database
//
// All else is a subject a file, to be looked up:
//
//   - the directory: directory.go reads; person.go, member.go, organization.go,
//     integration.go and apikey.go change; import.go, with pruning.go
//     and dryrun.go, takes all of it, as package directory plans; exporting.go
//     gives it; directoryevent.go takes one event
//   - clients: client.go, clientend.go, preregister.go
//   - who is signed in: session.go, acting.go, identity.go, factor.go, reset.go
//   - lists: query.go, approvalrow.go; listing.go, with listingways.go,
//     listingmemory.go and listingpending.go; console.go, figures.go
//   - time: clock.go, sweep.go, due.go, unused.go
//   - the operator's: keys.go, keyrows.go, migrate.go, migrateshared.go,
//     preflight.go, schemaalias.go, files.go, backup.go, restore.go, inspect.go, repeated.go
package store
