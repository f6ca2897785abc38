/* retire.h: old segments go, in slices: what is still alive in them moves into the index first (LOG-3), so that one
 * year-long timer pins one payload and not a disk. Each is archived before, unless archiving is off (archivist.h).
 * Index thread only. */
#ifndef TARRY_SHELL_RETIRE_H
#define TARRY_SHELL_RETIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "log.h"

struct shell;

struct retirement {
    struct shell *shell;
    struct log_cursor *cursor;  /* in the segment that is being retired; NULL: none is */
    struct log_segment segment; /* valid with `cursor` */
    uint64_t asked;             /* base of the segment that the archivist was asked for last */
    struct arena arena;
};

void retire_init(struct retirement *retire, struct shell *shell);
/* Does a bounded piece of what is due. 0: nothing is due; 1: did something; -ENOSPC: the index has no room for it, try
 * again later (it begins the segment anew, which is harmless). Any other failure ends the process. */
int retire_step(struct retirement *retire);
bool retire_active(const struct retirement *retire);
/* When to look again, at the latest, if nothing else happens. */
uint64_t retire_wait_ns(struct retirement *retire);

#endif
