/* fuzz_control.c - any bytes on descriptor 3: nothing is read beyond them, what is kept is bounded text, and it makes no
 * difference in which pieces they arrive. */
#include "fuzz.h"

#include "base/utf8.h"
#include "handler/control.h"

#include <string.h>

#define MAX_RESULT 4096

static void hear_progress(void *owner, double percent, const char *note)
{
	(void)owner;
	FUZZ_HOLDS(!(percent > 100));
	FUZZ_HOLDS(note == NULL || utf8_valid(note, strlen(note)));
}

static void hear_complaint(void *owner, const char *why)
{
	(void)owner;
	FUZZ_HOLDS(why[0] != '\0');
}

static void listen_to(struct control *c, const char *bytes, size_t size, size_t piece)
{
	control_init(c, MAX_RESULT);
	c->progress = hear_progress;
	c->complain = hear_complaint;
	for (size_t at = 0, n; at < size; at += n) {
		n = size - at < piece ? size - at : piece;
		control_feed(c, bytes + at, n);
	}
	control_end(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *bytes = (const char *)data;
	struct control whole, pieces;

	listen_to(&whole, bytes, size, size + 1);
	listen_to(&pieces, bytes, size, size > 0 ? data[0] % 7 + 1u : 1);
	FUZZ_HOLDS(whole.result.len <= MAX_RESULT && utf8_valid(whole.result.data, whole.result.len));
	FUZZ_HOLDS(whole.asked.retry_after_ms >= -1 && whole.asked.snooze_ms >= -1);
	FUZZ_HOLDS(memchr(whole.asked.dead_reason, '\0', sizeof(whole.asked.dead_reason)) != NULL);
	FUZZ_HOLDS(whole.has_result == pieces.has_result && whole.result.len == pieces.result.len);
	FUZZ_HOLDS(memcmp(whole.result.data, pieces.result.data, whole.result.len) == 0);
	FUZZ_HOLDS(whole.asked.retry_after_ms == pieces.asked.retry_after_ms && whole.asked.snooze_ms == pieces.asked.snooze_ms);
	FUZZ_HOLDS(whole.asked.dead == pieces.asked.dead && strcmp(whole.asked.dead_reason, pieces.asked.dead_reason) == 0);
	control_free(&whole);
	control_free(&pieces);
	return 0;
}
