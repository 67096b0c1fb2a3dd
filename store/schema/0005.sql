-- Releases of schema 1 and newer work beside it.
-- What a browser and its system are called, by fixed lists, so that people know
-- their sessions apart. Empty where it is not known, or the previous release wrote it.
ALTER TABLE session ADD COLUMN browser TEXT NOT NULL DEFAULT '';
ALTER TABLE session ADD COLUMN system TEXT NOT NULL DEFAULT '';
