-- Releases of schema 7 and newer work beside it.
-- An organization's rules for apps, what its members ask its admins for, and how
-- long approvals last. Releases before would pass over all of it.
CREATE TABLE policy ( -- no row is no rules
	organization TEXT PRIMARY KEY,
	unknown_apps TEXT NOT NULL,   -- allow, ask or block; empty is allow
	known_apps   TEXT NOT NULL,   -- the same, for preregistered clients
	widest       TEXT NOT NULL,   -- kind of grant set, or empty: no limit
	read_only    BIGINT NOT NULL,
	no_personal  BIGINT NOT NULL,
	max_days     BIGINT NOT NULL, -- 0 is no limit
	review_days  BIGINT NOT NULL, -- 0 is none
	changed_by   TEXT NOT NULL,   -- as in the journal
	changed_at   BIGINT NOT NULL,
	version      BIGINT NOT NULL
);
CREATE TABLE policy_app (
	organization TEXT NOT NULL,
	host         TEXT NOT NULL,
	name_key     TEXT NOT NULL,   -- the name, folded
	person       TEXT NOT NULL,   -- empty is everybody
	name         TEXT NOT NULL,
	rule         TEXT NOT NULL,
	actor        TEXT NOT NULL,   -- as in the journal
	decided_at   BIGINT NOT NULL,
	reason       TEXT NOT NULL,
	PRIMARY KEY (organization, host, name_key, person)
);
CREATE TABLE policy_never (       -- roles that no app acts for
	organization TEXT NOT NULL,
	role         TEXT NOT NULL,
	PRIMARY KEY (organization, role)
);

-- A member asks the admins to allow an app. The ID sorts by time.
CREATE TABLE app_request (
	id           TEXT PRIMARY KEY,
	organization TEXT NOT NULL,
	person       TEXT NOT NULL,
	host         TEXT NOT NULL,
	name         TEXT NOT NULL,
	name_key     TEXT NOT NULL,
	client       TEXT NOT NULL,
	message      TEXT NOT NULL,
	asked_at     BIGINT NOT NULL,
	state        TEXT NOT NULL,   -- open, allowed, allowed_person, declined or withdrawn
	decided_by   TEXT NOT NULL,   -- as in the journal; empty while open
	decided_at   BIGINT NOT NULL,
	reason       TEXT NOT NULL
);
CREATE UNIQUE INDEX app_request_open ON app_request (organization, person, host) WHERE state = 'open';
CREATE INDEX app_request_organization ON app_request (organization, state, id);
CREATE INDEX app_request_person ON app_request (person, organization, host, id);
CREATE INDEX app_request_asked ON app_request (asked_at);

ALTER TABLE approval ADD COLUMN ends_at BIGINT NOT NULL DEFAULT 0;     -- 0 is until somebody ends it
ALTER TABLE approval ADD COLUMN ends_told BIGINT NOT NULL DEFAULT 0;   -- 1: that this is soon is in the journal
ALTER TABLE approval ADD COLUMN reviewed_by TEXT NOT NULL DEFAULT '';  -- as in the journal
ALTER TABLE approval ADD COLUMN reviewed_at BIGINT NOT NULL DEFAULT 0; -- 0 is never
CREATE INDEX approval_ends ON approval (ends_at) WHERE ends_at > 0 AND ended_at = 0;
-- The admins' list is by grant set, then by created_at and id; what lies behind these is
-- asked without looking at the row, and so is all that they count, of each person.
CREATE INDEX approval_connections ON approval (organization, grant_kind, created_at, id, reviewed_at, ends_at) WHERE ended_at = 0;
CREATE INDEX approval_people ON approval (organization, person, created_at, reviewed_at, ends_at) WHERE ended_at = 0;
