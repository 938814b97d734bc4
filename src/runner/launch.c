/* launch.c - see launch.h. */
#include "runner/launch.h"

#include "runner/child.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static void launch_refuse(const struct runner_received *start, enum runner_stage stage, int error)
{
	struct runner_report report = {.news = RUNNER_NOT_STARTED, .error = error};

	report.stage = error == 0 ? RUNNER_STAGE_NONE : (uint32_t)stage;
	runner_tell(start->fds[RUNNER_FD_STATUS], &report);
}

/* Why a run cannot even be tried; 0 when it can. */
static int launch_obstacle(const struct runs *runs, const struct runner_received *start)
{
	for (int i = 0; i < RUNNER_FDS; i++) {
		if (start->fds[i] < 0)
			return EMFILE;
	}
	return runs_find(runs, start->command.run) == NULL ? 0 : EEXIST;
}

/* Returns 0 or errno. A limit that cannot be set is no limit, so then nothing is started. */
static int launch_group(struct runs *runs, struct run *run, const struct runner_received *start)
{
	const struct runner_command *command = &start->command;

	if (command->group_memory <= 0 && command->group_cpu <= 0 && !runs->groups.always)
		return 0;
	if (runs->groups.fd < 0)
		return ENODEV;
	run->group = run->number;
	return cgroup_make(&runs->groups, run->group, command->group_memory, command->group_cpu, &run->group_fd);
}

/* Returns 0 or errno. */
static int launch_fork(struct run *run, const struct runner_received *start, const struct rlimit *files)
{
	struct child child = {.start = start, .parent = getpid(), .started_ms = run->plan.started_ms, .files = files,
			      .group_fd = run->group_fd};
	int failure[2];

	if (pipe2(failure, O_CLOEXEC | O_NONBLOCK) != 0)
		return errno;
	run->failure_fd = failure[0];
	child.failure_fd = failure[1];
	run->pid = fork();
	if (run->pid == 0)
		child_become(&child);
	if (run->pid < 0) {
		int error = errno;

		close(failure[1]);
		return error;
	}
	close(failure[1]);
	return 0;
}

static void launch_drop(const struct runs *runs, struct run *run)
{
	if (run != NULL && run->group_fd >= 0) {
		cgroup_remove(&runs->groups, run->group, run->group_fd);
		run->group_fd = -1;
	}
	runs_drop(run);
}

void launch_run(struct runs *runs, struct runner_received *start, int64_t now_ms, const struct rlimit *files)
{
	const struct runner_command *command = &start->command;
	enum runner_stage stage = RUNNER_STAGE_FORK;
	struct run *run = NULL;
	int error;

	if (command->kill_at_ms <= now_ms) {
		launch_refuse(start, RUNNER_STAGE_NONE, 0);
		return;
	}
	error = launch_obstacle(runs, start);
	if (error == 0) {
		run = runs_new(runs);
		error = run == NULL ? ENOMEM : 0;
	}
	if (error == 0) {
		run->number = command->run;
		run->oom_before = oom_count_about(&runs->oom, now_ms);
		plan_init(&run->plan, now_ms, command->kill_at_ms, command->timeout_ms, command->grace_ms);
		run->plan.ask_ms = command->ask_ms;
		stage = RUNNER_STAGE_GROUP;
		error = launch_group(runs, run, start);
	}
	if (error == 0) {
		stage = RUNNER_STAGE_FORK;
		error = launch_fork(run, start, files);
	}
	if (error != 0) {
		launch_refuse(start, stage, error);
		launch_drop(runs, run);
		return;
	}
	run->status_fd = start->fds[RUNNER_FD_STATUS];
	start->fds[RUNNER_FD_STATUS] = -1;
	runs_add(runs, run);
}
