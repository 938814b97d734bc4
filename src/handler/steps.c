/* steps.c - see steps.h. */
#include "handler/steps.h"

#include "handler/json_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-"
#define STEPS_WHY_SIZE 128

struct steps_known {
	char name[JOB_STEP_NAME_MAX + 1];
	size_t bytes; /* of its data */
};

struct steps_refused {
	struct steps_refused *next;
	uint64_t after; /* so many steps were given away before it */
	char name[JOB_STEP_NAME_MAX + 1];
	char why[STEPS_WHY_SIZE];
};

void steps_init(struct steps *s, const struct job *job, const struct run_hooks *hooks)
{
	memset(s, 0, sizeof(*s));
	s->job = job;
	s->hooks = hooks;
	s->refused_last = &s->refused;
}

static struct steps_refused *steps_pop_refused(struct steps *s)
{
	struct steps_refused *first = s->refused;

	s->refused = first->next;
	if (s->refused == NULL)
		s->refused_last = &s->refused;
	s->refused_count--;
	return first;
}

void steps_free(struct steps *s)
{
	while (s->refused != NULL)
		free(steps_pop_refused(s));
	step_box_close(s->box);
	s->box = NULL;
	free(s->known);
	s->known = NULL;
}

json_t *steps_saved(const struct job *job)
{
	json_t *object = json_object();

	for (size_t i = 0; object != NULL && i < job->step_count; i++) {
		const struct job_step *step = &job->steps[i];
		json_t *data = NULL;

		/* Somebody else may have written the row: what is no JSON counts as saved, without data. */
		if (json_read_is_shallow(step->data, step->data_len))
			data = json_loadb(step->data, step->data_len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
		if (json_object_set_new(object, step->name, data != NULL ? data : json_null()) != 0) {
			json_decref(object);
			object = NULL;
		}
	}
	return object;
}

json_t *steps_answer_object(const char *name, const char *why)
{
	json_t *answer = json_pack("{s:s, s:b}", "name", name, "saved", why == NULL);

	if (answer != NULL && why != NULL && json_object_set_new(answer, "why", json_string(why)) != 0) {
		json_decref(answer);
		return NULL;
	}
	return answer;
}

/* Those refused whose turn it is. */
static void steps_tell_refused(struct steps *s)
{
	while (s->refused != NULL && s->refused->after <= s->answered) {
		struct steps_refused *first = steps_pop_refused(s);

		s->answer(s->owner, first->name, first->why);
		free(first);
	}
}

static void steps_refuse(struct steps *s, const char *name, const char *why)
{
	struct steps_refused *refused = calloc(1, sizeof(*refused));

	if (refused == NULL)
		return;
	refused->after = s->given;
	snprintf(refused->name, sizeof(refused->name), "%s", name);
	snprintf(refused->why, sizeof(refused->why), "%s", why);
	*s->refused_last = refused;
	s->refused_last = &refused->next;
	s->refused_count++;
	steps_tell_refused(s);
}

/* The names that the job had when it was claimed come first. */
static bool steps_prepare(struct steps *s)
{
	if (s->known == NULL) {
		s->known = calloc(JOB_STEPS_MAX, sizeof(*s->known));
		for (size_t i = 0; s->known != NULL && i < s->job->step_count && i < JOB_STEPS_MAX; i++) {
			memcpy(s->known[i].name, s->job->steps[i].name, sizeof(s->known[i].name));
			s->known[i].bytes = s->job->steps[i].data_len;
			s->known_count++;
		}
	}
	if (s->box == NULL)
		s->box = step_box_new();
	return s->known != NULL && s->box != NULL;
}

/* Counts a step with so much data, or says why it may not be saved. */
static const char *steps_count(struct steps *s, const char *name, size_t bytes)
{
	struct steps_known *mine = NULL;
	size_t others = 0;

	for (size_t i = 0; i < s->known_count; i++) {
		if (strcmp(s->known[i].name, name) == 0)
			mine = &s->known[i];
		else
			others += s->known[i].bytes;
	}
	if (mine == NULL && s->known_count == JOB_STEPS_MAX)
		return "a job may save 64 steps";
	if (bytes > JOB_STEPS_BYTES_MAX || others > JOB_STEPS_BYTES_MAX - bytes)
		return "the data of a job's steps may have 64 KiB together";
	if (mine == NULL) {
		mine = &s->known[s->known_count++];
		snprintf(mine->name, sizeof(mine->name), "%s", name);
	}
	mine->bytes = bytes;
	return NULL;
}

static bool steps_name_is_good(const json_t *name)
{
	size_t len = json_string_length(name);

	return len > 0 && len <= JOB_STEP_NAME_MAX && strspn(json_string_value(name), STEPS_NAME_CHARACTERS) == len;
}

/* Returns why it was not given away; NULL when it was. */
static const char *steps_give(struct steps *s, const char *name, const char *text)
{
	const char *why;
	struct step *step;

	if (!steps_prepare(s))
		return "there is no memory for it";
	why = steps_count(s, name, strlen(text));
	if (why != NULL)
		return why;
	step = step_new(s->box, s->job, name, text, strlen(text));
	if (step == NULL)
		return "there is no memory for it";
	s->given++;
	s->hooks->step(s->hooks->owner, step);
	return NULL;
}

void steps_save(struct steps *s, const json_t *name, const json_t *data)
{
	char shown[JOB_STEP_NAME_MAX + 1], *text;
	const char *why;

	json_read_short(shown, sizeof(shown), name);
	if (!steps_name_is_good(name)) {
		steps_refuse(s, shown, "a name has 1 to 64 characters of A-Z a-z 0-9 _ . : -");
		return;
	}
	if (s->hooks->step == NULL) {
		steps_refuse(s, shown, "steps are not saved here");
		return;
	}
	text = data == NULL ? strdup("null") : json_dumps(data, JSON_COMPACT | JSON_ENCODE_ANY);
	why = text == NULL ? "there is no memory for it" : steps_give(s, shown, text);
	free(text);
	if (why != NULL)
		steps_refuse(s, shown, why);
}

int steps_bell(const struct steps *s)
{
	return s->box == NULL ? -1 : step_box_fd(s->box);
}

void steps_collect(struct steps *s)
{
	struct step *step;

	while (s->box != NULL && (step = step_box_take(s->box)) != NULL) {
		s->answered++;
		s->answer(s->owner, step->name, step->saved ? NULL : step->why);
		step_free(step);
		steps_tell_refused(s);
	}
}

bool steps_full(const struct steps *s)
{
	return s->given - s->answered + s->refused_count >= STEPS_WAITING_MAX;
}
