/* story.h: the common parts of all stories: a world, a shop that schedules, a worker that consumes, and the trace. A
 * story is a test that is read from top to bottom. It causes events, lets time pass, and compares the trace word by
 * word: SIM_TRACE takes all lines since the last comparison. Every story begins at [1000]: the broker is up, the shop
 * has its producer id, and the worker has not subscribed. A message takes 1 ms, a sync 10 ms. Only the story causes
 * events: no client repeats a request, and nothing restarts. The world's options decide how late the indexer runs. The
 * rig's checks in every history (host.h, ledger.h) also run here. */
#ifndef TARRY_TESTS_SIM_STORY_H
#define TARRY_TESTS_SIM_STORY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../model_disk.h"
#include "../must.h"
#include "ops.h"
#include "world.h"

#define STORY_BEGINS_MS 1000

struct fx {
    bool wordy; /* true: the compared text contains lines about seal frames and the index; false: these are omitted */
    struct world *world;
    struct client *shop;
    struct client *worker;
};

int story_setup(void **state);
int story_teardown(void **state);
/* Returns the default options of stories, with which a story may start a new world. */
struct world_options story_options(void);
void story_begin_again(struct fx *f, const struct world_options *options);

/* Subscribes to one queue, for up to ten tasks at a time. */
void subscribe(struct client *client, const char *queue);
/* Returns the task of the queue "orders" with that key. */
Tarry__Ref *order(struct fx *f, const char *key);
/* Returns the file of the segment that the log writes to. */
struct model_file *log_file(struct fx *f);

/* Compares the trace since the last comparison. With TARRY_STORY_RECORD=FILE, writes the trace there instead, for
 * golden.py, which puts it into the source: read that diff as you would read the story. */
void story_trace(struct fx *f, const char *file, int line, const char *expected);

#define SIM_TRACE(f, text) story_trace(f, __FILE__, __LINE__, text)
#define SIM_ELAPSE(f, ms) world_elapse_ms((f)->world, ms)
/* Checks that the trace is empty. */
#define SIM_QUIET(f) SIM_TRACE(f, "")
/* Drops the trace so far, because another story checks the dropped lines. */
#define SIM_SKIP(f) ((void)trace_take((f)->world))

#define STORY(test) cmocka_unit_test_setup_teardown(test, story_setup, story_teardown)

#endif
