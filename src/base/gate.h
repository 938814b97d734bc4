/* gate.h - how a thread sleeps: until a time has passed, somebody nudges it, or it is told to stop (layer: base).
 *
 * A mutex, a condition variable on CLOCK_MONOTONIC, a nudge flag and a stop flag. One thread waits; any thread nudges or
 * stops. A nudge that comes while nobody waits is kept for the next wait. Nothing else happens under its lock. */
#ifndef LEASEHOLD_BASE_GATE_H
#define LEASEHOLD_BASE_GATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct gate {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool nudged;
	bool stopped;
};

void gate_init(struct gate *g);
void gate_destroy(struct gate *g);
void gate_nudge(struct gate *g);
void gate_stop(struct gate *g); /* for good */
bool gate_stopped(struct gate *g);
/* Sleeps up to timeout_ms (< 0: without end). Returns false once stopped, at once then and ever after; true otherwise. */
bool gate_wait(struct gate *g, int64_t timeout_ms);

#endif
