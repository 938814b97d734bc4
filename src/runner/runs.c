/* runs.c - see runs.h. */
#include "runner/runs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RUNS_FIRST_ROOM 64

void runs_init(struct runs *t)
{
	memset(t, 0, sizeof(*t));
	leftovers_init(&t->left);
	oom_init(&t->oom);
	t->groups.fd = -1;
}

void runs_drop(struct run *run)
{
	if (run == NULL)
		return;
	if (run->status_fd >= 0)
		close(run->status_fd);
	if (run->failure_fd >= 0)
		close(run->failure_fd);
	if (run->group_fd >= 0)
		close(run->group_fd);
	free(run);
}

void runs_free(struct runs *t)
{
	for (size_t i = 0; i < t->count; i++)
		runs_drop(t->heap[i]);
	free(t->heap);
	leftovers_free(&t->left);
	oom_free(&t->oom);
	cgroup_base_close(&t->groups);
	runs_init(t);
}

static struct run **runs_number_bucket(struct runs *t, uint64_t number)
{
	return &t->by_number[number % RUNS_BUCKETS];
}

static struct run **runs_pid_bucket(struct runs *t, pid_t pid)
{
	return &t->by_pid[(size_t)pid % RUNS_BUCKETS];
}

static void runs_place(struct runs *t, struct run *run, size_t place)
{
	t->heap[place] = run;
	run->place = place;
}

static void runs_swap(struct runs *t, size_t a, size_t b)
{
	struct run *held = t->heap[a];

	runs_place(t, t->heap[b], a);
	runs_place(t, held, b);
}

static bool runs_before(const struct runs *t, size_t a, size_t b)
{
	return plan_due_ms(&t->heap[a]->plan) < plan_due_ms(&t->heap[b]->plan);
}

static void runs_sift(struct runs *t, size_t at)
{
	size_t child;

	for (; at > 0 && runs_before(t, at, (at - 1) / 2); at = (at - 1) / 2)
		runs_swap(t, at, (at - 1) / 2);
	for (; (child = 2 * at + 1) < t->count; at = child) {
		if (child + 1 < t->count && runs_before(t, child + 1, child))
			child++;
		if (!runs_before(t, child, at))
			return;
		runs_swap(t, at, child);
	}
}

struct run *runs_new(struct runs *t)
{
	struct run *run;

	if (t->count == t->room) {
		size_t room = t->room == 0 ? RUNS_FIRST_ROOM : t->room * 2;
		struct run **heap = reallocarray(t->heap, room, sizeof(*heap));

		if (heap == NULL)
			return NULL;
		t->heap = heap;
		t->room = room;
	}
	run = calloc(1, sizeof(*run));
	if (run != NULL)
		run->status_fd = run->failure_fd = run->group_fd = -1;
	return run;
}

void runs_add(struct runs *t, struct run *run)
{
	struct run **number = runs_number_bucket(t, run->number), **pid = runs_pid_bucket(t, run->pid);

	run->next_by_number = *number;
	*number = run;
	run->next_by_pid = *pid;
	*pid = run;
	runs_place(t, run, t->count++);
	runs_sift(t, run->place);
}

/* Takes the run out of the chain of its number. */
static void runs_unnumber(struct runs *t, struct run *run)
{
	struct run **at = runs_number_bucket(t, run->number);

	while (*at != run)
		at = &(*at)->next_by_number;
	*at = run->next_by_number;
}

void runs_remove(struct runs *t, struct run *run)
{
	struct run **at = runs_pid_bucket(t, run->pid);
	size_t place = run->place;

	runs_unnumber(t, run);
	while (*at != run)
		at = &(*at)->next_by_pid;
	*at = run->next_by_pid;
	t->count--;
	if (place < t->count) {
		runs_place(t, t->heap[t->count], place);
		runs_sift(t, place);
	}
	runs_drop(run);
}

void runs_renumber(struct runs *t, struct run *run, uint64_t number)
{
	struct run **bucket;

	runs_unnumber(t, run);
	run->number = number;
	bucket = runs_number_bucket(t, number);
	run->next_by_number = *bucket;
	*bucket = run;
}

struct run *runs_find(const struct runs *t, uint64_t number)
{
	struct run *run = t->by_number[number % RUNS_BUCKETS];

	while (run != NULL && run->number != number)
		run = run->next_by_number;
	return run;
}

struct run *runs_find_pid(const struct runs *t, pid_t pid)
{
	struct run *run = t->by_pid[(size_t)pid % RUNS_BUCKETS];

	while (run != NULL && run->pid != pid)
		run = run->next_by_pid;
	return run;
}

struct run *runs_first(const struct runs *t)
{
	return t->count > 0 ? t->heap[0] : NULL;
}

void runs_moved(struct runs *t, struct run *run)
{
	runs_sift(t, run->place);
}
