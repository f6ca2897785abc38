/* story.h: what the stories share: a world, a shop that schedules, a worker that consumes, and the text of what
 * happened.
 *
 * A story is a test that is read from top to bottom. It lets something happen, lets time pass, and compares what
 * happened, word by word: SIM_TRACE takes all lines since the last look. Every story begins at [1000] with a broker
 * that is up, a shop that has its producer id and a worker that is there and has not subscribed; a message takes 1 ms,
 * a sync 10 ms.
 *
 * Nothing happens by itself: nobody repeats, nobody restarts, nothing is indexed late or early but by the options of
 * the world. What the rig watches in every history (host.h, ledger.h) it watches here too. */
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
    bool wordy; /* seals and the index that follows are part of the story; else they are left out of what is compared */
    struct world *world;
    struct client *shop;
    struct client *worker;
};

int story_setup(void **state);
int story_teardown(void **state);
/* The options of a story's world; with others it begins again. */
struct world_options story_options(void);
void story_begin_again(struct fx *f, const struct world_options *options);

/* The short way: one queue, ten tasks at a time. */
void subscribe(struct client *client, const char *queue);
/* The task of the queue "orders" that has the key. */
Tarry__Ref *order(struct fx *f, const char *key);
/* The segment that the log writes to, as the disk has it. */
struct model_file *log_file(struct fx *f);

/* Compares with what happened since the last look. With TARRY_STORY_RECORD=FILE it writes what happened there instead,
 * for golden.py, which puts it into the source: read that diff as you would read the story. */
void story_trace(struct fx *f, const char *file, int line, const char *expected);

#define SIM_TRACE(f, text) story_trace(f, __FILE__, __LINE__, text)
#define SIM_ELAPSE(f, ms) world_elapse_ms((f)->world, ms)
/* Nothing happened that anybody could tell. */
#define SIM_QUIET(f) SIM_TRACE(f, "")
/* What happened is another story's matter. */
#define SIM_SKIP(f) ((void)trace_take((f)->world))

#define STORY(test) cmocka_unit_test_setup_teardown(test, story_setup, story_teardown)

#endif
