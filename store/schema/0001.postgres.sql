-- What PostgreSQL has beside the schema that both engines share: the facts are
-- a replica in the memory of every node here, and several nodes sweep.

-- The one row says which version the facts have. Whoever changes a fact holds
-- it until the commit, so that versions are in the order of the commits and
-- have no gaps.
CREATE TABLE facts (
	one     BIGINT PRIMARY KEY,
	version BIGINT NOT NULL,
	trimmed BIGINT NOT NULL -- the newest version whose changes are not kept any more
);
INSERT INTO facts (one, version, trimmed) VALUES (1, 0, 0);

-- What has to be loaded again at a version.
CREATE TABLE fact_change (
	version BIGINT NOT NULL,
	what    TEXT NOT NULL, -- a table, or * for everything
	key     TEXT NOT NULL,
	PRIMARY KEY (version, what, key)
);

CREATE TABLE node (
	id         TEXT PRIMARY KEY,
	started_at BIGINT NOT NULL,
	seen_at    BIGINT NOT NULL,
	key_number BIGINT NOT NULL, -- the newest that it has
	version    BIGINT NOT NULL, -- of the facts, in its memory
	schema     BIGINT NOT NULL  -- the newest that its release knows
);

-- What one node does for all. Whoever finds that it has run out takes it over.
CREATE TABLE lease (
	name    TEXT PRIMARY KEY,
	holder  TEXT NOT NULL,
	until   BIGINT NOT NULL,
	version BIGINT NOT NULL, -- of the facts, up to which lost ones are marked
	at      BIGINT NOT NULL  -- the time up to which expired codes are marked
);
INSERT INTO lease (name, holder, until, version, at) VALUES ('sweep', '', 0, 0, 0);

-- A refresh finds room on its own page and touches no index.
ALTER TABLE approval SET (fillfactor = 50);
