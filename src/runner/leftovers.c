/* leftovers.c - see leftovers.h. */
#include "runner/leftovers.h"

#include "base/log.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEFTOVERS_ROUNDS 8 /* how often in one sweep new ones are looked for */

void leftovers_init(struct leftovers *l)
{
	memset(l, 0, sizeof(*l));
	children_init(&l->children);
}

void leftovers_free(struct leftovers *l)
{
	children_free(&l->children);
	free(l->known);
	free(l->before);
	leftovers_init(l);
}

static bool leftovers_reserve(struct leftovers *l, size_t count)
{
	struct leftover *known, *before;

	if (count <= l->room)
		return true;
	known = reallocarray(l->known, count, sizeof(*known));
	if (known == NULL)
		return false;
	l->known = known;
	before = reallocarray(l->before, count, sizeof(*before));
	if (before == NULL)
		return false;
	l->before = before;
	l->room = count;
	return true;
}

/* Takes over the list, and from the last one since when each was known. Both are in the same order, so one pass is enough; one
 * that is not found in it counts as new. Returns how many are new. */
static size_t leftovers_take(struct leftovers *l, bool (*spared)(const void *arg, pid_t pid), const void *arg)
{
	size_t old_count = l->count, at = 0, fresh = 0;
	struct leftover *old = l->known;

	l->known = l->before;
	l->before = old;
	l->count = 0;
	for (size_t i = 0; i < l->children.count; i++) {
		pid_t pid = l->children.pids[i];
		size_t next = at;

		if (spared(arg, pid))
			continue;
		while (next < old_count && old[next].pid != pid)
			next++;
		if (next < old_count) {
			l->known[l->count++] = old[next];
			at = next + 1;
		} else {
			l->known[l->count++] = (struct leftover){.pid = pid, .sweep = l->sweeps};
			fresh++;
		}
	}
	return fresh;
}

/* Its number cannot become another's before we reap it, and that of its group not before either. The group in one stroke: a
 * process that forks all the time is caught with what it has just made. */
static void leftovers_kill(pid_t pid, bool (*spared)(const void *arg, pid_t pid), const void *arg)
{
	pid_t group = getpgid(pid);

	(void)kill(pid, SIGKILL);
	if (group > 1 && group != getpgrp() && !spared(arg, group))
		(void)kill(-group, SIGKILL);
}

static bool leftovers_look(struct leftovers *l)
{
	l->failed = !children_list(&l->children) || !leftovers_reserve(l, l->children.count);
	if (l->failed && l->children.absent && !l->told) {
		l->told = true;
		log_warn("runner", "the processes that handlers leave behind cannot be seen, because there is no /proc: those "
				   "that left their process group are not ended");
	}
	return !l->failed;
}

void leftovers_sweep(struct leftovers *l, bool (*spared)(const void *arg, pid_t pid), const void *arg)
{
	size_t fresh = 1;

	l->sweeps++;
	for (int round = 0; round < LEFTOVERS_ROUNDS && fresh > 0; round++) {
		if (!leftovers_look(l))
			return;
		fresh = leftovers_take(l, spared, arg);
		for (size_t i = 0; i < l->count; i++)
			leftovers_kill(l->known[i].pid, spared, arg);
	}
}

void leftovers_open(const struct leftovers *l, struct leftovers_window *w)
{
	*w = (struct leftovers_window){.first = l->sweeps, .last = l->sweeps, .waiting = true};
}

bool leftovers_wait(const struct leftovers *l, struct leftovers_window *w)
{
	if (l->failed)
		return w->waiting = w->waiting && !l->children.absent;
	if (!w->waiting)
		return false;
	/* Those that were left at the last sweep may have ended since, and this one may have found their children. */
	w->last = l->sweeps;
	w->waiting = false;
	for (size_t i = 0; i < l->count && !w->waiting; i++)
		w->waiting = l->known[i].sweep >= w->first && l->known[i].sweep <= w->last;
	return w->waiting;
}
