/* index_checks.h: an index and its model; compares all answers of the index with the model's.
 *
 * A check returns the error of the index unchanged; a wrong answer fails the test. */
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
    size_t absorbed; /* number of the world's frames that the index has absorbed */
    uint32_t outcomes_max;
    /* Number of frames that were passed to the index for retirement and are not retired yet; invalid after a crash. */
    size_t retiring;
    uint64_t seed;
    struct line walked; /* line that an interrupted series of window reads has visited in part */
    struct due stopped; /* point of the interruption; the next walk may continue there, whatever was committed since */
    bool is_unread;     /* true: key filters may still be unread */
    bool is_counting;   /* true: the calendar may still be under construction */
    char message[256];  /* message of the last failed open or verify */
};

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fail_msg("seed %llu position %llu: %s", (unsigned long long)f->seed,                                       \
                     (unsigned long long)f->world.position, #condition);                                               \
        }                                                                                                              \
    } while (0)

/* Makes a world of that seed and a directory; the index is not open yet. */
struct fx *fx_new(uint64_t seed);
void fx_free(struct fx *f);
/* Opens the index. Absorbed but uncommitted frames will be absorbed again. */
int fx_try_open(struct fx *f);
void fx_open(struct fx *f);
/* Damages the calendar of the closed index. */
void fx_forget_calendar(struct fx *f);

typedef int check(struct fx *f);
check check_retired, check_window, check_list, check_scan, check_lookup, check_tables, check_verify, check_calendar;
/* Runs all checks; an error also fails the test. */
void check_all(struct fx *f);

#endif
