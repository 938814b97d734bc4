-- Leasehold, migration 0004: the key by which ended holds on unique keys are found.
--
-- For MariaDB 10.6 and later, and MySQL 8.0.13 and later, after 0001_jobs.sql. Apply it with the stock client to the database of the tables:
--
--	mariadb leasehold < 0004_unique_hold.sql
--
-- It may be applied again at any time, also while daemons run, and after it was interrupted. README.md says what to know beforehand.

SET @leasehold_sql_mode = @@SESSION.sql_mode, @leasehold_time_zone = @@SESSION.time_zone,
	@leasehold_client = @@SESSION.character_set_client, @leasehold_results = @@SESSION.character_set_results,
	@leasehold_collation = @@SESSION.collation_connection, @leasehold_lock_wait = @@SESSION.lock_wait_timeout;
SET NAMES utf8mb4 COLLATE utf8mb4_bin;
SET SESSION sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', SESSION time_zone = '+00:00';
-- While an ALTER TABLE waits for its turn, all that comes after it waits too: better it gives up, and is applied again later.
SET SESSION lock_wait_timeout = 10;

-- The text of a refusal is put where the server will quote it: in the name of a column that does not exist.
SET @leasehold_refusal = IF((SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'leasehold_schema') > 0,
	'DO 0', 'SELECT `The tables of Leasehold are not here: apply 0001_jobs.sql first`');
PREPARE leasehold_check FROM @leasehold_refusal;
EXECUTE leasehold_check;
DEALLOCATE PREPARE leasehold_check;

-- Nearly every row has NULL here, which costs next to nothing. MySQL has no IF NOT EXISTS for a key.
SET @leasehold_change = IF((SELECT COUNT(*) FROM information_schema.statistics
	WHERE table_schema = DATABASE() AND table_name = 'jobs' AND index_name = 'unique_hold') > 0, 'DO 0',
	'ALTER TABLE jobs ADD KEY unique_hold (unique_hold_until), ALGORITHM=INPLACE, LOCK=NONE');
PREPARE leasehold_apply FROM @leasehold_change;
EXECUTE leasehold_apply;
DEALLOCATE PREPARE leasehold_apply;

-- Last, so that a version is on record only once all of it is there.
INSERT INTO leasehold_schema (version, compatible_from) VALUES (4, 1) ON DUPLICATE KEY UPDATE version = leasehold_schema.version;

SET SESSION sql_mode = @leasehold_sql_mode, SESSION time_zone = @leasehold_time_zone, SESSION character_set_client = @leasehold_client,
	SESSION character_set_results = @leasehold_results, SESSION collation_connection = @leasehold_collation,
	SESSION lock_wait_timeout = @leasehold_lock_wait;
