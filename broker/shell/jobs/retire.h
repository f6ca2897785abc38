/* retire.h: old segments go, in slices: what is still alive in them moves into the index first, so that one year-long
 * timer pins one payload and not a disk. The engine says what is done when (engine/retention.h); this executes it.
 * Index thread only. */
#ifndef TARRY_SHELL_RETIRE_H
#define TARRY_SHELL_RETIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "log.h"
#include "retention.h"

struct archivist;
struct clock;
struct config;
struct index;
struct node;
struct signer;

struct retirement_needs {
    const struct config *config;
    struct clock *clock;
    struct log *log;
    struct index *index;
    struct archivist *archivist;
    struct signer *signer;
    const struct node *node;
};

struct retirement {
    struct retirement_needs needs;
    struct retention retention;
    struct log_cursor *cursor; /* in the segment that is being retired; NULL: none is read */
    struct arena arena;
};

void retire_init(struct retirement *retire, const struct retirement_needs *needs);
/* Does a bounded piece of what is due. 0: nothing is due; 1: did something; -ENOSPC: the index has no room for it, try
 * again later (it begins the segment anew, which is harmless). Any other failure ends the process. */
int retire_step(struct retirement *retire);
bool retire_active(const struct retirement *retire);
/* When to look again, at the latest, if nothing else happens. */
uint64_t retire_wait_ns(struct retirement *retire);

#endif
