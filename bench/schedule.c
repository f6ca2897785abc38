/* schedule.c: durable schedules per second, in batches, with several commits in flight.
 *
 * The clock starts at the first request and stops twice: when every task is acknowledged, and when the index has
 * caught up with the log, because a rate that only grows a backlog does not count. */
#include <stdio.h>
#include <string.h>

#include "flow.h"

#define PAYLOAD_SIZE_MAX 65536

struct load {
    const char *queue;
    uint64_t tasks, batch, in_flight, after_ms, spread_ms, payload_size, seed;
};

static void fill(tarry_commit *commit, const struct load *load, uint64_t first, uint64_t *random) {
    static char payload[PAYLOAD_SIZE_MAX];
    char key[BENCH_KEY_SIZE];
    memset(payload, 'x', load->payload_size);
    for (uint64_t i = first; i < first + load->batch && i < load->tasks; i++) {
        /* Random keys, like order numbers: they are scattered in a tree sorted by key. */
        const size_t key_size = bench_key(key, bench_random(random), i);
        struct tarry_schedule_options task = {
            .queue = load->queue,
            .key = key,
            .key_size = key_size,
            .when = TARRY_DELAY,
            .when_ms = load->after_ms + bench_random(random) % load->spread_ms,
            .payload = payload,
            .payload_size = load->payload_size,
        };
        int rc = tarry_commit_schedule(commit, &task);
        if (rc != TARRY_OK) bench_die("schedule: %s", tarry_code_sentence(rc));
    }
}

static void send_all(tarry_client *client, struct bench_flow *flow, const struct load *load) {
    uint64_t random = load->seed * 2654435761u + 1;
    tarry_commit *commit = NULL;
    if (tarry_commit_new(client, false, &commit) != TARRY_OK) bench_die("out of memory");
    for (uint64_t first = 0; first < load->tasks; first += load->batch) {
        fill(commit, load, first, &random);
        bench_flow_submit(flow, commit, load->in_flight);
    }
    tarry_commit_free(commit);
    bench_flow_wait(flow, 0);
}

int main(int argc, char **argv) {
    struct load load = {.queue = "bench",
                        .tasks = 1000000,
                        .batch = 2000,
                        .in_flight = 8,
                        .after_ms = 60000,
                        .spread_ms = 540000,
                        .payload_size = 32,
                        .seed = bench_wall_ms()};
    const char *broker = NULL;
    uint64_t caught_up_wait_s = 600;
    const struct bench_option options[] = {
        {"broker", "url [$TARRY_BROKER]", NULL, &broker},
        {"queue", "name of the queue [bench]", NULL, &load.queue},
        {"tasks", "how many", &load.tasks, NULL},
        {"batch", "tasks in a commit", &load.batch, NULL},
        {"in-flight", "commits under way", &load.in_flight, NULL},
        {"after-ms", "the earliest falls due after", &load.after_ms, NULL},
        {"spread-ms", "… and the others at random within", &load.spread_ms, NULL},
        {"payload-size", "bytes", &load.payload_size, NULL},
        {"seed", "of keys and times", &load.seed, NULL},
        {"index-wait-s", "give up on the index after", &caught_up_wait_s, NULL},
        {0},
    };
    bench_options(argc, argv, "Durable schedules a second; the clock stops when the index has caught up.", options);
    if (load.batch == 0 || load.batch > TARRY_OPS_PER_COMMIT_MAX)
        bench_die("--batch: 1 … %d", TARRY_OPS_PER_COMMIT_MAX);
    if (load.in_flight == 0 || load.spread_ms == 0 || load.payload_size > PAYLOAD_SIZE_MAX) bench_die("out of range");
    struct bench_flow flow;
    bench_flow_init(&flow);
    tarry_client *client = bench_client(broker, load.in_flight > 16 ? 16 : (uint32_t)load.in_flight);
    uint64_t start_ns = bench_now_ns();
    send_all(client, &flow, &load);
    double acknowledged_s = (double)(bench_now_ns() - start_ns) / 1e9;
    bench_wait_indexed(client, caught_up_wait_s);
    double indexed_s = (double)(bench_now_ns() - start_ns) / 1e9;
    printf("bench=schedule tasks=%llu batch=%llu spread_ms=%llu acknowledged_per_s=%.0f caught_up_per_s=%.0f "
           "acknowledged_s=%.2f caught_up_s=%.2f refused=%llu\n",
           (unsigned long long)flow.done, (unsigned long long)load.batch, (unsigned long long)load.spread_ms,
           (double)flow.done / acknowledged_s, (double)flow.done / indexed_s, acknowledged_s, indexed_s,
           (unsigned long long)flow.refused);
    fflush(stdout);
    tarry_close(client);
    bench_flow_check(&flow, load.tasks);
    return 0;
}
