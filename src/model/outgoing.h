/* outgoing.h - what workers give to the completer: settlements, and steps that handlers save (layer: model; pure).
 *
 * They travel through one fifo, so that the steps of a run are written before its settlement. Each of them embeds a struct
 * outgoing as its FIRST member, which tells the completer which of the two it has. */
#ifndef LEASEHOLD_MODEL_OUTGOING_H
#define LEASEHOLD_MODEL_OUTGOING_H

#include "base/fifo.h"

enum outgoing_kind {
	OUTGOING_SETTLEMENT, /* struct settlement */
	OUTGOING_STEP        /* struct step */
};

struct outgoing {
	struct fifo_link link; /* first */
	enum outgoing_kind kind;
};

#endif
