/* handler.c - see handler.h. */
#include "handler/handler.h"

#include <string.h>

const struct handler_ops *handler_ops_for(enum handler_type type)
{
	static const struct handler_ops *const all[] = {
		[HANDLER_EXEC] = &handler_exec,
		[HANDLER_STREAM] = &handler_stream,
		[HANDLER_NOOP] = &handler_noop,
	};

	return (size_t)type < sizeof(all) / sizeof(all[0]) ? all[type] : NULL;
}

void run_report_init(struct run_report *report, const struct handler_settings *handler)
{
	memset(report, 0, sizeof(*report));
	run_facts_init(&report->facts);
	buf_init(&report->result, (size_t)handler->max_result);
	buf_init(&report->stderr_tail, (size_t)handler->max_stderr_tail);
}

void run_report_free(struct run_report *report)
{
	buf_free(&report->result);
	buf_free(&report->stderr_tail);
}
