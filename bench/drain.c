/* drain.c: many tasks that fall due in the same second, drained by several consumers, each acked once.
 *
 * Every task carries its number, so that each one's arrivals are counted: `lost` and `twice` must be 0. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define BATCH 4096
#define SCHEDULE_BATCH 2000

struct drain {
    const char *broker;
    const char *queue;
    uint64_t tasks;
    uint64_t prefetch;
    atomic_uchar *arrivals; /* by number */
    atomic_ullong arrived;
    atomic_ullong acked;
    atomic_ullong not_acked;
    atomic_ullong early;
    atomic_ullong first_ns;
    atomic_ullong last_ns;
};

static void acks_done(void *arg, int code, const struct tarry_result *results, size_t count) {
    struct drain *drain = arg;
    uint64_t good = 0;
    for (size_t i = 0; i < count; i++) good += results[i].code == TARRY_OK;
    atomic_fetch_add(&drain->not_acked, count - good);
    atomic_store(&drain->last_ns, bench_now_ns());
    atomic_fetch_add(&drain->acked, good);
}

static void take(struct drain *drain, tarry_commit *acks, const struct tarry_task *task) {
    uint32_t number;
    if (task->payload_size != sizeof number) bench_die("a task that is not ours: is the queue fresh?");
    memcpy(&number, task->payload, sizeof number);
    if (number >= drain->tasks) bench_die("a task that is not ours: is the queue fresh?");
    if (task->delivered_ms < task->due_ms) atomic_fetch_add(&drain->early, 1);
    atomic_fetch_add(&drain->arrivals[number], 1);
    if (tarry_commit_ack(acks, task->id, task->token) != TARRY_OK) bench_die("ack");
}

static void *consume(void *arg) {
    struct drain *drain = arg;
    tarry_client *client = bench_client(drain->broker, 4);
    struct tarry_consumer_options options = {.queues = &drain->queue,
                                             .queue_count = 1,
                                             .prefetch = (uint32_t)drain->prefetch,
                                             .max_batch = BATCH};
    tarry_consumer *consumer = NULL;
    tarry_commit *acks = NULL;
    if (tarry_consumer_open(client, &options, &consumer, NULL) != TARRY_OK) bench_die("cannot subscribe");
    if (tarry_commit_new(client, false, &acks) != TARRY_OK) bench_die("out of memory");
    const struct tarry_task *tasks[BATCH];
    while (atomic_load(&drain->acked) < drain->tasks) {
        size_t count = 0;
        int rc = tarry_consumer_next_batch(consumer, 200, tasks, BATCH, &count);
        if (rc == TARRY_E_NOTHING) continue;
        if (rc != TARRY_OK) bench_die("next: %s", tarry_code_sentence(rc));
        unsigned long long none = 0;
        atomic_compare_exchange_strong(&drain->first_ns, &none, bench_now_ns());
        for (size_t i = 0; i < count; i++) {
            take(drain, acks, tasks[i]);
            tarry_task_free(tasks[i]);
        }
        atomic_fetch_add(&drain->arrived, count);
        if (tarry_commit_submit(acks, acks_done, drain) != TARRY_OK) bench_die("submit");
    }
    tarry_commit_free(acks);
    tarry_consumer_close(consumer, 0);
    tarry_close(client);
    return NULL;
}

static void schedule_all(const struct drain *drain, uint64_t due_ms) {
    tarry_client *client = bench_client(drain->broker, 8);
    tarry_commit *commit = NULL;
    uint64_t random = 42;
    if (tarry_commit_new(client, false, &commit) != TARRY_OK) bench_die("out of memory");
    for (uint32_t number = 0; number < drain->tasks; number++) {
        struct tarry_schedule_options task = {.queue = drain->queue,
                                              .when = TARRY_AT,
                                              .when_ms = due_ms + bench_random(&random) % 1000,
                                              .payload = &number,
                                              .payload_size = sizeof number};
        if (tarry_commit_schedule(commit, &task) != TARRY_OK) bench_die("schedule");
        if (tarry_commit_count(commit) < SCHEDULE_BATCH && number + 1 < drain->tasks) continue;
        if (tarry_commit_submit(commit, NULL, NULL) != TARRY_OK) bench_die("submit");
        if (tarry_drain(client, 8ul * SCHEDULE_BATCH) != TARRY_OK) bench_die("drain");
    }
    if (tarry_drain(client, 0) != TARRY_OK) bench_die("drain");
    tarry_commit_free(commit);
    tarry_close(client);
}

static int report(const struct drain *drain, uint64_t consumers, uint64_t due_end_ns) {
    uint64_t lost = 0, twice = 0;
    for (uint64_t i = 0; i < drain->tasks; i++) {
        lost += drain->arrivals[i] == 0;
        twice += drain->arrivals[i] > 1;
    }
    uint64_t from_ns = drain->first_ns < due_end_ns ? (uint64_t)drain->first_ns : due_end_ns;
    double seconds = (double)(drain->last_ns - from_ns) / 1e9;
    printf("bench=drain tasks=%llu consumers=%llu seconds=%.2f per_s=%.0f lost=%llu twice=%llu not_acked=%llu "
           "early=%llu\n",
           (unsigned long long)drain->tasks, (unsigned long long)consumers, seconds, (double)drain->tasks / seconds,
           (unsigned long long)lost, (unsigned long long)twice, (unsigned long long)drain->not_acked,
           (unsigned long long)drain->early);
    return lost > 0 || twice > 0 || drain->not_acked > 0 || drain->early > 0;
}

int main(int argc, char **argv) {
    struct drain drain = {.queue = "drain", .tasks = 1000000, .prefetch = 8192};
    uint64_t consumers = 4, after_ms = 15000;
    const struct bench_option options[] = {
        {"broker", "url [$TARRY_BROKER]", NULL, &drain.broker},
        {"queue", "name of a fresh queue [drain]", NULL, &drain.queue},
        {"tasks", "how many", &drain.tasks, NULL},
        {"consumers", "each with a client of its own", &consumers, NULL},
        {"prefetch", "of each", &drain.prefetch, NULL},
        {"after-ms", "all fall due in the second after this; must leave time to schedule them", &after_ms, NULL},
        {0},
    };
    bench_options(argc, argv, "Drains tasks that fall due in the same second.", options);
    if (consumers == 0 || consumers > 64 || drain.tasks == 0 || drain.tasks > UINT32_MAX) bench_die("out of range");
    drain.arrivals = calloc(drain.tasks, sizeof *drain.arrivals);
    if (drain.arrivals == NULL) bench_die("out of memory");
    uint64_t start_ns = bench_now_ns();
    schedule_all(&drain, bench_wall_ms() + after_ms);
    if (bench_now_ns() > start_ns + after_ms * 1000000u)
        fprintf(stderr, "bench: scheduling took longer than --after-ms: some were overdue already\n");
    pthread_t ids[64];
    for (uint64_t i = 0; i < consumers; i++)
        if (pthread_create(&ids[i], NULL, consume, &drain) != 0) bench_die("no thread");
    for (uint64_t i = 0; i < consumers; i++) pthread_join(ids[i], NULL);
    int status = report(&drain, consumers, start_ns + (after_ms + 1000) * 1000000u);
    free(drain.arrivals);
    return status;
}
