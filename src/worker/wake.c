#include "worker/wake.h"

#include "base/gate.h"
#include "base/log.h"
#include "base/thread.h"
#include "worker/instance.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct wake {
	struct instance *instance;
	const char *path; /* NULL: not asked for */
	int socket, stop; /* stop: an eventfd that ends the wait */
	struct gate rest;
	pthread_t thread;
	bool started;
};

struct wake *wake_new(struct instance *in)
{
	struct wake *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return NULL;
	w->instance = in;
	w->path = in->startup->instance.wake_socket;
	w->socket = w->stop = -1;
	gate_init(&w->rest);
	return w;
}

static void wake_close(struct wake *w)
{
	if (w->socket >= 0)
		close(w->socket);
	if (w->stop >= 0)
		close(w->stop);
	w->socket = w->stop = -1;
}

void wake_free(struct wake *w)
{
	if (w == NULL)
		return;
	wake_close(w);
	gate_destroy(&w->rest);
	free(w);
}

/* Takes whatever is there: many rings are one. */
static void wake_drain(struct wake *w)
{
	char byte;

	while (recv(w->socket, &byte, sizeof(byte), MSG_DONTWAIT) >= 0)
		;
}

static void *wake_main(void *arg)
{
	struct wake *w = arg;
	struct pollfd fds[] = { { .fd = w->socket, .events = POLLIN }, { .fd = w->stop, .events = POLLIN } };

	while (poll(fds, 2, -1) >= 0 || errno == EINTR) {
		if (fds[1].revents != 0)
			break;
		wake_drain(w);
		instance_nudge_claimers(w->instance);
		if (!gate_wait(&w->rest, WAKE_REST_MS))
			break;
	}
	return NULL;
}

/* A socket that nobody listens on any more is a dead instance's. */
static enum lh_err wake_clear_path(const struct wake *w, const struct sockaddr_un *address, struct fault *f)
{
	struct stat there;
	bool alive;

	if (lstat(w->path, &there) != 0)
		return errno == ENOENT ? LH_OK : fault_set_errno(f, errno, "instance.wake_socket: %s", w->path);
	if (!S_ISSOCK(there.st_mode))
		return fault_set(f, LH_ERR_INPUT, "instance.wake_socket: %s exists and is no socket", w->path);
	alive = connect(w->socket, (const struct sockaddr *)address, sizeof(*address)) == 0;
	if (alive)
		return fault_set(f, LH_ERR_INPUT, "instance.wake_socket: %s is in use by another process", w->path);
	return unlink(w->path) == 0 ? LH_OK : fault_set_errno(f, errno, "instance.wake_socket: cannot replace %s", w->path);
}

static enum lh_err wake_bind(struct wake *w, struct fault *f)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	enum lh_err err;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", w->path);
	w->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	w->stop = eventfd(0, EFD_CLOEXEC);
	if (w->socket < 0 || w->stop < 0)
		return fault_set_errno(f, errno, "instance.wake_socket");
	err = wake_clear_path(w, &address, f);
	if (err != LH_OK)
		return err;
	if (bind(w->socket, (const struct sockaddr *)&address, sizeof(address)) != 0 || chmod(w->path, 0666) != 0)
		return fault_set_errno(f, errno, "instance.wake_socket: cannot listen on %s", w->path);
	return LH_OK;
}

enum lh_err wake_start(struct wake *w, struct fault *f)
{
	enum lh_err err;

	if (w->path == NULL)
		return LH_OK;
	err = wake_bind(w, f);
	if (err == LH_OK)
		err = thread_start(&w->thread, "lh-wake", wake_main, w, f);
	w->started = err == LH_OK;
	if (err != LH_OK)
		wake_close(w);
	return err;
}

void wake_stop(struct wake *w)
{
	const uint64_t one = 1;

	if (w == NULL || !w->started)
		return;
	gate_stop(&w->rest);
	if (write(w->stop, &one, sizeof(one)) < 0)
		log_debug("wake", "the eventfd could not be written: %s", strerror(errno));
	pthread_join(w->thread, NULL);
	unlink(w->path);
	wake_close(w);
	w->started = false;
}
