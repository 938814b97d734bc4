/* stream_child.c - a stream handler that does nothing, in C: what is measured is the way to it and back. */
#include "leasehold.h"

static enum lh_outcome nothing(struct lh_job *job)
{
	(void)job;
	return LH_SUCCEEDED;
}

int main(void)
{
	return lh_serve(nothing);
}
