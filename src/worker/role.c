#include "worker/role.h"

#include "base/thread.h"
#include "worker/instance.h"

#include <stdlib.h>

void *role_new(size_t size, const struct role_ops *ops, struct instance *in, const struct role_options *options)
{
	struct role *r = calloc(1, size);
	int64_t timeout_ms = options->timeout_ms != 0 ? options->timeout_ms : in->startup->database.timeout_ms;

	if (r == NULL)
		return NULL;
	r->ops = ops;
	r->instance = in;
	gate_init(&r->gate);
	if (session_init(&r->session, in, ops->area, timeout_ms, options->lock_wait_s, options->most_wait_ms) != LH_OK) {
		role_free(r);
		return NULL;
	}
	return r;
}

void role_free(struct role *r)
{
	if (r == NULL)
		return;
	if (r->ops->free != NULL)
		r->ops->free(r);
	session_end(&r->session);
	gate_destroy(&r->gate);
	free(r);
}

static void role_loop(struct role *r)
{
	int64_t wait_ms = 0;

	while (gate_wait(&r->gate, wait_ms))
		wait_ms = r->ops->step(r);
}

static void *role_main(void *arg)
{
	struct role *r = arg;

	if (r->ops->loop != NULL)
		r->ops->loop(r);
	else
		role_loop(r);
	if (r->ops->leave != NULL)
		r->ops->leave(r);
	db_close(r->session.db);
	return NULL;
}

enum lh_err role_start(struct role *r, struct fault *f)
{
	enum lh_err err = thread_start(&r->thread, r->ops->thread, role_main, r, f);

	r->started = err == LH_OK;
	return err;
}

void role_nudge(struct role *r)
{
	if (r != NULL)
		gate_nudge(&r->gate);
}

void role_stop(struct role *r)
{
	if (r == NULL || !r->started)
		return;
	gate_stop(&r->gate);
	pthread_join(r->thread, NULL);
	r->started = false;
}

int64_t role_age_ms(const struct role *r, int64_t now_ms)
{
	return session_age_ms(&r->session, now_ms);
}
