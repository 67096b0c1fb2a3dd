-- Releases of schema 7 and newer work beside it.
-- How clients tried to connect, and why they came no farther. Kept for a few days;
-- releases before see none of it.
CREATE TABLE attempt ( -- the ID sorts by the time of its beginning
	id           TEXT PRIMARY KEY,
	began        BIGINT NOT NULL, -- Unix milliseconds, as all times of it
	seen         BIGINT NOT NULL, -- the last observation
	client       TEXT NOT NULL,   -- ID; empty where none is known
	name         TEXT NOT NULL,   -- the client's, as it came
	name_key     TEXT NOT NULL,   -- the name, folded
	host         TEXT NOT NULL,
	approval     TEXT NOT NULL,   -- ID, in hexadecimal
	walk         TEXT NOT NULL,   -- hash of client and code_challenge, which names one request for authorization
	person       TEXT NOT NULL,
	organization TEXT NOT NULL,   -- that the person chose
	address      TEXT NOT NULL,   -- of the client's machine: IPv4, or the /64 of an IPv6 address
	reached      BIGINT NOT NULL, -- step, 1 to 10
	result       TEXT NOT NULL,   -- open, worked, failed or left
	reason       TEXT NOT NULL,
	due          BIGINT NOT NULL, -- from when on the next two hold; 0 is never
	later_result TEXT NOT NULL,
	later_reason TEXT NOT NULL,
	observations TEXT NOT NULL    -- a line each: never a token, code, verifier or state, nor a part of one
);
CREATE INDEX attempt_approval ON attempt (approval) WHERE approval <> '';
CREATE INDEX attempt_walk ON attempt (walk) WHERE walk <> '';
CREATE INDEX attempt_client ON attempt (client, seen);
CREATE INDEX attempt_address ON attempt (address, seen);
CREATE INDEX attempt_host ON attempt (host, id) WHERE host <> '';
CREATE INDEX attempt_organization ON attempt (organization, id) WHERE organization <> '';
CREATE INDEX attempt_person ON attempt (person, id) WHERE person <> '';
CREATE INDEX attempt_stranger ON attempt (id) WHERE person = '' AND approval = '';

-- Observations that there was no room for are counted, by day and reason.
CREATE TABLE attempt_count (
	day     BIGINT NOT NULL, -- Unix days
	reason  TEXT NOT NULL,   -- empty where nothing was wrong
	counted BIGINT NOT NULL,
	PRIMARY KEY (day, reason)
);
