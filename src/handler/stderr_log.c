/* stderr_log.c - see stderr_log.h. */
#include "handler/stderr_log.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <string.h>

#define STDERR_LOG_LINE 1000 /* of the allowance */

void stderr_log_init(struct stderr_log *log, const struct job *job, bool wanted)
{
	log->job = wanted && log_enabled(LOG_LEVEL_INFO) ? job : NULL;
	log->len = 0;
	log->cut = false;
	log->allowance = STDERR_LOG_BURST * STDERR_LOG_LINE;
	log->refilled_ms = 0;
	log->left_out = 0;
}

static bool stderr_log_allowed(struct stderr_log *log)
{
	int64_t now = clock_mono_ms(), passed = log->refilled_ms == 0 ? 0 : now - log->refilled_ms;

	log->refilled_ms = now;
	log->allowance += passed * STDERR_LOG_PER_SECOND;
	if (log->allowance > STDERR_LOG_BURST * STDERR_LOG_LINE)
		log->allowance = STDERR_LOG_BURST * STDERR_LOG_LINE;
	if (log->allowance < STDERR_LOG_LINE)
		return false;
	log->allowance -= STDERR_LOG_LINE;
	return true;
}

static void stderr_log_tell(struct stderr_log *log)
{
	const struct job *job = log->job;

	if (log->left_out > 0)
		log_info("handler", "job=%" PRIu64 " kind=%s attempt=%u stderr: %" PRIu64 " lines were left out here", job->id,
			 job->kind, job->attempt, log->left_out);
	log->left_out = 0;
}

static void stderr_log_line(struct stderr_log *log)
{
	const struct job *job = log->job;
	size_t len = log->cut ? utf8_cut(log->line, log->len) : log->len;

	if (!stderr_log_allowed(log)) {
		log->left_out++;
		return;
	}
	stderr_log_tell(log);
	/* A NUL would end the text here; the log makes the rest of what a terminal would obey harmless. */
	for (size_t i = 0; i < len; i++) {
		if (log->line[i] == '\0')
			log->line[i] = ' ';
	}
	log_info("handler", "job=%" PRIu64 " kind=%s attempt=%u stderr: %.*s%s", job->id, job->kind, job->attempt, (int)len,
		 log->line, log->cut ? " [cut]" : "");
}

static void stderr_log_gather(struct stderr_log *log, const char *bytes, size_t len)
{
	size_t room = sizeof(log->line) - log->len;

	if (len > room) {
		len = room;
		log->cut = true;
	}
	memcpy(log->line + log->len, bytes, len);
	log->len += len;
}

static void stderr_log_finish_line(struct stderr_log *log)
{
	if (log->len > 0 && log->line[log->len - 1] == '\r' && !log->cut)
		log->len--;
	if (log->len > 0)
		stderr_log_line(log);
	log->len = 0;
	log->cut = false;
}

void stderr_log_feed(struct stderr_log *log, const char *bytes, size_t len)
{
	const char *end = bytes + len, *newline;

	if (log->job == NULL)
		return;
	while (bytes < end && (newline = memchr(bytes, '\n', (size_t)(end - bytes))) != NULL) {
		stderr_log_gather(log, bytes, (size_t)(newline - bytes));
		stderr_log_finish_line(log);
		bytes = newline + 1;
	}
	if (bytes < end)
		stderr_log_gather(log, bytes, (size_t)(end - bytes));
}

void stderr_log_end(struct stderr_log *log)
{
	if (log->job == NULL)
		return;
	stderr_log_finish_line(log);
	stderr_log_tell(log);
}
