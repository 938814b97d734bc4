/* ledger_store.h - rows of job_attempts (layer: store; the completer and the recovery thread). Written once, never changed. */
#ifndef LEASEHOLD_STORE_LEDGER_STORE_H
#define LEASEHOLD_STORE_LEDGER_STORE_H

#include "store/store.h"

#define LEDGER_LEASE_LAPSED "lease_lapsed"
#define LEDGER_STALE_RESULT "stale_result"

struct ledger_row { /* all borrowed; NULL and -1 become NULL */
	uint64_t job_id;
	uint32_t claim_no;
	const char *outcome;
	unsigned int attempt;
	const char *lease;
	const char *worker;
	const char *started_at; /* as the server printed it; NULL: ran_ms before now */
	int64_t ran_ms;
	int64_t exit_code;
	int64_t signal;
	const char *cause; /* cut after 512 bytes */
	int64_t max_rss_kb;
	int64_t cpu_ms;
};

/* Adds n rows within the caller's transaction. A row that is there already (the same job, claim and outcome) is left as it is:
 * so a unit of work may be run again. */
enum db_class ledger_store_add(struct db *db, const struct ledger_row *rows, size_t n, struct fault *f) LH_MUST_CHECK;

/* Whether that attempt has a row under that lease. */
enum db_class ledger_store_has(struct db *db, uint64_t job_id, uint32_t claim_no, const char *outcome, const char *lease, bool *has,
			       struct fault *f) LH_MUST_CHECK;

#endif
