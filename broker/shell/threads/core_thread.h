/* core_thread.h: the core thread: the hand of engine/core_turn.h, which says what the core is told when. It sends the
 * effects on their way, and never waits for a disk; what needs one is done by the other threads and comes back as an
 * event. */
#ifndef TARRY_SHELL_CORE_THREAD_H
#define TARRY_SHELL_CORE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "applier.h"
#include "batch.h"
#include "core_turn.h"
#include "index.h"
#include "notify.h"

struct batches;
struct calendar_reader;
struct clock;
struct config;
struct core;
struct datadir;
struct delivery_sender;
struct inbox;
struct indexer;
struct lanes;
struct locator;
struct log;
struct node;
struct push;
struct reader;
struct disk_space;
struct run;
struct sync;

/* What the core thread asks the door. */
struct core_thread_calls {
    void *context;
    /* What a Stats answer says beside what the core knows, in `arena`; NULL: out of memory. */
    Tarry__BrokerStats *(*stats)(void *context, struct arena *arena, bool clock_held);
    /* Clients wait for an answer. */
    bool (*is_busy)(void *context);
};

struct core_thread_needs {
    const struct config *config;
    const struct datadir *dir;
    const struct run *run;
    struct clock *clock;
    struct disk_space *disk_space;
    struct log *log;
    struct index *index;
    struct core *core; /* the core thread's, once it runs */
    struct inbox *inbox;
    struct batches *batches;
    struct sync *sync;
    struct indexer *indexer;
    struct reader *reader;
    struct calendar_reader *calendar_reader;
    struct locator *locator;
    struct delivery_sender *delivery_sender;
    struct lanes *lanes;
    struct push *push; /* webhooks */
    struct node *node;
    struct core_thread_calls calls;
};

struct core_thread {
    struct core_thread_needs needs;
    pthread_t thread;
    struct batch *batch;               /* being filled */
    const struct index_filter *filter; /* of an index position at or above the last CORE_INDEXED */
    struct core_turn turn;
    uint64_t push_version; /* core_push_version, as the desk was told (pusher.h) */
    size_t stamped;        /* deliveries of the batch that are counted, and know their lane's turn */
    struct watchdog watchdog;
    uint64_t looked_ns;     /* BOOTTIME: as the inbox was told last that this thread is awake */
    struct applier applier; /* while another node leads */
    bool clock_held;
    bool is_lent; /* another thread stands in for the core thread */
};

void core_thread_start(struct core_thread *core_thread, const struct core_thread_needs *needs);
/* After inbox_borrow, on the thread that has borrowed: all that the core thread does with what was taken. Gives back.
 * What is to be synced was posted without waking the sync thread: sync_stand_in must follow. */
void core_thread_stand_in(struct core_thread *core_thread, const struct turn_load *load);
/* Returns once the core has stopped: what was decided lies with the sync thread. */
void core_thread_join(struct core_thread *core_thread);

#endif
