/* recur.c: how late the occurrences of many recurrences come to a consumer that acks each durably. The recurrences have
 * the same interval; their times are spread over its seconds. No occurrence may be missing, doubled or early. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define BATCH 1024
#define SETTERS 32 /* threads that set recurrences; their commits share syncs */
#define WAIT_MS 200

static const char queue_name[] = "recur";

struct run {
    const char *broker;
    uint64_t recurrences, every_ms, seconds;
    uint64_t base_ms;
    tarry_client *client;
    atomic_ullong set_next, not_acked;
    uint64_t *last_due_ms; /* due time of each recurrence's last occurrence, by the number of the recurrence; 0: no
                              occurrence arrived yet */
    uint64_t *samples_us;
    uint64_t sample_count, sample_max, early, wrong;
};

static void *set_some(void *arg) {
    struct run *run = arg;
    uint64_t number;
    while ((number = atomic_fetch_add(&run->set_next, 1)) < run->recurrences) {
        char name[32];
        snprintf(name, sizeof(name), "r%llu", (unsigned long long)number);
        const uint64_t second = number % (run->every_ms / 1000);
        struct tarry_recur_options set = {.queue = queue_name,
                                          .name = name,
                                          .every_ms = run->every_ms,
                                          .from_ms = run->base_ms + second * 1000,
                                          .overlap = "allow",
                                          .payload = &number,
                                          .payload_size = sizeof(number)};
        struct tarry_result result;
        if (tarry_recur_set(run->client, &set, &result) != TARRY_OK) bench_die("%s: %s", name, result.message);
    }
    return NULL;
}

static void ack_done(void *arg, const struct tarry_result *result) {
    struct run *run = arg;
    if (result->code != TARRY_OK) atomic_fetch_add(&run->not_acked, 1);
}

static void take(struct run *run, const struct tarry_task *task, bool counts) {
    uint64_t number, now_us = bench_wall_us(), due_us = task->due_ms * 1000;
    if (task->payload_size != sizeof(number)) bench_die("a foreign task");
    memcpy(&number, task->payload, sizeof(number));
    if (number >= run->recurrences) bench_die("a foreign task");
    const uint64_t last_ms = run->last_due_ms[number];
    run->wrong += last_ms != 0 && task->due_ms != last_ms + run->every_ms;
    run->last_due_ms[number] = task->due_ms;
    run->early += now_us < due_us;
    if (counts && run->sample_count < run->sample_max)
        run->samples_us[run->sample_count++] = now_us < due_us ? 0 : now_us - due_us;
}

/* Takes occurrences until the recurrences are set and `seconds` have passed since then. */
static void consume(struct run *run, pthread_t setters[SETTERS]) {
    tarry_client *client = bench_client(run->broker, 4);
    const char *const queues[] = {queue_name};
    struct tarry_consumer_options options = {.queues = queues, .queue_count = 1, .prefetch = 8192, .max_batch = BATCH};
    tarry_consumer *consumer = NULL;
    if (tarry_consumer_open(client, &options, &consumer, NULL) != TARRY_OK) bench_die("cannot subscribe");
    const struct tarry_task *tasks[BATCH];
    uint64_t end_ns = 0, begin_ns = bench_now_ns();
    while (end_ns == 0 || bench_now_ns() < end_ns) {
        size_t count = 0;
        int rc = tarry_consumer_next_batch(consumer, WAIT_MS, tasks, BATCH, &count);
        if (rc != TARRY_OK && rc != TARRY_E_NOTHING) bench_die("next: %s", tarry_code_sentence(rc));
        for (size_t i = 0; i < count; i++) {
            take(run, tasks[i], end_ns != 0);
            if (tarry_ack_async(client, tasks[i]->id, tasks[i]->token, NULL, ack_done, run) != TARRY_OK)
                bench_die("ack");
            tarry_task_free(tasks[i]);
        }
        if (end_ns == 0 && atomic_load(&run->set_next) >= run->recurrences + SETTERS) {
            for (size_t i = 0; i < SETTERS; i++) pthread_join(setters[i], NULL);
            end_ns = bench_now_ns();
            printf("bench=recur recurrences=%llu set_per_s=%.0f", (unsigned long long)run->recurrences,
                   (double)run->recurrences / ((double)(end_ns - begin_ns) / 1e9));
            fflush(stdout);
            end_ns += run->seconds * 1000000000u;
        }
    }
    if (tarry_drain(client, 0, NULL) != TARRY_OK) bench_die("acks");
    tarry_consumer_close(consumer, 0, NULL);
    tarry_close(client);
}

int main(int argc, char **argv) {
    static struct run run = {.recurrences = 100000, .every_ms = 60000, .seconds = 130};
    const struct bench_option options[] = {
        {"broker", "url [$TARRY_BROKER]", NULL, &run.broker},
        {"recurrences", "how many", &run.recurrences, NULL},
        {"every-ms", "interval of each, whole seconds", &run.every_ms, NULL},
        {"seconds", "how long, once all are set", &run.seconds, NULL},
        {0},
    };
    bench_options(argc, argv, "Lateness of the occurrences of many recurrences.", options);
    if (run.recurrences == 0 || run.every_ms < 1000 || run.seconds == 0) bench_die("out of range");
    run.base_ms = bench_wall_ms() / 1000 * 1000;
    run.sample_max = (run.seconds * 1000 / run.every_ms + 2) * run.recurrences;
    run.last_due_ms = calloc(run.recurrences, sizeof *run.last_due_ms);
    run.samples_us = calloc(run.sample_max, sizeof *run.samples_us);
    if (run.last_due_ms == NULL || run.samples_us == NULL) bench_die("out of memory");
    run.client = bench_client(run.broker, 8);
    pthread_t setters[SETTERS];
    for (size_t i = 0; i < SETTERS; i++)
        if (pthread_create(&setters[i], NULL, set_some, &run) != 0) bench_die("no thread");
    consume(&run, setters);
    bench_sort(run.samples_us, run.sample_count);
    uint64_t silent = 0;
    for (uint64_t i = 0; i < run.recurrences; i++) silent += run.last_due_ms[i] == 0;
    printf(" arrived=%llu late_p50_us=%llu late_p99_us=%llu late_p999_us=%llu early=%llu wrong=%llu silent=%llu "
           "not_acked=%llu\n",
           (unsigned long long)run.sample_count,
           (unsigned long long)bench_quantile(run.samples_us, run.sample_count, 0.5),
           (unsigned long long)bench_quantile(run.samples_us, run.sample_count, 0.99),
           (unsigned long long)bench_quantile(run.samples_us, run.sample_count, 0.999), (unsigned long long)run.early,
           (unsigned long long)run.wrong, (unsigned long long)silent, (unsigned long long)run.not_acked);
    tarry_close(run.client);
    free(run.last_due_ms);
    free(run.samples_us);
    const bool is_silent = silent != 0 && run.seconds * 1000 >= 2 * run.every_ms;
    return run.sample_count != 0 && run.early + run.wrong + run.not_acked == 0 && !is_silent ? 0 : 1;
}
