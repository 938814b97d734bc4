/* progress.c - see progress.h. */
#include "handler/progress.h"

#include <string.h>

void progress_init(struct progress *p)
{
	p->percent = -1;
	p->noted = false;
}

void progress_note(struct progress *p, double percent, const char *note)
{
	if (percent >= 0)
		p->percent = percent;
	if (note == NULL)
		return;
	memcpy(p->note, note, strlen(note) + 1);
	p->noted = true;
}

void progress_pass(struct progress *p, const struct run_hooks *hooks)
{
	if (hooks->progress != NULL && (p->percent >= 0 || p->noted))
		hooks->progress(hooks->owner, p->percent, p->noted ? p->note : NULL);
	progress_init(p);
}
