-- Releases of schema 7 and newer work beside it.
-- The journal's entries are sealed in blocks, each of which names the one before it
-- (decision J4). Entries that the previous release writes are sealed as all others.
CREATE TABLE journal_block (
	number    BIGINT PRIMARY KEY, -- from 1 on, without gaps
	previous  BYTEA NOT NULL,     -- the hash of the block before; SHA-256
	entries   BIGINT NOT NULL,    -- in it
	total     BIGINT NOT NULL,    -- up to its end
	first_id  TEXT NOT NULL,      -- of the journal, the lowest in it
	last_id   TEXT NOT NULL,      -- the highest
	sealed_at BIGINT NOT NULL,
	root      BYTEA NOT NULL,     -- over the leaves
	hash      BYTEA NOT NULL,     -- over all of this
	leaves    BYTEA NOT NULL,     -- of each entry 12 bytes of ID and 32 of hash
	kept      BIGINT NOT NULL     -- 0: its entries' time is over, and the leaves are gone with them
);
CREATE INDEX journal_block_kept ON journal_block (last_id, first_id) WHERE kept = 1;
