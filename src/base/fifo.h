/* fifo.h - a queue of pointers between threads (layer: base). handoff (claimer to workers) and settlements (workers to
 * completer) are each one of these.
 *
 * Intrusive: an item embeds a struct fifo_link as its FIRST member, so pushing cannot fail. The fifo owns no items. Any thread. */
#ifndef LEASEHOLD_BASE_FIFO_H
#define LEASEHOLD_BASE_FIFO_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fifo_link {
	struct fifo_link *next;
};

struct fifo {
	pthread_mutex_t lock;
	pthread_cond_t filled;   /* an item for a taker that waits */
	pthread_cond_t gathered; /* enough items for a taker that lingers */
	struct fifo_link *head, **tail;
	size_t count;
	size_t waiting, lingering; /* takers */
	size_t gather;             /* how many items a lingering taker hopes for */
	bool waking;               /* a waiting taker was woken and has not looked yet */
	bool closed;
};

void fifo_init(struct fifo *q);
void fifo_destroy(struct fifo *q); /* must be empty */
void fifo_push(struct fifo *q, struct fifo_link *item); /* also after fifo_close: what is pushed is still handed out */
void fifo_close(struct fifo *q); /* waiters return; items that are left are still handed out */
size_t fifo_count(struct fifo *q);

/* Waits until there is an item (timeout_ms < 0: without end; 0: not at all), then up to linger_ms more for the queue to hold max
 * items, and moves up to max of them to items[]. Returns how many; 0 when it timed out, or is closed and empty. */
size_t fifo_take(struct fifo *q, struct fifo_link **items, size_t max, int64_t timeout_ms, int64_t linger_ms);
bool fifo_closed(struct fifo *q);

#endif
