// Package store keeps the rows: one schema, and one set of statements over two
// engines. It carries moves in and verdicts out, and decides nothing about them.
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
// schema/0001.postgres.sql; schema/migration.go has the numbered files, schema/version.go
// what a database says of them, schema/run.go and schema/rekeyed.go how they run,
// schema/copying.go which of the tables both engines have. What both have of rows and memory
// is in
//
//   - engine/engine.go, what the store asks of an engine; engine/env.go, engine/options.go
//     and engine/clock.go, what it gives to one
//   - engine/tx.go: a transaction, of either engine, and what it gathers for after its commit
//   - engine/approval.go: a move is read, made, saved and journaled
//   - engine/memory.go, where package facts lies beside engine/approvalcache.go, the
//     approvals, and engine/change.go, what a transaction does to both
//   - engine/access.go: what a check is answered
//   - engine/journal.go, which writes what people ask about later; engine/reuse.go words
//     what looks like theft
//   - engine/rows.go, engine/literals.go, engine/client.go, engine/keyrows.go: statements
//     and rows that both have; engine/reserve.go, engine/revive.go and engine/rewound.go
//     are a subject each
//
// The embedded engine is
//
//   - sqlite/engine.go, which opens and closes it by way of sqlite/connector.go and
//     sqlite/load.go; sqlite/fileinplace.go sees that its file is still where it was
//   - sqlite/writer.go: the queue and the group commit; sqlite/statement.go runs statements;
//     sqlite/beside.go saves refreshes beside a long change, and sqlite/checkpoint.go has
//     the log of writes copied into the database
//   - sqlite/answers.go: what is answered out of memory
//   - sqlite/files.go, sqlite/inspect.go, sqlite/backup.go, sqlite/restore.go,
//     sqlite/migrate.go and sqlite/disk.go: its files; sqlite/checked.go sees that they hold
//     what was written
//
// Where it has that writer and its memory, PostgreSQL has
//
//   - postgres/engine.go: who works there, and how facts change, by holding their version;
//     postgres/open.go, postgres/preflight.go and postgres/migrate.go begin,
//     postgres/transact.go opens a transaction, postgres/queue.go is where callers wait
//   - postgres/rowread.go, which reads approvals together, and postgres/rowcache.go and
//     postgres/columns.go
//   - postgres/refreshing.go, which saves refreshes by what their tokens say, and
//     postgres/moves.go and postgres/saving.go, which make all other moves together, with
//     postgres/journal.go; postgres/register.go saves clients
//   - postgres/replica.go, which brings memory to the version of the facts, by
//     postgres/factload.go
//   - postgres/notes.go: what nobody waits for, with postgres/repeated.go, and
//     postgres/uses.go, which notes last uses
//   - postgres/pendingends.go: what has ended and does not say so yet
//   - postgres/nodes.go, postgres/refused.go and postgres/rewound.go: what is known of other
//     nodes, and of what is the matter with the database
//
// On top of them is this package: store.go opens and closes either, and wraps a
// transaction; engines.go, errors.go, files.go, postgres.go and schemaalias.go give what
// doors and commands know of them their names here. All else is a subject a file, to be
// looked up:
//
//   - a whole database, copied to the other engine: copy.go, by engine/copying.go,
//     sqlite/copying.go and postgres/copying.go; one whose keys are lost: lostkeys.go
//   - approvals: approvals/apply.go, approvals/refresh.go, approvals/check.go,
//     approvals/stamp.go; approve.go, approvals/ending.go, approvals/many.go and
//     approvals/pendingends.go, how they begin and end
//   - the journal, in records: records/journal.go writes what changes nothing else,
//     records/events.go lists it, package journal names the kinds, records/reuse.go asks what
//     looked like theft; records/sealing.go puts it into blocks, as package chain has them,
//     and records/proof.go writes it to be verified
//   - what calls did (package activity): records/recorder.go, records/activityrows.go,
//     records/activity.go
//   - attempts to connect: records/attempt.go keeps what doors have seen, as package attempt
//     reads it
//   - the directory: directory.go reads; person.go, member.go, organization.go,
//     integration.go and apikey.go change; import.go, with pruning.go
//     and dryrun.go, takes all of it, as package directory plans; exporting.go
//     gives it; directoryevent.go takes one event
//   - clients: client.go, clientend.go, preregister.go
//   - an organization's say about apps: oversight/policy.go, with oversight/policyrows.go
//     and oversight/effects.go; oversight/enddate.go, oversight/request.go,
//     oversight/connections.go, oversight/reviewdue.go
//   - who is signed in, in accounts: accounts/session.go, accounts/acting.go,
//     accounts/identity.go, accounts/password.go, accounts/factor.go, accounts/reset.go;
//     accounts/operatorsession.go, operators by name
//   - lists: query/builder.go, query/page.go, query/exec.go; approvals/approvalrow.go,
//     approvals/listing.go, with approvals/listingways.go, approvals/listingmemory.go and
//     approvals/listingpending.go; console.go, figures.go
//   - time: sweep.go, due.go, approvals/unused.go
//   - the operator's: keys.go, nodes.go, migrate.go, copies.go, approvals/settlerestored.go,
//     rewound.go
package store
