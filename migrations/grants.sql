-- Leasehold: the four roles, for MariaDB 10.6 and later, and MySQL 8.0.13 and later.
--
-- Apply it after the numbered files as an account that may create roles; it names the database `leasehold` throughout (change it here if yours has another name).
-- It may be applied again at any time. Nobody has a role yet afterwards: README.md shows how to make an account and give it one.

CREATE ROLE IF NOT EXISTS leasehold_worker, leasehold_producer, leasehold_handler, leasehold_reader;

-- leasehold_worker: the account in the daemon's configuration file. It can neither delete a job nor change its kind, queue, payload or unique key.
GRANT SELECT ON leasehold.jobs TO leasehold_worker;
GRANT UPDATE (state, run_at, attempt, max_attempts, claim_no, slot_wait, lease_id, locked_by, locked_at, lease_ms, reclaims, orphan_streak,
	cancel_requested_at, progress, progress_note, result, last_error, claimed_at, requeued_at, finished_at, unique_hold_until)
	ON leasehold.jobs TO leasehold_worker;
-- Rows of the ledger are written once: neither changed nor deleted.
GRANT SELECT, INSERT ON leasehold.job_attempts TO leasehold_worker;
GRANT SELECT, INSERT, UPDATE ON leasehold.job_steps TO leasehold_worker;
GRANT SELECT ON leasehold.job_queues TO leasehold_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON leasehold.job_workers TO leasehold_worker;
-- For handlers with a limit over the whole fleet (handlers.concurrency).
GRANT SELECT, INSERT, UPDATE ON leasehold.job_slots TO leasehold_worker;
GRANT SELECT ON leasehold.leasehold_schema TO leasehold_worker;
-- Only for commands that use the same configuration file: `leasehold enqueue` (first line), `pause` and `resume` (second line).
GRANT INSERT (queue, kind, priority, run_at, payload, max_attempts, timeout_ms, unique_key, unique_hold_until, concurrency_key, traceparent, enqueued_by)
	ON leasehold.jobs TO leasehold_worker;
GRANT INSERT, UPDATE ON leasehold.job_queues TO leasehold_worker;

-- leasehold_producer: applications that enqueue. It can name no state, attempt, lease or lock column, and read nothing.
GRANT INSERT (queue, kind, priority, run_at, payload, max_attempts, timeout_ms, unique_key, unique_hold_until, concurrency_key, traceparent, enqueued_by)
	ON leasehold.jobs TO leasehold_producer;
-- For job_enqueue, where 0002_routines.sql was applied. On the database, because a grant on a routine is lost when MySQL makes it anew.
GRANT EXECUTE ON leasehold.* TO leasehold_producer;

-- leasehold_handler: handlers that settle their job inside their own transaction.
GRANT SELECT (id, lease_id, state), UPDATE (state, finished_at, result) ON leasehold.jobs TO leasehold_handler;
GRANT EXECUTE ON leasehold.* TO leasehold_handler;

-- leasehold_reader: people and monitoring that only look. Payloads and results can be read too.
GRANT SELECT ON leasehold.* TO leasehold_reader;
