/* dry.h: a dry run: replays the log on the stage (stage.h). */
#ifndef TARRY_TOOL_DRY_H
#define TARRY_TOOL_DRY_H

#include "agenda.h"
#include "asked.h"
#include "life.h"
#include "stage.h"
#include "text.h"
#include "workers.h"

/* Tolerated lateness of a consumer or of the machine; within it, nothing counts as different. */
#define DRY_TOLERANCE_MS 10u

struct dry {
    struct plans plans;
    struct lives lives;
    struct stage stage;
    struct agenda steady, wall;       /* events by the steady clock, and by the wall clock */
    struct logical_time before, next; /* frames around now: interpolate the wall clock */
    struct asked *frame;              /* frame that is being read; owned */
    bool frame_pages, frame_jobs_end;
    uint64_t position;
    struct twin *leased; /* last leased task */
    uint64_t unmade;     /* operations on tasks that do not exist there, or are in another state */
    uint64_t refused;
    uint64_t assumed;  /* deliveries that the log does not have */
    char message[256]; /* error message about --set; empty: none */
};

/* ---- dry_ask.c */
void dry_ask(struct dry *dry, const struct asked *asked);
/* ---- dry_turn.c */
void dry_on_twin(void *argument, struct twin *twin, Tarry__Cause cause);

/* ---- dry_difference.c: differences between the dry run and the log */
/* Result of a dry run. */
struct dry_lives {
    const struct lives *lives; /* recorded lives, each with its twin */
    uint64_t assumed;          /* deliveries that the log does not have */
    uint64_t refused;
    uint64_t unmade; /* operations on tasks that do not exist there, or are in another state */
};

void difference_print(const struct dry_lives *dry, bool json, struct text *out);

#endif
