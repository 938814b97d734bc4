/* noop.c - a handler that succeeds at once, in our own process: what a benchmark measures is then the queue alone (layer:
 * handler). */
#include "handler/handler.h"

static bool noop_send(void *arg, int64_t kill_at_ms)
{
	(void)arg;
	(void)kill_at_ms;
	return true;
}

static void noop_run(const struct run_request *request, struct run_report *report)
{
	const struct run_hooks *hooks = &request->hooks;

	/* A benchmark may do without a runner. One that runs does not know the number, and ignores what is sent for it. */
	if (!hooks->start(hooks->owner, request->runner == NULL ? 0 : runner_link_next_run(request->runner), noop_send, NULL))
		return;
	report->facts.end = RUN_EXITED;
	report->facts.exited = true;
}

const struct handler_ops handler_noop = {.name = "noop", .run = noop_run};
