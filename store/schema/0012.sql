-- Releases of schema 12 and newer work beside it.
-- The client's key without which no refresh token of the approval works (SHA-256, RFC
-- 7638); empty is none. A release before would refresh without it, and so give whoever
-- has stolen such a token what the key is there to keep from them.
ALTER TABLE approval ADD COLUMN bound BYTEA NOT NULL DEFAULT '';

-- Clients that name a metadata document as their ID: until when what it said is good, in
-- Unix seconds; 0 where there is none.
ALTER TABLE client ADD COLUMN good_until BIGINT NOT NULL DEFAULT 0;
-- Redirect URIs that the document does not name any more and that something is still
-- approved for: each since when, in Unix seconds, a space, and the URI, a line.
ALTER TABLE client ADD COLUMN leaving TEXT NOT NULL DEFAULT '';
CREATE INDEX client_leaving ON client (id) WHERE leaving <> '';
