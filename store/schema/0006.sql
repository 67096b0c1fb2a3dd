-- Releases of schema 1 and newer work beside it.
-- The costs of the passwords that are stored, as PHC strings begin: each sign-in
-- costs all of them, so that none tells whose it was (decision L4). Costs that
-- the previous release writes are added when such a password is met.
CREATE TABLE password_costs (
	costs TEXT PRIMARY KEY
);
INSERT INTO password_costs (costs)
SELECT DISTINCT RTRIM(RTRIM(RTRIM(password, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'), '$'), 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/') FROM person WHERE password LIKE '$argon2id$v=19$m=%$%$%';
