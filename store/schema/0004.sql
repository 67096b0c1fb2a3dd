-- Releases of schema 1 and newer work beside it.
-- How many second factors in a row were wrong behind a person's right password
-- (decision S5). No row is none; the previous release leaves the table alone.
CREATE TABLE wrong_factor (
	person TEXT PRIMARY KEY,
	number BIGINT NOT NULL
);
