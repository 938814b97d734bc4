/* fuzz_messages.c - any datagram on the runner's socket: it is a command whose parts all lie within it, or it is refused. */
#include "fuzz.h"

#include "runner/messages.h"

#include <string.h>

/* The first byte of the input chooses: the bytes as they are, or behind a header that is right but for its counts, so that the
 * strings are reached. */
enum { RAW = 0, HEADER_BYTES = 4 };

static size_t compose(char *out, const uint8_t *data, size_t size)
{
	struct runner_command command = {.verb = data[0] % 8u, .reason = data[1] % 8u, .group_count = data[1] % 16u};

	command.argc = data[2] % 32u;
	command.envc = data[3] % 32u;
	memcpy(out, &command, sizeof(command));
	memcpy(out + sizeof(command), data + HEADER_BYTES, size - HEADER_BYTES);
	return sizeof(command) + size - HEADER_BYTES;
}

/* Reads every byte that the command points to: a sanitizer sees one that lies outside. */
static size_t walk(const struct runner_received *r)
{
	size_t sum = r->cwd == NULL ? 0 : strlen(r->cwd);

	for (uint32_t i = 0; i < r->command.group_count; i++)
		sum += r->groups[i];
	for (uint32_t i = 0; i < r->command.argc; i++)
		sum += strlen(r->argv[i]);
	for (uint32_t i = 0; i < r->command.envc; i++)
		sum += strlen(r->env[i]);
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct runner_received received;
	size_t len;
	char *bytes;

	if (size < HEADER_BYTES)
		return 0;
	/* Exactly as large as the message, so that the first byte too far is seen. */
	len = data[0] == RAW ? size - 1 : sizeof(struct runner_command) + size - HEADER_BYTES;
	bytes = malloc(len);
	FUZZ_HOLDS(bytes != NULL);
	if (data[0] == RAW)
		memcpy(bytes, data + 1, len);
	else
		FUZZ_HOLDS(compose(bytes, data, size) == len);
	if (runner_decode(bytes, len, &received)) {
		FUZZ_HOLDS(received.command.grace_ms >= 0);
		if (received.command.verb == RUNNER_START) {
			FUZZ_HOLDS(received.argv[0][0] != '\0' && received.argv[received.command.argc] == NULL &&
				   received.env[received.command.envc] == NULL);
			FUZZ_HOLDS(walk(&received) < SIZE_MAX);
		}
		runner_received_free(&received);
	}
	free(bytes);
	return 0;
}
