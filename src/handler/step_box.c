/* step_box.c - see step_box.h. */
#include "handler/step_box.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct step_box {
	pthread_mutex_t lock;
	size_t away; /* steps that have not come back */
	bool closed;
	int bell;
	struct fifo_link *first, **last;
};

struct step_box *step_box_new(void)
{
	struct step_box *box = calloc(1, sizeof(*box));

	if (box == NULL)
		return NULL;
	box->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (box->bell < 0) {
		free(box);
		return NULL;
	}
	pthread_mutex_init(&box->lock, NULL);
	box->last = &box->first;
	return box;
}

int step_box_fd(const struct step_box *box)
{
	return box->bell;
}

/* What waits in the box; the lock is held. */
static struct step *step_box_pop(struct step_box *box)
{
	struct fifo_link *item = box->first;

	if (item == NULL)
		return NULL;
	box->first = item->next;
	if (box->first == NULL)
		box->last = &box->first;
	return (struct step *)(void *)item;
}

static void step_box_free(struct step_box *box)
{
	struct step *step;

	while ((step = step_box_pop(box)) != NULL)
		step_free(step);
	close(box->bell);
	pthread_mutex_destroy(&box->lock);
	free(box);
}

struct step *step_box_take(struct step_box *box)
{
	struct step *step;
	uint64_t rung;

	pthread_mutex_lock(&box->lock);
	step = step_box_pop(box);
	/* The bell is silent once nothing waits. */
	if (box->first == NULL)
		(void)!read(box->bell, &rung, sizeof(rung));
	pthread_mutex_unlock(&box->lock);
	return step;
}

void step_box_close(struct step_box *box)
{
	bool last;

	if (box == NULL)
		return;
	pthread_mutex_lock(&box->lock);
	box->closed = true;
	last = box->away == 0;
	pthread_mutex_unlock(&box->lock);
	if (last)
		step_box_free(box);
}

struct step *step_new(struct step_box *box, const struct job *job, const char *name, const char *data, size_t data_len)
{
	struct step *step = calloc(1, sizeof(*step));

	if (step == NULL)
		return NULL;
	step->data = malloc(data_len + 1);
	if (step->data == NULL) {
		free(step);
		return NULL;
	}
	memcpy(step->data, data, data_len);
	step->data[data_len] = '\0';
	step->data_len = data_len;
	step->out.kind = OUTGOING_STEP;
	step->id = job->id;
	step->claim_no = job->claim_no;
	memcpy(step->lease, job->lease, sizeof(step->lease));
	snprintf(step->name, sizeof(step->name), "%s", name);
	step->box = box;
	pthread_mutex_lock(&box->lock);
	box->away++;
	pthread_mutex_unlock(&box->lock);
	return step;
}

void step_free(struct step *step)
{
	if (step == NULL)
		return;
	free(step->data);
	free(step);
}

void step_answer(struct step *step, const char *why)
{
	const uint64_t ring = 1;
	struct step_box *box = step->box;
	bool closed, last;

	step->saved = why == NULL;
	snprintf(step->why, sizeof(step->why), "%s", why == NULL ? "" : why);
	step->out.link.next = NULL;
	pthread_mutex_lock(&box->lock);
	closed = box->closed;
	last = --box->away == 0;
	if (!closed) {
		*box->last = &step->out.link;
		box->last = &step->out.link.next;
		(void)!write(box->bell, &ring, sizeof(ring));
	}
	pthread_mutex_unlock(&box->lock);
	if (!closed)
		return;
	step_free(step);
	if (last)
		step_box_free(box);
}
