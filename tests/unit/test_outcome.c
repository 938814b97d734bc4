/* test_outcome.c - every way a handler can end, and what it is called. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/utf8.h"
#include "model/outcome.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A run that exited, whose group is gone, that nobody ended and that asked for nothing. */
static struct run_facts exited(int exit_code)
{
	struct run_facts facts = {.end = RUN_EXITED, .exited = true, .exit_code = exit_code, .group_gone = true};

	facts.asked.retry_after_ms = -1;
	facts.asked.snooze_ms = -1;
	return facts;
}

static struct run_facts killed(int signal_number)
{
	struct run_facts facts = exited(0);

	facts.exited = false;
	facts.signal = signal_number;
	return facts;
}

static void check(const struct run_facts *facts, enum outcome_kind kind, int64_t delay_ms, const char *cause)
{
	struct outcome out;

	memset(&out, 'x', sizeof(out));
	outcome_decide(facts, &out);
	assert_string_equal(outcome_name(out.kind), outcome_name(kind));
	assert_int_equal(out.delay_ms, delay_ms);
	assert_string_equal(out.cause, cause);
}

static void test_every_exit_status(void **state)
{
	(void)state;
	for (int code = 0; code < 256; code++) {
		struct run_facts facts = exited(code);
		char cause[32] = "";

		if (code != 0)
			snprintf(cause, sizeof(cause), "exit status %d", code);
		check(&facts, code == 0 ? OUTCOME_SUCCEEDED : code == 65 ? OUTCOME_DEAD : OUTCOME_RETRY, -1, cause);
	}
}

static void test_out_of_memory(void **state)
{
	static const char meanwhile[] = "probably out of memory: the kernel ended a process for want of memory meanwhile";
	struct run_facts facts = killed(SIGKILL);
	char cause[160];

	(void)state;
	facts.oom = RUN_OOM_CERTAIN;
	check(&facts, OUTCOME_RETRY, -1, "killed by SIGKILL: out of memory");
	facts.reason = END_TIMEOUT;
	check(&facts, OUTCOME_TIMED_OUT, -1, "timed out: killed by SIGKILL: out of memory");
	facts = killed(SIGKILL);
	facts.oom = RUN_OOM_PROBABLY;
	snprintf(cause, sizeof(cause), "killed by SIGKILL, %s", meanwhile);
	check(&facts, OUTCOME_RETRY, -1, cause);
	facts = exited(137);
	facts.oom = RUN_OOM_PROBABLY;
	snprintf(cause, sizeof(cause), "exit status 137, %s", meanwhile);
	check(&facts, OUTCOME_RETRY, -1, cause);
	facts = exited(65);
	facts.oom = RUN_OOM_CERTAIN;
	check(&facts, OUTCOME_DEAD, -1, "exit status 65: out of memory");
	/* A handler that could do without the process is the judge of that. */
	facts = exited(0);
	facts.oom = RUN_OOM_CERTAIN;
	check(&facts, OUTCOME_SUCCEEDED, -1, "");
}

static void test_every_signal(void **state)
{
	static const struct {
		int number;
		const char *name;
	} table[] = {
		{SIGHUP, "SIGHUP"}, {SIGINT, "SIGINT"}, {SIGQUIT, "SIGQUIT"}, {SIGILL, "SIGILL"}, {SIGTRAP, "SIGTRAP"},
		{SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"}, {SIGFPE, "SIGFPE"}, {SIGKILL, "SIGKILL"}, {SIGUSR1, "SIGUSR1"},
		{SIGSEGV, "SIGSEGV"}, {SIGUSR2, "SIGUSR2"},
		{SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"}, {SIGCHLD, "SIGCHLD"}, {SIGCONT, "SIGCONT"},
		{SIGSTOP, "SIGSTOP"}, {SIGTSTP, "SIGTSTP"}, {SIGTTIN, "SIGTTIN"}, {SIGTTOU, "SIGTTOU"}, {SIGURG, "SIGURG"},
		{SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"}, {SIGVTALRM, "SIGVTALRM"}, {SIGPROF, "SIGPROF"}, {SIGWINCH, "SIGWINCH"},
		{SIGIO, "SIGIO"}, {SIGPWR, "SIGPWR"}, {SIGSYS, "SIGSYS"}, {SIGSTKFLT, "SIGSTKFLT"},
		{0, "signal 0"}, {-1, "signal -1"}, {32, "signal 32"}, {34, "signal 34"}, {64, "signal 64"}, {99, "signal 99"},
		{INT32_MAX, "signal 2147483647"},
	};
	char buffer[32], cause[64];
	unsigned int named = 0;

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct run_facts facts = killed(table[i].number);

		assert_string_equal(outcome_signal_name(table[i].number, buffer, sizeof(buffer)), table[i].name);
		snprintf(cause, sizeof(cause), "killed by %s", table[i].name);
		check(&facts, OUTCOME_RETRY, -1, cause);
		facts.core_dumped = true;
		snprintf(cause, sizeof(cause), "killed by %s (core dumped)", table[i].name);
		check(&facts, OUTCOME_RETRY, -1, cause);
	}
	for (int number = 1; number <= 31; number++)
		named += strncmp(outcome_signal_name(number, buffer, sizeof(buffer)), "SIG", 3) == 0;
	assert_int_equal(named, 31);
}

static void test_exec_failures(void **state)
{
	static const struct {
		int number;
		const char *stage, *cause;
	} table[] = {
		{ENOENT, "execve", "cannot start the handler: execve: No such file or directory"},
		{EACCES, "execve", "cannot start the handler: execve: Permission denied"},
		{E2BIG, "execve", "cannot start the handler: execve: Argument list too long"},
		{ENOEXEC, "execve", "cannot start the handler: execve: Exec format error"},
		{ENOENT, "chdir", "cannot start the handler: chdir: No such file or directory"},
		{EPERM, "setuid", "cannot start the handler: setuid: Operation not permitted"},
		{EAGAIN, "fork", "cannot start the handler: fork: Resource temporarily unavailable"},
		{ENOENT, NULL, "cannot start the handler: execve: No such file or directory"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct run_facts facts = exited(127); /* how the failed child left */

		facts.end = RUN_EXEC_FAILED;
		facts.exec_errno = table[i].number;
		facts.exec_stage = table[i].stage;
		facts.group_gone = false; /* nothing ran that could be left */
		check(&facts, OUTCOME_RETRY, -1, table[i].cause);
		facts.exit_code = 0; /* a failed exec never is a success */
		check(&facts, OUTCOME_RETRY, -1, table[i].cause);
		facts.exit_code = 65;
		check(&facts, OUTCOME_RETRY, -1, table[i].cause);
	}
}

/* Who asked for the end, against how it then ended. */
static void test_reasons(void **state)
{
	static const struct {
		enum end_reason reason;
		int exit_code; /* -1: killed by SIGTERM */
		enum outcome_kind kind;
		const char *cause;
	} table[] = {
		{END_TIMEOUT, -1, OUTCOME_TIMED_OUT, "timed out: killed by SIGTERM"},
		{END_TIMEOUT, 1, OUTCOME_TIMED_OUT, "timed out: exit status 1"},
		{END_TIMEOUT, 65, OUTCOME_TIMED_OUT, "timed out: exit status 65"},
		{END_TIMEOUT, 0, OUTCOME_SUCCEEDED, ""},
		{END_CANCEL, -1, OUTCOME_CANCELLED, "cancelled on request: killed by SIGTERM"},
		{END_CANCEL, 65, OUTCOME_CANCELLED, "cancelled on request: exit status 65"},
		{END_CANCEL, 0, OUTCOME_SUCCEEDED, ""},
		{END_SHUTDOWN, -1, OUTCOME_RELEASED, "ended by a shutdown: killed by SIGTERM"},
		{END_SHUTDOWN, 65, OUTCOME_RELEASED, "ended by a shutdown: exit status 65"},
		{END_SHUTDOWN, 0, OUTCOME_SUCCEEDED, ""},
		{END_LEASE, -1, OUTCOME_LEASE_LOST, "the lease was lost: killed by SIGTERM"},
		{END_LEASE, 65, OUTCOME_LEASE_LOST, "the lease was lost: exit status 65"},
		{END_LEASE, 0, OUTCOME_LEASE_LOST, "the lease was lost: exit status 0"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct run_facts facts = table[i].exit_code < 0 ? killed(SIGTERM) : exited(table[i].exit_code);

		facts.reason = table[i].reason;
		check(&facts, table[i].kind, -1, table[i].cause);
	}
}

/* What the control channel said, against who ended the run and how. */
static void test_requests(void **state)
{
	static const struct {
		int64_t retry_after_ms, snooze_ms;
		const char *dead; /* NULL: not said */
		enum end_reason reason;
		int exit_code;
		enum outcome_kind kind;
		int64_t delay_ms;
		const char *cause;
	} table[] = {
		{-1, -1, "no such customer", END_NONE, 0, OUTCOME_DEAD, -1, "no such customer"},
		{-1, -1, "no such customer", END_NONE, 1, OUTCOME_DEAD, -1, "no such customer"},
		{-1, -1, "", END_NONE, 75, OUTCOME_DEAD, -1, "the handler gave the job up (exit status 75)"},
		{5000, 7000, "first", END_NONE, 0, OUTCOME_DEAD, -1, "first"},
		{5000, 7000, NULL, END_NONE, 0, OUTCOME_SNOOZE, 7000, "the handler asked to be called later"},
		{-1, 0, NULL, END_NONE, 1, OUTCOME_SNOOZE, 0, "the handler asked to be called later"},
		{-1, 7000, NULL, END_NONE, 65, OUTCOME_SNOOZE, 7000, "the handler asked to be called later"},
		{5000, -1, NULL, END_NONE, 1, OUTCOME_RETRY, 5000, "exit status 1"},
		{5000, -1, NULL, END_NONE, 0, OUTCOME_RETRY, 5000, "the handler asked for another attempt"},
		{5000, -1, NULL, END_NONE, 65, OUTCOME_RETRY, 5000, "exit status 65"},
		{0, -1, NULL, END_NONE, 75, OUTCOME_RETRY, 0, "exit status 75"},
		{INT64_MAX, -1, NULL, END_NONE, 75, OUTCOME_RETRY, INT64_MAX, "exit status 75"},
		/* Whoever ended the run goes before; a clean exit that asked otherwise is no success. */
		{-1, -1, "why", END_TIMEOUT, 0, OUTCOME_TIMED_OUT, -1, "timed out: exit status 0"},
		{5000, -1, NULL, END_TIMEOUT, 1, OUTCOME_TIMED_OUT, -1, "timed out: exit status 1"},
		{5000, -1, NULL, END_SHUTDOWN, 0, OUTCOME_RELEASED, -1, "ended by a shutdown: exit status 0"},
		{-1, 7000, NULL, END_CANCEL, 0, OUTCOME_CANCELLED, -1, "cancelled on request: exit status 0"},
		{-1, -1, "why", END_LEASE, 0, OUTCOME_LEASE_LOST, -1, "the lease was lost: exit status 0"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct run_facts facts = exited(table[i].exit_code);

		facts.reason = table[i].reason;
		facts.asked.retry_after_ms = table[i].retry_after_ms;
		facts.asked.snooze_ms = table[i].snooze_ms;
		facts.asked.dead = table[i].dead != NULL;
		if (table[i].dead != NULL)
			snprintf(facts.asked.dead_reason, sizeof(facts.asked.dead_reason), "%s", table[i].dead);
		check(&facts, table[i].kind, table[i].delay_ms, table[i].cause);
	}
}

static void test_requests_of_a_killed_handler(void **state)
{
	struct run_facts facts = killed(SIGSEGV);

	(void)state;
	facts.asked.retry_after_ms = 5000;
	check(&facts, OUTCOME_RETRY, 5000, "killed by SIGSEGV");
	facts.asked.dead = true;
	check(&facts, OUTCOME_DEAD, -1, "the handler gave the job up (killed by SIGSEGV)");
}

static void test_never_started(void **state)
{
	(void)state;
	for (unsigned int reason = 0; reason < END_REASONS; reason++) {
		struct run_facts facts = exited(0);

		facts.end = RUN_NOT_STARTED;
		facts.reason = (enum end_reason)reason;
		facts.group_gone = false;
		check(&facts, OUTCOME_RELEASED, -1, "the handler was never started");
	}
}

static void test_runner_lost(void **state)
{
	static const enum outcome_kind kinds[END_REASONS] = {
		[END_NONE] = OUTCOME_RETRY,
		[END_TIMEOUT] = OUTCOME_TIMED_OUT,
		[END_LEASE] = OUTCOME_LEASE_LOST,
		[END_CANCEL] = OUTCOME_CANCELLED,
		[END_SHUTDOWN] = OUTCOME_RELEASED,
	};
	struct outcome out;

	(void)state;
	for (unsigned int reason = 0; reason < END_REASONS; reason++) {
		struct run_facts facts = exited(0); /* an exit status that nobody saw is no success */

		facts.end = RUN_RUNNER_LOST;
		facts.reason = (enum end_reason)reason;
		outcome_decide(&facts, &out);
		assert_int_equal(out.kind, kinds[reason]);
		assert_non_null(strstr(out.cause, "the runner process died"));
	}
}

/* While something of the group may live, the job must not run again; where it would not run again, nothing changes. */
static void test_group_not_gone(void **state)
{
	static const struct {
		int exit_code;
		enum end_reason reason;
		enum outcome_kind kind;
	} table[] = {
		{0, END_NONE, OUTCOME_SUCCEEDED},
		{65, END_NONE, OUTCOME_DEAD},
		{1, END_CANCEL, OUTCOME_CANCELLED},
		{1, END_NONE, OUTCOME_LEASE_LOST},
		{1, END_TIMEOUT, OUTCOME_LEASE_LOST},
		{1, END_SHUTDOWN, OUTCOME_LEASE_LOST},
	};
	struct run_facts facts;
	struct outcome out;

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		facts = exited(table[i].exit_code);
		facts.reason = table[i].reason;
		facts.group_gone = false;
		outcome_decide(&facts, &out);
		assert_string_equal(outcome_name(out.kind), outcome_name(table[i].kind));
	}
	facts = exited(0);
	facts.asked.snooze_ms = 10;
	facts.group_gone = false;
	check(&facts, OUTCOME_LEASE_LOST, -1, "processes of the handler may still run; its lease is left to lapse: exit status 0");
}

/* The reason comes from outside: one line, whole characters, within the bound, whatever it holds. */
static void test_hostile_dead_reason(void **state)
{
	struct run_facts facts = exited(1);
	struct outcome out;

	(void)state;
	facts.asked.dead = true;
	memset(facts.asked.dead_reason, 'a', sizeof(facts.asked.dead_reason)); /* without a NUL, and cut inside a character */
	facts.asked.dead_reason[sizeof(facts.asked.dead_reason) - 1] = '\xe2';
	outcome_decide(&facts, &out);
	assert_int_equal(strlen(out.cause), sizeof(facts.asked.dead_reason) - 1);
	assert_true(utf8_valid(out.cause, strlen(out.cause)));
	snprintf(facts.asked.dead_reason, sizeof(facts.asked.dead_reason), "two\nlines\x1b[1m\x7f caf\xc3\xa9");
	check(&facts, OUTCOME_DEAD, -1, "two lines [1m  caf\xc3\xa9");
}

static void test_names(void **state)
{
	static const char *const kinds[OUTCOME_KINDS] = {"succeeded", "retry",     "snooze",     "dead",
							 "timed_out", "cancelled", "lease_lost", "released"};
	static const char *const reasons[END_REASONS] = {"none", "timeout", "lease", "cancel", "shutdown"};

	(void)state;
	for (unsigned int i = 0; i < OUTCOME_KINDS; i++)
		assert_string_equal(outcome_name((enum outcome_kind)i), kinds[i]);
	for (unsigned int i = 0; i < END_REASONS; i++)
		assert_string_equal(end_reason_name((enum end_reason)i), reasons[i]);
	assert_string_equal(outcome_name(OUTCOME_KINDS), "unknown");
	assert_string_equal(end_reason_name(END_REASONS), "unknown");
}

/* A warm handler's answer, and what takes the place of one. */
static struct run_facts answered(bool succeeded, const char *said)
{
	struct run_facts facts;

	run_facts_init(&facts);
	facts.end = RUN_ANSWERED;
	facts.succeeded = succeeded;
	snprintf(facts.said, sizeof(facts.said), "%s", said);
	return facts;
}

static void test_answers(void **state)
{
	struct run_facts facts = answered(true, "");

	(void)state;
	check(&facts, OUTCOME_SUCCEEDED, -1, "");
	/* The process goes on, so whether its group is gone says nothing. */
	facts = answered(false, "");
	facts.group_gone = false;
	check(&facts, OUTCOME_RETRY, -1, "the handler asked for another attempt");
	facts = answered(false, "SMTP 451");
	check(&facts, OUTCOME_RETRY, -1, "SMTP 451");
	facts.asked.retry_after_ms = 70;
	check(&facts, OUTCOME_RETRY, 70, "SMTP 451");
	facts = answered(false, "");
	facts.asked.snooze_ms = 80;
	check(&facts, OUTCOME_SNOOZE, 80, "the handler asked to be called later");
	facts = answered(false, "");
	facts.asked.dead = true;
	check(&facts, OUTCOME_DEAD, -1, "the handler gave the job up (it answered)");
	strcpy(facts.asked.dead_reason, "no such user");
	check(&facts, OUTCOME_DEAD, -1, "no such user");
}

static void test_answers_to_an_end(void **state)
{
	static const struct {
		enum end_reason reason;
		enum outcome_kind otherwise;
		const char *cause;
	} cases[] = {
		{END_SHUTDOWN, OUTCOME_RELEASED, "ended by a shutdown: stopped"},
		{END_CANCEL, OUTCOME_CANCELLED, "cancelled on request: stopped"},
		{END_TIMEOUT, OUTCOME_TIMED_OUT, "timed out: stopped"},
		{END_LEASE, OUTCOME_LEASE_LOST, "the lease was lost: stopped"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct run_facts facts = answered(false, "stopped");

		facts.reason = cases[i].reason;
		check(&facts, cases[i].otherwise, -1, cases[i].cause);
		facts.end = RUN_BROKEN;
		check(&facts, cases[i].otherwise, -1, cases[i].cause);
		facts = answered(true, "");
		facts.reason = cases[i].reason;
		if (facts.reason == END_LEASE)
			check(&facts, OUTCOME_LEASE_LOST, -1, "the lease was lost: it answered");
		else
			check(&facts, OUTCOME_SUCCEEDED, -1, "");
	}
}

static void test_broken(void **state)
{
	struct run_facts facts = answered(false, "protocol error: garbage");
	char text[300];

	(void)state;
	facts.end = RUN_BROKEN;
	check(&facts, OUTCOME_RETRY, -1, "protocol error: garbage");
	facts.group_gone = false;
	check(&facts, OUTCOME_LEASE_LOST, -1,
	      "processes of the handler may still run; its lease is left to lapse: protocol error: garbage");
	facts = answered(false, "");
	facts.end = RUN_BROKEN;
	check(&facts, OUTCOME_RETRY, -1, "the handler process ended without an answer");
	/* All that fits is kept, and no character is split. */
	facts = answered(false, "");
	for (size_t i = 0; i + 1 < sizeof(facts.said); i++)
		facts.said[i] = i % 2 == 0 ? '\xc3' : '\xa9';
	memcpy(text, facts.said, sizeof(facts.said) - 2);
	text[sizeof(facts.said) - 2] = '\0';
	check(&facts, OUTCOME_RETRY, -1, text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_exit_status),
		cmocka_unit_test(test_every_signal),
		cmocka_unit_test(test_out_of_memory),
		cmocka_unit_test(test_exec_failures),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_requests_of_a_killed_handler),
		cmocka_unit_test(test_never_started),
		cmocka_unit_test(test_runner_lost),
		cmocka_unit_test(test_group_not_gone),
		cmocka_unit_test(test_hostile_dead_reason),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_answers_to_an_end),
		cmocka_unit_test(test_broken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
