/* core_thread.h: the core thread. It carries out what engine/core_turn.h decides about the order of the core's events.
 * It passes the core's effects to other threads and never waits for a disk. Work that needs a disk is done by other
 * threads and comes back as an event. */
#ifndef TARRY_SHELL_CORE_THREAD_H
#define TARRY_SHELL_CORE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "batch.h"
#include "core_turn.h"
#include "frame.h"
#include "index.h"
#include "lifecycle.h"
#include "tarry.pb-c.h"

/* ---- applying the leader's frames */

/* On a follower, applies the frames of the leader's log to the core, up to a given position. Core thread
 * only. */

struct core;
struct log;
struct node;
struct log_cursor;

struct applier {
    struct core *core;
    struct node *node;
    struct log_cursor *cursor;
    struct arena arena; /* memory of the frame that is being applied */
    struct frame_header header;
    Tarry__FrameBody *body; /* body of a frame that was read but does not fit into memory yet; NULL: none */
};

/* ---- the core thread */

struct batches;
struct calendar_reader;
struct clock;
struct config;
struct datadir;
struct delivery_sender;
struct inbox;
struct indexer;
struct lanes;
struct locator;
struct push;
struct reader;
struct disk_space;
struct run;
struct sync;

/* Callbacks to the door. */
struct core_thread_calls {
    void *context;
    /* Returns the broker's part of a reply to Stats, in `arena`; NULL if memory is exhausted. */
    Tarry__BrokerStats *(*stats)(void *context, struct arena *arena, bool clock_held);
    /* Returns whether clients wait for a reply. */
    bool (*is_busy)(void *context);
    /* Reports whether this broker leads and has groups, after each change. */
    void (*groups)(void *context, bool wanted);
};

struct core_thread_needs {
    const struct config *config;
    const struct datadir *dir;
    const struct run *run;
    struct clock *clock;
    struct disk_space *disk_space;
    struct log *log;
    struct index *index;
    struct core *core; /* the core; owned by the core thread once it runs */
    struct inbox *inbox;
    struct batches *batches;
    struct sync *sync;
    struct indexer *indexer;
    struct reader *reader;
    struct calendar_reader *calendar_reader;
    struct locator *locator;
    struct delivery_sender *delivery_sender;
    struct lanes *lanes;
    struct push *push; /* sends webhooks */
    struct node *node;
    struct core_thread_calls calls;
};

struct core_thread {
    struct core_thread_needs needs;
    pthread_t thread;
    struct batch *batch; /* the batch being filled */
    /* filter of the keys that the index contained at the last CORE_INDEXED or later */
    const struct index_filter *filter;
    struct core_turn turn;
    bool has_groups;       /* value that was last reported to the sharer (sharer.h) */
    uint64_t push_version; /* last core_push_version that was reported to the webhook module (pusher.h) */
    size_t stamped;        /* number of the batch's deliveries whose `turn` is already set */
    struct watchdog watchdog;
    uint64_t looked_ns;     /* CLOCK_BOOTTIME of the last inbox_look */
    struct applier applier; /* applies the leader's frames while another node leads */
    bool clock_held;
    bool is_lent; /* another thread does this thread's work (inbox_borrow) */
};

void core_thread_start(struct core_thread *core_thread, const struct core_thread_needs *needs);
/* Runs one turn of the core on the thread that called inbox_borrow, and calls inbox_give_back. Batches are posted
 * without waking the sync thread, so sync_stand_in must follow. */
void core_thread_stand_in(struct core_thread *core_thread, const struct turn_load *load);
/* Waits until the core has stopped. After that, the sync thread has all its decisions. */
void core_thread_join(struct core_thread *core_thread);

#endif
