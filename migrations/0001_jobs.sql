-- Leasehold, migration 0001: the tables.
--
-- For MariaDB 10.6 and later, and MySQL 8.0.13 and later. Apply it with the stock client to the database that shall hold the tables:
--
--	mariadb leasehold < 0001_jobs.sql
--
-- It may be applied again at any time, also while daemons run, and after it was interrupted. README.md says what to know beforehand.

-- What the server or the account brings along (latin1, an empty sql_mode, a time zone) must not shape the tables.
SET @leasehold_sql_mode = @@SESSION.sql_mode, @leasehold_time_zone = @@SESSION.time_zone,
	@leasehold_client = @@SESSION.character_set_client, @leasehold_results = @@SESSION.character_set_results,
	@leasehold_collation = @@SESSION.collation_connection;
SET NAMES utf8mb4 COLLATE utf8mb4_bin;
SET SESSION sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', SESSION time_zone = '+00:00';

-- Refusals come before anything is created. Plain SQL outside a routine has no way to raise an error, so the text is put where the
-- server will quote it: in the name of a column that does not exist.
SET @leasehold_number = SUBSTRING_INDEX(VERSION(), '-', 1);
SET @leasehold_version = SUBSTRING_INDEX(@leasehold_number, '.', 1) * 10000
	+ SUBSTRING_INDEX(SUBSTRING_INDEX(@leasehold_number, '.', 2), '.', -1) * 100
	+ SUBSTRING_INDEX(SUBSTRING_INDEX(@leasehold_number, '.', 3), '.', -1);
SET @leasehold_refusal = IF(@leasehold_version >= IF(VERSION() LIKE '%MariaDB%', 100600, 80013), 'DO 0',
	CONCAT('SELECT `', LEFT(CONCAT('Leasehold needs MariaDB 10.6 or MySQL 8.0.13, this is ', @leasehold_number), 64), '`'));
PREPARE leasehold_check FROM @leasehold_refusal;
EXECUTE leasehold_check;

-- leasehold_schema is created first: where one of the other names exists without it, the table is somebody else's.
SET @leasehold_refusal = IF((SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'leasehold_schema') > 0
	OR (SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()
		AND table_name IN ('jobs', 'job_attempts', 'job_queues', 'job_slots', 'job_workers')) = 0, 'DO 0',
	'SELECT `Another application has a table of this name: use an own database`');
PREPARE leasehold_check FROM @leasehold_refusal;
EXECUTE leasehold_check;
DEALLOCATE PREPARE leasehold_check;

-- Which migrations were applied. A daemon works on any schema from the version it needs up to one whose compatible_from it reaches.
CREATE TABLE IF NOT EXISTS leasehold_schema (
	version INT UNSIGNED NOT NULL,
	compatible_from INT UNSIGNED NOT NULL COMMENT 'the oldest schema version a daemon may have been built for',
	applied_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
	PRIMARY KEY (version)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The jobs. Every time is UTC and comes from the server. run_at stands before state, whose default looks at it.
CREATE TABLE IF NOT EXISTS jobs (
	id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
	queue VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'default',
	kind VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'which handler runs it',
	priority SMALLINT NOT NULL DEFAULT 0 COMMENT 'like nice: lower runs first',
	run_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)) COMMENT 'not before; UTC',
	state ENUM('ready', 'scheduled', 'running', 'succeeded', 'dead', 'cancelled') CHARACTER SET ascii COLLATE ascii_bin
		NOT NULL DEFAULT (IF(run_at > UTC_TIMESTAMP(6), 'scheduled', 'ready')),
	payload MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('{}') COMMENT 'opaque; JSON by convention',
	attempt SMALLINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'attempts started',
	max_attempts SMALLINT UNSIGNED NULL COMMENT 'NULL: what the handler is set to, else 10',
	claim_no INT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'with id the fencing token: grows with every claim',
	timeout_ms INT UNSIGNED NULL COMMENT 'NULL: what the handler is set to',
	unique_key VARBINARY(128) NULL COMMENT 'no two unfinished jobs of one kind share it',
	unique_hold_until DATETIME(6) NULL COMMENT 'while set, the key is held by the finished job too',
	concurrency_key VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NULL,
	slot_wait VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NULL COMMENT 'set only while parked for a slot',
	lease_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL COMMENT 'who holds it: a fresh UUID with every claim',
	locked_by VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL COMMENT 'host:pid:random, for people',
	locked_at DATETIME(6) NULL COMMENT 'last heartbeat',
	lease_ms INT UNSIGNED NULL COMMENT 'the length that the holder promised',
	reclaims SMALLINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'leases that lapsed, in the whole life',
	orphan_streak SMALLINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'leases that lapsed since an attempt last ended by itself',
	cancel_requested_at DATETIME(6) NULL,
	progress DECIMAL(5,2) NULL COMMENT 'percent',
	progress_note VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
	result MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
	last_error TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
	traceparent VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL COMMENT 'W3C trace context of who enqueued it',
	enqueued_by VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
	created_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
	claimed_at DATETIME(6) NULL,
	requeued_at DATETIME(6) NULL,
	finished_at DATETIME(6) NULL,
	promote_at DATETIME(6) GENERATED ALWAYS AS (IF(state = 'scheduled', run_at, NULL)) STORED,
	active_key VARBINARY(128) GENERATED ALWAYS AS
		(IF(state IN ('ready', 'scheduled', 'running') OR unique_hold_until IS NOT NULL, unique_key, NULL)) STORED,
	PRIMARY KEY (id),
	KEY claim (state, queue, priority, run_at, id),
	KEY promote (promote_at),
	KEY slot_wait (slot_wait),
	UNIQUE KEY active_key (kind, active_key)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The ledger: how attempts ended, written together with the change of state.
CREATE TABLE IF NOT EXISTS job_attempts (
	job_id BIGINT UNSIGNED NOT NULL,
	claim_no INT UNSIGNED NOT NULL,
	outcome VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	attempt SMALLINT UNSIGNED NOT NULL DEFAULT 0,
	lease_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
	worker VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
	started_at DATETIME(6) NULL,
	finished_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
	exit_code SMALLINT NULL,
	`signal` SMALLINT UNSIGNED NULL,
	cause VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
	max_rss_kb BIGINT UNSIGNED NULL,
	cpu_ms BIGINT UNSIGNED NULL,
	PRIMARY KEY (job_id, claim_no, outcome)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Queues need no row to exist. A row says that one is, or was, paused.
CREATE TABLE IF NOT EXISTS job_queues (
	queue VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	paused_at DATETIME(6) NULL COMMENT 'while set, nothing of the queue is claimed',
	paused_by VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
	created_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
	PRIMARY KEY (queue)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Fleet-wide slots of kinds with a concurrency limit: a slot is held under the lease of its job and lapses with it.
CREATE TABLE IF NOT EXISTS job_slots (
	concurrency_key VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	slot SMALLINT UNSIGNED NOT NULL,
	job_id BIGINT UNSIGNED NULL,
	lease_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
	locked_by VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
	locked_at DATETIME(6) NULL,
	lease_ms INT UNSIGNED NULL,
	PRIMARY KEY (concurrency_key, slot)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One row for each live instance.
CREATE TABLE IF NOT EXISTS job_workers (
	worker VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'host:pid:random, as in jobs.locked_by',
	name VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
	host VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
	pid BIGINT UNSIGNED NOT NULL,
	version VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	lease_ms INT UNSIGNED NOT NULL,
	threads INT UNSIGNED NOT NULL,
	running INT UNSIGNED NOT NULL,
	queues VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
	status VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	started_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
	seen_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
	PRIMARY KEY (worker)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Last, so that a version is on record only once all of it is there.
INSERT INTO leasehold_schema (version, compatible_from) VALUES (1, 1) ON DUPLICATE KEY UPDATE version = leasehold_schema.version;

SET SESSION sql_mode = @leasehold_sql_mode, SESSION time_zone = @leasehold_time_zone, SESSION character_set_client = @leasehold_client,
	SESSION character_set_results = @leasehold_results, SESSION collation_connection = @leasehold_collation;
