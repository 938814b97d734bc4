/* stderr_log.c - see stderr_log.h. */
#include "handler/stderr_log.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define STDERR_LOG_LINE 1000 /* of the allowance */
#define STDERR_LOG_SUBJECT (JOB_KIND_MAX + 80)

void stderr_log_init(struct stderr_log *log, bool wanted)
{
	*log = (struct stderr_log){.wanted = wanted && log_enabled(LOG_LEVEL_INFO),
				   .allowance = STDERR_LOG_BURST * STDERR_LOG_LINE};
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

static char *stderr_log_subject(const struct stderr_log *log, char *out, size_t size)
{
	const struct job *job = log->job;

	if (job != NULL)
		snprintf(out, size, "job=%" PRIu64 " kind=%s attempt=%u", job->id, job->kind, job->attempt);
	else
		snprintf(out, size, "kind=%s pid=%d", log->kind, (int)log->pid);
	return out;
}

/* What a process says while it has no job is not about the one that its worker has in hand. */
static void LH_PRINTF(2, 3) stderr_log_write(const struct stderr_log *log, const char *fmt, ...)
{
	const struct log_context *before = log->job == NULL ? log_about(NULL) : NULL;
	char text[STDERR_LOG_LINE_MAX + 64], subject[STDERR_LOG_SUBJECT];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	log_info("handler", "%s stderr: %s", stderr_log_subject(log, subject, sizeof(subject)), text);
	if (log->job == NULL)
		log_about(before);
}

static void stderr_log_tell(struct stderr_log *log)
{
	if (log->left_out > 0)
		stderr_log_write(log, "%" PRIu64 " lines were left out here", log->left_out);
	log->left_out = 0;
}

static void stderr_log_line(struct stderr_log *log)
{
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
	stderr_log_write(log, "%.*s%s", (int)len, log->line, log->cut ? " [cut]" : "");
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

	if (!log->wanted)
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
	if (!log->wanted)
		return;
	stderr_log_finish_line(log);
	stderr_log_tell(log);
}

void stderr_log_speak_of(struct stderr_log *log, const struct job *job, const char *kind, pid_t pid)
{
	stderr_log_end(log);
	log->job = job;
	log->kind = kind;
	log->pid = pid;
}
