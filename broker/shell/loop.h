/* loop.h: the core thread: feeds events to the core, one after another, and sends its effects on their way. It never
 * waits for a disk; what needs one is done by the other threads and comes back as an event. */
#ifndef TARRY_SHELL_LOOP_H
#define TARRY_SHELL_LOOP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "applier.h"
#include "batch.h"
#include "index.h"
#include "index_schedule.h"
#include "notify.h"

struct shell;
struct errand;

struct loop {
    struct shell *shell;
    pthread_t thread;
    struct batch *batch;               /* being filled */
    const struct index_filter *filter; /* of an index position at or above the last CORE_INDEXED */
    struct item *starved;              /* pages that found no hold free */
    uint64_t at_ns;   /* CLOCK_BOOTTIME that the core is stepped at: all that was received before has been handled */
    uint64_t late_ns; /* what is stepped then may have come so much later (stall.h) */
    size_t stamped;   /* deliveries of the batch that are counted, and know their lane's turn */
    bool was_full;    /* the last step was told that too much is on its way out */
    bool was_behind;  /* the last tick delivered nothing */
    uint64_t durable;
    struct index_news index_news;
    struct watchdog watchdog;
    struct applier applier; /* while another node leads */
    struct item *put_off;   /* while it is paused: what would make it decide something */
    struct item **put_off_last;
    bool paused;
    bool pause_told;
    bool clock_held;
    bool is_lent; /* another thread stands in for the core thread */
    bool stopping;
    bool closed; /* the core has written its last record but for a seal: it is told no more than positions */
};

/* Something happens to the core, now. Core thread. */
void loop_step(struct loop *loop, struct core_event *event);
void loop_start(struct loop *loop, struct shell *shell);
/* After inbox_borrow, on the thread that has borrowed: all that the core thread does with what was taken. Gives back.
 * What is to be synced was posted without waking the sync thread: sync_stand_in must follow. */
void loop_stand_in(struct loop *loop, const struct inbox_load *load);
/* Returns once the core has stopped: what was decided lies with the sync thread. */
void loop_join(struct loop *loop);

#endif
