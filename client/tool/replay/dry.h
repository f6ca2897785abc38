/* dry.h: a dry run: replays the log on the stage (stage.h). */
#ifndef TARRY_TOOL_DRY_H
#define TARRY_TOOL_DRY_H

#include "life.h"
#include "stage.h"
#include "tables.h"
#include "text.h"

/* Differences of time up to this number of ms are ignored: a consumer or a machine is never exactly as fast as in the
 * record. */
#define DRY_TOLERANCE_MS 10u

struct dry {
    struct plans plans;
    struct lives lives;
    struct stage stage;
    struct agenda steady, wall; /* future events by the steady clock, and by the wall clock */
    /* Frames before and after the current time, between which the wall clock is interpolated. */
    struct logical_time before, next;
    struct asked *frame; /* requests of the frame that is being read; owned */
    bool frame_pages, frame_jobs_end;
    uint64_t position;
    struct twin *leased; /* task that the core leased last */
    /* Number of requests that the dry run cannot make, because its task has ended or is in another state. */
    uint64_t unmade;
    uint64_t refused;
    uint64_t assumed;  /* number of deliveries that the log does not have */
    char message[256]; /* error message about --set; empty: none */
};

/* ---- dry.c */
void dry_ask(struct dry *dry, const struct asked *asked);
void dry_on_twin(void *argument, struct twin *twin, Tarry__Cause cause);

/* ---- dry_difference.c: differences between the dry run and the log */
/* Result of a dry run. */
struct dry_lives {
    const struct lives *lives; /* recorded lives; each has a twin, its task in the dry run */
    uint64_t assumed;          /* number of deliveries that the log does not have */
    uint64_t refused;
    /* Number of requests that the dry run cannot make, because its task has ended or is in another state. */
    uint64_t unmade;
};

void difference_print(const struct dry_lives *dry, bool json, struct text *out);

#endif
