/* settle_shape.c - see settle_shape.h. */
#include "store/settle_shape.h"

#include "store/slot_store.h"

struct settle_shape {
	enum job_state state;
	bool returns;     /* to ready or scheduled */
	bool delayed;     /* run_at moves */
	bool gives_back;  /* the attempt is not counted */
	bool by_itself;   /* the attempt ended by itself: whoever ran it lives */
	bool waits;       /* for a slot, however long that takes */
	bool has_result;  /* the job ends here, so what the handler printed is its result */
};

static const struct settle_shape settle_shapes[SETTLE_ACTIONS] = {
	[SETTLE_SUCCEED] = {.state = JOB_SUCCEEDED, .by_itself = true, .has_result = true},
	[SETTLE_RETRY] = {.state = JOB_SCHEDULED, .returns = true, .delayed = true, .by_itself = true},
	[SETTLE_SNOOZE] = {.state = JOB_SCHEDULED, .returns = true, .delayed = true, .gives_back = true, .by_itself = true},
	[SETTLE_PARK] = {.state = JOB_SCHEDULED, .returns = true, .delayed = true, .gives_back = true},
	[SETTLE_WAIT] = {.state = JOB_SCHEDULED, .returns = true, .gives_back = true, .waits = true},
	[SETTLE_RELEASE] = {.state = JOB_READY, .returns = true, .gives_back = true},
	[SETTLE_DEAD] = {.state = JOB_DEAD, .by_itself = true, .has_result = true},
	[SETTLE_CANCEL] = {.state = JOB_CANCELLED, .by_itself = true, .has_result = true},
};

enum job_state settle_shape_state(enum settle_action action)
{
	return settle_shapes[action].state;
}

bool settle_shape_returns(enum settle_action action)
{
	return settle_shapes[action].returns;
}

bool settle_shape_only_lets_go(enum settle_action action)
{
	return settle_shapes[action].gives_back;
}

void settle_shape_add(struct db *db, struct buf *sql, const struct settlement *s)
{
	const struct settle_shape *shape = &settle_shapes[s->action];

	buf_adds(sql, "UPDATE jobs FORCE INDEX (PRIMARY) SET ");
	if (shape->returns)
		store_add_return(sql, job_state_name(shape->state), shape->gives_back);
	else
		db_sqlf(db, sql, "state=%s, finished_at=UTC_TIMESTAMP(6)", job_state_name(shape->state));
	if (shape->delayed)
		db_sqlf(db, sql,
			", run_at=IF(cancel_requested_at IS NULL, UTC_TIMESTAMP(6) + INTERVAL %d * 1000 MICROSECOND, run_at)",
			s->delay_ms < 0 ? (int64_t)0 : s->delay_ms);
	if (shape->waits)
		db_sqlf(db, sql, ", run_at=IF(cancel_requested_at IS NULL, " SLOT_STORE_FAR
			", run_at), slot_wait=IF(cancel_requested_at IS NULL, %s, NULL)", s->slot.key);
	if (shape->by_itself)
		buf_adds(sql, ", orphan_streak=0");
	if (shape->has_result && s->has_result)
		db_sqlf(db, sql, ", result=%b", s->result.data, s->result.len);
	if (s->error.len > 0)
		db_sqlf(db, sql, ", last_error=%b", s->error.data, s->error.len);
	db_sqlf(db, sql, " WHERE id=%u AND lease_id=%s AND state='running'", s->id, s->lease);
}

void settle_shape_add_bare(struct db *db, struct buf *sql, const struct store_held *rows, size_t n)
{
	buf_adds(sql, "UPDATE jobs FORCE INDEX (PRIMARY) SET state='succeeded', finished_at=UTC_TIMESTAMP(6), orphan_streak=0"
		      " WHERE id IN ");
	store_add_ids(sql, rows, n);
	buf_adds(sql, " AND (id, lease_id) IN ");
	store_add_pairs(db, sql, rows, n);
	buf_adds(sql, " AND state='running'");
}
