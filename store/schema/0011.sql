-- Releases of schema 11 and newer work beside it.
-- What clients did with their approvals (package activity): a release before would pass
-- calls on and say nothing of them. Rows of a call never change.
CREATE TABLE activity (
	approval BYTEA NOT NULL,
	id       TEXT NOT NULL,   -- sorts by time
	day      BIGINT NOT NULL, -- from 1970 on, in UTC: days go together
	at       BIGINT NOT NULL,
	way      TEXT NOT NULL,
	outcome  TEXT NOT NULL,
	status   BIGINT NOT NULL, -- of the service's answer; 0 is none
	method   TEXT NOT NULL,
	path     TEXT NOT NULL,   -- without a query
	tool     TEXT NOT NULL,
	reason   TEXT NOT NULL,
	item     TEXT NOT NULL,   -- ID; this and what follows as the service says it
	title    TEXT NOT NULL,
	kind     TEXT NOT NULL,
	did      TEXT NOT NULL,
	role     TEXT NOT NULL,
	private  BIGINT NOT NULL,
	personal BIGINT NOT NULL,
	detail   TEXT NOT NULL,
	PRIMARY KEY (approval, id)
);
CREATE INDEX activity_day ON activity (day);
CREATE INDEX activity_item ON activity (item, id) WHERE item <> ''; -- what was said last of one

-- Calls that are counted, by the hour. Each session has its own rows and writes what it
-- has counted in all, so that nothing is counted twice.
CREATE TABLE activity_tally (
	approval BYTEA NOT NULL,
	hour     BIGINT NOT NULL, -- Unix seconds at which it begins
	what     TEXT NOT NULL,
	kind     TEXT NOT NULL,   -- the service's word; empty where it said none
	session  TEXT NOT NULL,
	calls    BIGINT NOT NULL,
	items    BIGINT NOT NULL,
	private  BIGINT NOT NULL,
	personal BIGINT NOT NULL,
	PRIMARY KEY (approval, hour, what, kind, session)
);
CREATE INDEX activity_tally_hour ON activity_tally (hour);

-- Who records now. A row that stays when its node is gone becomes a gap.
CREATE TABLE activity_session (
	id         TEXT PRIMARY KEY,
	opened_at  BIGINT NOT NULL,
	written_to BIGINT NOT NULL, -- what was answered before is here
	seen_at    BIGINT NOT NULL
);

-- From when to when records may be missing.
CREATE TABLE activity_gap (
	id      TEXT PRIMARY KEY,
	from_at BIGINT NOT NULL,
	to_at   BIGINT NOT NULL, -- 0: it goes on
	why     TEXT NOT NULL
);

-- People who were removed, and whose records are still to be deleted.
CREATE TABLE activity_forget (
	person TEXT PRIMARY KEY,
	at     BIGINT NOT NULL
);
