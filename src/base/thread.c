/* thread.c - see thread.h. */
#include "base/thread.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* Instrumented code needs several times the stack. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define THREAD_STACK_BYTES (1024L * 1024)
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define THREAD_STACK_BYTES (1024L * 1024)
#endif
#endif
#ifndef THREAD_STACK_BYTES
#define THREAD_STACK_BYTES (256L * 1024)
#endif

#define THREAD_NAME_SIZE 16 /* the kernel's, with its NUL */

static size_t thread_stack_bytes(void)
{
	long least = (long)PTHREAD_STACK_MIN;

	return (size_t)(least > THREAD_STACK_BYTES ? least : THREAD_STACK_BYTES);
}

enum lh_err thread_start(pthread_t *thread, const char *name, void *(*body)(void *), void *arg, struct fault *f)
{
	char short_name[THREAD_NAME_SIZE];
	sigset_t all, before;
	pthread_attr_t attr;
	int err;

	err = pthread_attr_init(&attr);
	if (err != 0)
		return fault_set_errno(f, err, "cannot start thread %s", name);
	/* A new thread inherits the mask, so that no signal can reach it even at its start. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_attr_setstacksize(&attr, thread_stack_bytes());
	if (err == 0)
		err = pthread_create(thread, &attr, body, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (err != 0)
		return fault_set_errno(f, err, "cannot start thread %s", name);
	/* The name is a convenience: a thread that has ended already, or a /proc that is not mounted, is no failure. */
	snprintf(short_name, sizeof(short_name), "%.15s", name);
	pthread_setname_np(*thread, short_name);
	return LH_OK;
}
