/* dry.h: a dry run: the record once more, on the stage. */
#ifndef TARRY_TOOL_DRY_H
#define TARRY_TOOL_DRY_H

#include "agenda.h"
#include "asked.h"
#include "life.h"
#include "stage.h"
#include "text.h"
#include "workers.h"

/* What a consumer, or the machine, may be late by without anything being different. */
#define DRY_TOLERANCE_MS 10u

struct dry {
    struct plans plans;
    struct lives lives;
    struct stage stage;
    struct agenda steady, wall;       /* by the clock that they go by */
    struct logical_time before, next; /* the frames around now: what the wall clock says in between */
    struct asked *frame;              /* that is being read; owned */
    bool frame_pages, frame_jobs_end;
    uint64_t position;
    struct twin *leased; /* last */
    uint64_t unmade;     /* operations about tasks that are not there, or not in that state */
    uint64_t refused;
    uint64_t assumed;  /* deliveries that the record does not know */
    char message[256]; /* what is wrong with --set; empty: nothing */
};

/* ---- dry_ask.c */
void dry_ask(struct dry *dry, const struct asked *asked);
/* ---- dry_turn.c */
void dry_on_twin(void *argument, struct twin *twin, Tarry__Cause cause);

/* ---- dry_difference.c: what a dry run did differently from the record */
/* What came of it. */
struct dry_lives {
    const struct lives *lives; /* as recorded, each with its twin */
    uint64_t assumed;          /* deliveries that the record does not know */
    uint64_t refused;
    uint64_t unmade; /* operations about tasks that are not there, or not in that state */
};

void difference_print(const struct dry_lives *dry, bool json, struct text *out);

#endif
