/* indexer.c: see indexer.h. */
#include "indexer.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "logfmt.h"
#include "shell.h"

/* Frames absorbed before the thread looks whether something more urgent came. */
#define ABSORB_FRAMES 64
#define INDEX_DELAY_NS (INDEX_DELAY_MS * 1000000ull)
#define FULL_RETRY_NS 1000000000ull
/* So much of the log, or what has waited for so long, is worth waking up for. */
#define GATHER_BYTES (256u << 10)
#define GATHER_NS 20000000ull
/* Nothing comes but orders, which wake the thread. */
#define INSPECT_WAIT_NS (3600ull * 1000000000ull)

/* The only failure that passes: a full disk. Then nothing but the commit is tried, until there is room. */
static bool is_full(struct indexer *indexer, const char *what, int error) {
    if (error == 0) return false;
    if (error != -ENOSPC) shell_fail(what, error);
    if (!indexer->full)
        logfmt("index_full", "reason=\"the disk is full\" action=\"waits for room\" indexed=%" PRIu64,
               index_position(indexer->shell->index));
    indexer->full = true;
    return true;
}

static void commit(struct indexer *indexer) {
    struct shell *shell = indexer->shell;
    if (is_full(indexer, "index_failed", index_commit(shell->index))) return;
    if (indexer->full) logfmt("index_resumed", "indexed=%" PRIu64, index_position(shell->index));
    indexer->full = false;
    indexer->oldest_ns = 0;
    indexer->maintain = true;
    inbox_indexed(&shell->inbox, index_position(shell->index));
}

/* Takes in up to ABSORB_FRAMES frames that end at or below `durable`. True: there are more, or the disk is full. */
static bool absorb(struct indexer *indexer, uint64_t durable) {
    struct shell *shell = indexer->shell;
    for (int i = 0; i < ABSORB_FRAMES && !indexer->full; i++) {
        struct log_view view;
        int error = log_cursor_next(indexer->cursor, durable, &view);
        if (error == LOG_END) return false;
        if (error != 0) shell_fail("index_read_failed", error);
        Tarry__FrameBody *body = tarry__frame_body__unpack(&indexer->arena.pb, view.header.body_size, view.body);
        if (body == NULL) shell_fail("index_read_failed", LOG_DAMAGED);
        error = index_absorb(shell->index, &view.header, body);
        if (error != 0) shell_fail("index_absorb_failed", error);
        summarizer_take(&indexer->summarizer, log_cursor_segment(indexer->cursor), &view.header, body);
        signer_take(&shell->signer, log_cursor_segment(indexer->cursor), &view.header);
        arena_reset(&indexer->arena);
        if (indexer->oldest_ns == 0) indexer->oldest_ns = monotonic_ns();
        if (index_pending(shell->index) >= INDEX_BATCH_RECORDS) commit(indexer);
    }
    return true;
}

static void load_window(struct indexer *indexer) {
    struct shell *shell = indexer->shell;
    struct window_load *load = indexer->window;
    const struct core_window *window = &load->window;
    struct index_rows rows = {0};
    bool again = true;
    arena_reset(&load->arena);
    while (again) {
        int error = index_window(shell->index, &window->line, window->after, window->until_ms, window->count_max,
                                 &load->arena, &rows, &load->through, &again);
        if (is_full(indexer, "index_window_failed", error)) return; /* it stays, and is loaded later */
    }
    load->rows = rows.rows;
    load->row_count = rows.count;
    indexer->window = NULL;
    inbox_post(&shell->inbox, &load->item);
}

static void maintain(struct indexer *indexer) {
    is_full(indexer, "index_failed", index_maintain(indexer->shell->index, &indexer->maintain));
}

/* False: a stop was asked for; what is not in the index is in the log, and the next start takes it from there. */
static bool wait_for_room(struct indexer *indexer) {
    struct timespec until = monotonic_after(FULL_RETRY_NS);
    int error = 0;
    pthread_mutex_lock(&indexer->mutex);
    while (!indexer->stop && error == 0) error = pthread_cond_timedwait(&indexer->changed, &indexer->mutex, &until);
    bool stop = indexer->stop;
    pthread_mutex_unlock(&indexer->mutex);
    commit(indexer);
    return !(stop && indexer->full);
}

/* How long the thread may sleep; 0: there is something to do. */
static uint64_t idle_ns(struct indexer *indexer) {
    if (indexer->shell->config.inspect) return INSPECT_WAIT_NS;
    if (indexer->maintain || retire_active(&indexer->retire)) return 0;
    uint64_t wait_ns = retire_wait_ns(&indexer->retire);
    uint64_t erase_ns = eraser_wait_ns(&indexer->eraser);
    if (erase_ns < wait_ns) wait_ns = erase_ns;
    uint64_t sign_ns = signer_wait_ns(&indexer->shell->signer);
    if (sign_ns < wait_ns) wait_ns = sign_ns;
    if (indexer->oldest_ns != 0) {
        uint64_t due_ns = indexer->oldest_ns + INDEX_DELAY_NS, now_ns = monotonic_ns();
        uint64_t commit_ns = due_ns > now_ns ? due_ns - now_ns : 0;
        if (commit_ns < wait_ns) wait_ns = commit_ns;
    }
    return wait_ns;
}

/* What the other threads asked for since the last look. */
struct orders {
    struct low_note *lows;
    uint64_t durable;
    bool stop;
};

static struct orders take_orders(struct indexer *indexer, uint64_t absorbed) {
    pthread_mutex_lock(&indexer->mutex);
    uint64_t wait_ns;
    bool gathered = indexer->durable - absorbed >= GATHER_BYTES;
    while (!gathered && indexer->window == NULL && indexer->windows == NULL && indexer->lows == NULL &&
           !indexer->stop && (wait_ns = idle_ns(indexer)) > 0) {
        /* The first frame wakes the thread, which then lets more of them gather for a while. */
        bool some = indexer->durable != absorbed;
        if (some && wait_ns > GATHER_NS) wait_ns = GATHER_NS;
        indexer->wanted = absorbed + (some ? GATHER_BYTES : 1);
        struct timespec until = monotonic_after(wait_ns);
        int error = pthread_cond_timedwait(&indexer->changed, &indexer->mutex, &until);
        gathered = indexer->durable - absorbed >= GATHER_BYTES || (some && error != 0);
    }
    indexer->wanted = UINT64_MAX;
    struct orders orders = {indexer->lows, indexer->durable, indexer->stop};
    if (indexer->window == NULL && indexer->windows != NULL) {
        indexer->window = (struct window_load *)indexer->windows;
        indexer->windows = indexer->windows->next;
        if (indexer->windows == NULL) indexer->windows_last = &indexer->windows;
    }
    indexer->lows = NULL;
    pthread_mutex_unlock(&indexer->mutex);
    return orders;
}

static void take_lows(struct indexer *indexer, struct low_note *lows) {
    while (lows != NULL) {
        struct low_note *next = lows->next;
        index_advise_low(indexer->shell->index, &lows->low.line, lows->low.low);
        free(lows);
        lows = next;
    }
}

/* One turn. False: it is over, everything durable is committed. */
static bool turn(struct indexer *indexer) {
    if (indexer->full) return wait_for_room(indexer);
    uint64_t absorbed = log_cursor_position(indexer->cursor);
    struct orders orders = take_orders(indexer, absorbed);
    take_lows(indexer, orders.lows);
    signer_step(&indexer->shell->signer);
    if (indexer->window != NULL) {
        load_window(indexer);
        return true;
    }
    if (indexer->shell->config.inspect) return !orders.stop;
    if (absorbed < orders.durable && absorb(indexer, orders.durable)) return true;
    bool pending = indexer->oldest_ns != 0;
    if (pending && (orders.stop || monotonic_ns() - indexer->oldest_ns >= INDEX_DELAY_NS)) commit(indexer);
    if (indexer->full) return true;
    if (orders.stop) return log_cursor_position(indexer->cursor) < orders.durable;
    int erased = eraser_step(&indexer->eraser);
    if (erased < 0) is_full(indexer, "erase_failed", erased);
    if (erased != 0) return true;
    int retired = retire_step(&indexer->retire);
    if (retired == 0 && indexer->maintain) maintain(indexer);
    if (retired < 0) is_full(indexer, "retire_failed", retired);
    return true;
}

static void *indexer_run(void *argument) {
    struct indexer *indexer = argument;
    while (turn(indexer)) {
    }
    return NULL;
}

void indexer_start(struct indexer *indexer, struct shell *shell, uint64_t durable) {
    *indexer = (struct indexer){.shell = shell, .durable = durable, .wanted = UINT64_MAX, .maintain = true};
    indexer->windows_last = &indexer->windows;
    pthread_mutex_init(&indexer->mutex, NULL);
    monotonic_cond_init(&indexer->changed);
    shell_arena_init(&indexer->arena);
    retire_init(&indexer->retire, shell);
    eraser_init(&indexer->eraser, shell);
    summarizer_init(&indexer->summarizer, shell);
    uint64_t from = shell->config.inspect ? durable : index_position(shell->index);
    int error = log_cursor_open(&indexer->cursor, shell->log, from, false);
    if (error != 0) shell_fail("index_read_failed", error);
    thread_start(&indexer->thread, "tarry-index", indexer_run, indexer);
}

void indexer_window(struct indexer *indexer, const struct core_window *window) {
    struct window_load *load = calloc(1, sizeof(*load));
    if (load == NULL) shell_fail("window_failed", -ENOMEM);
    load->item.kind = ITEM_WINDOW;
    load->window = *window;
    shell_arena_init(&load->arena);
    pthread_mutex_lock(&indexer->mutex);
    *indexer->windows_last = &load->item;
    indexer->windows_last = &load->item.next;
    pthread_cond_signal(&indexer->changed);
    pthread_mutex_unlock(&indexer->mutex);
}

void indexer_low(struct indexer *indexer, const struct core_low *low) {
    struct low_note *note = malloc(sizeof(*note));
    if (note == NULL) return; /* it is advice, given again later */
    note->low = *low;
    pthread_mutex_lock(&indexer->mutex);
    note->next = indexer->lows;
    indexer->lows = note;
    pthread_cond_signal(&indexer->changed);
    pthread_mutex_unlock(&indexer->mutex);
}

void indexer_durable(struct indexer *indexer, uint64_t position) {
    pthread_mutex_lock(&indexer->mutex);
    const struct node *node = &indexer->shell->node;
    assert(position >= indexer->durable);
    assert(!node->on || position <= atomic_load(&node->may_index)); /* LOG-3 */
    indexer->durable = position;
    if (position >= indexer->wanted) pthread_cond_signal(&indexer->changed);
    pthread_mutex_unlock(&indexer->mutex);
}

void indexer_wake(struct indexer *indexer) {
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
