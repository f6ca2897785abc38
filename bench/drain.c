/* drain.c: several consumers drain many tasks that become due in the same second; each is acked once.
 *
 * Every task contains its number, so that its arrivals are counted: `lost` and `twice` must be 0. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "flow.h"
#include "ledger.h"

#define BATCH 4096
#define SCHEDULE_BATCH 2000
#define COMMITS_UNDER_WAY 8
#define CONSUMERS_MAX 64
#define PAYLOAD_SIZE_MAX 65536

struct drain {
    const char *broker;
    const char *queue;
    uint64_t tasks;
    uint64_t prefetch;
    uint64_t payload_size;
    struct ledger ledger;
    struct bench_flow acks;
};

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
    while (bench_flow_done(&drain->acks) < drain->tasks) {
        size_t count = 0;
        int rc = tarry_consumer_next_batch(consumer, 200, tasks, BATCH, &count);
        if (rc == TARRY_E_NOTHING) continue;
        if (rc != TARRY_OK) bench_die("next: %s", tarry_code_sentence(rc));
        for (size_t i = 0; i < count; i++) {
            uint64_t number =
                ledger_arrived(&drain->ledger, tasks[i]->payload, tasks[i]->payload_size, tasks[i]->due_ms);
            if (number == UINT64_MAX) bench_die("a task that is not ours: is the queue fresh?");
            if (tarry_commit_ack(acks, tasks[i]->id, tasks[i]->token) != TARRY_OK) bench_die("ack");
            tarry_task_free(tasks[i]);
        }
        bench_flow_submit(&drain->acks, acks, CONSUMERS_MAX * COMMITS_UNDER_WAY);
    }
    tarry_commit_free(acks);
    tarry_consumer_close(consumer, 0, NULL);
    tarry_close(client);
    return NULL;
}

static void schedule_all(const struct drain *drain, uint64_t due_ms, uint64_t spread_ms) {
    static char payload[PAYLOAD_SIZE_MAX];
    char key[BENCH_KEY_SIZE];
    tarry_client *client = bench_client(drain->broker, COMMITS_UNDER_WAY);
    tarry_commit *commit = NULL;
    uint64_t random = bench_wall_ms() * 2654435761u + 1;
    struct bench_flow flow;
    bench_flow_init(&flow);
    if (tarry_commit_new(client, false, &commit) != TARRY_OK) bench_die("out of memory");
    for (uint64_t number = 0; number < drain->tasks; number++) {
        const uint64_t when_ms = due_ms + bench_random(&random) % spread_ms;
        ledger_write(payload, drain->payload_size, number, when_ms);
        const size_t key_size = bench_key(key, bench_random(&random), number);
        struct tarry_schedule_options task = {.queue = drain->queue,
                                              .key = key,
                                              .key_size = key_size,
                                              .when = TARRY_AT,
                                              .when_ms = when_ms,
                                              .payload = payload,
                                              .payload_size = drain->payload_size};
        if (tarry_commit_schedule(commit, &task) != TARRY_OK) bench_die("schedule");
        if (tarry_commit_count(commit) == SCHEDULE_BATCH || number + 1 == drain->tasks)
            bench_flow_submit(&flow, commit, COMMITS_UNDER_WAY);
    }
    bench_flow_wait(&flow, 0);
    bench_flow_check(&flow, drain->tasks);
    tarry_commit_free(commit);
    tarry_close(client);
}

/* Measures from the first delivery, or from the time at which all tasks were due and scheduled, if no task had arrived
 * by then. */
static int report(struct drain *drain, uint64_t consumers, uint64_t all_there_ns) {
    const uint64_t first_ns = drain->ledger.first_ns, from_ns = first_ns < all_there_ns ? first_ns : all_there_ns;
    const double seconds = (double)(drain->acks.last_ns - from_ns) / 1e9;
    printf("bench=drain tasks=%llu consumers=%llu seconds=%.2f per_s=%.0f lost=%llu not_acked=%llu",
           (unsigned long long)drain->tasks, (unsigned long long)consumers, seconds, (double)drain->tasks / seconds,
           (unsigned long long)(drain->tasks - drain->ledger.arrived), (unsigned long long)drain->acks.refused);
    ledger_print(&drain->ledger);
    printf("\n");
    return ledger_is_good(&drain->ledger, drain->tasks) && drain->acks.refused == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    static struct drain drain = {.queue = "drain", .tasks = 1000000, .prefetch = 8192, .payload_size = 128};
    uint64_t consumers = 4, after_ms = 15000, spread_ms = 1000;
    const struct bench_option options[] = {
        {"broker", "url [$TARRY_BROKER]", NULL, &drain.broker},
        {"queue", "name of a fresh queue [drain]", NULL, &drain.queue},
        {"tasks", "how many", &drain.tasks, NULL},
        {"consumers", "each with a client of its own", &consumers, NULL},
        {"prefetch", "of each", &drain.prefetch, NULL},
        {"payload-size", "bytes", &drain.payload_size, NULL},
        {"after-ms", "the earliest falls due after this; must leave time to schedule them", &after_ms, NULL},
        {"spread-ms", "… and the others at random within; 1: in the order in which they were scheduled", &spread_ms,
         NULL},
        {0},
    };
    bench_options(argc, argv, "Drains tasks that fall due together.", options);
    if (consumers == 0 || consumers > CONSUMERS_MAX || drain.tasks == 0 || drain.payload_size > PAYLOAD_SIZE_MAX ||
        drain.payload_size < LEDGER_PAYLOAD_SIZE_MIN || spread_ms == 0)
        bench_die("out of range");
    ledger_init(&drain.ledger, drain.tasks);
    bench_flow_init(&drain.acks);
    uint64_t start_ns = bench_now_ns();
    schedule_all(&drain, bench_wall_ms() + after_ms, spread_ms);
    const uint64_t scheduled_ns = bench_now_ns(), due_ns = start_ns + (after_ms + spread_ms) * 1000000u;
    if (scheduled_ns > start_ns + after_ms * 1000000u)
        fprintf(stderr, "bench: scheduling took longer than --after-ms: some were overdue already\n");
    pthread_t ids[CONSUMERS_MAX];
    for (uint64_t i = 0; i < consumers; i++)
        if (pthread_create(&ids[i], NULL, consume, &drain) != 0) bench_die("no thread");
    for (uint64_t i = 0; i < consumers; i++) pthread_join(ids[i], NULL);
    int status = report(&drain, consumers, scheduled_ns > due_ns ? scheduled_ns : due_ns);
    ledger_deinit(&drain.ledger);
    return status;
}
