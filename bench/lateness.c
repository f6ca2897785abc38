/* lateness.c: how late tasks are delivered at a steady rate, by the broker's clock and as a consumer sees it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

#define TICK_MS 10u
#define BATCH 1024

struct sink {
    const char *broker;
    uint64_t expected;
    uint64_t count;
    uint64_t early;
    uint64_t *sent_ms;     /* delivered − due, by the broker's clock */
    uint64_t *received_ms; /* received − due, as the consumer sees it */
};

static void *consume(void *arg) {
    struct sink *sink = arg;
    tarry_client *client = bench_client(sink->broker, 4);
    const char *const queues[] = {"lateness"};
    struct tarry_consumer_options options = {.queues = queues, .queue_count = 1, .prefetch = 8192, .max_batch = BATCH};
    tarry_consumer *consumer = NULL;
    if (tarry_consumer_open(client, &options, &consumer, NULL) != TARRY_OK) bench_die("cannot subscribe");
    const struct tarry_task *tasks[BATCH];
    while (sink->count < sink->expected) {
        size_t count = 0;
        int rc = tarry_consumer_next_batch(consumer, 20000, tasks, BATCH, &count);
        if (rc != TARRY_OK)
            bench_die("%llu of %llu came: %s", (unsigned long long)sink->count, (unsigned long long)sink->expected,
                      tarry_code_sentence(rc));
        for (size_t i = 0; i < count; i++) {
            const struct tarry_task *task = tasks[i];
            if (task->delivered_ms < task->due_ms || task->received_ms < task->due_ms) sink->early++;
            if (sink->count < sink->expected) {
                sink->sent_ms[sink->count] = task->delivered_ms - task->due_ms;
                sink->received_ms[sink->count] = task->received_ms - task->due_ms;
            }
            sink->count++;
            if (tarry_ack_async(client, task->id, task->token, NULL, NULL) != TARRY_OK) bench_die("ack");
            tarry_task_free(task);
        }
    }
    if (tarry_drain(client, 0) != TARRY_OK) bench_die("acks");
    tarry_consumer_close(consumer, 0);
    tarry_close(client);
    return NULL;
}

static void produce(tarry_client *client, uint64_t rate, uint64_t seconds, uint64_t delay_ms) {
    uint64_t random = 88172645463325252u, ticks = seconds * 1000 / TICK_MS, start_ns = bench_now_ns();
    tarry_commit *commit = NULL;
    if (tarry_commit_new(client, false, &commit) != TARRY_OK) bench_die("out of memory");
    for (uint64_t tick = 0; tick < ticks; tick++) {
        for (uint64_t i = 0; i < rate * TICK_MS / 1000; i++) {
            struct tarry_schedule_options task = {.queue = "lateness",
                                                  .when_ms = delay_ms + bench_random(&random) % delay_ms};
            if (tarry_commit_schedule(commit, &task) != TARRY_OK) bench_die("schedule");
        }
        if (tarry_commit_submit(commit, NULL, NULL) != TARRY_OK) bench_die("submit");
        bench_sleep_until_ns(start_ns + (tick + 1) * TICK_MS * 1000000u);
    }
    if (tarry_drain(client, 0) != TARRY_OK) bench_die("drain");
    tarry_commit_free(commit);
}

static void print(const struct sink *sink, uint64_t rate) {
    size_t count = sink->expected;
    bench_sort(sink->sent_ms, count);
    bench_sort(sink->received_ms, count);
    printf("bench=lateness rate_per_s=%llu tasks=%zu early=%llu", (unsigned long long)rate, count,
           (unsigned long long)sink->early);
    static const struct {
        const char *name;
        double q;
    } quantiles[] = {{"p50", 0.5}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1.0}};
    for (size_t i = 0; i < sizeof quantiles / sizeof quantiles[0]; i++)
        printf(" sent_%s_ms=%llu received_%s_ms=%llu", quantiles[i].name,
               (unsigned long long)bench_quantile(sink->sent_ms, count, quantiles[i].q), quantiles[i].name,
               (unsigned long long)bench_quantile(sink->received_ms, count, quantiles[i].q));
    printf("\n");
}

int main(int argc, char **argv) {
    const char *broker = NULL;
    uint64_t rate = 10000, seconds = 20, delay_ms = 2000;
    const struct bench_option options[] = {
        {"broker", "url [$TARRY_BROKER]", NULL, &broker},
        {"rate", "tasks a second", &rate, NULL},
        {"seconds", "how long", &seconds, NULL},
        {"delay-ms", "each falls due after this to twice this, at random", &delay_ms, NULL},
        {0},
    };
    bench_options(argc, argv, "Lateness at a steady rate.", options);
    if (rate < 1000 / TICK_MS || seconds == 0 || delay_ms == 0) bench_die("out of range");
    struct sink sink = {.broker = broker, .expected = rate * TICK_MS / 1000 * (seconds * 1000 / TICK_MS)};
    sink.sent_ms = calloc(sink.expected, sizeof *sink.sent_ms);
    sink.received_ms = calloc(sink.expected, sizeof *sink.received_ms);
    if (sink.sent_ms == NULL || sink.received_ms == NULL) bench_die("out of memory");
    pthread_t consumer;
    if (pthread_create(&consumer, NULL, consume, &sink) != 0) bench_die("no thread");
    tarry_client *client = bench_client(broker, 4);
    produce(client, rate, seconds, delay_ms);
    pthread_join(consumer, NULL);
    print(&sink, rate);
    tarry_close(client);
    free(sink.sent_ms);
    free(sink.received_ms);
    return sink.early > 0;
}
