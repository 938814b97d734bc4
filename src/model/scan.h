/* scan.h - where the claimer looks next in a queue (layer: model; pure). One per queue and pool, owned by its claimer.
 *
 * The cursor skips index entries that are dead but not yet purged at the head of the queue. It returns to the head every
 * SCAN_HEAD_MS and after an empty result, so a more urgent job waits at most that long. The window (how many candidates are
 * read) doubles after a short claim, when others are taking the same rows, and halves after SCAN_CALM_CLAIMS full ones;
 * between batch and SCAN_WINDOW_MAX times the batch. */
#ifndef LEASEHOLD_MODEL_SCAN_H
#define LEASEHOLD_MODEL_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCAN_HEAD_MS 250
#define SCAN_CALM_CLAIMS 32
#define SCAN_WINDOW_MAX 8

struct scan_row {
	uint64_t id;
	int priority;
	char run_at[32]; /* as the server printed it: DATETIME(6) text */
	bool early;      /* ready, but its run_at is still to come */
};

struct scan_cursor {
	bool set; /* false: at the head */
	int priority;
	char run_at[32];
	uint64_t id; /* rows strictly after (priority, run_at, id) */
};

struct scan {
	struct scan_cursor cursor;
	int64_t head_ms;     /* when it last was at the head */
	unsigned int factor; /* window = batch * factor: 1, 2, 4 or 8 */
	unsigned int calm;   /* full claims in a row */
};

void scan_init(struct scan *s);

/* Before a scan: returns to the head when it is time. Returns the window for the batch. */
size_t scan_window(struct scan *s, size_t batch, int64_t now_ms);

/* Picks up to batch of n candidates: all of them when n <= batch, else a run of neighbours that starts at random % (n - batch + 1).
 * Returns the offset; *count is how many. */
size_t scan_choose(size_t n, size_t batch, uint64_t random, size_t *count);

/* After a scan that found n rows of which those from offset, count many, were sent to be claimed and won were ours. n = 0
 * returns to the head. The cursor moves past what was taken, and never past a row that nobody here tried. */
void scan_advance(struct scan *s, const struct scan_row *rows, size_t n, size_t offset, size_t count, size_t won);

/* All rows that were found are held here already, the last of them being this: the cursor moves past it. */
void scan_skip(struct scan *s, const struct scan_row *last);

#endif
