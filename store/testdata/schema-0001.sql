CREATE TABLE api_key (
    hash bytea NOT NULL,
    person text NOT NULL,
    organization text NOT NULL,
    name text NOT NULL,
    created_at bigint NOT NULL,
    membership_epoch bigint NOT NULL,
    person_epoch bigint NOT NULL
);
CREATE TABLE approval (
    id bytea NOT NULL,
    client text NOT NULL,
    person text NOT NULL,
    organization text NOT NULL,
    grant_kind text NOT NULL,
    picks text NOT NULL,
    personal bigint NOT NULL,
    redirect_uri text NOT NULL,
    issuer text NOT NULL,
    challenge text NOT NULL,
    issued_at bigint NOT NULL,
    created_at bigint NOT NULL,
    replaces text NOT NULL,
    membership_epoch bigint NOT NULL,
    person_epoch bigint NOT NULL,
    organization_epoch bigint NOT NULL,
    client_epoch bigint NOT NULL,
    phase bigint NOT NULL,
    generation bigint NOT NULL,
    used_at bigint DEFAULT 0 NOT NULL,
    key_number bigint NOT NULL,
    reason text NOT NULL,
    ended_at bigint NOT NULL,
    network bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE circle (
    id text NOT NULL,
    organization text NOT NULL,
    parent text NOT NULL,
    name text NOT NULL
);
CREATE TABLE client (
    id text NOT NULL,
    name text NOT NULL,
    redirect_uris text NOT NULL,
    issued_at bigint NOT NULL,
    preregistered bigint NOT NULL,
    approved bigint NOT NULL,
    disabled bigint NOT NULL,
    epoch bigint NOT NULL
);
CREATE TABLE directory_event (
    id text NOT NULL,
    at bigint NOT NULL,
    digest text NOT NULL,
    result text NOT NULL
);
CREATE TABLE directory_version (
    object text NOT NULL,
    version bigint NOT NULL
);
CREATE TABLE fact_change (
    version bigint NOT NULL,
    what text NOT NULL,
    key text NOT NULL
);
CREATE TABLE factor (
    id text NOT NULL,
    person text NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    secret text NOT NULL,
    counter bigint NOT NULL,
    created_at bigint NOT NULL,
    used_at bigint NOT NULL
);
CREATE TABLE facts (
    one bigint NOT NULL,
    version bigint NOT NULL,
    trimmed bigint NOT NULL
);
CREATE TABLE filler (
    role text NOT NULL,
    person text NOT NULL
);
CREATE TABLE filler_left (
    role text NOT NULL,
    person text NOT NULL,
    left_at bigint NOT NULL
);
CREATE TABLE integration (
    organization text NOT NULL,
    actor text NOT NULL,
    switched_at bigint NOT NULL
);
CREATE TABLE item (
    id text NOT NULL,
    kind text NOT NULL,
    organization text NOT NULL,
    role text NOT NULL,
    person text NOT NULL,
    private bigint NOT NULL,
    title text NOT NULL,
    body text NOT NULL,
    status text NOT NULL,
    version bigint NOT NULL,
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL
);
CREATE TABLE journal (
    id text NOT NULL,
    at bigint NOT NULL,
    kind text NOT NULL,
    client text NOT NULL,
    person text NOT NULL,
    organization text NOT NULL,
    approval text NOT NULL,
    actor text NOT NULL,
    address text NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL,
    reference text NOT NULL
);
CREATE TABLE lease (
    name text NOT NULL,
    holder text NOT NULL,
    until bigint NOT NULL,
    version bigint NOT NULL,
    at bigint NOT NULL
);
CREATE TABLE membership (
    person text NOT NULL,
    organization text NOT NULL,
    admin bigint NOT NULL,
    present bigint NOT NULL,
    epoch bigint NOT NULL
);
CREATE TABLE meta (
    name text NOT NULL,
    value text NOT NULL
);
CREATE TABLE node (
    id text NOT NULL,
    started_at bigint NOT NULL,
    seen_at bigint NOT NULL,
    key_number bigint NOT NULL,
    version bigint NOT NULL,
    schema bigint NOT NULL
);
CREATE TABLE organization (
    id text NOT NULL,
    name text NOT NULL,
    ai_integration bigint NOT NULL,
    epoch bigint NOT NULL
);
CREATE TABLE person (
    id text NOT NULL,
    email text NOT NULL,
    email_key text NOT NULL,
    name text NOT NULL,
    active bigint NOT NULL,
    support bigint NOT NULL,
    epoch bigint NOT NULL,
    password text NOT NULL
);
CREATE TABLE reset (
    hash bytea NOT NULL,
    person text NOT NULL,
    person_epoch bigint NOT NULL,
    ends_at bigint NOT NULL
);
CREATE TABLE role (
    id text NOT NULL,
    organization text NOT NULL,
    circle text NOT NULL,
    name text NOT NULL
);
CREATE TABLE session (
    hash bytea NOT NULL,
    person text NOT NULL,
    person_epoch bigint NOT NULL,
    created_at bigint NOT NULL,
    seen_at bigint NOT NULL,
    address text NOT NULL,
    acting_as text NOT NULL,
    acting_epoch bigint NOT NULL,
    acting_in text NOT NULL,
    acting_since bigint NOT NULL,
    proved_at bigint DEFAULT 0 NOT NULL,
    factor_at bigint DEFAULT 0 NOT NULL,
    issuer text DEFAULT ''::text NOT NULL,
    subject text DEFAULT ''::text NOT NULL,
    sid text DEFAULT ''::text NOT NULL,
    acted_by text DEFAULT ''::text NOT NULL
);
CREATE TABLE spent (
    hash bytea NOT NULL,
    ends_at bigint NOT NULL
);
CREATE TABLE subject (
    issuer text NOT NULL,
    subject text NOT NULL,
    person text NOT NULL,
    created_at bigint NOT NULL
);
INSERT INTO api_key VALUES ('\xc1394e5314ce1690f30ccbb5d1fcf45eaaced8fd4a25754458e5c4dbe2ca5dfb', 'ada', 'nordlys', 'script', 1800000000, 0, 0);
INSERT INTO approval VALUES ('\x4d2c4a761e5045490b975eff16029aa9', 'quill', 'ada', 'nordlys', 'roles', 'treasurer=change', 0, 'https://connect.quill.example/callback', 'https://app.svalinn.example', 'gwx_1ff33sP-Na7uzErlwZMg02IfMm0pwvZjX6iq0Jg', 1800000000, 1800000000, '', 0, 0, 0, 0, 2, 2, 1800000000, 1, '', 0, 0);
INSERT INTO approval VALUES ('\x8deece8f7cb418780c35fb5679e7e6b3', 'quill', 'ada', 'nordlys', 'roles', 'treasurer=change', 0, 'https://connect.quill.example/callback', 'https://app.svalinn.example', 'gwx_1ff33sP-Na7uzErlwZMg02IfMm0pwvZjX6iq0Jg', 1800000000, 1800000000, '', 0, 0, 0, 0, 3, 1, 0, 1, 'revoked_by_person', 1800000000, 0);
INSERT INTO approval VALUES ('\xf497bfab3295e50e6ea9d5cd5f39b4fb', 'quill', 'ada', 'nordlys', 'roles', 'treasurer=change', 0, 'https://connect.quill.example/callback', 'https://app.svalinn.example', 'gwx_1ff33sP-Na7uzErlwZMg02IfMm0pwvZjX6iq0Jg', 1800000000, 1800000000, '', 0, 0, 0, 0, 1, 0, 0, 0, '', 0, 0);
INSERT INTO approval VALUES ('\x98983ecbb83594b175c26f8fff027a24', 'quill', 'ada', 'nordlys', 'roles', 'treasurer=change', 0, 'https://connect.quill.example/callback', 'https://app.svalinn.example', 'gwx_1ff33sP-Na7uzErlwZMg02IfMm0pwvZjX6iq0Jg', 1800000000, 1800000000, '', 0, 0, 0, 0, 3, 0, 0, 0, 'revoked_by_person', 1800000000, 0);
INSERT INTO circle VALUES ('anchor', 'nordlys', '', 'Nordlys');
INSERT INTO circle VALUES ('grants', 'fjell', '', 'Grants');
INSERT INTO client VALUES ('quill', 'Quill Assistant', 'https://connect.quill.example/callback', 1800000000, 0, 1, 0, 0);
INSERT INTO client VALUES ('nobody', 'Quill Assistant', 'https://connect.quill.example/callback', 1800000000, 0, 0, 0, 0);
INSERT INTO client VALUES ('imitator', 'Quill Assistant', 'https://connect.quill.example/callback', 1800000000, 0, 0, 1, 1);
INSERT INTO fact_change VALUES (484823, 'person', 'tor');
INSERT INTO fact_change VALUES (484823, 'filler', 'treasurer ada');
INSERT INTO fact_change VALUES (484823, 'membership', 'ada nordlys');
INSERT INTO fact_change VALUES (484823, 'membership', 'ada fjell');
INSERT INTO fact_change VALUES (484823, 'filler', 'reviewer ada');
INSERT INTO fact_change VALUES (484823, 'organization', 'fjell');
INSERT INTO fact_change VALUES (484823, 'person', 'ada');
INSERT INTO fact_change VALUES (484823, 'circle', 'grants');
INSERT INTO fact_change VALUES (484823, 'organization', 'nordlys');
INSERT INTO fact_change VALUES (484823, 'role', 'reviewer');
INSERT INTO fact_change VALUES (484823, 'role', 'treasurer');
INSERT INTO fact_change VALUES (484823, 'circle', 'anchor');
INSERT INTO fact_change VALUES (484823, 'membership', 'tor nordlys');
INSERT INTO fact_change VALUES (484823, 'api_key', 'c1394e5314ce1690f30ccbb5d1fcf45eaaced8fd4a25754458e5c4dbe2ca5dfb');
INSERT INTO fact_change VALUES (825322, 'newclient', 'quill');
INSERT INTO fact_change VALUES (1263546, 'client', 'quill');
INSERT INTO fact_change VALUES (1561452, 'newclient', 'nobody');
INSERT INTO fact_change VALUES (1893805, 'newclient', 'imitator');
INSERT INTO fact_change VALUES (2024784, 'client', 'imitator');
INSERT INTO facts VALUES (1, 2024784, 0);
INSERT INTO filler VALUES ('treasurer', 'ada');
INSERT INTO filler VALUES ('reviewer', 'ada');
INSERT INTO integration VALUES ('nordlys', 'system', 1800000000);
INSERT INTO integration VALUES ('fjell', 'system', 1800000000);
INSERT INTO journal VALUES ('01a3185c500000002eb2ca50', 1800000000, 'directory_changed', '', '', '', '', 'system', '', '', 'people: 2 added; organizations: 2 added; members: 3 added; circles: 2 added; roles: 2 added; fillers: 2 added; api_keys: 1 added', '');
INSERT INTO journal VALUES ('01a3185c50000001d096ba6a', 1800000000, 'client_registered', 'quill', '', '', '', '', '', '', '', '');
INSERT INTO journal VALUES ('01a3185c500000024ce0194a', 1800000000, 'approval_granted', 'quill', 'ada', 'nordlys', '4d2c4a761e5045490b975eff16029aa9', 'person:ada', '', '', 'roles', '');
INSERT INTO journal VALUES ('01a3185c50000003e56a8152', 1800000000, 'code_exchanged', 'quill', 'ada', 'nordlys', '4d2c4a761e5045490b975eff16029aa9', '', '', '', '', '');
INSERT INTO journal VALUES ('01a3185c500000048722d7e3', 1800000000, 'approval_granted', 'quill', 'ada', 'nordlys', '8deece8f7cb418780c35fb5679e7e6b3', 'person:ada', '', '', 'roles', '');
INSERT INTO journal VALUES ('01a3185c500000050aa19665', 1800000000, 'code_exchanged', 'quill', 'ada', 'nordlys', '8deece8f7cb418780c35fb5679e7e6b3', '', '', '', '', '');
INSERT INTO journal VALUES ('01a3185c500000061cbced10', 1800000000, 'approval_ended', 'quill', 'ada', 'nordlys', '8deece8f7cb418780c35fb5679e7e6b3', 'person:ada', '', 'revoked_by_person', '', '');
INSERT INTO journal VALUES ('01a3185c5000000707734204', 1800000000, 'approval_granted', 'quill', 'ada', 'nordlys', 'f497bfab3295e50e6ea9d5cd5f39b4fb', 'person:ada', '', '', 'roles', '');
INSERT INTO journal VALUES ('01a3185c5000000871af685c', 1800000000, 'approval_granted', 'quill', 'ada', 'nordlys', '98983ecbb83594b175c26f8fff027a24', 'person:ada', '', '', 'roles', '');
INSERT INTO journal VALUES ('01a3185c5000000944664ac2', 1800000000, 'approval_ended', 'quill', 'ada', 'nordlys', '98983ecbb83594b175c26f8fff027a24', 'person:ada', '', 'revoked_by_person', '', '');
INSERT INTO journal VALUES ('01a3185c5000000aff4093a0', 1800000000, 'approval_cancelled', 'quill', 'ada', '', '', 'person:ada', '', '', '', '');
INSERT INTO journal VALUES ('01a3185c5000000bbb07ab3b', 1800000000, 'client_registered', 'nobody', '', '', '', '', '', '', '', '');
INSERT INTO journal VALUES ('01a3185c5000000c53dee9eb', 1800000000, 'client_registered', 'imitator', '', '', '', '', '', '', '', '');
INSERT INTO journal VALUES ('01a3185c5000000dc8a6164f', 1800000000, 'client_disabled', 'imitator', '', '', '', 'operator:root', '', 'imitates us', '', '');
INSERT INTO journal VALUES ('01a3185c5000000e47f715db', 1800000000, 'signin_succeeded', '', 'ada', '', '', '', '', '', '', '');
INSERT INTO lease VALUES ('sweep', '', 0, 2024784, 1799997900);
INSERT INTO membership VALUES ('ada', 'nordlys', 1, 1, 0);
INSERT INTO membership VALUES ('ada', 'fjell', 0, 1, 0);
INSERT INTO membership VALUES ('tor', 'nordlys', 0, 1, 0);
INSERT INTO meta VALUES ('schema', '1');
INSERT INTO meta VALUES ('schema_oldest', '1');
INSERT INTO meta VALUES ('schema_release', '');
INSERT INTO meta VALUES ('key.1', 'BrKUwhIVqzqLpk2n');
INSERT INTO organization VALUES ('nordlys', 'Nordlys', 1, 0);
INSERT INTO organization VALUES ('fjell', 'Fjell', 1, 0);
INSERT INTO person VALUES ('ada', 'Ada@nordlys.example', 'ada@nordlys.example', 'Ada Lindqvist', 1, 0, 0, '$argon2id$x');
INSERT INTO person VALUES ('tor', 'tor@nordlys.example', 'tor@nordlys.example', 'Tor', 1, 0, 0, '');
INSERT INTO role VALUES ('treasurer', 'nordlys', 'anchor', 'Treasurer');
INSERT INTO role VALUES ('reviewer', 'fjell', 'grants', 'Reviewer');
INSERT INTO session VALUES ('\x0cad7d91bb1d7d3ed792d15b26956f02456f5e51c733146ea06b38e8d473c177', 'ada', 0, 1800000000, 1800000000, '', '', 0, '', 0, 0, 0, '', '', '', '');
ALTER TABLE ONLY api_key
    ADD CONSTRAINT api_key_pkey PRIMARY KEY (hash);
ALTER TABLE ONLY approval
    ADD CONSTRAINT approval_pkey PRIMARY KEY (id);
ALTER TABLE ONLY circle
    ADD CONSTRAINT circle_pkey PRIMARY KEY (id);
ALTER TABLE ONLY client
    ADD CONSTRAINT client_pkey PRIMARY KEY (id);
ALTER TABLE ONLY directory_event
    ADD CONSTRAINT directory_event_pkey PRIMARY KEY (id);
ALTER TABLE ONLY directory_version
    ADD CONSTRAINT directory_version_pkey PRIMARY KEY (object);
ALTER TABLE ONLY fact_change
    ADD CONSTRAINT fact_change_pkey PRIMARY KEY (version, what, key);
ALTER TABLE ONLY factor
    ADD CONSTRAINT factor_pkey PRIMARY KEY (id);
ALTER TABLE ONLY facts
    ADD CONSTRAINT facts_pkey PRIMARY KEY (one);
ALTER TABLE ONLY filler_left
    ADD CONSTRAINT filler_left_pkey PRIMARY KEY (role, person);
ALTER TABLE ONLY filler
    ADD CONSTRAINT filler_pkey PRIMARY KEY (role, person);
ALTER TABLE ONLY integration
    ADD CONSTRAINT integration_pkey PRIMARY KEY (organization);
ALTER TABLE ONLY item
    ADD CONSTRAINT item_pkey PRIMARY KEY (id);
ALTER TABLE ONLY journal
    ADD CONSTRAINT journal_pkey PRIMARY KEY (id);
ALTER TABLE ONLY lease
    ADD CONSTRAINT lease_pkey PRIMARY KEY (name);
ALTER TABLE ONLY membership
    ADD CONSTRAINT membership_pkey PRIMARY KEY (person, organization);
ALTER TABLE ONLY meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (name);
ALTER TABLE ONLY node
    ADD CONSTRAINT node_pkey PRIMARY KEY (id);
ALTER TABLE ONLY organization
    ADD CONSTRAINT organization_pkey PRIMARY KEY (id);
ALTER TABLE ONLY person
    ADD CONSTRAINT person_email_key_key UNIQUE (email_key);
ALTER TABLE ONLY person
    ADD CONSTRAINT person_pkey PRIMARY KEY (id);
ALTER TABLE ONLY reset
    ADD CONSTRAINT reset_pkey PRIMARY KEY (hash);
ALTER TABLE ONLY role
    ADD CONSTRAINT role_pkey PRIMARY KEY (id);
ALTER TABLE ONLY session
    ADD CONSTRAINT session_pkey PRIMARY KEY (hash);
ALTER TABLE ONLY spent
    ADD CONSTRAINT spent_pkey PRIMARY KEY (hash);
ALTER TABLE ONLY subject
    ADD CONSTRAINT subject_pkey PRIMARY KEY (issuer, subject);
CREATE INDEX approval_client ON approval USING btree (client, organization, person);
CREATE INDEX approval_client_created ON approval USING btree (client, created_at, id);
CREATE INDEX approval_created ON approval USING btree (created_at, id);
CREATE INDEX approval_ended ON approval USING btree (ended_at) WHERE (ended_at > 0);
CREATE INDEX approval_ended_created ON approval USING btree (created_at, id) WHERE (ended_at > 0);
CREATE INDEX approval_grant ON approval USING btree (grant_kind, created_at, id);
CREATE INDEX approval_organization ON approval USING btree (organization, created_at, id);
CREATE INDEX approval_person ON approval USING btree (person, created_at, id);
CREATE INDEX circle_organization ON circle USING btree (organization);
CREATE INDEX client_deleted ON client USING btree (id) WHERE (disabled = 3);
CREATE INDEX client_issued ON client USING btree (approved, issued_at);
CREATE INDEX directory_event_at ON directory_event USING btree (at);
CREATE INDEX directory_version_version ON directory_version USING btree (version);
CREATE INDEX factor_person ON factor USING btree (person);
CREATE INDEX item_kind ON item USING btree (organization, kind, id);
CREATE INDEX journal_approval ON journal USING btree (approval, id) WHERE (approval <> ''::text);
CREATE INDEX journal_person ON journal USING btree (person, id) WHERE (person <> ''::text);
CREATE INDEX membership_organization ON membership USING btree (organization, person);
CREATE INDEX role_organization ON role USING btree (organization);
CREATE INDEX session_person ON session USING btree (person);
CREATE INDEX session_seen ON session USING btree (seen_at);
CREATE INDEX session_subject ON session USING btree (issuer, subject) WHERE (issuer <> ''::text);
CREATE INDEX spent_ends ON spent USING btree (ends_at);
CREATE UNIQUE INDEX subject_person ON subject USING btree (person, issuer);
