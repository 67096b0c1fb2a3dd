-- Releases of schema 7 and newer work beside it.
-- Named operators who are signed in at their console.
CREATE TABLE operator_session (
	hash       BYTEA PRIMARY KEY, -- SHA-256 of the cookie's value
	operator   TEXT NOT NULL,     -- the name in the configuration
	way        TEXT NOT NULL,     -- password, or the ID of a provider
	bound      TEXT NOT NULL,     -- hash of the settings that it stands on: others end it
	created_at BIGINT NOT NULL,
	seen_at    BIGINT NOT NULL,
	address    TEXT NOT NULL      -- where it began
);
CREATE INDEX operator_session_seen ON operator_session (seen_at);
