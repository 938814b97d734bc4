/* runner_left.c - see runner_left.h. */
#include "handler/runner_left.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RUNNER_LEFT_ROUNDS 16 /* how often in one call what came up from below is looked for */

void runner_left_init(struct runner_left *l)
{
	memset(l, 0, sizeof(*l));
	children_init(&l->children);
}

void runner_left_free(struct runner_left *l)
{
	children_free(&l->children);
	free(l->strangers);
	runner_left_init(l);
}

void runner_left_look(struct runner_left *l, pid_t runner)
{
	size_t kept = 0;

	if (!children_list(&l->children))
		return;
	for (size_t i = 0; i < l->children.count; i++) {
		pid_t pid = l->children.pids[i];

		if (pid == runner || waitpid(pid, NULL, WNOHANG) != pid)
			l->children.pids[kept++] = pid;
	}
	l->children.count = kept;
}

void runner_left_accept(struct runner_left *l, pid_t runner)
{
	pid_t *strangers;

	if (l->clearing)
		return;
	if (l->stranger_room < l->children.count) {
		strangers = reallocarray(l->strangers, l->children.count, sizeof(*strangers));
		if (strangers == NULL)
			return; /* the next time */
		l->strangers = strangers;
		l->stranger_room = l->children.count;
	}
	l->stranger_count = 0;
	for (size_t i = 0; i < l->children.count; i++) {
		if (l->children.pids[i] != runner)
			l->strangers[l->stranger_count++] = l->children.pids[i];
	}
}

static bool runner_left_is_ours(const struct runner_left *l, pid_t pid, pid_t runner)
{
	for (size_t i = 0; i < l->stranger_count; i++) {
		if (l->strangers[i] == pid)
			return false;
	}
	return pid != runner;
}

/* A stranger that was reaped has left the list: its number may come back as a leftover's. */
static void runner_left_forget(struct runner_left *l)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->stranger_count; i++) {
		for (size_t j = 0; j < l->children.count; j++) {
			if (l->children.pids[j] == l->strangers[i]) {
				l->strangers[kept++] = l->strangers[i];
				break;
			}
		}
	}
	l->stranger_count = kept;
}

static void runner_left_kill(const struct runner_left *l, pid_t pid, pid_t runner)
{
	pid_t group = getpgid(pid);

	(void)kill(pid, SIGKILL);
	/* In one stroke, so that a process that forks all the time is caught with what it has just made. */
	if (group > 1 && group != getpgrp() && runner_left_is_ours(l, group, runner))
		(void)kill(-group, SIGKILL);
}

bool runner_left_end(struct runner_left *l, pid_t runner)
{
	size_t left = 1, reaped = 1;

	l->clearing = true;
	for (int round = 0; round < RUNNER_LEFT_ROUNDS && left + reaped > 0; round++) {
		if (!children_list(&l->children))
			return false;
		runner_left_forget(l);
		left = reaped = 0;
		for (size_t i = 0; i < l->children.count; i++) {
			pid_t pid = l->children.pids[i];

			if (!runner_left_is_ours(l, pid, runner))
				continue;
			runner_left_kill(l, pid, runner);
			if (waitpid(pid, NULL, WNOHANG) == pid)
				reaped++;
			else
				left++;
		}
		if (reaped == 0)
			break; /* those that are left take a moment to end */
	}
	l->clearing = left + reaped > 0;
	return !l->clearing;
}
