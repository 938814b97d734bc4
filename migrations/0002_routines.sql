-- Leasehold, migration 0002: stored routines. Optional: everything works without them.
--
-- For MariaDB 10.6 and later, and MySQL 8.0.13 and later, after 0001_jobs.sql. Apply it with the stock client (it uses DELIMITER) to the
-- database that holds the tables:
--
--	mariadb leasehold < 0002_routines.sql
--
-- It may be applied again at any time, also while daemons and handlers run: README.md says what a call meets meanwhile.
--
-- Who may call them needs EXECUTE and nothing else: they run with the rights of the account that applies this file (SQL SECURITY DEFINER),
-- and no text of the caller's ever becomes SQL. README.md says what follows from that, and what to do where definers are not wanted.
--
-- Common to all: no routine commits or rolls back. An error leaves the caller's transaction open, for the caller to roll back; 1213 (deadlock)
-- and, on MariaDB, 1020 have rolled it back already. 31001 is the errno of a lease that is not held (any more); its SQLSTATE is 45000.

-- A routine remembers sql_mode, character set and collation of the session that creates it: these must not be the server's accidents.
SET @leasehold_sql_mode = @@SESSION.sql_mode, @leasehold_client = @@SESSION.character_set_client,
	@leasehold_results = @@SESSION.character_set_results, @leasehold_collation = @@SESSION.collation_connection;
SET NAMES utf8mb4 COLLATE utf8mb4_bin;
SET SESSION sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION';

-- The refusal comes before anything is created, and its text where the server will quote it.
SET @leasehold_refusal = IF((SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'leasehold_schema') > 0,
	'DO 0', 'SELECT `Apply 0001_jobs.sql to this database before 0002_routines.sql`');
PREPARE leasehold_check FROM @leasehold_refusal;
EXECUTE leasehold_check;
DEALLOCATE PREPARE leasehold_check;

-- MariaDB replaces a routine in one step and keeps the grants on it. MySQL has to drop it first, which takes the grants on that routine
-- (those on the whole database stay) and leaves a moment without it. Each server reads the comments that are meant for it.

DELIMITER //

-- job_complete(id, lease, result): the job has succeeded. The last statement before COMMIT of the transaction that holds its effects.
--
-- result: what is kept in the column of this name; NULL for none.
-- Errors: 31001 when the job is not running under this lease (it lapsed, was taken back, or was settled before): roll back.
-- Locks: the job's row, exclusively, until the transaction ends. Its lease cannot be renewed meanwhile: do nothing slow after it.
/*!80013 DROP PROCEDURE IF EXISTS job_complete */ //
CREATE /*M! OR REPLACE */ PROCEDURE job_complete(
	IN p_id BIGINT UNSIGNED,
	IN p_lease CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
	IN p_result MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
	MODIFIES SQL DATA SQL SECURITY DEFINER
	COMMENT 'Leasehold: settles a job as succeeded, if the lease is held'
BEGIN
	DECLARE v_message VARCHAR(128) CHARACTER SET utf8mb4;
	UPDATE jobs FORCE INDEX (PRIMARY) SET state = 'succeeded', finished_at = UTC_TIMESTAMP(6), result = p_result
		WHERE id = p_id AND lease_id = p_lease AND state = 'running';
	IF ROW_COUNT() <> 1 THEN
		SET v_message = CONCAT('Leasehold: job ', COALESCE(p_id, 'NULL'), ' is not running under this lease: roll back');
		SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 31001, MESSAGE_TEXT = v_message;
	END IF;
END //

-- job_assert_lease(id, lease): raises unless the job is running under this lease.
--
-- As the last statement before COMMIT, for a handler that leaves settling to the daemon: effects of an attempt that lost its lease are not
-- committed. (They can still be repeated: when the daemon dies before it has settled the job, another attempt makes them again.)
-- As an early check, to save work: outside of a transaction (autocommit), so that the lock is gone with the statement.
-- Errors: 31001 as above.
-- Locks: the job's row, exclusively, until the transaction ends: as above.
/*!80013 DROP PROCEDURE IF EXISTS job_assert_lease */ //
CREATE /*M! OR REPLACE */ PROCEDURE job_assert_lease(
	IN p_id BIGINT UNSIGNED,
	IN p_lease CHAR(36) CHARACTER SET ascii COLLATE ascii_bin)
	READS SQL DATA SQL SECURITY DEFINER
	COMMENT 'Leasehold: locks the job, and raises unless the lease is held'
BEGIN
	DECLARE v_message VARCHAR(128) CHARACTER SET utf8mb4;
	DECLARE v_held INT DEFAULT 0;
	SELECT COUNT(*) INTO v_held FROM jobs FORCE INDEX (PRIMARY) WHERE id = p_id AND lease_id = p_lease AND state = 'running' FOR UPDATE;
	IF v_held <> 1 THEN
		SET v_message = CONCAT('Leasehold: job ', COALESCE(p_id, 'NULL'), ' is not running under this lease: roll back');
		SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 31001, MESSAGE_TEXT = v_message;
	END IF;
END //

-- job_fail(id, lease, error): the job is dead, for good, together with whatever else the transaction holds (a refund, a note on the order).
-- Writes the attempt's row of the ledger too, as the daemon does for a dead job.
--
-- error: why, for last_error; its first 512 characters for the ledger.
-- Errors and locks: as job_complete.
--
-- There is no routine to try again later: what gives a job back must not be done before its handler has ended. Exit with 75.
/*!80013 DROP PROCEDURE IF EXISTS job_fail */ //
CREATE /*M! OR REPLACE */ PROCEDURE job_fail(
	IN p_id BIGINT UNSIGNED,
	IN p_lease CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
	IN p_error TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
	MODIFIES SQL DATA SQL SECURITY DEFINER
	COMMENT 'Leasehold: settles a job as dead, if the lease is held'
BEGIN
	DECLARE v_message VARCHAR(128) CHARACTER SET utf8mb4;
	UPDATE jobs FORCE INDEX (PRIMARY)
		SET state = 'dead', finished_at = UTC_TIMESTAMP(6), last_error = COALESCE(p_error, 'its handler said so'), orphan_streak = 0
		WHERE id = p_id AND lease_id = p_lease AND state = 'running';
	IF ROW_COUNT() <> 1 THEN
		SET v_message = CONCAT('Leasehold: job ', COALESCE(p_id, 'NULL'), ' is not running under this lease: roll back');
		SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 31001, MESSAGE_TEXT = v_message;
	END IF;
	INSERT INTO job_attempts (job_id, claim_no, outcome, attempt, lease_id, worker, started_at, finished_at, cause)
		SELECT id, claim_no, 'dead', attempt, lease_id, locked_by, claimed_at, finished_at, LEFT(last_error, 512)
		FROM jobs FORCE INDEX (PRIMARY) WHERE id = p_id;
END //

-- job_enqueue(queue, kind, payload, run_at, priority, unique_key, id, created): adds a job, in the caller's transaction, and says which.
--
-- NULL stands for the column's default, except for kind. run_at is UTC. Other columns: use INSERT.
-- id: the new job, created = 1. Where unique_key is taken, nothing is added: id is the job that has it, created = 0.
-- Errors: those of INSERT (1048 without a kind, 1406 for what is too long), but not 1062. 1213 and 1205 as any transaction that inserts a
-- unique key which others insert too: roll back, run it again.
-- Locks: with a unique_key that is taken, its entry in the index is shared until the transaction ends: the job that has it can run and
-- keeps its lease, but its end waits for yours.
/*!80013 DROP PROCEDURE IF EXISTS job_enqueue */ //
CREATE /*M! OR REPLACE */ PROCEDURE job_enqueue(
	IN p_queue VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
	IN p_kind VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin,
	IN p_payload MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
	IN p_run_at DATETIME(6),
	IN p_priority SMALLINT,
	IN p_unique_key VARBINARY(128),
	OUT p_id BIGINT UNSIGNED,
	OUT p_created TINYINT)
	MODIFIES SQL DATA SQL SECURITY DEFINER
	COMMENT 'Leasehold: adds a job, or finds the one that has its unique key'
BEGIN
	-- Outside of a transaction the job that has the key may end between the INSERT and the look at it. Then the key is free: again.
	DECLARE v_tries INT DEFAULT 0;
	DECLARE CONTINUE HANDLER FOR 1062 SET p_created = 0;
	SET p_id = NULL;
	WHILE p_id IS NULL AND v_tries < 100 DO
		SET p_created = 1, v_tries = v_tries + 1;
		INSERT INTO jobs (queue, kind, payload, run_at, priority, unique_key)
			VALUES (COALESCE(p_queue, 'default'), p_kind, COALESCE(p_payload, '{}'), COALESCE(p_run_at, UTC_TIMESTAMP(6)),
				COALESCE(p_priority, 0), p_unique_key);
		IF p_created = 1 THEN
			SET p_id = LAST_INSERT_ID();
		ELSE
			-- A locking read sees what is there now, whatever the transaction's snapshot is. The index holds the id, so that only its entry
			-- is locked, and the lease can be renewed. Prepared each time: from its second run in a session on, MariaDB would read (and
			-- lock) the row too if this were a statement of the routine.
			SET @leasehold_kind = p_kind, @leasehold_key = p_unique_key, @leasehold_id = NULL;
			PREPARE leasehold_find FROM 'SELECT id INTO @leasehold_id FROM jobs FORCE INDEX (active_key) WHERE kind = ? AND active_key = ? LOCK IN SHARE MODE';
			EXECUTE leasehold_find USING @leasehold_kind, @leasehold_key;
			DEALLOCATE PREPARE leasehold_find;
			SET p_id = @leasehold_id;
		END IF;
	END WHILE;
	IF p_id IS NULL THEN
		SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 31002, MESSAGE_TEXT = 'Leasehold: the unique key came and went a hundred times: try again';
	END IF;
END //

DELIMITER ;

-- Last, so that a version is on record only once all of it is there.
INSERT INTO leasehold_schema (version, compatible_from) VALUES (2, 1) ON DUPLICATE KEY UPDATE version = leasehold_schema.version;

SET SESSION sql_mode = @leasehold_sql_mode, SESSION character_set_client = @leasehold_client,
	SESSION character_set_results = @leasehold_results, SESSION collation_connection = @leasehold_collation;
