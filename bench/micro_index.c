/* micro_index.c: how fast one thread absorbs new tasks into the index, synced, and the cost.
 *
 * micro_index [tasks] [directory] [records a commit]      default: 1000000, a new one under /tmp, 50000
 *
 * Tasks are due at random times within 30 days and have random keys of 16 to 24 bytes. Only the time in the index
 * counts (absorb, commit, one maintain after each), not the time to make the records. Then it opens the index again,
 * looks up existing and missing keys, queries the calendar, and reads a window. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "index.h"

#define PER_FRAME 500u
#define START_MS 1700000000000ull
#define SPREAD_MS (30ull * 24 * 3600 * 1000)

static uint64_t seed = 88172645463325252ull;

static uint64_t next_random(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed * 0x2545F4914F6CDD1Dull;
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Returns the CPU time of this thread, so that other work on the machine does not count. */
static double cpu_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void fail(const char *what, int error) {
    fprintf(stderr, "%s failed: %d\n", what, error);
    exit(1);
}

static uint64_t resident_bytes(void) {
    unsigned long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%lu %lu", &total, &resident) != 2) resident = 0;
    if (file != NULL) fclose(file);
    return resident * 4096ull;
}

/* Computes the key of task `id` from its number. */
static size_t key_of(uint64_t id, char out[32]) {
    uint64_t mixed = (id + 1) * 0x9E3779B97F4A7C15ull;
    mixed ^= mixed >> 29;
    mixed *= 0xBF58476D1CE4E5B9ull;
    int size = snprintf(out, 32, "%016llx%0*u", (unsigned long long)mixed, (int)(mixed % 8 + 1), 7u);
    return (size_t)(size > 24 ? 24 : size);
}

struct frame {
    Tarry__FrameBody body;
    Tarry__Record records[PER_FRAME], *pointers[PER_FRAME];
    Tarry__TaskPut puts[PER_FRAME];
    Tarry__Task tasks[PER_FRAME];
    char keys[PER_FRAME][32];
};

static void frame_init(struct frame *frame) {
    tarry__frame_body__init(&frame->body);
    frame->body.records = frame->pointers;
    for (size_t i = 0; i < PER_FRAME; i++) {
        tarry__record__init(&frame->records[i]);
        tarry__task_put__init(&frame->puts[i]);
        tarry__task__init(&frame->tasks[i]);
        frame->pointers[i] = &frame->records[i];
        frame->records[i].fact_case = TARRY__RECORD__FACT_PUT;
        frame->records[i].put = &frame->puts[i];
        frame->puts[i].task = &frame->tasks[i];
        frame->puts[i].fresh = true;
        frame->puts[i].cause = TARRY__CAUSE__CAUSE_SCHEDULED;
        frame->tasks[i].queue = 1;
        frame->tasks[i].blob_size = 200;
        frame->tasks[i].key.data = (uint8_t *)frame->keys[i];
    }
}

static void frame_fill(struct frame *frame, uint64_t first_id, size_t count, uint64_t position, uint64_t now_ms) {
    frame->body.n_records = count;
    for (size_t i = 0; i < count; i++) {
        Tarry__Task *task = &frame->tasks[i];
        task->id = first_id + i;
        task->due_ms = now_ms + next_random() % SPREAD_MS;
        task->scheduled_ms = now_ms;
        task->blob_at = position + FRAME_HEADER_SIZE + i * 200;
        task->blob_sum = next_random();
        task->key.len = key_of(task->id, frame->keys[i]);
    }
}

struct times {
    double total, cpu, commit_max, maintain_max;
};

static void load(struct index *index, uint64_t tasks, size_t per_commit, struct times *times) {
    static struct frame frame;
    frame_init(&frame);
    struct frame_header header = {.type = FRAME_COMMIT, .epoch = 1, .position = LOG_POSITION_FIRST};
    double window_cost = 0;
    for (uint64_t id = 1; id <= tasks;) {
        size_t count = tasks - id + 1 < PER_FRAME ? (size_t)(tasks - id + 1) : PER_FRAME;
        uint64_t now_ms = START_MS + id / 500;
        frame_fill(&frame, id, count, header.position, now_ms);
        header.steady_ns = header.wall_ns = now_ms * 1000000;
        header.body_size = (uint32_t)count * 100;
        header.blob_size = (uint32_t)count * 200;
        double start = now_s(), cpu = cpu_s();
        int error = index_absorb(index, &header, &frame.body);
        if (error != 0) fail("absorb", error);
        header.position += frame_size(header.body_size, header.blob_size);
        id += count;
        if (index_pending(index) >= per_commit || id > tasks) {
            double before = now_s();
            error = index_commit(index);
            if (error != 0) fail("commit", error);
            double middle = now_s();
            bool more;
            error = index_maintain(index, &more);
            if (error != 0) fail("maintain", error);
            double after = now_s();
            if (middle - before > times->commit_max) times->commit_max = middle - before;
            if (after - middle > times->maintain_max) times->maintain_max = after - middle;
        }
        double cost = now_s() - start;
        times->total += cost;
        times->cpu += cpu_s() - cpu;
        window_cost += cost;
        if ((id - 1) % 1000000 == 0) {
            fprintf(stderr, "event=progress tasks=%llu tasks_per_s=%.0f rss_mb=%.0f\n", (unsigned long long)(id - 1),
                    1e6 / window_cost, (double)resident_bytes() / 1e6);
            window_cost = 0;
        }
    }
}

static double settle(struct index *index) {
    double start = now_s();
    for (bool more = true; more;) {
        int error = index_maintain(index, &more);
        if (error != 0) fail("maintain", error);
    }
    return now_s() - start;
}

/* Looks up keys and returns the number of look-ups per second. With `offset` 0 all keys exist; with any other offset,
 * no key exists. */
static double look_up(struct index *index, uint64_t tasks, uint64_t offset, size_t *out_found) {
    struct arena arena;
    arena_init(&arena, 64u << 20);
    const size_t rounds = 50, per_round = 1000;
    double cost = 0;
    *out_found = 0;
    for (size_t round = 0; round < rounds; round++) {
        static char keys[1000][32];
        static struct want wants[1000];
        size_t count = 0;
        for (size_t i = 0; i < per_round; i++) {
            uint64_t id = next_random() % tasks + 1 + offset;
            wants[i] = (struct want){.queue = 1, .key_size = (uint8_t)key_of(id, keys[i]), .key = keys[i]};
        }
        double start = now_s();
        struct index_filter *filter = index_filter_hold(index);
        for (size_t i = 0; i < per_round; i++) {
            if (index_filter_may_contain(filter, row_key_hash(1, wants[i].key, wants[i].key_size))) {
                wants[count++] = wants[i];
            }
        }
        index_filter_drop(filter);
        struct index_rows rows;
        int error = index_lookup(index, wants, count, SIZE_MAX, &arena, &rows);
        if (error != 0) fail("lookup", error);
        cost += now_s() - start;
        *out_found += rows.count;
        arena_reset(&arena);
    }
    arena_deinit(&arena);
    return (double)(rounds * per_round) / cost;
}

static void windows(struct index *index, size_t *out_count, double *out_cost) {
    struct arena arena;
    arena_init(&arena, 256u << 20);
    struct line line = {.queue = 1};
    struct due after = {0, 0}, through;
    double start = now_s();
    *out_count = 0;
    for (unsigned calls = 0; calls < 2000 && *out_count < 200000; calls++) {
        struct index_rows rows;
        bool again;
        int error = index_window(index, &line, after, UINT64_MAX, 10000, &arena, &rows, &through, &again);
        if (error != 0) fail("window", error);
        if (!again) {
            *out_count += rows.count;
            if (through.due_ms == UINT64_MAX) break;
            after = through;
        }
        arena_reset(&arena);
    }
    *out_cost = now_s() - start;
    arena_deinit(&arena);
}

/* Queries the calendar ten times; returns the longest time in ms, and checks that all tasks are in it. */
static double calendar(struct index *index, uint64_t tasks, uint64_t from_ms, uint64_t step_ms, uint32_t spans) {
    struct arena arena;
    arena_init(&arena, 64u << 20);
    const uint32_t queue = 1;
    double slowest = 0;
    for (int i = 0; i < 10; i++) {
        struct index_calendar_query query = {.from_ms = from_ms,
                                             .step_ms = step_ms,
                                             .span_count = spans,
                                             .of_all = i % 2 == 0,
                                             .queues = &queue,
                                             .queue_count = 1,
                                             .by_queue = true};
        struct index_calendar found;
        double start = now_s();
        int error = index_calendar(index, &query, &arena, &found);
        if (error != 0) fail("calendar", error);
        double cost = now_s() - start;
        if (cost > slowest) slowest = cost;
        uint64_t sum = found.before + found.after;
        for (uint32_t j = 0; j < spans; j++) sum += found.counts[j];
        if (sum != tasks) fail("calendar: sum", (int)(sum - tasks));
        arena_reset(&arena);
    }
    arena_deinit(&arena);
    return slowest * 1e3;
}

static void report_calendar(struct index *index, uint64_t tasks) {
    const uint64_t midnight_ms = START_MS / (24 * CALENDAR_HOUR_MS) * 24 * CALENDAR_HOUR_MS;
    double minutes = calendar(index, tasks, midnight_ms, CALENDAR_MINUTE_MS, 1440);
    double hours = calendar(index, tasks, midnight_ms, CALENDAR_HOUR_MS, 366 * 24);
    double odd = calendar(index, tasks, midnight_ms + 30 * CALENDAR_MINUTE_MS, CALENDAR_HOUR_MS, 366 * 24);
    printf("calendar_day_by_minute_ms=%.2f calendar_year_by_hour_ms=%.2f calendar_year_at_half_past_ms=%.2f\n", minutes,
           hours, odd);
}

int main(int argc, char **argv) {
    uint64_t tasks = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    char made[] = "/tmp/tarry-index-bench-XXXXXX";
    const char *directory = argc > 2 ? argv[2] : mkdtemp(made);
    size_t per_commit = argc > 3 ? strtoul(argv[3], NULL, 10) : 50000;
    char message[256];
    struct index *index;
    struct index_options options = {.directory = directory,
                                    .memory = 64u << 20,
                                    .outcomes_max = OUTCOMES_MAX_DEFAULT,
                                    .outcome_retention_ms = OUTCOME_RETENTION_DEFAULT_MS};
    int error = index_open(&index, &options, message, sizeof message);
    if (error != 0) fail(message, error);
    struct times times = {0};
    load(index, tasks, per_commit, &times);
    struct index_stats stats;
    index_stats(index, &stats);
    uint64_t runs_before = stats.key_runs;
    double settle_s = settle(index);
    uint64_t resident = resident_bytes();
    index_close(index);
    double open_start = now_s();
    error = index_open(&index, &options, message, sizeof message);
    if (error != 0) fail(message, error);
    double open_s = now_s() - open_start;
    size_t found, missing, window_rows;
    double window_s;
    double hits = look_up(index, tasks, 0, &found), misses = look_up(index, tasks, 1ull << 40, &missing);
    report_calendar(index, tasks);
    windows(index, &window_rows, &window_s);
    index_stats(index, &stats);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("tasks=%llu tasks_per_s=%.0f cpu_us_per_task=%.2f commit_max_ms=%.1f maintain_max_ms=%.1f runs=%llu "
           "settle_s=%.2f "
           "bytes_per_task=%.0f rss_mb=%.0f rss_max_mb=%.0f counted_mb=%.0f open_ms=%.1f hits_per_s=%.0f "
           "misses_per_s=%.0f found=%zu false=%zu window_rows_per_s=%.0f\n",
           (unsigned long long)tasks, (double)tasks / times.total, times.cpu / (double)tasks * 1e6,
           times.commit_max * 1e3, times.maintain_max * 1e3, (unsigned long long)runs_before, settle_s,
           (double)stats.bytes_file / (double)tasks, (double)resident / 1e6, (double)usage.ru_maxrss / 1e3,
           (double)stats.bytes_memory / 1e6, open_s * 1e3, hits, misses, found, missing,
           (double)window_rows / window_s);
    index_close(index);
    if (argc <= 2) {
        char path[300];
        snprintf(path, sizeof path, "%s/data.mdb", directory);
        unlink(path);
        snprintf(path, sizeof path, "%s/lock.mdb", directory);
        unlink(path);
        snprintf(path, sizeof path, "%s/keyring", directory);
        unlink(path);
        rmdir(directory);
    }
    return found == 50000 && missing == 0 ? 0 : 1;
}
