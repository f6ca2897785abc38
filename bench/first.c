/* first.c: waits for one delivery on a queue, from before the broker is there if need be, and says when it came: how
 * long a restart takes until the first task that is overdue. */
#include <stdio.h>

#include "bench.h"

#define RETRY_NS 2000000u

int main(int argc, char **argv) {
    const char *broker = NULL, *queue = "first";
    uint64_t wait_s = 120;
    const struct bench_option options[] = {
        {"broker", "url [$TARRY_BROKER]", NULL, &broker},
        {"queue", "on which a task is overdue [first]", NULL, &queue},
        {"wait-s", "give up after", &wait_s, NULL},
        {0},
    };
    bench_options(argc, argv, "When a restarted broker's first delivery comes.", options);
    const uint64_t end_ns = bench_now_ns() + wait_s * 1000000000u;
    const struct tarry_options patient = {.urls = broker, .name = "bench", .timeout_ms = 1000};
    struct tarry_consumer_options wish = {.queues = &queue, .queue_count = 1, .prefetch = 1};
    const struct tarry_task *task = NULL;
    tarry_client *client = NULL;
    tarry_consumer *consumer = NULL;
    if (tarry_open(&patient, &client) != TARRY_OK) bench_die("cannot open a client");
    printf("bench=first event=waiting\n");
    fflush(stdout);
    while (tarry_consumer_open(client, &wish, &consumer, NULL) != TARRY_OK) {
        if (bench_now_ns() > end_ns) bench_die("no broker within %llu s", (unsigned long long)wait_s);
        bench_sleep_until_ns(bench_now_ns() + RETRY_NS);
    }
    const uint64_t subscribed_us = bench_wall_us();
    int rc = TARRY_E_NOTHING;
    while (rc != TARRY_OK && bench_now_ns() < end_ns) rc = tarry_consumer_next(consumer, 1000, &task);
    if (rc != TARRY_OK) bench_die("no delivery within %llu s", (unsigned long long)wait_s);
    printf("bench=first subscribed_us=%llu delivered_us=%llu early=%d\n", (unsigned long long)subscribed_us,
           (unsigned long long)bench_wall_us(), task->delivered_ms < task->due_ms);
    rc = tarry_ack(client, task->id, task->token, NULL);
    tarry_task_free(task);
    tarry_consumer_close(consumer, 0);
    tarry_close(client);
    return rc == TARRY_OK ? 0 : 1;
}
