-- The first schema. Only TEXT, BIGINT and BYTEA; times are Unix seconds;
-- booleans are 0 or 1. The same text serves SQLite and PostgreSQL.

CREATE TABLE meta (
	name  TEXT PRIMARY KEY,
	value TEXT NOT NULL
);

-- Facts (spec 2.4). An epoch grows whenever its fact ends; rows stay as
-- tombstones, so an epoch never starts again (decision P12).

CREATE TABLE person (
	id        TEXT PRIMARY KEY,
	email     TEXT NOT NULL,
	email_key TEXT NOT NULL UNIQUE, -- in lower case
	name      TEXT NOT NULL,
	active    BIGINT NOT NULL,
	support   BIGINT NOT NULL,
	epoch     BIGINT NOT NULL,
	password  TEXT NOT NULL -- PHC string, or empty
);

CREATE TABLE organization (
	id             TEXT PRIMARY KEY,
	name           TEXT NOT NULL,
	ai_integration BIGINT NOT NULL,
	epoch          BIGINT NOT NULL
);

CREATE TABLE membership (
	person       TEXT NOT NULL,
	organization TEXT NOT NULL,
	admin        BIGINT NOT NULL,
	present      BIGINT NOT NULL, -- 0 is the tombstone of a membership
	epoch        BIGINT NOT NULL,
	PRIMARY KEY (person, organization)
);
CREATE INDEX membership_organization ON membership (organization, person);

CREATE TABLE circle (
	id           TEXT PRIMARY KEY,
	organization TEXT NOT NULL,
	parent       TEXT NOT NULL, -- empty at the root
	name         TEXT NOT NULL
);
CREATE INDEX circle_organization ON circle (organization);

CREATE TABLE role (
	id           TEXT PRIMARY KEY,
	organization TEXT NOT NULL,
	circle       TEXT NOT NULL,
	name         TEXT NOT NULL
);
CREATE INDEX role_organization ON role (organization);

CREATE TABLE filler (
	role   TEXT NOT NULL,
	person TEXT NOT NULL,
	PRIMARY KEY (role, person)
);

CREATE TABLE filler_left ( -- when somebody last left a role
	role    TEXT NOT NULL,
	person  TEXT NOT NULL,
	left_at BIGINT NOT NULL,
	PRIMARY KEY (role, person)
);

CREATE TABLE integration ( -- who last switched AI integration on, and when
	organization TEXT PRIMARY KEY,
	actor        TEXT NOT NULL, -- as in the journal
	switched_at  BIGINT NOT NULL
);

-- What a service tells of its own directory: the version of each object that an
-- event was the last to tell, so that a late one revives nothing; and the
-- events of late, so that one that comes twice is one.

CREATE TABLE directory_version (
	object  TEXT PRIMARY KEY, -- kind:ID
	version BIGINT NOT NULL
);
CREATE INDEX directory_version_version ON directory_version (version);

CREATE TABLE directory_event (
	id     TEXT PRIMARY KEY,
	at     BIGINT NOT NULL,
	digest TEXT NOT NULL, -- SHA-256 of the body, in hexadecimal
	result TEXT NOT NULL
);
CREATE INDEX directory_event_at ON directory_event (at);

CREATE TABLE api_key (
	hash         BYTEA PRIMARY KEY, -- SHA-256 of the key
	person       TEXT NOT NULL,
	organization TEXT NOT NULL,
	name         TEXT NOT NULL,
	created_at   BIGINT NOT NULL,
	membership_epoch BIGINT NOT NULL, -- the key ends with either (decision B6)
	person_epoch     BIGINT NOT NULL
);

CREATE TABLE client (
	id            TEXT PRIMARY KEY,
	name          TEXT NOT NULL,
	redirect_uris TEXT NOT NULL, -- one on each line
	issued_at     BIGINT NOT NULL,
	preregistered BIGINT NOT NULL, -- 1 by the configuration, 2 by an operator
	approved      BIGINT NOT NULL,
	disabled      BIGINT NOT NULL, -- 1 by an operator, 2 taken out of the configuration, 3 deleted: a tombstone
	epoch         BIGINT NOT NULL
);
CREATE INDEX client_issued ON client (approved, issued_at);
CREATE INDEX client_deleted ON client (id) WHERE disabled = 3;

-- Tensions, actions, projects and notes of the reference API. Each belongs to
-- a role, whose circle is its circle, or is personal and has a person.

CREATE TABLE item (
	id           TEXT PRIMARY KEY,
	kind         TEXT NOT NULL,
	organization TEXT NOT NULL,
	role         TEXT NOT NULL, -- empty on a personal item
	person       TEXT NOT NULL, -- empty on a role's item
	private      BIGINT NOT NULL,
	title        TEXT NOT NULL,
	body         TEXT NOT NULL,
	status       TEXT NOT NULL,
	version      BIGINT NOT NULL,
	created_at   BIGINT NOT NULL,
	changed_at   BIGINT NOT NULL
);
CREATE INDEX item_kind ON item (organization, kind, id);

-- One row is one approval, whatever happens to its tokens, which are sealed
-- and not stored (decision T1). A refresh changes phase, generation,
-- key_number and network only: no index may stand on these.

CREATE TABLE approval (
	id                 BYTEA PRIMARY KEY,
	client             TEXT NOT NULL,
	person             TEXT NOT NULL,
	organization       TEXT NOT NULL,
	grant_kind         TEXT NOT NULL,
	picks              TEXT NOT NULL,
	personal           BIGINT NOT NULL,
	redirect_uri       TEXT NOT NULL,
	issuer             TEXT NOT NULL,
	challenge          TEXT NOT NULL,
	issued_at          BIGINT NOT NULL, -- of the code
	created_at         BIGINT NOT NULL,
	replaces           TEXT NOT NULL,   -- IDs of the approvals that end at the exchange
	membership_epoch   BIGINT NOT NULL,
	person_epoch       BIGINT NOT NULL,
	organization_epoch BIGINT NOT NULL,
	client_epoch       BIGINT NOT NULL,
	phase              BIGINT NOT NULL,
	generation         BIGINT NOT NULL,
	used_at            BIGINT NOT NULL DEFAULT 0, -- the last refresh, or a first call; all calls with its token come within 30 minutes (decision P11)
	key_number         BIGINT NOT NULL,
	reason             TEXT NOT NULL,
	ended_at           BIGINT NOT NULL,
	network            BIGINT NOT NULL DEFAULT 0 -- a hash of where the current refresh token was given to; 0 is unknown
);
CREATE INDEX approval_person ON approval (person, created_at, id);
CREATE INDEX approval_client ON approval (client, organization, person);
-- Lists are by created_at and id, newest first, under each filter.
CREATE INDEX approval_organization ON approval (organization, created_at, id);
CREATE INDEX approval_client_created ON approval (client, created_at, id);
CREATE INDEX approval_grant ON approval (grant_kind, created_at, id);
CREATE INDEX approval_created ON approval (created_at, id);
CREATE INDEX approval_ended_created ON approval (created_at, id) WHERE ended_at > 0;
CREATE INDEX approval_ended ON approval (ended_at) WHERE ended_at > 0;

CREATE TABLE session (
	hash         BYTEA PRIMARY KEY, -- SHA-256 of the cookie's value
	person       TEXT NOT NULL,
	person_epoch BIGINT NOT NULL, -- deactivation ends the session (decision S2)
	created_at   BIGINT NOT NULL,
	seen_at      BIGINT NOT NULL,
	address      TEXT NOT NULL,   -- where it began
	acting_as    TEXT NOT NULL,   -- whose pages the person sees, as support (decision P9); empty: their own
	acting_epoch BIGINT NOT NULL, -- of that person
	acting_in    TEXT NOT NULL,   -- organization
	acting_since BIGINT NOT NULL,
	proved_at    BIGINT NOT NULL DEFAULT 0, -- when the person last proved who they are; 0: at created_at
	factor_at    BIGINT NOT NULL DEFAULT 0, -- when with a second factor; 0 is never
	issuer       TEXT NOT NULL DEFAULT '',  -- who vouched for the person; empty: a password did
	subject      TEXT NOT NULL DEFAULT '',  -- who they are there
	sid          TEXT NOT NULL DEFAULT '',  -- their session there
	acted_by     TEXT NOT NULL DEFAULT ''   -- who acts for the person, as the other side says it
);
CREATE INDEX session_subject ON session (issuer, subject) WHERE issuer <> '';
CREATE INDEX session_person ON session (person);
CREATE INDEX session_seen ON session (seen_at);

-- Links by which people set a new password, once each.
CREATE TABLE reset (
	hash         BYTEA PRIMARY KEY, -- SHA-256 of the link's secret
	person       TEXT NOT NULL,
	person_epoch BIGINT NOT NULL,
	ends_at      BIGINT NOT NULL
);

-- Who a person is at an OpenID provider: one account there is one person here.
CREATE TABLE subject (
	issuer     TEXT NOT NULL,
	subject    TEXT NOT NULL,
	person     TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	PRIMARY KEY (issuer, subject)
);
CREATE UNIQUE INDEX subject_person ON subject (person, issuer);

-- What a person proves who they are with, beside a password.
CREATE TABLE factor (
	id         TEXT PRIMARY KEY,
	person     TEXT NOT NULL,
	kind       TEXT NOT NULL,
	name       TEXT NOT NULL,
	secret     TEXT NOT NULL,   -- sealed; of a passkey its public part; of a recovery code a hash
	counter    BIGINT NOT NULL, -- of a one-time code the last step that counted
	created_at BIGINT NOT NULL,
	used_at    BIGINT NOT NULL  -- 0 is never
);
CREATE INDEX factor_person ON factor (person);

-- What counts once, for as long as it could be presented again.
CREATE TABLE spent (
	hash    BYTEA PRIMARY KEY, -- SHA-256
	ends_at BIGINT NOT NULL
);
CREATE INDEX spent_ends ON spent (ends_at);

-- Append-only (decision J1). The ID sorts by time.
CREATE TABLE journal (
	id           TEXT PRIMARY KEY,
	at           BIGINT NOT NULL,
	kind         TEXT NOT NULL,
	client       TEXT NOT NULL,
	person       TEXT NOT NULL,
	organization TEXT NOT NULL,
	approval     TEXT NOT NULL,
	actor        TEXT NOT NULL,
	address      TEXT NOT NULL,
	reason       TEXT NOT NULL,
	detail       TEXT NOT NULL,
	reference    TEXT NOT NULL
);
-- Registrations and refusals are of no approval and of nobody: they write
-- neither.
CREATE INDEX journal_approval ON journal (approval, id) WHERE approval <> '';
CREATE INDEX journal_person ON journal (person, id) WHERE person <> '';
