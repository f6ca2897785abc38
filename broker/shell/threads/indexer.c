/* indexer.c: see indexer.h. */
#include "indexer.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "config.h"
#include "fatal.h"
#include "inbox.h"
#include "index.h"
#include "log.h"
#include "logfmt.h"
#include "node.h"
#include "signer.h"
#include "wire.h"

/* Bytes of the arena that are kept for the next frame: enough for an unpacked frame of a few thousand records. */
#define ARENA_KEEP (4u << 20)

/* Returns false if the disk is full. Any other error ends the process. */
static bool has_room(struct indexer *indexer, const char *what, int error) {
    if (error == 0) return true;
    if (error != -ENOSPC) fatal(what, error);
    if (!indexer->schedule.full)
        logfmt("index_full", "reason=\"the disk is full\" action=\"the index waits for free space\" indexed=%" PRIu64,
               index_position(indexer->needs.index));
    return false;
}

/* ---- effects */

static void commit(struct indexer *indexer) {
    const struct indexer_needs *needs = &indexer->needs;
    bool was_full = indexer->schedule.full, has = has_room(indexer, "index_failed", index_commit(needs->index));
    index_schedule_committed(&indexer->schedule, has, monotonic_ns());
    pthread_mutex_lock(&indexer->mutex);
    pthread_cond_broadcast(&indexer->committed);
    pthread_mutex_unlock(&indexer->mutex);
    if (has && was_full) logfmt("index_resumed", "indexed=%" PRIu64, index_position(needs->index));
}

/* Absorbs the next frame. Returns false if there is none. */
static bool absorb_frame(struct indexer *indexer, uint64_t limit) {
    const struct indexer_needs *needs = &indexer->needs;
    struct log_view view;
    int error = log_cursor_next(indexer->cursor, limit, &view);
    if (error == LOG_END) return false;
    if (error != 0) fatal("index_read_failed", error);
    Tarry__FrameBody *body = frame_body_unpack(&indexer->arena, view.header.body_size, view.body);
    if (body == NULL) fatal("index_read_failed", LOG_DAMAGED);
    error = index_absorb(needs->index, &view.header, body);
    if (error != 0) fatal("index_absorb_failed", error);
    summarizer_take(&indexer->summarizer, log_cursor_segment(indexer->cursor), &view.header, body);
    signer_take(needs->signer, log_cursor_segment(indexer->cursor), &view.header);
    arena_reset(&indexer->arena);
    return true;
}

static void absorb(struct indexer *indexer) {
    struct index_schedule *schedule = &indexer->schedule;
    size_t records = schedule->records;
    for (int i = 0; i < INDEX_ABSORB_FRAMES && records < schedule->times.batch_records; i++) {
        if (!absorb_frame(indexer, schedule->limit)) break;
        records = index_pending(indexer->needs.index);
    }
    index_schedule_absorbed(schedule, log_cursor_position(indexer->cursor), records, monotonic_ns());
}

/* Loads the window. Returns false if the disk is full; the window is then loaded later. */
static bool load_window(struct indexer *indexer) {
    const struct indexer_needs *needs = &indexer->needs;
    struct window_load *load = indexer->window;
    const struct core_window *window = &load->window;
    struct index_rows rows = {0};
    bool again = true;
    arena_reset(&load->arena);
    while (again) {
        int error = index_window(needs->index, &window->line, window->after, window->until_ms, window->count_max,
                                 &load->arena, &rows, &load->rows.through, &again);
        if (!has_room(indexer, "index_window_failed", error)) return false;
    }
    load->rows.line = window->line;
    load->rows.rows = rows.rows;
    load->rows.count = rows.count;
    indexer->window = NULL;
    inbox_post(needs->inbox, &load->item);
    return true;
}

/* Runs one slice. Returns 0 or more, or a negative error. */
static int run_slice(struct indexer *indexer, enum index_effect effect, bool *out_more) {
    if (effect == INDEX_ERASE) return eraser_step(&indexer->eraser);
    if (effect == INDEX_RETIRE) return retire_step(&indexer->retire);
    index_tell_time(indexer->needs.index, clock_now(indexer->needs.clock, NULL).steady_ns);
    return index_maintain(indexer->needs.index, out_more);
}

static const char *failure_of(enum index_effect effect) {
    return effect == INDEX_ERASE ? "erase_failed" : effect == INDEX_RETIRE ? "retire_failed" : "index_failed";
}

static void perform(struct indexer *indexer, enum index_effect effect) {
    const struct indexer_needs *needs = &indexer->needs;
    bool has, more = true;
    int error;
    switch (effect) {
    case INDEX_SIGN:
        signer_step(needs->signer);
        break;
    case INDEX_LOAD_WINDOW:
        has = load_window(indexer);
        index_schedule_sliced(&indexer->schedule, effect, has, false, monotonic_ns());
        break;
    case INDEX_ABSORB:
        absorb(indexer);
        break;
    case INDEX_COMMIT:
        commit(indexer);
        break;
    case INDEX_TELL:
        inbox_indexed(needs->inbox, indexer->schedule.told);
        break;
    case INDEX_ERASE:
    case INDEX_RETIRE:
    case INDEX_MAINTAIN:
        error = run_slice(indexer, effect, &more);
        has = has_room(indexer, failure_of(effect), error < 0 ? error : 0);
        index_schedule_sliced(&indexer->schedule, effect, has, more, monotonic_ns());
        break;
    case INDEX_WAIT:
    case INDEX_STOP:
        break;
    }
}

/* ---- input of the schedule */

static uint64_t maintain_wait_ns(struct indexer *indexer) {
    uint64_t at_ns = index_maintain_at(indexer->needs.index);
    if (at_ns == UINT64_MAX) return UINT64_MAX;
    uint64_t now_ns = clock_now(indexer->needs.clock, NULL).steady_ns;
    return at_ns > now_ns ? at_ns - now_ns : 0;
}

/* Returns what the index schedule (index_schedule.h) must know now to choose the next effect. The caller holds the
 * mutex. */
static struct index_orders find_orders(struct indexer *indexer) {
    struct index_orders orders = {
        .durable = indexer->durable,
        .sign_wait_ns = UINT64_MAX,
        .erase_wait_ns = UINT64_MAX,
        .retire_wait_ns = UINT64_MAX,
        .now_ns = monotonic_ns(),
        .hurry_to = indexer->hurry_to,
        .has_window = indexer->window != NULL,
        .stop = indexer->stop,
        .inspects = indexer->needs.config->inspect,
    };
    if (orders.inspects) return orders;
    orders.sign_wait_ns = signer_wait_ns(indexer->needs.signer);
    orders.erase_wait_ns = eraser_wait_ns(&indexer->eraser);
    orders.retire_wait_ns = retire_wait_ns(&indexer->retire);
    orders.maintain_wait_ns = maintain_wait_ns(indexer);
    return orders;
}

static void take_window(struct indexer *indexer) {
    if (indexer->window != NULL || indexer->windows == NULL) return;
    indexer->window = (struct window_load *)indexer->windows;
    indexer->windows = indexer->windows->next;
    if (indexer->windows == NULL) indexer->windows_last = &indexer->windows;
}

/* Returns the next effect. INDEX_WAIT: no effect is due, but `*out_lows` has hints (low_note). */
static enum index_effect next_effect(struct indexer *indexer, struct low_note **out_lows) {
    enum index_effect effect;
    pthread_mutex_lock(&indexer->mutex);
    for (;;) {
        take_window(indexer);
        struct index_orders orders = find_orders(indexer);
        effect = index_schedule_next(&indexer->schedule, &orders);
        if (effect != INDEX_WAIT || indexer->lows != NULL) break;
        indexer->wanted = indexer->schedule.wanted;
        struct timespec until = monotonic_after(indexer->schedule.wait_ns);
        (void)pthread_cond_timedwait(&indexer->changed, &indexer->mutex, &until);
        indexer->wanted = UINT64_MAX;
    }
    *out_lows = indexer->lows;
    indexer->lows = NULL;
    pthread_mutex_unlock(&indexer->mutex);
    return effect;
}

static void take_lows(struct indexer *indexer, struct low_note *lows) {
    while (lows != NULL) {
        struct low_note *next = lows->next;
        index_advise_low(indexer->needs.index, &lows->low.line, lows->low.low);
        free(lows);
        lows = next;
    }
}

static void *indexer_run(void *argument) {
    struct indexer *indexer = argument;
    enum index_effect effect;
    do {
        struct low_note *lows;
        effect = next_effect(indexer, &lows);
        take_lows(indexer, lows);
        perform(indexer, effect);
    } while (effect != INDEX_STOP);
    return NULL;
}

static void init_jobs(struct indexer *indexer) {
    const struct indexer_needs *needs = &indexer->needs;
    retire_init(&indexer->retire, &(struct retirement_needs){.config = needs->config,
                                                             .clock = needs->clock,
                                                             .log = needs->log,
                                                             .index = needs->index,
                                                             .archivist = needs->archivist,
                                                             .signer = needs->signer,
                                                             .node = needs->node});
    eraser_init(&indexer->eraser, &(struct eraser_needs){.config = needs->config,
                                                         .dir = needs->dir,
                                                         .disk = needs->disk,
                                                         .log = needs->log,
                                                         .index = needs->index,
                                                         .archivist = needs->archivist,
                                                         .retirement = &indexer->retire});
    summarizer_init(&indexer->summarizer, needs->log);
}

void indexer_start(struct indexer *indexer, const struct indexer_needs *needs, uint64_t durable) {
    *indexer = (struct indexer){.needs = *needs, .durable = durable, .wanted = UINT64_MAX};
    indexer->windows_last = &indexer->windows;
    pthread_mutex_init(&indexer->mutex, NULL);
    monotonic_cond_init(&indexer->changed);
    monotonic_cond_init(&indexer->committed);
    fatal_arena_init(&indexer->arena);
    indexer->arena.keep_max = ARENA_KEEP;
    init_jobs(indexer);
    uint64_t from = needs->config->inspect ? durable : index_position(needs->index);
    int error = log_cursor_open(&indexer->cursor, needs->log, from, false);
    if (error != 0) fatal("index_read_failed", error);
    const struct index_times times = index_times_of(needs->config->memory);
    index_schedule_begin(&indexer->schedule, &times, from);
    thread_start(&indexer->thread, "tarry-index", indexer_run, indexer);
}

void indexer_window(struct indexer *indexer, const struct core_window *window) {
    struct window_load *load = calloc(1, sizeof(*load));
    if (load == NULL) fatal("window_failed", -ENOMEM);
    load->item.kind = ITEM_WINDOW;
    load->window = *window;
    fatal_arena_init(&load->arena);
    pthread_mutex_lock(&indexer->mutex);
    *indexer->windows_last = &load->item;
    indexer->windows_last = &load->item.next;
    pthread_cond_signal(&indexer->changed);
    pthread_mutex_unlock(&indexer->mutex);
}

void indexer_low(struct indexer *indexer, const struct core_low *low) {
    struct low_note *note = malloc(sizeof(*note));
    if (note == NULL) return; /* without memory the hint is dropped, because the core sends it again later */
    note->low = *low;
    pthread_mutex_lock(&indexer->mutex);
    note->next = indexer->lows;
    indexer->lows = note;
    pthread_cond_signal(&indexer->changed);
    pthread_mutex_unlock(&indexer->mutex);
}

void indexer_durable(struct indexer *indexer, uint64_t position) {
    pthread_mutex_lock(&indexer->mutex);
    const struct node *node = indexer->needs.node;
    assert(position >= indexer->durable);
    assert(!node->on || position <= atomic_load(&node->may_index)); /* LOG-3 */
    indexer->durable = position;
    if (position >= indexer->wanted) pthread_cond_signal(&indexer->changed);
    pthread_mutex_unlock(&indexer->mutex);
}

bool indexer_await(struct indexer *indexer, uint64_t position, uint64_t wait_ns) {
    const struct index *index = indexer->needs.index;
    struct timespec until = monotonic_after(wait_ns);
    int error = 0;
    pthread_mutex_lock(&indexer->mutex);
    if (indexer->hurry_to < position) indexer->hurry_to = position;
    if (index_position(index) < position) pthread_cond_signal(&indexer->changed);
    while (index_position(index) < position && error == 0)
        error = pthread_cond_timedwait(&indexer->committed, &indexer->mutex, &until);
    pthread_mutex_unlock(&indexer->mutex);
    return index_position(index) >= position;
}

void indexer_wake(void *argument) {
    struct indexer *indexer = argument;
    pthread_mutex_lock(&indexer->mutex);
    pthread_cond_signal(&indexer->changed);
    pthread_mutex_unlock(&indexer->mutex);
}

void indexer_stop(struct indexer *indexer) {
    pthread_mutex_lock(&indexer->mutex);
    indexer->stop = true;
    pthread_cond_signal(&indexer->changed);
    pthread_mutex_unlock(&indexer->mutex);
    pthread_join(indexer->thread, NULL);
    summarizer_deinit(&indexer->summarizer);
    eraser_deinit(&indexer->eraser);
    arena_deinit(&indexer->arena);
}
