-- Leasehold, migration 0003: the steps that handlers save.
--
-- For MariaDB 10.6 and later, and MySQL 8.0.13 and later. Apply it with the stock client, after 0001_jobs.sql, to the same database:
--
--	mariadb leasehold < 0003_steps.sql
--
-- It may be applied again at any time, also while daemons run, and after it was interrupted. README.md says what to know beforehand.

-- What the server or the account brings along (latin1, an empty sql_mode, a time zone) must not shape the table.
SET @leasehold_sql_mode = @@SESSION.sql_mode, @leasehold_time_zone = @@SESSION.time_zone,
	@leasehold_client = @@SESSION.character_set_client, @leasehold_results = @@SESSION.character_set_results,
	@leasehold_collation = @@SESSION.collation_connection, @leasehold_foreign_keys = @@SESSION.foreign_key_checks,
	@leasehold_patience = @@SESSION.lock_wait_timeout;
SET NAMES utf8mb4 COLLATE utf8mb4_bin;
SET SESSION sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', SESSION time_zone = '+00:00',
	SESSION foreign_key_checks = 1;
-- MySQL makes the table only when no transaction uses jobs, and lets no new one begin meanwhile: it may not take long.
SET SESSION lock_wait_timeout = 5;

-- Refusals come before anything is created. Plain SQL outside a routine has no way to raise an error, so the text is put where the
-- server will quote it: in the name of a column that does not exist.
SET @leasehold_refusal = IF((SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()
		AND table_name IN ('jobs', 'leasehold_schema')) = 2, 'DO 0', 'SELECT `Apply 0001_jobs.sql to this database first`');
PREPARE leasehold_check FROM @leasehold_refusal;
EXECUTE leasehold_check;

-- A table of this name that is not ours has none of its columns, whatever else it has.
SET @leasehold_refusal = IF((SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'job_steps') = 0
	OR (SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'job_steps'
		AND column_name IN ('job_id', 'name', 'save_no')) = 3, 'DO 0', 'SELECT `Another application has a table named job_steps`');
PREPARE leasehold_check FROM @leasehold_refusal;
EXECUTE leasehold_check;
DEALLOCATE PREPARE leasehold_check;

-- What handlers saved, for the next attempt of the same job. The foreign key makes steps go with their job, whoever deletes it: steps
-- that outlived it would be taken for those of another job if numbers were ever given out again.
CREATE TABLE IF NOT EXISTS job_steps (
	job_id BIGINT UNSIGNED NOT NULL,
	name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	seq INT UNSIGNED NOT NULL COMMENT 'save_no of the first saving: the order in which handlers get their steps back',
	save_no INT UNSIGNED NOT NULL COMMENT 'counts the savings of a job: an earlier one that lands late changes nothing',
	claim_no INT UNSIGNED NOT NULL COMMENT 'which claim saved it last',
	saved_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
	data MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'JSON',
	PRIMARY KEY (job_id, name),
	CONSTRAINT job_steps_job FOREIGN KEY (job_id) REFERENCES jobs (id) ON DELETE CASCADE
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Last, so that a version is on record only once all of it is there.
INSERT INTO leasehold_schema (version, compatible_from) VALUES (3, 1) ON DUPLICATE KEY UPDATE version = leasehold_schema.version;

SET SESSION sql_mode = @leasehold_sql_mode, SESSION time_zone = @leasehold_time_zone, SESSION foreign_key_checks = @leasehold_foreign_keys,
	SESSION lock_wait_timeout = @leasehold_patience, SESSION character_set_client = @leasehold_client, SESSION character_set_results = @leasehold_results,
	SESSION collation_connection = @leasehold_collation;
