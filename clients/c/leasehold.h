/* leasehold.h - run Leasehold jobs in a warm C process (a handler with type = "stream"). C99 and POSIX, no library.
 *
 *	#include "leasehold.h"
 *
 *	static enum lh_outcome send(struct lh_job *job)
 *	{
 *		if (deliver(job->payload) < 0)
 *			return lh_retry(job, LH_BACKOFF, "no answer from the mail server");
 *		return lh_succeeded_json(job, "{\"sent\":true}");
 *	}
 *
 *	int main(void)
 *	{
 *		return lh_serve(send);
 *	}
 *
 * The payload is handed over as the text that it is in the table, and the result is text too: bring a JSON library for what goes
 * beyond lh_json_valid() and lh_json_string().
 *
 * While lh_serve() runs, descriptor 1 is standard error, so printf() writes to Leasehold's log, and descriptor 0 is /dev/null.
 * Print nothing before. It returns the exit status for main, 0, when Leasehold has no more work for this process. Where it cannot
 * go on (no memory, a message that it does not understand), it says so on standard error and ends the process with status 1: that
 * costs a job one attempt. Functions are for the handler's thread alone. There are no globals, and every function is static. */
#ifndef LEASEHOLD_H
#define LEASEHOLD_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __GNUC__
#define LH_PRINTF(n) __attribute__((format(printf, n, n + 1)))
#else
#define LH_PRINTF(n)
#endif

#define LH_PROTOCOL 1
#define LH_BACKOFF (-1)			 /* as a delay: whatever the backoff of the job comes to */
#define LH_DELAY_MAX_MS 31622400000LL /* a year */

struct lh_pipes;
struct lh_step;

/* A buffer that grows. */
struct lh_text {
	char *at;
	size_t len, size;
};

/* What a handler returns; functions below make those that have details, as in: return lh_dead(job, "no such user"); */
enum lh_outcome {
	LH_SUCCEEDED, /* without a result */
	LH_RETRY,     /* after the backoff */
	LH_SNOOZE,    /* by lh_snooze() only */
	LH_DEAD,
	LH_CANCELLED
};

/* One attempt at a job. Read-only, and gone when the handler returns. */
struct lh_job {
	uint64_t id;	   /* with claim_no, which grows with every claim, the fencing token for other systems */
	uint32_t claim_no;
	unsigned int attempt, max_attempts; /* the first is 1 */
	const char *kind, *queue, *lease_id;
	const char *traceparent; /* W3C trace context of whoever enqueued the job, or NULL */
	uint64_t lease_ms;	 /* the length of the lease, which is renewed while the handler runs */
	uint64_t timeout_ms;	 /* how long the handler may run; 0 is without limit */
	const char *payload;	 /* ends in a NUL, and may have others */
	size_t payload_len;

	/* The rest is not for handlers. */
	char *owned[5]; /* the texts above */
	struct lh_pipes *pipes;
	struct lh_step *steps;
	char reason[16]; /* why it is to end early; empty if it is not */
	enum lh_outcome outcome;
	struct lh_text detail; /* further members of the answer that outcome stands for */
};

typedef enum lh_outcome lh_handler(struct lh_job *job);

/* Handlers by kind: an array that ends with {NULL, NULL}. */
struct lh_kind {
	const char *kind;
	lh_handler *run;
};

/* Run jobs until Leasehold closes the pipe: all of them with one handler, or by kind. */
static inline int lh_serve(lh_handler *run);
static inline int lh_serve_kinds(const struct lh_kind *kinds);

/* Outcomes, to be returned. Texts end in NUL; what is not UTF-8 in them becomes U+FFFD, and of an error 500 bytes are kept. A
 * result that is not JSON makes the job dead. A delay is from 0 to LH_DELAY_MAX_MS milliseconds (else: LH_RETRY with an error that
 * says so); a snooze does not count the attempt. */
static inline enum lh_outcome lh_succeeded_json(struct lh_job *job, const char *json);
static inline enum lh_outcome lh_succeeded_text(struct lh_job *job, const char *text);
static inline enum lh_outcome lh_retry(struct lh_job *job, long long after_ms, const char *format, ...) LH_PRINTF(3);
static inline enum lh_outcome lh_snooze(struct lh_job *job, long long after_ms);
static inline enum lh_outcome lh_dead(struct lh_job *job, const char *format, ...) LH_PRINTF(2);
static inline enum lh_outcome lh_stopped(struct lh_job *job); /* because lh_cancelled() said so; otherwise it is an error */

/* Report how far the work is in percent (what lies outside of 0 to 100 is moved to the edge), or what it is at. Do not wait. */
static inline void lh_progress(struct lh_job *job, double percent, const char *note_or_null);
static inline void lh_note(struct lh_job *job, const char *note);

/* Why the job is to end early: "cancel", "timeout", "lease" or "shutdown"; NULL if it is not. Does not wait. SIGTERM follows soon
 * after such a request, then SIGKILL. Who stops before keeps the process. */
static inline const char *lh_cancelled(struct lh_job *job);

/* Calls work once for all attempts of this job, and returns the JSON text that it returned; the text belongs to the job. If an
 * earlier attempt saved the step, work is not called. Otherwise work returns text from malloc(), which this frees; it is saved
 * (all steps of a job have 64 KiB together), and this returns once that is committed. NULL: work returned NULL, or the step is not
 * saved; then return lh_failed(job), the outcome that work made, or the one that says why.
 * name: 1 to 64 characters of A-Z a-z 0-9 _ . : -; a job may have 64 steps. */
typedef char *lh_work(struct lh_job *job, void *context);
static inline const char *lh_step(struct lh_job *job, const char *name, lh_work *work, void *context);
static inline enum lh_outcome lh_failed(const struct lh_job *job);

/* Whether text is one JSON value of at most 512 levels, in UTF-8. It must end in a NUL, which len does not count. */
static inline bool lh_json_valid(const char *text, size_t len);
/* The string that a valid JSON object has under name, in a buffer of size bytes. False: no such member, not a string, a NUL in it,
 * or not enough room. */
static inline bool lh_json_string(const char *json, const char *name, char *to, size_t size);

/* ---- Text ------------------------------------------------------------------------------------------------------------------- */

#define LH_ERROR_BYTES 500
#define LH_NOTE_BYTES 1020 /* 255 characters are kept */
#define LH_DEPTH_MAX 512
#define LH_DEPTH_SENT_MAX 90 /* Leasehold takes no line that is nested more than 100 deep */

struct lh_step {
	struct lh_step *next;
	char name[65];
	char *data;
};

struct lh_pipes {
	int in, out;
	struct lh_text lines; /* what was read */
	size_t used, searched;
	bool gone;
};

static inline void lh_quit(const char *why, const char *about)
{
	fprintf(stderr, "leasehold.h: %s%.200s\n", why, about);
	exit(1);
}

static inline void *lh_grow(void *old, size_t size)
{
	void *new = realloc(old, size);

	if (!new)
		lh_quit("out of memory", "");
	return new;
}

/* Makes room for len bytes and a NUL. */
static inline char *lh_room(struct lh_text *text, size_t len)
{
	if (text->size - text->len <= len) {
		text->size = 2 * text->size + len + 1;
		text->at = lh_grow(text->at, text->size);
	}
	return text->at + text->len;
}

static inline void lh_add(struct lh_text *text, const char *bytes, size_t len)
{
	memcpy(lh_room(text, len), bytes, len);
	text->len += len;
	text->at[text->len] = '\0';
}

static inline void lh_puts(struct lh_text *text, const char *string)
{
	lh_add(text, string, strlen(string));
}

static inline char *lh_copy(const char *bytes, size_t len)
{
	struct lh_text text = {NULL, 0, 0};

	lh_add(&text, bytes, len);
	return text.at;
}

/* The length of the valid UTF-8 character at p, which a NUL ends; 0 if it is none. */
static inline size_t lh_utf8(const char *p)
{
	const unsigned char *u = (const unsigned char *)p;
	unsigned char low = u[0] == 0xE0 ? 0xA0 : u[0] == 0xF0 ? 0x90 : 0x80;
	unsigned char high = u[0] == 0xED ? 0x9F : u[0] == 0xF4 ? 0x8F : 0xBF;
	size_t len = u[0] < 0x80 ? 1 : u[0] < 0xC2 ? 0 : u[0] < 0xE0 ? 2 : u[0] < 0xF0 ? 3 : u[0] < 0xF5 ? 4 : 0;

	if (len > 1 && (u[1] < low || u[1] > high))
		return 0;
	for (size_t i = 2; i < len; i++) {
		if ((u[i] & 0xC0) != 0x80)
			return 0;
	}
	return len;
}

/* Adds a JSON string of at most max bytes of text, cut between two characters. */
static inline void lh_quote(struct lh_text *text, const char *string, size_t max)
{
	char escape[8];

	lh_puts(text, "\"");
	for (size_t len, used = 0; *string && used < max; used += len, string += len) {
		len = lh_utf8(string);
		if (used + len > max)
			break;
		if (len == 0) {
			lh_puts(text, "\\ufffd");
			len = 1;
		} else if ((unsigned char)*string < 0x20 || *string == '"' || *string == '\\') {
			snprintf(escape, sizeof(escape), "\\u%04x", (unsigned char)*string);
			lh_puts(text, escape);
		} else {
			lh_add(text, string, len);
		}
	}
	lh_puts(text, "\"");
}

/* ---- JSON: each function returns what follows, or NULL for what is not JSON -------------------------------------------------- */

static inline const char *lh_skip_value(const char *p, int depth);

static inline const char *lh_skip_space(const char *p)
{
	return p + strspn(p, " \t\r\n");
}

/* The value of four hexadecimal digits; -1 if they are not. */
static inline long lh_hex4(const char *p)
{
	static const char digits[] = "0123456789abcdef0123456789ABCDEF";
	long value = 0;

	for (int i = 0; i < 4; i++, p++) {
		const char *digit = *p ? strchr(digits, *p) : NULL;

		if (!digit)
			return -1;
		value = value * 16 + (digit - digits) % 16;
	}
	return value;
}

/* Reads the character that \u stands for, and a second \u if it needs one. */
static inline const char *lh_skip_unicode(const char *p, long *character)
{
	long high = lh_hex4(p), low = -1;

	*character = high;
	if (high < 0 || (high >= 0xDC00 && high <= 0xDFFF))
		return NULL;
	if (high < 0xD800 || high > 0xDFFF)
		return p + 4;
	if (p[4] == '\\' && p[5] == 'u')
		low = lh_hex4(p + 6);
	if (low < 0xDC00 || low > 0xDFFF)
		return NULL;
	*character = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
	return p + 10;
}

static inline void lh_add_character(struct lh_text *text, long c)
{
	char bytes[4];
	size_t len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};

	for (size_t i = len; i-- > 1; c >>= 6)
		bytes[i] = (char)(0x80 | (c & 0x3F));
	bytes[0] = (char)(lead[len] | c);
	lh_add(text, bytes, len);
}

/* p is at the opening quote. With text, adds what the string stands for. */
static inline const char *lh_skip_string(const char *p, struct lh_text *text)
{
	static const char plain[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";

	for (p++; *p != '"';) {
		size_t len = lh_utf8(p);
		const char *known;
		long character;

		if (len == 0 || (unsigned char)*p < 0x20)
			return NULL;
		if (*p != '\\') {
			if (text)
				lh_add(text, p, len);
			p += len;
		} else if (p[1] == 'u') {
			p = lh_skip_unicode(p + 2, &character);
			if (!p)
				return NULL;
			if (text)
				lh_add_character(text, character);
		} else {
			known = p[1] ? strchr(plain, p[1]) : NULL;
			if (!known)
				return NULL;
			if (text)
				lh_add(text, meant + (known - plain), 1);
			p += 2;
		}
	}
	return p + 1;
}

static inline const char *lh_skip_digits(const char *p)
{
	size_t len = strspn(p, "0123456789");

	return len ? p + len : NULL;
}

static inline const char *lh_skip_number(const char *p)
{
	p += *p == '-';
	p = *p == '0' ? p + 1 : lh_skip_digits(p);
	if (p && *p == '.')
		p = lh_skip_digits(p + 1);
	if (p && (*p == 'e' || *p == 'E')) {
		p++;
		p = lh_skip_digits(p + (*p == '+' || *p == '-'));
	}
	return p;
}

static inline const char *lh_skip_nested(const char *p, int depth)
{
	char end = *p == '{' ? '}' : ']';

	p = lh_skip_space(p + 1);
	if (*p == end)
		return p + 1;
	for (;;) {
		if (end == '}') {
			p = *p == '"' ? lh_skip_string(p, NULL) : NULL;
			if (!p)
				return NULL;
			p = lh_skip_space(p);
			if (*p++ != ':')
				return NULL;
		}
		p = depth > 0 ? lh_skip_value(p, depth - 1) : NULL;
		if (!p || *p == end)
			return p ? p + 1 : NULL;
		if (*p != ',')
			return NULL;
		p = lh_skip_space(p + 1);
	}
}

/* A value and the blanks around it. */
static inline const char *lh_skip_value(const char *p, int depth)
{
	static const char *const words[] = {"true", "false", "null"};

	p = lh_skip_space(p);
	if (*p == '"') {
		p = lh_skip_string(p, NULL);
	} else if (*p == '{' || *p == '[') {
		p = lh_skip_nested(p, depth);
	} else if (*p == '-' || (*p >= '0' && *p <= '9')) {
		p = lh_skip_number(p);
	} else {
		size_t i = 0;

		while (i < 3 && strncmp(p, words[i], strlen(words[i])) != 0)
			i++;
		p = i < 3 ? p + strlen(words[i]) : NULL;
	}
	return p ? lh_skip_space(p) : NULL;
}

static inline bool lh_json_valid(const char *text, size_t len)
{
	const char *end = lh_skip_value(text, LH_DEPTH_MAX);

	return end && end == text + len;
}

/* Whether it is JSON that Leasehold can read: not too deep, and with no whole number beyond 64 bits. */
static inline bool lh_sendable(const char *json)
{
	const char *p = lh_skip_value(json, LH_DEPTH_SENT_MAX - 1), *end;
	bool fits = p && *p == '\0';

	for (p = json; fits && *p; p = end) {
		end = *p == '"' ? lh_skip_string(p, NULL) : *p == '-' || (*p >= '0' && *p <= '9') ? lh_skip_number(p) : p + 1;
		errno = 0;
		if (end > p + 18 && *p != '"' && strcspn(p, ".eE") >= (size_t)(end - p))
			fits = strtoll(p, NULL, 10) != 0 && errno == 0;
	}
	return fits;
}

struct lh_member {
	const char *name, *value, *end; /* the name is what stands between its quotes */
	size_t name_len;
};

/* The next member of a valid object: *p is where the object begins, or where the last call left it. */
static inline bool lh_next(const char **p, struct lh_member *member)
{
	const char *at = lh_skip_space(*p), *end;

	if (*at == '{' || *at == ',')
		at = lh_skip_space(at + 1);
	if (*at != '"')
		return false;
	end = lh_skip_string(at, NULL);
	member->name = at + 1;
	member->name_len = (size_t)(end - at) - 2;
	member->value = lh_skip_space(lh_skip_space(end) + 1);
	member->end = lh_skip_value(member->value, 2 * LH_DEPTH_MAX);
	*p = member->end;
	return true;
}

static inline bool lh_named(const struct lh_member *member, const char *name)
{
	return strlen(name) == member->name_len && memcmp(member->name, name, member->name_len) == 0;
}

/* The value of the member; NULL if it is not there or json is not an object. */
static inline const char *lh_find(const char *json, const char *name)
{
	struct lh_member member;

	json = lh_skip_space(json);
	while (*json && *json != '[' && lh_next(&json, &member)) {
		if (lh_named(&member, name))
			return member.value;
	}
	return NULL;
}

static inline uint64_t lh_number(const char *value)
{
	return value ? strtoull(value, NULL, 10) : 0;
}

/* What the string stands for, to be freed; NULL if the value is no string. */
static inline char *lh_unquote(const char *value, size_t *len)
{
	struct lh_text text = {NULL, 0, 0};

	if (!value || *value != '"')
		return NULL;
	lh_add(&text, "", 0);
	lh_skip_string(value, &text);
	if (len)
		*len = text.len;
	return text.at;
}

static inline bool lh_json_string(const char *json, const char *name, char *to, size_t size)
{
	size_t len = 0;
	char *text = lh_unquote(lh_find(json, name), &len);
	bool fits = text && len < size && strlen(text) == len;

	if (fits)
		memcpy(to, text, len + 1);
	free(text);
	return fits;
}

/* ---- The pipes: messages are JSON objects, one a line ------------------------------------------------------------------------ */

/* A descriptor for the same pipe that programs started by a handler do not inherit. */
static inline int lh_take(int fd)
{
	int own = fcntl(fd, F_DUPFD, 3);

	if (own < 0 || fcntl(own, F_SETFD, FD_CLOEXEC) < 0)
		lh_quit("standard input and output: ", strerror(errno));
	return own;
}

static inline void lh_take_stdio(struct lh_pipes *pipes)
{
	int null = open("/dev/null", O_RDONLY);

	memset(pipes, 0, sizeof(*pipes));
	pipes->in = lh_take(0);
	pipes->out = lh_take(1);
	if (null < 0 || dup2(null, 0) < 0 || dup2(2, 1) < 0)
		lh_quit("/dev/null and standard error: ", strerror(errno));
	if (null > 0)
		close(null);
}

static inline bool lh_readable(int fd)
{
	struct pollfd look = {fd, POLLIN, 0};

	return poll(&look, 1, 0) > 0;
}

/* The next message, good until the next call; NULL at the end, and, without wait, if there is none yet. */
static inline char *lh_receive(struct lh_pipes *pipes, bool wait)
{
	struct lh_text *lines = &pipes->lines;
	char *line, *end = NULL;
	ssize_t n;

	lh_room(lines, 65536);
	memmove(lines->at, lines->at + pipes->used, lines->len - pipes->used);
	lines->len -= pipes->used;
	for (pipes->used = pipes->searched = 0;; pipes->searched = lines->len - (size_t)n) {
		end = memchr(lines->at + pipes->searched, '\n', lines->len - pipes->searched);
		if (end || (!wait && !lh_readable(pipes->in)))
			break;
		do {
			n = read(pipes->in, lh_room(lines, 65536), 65536);
		} while (n < 0 && errno == EINTR);
		if (n <= 0)
			break;
		lines->len += (size_t)n;
	}
	if (!end)
		return NULL;
	*end = '\0';
	line = lines->at;
	pipes->used = (size_t)(end - line) + 1;
	if (*line != '{' || !lh_json_valid(line, (size_t)(end - line)))
		lh_quit("this is no message of Leasehold: ", line);
	return line;
}

static inline void lh_write(struct lh_pipes *pipes, const char *line, size_t len)
{
	while (len > 0 && !pipes->gone) {
		ssize_t n = write(pipes->out, line, len);

		if (n < 0 && errno != EINTR)
			pipes->gone = true;
		if (n > 0) {
			line += n;
			len -= (size_t)n;
		}
	}
}

/* Sends the rest of an object about the job, and empties it. */
static inline void lh_send(struct lh_job *job, struct lh_text *members)
{
	char head[64];
	struct lh_text line = {NULL, 0, 0};

	snprintf(head, sizeof(head), "{\"id\":%llu,\"claim_no\":%lu", (unsigned long long)job->id, (unsigned long)job->claim_no);
	lh_puts(&line, head);
	lh_add(&line, members->at, members->len);
	lh_puts(&line, "}\n");
	lh_write(job->pipes, line.at, line.len);
	free(line.at);
	free(members->at);
	memset(members, 0, sizeof(*members));
}

/* Whether a message about some claim is about this one. */
static inline bool lh_is(const struct lh_job *job, const char *about)
{
	return lh_number(lh_find(about, "id")) == job->id && lh_number(lh_find(about, "claim_no")) == job->claim_no;
}

static inline void lh_note_cancel(struct lh_job *job, const char *message)
{
	const char *cancel = lh_find(message, "cancel");

	if (cancel && lh_is(job, cancel) && !lh_json_string(cancel, "reason", job->reason, sizeof(job->reason)))
		snprintf(job->reason, sizeof(job->reason), "cancel");
}

/* ---- Outcomes --------------------------------------------------------------------------------------------------------------- */

static inline enum lh_outcome lh_set(struct lh_job *job, enum lh_outcome outcome)
{
	job->outcome = outcome;
	free(job->detail.at);
	memset(&job->detail, 0, sizeof(job->detail));
	return outcome;
}

static inline enum lh_outcome lh_succeeded_json(struct lh_job *job, const char *json)
{
	if (!lh_sendable(json))
		return lh_dead(job, "the result is not JSON that Leasehold can read");
	lh_set(job, LH_SUCCEEDED);
	lh_puts(&job->detail, ",\"result\":");
	lh_puts(&job->detail, json);
	for (char *p = job->detail.at; (p = strpbrk(p, "\r\n")); *p = ' ') /* they can only stand between values */
		;
	return LH_SUCCEEDED;
}

static inline enum lh_outcome lh_succeeded_text(struct lh_job *job, const char *text)
{
	lh_set(job, LH_SUCCEEDED);
	lh_puts(&job->detail, ",\"result\":");
	lh_quote(&job->detail, text, SIZE_MAX);
	return LH_SUCCEEDED;
}

static inline enum lh_outcome lh_set_error(struct lh_job *job, enum lh_outcome outcome, const char *format, va_list arguments)
{
	char error[LH_ERROR_BYTES + 8];

	vsnprintf(error, sizeof(error), format, arguments);
	lh_set(job, outcome);
	lh_puts(&job->detail, ",\"error\":");
	lh_quote(&job->detail, error, LH_ERROR_BYTES);
	return outcome;
}

static inline enum lh_outcome lh_set_delay(struct lh_job *job, const char *name, long long ms)
{
	char text[64];

	if (ms < 0 || ms > LH_DELAY_MAX_MS)
		return lh_retry(job, LH_BACKOFF, "not a delay of 0 to %lld milliseconds: %lld", LH_DELAY_MAX_MS, ms);
	snprintf(text, sizeof(text), ",\"%s\":%lld", name, ms);
	lh_puts(&job->detail, text);
	return job->outcome;
}

static inline enum lh_outcome lh_retry(struct lh_job *job, long long after_ms, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	lh_set_error(job, LH_RETRY, format, arguments);
	va_end(arguments);
	return after_ms == LH_BACKOFF ? LH_RETRY : lh_set_delay(job, "retry_after_ms", after_ms);
}

static inline enum lh_outcome lh_snooze(struct lh_job *job, long long after_ms)
{
	lh_set(job, LH_SNOOZE);
	return lh_set_delay(job, "snooze_ms", after_ms);
}

static inline enum lh_outcome lh_dead(struct lh_job *job, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	lh_set_error(job, LH_DEAD, format, arguments);
	va_end(arguments);
	return LH_DEAD;
}

static inline enum lh_outcome lh_stopped(struct lh_job *job)
{
	return lh_set(job, LH_CANCELLED);
}

static inline enum lh_outcome lh_failed(const struct lh_job *job)
{
	return job->outcome;
}

/* ---- What a handler may do on the way ---------------------------------------------------------------------------------------- */

static inline void lh_progress(struct lh_job *job, double percent, const char *note)
{
	struct lh_text message = {NULL, 0, 0};
	char text[48];
	int hundredths = percent >= 100 ? 10000 : percent > 0 ? (int)(percent * 100 + 0.5) : 0;

	/* Not %f: its point depends on the locale. */
	snprintf(text, sizeof(text), ",\"progress\":%d.%02d", hundredths / 100, hundredths % 100);
	lh_puts(&message, text);
	if (note) {
		lh_puts(&message, ",\"note\":");
		lh_quote(&message, note, LH_NOTE_BYTES);
	}
	lh_send(job, &message);
}

static inline void lh_note(struct lh_job *job, const char *note)
{
	struct lh_text message = {NULL, 0, 0};

	lh_puts(&message, ",\"note\":");
	lh_quote(&message, note, LH_NOTE_BYTES);
	lh_send(job, &message);
}

static inline const char *lh_cancelled(struct lh_job *job)
{
	char *message;

	while (!job->reason[0] && (message = lh_receive(job->pipes, false)))
		lh_note_cancel(job, message);
	return job->reason[0] ? job->reason : NULL;
}

static inline const char *lh_saved(const struct lh_job *job, const char *name)
{
	const struct lh_step *step = job->steps;

	while (step && strcmp(step->name, name) != 0)
		step = step->next;
	return step ? step->data : NULL;
}

static inline void lh_keep(struct lh_job *job, const char *name, size_t name_len, const char *data, size_t data_len)
{
	struct lh_step *step = lh_grow(NULL, sizeof(*step));

	snprintf(step->name, sizeof(step->name), "%.*s", (int)name_len, name);
	step->data = lh_copy(data, data_len);
	step->next = job->steps;
	job->steps = step;
}

/* Waits for the answer to the step that was sent. */
static inline bool lh_await_saved(struct lh_job *job, const char *name)
{
	char *message, why[256], about[65];
	const char *answer, *saved;

	while ((message = lh_receive(job->pipes, true))) {
		lh_note_cancel(job, message);
		answer = lh_find(message, "step");
		if (!answer || !lh_is(job, answer))
			continue;
		if (!lh_json_string(answer, "name", about, sizeof(about)) || strcmp(about, name) != 0)
			continue;
		saved = lh_find(answer, "saved");
		if (saved && *saved == 't')
			return true;
		if (!lh_json_string(answer, "why", why, sizeof(why)))
			snprintf(why, sizeof(why), "no reason given");
		lh_retry(job, LH_BACKOFF, "step %s was not saved: %s", name, why);
		return false;
	}
	lh_retry(job, LH_BACKOFF, "step %s was not saved: Leasehold is gone", name);
	return false;
}

static inline bool lh_save(struct lh_job *job, const char *name, const char *json)
{
	static const char may[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-";
	struct lh_text message = {NULL, 0, 0};
	size_t len = strlen(name);

	if (len == 0 || len > 64 || strspn(name, may) != len) {
		lh_retry(job, LH_BACKOFF, "not a name for a step: %s", name);
		return false;
	}
	if (!lh_sendable(json)) {
		lh_dead(job, "step %s is not JSON that Leasehold can read", name);
		return false;
	}
	lh_puts(&message, ",\"step\":\"");
	lh_puts(&message, name);
	lh_puts(&message, "\",\"data\":");
	lh_puts(&message, json);
	for (char *p = message.at; (p = strpbrk(p, "\r\n")); *p = ' ')
		;
	lh_send(job, &message);
	if (!lh_await_saved(job, name))
		return false;
	lh_keep(job, name, len, json, strlen(json));
	return true;
}

static inline const char *lh_step(struct lh_job *job, const char *name, lh_work *work, void *context)
{
	const char *saved = lh_saved(job, name);
	char *data = saved ? NULL : work(job, context);

	if (data && lh_save(job, name, data))
		saved = lh_saved(job, name);
	free(data);
	return saved;
}

/* ---- The loop --------------------------------------------------------------------------------------------------------------- */

static inline void lh_read_job(struct lh_job *job, struct lh_pipes *pipes, const char *object)
{
	const char *steps = lh_find(object, "steps");
	struct lh_member step;

	memset(job, 0, sizeof(*job));
	job->pipes = pipes;
	job->outcome = LH_RETRY;
	job->id = lh_number(lh_find(object, "id"));
	job->claim_no = (uint32_t)lh_number(lh_find(object, "claim_no"));
	job->attempt = (unsigned int)lh_number(lh_find(object, "attempt"));
	job->max_attempts = (unsigned int)lh_number(lh_find(object, "max_attempts"));
	job->lease_ms = lh_number(lh_find(object, "lease_ms"));
	job->timeout_ms = lh_number(lh_find(object, "timeout_ms"));
	job->kind = job->owned[0] = lh_unquote(lh_find(object, "kind"), NULL);
	job->queue = job->owned[1] = lh_unquote(lh_find(object, "queue"), NULL);
	job->lease_id = job->owned[2] = lh_unquote(lh_find(object, "lease_id"), NULL);
	job->traceparent = job->owned[3] = lh_unquote(lh_find(object, "traceparent"), NULL);
	job->payload = job->owned[4] = lh_unquote(lh_find(object, "payload"), &job->payload_len);
	if (!job->kind || !job->payload)
		lh_quit("this is no job: ", object);
	while (steps && *steps && lh_next(&steps, &step))
		lh_keep(job, step.name, step.name_len, step.value, (size_t)(step.end - step.value));
}

static inline void lh_free_job(struct lh_job *job)
{
	for (size_t i = 0; i < sizeof(job->owned) / sizeof(job->owned[0]); i++)
		free(job->owned[i]);
	for (struct lh_step *step = job->steps, *next; step; step = next) {
		next = step->next;
		free(step->data);
		free(step);
	}
	free(job->detail.at);
}

/* Sends what the handler returned, with the details that it gave for it. */
static inline void lh_answer(struct lh_job *job, enum lh_outcome outcome)
{
	static const char *const names[] = {"succeeded", "retry", "snooze", "dead", "cancelled"};
	struct lh_text message = {NULL, 0, 0};

	if (outcome == LH_CANCELLED && !lh_cancelled(job))
		outcome = lh_retry(job, LH_BACKOFF, "the handler returned LH_CANCELLED, but was not asked to stop");
	else if (outcome == LH_DEAD && job->outcome != LH_DEAD)
		lh_dead(job, "the handler returned LH_DEAD");
	else if (outcome == LH_SNOOZE && job->outcome != LH_SNOOZE)
		outcome = lh_retry(job, LH_BACKOFF, "the handler returned LH_SNOOZE without lh_snooze()");
	lh_puts(&message, ",\"outcome\":\"");
	lh_puts(&message, names[outcome]);
	lh_puts(&message, "\"");
	if (outcome == job->outcome && job->detail.at)
		lh_add(&message, job->detail.at, job->detail.len);
	lh_send(job, &message);
}

static inline void lh_run(struct lh_pipes *pipes, const char *object, lh_handler *run, const struct lh_kind *kinds)
{
	struct lh_job job;

	lh_read_job(&job, pipes, object);
	for (; kinds && kinds->kind; kinds++) {
		if (strcmp(kinds->kind, job.kind) == 0)
			run = kinds->run;
	}
	lh_answer(&job, run ? run(&job) : lh_retry(&job, LH_BACKOFF, "no handler for the kind %s", job.kind));
	lh_free_job(&job);
	fflush(stdout);
}

static inline int lh_loop(lh_handler *run, const struct lh_kind *kinds)
{
	static const char hello[] = "{\"hello\":{\"protocol\":1,\"client\":\"leasehold.h 1\"}}\n";
	struct lh_pipes pipes;
	const char *message, *object;

	lh_take_stdio(&pipes);
	message = lh_receive(&pipes, true);
	if (message) {
		object = lh_find(message, "hello");
		if (!object || *object != '{' || lh_number(lh_find(object, "protocol")) != LH_PROTOCOL)
			lh_quit("speaks protocol 1, but was greeted with ", message);
		lh_write(&pipes, hello, sizeof(hello) - 1);
	}
	while (message && !pipes.gone && (message = lh_receive(&pipes, true))) {
		object = lh_find(message, "job");
		if (object) /* a request to cancel the job before may still come */
			lh_run(&pipes, object, run, kinds);
	}
	free(pipes.lines.at);
	close(pipes.in);
	close(pipes.out);
	return 0;
}

static inline int lh_serve(lh_handler *run)
{
	return lh_loop(run, NULL);
}

static inline int lh_serve_kinds(const struct lh_kind *kinds)
{
	return lh_loop(NULL, kinds);
}

#endif
