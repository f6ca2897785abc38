/* moments_test.c: compares states at random past moments of random histories. storage/history/as_of.c rebuilds each
 * state from the log; the flat tables (flat.h), which do not use the index, have the expected one.
 *
 * A history is played with all faults. After that, moments are drawn by time (at a frame, next to one, between two,
 * after the last) and by position (at a frame's end, inside a frame). The directory's index is the real one, as of a
 * random frame. So some moments are rebuilt from the beginning of the log, some from a copy of the index. Some cannot
 * be rebuilt, because their part of the log was retired. In some histories a part of the log is in an archive.
 *
 * A run checks 120 moments; 1,000 with TARRY_SLOW=1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../must.h"
#include "as_of.h"
#include "client.h"
#include "habits.h"
#include "history.h"
#include "model_disk.h"
#include "ops.h"

#define SEEDS 12
#define SEEDS_SLOW 42
#define MOMENTS_EACH 10
#define MOMENTS_EACH_SLOW 33
#define COMPLETED_ONE_IN 5
#define PATH_SIZE 256

struct fx {
    struct world *world;
    struct random random;
    struct flat *flat;
    struct arena arena;
    char directory[PATH_SIZE]; /* directory of all files */
    struct as_of_source source;
    size_t frame_count; /* number of durable frames */
    uint64_t own;       /* position of the directory's index */
    struct archive archive;
    char archive_directory[PATH_SIZE + 32];
    bool has_all;      /* the log and the archive together reach back to the first frame */
    uint64_t archived; /* number of histories with an archive */
    uint64_t answered, refused, completed, copied;
    uint64_t ahead; /* number of tasks that were leased ahead of time at a checked moment */
};

static void path_of(const struct fx *f, const char *name, char out[PATH_SIZE + 32]) {
    snprintf(out, PATH_SIZE + 32, "%s/%s", f->directory, name);
}

static void clear(const struct fx *f, const char *name) {
    char command[2 * PATH_SIZE];
    snprintf(command, sizeof command, "rm -rf '%s/%s'", f->directory, name);
    MUST(system(command) == 0); /* NOLINT(cert-env33-c): a name of our own */
}

/* ---- the directory's own index */

static struct index *open_own(const struct fx *f, bool read_only) {
    char path[PATH_SIZE + 32], message[1024];
    path_of(f, "own", path);
    struct index_options options = {.directory = path,
                                    .memory = 16 << 20,
                                    .map_size = 16 << 20,
                                    .outcomes_max = OUTCOMES_MAX_DEFAULT,
                                    .outcome_retention_ms = OUTCOME_RETENTION_DEFAULT_MS,
                                    .read_only = read_only,
                                    .no_sync = true};
    struct index *index;
    memcpy(options.cluster, f->source.cluster, sizeof options.cluster);
    int error = index_open(&index, &options, message, sizeof message);
    if (error) fail_msg("%s", message);
    return index;
}

/* Builds the index of the first `count` frames. The frames have the hash chain of the log if the log still has them. */
static void make_own(struct fx *f, size_t count) {
    const struct host *host = f->world->host;
    struct log_cursor *cursor;
    struct log_view view;
    clear(f, "own");
    struct index *index = open_own(f, false);
    MUST(log_cursor_open(&cursor, host->log, log_start(host->log), false) == 0);
    for (size_t i = 0; i < count; i++) {
        struct frame_header header = host->frames[i].header;
        static const Tarry__FrameBody empty = TARRY__FRAME_BODY__INIT;
        if (header.position >= log_start(host->log)) {
            MUST(log_cursor_next(cursor, host->durable, &view) == 0 && view.header.position == header.position);
            header = view.header;
        }
        MUST(index_absorb(index, &header, host->frames[i].body ? host->frames[i].body : &empty) == 0);
        if (random_below(&f->random, 20) == 0) MUST(index_commit(index) == 0);
    }
    MUST(index_commit(index) == 0);
    log_cursor_close(cursor);
    index_close(index);
}

/* Sets the machine's wall clock back, so that the broker's wall time stops for a while: tasks with an absolute time
 * wait, although time passes. Without this, only few histories would have such a stop. */
static void put_clock_back(struct fx *f) {
    struct world *world = f->world;
    world_jump_wall(world, -(int64_t)(1000 + random_below(&f->random, 4000)));
    for (int i = 0; i < 8; i++) {
        uint64_t now_ms = host_now(world).wall_ns / NS_PER_MS;
        (void)client_schedule(world->clients[0], .queue = habit_queues[0],
                              .at_ms = now_ms + random_below(&f->random, 300));
        (void)client_schedule(world->clients[0], .queue = habit_queues[0], .delay_ms = random_below(&f->random, 300));
        world_elapse_ms(world, 100 + random_below(&f->random, 200));
    }
}

/* Moves some closed segments that the index has absorbed into the archive. */
static void archive_some(struct fx *f) {
    struct log *log = f->world->host->log;
    struct log_segment segment;
    struct archive_info info;
    const char *problem = NULL;
    bool did = false;
    while (random_below(&f->random, 4) && log_oldest(log, f->own, &segment)) {
        if (!did) MUST(disk_posix.make_directory(NULL, f->archive_directory, 0700) == 0);
        MUST(archive_store(&f->archive, log, segment.base, 1, &info, &problem) == 0);
        MUST(log_retire(log, segment.base) == 0);
        did = true;
    }
    f->archived += did;
}

static void open_source(struct fx *f) {
    const struct host *host = f->world->host;
    f->frame_count = host_frames_below(host, host->durable);
    size_t least = host_frames_below(host, log_start(host->log));
    size_t count = least + random_below(&f->random, f->frame_count - least + 1);
    make_own(f, count);
    f->source.log = host->log;
    f->source.end = host->durable;
    f->source.index = open_own(f, true);
    index_meta(f->source.index, &f->source.meta);
    f->own = f->source.meta.position;
    f->has_all = log_start(host->log) == LOG_POSITION_FIRST;
    f->source.archive = &f->archive;
    clear(f, "archive");
    if (f->has_all) archive_some(f);
}

/* ---- the moments and their expected states */

static uint64_t ms_of(uint64_t ns) {
    return ns / NS_PER_MS;
}

/* Draws a moment between two frames at which the wall time stood still or was slower than time, because the clock was
 * set back or is held. */
static bool draw_standstill(struct fx *f, struct as_of_question *out) {
    const struct frame_note *frames = f->world->host->frames;
    for (size_t i = random_below(&f->random, f->frame_count); i + 1 < f->frame_count; i++) {
        uint64_t gap_ms = ms_of(frames[i + 1].header.steady_ns) - ms_of(frames[i].header.steady_ns);
        uint64_t wall_ms = ms_of(frames[i + 1].header.wall_ns) - ms_of(frames[i].header.wall_ns);
        if (gap_ms < wall_ms + 3) continue;
        out->steady_ms = ms_of(frames[i + 1].header.steady_ns) - 1;
        return true;
    }
    return false;
}

static void draw(struct fx *f, struct as_of_question *out) {
    const struct frame_note *note = &f->world->host->frames[random_below(&f->random, f->frame_count)];
    *out = (struct as_of_question){.by_position = random_below(&f->random, 3) == 0};
    if (out->by_position) {
        out->position =
            note->end -
            (random_below(&f->random, 3) ? 0 : 1 + random_below(&f->random, note->end - note->header.position));
        return;
    }
    if (random_below(&f->random, 6) == 0 && draw_standstill(f, out)) return;
    out->steady_ms = ms_of(note->header.steady_ns);
    switch (random_below(&f->random, 4)) {
    case 0:
        out->steady_ms += random_magnitude(&f->random, 16);
        break;
    case 1:
        out->steady_ms -= 1;
        break;
    default:
        break;
    }
}

struct expected {
    size_t frames; /* number of frames that belong to the state */
    uint64_t steady_ms, wall_ms;
};

static struct expected expect(const struct fx *f, const struct as_of_question *question) {
    const struct host *host = f->world->host;
    struct expected expected = {0};
    for (size_t i = 0; i < f->frame_count; i++) {
        const struct frame_note *note = &host->frames[i];
        bool counts = question->by_position ? note->end <= question->position
                                            : ms_of(note->header.steady_ns) <= question->steady_ms;
        if (!counts) break;
        expected.frames++;
    }
    if (!expected.frames) return expected;
    const struct frame_header *last = &host->frames[expected.frames - 1].header;
    expected.steady_ms = ms_of(last->steady_ns);
    expected.wall_ms = ms_of(last->wall_ns);
    if (question->by_position || question->steady_ms == expected.steady_ms) return expected;
    uint64_t wall_ns = last->wall_ns + (question->steady_ms * NS_PER_MS - last->steady_ns);
    bool is_followed = expected.frames < f->frame_count;
    if (is_followed && host->frames[expected.frames].header.wall_ns < wall_ns)
        wall_ns = host->frames[expected.frames].header.wall_ns;
    expected.steady_ms = question->steady_ms;
    expected.wall_ms = ms_of(wall_ns);
    return expected;
}

/* Returns whether the log, or the copy of the index, reaches back far enough. */
static bool has_answer(const struct fx *f, const struct expected *expected) {
    const struct host *host = f->world->host;
    uint64_t reached = expected->frames ? host->frames[expected->frames - 1].end : 0;
    return f->has_all || (reached >= f->own && f->own > LOG_POSITION_FIRST);
}

static void flat_until(struct fx *f, size_t count) {
    flat_init(f->flat);
    for (size_t i = 0; i < count; i++)
        flat_apply(f->flat, &f->world->host->frames[i].header, f->world->host->frames[i].body);
}

/* ---- comparing */

static uint32_t expected_state(const struct row *row, const struct expected *expected) {
    uint64_t now_ms = row->base == ROW_STEADY ? expected->steady_ms : expected->wall_ms;
    switch (row->state) {
    case ROW_LEASED: /* leased ahead of time: the delivery must not be sent before the task is due */
        return row->delivered_ms > expected->steady_ms ? STATE_PENDING : STATE_IN_FLIGHT;
    case ROW_BURIED:
        return STATE_DEAD;
    default:
        break;
    }
    if (now_ms < row->due_ms) return STATE_PENDING;
    return row->expires_ms != 0 && now_ms - row->due_ms >= row->expires_ms ? 0 : STATE_READY;
}

static void compare_rows(struct fx *f, struct as_of *moment, const struct expected *expected) {
    struct as_of_counts *counts = calloc(2 * (QUEUE_PLACES + 1), sizeof *counts), *own = counts + QUEUE_PLACES + 1;
    struct index_rows rows;
    uint64_t after = 0, seen = 0, live = 0;
    MUST(counts);
    while (after != UINT64_MAX) {
        arena_reset(&f->arena);
        MUST(index_scan(moment->index, 0, after, UINT64_MAX, 64, 64, &f->arena, &rows, &after) == 0);
        for (size_t i = 0; i < rows.count; i++, seen++) {
            const struct row *row = &rows.rows[i];
            MUST(row->id < f->flat->next_id && !f->flat->tasks[row->id].ended);
            MUST(row_hash(row) ==
                 row_hash(
                     &f->flat->tasks[row->id].row)); /* compares all fields of the row, because the hash covers them */
            MUST(as_of_state(moment, row) == expected_state(&f->flat->tasks[row->id].row, expected));
        }
    }
    for (uint64_t id = 1; id < f->flat->next_id; id++) {
        if (f->flat->tasks[id].ended) continue;
        const struct row *row = &f->flat->tasks[id].row;
        uint32_t state = expected_state(row, expected);
        struct as_of_counts *at = &own[row->queue];
        *(state == STATE_PENDING     ? &at->pending
          : state == STATE_READY     ? &at->ready
          : state == STATE_IN_FLIGHT ? &at->in_flight
          : state == STATE_DEAD      ? &at->dead
                                     : &at->expired) += 1;
        at->ahead += row->state == ROW_LEASED && state == STATE_PENDING;
        f->ahead += row->state == ROW_LEASED && state == STATE_PENDING;
        live++;
    }
    MUST(seen == live);
    MUST(as_of_count(moment, counts) == 0);
    MUST(memcmp(counts, own, (QUEUE_PLACES + 1) * sizeof *counts) == 0);
    free(counts);
}

static int each_queue(void *argument, const Tarry__QueuePut *queue) {
    struct fx *f = argument;
    struct flat_queue *own = &f->flat->queues[queue_place(queue->number)];
    if (own->put.number != queue->number) return 0; /* a former queue is found by its name */
    MUST(queue_hash(queue) == own->hash);
    own->hash = 0; /* 0 marks that the queue was found and compared */
    return 0;
}

static int each_producer(void *argument, const struct index_producer *producer) {
    struct fx *f = argument;
    for (size_t i = 0; i < f->flat->producer_count; i++) {
        struct flat_producer *own = &f->flat->producers[i];
        if (own->id != producer->producer) continue;
        MUST(own->used_ms == producer->used_ms);
        own->id = 0;
        return 0;
    }
    MUST(!"a producer that there was not");
    return 1;
}

static int each_result(void *argument, uint64_t producer, uint64_t sequence, uint64_t position) {
    struct fx *f = argument;
    const struct flat_result *result = flat_result(f->flat, producer, sequence);
    MUST(result && result->position == position);
    f->source.argument = (char *)f->source.argument + 1;
    return 0;
}

static int each_job(void *argument, const Tarry__JobPut *job) {
    struct fx *f = argument;
    for (size_t i = 0; i < f->flat->job_count; i++) {
        Tarry__JobPut *own = &f->flat->jobs[i];
        if (own->job != job->job) continue;
        MUST(own->after_id == job->after_id && own->done == job->done && own->queue == job->queue);
        own->job = 0;
        return 0;
    }
    MUST(!"a job that there was not");
    return 1;
}

static int each_outcome(void *argument, const struct outcome *outcome) {
    struct fx *f = argument;
    const struct flat_task *task = &f->flat->tasks[outcome->id];
    MUST(outcome->id < f->flat->next_id && task->ended);
    if (outcome->cause == OUTCOME_REDACTION) {
        MUST(task->redacted);
        return 0;
    }
    MUST((Tarry__Cause)outcome->cause == task->cause && outcome->ended_ms == task->ended_ms);
    return 0;
}

/* Compares everything but the tasks; overwrites the flat tables. */
static void compare_rest(struct fx *f, struct index *index) {
    void *argument = f->source.argument;
    f->source.argument = NULL;
    MUST(index_each_queue(index, each_queue, f) == 0);
    MUST(index_each_result(index, each_result, f) == 0);
    MUST((size_t)(uintptr_t)f->source.argument == f->flat->result_count);
    f->source.argument = argument;
    MUST(index_each_producer(index, each_producer, f) == 0);
    MUST(index_each_job(index, each_job, f) == 0);
    MUST(index_each_outcome(index, each_outcome, f) == 0);
    for (size_t i = 0; i < FLAT_QUEUES_MAX; i++) MUST(!f->flat->queues[i].put.number || !f->flat->queues[i].hash);
    for (size_t i = 0; i < f->flat->producer_count; i++) MUST(!f->flat->producers[i].id);
    for (size_t i = 0; i < f->flat->job_count; i++) MUST(!f->flat->jobs[i].job);
}

/* ---- a directory rebuilt at a moment: the contents are copied, and the log continues */

static void compare_contents(struct fx *f, struct index *index) {
    for (uint64_t id = 1; id < f->flat->next_id; id++) {
        const struct flat_task *task = &f->flat->tasks[id];
        if (task->ended || !task->row.blob_size) continue;
        const struct core_content *content = f->world->host->origins[id].content;
        void *data;
        size_t size;
        arena_reset(&f->arena);
        MUST(index_blob(index, id, &f->arena, &data, &size) == 0);
        MUST(size == content->size && memcmp(data, content->data, size) == 0);
    }
}

/* Returns whether a task that was live at that moment may have lost its content since. In this case no complete copy of
 * the directory as of that moment can be made. */
static bool was_redacted_since(const struct fx *f) {
    for (uint64_t id = 1; id < f->flat->next_id; id++) {
        const struct flat_task *task = &f->flat->tasks[id];
        if (!task->ended && task->row.blob_size && f->world->host->head.tasks[id].redacted) return true;
    }
    return false;
}

static void complete(struct fx *f, struct as_of *moment, const struct expected *expected) {
    char path[PATH_SIZE + 32], message[1024];
    struct log_recovery found;
    struct log *log;
    path_of(f, "log", path);
    struct log_options options = {.directory = path, .disk = &disk_posix, .segment_size = 4096};
    memcpy(options.cluster, f->source.cluster, sizeof options.cluster);
    int error = as_of_complete(moment, &f->source, &options, message, sizeof message);
    if (error == AS_OF_ERASED) {
        MUST(was_redacted_since(f));
        return;
    }
    MUST(error == 0);
    compare_contents(f, moment->index);
    options.durable_min = moment->meta.position;
    MUST(log_open(&log, &options, moment->meta.position, &found, message, sizeof message) == 0);
    MUST(found.start == moment->meta.position && found.end == found.start + frame_size(0, 0) && !found.cut_bytes);
    MUST(memcmp(found.scan_chain, moment->meta.chain, FRAME_CHAIN_SIZE) == 0 && found.sealed);
    MUST(ms_of(found.steady_ns) == expected->steady_ms && ms_of(found.wall_ns) == expected->wall_ms);
    log_close(log);
    clear(f, "log");
    f->completed++;
}

static void try_moment(struct fx *f) {
    char path[PATH_SIZE + 32];
    struct as_of_question question;
    struct as_of moment;
    draw(f, &question);
    struct expected expected = expect(f, &question);
    /* Without the log's beginning, an index that is made from frames alone lacks contents. */
    bool is_lasting = f->has_all && random_below(&f->random, COMPLETED_ONE_IN) == 0;
    path_of(f, "then", path);
    int error = as_of_make(&moment, &f->source, &question, path, is_lasting);
    if (!has_answer(f, &expected)) {
        MUST(error == AS_OF_TOO_OLD && moment.limit == f->own);
        f->refused++;
    } else if (!expected.frames) {
        MUST(error == AS_OF_BEFORE);
        f->refused++;
    } else {
        MUST(error == 0);
        const struct frame_note *last = &f->world->host->frames[expected.frames - 1];
        flat_until(f, expected.frames);
        MUST(moment.meta.position == last->end);
        MUST(moment.meta.tally.digest == flat_digest(f->flat) && moment.meta.tally.live == f->flat->live);
        MUST(ms_of(moment.steady_ns) == expected.steady_ms && ms_of(moment.wall_ns) == expected.wall_ms);
        compare_rows(f, &moment, &expected);
        if (is_lasting) complete(f, &moment, &expected);
        compare_rest(f, moment.index);
        f->answered++;
        f->copied += moment.meta.position >= f->own && f->own > LOG_POSITION_FIRST;
    }
    as_of_close(&moment);
    clear(f, "then");
}

static void the_state_as_of_any_moment_is_the_naive_models(void **state) {
    struct fx *f = *state;
    bool is_slow = getenv("TARRY_SLOW") != NULL;
    uint64_t seeds = is_slow ? SEEDS_SLOW : SEEDS;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct history_report report;
        f->random.state = seed;
        history_live(f->world, seed, &report);
        put_clock_back(f);
        open_source(f);
        for (int i = 0; i < (is_slow ? MOMENTS_EACH_SLOW : MOMENTS_EACH); i++) try_moment(f);
        index_close(f->source.index);
        world_end(f->world);
    }
    print_message("# %llu moments with an answer, %llu of them on top of a copy, %llu made into directories; %llu "
                  "without; %llu archives\n",
                  (unsigned long long)f->answered, (unsigned long long)f->copied, (unsigned long long)f->completed,
                  (unsigned long long)f->refused, (unsigned long long)f->archived);
    assert_true(f->ahead > 0 && f->answered > 8 * seeds && f->refused > 0 && f->copied > seeds && f->completed > 0 &&
                f->archived > 0);
}

static int setup(void **state) {
    struct fx *f = calloc(1, sizeof *f);
    const char *parent = getenv("TMPDIR");
    MUST(f);
    snprintf(f->directory, sizeof f->directory, "%s/tarry-moments-XXXXXX", parent ? parent : "/tmp");
    MUST(mkdtemp(f->directory));
    f->world = world_new();
    f->flat = calloc(1, sizeof *f->flat);
    MUST(f->flat);
    path_of(f, "archive", f->archive_directory);
    f->archive = (struct archive){.disk = &disk_posix, .directory = f->archive_directory};
    arena_init(&f->arena, SIZE_MAX);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fx *f = *state;
    clear(f, "own");
    clear(f, "archive");
    rmdir(f->directory);
    arena_deinit(&f->arena);
    world_free(f->world);
    free(f->flat);
    free(f);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_state_as_of_any_moment_is_the_naive_models, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
