/* refusals_told.h: refused clients, for the log: offered to the core thread, which records it and gives it back. */
#ifndef TARRY_SHELL_REFUSALS_TOLD_H
#define TARRY_SHELL_REFUSALS_TOLD_H

#include <stdbool.h>
#include <stddef.h>

#include "core.h"
#include "engine_request.h"
#include "refusals.h"

/* What records of AccessRefused take of the log, at most. */
#define REFUSALS_RECORDS_SIZE_MAX (REFUSALS_TOLD_MAX * 512u)

struct refusals_told {
    struct item item; /* first */
    /* Given back. What was not recorded is offered again: a follower keeps it until it leads. */
    void (*told)(struct refusals_told *told, bool is_recorded);
    void *owner;
    bool is_offered; /* it is the core thread's; the owner's mutex */
    size_t count;    /* 0: all was recorded */
    struct refusal rows[REFUSALS_TOLD_MAX];
};

/* What is to be recorded, in `arena`, as long as `told` is not given back. Returns how many. */
size_t refusals_told_pack(const struct refusals_told *told, struct arena *arena, const struct core_refusal **out);

#endif
