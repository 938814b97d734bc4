#include "worker/presence.h"

#include "store/instance_store.h"

#include <string.h>
#include <unistd.h>

#define PRESENCE_QUEUES_MAX 255 /* job_workers.queues */

static void presence_queues(const struct instance *in, struct buf *out)
{
	for (unsigned int p = 0; p < in->pool_count; p++)
		for (char **queue = in->startup->pools[p].queues; *queue != NULL; queue++) {
			if (out->len + strlen(*queue) + 1 > PRESENCE_QUEUES_MAX)
				return;
			buf_addf(out, "%s%s", out->len > 0 ? "," : "", *queue);
		}
}

enum db_class presence_show(struct instance *in, struct db *db, struct fault *f)
{
	char host[256] = "";
	struct inflight_counts counts;
	struct buf queues;
	enum db_class c;
	struct instance_row row = {
		.worker = in->worker,
		.name = in->startup->instance.name,
		.host = host,
		.pid = (uint64_t)getpid(),
		.version = PACKAGE_VERSION,
		.lease_ms = (uint32_t)in->lease_ms,
		.status = instance_mode_name(atomic_load(&in->mode)),
	};

	buf_init(&queues, PRESENCE_QUEUES_MAX + 1);
	presence_queues(in, &queues);
	gethostname(host, sizeof(host) - 1);
	inflight_count(in->inflight, &counts);
	row.queues = queues.data;
	row.running = counts.by_state[INFLIGHT_RUNNING];
	for (unsigned int p = 0; p < in->pool_count; p++)
		row.threads += (uint64_t)in->startup->pools[p].threads;
	c = instance_store_beat(db, &row, f);
	buf_free(&queues);
	return c;
}

enum db_class presence_leave(struct instance *in, struct db *db, struct fault *f)
{
	return instance_store_leave(db, in->worker, f);
}
