/* refusals_told.h: refused clients that are to be recorded in the log. The owner offers the refusals to the core
 * thread, which records them and gives the struct back. */
#ifndef TARRY_SHELL_REFUSALS_TOLD_H
#define TARRY_SHELL_REFUSALS_TOLD_H

#include <stdbool.h>
#include <stddef.h>

#include "access.h"
#include "core.h"
#include "engine_request.h"

/* Maximum size in log bytes of the AccessRefused records of one offer. */
#define REFUSALS_RECORDS_SIZE_MAX (REFUSALS_TOLD_MAX * 512u)

struct refusals_told {
    struct item item; /* must be the first member */
    /* Gives the struct back to its owner. Refusals that were not recorded are offered again, because a follower records
     * no refusals until it leads. */
    void (*told)(struct refusals_told *told, bool is_recorded);
    void *owner;
    bool is_offered; /* the core thread owns the struct; guarded by the owner's mutex */
    size_t count;    /* number of rows to record; 0: all rows were recorded */
    struct refusal rows[REFUSALS_TOLD_MAX];
};

/* Packs the rows into `arena`, valid until `told` is given back. Returns their number. */
size_t refusals_told_pack(const struct refusals_told *told, struct arena *arena, const struct core_refusal **out);

#endif
