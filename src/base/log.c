/* log.c - see log.h. */
#include "base/log.h"

#include "base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOG_CUT " [cut]"
#define LOG_TAIL_ROOM 16 /* what always fits after the text: the mark, the closing of the JSON object, the newline */
#define LOG_PATIENCE_MS 100

/* Read by every thread without a lock. A reload changes them one by one: a line written meanwhile may mix old and new,
 * which does no harm. */
static atomic_int log_level_now = LOG_LEVEL_INFO;
static atomic_int log_format_now = LOG_FORMAT_TEXT;
static atomic_int log_fd = STDERR_FILENO;
static atomic_bool log_to_journal;
static atomic_uint log_dropped; /* lines that nobody took off our hands in time */

static _Thread_local const struct log_context *log_subject;

static const struct {
	const char *name;
	int priority; /* of syslog(3), for the journal */
} log_levels[] = {
	[LOG_LEVEL_ERROR] = {"error", 3},
	[LOG_LEVEL_WARN] = {"warn", 4},
	[LOG_LEVEL_INFO] = {"info", 6},
	[LOG_LEVEL_DEBUG] = {"debug", 7},
};

struct log_line {
	char bytes[LOG_LINE_MAX];
	size_t len;
	bool cut;
};

/* systemd sets JOURNAL_STREAM to the device and inode of the socket it gave us: only while fd is still that one does the
 * journal read it. */
static bool log_is_journal(int fd)
{
	const char *stream = getenv("JOURNAL_STREAM");
	char ours[64];
	struct stat st;

	if (stream == NULL || fstat(fd, &st) != 0)
		return false;
	snprintf(ours, sizeof(ours), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	return strcmp(stream, ours) == 0;
}

void log_setup(enum log_level level, enum log_format format, int fd)
{
	atomic_store(&log_level_now, (int)level);
	atomic_store(&log_format_now, (int)format);
	atomic_store(&log_to_journal, log_is_journal(fd));
	atomic_store(&log_fd, fd);
}

bool log_enabled(enum log_level level)
{
	return (int)level <= atomic_load_explicit(&log_level_now, memory_order_relaxed);
}

bool log_level_parse(const char *name, enum log_level *level)
{
	for (size_t i = 0; i < sizeof(log_levels) / sizeof(log_levels[0]); i++) {
		if (strcmp(name, log_levels[i].name) == 0) {
			*level = (enum log_level)i;
			return true;
		}
	}
	return false;
}

bool log_limit_pass(struct log_limit *limit, int64_t now_ms, int64_t every_ms)
{
	if (limit->next_ms != 0 && now_ms < limit->next_ms) {
		limit->held_back++;
		return false;
	}
	limit->next_ms = now_ms + every_ms;
	return true;
}

/* All of piece, or nothing and the line counts as cut: so that no escape and no character is split. */
static void log_add(struct log_line *line, const char *piece, size_t len)
{
	if (line->cut || line->len + len > LOG_LINE_MAX - LOG_TAIL_ROOM) {
		line->cut = true;
		return;
	}
	memcpy(line->bytes + line->len, piece, len);
	line->len += len;
}

static void log_adds(struct log_line *line, const char *text)
{
	log_add(line, text, strlen(text));
}

/* Into the room that log_add leaves: always fits. */
static void log_add_tail(struct log_line *line, const char *text)
{
	size_t len = strlen(text);

	memcpy(line->bytes + line->len, text, len);
	line->len += len;
}

/* One control character: C0, DEL, and the C1 set (U+0080 to U+009F), which terminals obey as well. */
static void log_add_control(struct log_line *line, unsigned int code, bool json)
{
	static const char short_codes[] = "\n\r\t", short_names[] = "nrt";
	const char *found = code == 0 ? NULL : strchr(short_codes, (int)code);
	char escape[8];

	if (found != NULL)
		snprintf(escape, sizeof(escape), "\\%c", short_names[found - short_codes]);
	else
		snprintf(escape, sizeof(escape), json ? "\\u%04x" : "\\x%02x", code & 0xff);
	log_adds(line, escape);
}

static void log_add_text(struct log_line *line, const char *text, size_t len, bool json)
{
	bool well_formed;
	size_t n;

	for (const char *end = text + len; text < end; text += n) {
		const unsigned char *p = (const unsigned char *)text;

		n = utf8_next(text, (size_t)(end - text), &well_formed);
		if (!well_formed)
			log_adds(line, "\xef\xbf\xbd");
		else if (n == 1 && (p[0] < 0x20 || p[0] == 0x7f))
			log_add_control(line, p[0], json);
		else if (n == 2 && p[0] == 0xc2 && p[1] < 0xa0)
			log_add_control(line, p[1], json);
		else if (json && (p[0] == '"' || p[0] == '\\'))
			log_add(line, p[0] == '"' ? "\\\"" : "\\\\", 2);
		else
			log_add(line, text, n);
	}
}

/* Waits a moment for a slow reader, not for one that has stopped: a full pipe must not hold up a heartbeat. (Two threads that both
 * find the last free page of a pipe can still meet; then one of them waits in write until the reader goes on.) */
static bool log_put(const char *bytes, size_t len, int patience_ms)
{
	struct pollfd out = {.fd = atomic_load(&log_fd), .events = POLLOUT};
	ssize_t wrote;

	if (poll(&out, 1, patience_ms) == 0)
		return false;
	do
		wrote = write(out.fd, bytes, len);
	while (wrote < 0 && errno == EINTR);
	return wrote >= 0 || errno != EAGAIN;
}

const struct log_context *log_about(const struct log_context *context)
{
	const struct log_context *before = log_subject;

	log_subject = context;
	return before;
}

static void log_add_member(struct log_line *line, const char *name, const char *value)
{
	if (value == NULL || value[0] == '\0')
		return;
	log_adds(line, "\"");
	log_adds(line, name);
	log_adds(line, "\":\"");
	log_add_text(line, value, strlen(value), true);
	log_adds(line, "\",");
}

static void log_add_number(struct log_line *line, const char *name, uint64_t value)
{
	char member[48];

	if (value == 0)
		return;
	snprintf(member, sizeof(member), "\"%s\":%" PRIu64 ",", name, value);
	log_adds(line, member);
}

static void log_add_subject(struct log_line *line, const struct log_context *subject, bool json)
{
	if (subject == NULL)
		return;
	if (json) {
		log_add_number(line, "job", subject->job);
		log_add_member(line, "kind", subject->kind);
		log_add_number(line, "attempt", subject->attempt);
		log_add_member(line, "trace", subject->trace);
	} else if (subject->trace != NULL && subject->trace[0] != '\0') {
		log_adds(line, "trace=");
		log_add_text(line, subject->trace, strlen(subject->trace), false);
		log_adds(line, " ");
	}
}

static void log_start(struct log_line *line, enum log_level level, const char *area, const struct log_context *subject, bool json)
{
	char stamp[80] = "", priority[16];
	struct timespec now;
	struct tm utc;

	line->len = 0;
	line->cut = false;
	if (atomic_load(&log_to_journal)) {
		snprintf(priority, sizeof(priority), "<%d>", log_levels[level].priority);
		log_adds(line, priority);
	} else if (clock_gettime(CLOCK_REALTIME, &now) == 0 && gmtime_r(&now.tv_sec, &utc) != NULL) {
		snprintf(stamp, sizeof(stamp), "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ", utc.tm_year + 1900, utc.tm_mon + 1,
			 utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1000000);
	}
	if (json) {
		log_adds(line, "{");
		if (stamp[0] != '\0') {
			log_adds(line, "\"time\":\"");
			log_adds(line, stamp);
			log_adds(line, "\",");
		}
		log_adds(line, "\"level\":\"");
		log_adds(line, log_levels[level].name);
		log_adds(line, "\",\"area\":\"");
		log_add_text(line, area, strlen(area), true);
		log_adds(line, "\",");
		log_add_subject(line, subject, true);
		log_adds(line, "\"text\":\"");
		return;
	}
	log_adds(line, stamp);
	log_adds(line, stamp[0] == '\0' ? "" : " ");
	log_adds(line, log_levels[level].name);
	log_adds(line, " ");
	log_add_text(line, area, strlen(area), false);
	log_adds(line, ": ");
	log_add_subject(line, subject, false);
}

static void log_end(struct log_line *line, bool json)
{
	if (line->cut)
		log_add_tail(line, LOG_CUT);
	log_add_tail(line, json ? "\"}\n" : "\n");
}

/* Once lines get through again, says how many did not. */
static void log_tell_dropped(bool json)
{
	unsigned int dropped = atomic_exchange(&log_dropped, 0);
	struct log_line line;
	char text[96];

	if (dropped == 0)
		return;
	snprintf(text, sizeof(text), "%u lines were dropped: the reader of this log did not keep up", dropped);
	log_start(&line, LOG_LEVEL_WARN, "log", NULL, json);
	log_adds(&line, text);
	log_end(&line, json);
	if (!log_put(line.bytes, line.len, 0))
		atomic_fetch_add(&log_dropped, dropped);
}

void log_write(enum log_level level, const char *area, const char *fmt, ...)
{
	bool json = atomic_load(&log_format_now) == LOG_FORMAT_JSON;
	int len, saved_errno = errno;
	struct log_line line;
	char text[LOG_LINE_MAX];
	va_list args;
	size_t have;

	if (!log_enabled(level))
		return;
	va_start(args, fmt);
	len = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	have = len < 0 ? 0 : (size_t)len;
	if (have >= sizeof(text))
		have = utf8_cut(text, sizeof(text) - 1);
	log_start(&line, level, area, log_subject, json);
	log_add_text(&line, text, have, json);
	log_end(&line, json);
	if (log_put(line.bytes, line.len, atomic_load(&log_dropped) == 0 ? LOG_PATIENCE_MS : 0))
		log_tell_dropped(json);
	else
		atomic_fetch_add(&log_dropped, 1);
	errno = saved_errno;
}
