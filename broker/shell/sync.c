/* sync.c: see sync.h. */
#include "sync.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "logfmt.h"
#include "shell.h"

#define FAILED_FLUSH_MS 200

/* The disk failed: tell who waits that the outcome is unknown, and end (LOG-4). */
static _Noreturn void sync_fail(struct sync *sync, struct batch *batches, int error) {
    logfmt("log_failed", "error=%d reason=\"%s\" action=exit", error, storage_error(error));
    for (struct batch *batch = batches; batch != NULL; batch = batch->next) {
        for (size_t i = 0; i < batch->answer_count; i++) {
            struct call *call = batch->answers[i].call;
            call->answer(call, reply_pack_refusal(TARRY__CODE__FAILED, NULL));
        }
    }
    door_stop(sync->shell->door, FAILED_FLUSH_MS); /* nothing else may happen meanwhile */
    _exit(EXIT_STORAGE);
}

static int append_one(struct sync *sync, const struct core_append *append) {
    struct log *log = sync->shell->log;
    assert(append->position == log_end(log)); /* the core gives positions without gaps */
    struct log_piece stack[64];
    struct log_piece *pieces = stack;
    if (append->content_count > 64) {
        pieces = malloc(append->content_count * sizeof(*pieces));
        if (pieces == NULL) return -ENOMEM;
    }
    for (size_t i = 0; i < append->content_count; i++)
        pieces[i] = (struct log_piece){append->contents[i]->data, append->contents[i]->size};
    struct log_frame frame = {
        .type = append->type,
        .epoch = append->epoch,
        .position = append->position,
        .steady_ns = append->now.steady_ns,
        .wall_ns = append->now.wall_ns,
        .body = append->body,
        .body_size = append->body_size,
        .pieces = pieces,
        .piece_count = append->content_count,
    };
    int error = log_append(log, &frame);
    if (pieces != stack) free(pieces);
    return error;
}

/* Appends and writes all; `*out_count` frames. */
static int append_all(struct sync *sync, struct batch *batches, size_t *out_count) {
    size_t count = 0;
    for (struct batch *batch = batches; batch != NULL; batch = batch->next) {
        for (size_t i = 0; i < batch->effects.appends.count; i++, count++) {
            int error = append_one(sync, &batch->effects.appends.items[i]);
            if (error != 0) return error;
        }
    }
    *out_count = count;
    return count > 0 ? log_write(sync->shell->log) : 0;
}

/* Contents of deliveries may be read from here on, while the sync runs; they leave after it. In a pair, what appended
 * nothing waits for more than a position, and comes to the courier then (R3). */
static void post_to_courier(struct sync *sync, struct batch *batches, bool is_pair) {
    struct shell *shell = sync->shell;
    for (struct batch *batch = batches; batch != NULL; batch = batch->next) {
        if (!batch->courier || (is_pair && batch->effects.appends.count == 0)) continue;
        batch_hold(&shell->batches, batch);
        courier_post(&shell->courier, batch);
    }
}

static uint64_t monotonic_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000u + (uint64_t)time.tv_nsec / 1000u;
}

/* Appends and syncs what the batches say; `*out_count` frames. */
static int make_durable(struct sync *sync, struct batch *batches, bool is_pair, size_t *out_count) {
    struct shell *shell = sync->shell;
    if (!is_pair) releaser_enter(&shell->releaser, batches);
    atomic_store(&sync->since_ns, monotonic_ns());
    int error = append_all(sync, batches, out_count);
    if (error != 0) return error;
    if (is_pair && *out_count > 0) node_written(&shell->node, log_end(shell->log), *out_count);
    post_to_courier(sync, batches, is_pair);
    if (*out_count > 0) {
        uint64_t started_us = monotonic_us();
        error = log_sync(shell->log);
        if (error != 0) return error;
        uint64_t took_us = monotonic_us() - started_us;
        latency_add(&shell->fsync_us, took_us);
        atomic_store(&sync->took_us, took_us);
    }
    atomic_store(&sync->since_ns, 0);
    return 0;
}

/* What is durable may leave. */
static void release(struct sync *sync, struct batch *batches, bool is_pair, size_t count) {
    struct shell *shell = sync->shell;
    uint64_t durable = log_durable(shell->log);
    assert(count == 0 || durable == log_end(shell->log));     /* LOG-1 */
    if (count > 0) locator_durable(&shell->locator, durable); /* what it finds is in the log before its redaction */
    if (is_pair) {
        node_durable(&shell->node, durable, batches); /* what is durable here need not be committed (R3) */
        return;
    }
    if (count > 0) releaser_reach(&shell->releaser, durable);
    releaser_run(&shell->releaser);
}

/* The next group; NULL: there is none. The mutex is held. */
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
        const bool is_pair = node_writes(&sync->shell->node);
        size_t count = 0;
        int error = make_durable(sync, batches, is_pair, &count);
        if (error != 0) sync_fail(sync, batches, error);
        release(sync, batches, is_pair, count);
        pthread_mutex_lock(&sync->mutex);
        sync->is_busy = false;
    }
    pthread_mutex_unlock(&sync->mutex);
    if (sync->failed != NULL) sync_fail(sync, sync->failed, sync->error);
    return NULL;
}

static bool has_appends(const struct batch *batch) {
    while (batch != NULL && batch->effects.appends.count == 0) batch = batch->next;
    return batch != NULL;
}

/* The disk may hang, and the port is served meanwhile. */
static int make_durable_aside(struct sync *sync, struct batch *batches, size_t *out_count) {
    struct door *door = sync->shell->door;
    const bool waits = has_appends(batches);
    if (waits) door_step_aside(door);
    int error = make_durable(sync, batches, false, out_count);
    if (waits) door_come_back(door);
    return error;
}

void sync_stand_in(struct sync *sync) {
    pthread_mutex_lock(&sync->mutex);
    struct batch *batches = sync->is_busy ? NULL : take_group(sync);
    pthread_mutex_unlock(&sync->mutex);
    if (batches == NULL) return;
    assert(!node_writes(&sync->shell->node)); /* a leader's frames leave while its disk syncs */
    size_t count = 0;
    int error = make_durable_aside(sync, batches, &count);
    if (error == 0) release(sync, batches, false, count);
    pthread_mutex_lock(&sync->mutex);
    sync->is_busy = error != 0; /* then for ever: nobody touches the disk again */
    sync->error = error;
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

void sync_start(struct sync *sync, struct shell *shell) {
    *sync = (struct sync){.shell = shell};
    sync->last = &sync->first;
    pthread_mutex_init(&sync->mutex, NULL);
    pthread_cond_init(&sync->changed, NULL);
    thread_start(&sync->thread, "tarry-sync", sync_run, sync);
}

void sync_post(struct sync *sync, struct batch *batch, bool wakes) {
    batch->next = NULL;
    pthread_mutex_lock(&sync->mutex);
    if (wakes && !sync->is_busy) pthread_cond_signal(&sync->changed); /* else whoever is busy looks again */
    *sync->last = batch;
    sync->last = &batch->next;
    pthread_mutex_unlock(&sync->mutex);
}

uint64_t sync_waits_ms(const struct sync *sync) {
    uint64_t since_ns = atomic_load(&sync->since_ns), now_ns = monotonic_ns();
    return since_ns == 0 || now_ns < since_ns ? 0 : (now_ns - since_ns) / NS_PER_MS;
}

const char *sync_problem(const struct sync *sync, char buffer[SYNC_PROBLEM_SIZE]) {
    uint64_t waits_ms = sync_waits_ms(sync);
    if (waits_ms < SYNC_SLOW_MS) return NULL;
    snprintf(buffer, SYNC_PROBLEM_SIZE,
             "the disk under the data directory hangs: a write has waited for %" PRIu64
             " ms to be synced, and nothing is acknowledged meanwhile; look at the disk and at the kernel's log",
             waits_ms);
    return buffer;
}

void sync_stop(struct sync *sync) {
    pthread_mutex_lock(&sync->mutex);
    sync->stop = true;
    pthread_cond_signal(&sync->changed);
    pthread_mutex_unlock(&sync->mutex);
    pthread_join(sync->thread, NULL);
}
