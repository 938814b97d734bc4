/* thread.h - named threads (layer: base). */
#ifndef LEASEHOLD_BASE_THREAD_H
#define LEASEHOLD_BASE_THREAD_H

#include "base/fault.h"

#include <pthread.h>

/* Starts body(arg) under the name (at most 15 characters, as `top -H` shows it), with 256 KiB of stack and every signal blocked. */
enum lh_err thread_start(pthread_t *thread, const char *name, void *(*body)(void *), void *arg, struct fault *f) LH_MUST_CHECK;

#endif
