/* dry.h: differences between the log and a dry run, which replays the log on the stage (stage.h). */
#ifndef TARRY_TOOL_DRY_H
#define TARRY_TOOL_DRY_H

#include "life.h"
#include "stage.h"
#include "tables.h"
#include "text.h"

/* Differences of time up to this number of ms are ignored: a consumer or a machine is never exactly as fast as in the
 * record. */
#define DRY_TOLERANCE_MS 10u

/* Result of a dry run. */
struct dry_lives {
    const struct lives
        *lives; /* recorded lives (histories of tasks); the field `twin` of a life is the same task in the dry run */
    uint64_t assumed; /* number of deliveries that the log does not have */
    uint64_t refused;
    /* Number of requests that the dry run cannot make, because its task has ended or is in another state. */
    uint64_t unmade;
};

void difference_print(const struct dry_lives *dry, bool json, struct text *out);

#endif
