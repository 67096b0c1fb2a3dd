-- Releases of schema 1 and newer work beside it.
-- Where a client registered from, a /24 or /48: strangers of one network must not
-- take the room of all (decision L1). Empty where the previous release wrote it.
ALTER TABLE client ADD COLUMN network TEXT NOT NULL DEFAULT '';
