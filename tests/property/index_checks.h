/* index_checks.h: an index beside its model, and everything that can be asked of it, compared.
 *
 * A check returns the error of the index as it is; a wrong answer fails the test. */
#ifndef TARRY_TESTS_INDEX_CHECKS_H
#define TARRY_TESTS_INDEX_CHECKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "index_world.h"

struct fx {
    struct world world;
    struct index *index;
    char directory[64];
    struct arena arena;
    size_t absorbed; /* of the world's frames */
    uint32_t outcomes_max;
    size_t retiring; /* frames handed over, not yet gone; void after a crash */
    uint64_t seed;
    struct line walked; /* the line of a walk by windows that stopped on its way … */
    struct due stopped; /* … here: the next one may go on, whatever was committed since */
    bool is_unread;     /* filters of keys are not read, maybe */
    bool is_counting;   /* the calendar is being made anew, maybe */
    char message[256];  /* of the last failed open or verify */
};

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fail_msg("seed %llu position %llu: %s", (unsigned long long)f->seed,                                       \
                     (unsigned long long)f->world.position, #condition);                                               \
        }                                                                                                              \
    } while (0)

/* A world of that seed and a directory; the index is not open yet. */
struct fx *fx_new(uint64_t seed);
void fx_free(struct fx *f);
/* What was absorbed and not committed is to be absorbed again. */
int fx_try_open(struct fx *f);
void fx_open(struct fx *f);
/* The index, which is closed, has no calendar that goes with it. */
void fx_forget_calendar(struct fx *f);

typedef int check(struct fx *f);
check check_retired, check_window, check_list, check_scan, check_lookup, check_tables, check_verify, check_calendar;
/* All of them; an error fails the test too. */
void check_all(struct fx *f);

#endif
