/* fuzz_stream.c - any line of a stream handler: it is a message whose parts are within their bounds, or refused with a reason. */
#include "fuzz.h"

#include "base/utf8.h"
#include "handler/lines.h"
#include "handler/stream_message.h"

#include <string.h>

#define LINE_MAX_BYTES 4096

static void hold(const struct stream_message *m)
{
	FUZZ_HOLDS(!(m->percent > 100));
	FUZZ_HOLDS(m->delay_ms >= -1 && m->delay_ms <= JSON_READ_DELAY_MAX_MS);
	FUZZ_HOLDS(utf8_valid(m->note, strlen(m->note)) && strlen(m->note) <= JSON_READ_NOTE_BYTES);
	FUZZ_HOLDS(utf8_valid(m->error, strlen(m->error)) && strlen(m->error) <= STREAM_ERROR_MAX);
	FUZZ_HOLDS(utf8_valid(m->client, strlen(m->client)) && strlen(m->client) <= STREAM_CLIENT_MAX);
	FUZZ_HOLDS(m->outcome <= STREAM_CANCELLED);
	FUZZ_HOLDS(!m->hello || m->outcome == STREAM_NO_OUTCOME);
}

static void take_line(void *owner, const char *bytes, size_t len)
{
	char why[JSON_READ_WHY_SIZE] = "";
	struct stream_message m;

	(void)owner;
	FUZZ_HOLDS(len > 0 && len <= LINE_MAX_BYTES && memchr(bytes, '\n', len) == NULL);
	if (stream_message_read(&m, bytes, len, why))
		hold(&m);
	else
		FUZZ_HOLDS(why[0] != '\0');
	stream_message_free(&m);
}

static void too_long(void *owner)
{
	(void)owner;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *bytes = (const char *)data;
	size_t piece = size > 0 ? data[0] % 61 + 1u : 1;
	struct lines lines;

	lines_init(&lines, LINE_MAX_BYTES);
	lines.take = take_line;
	lines.too_long = too_long;
	for (size_t at = 0, n; at < size; at += n) {
		n = size - at < piece ? size - at : piece;
		lines_feed(&lines, bytes + at, n);
	}
	lines_end(&lines);
	lines_free(&lines);
	return 0;
}
