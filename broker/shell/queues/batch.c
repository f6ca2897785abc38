/* batch.c: see batch.h. */
#include "batch.h"

#include <assert.h>

#include "clock.h"
#include "core_turn.h"
#include "fatal.h"
#include "inbox.h"

#define BATCH_ARENA_KEEP (4u << 20)

void batches_init(struct batches *batches, struct inbox *inbox) {
    *batches = (struct batches){.inbox = inbox};
    pthread_mutex_init(&batches->mutex, NULL);
    monotonic_cond_init(&batches->freed);
}

void batches_stop(struct batches *batches) {
    pthread_mutex_lock(&batches->mutex);
    batches->stops = true;
    pthread_cond_signal(&batches->freed);
    pthread_mutex_unlock(&batches->mutex);
}

static struct batch *batch_new(void) {
    struct batch *batch = fatal_calloc(sizeof(*batch));
    /* The arena needs no limit, because the core's own limits bound the effects. */
    fatal_arena_init(&batch->arena);
    batch->arena.keep_max = BATCH_ARENA_KEEP;
    core_effects_init(&batch->effects, &batch->arena);
    return batch;
}

static bool is_free(const struct batches *batches) {
    return batches->free != NULL || core_turn_may_fill(batches->made, batches->stops);
}

bool batches_has_none(struct batches *batches) {
    pthread_mutex_lock(&batches->mutex);
    bool has_none = !is_free(batches);
    batches->is_awaited = has_none;
    pthread_mutex_unlock(&batches->mutex);
    return has_none;
}

/* Waits for a free batch, at most STALL_LOOK_NS, and then calls inbox_look. The core thread must call inbox_look
 * regularly, because long gaps between the calls show that the whole process was stopped. */
static void await_free(struct batches *batches) {
    struct timespec until = monotonic_after(STALL_LOOK_NS);
    (void)pthread_cond_timedwait(&batches->freed, &batches->mutex, &until);
    inbox_look(batches->inbox);
}

struct batch *batch_take(struct batches *batches) {
    pthread_mutex_lock(&batches->mutex);
    while (!is_free(batches)) await_free(batches);
    struct batch *batch = batches->free;
    if (batch != NULL) batches->free = batch->next;
    if (batch == NULL) batches->made++;
    pthread_mutex_unlock(&batches->mutex);
    if (batch == NULL) batch = batch_new();
    batch->next = NULL;
    batch->users = 1;
    return batch;
}

void batch_hold(struct batches *batches, struct batch *batch) {
    pthread_mutex_lock(&batches->mutex);
    assert(batch->users > 0);
    batch->users++;
    pthread_mutex_unlock(&batches->mutex);
}

void batch_drop(struct batches *batches, struct batch *batch) {
    pthread_mutex_lock(&batches->mutex);
    assert(batch->users > 0);
    bool last = --batch->users == 0;
    pthread_mutex_unlock(&batches->mutex);
    if (!last) return;
    /* No other thread uses the batch until it is on the free list. */
    core_effects_reset(&batch->effects);
    batch->answers = NULL;
    batch->answer_count = 0;
    batch->must_be_read = batch->reads_late = false;
    batch->end = 0;
    pthread_mutex_lock(&batches->mutex);
    batch->next = batches->free;
    batches->free = batch;
    bool is_awaited = batches->is_awaited;
    batches->is_awaited = false;
    pthread_cond_signal(&batches->freed);
    pthread_mutex_unlock(&batches->mutex);
    if (is_awaited) inbox_nudge(batches->inbox);
}
