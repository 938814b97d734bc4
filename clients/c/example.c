/* example.c - archives a file: copies it, then reads the copy back. The payload is {"from": "/path", "to": "/path"}.
 *
 * The result is {"bytes": n, "crc32": "..."}. An attempt that ends between the two steps does not copy again.
 *	cc -O2 -std=c99 -o example example.c */
#define _POSIX_C_SOURCE 200809L
#include "leasehold.h"

#define EXAMPLE_BLOCK (1 << 16)

struct example {
	char from[4096], to[4096], part[4200];
	unsigned long long bytes;
	char crc32[9];	/* of the last pass */
	char copied[9]; /* of the copying, perhaps in an earlier attempt */
};

static uint32_t example_crc32(uint32_t crc, const unsigned char *bytes, size_t len)
{
	for (crc = ~crc; len > 0; len--, bytes++) {
		crc ^= *bytes;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320U : 0);
	}
	return ~crc;
}

/* Reads a file to its end, and writes it to another, if there is one. False: the outcome says why. */
static bool example_pass(struct lh_job *job, struct example *example, FILE *from, FILE *to)
{
	unsigned char block[EXAMPLE_BLOCK];
	uint32_t crc = 0;
	size_t n;

	example->bytes = 0;
	while ((n = fread(block, 1, sizeof(block), from)) > 0) {
		if (lh_cancelled(job)) {
			lh_stopped(job);
			return false;
		}
		if (to && fwrite(block, 1, n, to) < n)
			break;
		crc = example_crc32(crc, block, n);
		example->bytes += n;
	}
	if (ferror(from) || (to && (ferror(to) || fflush(to) != 0 || fsync(fileno(to)) != 0))) {
		lh_retry(job, LH_BACKOFF, "copying %s: %s", example->from, strerror(errno));
		return false;
	}
	snprintf(example->crc32, sizeof(example->crc32), "%08lx", (unsigned long)crc);
	return true;
}

static bool example_open(struct lh_job *job, const char *path, const char *mode, FILE **file)
{
	*file = fopen(path, mode);
	if (!*file)
		lh_retry(job, LH_BACKOFF, "%s: %s", path, strerror(errno));
	return *file != NULL;
}

static char *example_copy(struct lh_job *job, void *context)
{
	struct example *example = context;
	FILE *from = NULL, *to = NULL;
	char *summary = NULL;
	bool done;

	lh_progress(job, 0, "copying");
	done = example_open(job, example->from, "rb", &from) && example_open(job, example->part, "wb", &to) &&
	       example_pass(job, example, from, to);
	if (from)
		fclose(from);
	if (to)
		fclose(to);
	if (done && rename(example->part, example->to) != 0) {
		lh_retry(job, LH_BACKOFF, "%s: %s", example->to, strerror(errno));
		done = false;
	}
	if (!done && to)
		remove(example->part);
	if (done && (summary = malloc(96)))
		snprintf(summary, 96, "{\"bytes\":%llu,\"crc32\":\"%s\"}", example->bytes, example->crc32);
	return summary;
}

static char *example_verify(struct lh_job *job, void *context)
{
	struct example *example = context;
	bool done;
	FILE *from;

	lh_progress(job, 90, "reading it back");
	if (!example_open(job, example->to, "rb", &from))
		return NULL;
	done = example_pass(job, example, from, NULL);
	fclose(from);
	if (done && strcmp(example->crc32, example->copied) != 0) {
		lh_dead(job, "%s is not what was copied", example->to);
		done = false;
	}
	return done ? strdup("null") : NULL;
}

static enum lh_outcome example_archive(struct lh_job *job)
{
	struct example example;
	const char *copied;

	if (!lh_json_valid(job->payload, job->payload_len) ||
	    !lh_json_string(job->payload, "from", example.from, sizeof(example.from)) ||
	    !lh_json_string(job->payload, "to", example.to, sizeof(example.to)))
		return lh_dead(job, "the payload is not {\"from\": \"...\", \"to\": \"...\"}");
	if (access(example.from, F_OK) != 0 && access(example.to, F_OK) != 0)
		return lh_dead(job, "%s does not exist", example.from);
	snprintf(example.part, sizeof(example.part), "%s.%llu.part", example.to, (unsigned long long)job->id);
	copied = lh_step(job, "copied", example_copy, &example);
	if (copied && !lh_json_string(copied, "crc32", example.copied, sizeof(example.copied)))
		return lh_dead(job, "step copied has no crc32");
	if (!copied || !lh_step(job, "verified", example_verify, &example))
		return lh_failed(job);
	return lh_succeeded_json(job, copied);
}

int main(void)
{
	return lh_serve(example_archive);
}
