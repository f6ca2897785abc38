/* indexer_test.c: on a full disk, the index thread only retries its commit. It loses no request that comes meanwhile,
 * and continues once there is space (F-4). The thread is real. Index, log and the other parts are fakes that record
 * their calls. The index's disk is full for as many commits as a test says. */
#include "indexer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config.h"
#include "fatal.h"
#include "inbox.h"
#include "index.h"
#include "log.h"
#include "logfmt.h"
#include "node.h"
#include "signer.h"

#define FRAME_BYTES 100u
#define CALLS_MAX 512u
#define WAIT_MAX_NS 1000000u /* every wait of the thread is shortened to at most this */
/* Maximum duration of a test in seconds, because the test would hang if a request was forgotten. */
#define TEST_MAX_S 60
#define STEADY_NOW_NS 7000000000ull

static struct config config;
static struct node alone; /* a node without a pair: `on` is false */
static struct inbox inbox;
static struct indexer indexer;
static struct log_cursor { uint64_t at; } cursor;

/* State of the fakes, protected by the mutex. The thread runs from indexer_start to indexer_stop. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct world {
    char calls[CALLS_MAX + 1]; /* letters of the calls: a absorb, c commit, C failed commit, w window, W failed window,
                                  r retire, e erase, m maintain */
    size_t count;
    bool records;          /* true from the first failure to the first successful commit after it: calls are recorded */
    unsigned full_commits; /* number of commits that still fail because the disk is full */
    bool window_needs_commit; /* true: loading a window fails until a commit has succeeded */
    unsigned window_pieces;   /* number of calls that the window still needs */
    size_t pending;
    size_t records_a_frame;
    uint64_t committed;
    atomic_bool put_off; /* true: postponed maintenance is due */
    atomic_bool was_due; /* true: postponed maintenance was done */
} world;

static void note(char call, bool failed) {
    if (failed) world.records = true;
    if (world.records && world.count < CALLS_MAX) world.calls[world.count++] = call;
}

/* ---- fakes */

int index_commit(struct index *index) {
    pthread_mutex_lock(&mutex);
    bool failed = world.full_commits > 0;
    note(failed ? 'C' : 'c', failed);
    if (failed) {
        world.full_commits--;
    } else {
        world.records = false;
        world.window_needs_commit = false;
        world.pending = 0;
        world.committed = cursor.at;
    }
    pthread_mutex_unlock(&mutex);
    return failed ? -ENOSPC : 0;
}

int index_absorb(struct index *index, const struct frame_header *header, const Tarry__FrameBody *body) {
    pthread_mutex_lock(&mutex);
    note('a', false);
    world.pending += world.records_a_frame;
    pthread_mutex_unlock(&mutex);
    return 0;
}

int index_window(struct index *index, const struct line *line, struct due after, uint64_t until_ms, size_t count_max,
                 struct arena *arena, struct index_rows *out, struct due *out_through, bool *out_again) {
    pthread_mutex_lock(&mutex);
    bool is_last = world.window_pieces == 0;
    bool failed = is_last && world.window_needs_commit;
    note(failed ? 'W' : 'w', failed);
    if (!is_last) world.window_pieces--;
    *out_again = !is_last;
    /* Loading a window fails only a few times here; otherwise the test would never end. */
    if (failed && world.count > 8) world.window_needs_commit = false;
    pthread_mutex_unlock(&mutex);
    if (failed) return -ENOSPC;
    out->count++;
    return 0;
}

int index_maintain(struct index *index, bool *out_more) {
    pthread_mutex_lock(&mutex);
    note('m', false);
    pthread_mutex_unlock(&mutex);
    *out_more = false;
    return 0;
}

/* Replaces the function of the index: postponed maintenance is due now, or never. */
uint64_t index_maintain_at(const struct index *index) {
    return atomic_load(&world.put_off) ? STEADY_NOW_NS : UINT64_MAX;
}

void index_tell_time(struct index *index, uint64_t steady_ns) {
    if (steady_ns >= STEADY_NOW_NS && atomic_exchange(&world.put_off, false)) atomic_store(&world.was_due, true);
}

struct instant __wrap_clock_now(struct clock *clock, bool *out_held);
struct instant __wrap_clock_now(struct clock *clock, bool *out_held) {
    return (struct instant){.steady_ns = STEADY_NOW_NS};
}

int retire_step(struct retirement *retire) {
    pthread_mutex_lock(&mutex);
    note('r', false);
    pthread_mutex_unlock(&mutex);
    return 0;
}

int eraser_step(struct eraser *eraser) {
    pthread_mutex_lock(&mutex);
    note('e', false);
    pthread_mutex_unlock(&mutex);
    return 0;
}

size_t index_pending(const struct index *index) {
    return world.pending;
}

uint64_t index_position(const struct index *index) {
    return world.committed;
}

int log_cursor_open(struct log_cursor **out, struct log *log, uint64_t position, bool with_blobs) {
    cursor.at = position;
    *out = &cursor;
    return 0;
}

int log_cursor_next(struct log_cursor *at, uint64_t limit, struct log_view *out) {
    if (at->at >= limit) return LOG_END;
    *out = (struct log_view){.header = {.position = at->at}};
    at->at += FRAME_BYTES;
    return 0;
}

uint64_t log_cursor_position(const struct log_cursor *at) {
    return at->at;
}

uint64_t log_cursor_segment(const struct log_cursor *at) {
    return 0;
}

void fatal_arena_init(struct arena *arena) {
    arena_init(arena, SIZE_MAX);
}

void fatal(const char *what, int error) {
    fail_msg("%s: %d", what, error);
    abort();
}

void thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument) {
    assert_int_equal(pthread_create(thread, NULL, run, argument), 0);
}

void index_advise_low(struct index *index, const struct line *line, struct due low) {}
void logfmt(const char *event, const char *format, ...) {}
void retire_init(struct retirement *retire, const struct retirement_needs *needs) {}
void eraser_init(struct eraser *eraser, const struct eraser_needs *needs) {}
void eraser_deinit(struct eraser *eraser) {}
void summarizer_init(struct summarizer *summarizer, struct log *log) {}
void summarizer_deinit(struct summarizer *summarizer) {}
void summarizer_take(struct summarizer *summarizer, uint64_t base, const struct frame_header *header,
                     const Tarry__FrameBody *body) {}
void signer_take(struct signer *signer, uint64_t segment, const struct frame_header *header) {}
void signer_step(struct signer *signer) {}

bool retire_active(const struct retirement *retire) {
    return false;
}

uint64_t retire_wait_ns(struct retirement *retire) {
    return UINT64_MAX;
}

uint64_t eraser_wait_ns(const struct eraser *eraser) {
    return UINT64_MAX;
}

uint64_t signer_wait_ns(const struct signer *signer) {
    return UINT64_MAX;
}

/* Shortens the thread's wait for disk space. */
struct timespec __real_monotonic_after(uint64_t wait_ns);
struct timespec __wrap_monotonic_after(uint64_t wait_ns);
struct timespec __wrap_monotonic_after(uint64_t wait_ns) {
    return __real_monotonic_after(wait_ns < WAIT_MAX_NS ? wait_ns : WAIT_MAX_NS);
}

/* ---- shared by the tests */

static int begin(void **state) {
    memset(&world, 0, sizeof world);
    inbox_init(&inbox);
    alarm(TEST_MAX_S);
    return 0;
}

static void start(void) {
    indexer_start(&indexer, &(struct indexer_needs){.config = &config, .inbox = &inbox, .node = &alone}, 0);
}

/* Waits until the thread has reported to the core that everything up to that position is in the index. */
static void wait_indexed(uint64_t position) {
    struct turn_load load = {0};
    while (load.indexed < position) inbox_take(&inbox, WAIT_MAX_NS, false, &load);
}

static struct window_load *wait_window(void) {
    struct turn_load load = {0};
    while (load.first == NULL) inbox_take(&inbox, WAIT_MAX_NS, false, &load);
    assert_null(load.first->next);
    return (struct window_load *)load.first;
}

static void free_window(struct window_load *load) {
    arena_deinit(&load->arena);
    free(load);
}

/* ---- tests */

static void a_full_batch_that_finds_no_room_stops_absorbing(void **state) { /* F-4, LOG-3 */
    world.records_a_frame = INDEX_BATCH_RECORDS / 4;
    world.full_commits = 3;
    start();
    indexer_durable(&indexer, 40 * FRAME_BYTES);
    wait_indexed(40 * FRAME_BYTES);
    indexer_stop(&indexer);
    assert_string_equal(world.calls, "CCCc"); /* the trace shows one commit with all 40 frames, after the windows */
    assert_int_equal(cursor.at, 40 * FRAME_BYTES);
}

static void an_old_record_that_finds_no_room_stops_all_else(void **state) { /* F-4 */
    world.records_a_frame = 1;
    world.full_commits = 2;
    start();
    indexer_durable(&indexer, FRAME_BYTES);
    wait_indexed(FRAME_BYTES); /* after INDEX_DELAY_MS */
    indexer_stop(&indexer);
    assert_string_equal(world.calls, "CCc");
}

static void a_window_that_finds_no_room_is_loaded_once_there_is_some(void **state) { /* F-4, KEEP-1 */
    world.window_pieces = 1; /* the window fails in the middle */
    world.window_needs_commit = true;
    world.full_commits = 2;
    start();
    struct core_window window = {.count_max = 7};
    indexer_window(&indexer, &window);
    struct window_load *load = wait_window();
    indexer_stop(&indexer);
    assert_string_equal(world.calls, "WCCc");
    assert_int_equal(load->window.count_max, 7);
    assert_int_equal(load->rows.count, 1); /* each row appears only once, although the first try failed in the middle */
    free_window(load);
}

static void a_stop_does_not_wait_for_room(void **state) { /* F-4 */
    world.records_a_frame = 1;
    world.full_commits = UINT32_MAX;
    start();
    indexer_durable(&indexer, FRAME_BYTES);
    indexer_stop(&indexer);
    assert_int_equal(strspn(world.calls, "C"), world.count);
    assert_int_equal(world.committed, 0);
}

/* The indexer does postponed maintenance when its time comes, even if there is no commit. */
static void what_was_put_off_is_done_without_a_commit(void **state) { /* CAP-1 */
    start();
    indexer_durable(&indexer, FRAME_BYTES);
    wait_indexed(FRAME_BYTES);
    atomic_store(&world.put_off, true);
    while (!atomic_load(&world.was_due)) indexer_wake(&indexer);
    indexer_stop(&indexer);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_full_batch_that_finds_no_room_stops_absorbing),
        TEST(an_old_record_that_finds_no_room_stops_all_else),
        TEST(a_window_that_finds_no_room_is_loaded_once_there_is_some),
        TEST(a_stop_does_not_wait_for_room),
        TEST(what_was_put_off_is_done_without_a_commit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
