/* settle_store.c - see settle_store.h.
 *
 * Two ways. The quick one sends the UPDATEs and believes them when every one matches, which is nearly always. When one does not,
 * or the batch was sent before, it is undone, and the careful way reads all rows with a lock, judges each that is not running
 * under our lease, and writes the others. */
#include "store/settle_store.h"

#include "store/ledger_store.h"
#include "store/settle_shape.h"
#include "store/slot_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* VARCHAR(255). */
#define SETTLE_STORE_NOTE_MAX 255

/* What a statement holds around the values of one settlement, its ledger row included. */
#define SETTLE_STORE_OVERHEAD 2048

struct settle_store_batch {
	struct settlement **items;
	enum settle_result *results;
	size_t n;
	const char *worker;
	bool again;
	uint64_t written; /* rows that the quick way settled in an autocommit statement before it met a stranger */
};

/* A row as the locking read found it. */
struct settle_store_seen {
	bool found;
	bool ours; /* it carries our lease */
	enum job_state state;
	char finished_at[32];
};

static int settle_store_compare(const void *a, const void *b)
{
	const struct settlement *const *x = a, *const *y = b;

	return ((*x)->id > (*y)->id) - ((*x)->id < (*y)->id);
}

static enum db_class settle_store_no_memory(struct fault *f)
{
	(void)fault_set(f, LH_ERR_MEMORY, "no memory to settle a batch");
	return DB_OTHER;
}

/* The pending bare successes in one statement. *matched = *wanted when all were still ours. */
static enum db_class settle_store_send_bare(struct db *db, const struct settle_store_batch *b, uint64_t *matched, uint64_t *wanted,
					    struct fault *f)
{
	struct store_held *held = calloc(b->n, sizeof(*held));
	enum db_class c = DB_OK;
	struct buf sql;
	size_t i, count = 0;

	*matched = 0;
	*wanted = 0;
	if (held == NULL)
		return settle_store_no_memory(f);
	for (i = 0; i < b->n; i++) {
		if (b->results[i] != SETTLE_PENDING || !settlement_is_bare(b->items[i]))
			continue;
		held[count].id = b->items[i]->id;
		memcpy(held[count].lease, b->items[i]->lease, sizeof(held[count].lease));
		count++;
	}
	*wanted = count;
	if (count > 0) {
		buf_init(&sql, STORE_SQL_MAX);
		settle_shape_add_bare(db, &sql, held, count);
		c = store_exec(db, &sql, matched, f);
	}
	free(held);
	return c;
}

/* Every other pending one by itself. *complete is false as soon as one does not match. */
static enum db_class settle_store_send_others(struct db *db, const struct settle_store_batch *b, bool *complete, struct fault *f)
{
	uint64_t matched = 0;
	enum db_class c;
	struct buf sql;
	size_t i;

	*complete = true;
	for (i = 0; i < b->n; i++) {
		if (b->results[i] != SETTLE_PENDING || settlement_is_bare(b->items[i]))
			continue;
		buf_init(&sql, STORE_SQL_MAX);
		settle_shape_add(db, &sql, b->items[i]);
		c = store_exec(db, &sql, &matched, f);
		if (c != DB_OK)
			return c;
		if (matched != 1) {
			*complete = false;
			return DB_OK;
		}
	}
	return DB_OK;
}

/* Whether a result row that begins with id and lease_id is the item's, and under the item's lease. */
static bool settle_store_is_of(const struct settlement *item, const struct db_rows *rows)
{
	return db_u64(rows, 0) == item->id;
}

static bool settle_store_is_ours(const struct settlement *item, const struct db_rows *rows)
{
	const char *lease = db_text(rows, 1, NULL);

	return lease != NULL && strcmp(lease, item->lease) == 0;
}

/* Rows that should have gone back, and were cancelled by the same UPDATE: one read for the whole batch tells which, and only
 * where any could be. */
static enum db_class settle_store_find_cancelled(struct db *db, const struct settle_store_batch *b, struct fault *f)
{
	struct db_rows *rows = NULL;
	enum db_class c = DB_OK;
	struct buf sql;
	size_t i, count = 0;

	buf_init(&sql, STORE_SQL_MAX);
	buf_adds(&sql, "SELECT id, lease_id FROM jobs FORCE INDEX (PRIMARY) WHERE state='cancelled' AND id IN ");
	for (i = 0; i < b->n; i++)
		if (b->results[i] == SETTLE_PENDING && settle_shape_returns(b->items[i]->action))
			db_sqlf(db, &sql, count++ == 0 ? "(%u" : ",%u", b->items[i]->id);
	buf_addc(&sql, ')');
	if (count > 0)
		c = db_query(db, &sql, &rows, f);
	buf_free(&sql);
	while (c == DB_OK && count > 0 && db_rows_next(rows))
		for (i = 0; i < b->n; i++)
			if (settle_store_is_of(b->items[i], rows) && settle_store_is_ours(b->items[i], rows))
				b->results[i] = SETTLE_CANCELLED;
	db_rows_free(rows);
	return c;
}

static void settle_store_fill_ledger(const struct settle_store_batch *b, const struct settlement *s, struct ledger_row *row)
{
	row->job_id = s->id;
	row->claim_no = s->claim_no;
	row->outcome = outcome_name(s->outcome);
	row->attempt = s->attempt;
	row->lease = s->lease;
	row->worker = b->worker;
	row->started_at = NULL;
	row->ran_ms = s->ran ? s->ran_ms : -1;
	row->exit_code = s->ran ? s->exit_code : -1;
	row->signal = s->ran && s->signal > 0 ? s->signal : -1;
	row->cause = s->cause[0] != '\0' ? s->cause : NULL;
	row->max_rss_kb = s->ran ? s->max_rss_kb : -1;
	row->cpu_ms = s->ran ? s->cpu_ms : -1;
}

/* An attempt that was refused is in the ledger as such; one that was found written has its row already, unless its handler wrote
 * it: that is a success like any other, however the process ended afterwards. */
static bool settle_store_is_for_ledger(const struct settle_store_batch *b, size_t i, const bool *sent)
{
	switch (b->results[i]) {
	case SETTLE_LOST:
		return true;
	case SETTLE_BY_HANDLER:
		return b->items[i]->ledger_success;
	default:
		return b->items[i]->ledger && sent[i];
	}
}

/* sent: which items were written by an UPDATE of this transaction. */
static enum db_class settle_store_add_ledger(struct db *db, const struct settle_store_batch *b, const bool *sent, struct fault *f)
{
	struct ledger_row *rows = calloc(b->n, sizeof(*rows));
	char(*causes)[512] = calloc(b->n, sizeof(*causes));
	enum db_class c = DB_OK;
	size_t i, count = 0;

	if (rows == NULL || causes == NULL) {
		c = settle_store_no_memory(f);
		goto out;
	}
	for (i = 0; i < b->n; i++) {
		if (!settle_store_is_for_ledger(b, i, sent))
			continue;
		settle_store_fill_ledger(b, b->items[i], &rows[count]);
		if (b->results[i] == SETTLE_LOST) {
			snprintf(causes[i], sizeof(causes[i]), "refused: %s%s%s", outcome_name(b->items[i]->outcome),
				 b->items[i]->cause[0] != '\0' ? ", " : "", b->items[i]->cause);
			rows[count].outcome = LEDGER_STALE_RESULT;
			rows[count].cause = causes[i];
		} else if (b->results[i] == SETTLE_BY_HANDLER) {
			rows[count].outcome = outcome_name(OUTCOME_SUCCEEDED);
		}
		count++;
	}
	c = ledger_store_add(db, rows, count, f);
out:
	free(rows);
	free(causes);
	return c;
}

/* The slots of all items, whatever became of their rows: their handlers have ended. After the rows, as everywhere. An account that
 * lost its rights on the table must be able to settle all the same: the slots then lapse. */
static enum db_class settle_store_free_slots(struct db *db, const struct settle_store_batch *b, struct fault *f)
{
	struct slot_held *held = calloc(b->n, sizeof(*held));
	enum db_class c = DB_OK;
	size_t i, count = 0;

	if (held == NULL)
		return settle_store_no_memory(f);
	for (i = 0; i < b->n; i++) {
		if (b->items[i]->slot.key[0] == '\0')
			continue;
		held[count].id = b->items[i]->id;
		memcpy(held[count].lease, b->items[i]->lease, sizeof(held[count].lease));
		held[count++].slot = b->items[i]->slot;
	}
	if (count > 0)
		c = slot_store_free(db, held, count, NULL, f);
	free(held);
	return c == DB_DENIED || c == DB_SCHEMA ? DB_OK : c;
}

/* Within a transaction: writes what is pending, with its ledger rows, and fills the results. *complete is false when a row did
 * not match: then the transaction is good for nothing but to be rolled back. */
static enum db_class settle_store_send(struct db *db, const struct settle_store_batch *b, bool *complete, struct fault *f)
{
	bool *sent = calloc(b->n, sizeof(*sent));
	uint64_t matched, wanted;
	enum db_class c;
	size_t i;

	*complete = false;
	if (sent == NULL)
		return settle_store_no_memory(f);
	for (i = 0; i < b->n; i++)
		sent[i] = b->results[i] == SETTLE_PENDING;
	c = settle_store_send_bare(db, b, &matched, &wanted, f);
	if (c == DB_OK && matched == wanted)
		c = settle_store_send_others(db, b, complete, f);
	if (c != DB_OK || !*complete)
		goto out;
	c = settle_store_find_cancelled(db, b, f);
	if (c == DB_OK)
		c = settle_store_add_ledger(db, b, sent, f);
	if (c == DB_OK)
		c = settle_store_free_slots(db, b, f);
	for (i = 0; i < b->n; i++)
		if (b->results[i] == SETTLE_PENDING)
			b->results[i] = SETTLE_DONE;
out:
	free(sent);
	return c;
}

static bool settle_store_all_bare(const struct settle_store_batch *b)
{
	size_t i;

	for (i = 0; i < b->n; i++)
		if (!settlement_is_bare(b->items[i]) || b->items[i]->slot.key[0] != '\0')
			return false;
	return true;
}

/* Successes and nothing else need no transaction: one statement, one round trip. */
static enum db_class settle_store_quickly_bare(struct db *db, struct settle_store_batch *b, bool *settled, struct fault *f)
{
	uint64_t wanted;
	enum db_class c = settle_store_send_bare(db, b, &b->written, &wanted, f);
	size_t i;

	*settled = c == DB_OK && b->written == wanted;
	for (i = 0; *settled && i < b->n; i++)
		b->results[i] = SETTLE_DONE;
	return c;
}

static enum db_class settle_store_quickly(struct db *db, struct settle_store_batch *b, bool *settled, struct fault *f)
{
	enum db_class c;

	*settled = false;
	if (settle_store_all_bare(b))
		return settle_store_quickly_bare(db, b, settled, f);
	c = db_begin(db, f);
	if (c == DB_OK)
		c = settle_store_send(db, b, settled, f);
	if (c == DB_OK && *settled)
		c = db_commit(db, f);
	db_rollback(db);
	return c;
}

static void settle_store_see(const struct settlement *item, const struct db_rows *rows, struct settle_store_seen *seen)
{
	const char *state = db_text(rows, 2, NULL);

	seen->ours = settle_store_is_ours(item, rows);
	seen->found = state != NULL && job_state_parse(state, &seen->state);
	db_copy(rows, 3, seen->finished_at, sizeof(seen->finished_at));
}

/* Reads all rows with a lock, in the order of their ids. */
static enum db_class settle_store_look(struct db *db, const struct settle_store_batch *b, struct settle_store_seen *seen,
				       struct fault *f)
{
	struct db_rows *rows;
	enum db_class c;
	struct buf sql;
	size_t i;

	buf_init(&sql, STORE_SQL_MAX);
	buf_adds(&sql, "SELECT id, lease_id, state, finished_at FROM jobs FORCE INDEX (PRIMARY) WHERE id IN ");
	for (i = 0; i < b->n; i++)
		db_sqlf(db, &sql, i == 0 ? "(%u" : ",%u", b->items[i]->id);
	buf_adds(&sql, ") FOR UPDATE");
	c = store_query(db, &sql, &rows, f);
	while (c == DB_OK && db_rows_next(rows))
		for (i = 0; i < b->n; i++)
			if (settle_store_is_of(b->items[i], rows))
				settle_store_see(b->items[i], rows, &seen[i]);
	db_rows_free(rows);
	return c;
}

static bool settle_store_succeeded(const struct settle_store_seen *s)
{
	return s->found && s->ours && s->state == JOB_SUCCEEDED;
}

/* The rows that our autocommit statement settled have its time in common, and are as many as it matched. Others were settled by
 * their handlers. */
static bool settle_store_was_ours(const struct settle_store_batch *b, const struct settle_store_seen *seen, size_t i)
{
	uint64_t alike = 0;
	size_t j;

	for (j = 0; j < b->n; j++)
		if (settle_store_succeeded(&seen[j]) && strcmp(seen[j].finished_at, seen[i].finished_at) == 0)
			alike++;
	return alike == b->written;
}

/* What became of an item whose row is not running under our lease. */
static enum db_class settle_store_judge(struct db *db, const struct settle_store_batch *b, const struct settle_store_seen *seen,
					size_t i, struct fault *f)
{
	struct settlement *item = b->items[i];
	const struct settle_store_seen *s = &seen[i];
	enum db_class c = DB_OK;
	bool written = false;

	if (settle_store_succeeded(s)) {
		written = item->action == SETTLE_SUCCEED && (b->again || settle_store_was_ours(b, seen, i));
		if (written && item->ledger)
			c = ledger_store_has(db, item->id, item->claim_no, outcome_name(item->outcome), item->lease, &written, f);
		b->results[i] = written ? SETTLE_DONE : SETTLE_BY_HANDLER;
		return c;
	}
	if (s->found && s->ours && s->state == JOB_CANCELLED && settle_shape_returns(item->action)) {
		b->results[i] = SETTLE_CANCELLED;
		return DB_OK;
	}
	if (s->found && s->ours && job_state_finished(s->state) && s->state != settle_shape_state(item->action)) {
		/* An end that we would not have written: its handler gave the job up, and wrote the ledger's row if it could. */
		item->ledger_success = false;
		b->results[i] = SETTLE_BY_HANDLER;
		return DB_OK;
	}
	if (settle_shape_only_lets_go(item->action) || (s->found && s->ours && s->state == settle_shape_state(item->action)))
		written = true;
	else if (item->action != SETTLE_SUCCEED)
		c = ledger_store_has(db, item->id, item->claim_no, outcome_name(item->outcome), item->lease, &written, f);
	b->results[i] = written ? SETTLE_DONE : SETTLE_LOST;
	return c;
}

static enum db_class settle_store_judge_all(struct db *db, const struct settle_store_batch *b, const struct settle_store_seen *seen,
					    struct fault *f)
{
	enum db_class c = DB_OK;
	size_t i;

	for (i = 0; c == DB_OK && i < b->n; i++)
		if (b->results[i] == SETTLE_PENDING && (!seen[i].found || !seen[i].ours || seen[i].state != JOB_RUNNING))
			c = settle_store_judge(db, b, seen, i, f);
	return c;
}

static enum db_class settle_store_carefully(struct db *db, const struct settle_store_batch *b, struct fault *f)
{
	struct settle_store_seen *seen = calloc(b->n, sizeof(*seen));
	bool complete = false;
	enum db_class c;

	if (seen == NULL)
		return settle_store_no_memory(f);
	c = db_begin(db, f);
	if (c == DB_OK)
		c = settle_store_look(db, b, seen, f);
	if (c == DB_OK)
		c = settle_store_judge_all(db, b, seen, f);
	if (c == DB_OK)
		c = settle_store_send(db, b, &complete, f);
	if (c == DB_OK && !complete) {
		(void)fault_set(f, LH_ERR_SYSTEM,
				"a job that we had locked did not match its own row: reads and writes go to different servers");
		c = DB_OTHER;
	}
	if (c == DB_OK)
		c = db_commit(db, f);
	db_rollback(db);
	free(seen);
	return c;
}

/* Where only a slot is to be freed, nothing is pending. */
static void settle_store_reset(struct settlement *const *items, size_t n, enum settle_result *results)
{
	for (size_t i = 0; i < n; i++)
		results[i] = items[i]->slot_only ? SETTLE_DONE : SETTLE_PENDING;
}

enum db_class settle_store_write(struct db *db, struct settlement **items, size_t n, const char *worker, bool again,
				 enum settle_result *results, struct fault *f)
{
	struct settle_store_batch batch = {
		.items = items, .results = results, .n = n, .worker = worker, .again = again, .written = 0};
	bool settled = false;
	enum db_class c;

	if (n == 0)
		return DB_OK;
	qsort(items, n, sizeof(*items), settle_store_compare);
	settle_store_reset(items, n, results);
	if (!again) {
		c = settle_store_quickly(db, &batch, &settled, f);
		if (c != DB_OK || settled)
			return c;
		settle_store_reset(items, n, results);
	}
	return settle_store_carefully(db, &batch, f);
}

size_t settle_store_size(const struct settlement *s)
{
	return 2 * (s->result.len + s->error.len + 2 * sizeof(s->cause)) + SETTLE_STORE_OVERHEAD;
}

/* The note as far as its column takes it, whole characters. */
static size_t settle_store_note_len(const char *note)
{
	size_t len, characters = 0;

	for (len = 0; note[len] != '\0'; len++) {
		if (((unsigned char)note[len] & 0xc0) != 0x80 && characters++ == SETTLE_STORE_NOTE_MAX)
			break;
	}
	return len;
}

enum db_class settle_store_progress(struct db *db, uint64_t id, const char *lease, double percent, const char *note,
				    struct fault *f)
{
	int64_t hundredths = percent >= 100 ? 10000 : (int64_t)(percent * 100 + 0.5);
	struct buf sql;

	if (!(percent >= 0) && note == NULL)
		return DB_OK;
	buf_init(&sql, STORE_SQL_MAX);
	buf_adds(&sql, "UPDATE jobs FORCE INDEX (PRIMARY) SET ");
	if (percent >= 0)
		db_sqlf(db, &sql, "progress=%d / 100%r", hundredths, note != NULL ? ", " : "");
	if (note != NULL)
		db_sqlf(db, &sql, "progress_note=%b", note, settle_store_note_len(note));
	db_sqlf(db, &sql, " WHERE id=%u AND lease_id=%s AND state='running'", id, lease);
	return store_exec(db, &sql, NULL, f);
}
