/* sync.c: see sync.h. */
#include "sync.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "batch.h"
#include "clock.h"
#include "delivery_sender.h"
#include "door.h"
#include "fatal.h"
#include "latency.h"
#include "locator.h"
#include "log.h"
#include "logfmt.h"
#include "node.h"
#include "releaser.h"

#define FAILED_FLUSH_MS 200

/* Handles that the disk failed (LOG-4). Replies to the waiting callers that the outcome is unknown, and ends the
 * process. */
static _Noreturn void sync_fail(struct sync *sync, struct batch *batches, int error) {
    logfmt("log_failed", "error=%d reason=\"%s\" action=exit", error, storage_error(error));
    for (struct batch *batch = batches; batch != NULL; batch = batch->next) {
        for (size_t i = 0; i < batch->answer_count; i++) {
            struct call *call = batch->answers[i].call;
            call->answer(call, reply_pack_refusal(TARRY__CODE__FAILED, NULL));
        }
    }
    door_stop(sync->needs.door, FAILED_FLUSH_MS); /* stop the door, because no other thread may act from now on */
    _exit(EXIT_STORAGE);
}

static int append_one(struct log *log, const struct core_append *append) {
    /* The core assigns log positions without gaps, so the frame begins at the log's end. */
    assert(append->position == log_end(log));
    struct log_piece stack[64];
    struct log_piece *pieces = stack;
    struct log_frame frame;
    if (append->content_count > 64) {
        pieces = malloc(append->content_count * sizeof(*pieces));
        if (pieces == NULL) return -ENOMEM;
    }
    group_commit_frame(append, pieces, &frame);
    int error = log_append(log, &frame);
    if (pieces != stack) free(pieces);
    return error;
}

/* Appends and writes all frames. The other node of a pair may copy them as soon as they are written. */
static int append_all(struct sync *sync, const struct batch *batches) {
    struct log *log = sync->needs.log;
    const struct group_commit *group = &sync->group;
    for (const struct batch *batch = batches; batch != NULL; batch = batch->next) {
        for (size_t i = 0; i < batch->effects.appends.count; i++) {
            int error = append_one(log, &batch->effects.appends.items[i]);
            if (error != 0) return error;
        }
    }
    int error = log_write(log);
    if (error == 0 && group->is_replicated) node_written(sync->needs.node, log_end(log), group->frames);
    return error;
}

static void post_to_sender(struct sync *sync, struct batch *batches) {
    const struct sync_needs *needs = &sync->needs;
    for (struct batch *batch = batches; batch != NULL; batch = batch->next) {
        batch->reads_late = batch->must_be_read && !group_commit_reads(&sync->group, batch->effects.appends.count);
        if (!batch->must_be_read || batch->reads_late) continue;
        batch_hold(needs->batches, batch);
        delivery_sender_post(needs->delivery_sender, batch);
    }
}

static uint64_t monotonic_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000u + (uint64_t)time.tv_nsec / 1000u;
}

static int sync_log(struct sync *sync) {
    const struct sync_needs *needs = &sync->needs;
    uint64_t started_us = monotonic_us();
    int error = log_sync(needs->log);
    if (error != 0) return error;
    uint64_t took_us = monotonic_us() - started_us;
    latency_add(needs->fsync_us, took_us);
    atomic_store(&sync->took_us, took_us);
    return 0;
}

static void begin_group(struct sync *sync, const struct batch *batches, bool is_pair) {
    size_t frames = 0;
    uint64_t end = 0;
    for (const struct batch *batch = batches; batch != NULL; batch = batch->next) {
        frames += batch->effects.appends.count;
        end = batch->end;
    }
    group_commit_begin(&sync->group, frames, end, is_pair);
}

/* Carries out the steps of the group commit that come before the release of its batches. Returns 0, or the storage
 * error (LOG-4). */
static int make_durable(struct sync *sync, struct batch *batches) {
    struct group_commit *group = &sync->group;
    atomic_store(&sync->hang.since_ns, monotonic_ns());
    while (group->step != GROUP_RELEASE && group->step != GROUP_FAILED) {
        int error = 0;
        if (group->step == GROUP_APPEND) error = append_all(sync, batches);
        if (group->step == GROUP_READ) post_to_sender(sync, batches);
        if (group->step == GROUP_SYNC) error = sync_log(sync);
        group_commit_done(group, error);
    }
    if (group->step == GROUP_FAILED) return group->error;
    atomic_store(&sync->hang.since_ns, 0);
    return 0;
}

/* Releases the durable batches. In a pair, passes them to the node: the other node must confirm them first (R3). */
static void release(struct sync *sync, struct batch *batches) {
    const struct sync_needs *needs = &sync->needs;
    struct group_commit *group = &sync->group;
    assert(group->frames == 0 || log_durable(needs->log) == group->end); /* LOG-1 */
    /* Wake the locator: a search for a redaction may wait for this position. */
    if (group->frames > 0) locator_durable(needs->locator, group->end);
    if (group->is_replicated) {
        node_durable(needs->node, log_durable(needs->log), batches);
    } else {
        releaser_enter(needs->releaser, batches, 0);
        if (group->frames > 0) releaser_reach(needs->releaser, group->end);
        releaser_run(needs->releaser);
    }
    group_commit_done(group, 0);
}

/* Returns the list of posted batches for the next group commit, or NULL if none is posted. The caller holds the mutex.
 */
static struct batch *take_group(struct sync *sync) {
    struct batch *batches = sync->first;
    sync->first = NULL;
    sync->last = &sync->first;
    sync->is_busy = batches != NULL;
    return batches;
}

static void *sync_run(void *argument) {
    struct sync *sync = argument;
    pthread_mutex_lock(&sync->mutex);
    for (;;) {
        while (sync->failed == NULL && (sync->is_busy || (sync->first == NULL && !sync->stop)))
            pthread_cond_wait(&sync->changed, &sync->mutex);
        struct batch *batches = sync->failed == NULL ? take_group(sync) : NULL;
        if (batches == NULL) break;
        pthread_mutex_unlock(&sync->mutex);
        begin_group(sync, batches, node_writes(sync->needs.node));
        int error = make_durable(sync, batches);
        if (error != 0) sync_fail(sync, batches, error);
        release(sync, batches);
        pthread_mutex_lock(&sync->mutex);
        sync->is_busy = false;
    }
    pthread_mutex_unlock(&sync->mutex);
    if (sync->failed != NULL) sync_fail(sync, sync->failed, sync->group.error);
    return NULL;
}

/* Makes the group durable while the door's second thread serves the port, because the disk may hang. */
static int make_durable_aside(struct sync *sync, struct batch *batches) {
    struct door *door = sync->needs.door;
    const bool waits = sync->group.frames > 0;
    if (waits) door_step_aside(door);
    int error = make_durable(sync, batches);
    if (waits) door_come_back(door);
    return error;
}

void sync_stand_in(struct sync *sync) {
    pthread_mutex_lock(&sync->mutex);
    struct batch *batches = sync->is_busy ? NULL : take_group(sync);
    pthread_mutex_unlock(&sync->mutex);
    if (batches == NULL) return;
    /* In a pair only the sync thread syncs, because a leader sends its frames to the follower while its own disk syncs.
     */
    assert(!node_writes(sync->needs.node));
    begin_group(sync, batches, false);
    int error = make_durable_aside(sync, batches);
    if (error == 0) release(sync, batches);
    pthread_mutex_lock(&sync->mutex);
    sync->is_busy = error != 0; /* true after an error, so that no thread uses the disk again */
    if (error != 0) sync->failed = batches;
    if (sync->first != NULL || sync->stop || error != 0) pthread_cond_signal(&sync->changed);
    pthread_mutex_unlock(&sync->mutex);
}

bool sync_is_quick(struct sync *sync) {
    pthread_mutex_lock(&sync->mutex);
    bool is_idle = !sync->is_busy && sync->first == NULL;
    pthread_mutex_unlock(&sync->mutex);
    return is_idle && atomic_load(&sync->took_us) < SYNC_QUICK_US;
}

void sync_start(struct sync *sync, const struct sync_needs *needs) {
    *sync = (struct sync){.needs = *needs};
    sync->last = &sync->first;
    pthread_mutex_init(&sync->mutex, NULL);
    pthread_cond_init(&sync->changed, NULL);
    thread_start(&sync->thread, "tarry-sync", sync_run, sync);
}

void sync_post(struct sync *sync, struct batch *batch, bool wakes) {
    batch->next = NULL;
    pthread_mutex_lock(&sync->mutex);
    /* A busy thread needs no signal: it finds the batch after its present group. */
    if (wakes && !sync->is_busy) pthread_cond_signal(&sync->changed);
    *sync->last = batch;
    sync->last = &batch->next;
    pthread_mutex_unlock(&sync->mutex);
}

void sync_stop(struct sync *sync) {
    pthread_mutex_lock(&sync->mutex);
    sync->stop = true;
    pthread_cond_signal(&sync->changed);
    pthread_mutex_unlock(&sync->mutex);
    pthread_join(sync->thread, NULL);
}
