/* lateness.c: how late tasks come, at a steady rate, to a consumer that acks each durably; for a few seconds, or
 * long enough to show that nothing grows. No task may be early, lost or delivered twice, and the producer must keep
 * the rate. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow.h"
#include "ledger.h"

#define TICK_MS 10u
#define TICK_NS (TICK_MS * 1000000ull)
#define BATCH 1024
#define CONSUMERS_MAX 16
#define COMMITS_UNDER_WAY 8
#define PAYLOAD_SIZE_MAX 65536
#define WAIT_MS 200
#define SILENCE_MAX_NS 60000000000ull /* if no delivery comes for this time, an awaited task counts as lost */

static const char queue_name[] = "lateness";

struct run {
    const char *broker;
    uint64_t rate, seconds, after_ms, spread_ms, payload_size, consumers, report_s, leave;
    uint64_t expected;
    uint64_t behind_ns; /* maximal delay of the producer behind its clock */
    struct ledger ledger;
    struct bench_flow flow;
    atomic_ullong sent;
    atomic_ullong acked;
    atomic_ullong not_acked;
    atomic_bool over;
};

static void ack_done(void *arg, const struct tarry_result *result) {
    struct run *run = arg;
    atomic_fetch_add(result->code == TARRY_OK ? &run->acked : &run->not_acked, 1);
}

static bool is_over(struct run *run) {
    return atomic_load(&run->over) || (run->leave == 0 && run->ledger.arrived >= run->expected);
}

static void *consume(void *arg) {
    struct run *run = arg;
    tarry_client *client = bench_client(run->broker, 4);
    const char *const queues[] = {queue_name};
    struct tarry_consumer_options options = {.queues = queues, .queue_count = 1, .prefetch = 8192, .max_batch = BATCH};
    tarry_consumer *consumer = NULL;
    if (tarry_consumer_open(client, &options, &consumer, NULL) != TARRY_OK) bench_die("cannot subscribe");
    const struct tarry_task *tasks[BATCH];
    uint64_t heard_ns = bench_now_ns();
    while (!is_over(run)) {
        size_t count = 0;
        int rc = tarry_consumer_next_batch(consumer, WAIT_MS, tasks, BATCH, &count);
        if (rc != TARRY_OK && rc != TARRY_E_NOTHING) bench_die("next: %s", tarry_code_sentence(rc));
        if (count > 0) heard_ns = bench_now_ns();
        if (bench_now_ns() - heard_ns > SILENCE_MAX_NS + (run->after_ms + run->spread_ms) * 1000000u)
            bench_die("%llu of %llu came", (unsigned long long)run->ledger.arrived, (unsigned long long)run->expected);
        for (size_t i = 0; i < count; i++) ledger_prefetch(&run->ledger, tasks[i]->payload, tasks[i]->payload_size);
        for (size_t i = 0; i < count; i++) {
            ledger_arrived(&run->ledger, tasks[i]->payload, tasks[i]->payload_size, tasks[i]->due_ms);
            if (tarry_ack_async(client, tasks[i]->id, tasks[i]->token, NULL, ack_done, run) != TARRY_OK)
                bench_die("ack");
            tarry_task_free(tasks[i]);
        }
    }
    if (tarry_drain(client, 0, NULL) != TARRY_OK) bench_die("acks");
    tarry_consumer_close(consumer, 0, NULL);
    tarry_close(client);
    return NULL;
}

/* Prints the figures since the last report. */
static void report(struct run *run, uint64_t start_ns, struct histogram *before) {
    static struct histogram now;
    histogram_copy(&now, &run->ledger.late_us);
    printf("bench=lateness_part at_s=%.1f sent=%llu arrived=%llu acked=%llu late_p50_us=%llu late_p99_us=%llu "
           "late_p999_us=%llu\n",
           (double)(bench_now_ns() - start_ns) / 1e9, (unsigned long long)run->sent,
           (unsigned long long)run->ledger.arrived, (unsigned long long)run->acked,
           (unsigned long long)histogram_quantile(&now, before, 0.5),
           (unsigned long long)histogram_quantile(&now, before, 0.99),
           (unsigned long long)histogram_quantile(&now, before, 0.999));
    fflush(stdout);
    histogram_copy(before, &now);
}

static void produce(struct run *run, tarry_client *client) {
    static char payload[PAYLOAD_SIZE_MAX];
    static struct histogram before;
    char key[BENCH_KEY_SIZE];
    uint64_t random = bench_wall_ms() * 2654435761u + 1, number = 0, start_ns = bench_now_ns();
    const uint64_t ticks = run->seconds * 1000 / TICK_MS, each = run->rate * TICK_MS / 1000;
    tarry_commit *commit = NULL;
    if (tarry_commit_new(client, false, &commit) != TARRY_OK) bench_die("out of memory");
    for (uint64_t tick = 0; tick < ticks; tick++) {
        for (uint64_t i = 0; i < each; i++, number++) {
            const uint64_t delay_ms = run->after_ms + bench_random(&random) % run->spread_ms;
            ledger_write(payload, run->payload_size, number, bench_wall_ms() + delay_ms);
            const size_t key_size = bench_key(key, bench_random(&random), number);
            struct tarry_schedule_options task = {.queue = queue_name,
                                                  .key = key,
                                                  .key_size = key_size,
                                                  .when_ms = delay_ms,
                                                  .payload = payload,
                                                  .payload_size = run->payload_size};
            if (tarry_commit_schedule(commit, &task) != TARRY_OK) bench_die("schedule");
        }
        bench_flow_submit(&run->flow, commit, COMMITS_UNDER_WAY);
        atomic_store(&run->sent, number);
        const uint64_t then_ns = start_ns + (tick + 1) * TICK_NS, now_ns = bench_now_ns();
        if (now_ns > then_ns && now_ns - then_ns > run->behind_ns) run->behind_ns = now_ns - then_ns;
        bench_sleep_until_ns(then_ns);
        if (run->report_s > 0 && (tick + 1) % (run->report_s * 1000 / TICK_MS) == 0) report(run, start_ns, &before);
    }
    bench_flow_wait(&run->flow, 0);
    bench_flow_check(&run->flow, run->expected);
    tarry_commit_free(commit);
    printf("bench=lateness rate_per_s=%llu held_per_s=%.0f behind_max_ms=%llu", (unsigned long long)run->rate,
           (double)number / ((double)(bench_now_ns() - start_ns) / 1e9), (unsigned long long)run->behind_ns / 1000000);
    fflush(stdout);
}

/* Returns how many tasks the broker still has, by its own count. */
static uint64_t left_at_broker(tarry_client *client) {
    struct tarry_queues_view *view = NULL;
    char message[TARRY_MESSAGE_SIZE];
    uint64_t left = 0;
    if (tarry_queues(client, NULL, &view, message) != TARRY_OK) bench_die("queues: %s", message);
    for (size_t i = 0; i < view->count; i++)
        if (strcmp(view->queues[i]->name, queue_name) == 0)
            left = view->queues[i]->pending + view->queues[i]->in_flight + view->queues[i]->dead;
    tarry_queues_free(view);
    return left;
}

static int judge(struct run *run, tarry_client *client) {
    const uint64_t left = left_at_broker(client), arrived = run->ledger.arrived;
    /* Tasks that arrived and were not acked are also among those that the broker still has. */
    const uint64_t lost = run->expected - (uint64_t)run->acked > left ? run->expected - (uint64_t)run->acked - left : 0;
    printf(" tasks=%llu arrived=%llu left=%llu lost=%llu not_acked=%llu", (unsigned long long)run->expected,
           (unsigned long long)arrived, (unsigned long long)left, (unsigned long long)lost,
           (unsigned long long)run->not_acked);
    ledger_print(&run->ledger);
    printf("\n");
    const bool is_whole = left + (uint64_t)run->acked == run->expected && run->not_acked == 0;
    return is_whole && ledger_is_good(&run->ledger, run->leave != 0 ? arrived : run->expected) ? 0 : 1;
}

int main(int argc, char **argv) {
    static struct run run = {
        .rate = 10000, .seconds = 20, .after_ms = 2000, .spread_ms = 2000, .payload_size = 128, .consumers = 1};
    const struct bench_option options[] = {
        {"broker", "url [$TARRY_BROKER]", NULL, &run.broker},
        {"rate", "tasks a second", &run.rate, NULL},
        {"seconds", "how long", &run.seconds, NULL},
        {"after-ms", "each falls due after this", &run.after_ms, NULL},
        {"spread-ms", "… and at random up to so much later", &run.spread_ms, NULL},
        {"payload-size", "bytes", &run.payload_size, NULL},
        {"consumers", "each with a client of its own", &run.consumers, NULL},
        {"report-s", "a line each so many seconds; 0: none", &run.report_s, NULL},
        {"leave", "1: ends with the last schedule, and counts what is left; 0: when all have come", &run.leave, NULL},
        {0},
    };
    bench_options(argc, argv, "Lateness at a steady rate, each task acked durably.", options);
    if (run.rate < 1000 / TICK_MS || run.rate * TICK_MS / 1000 > TARRY_OPS_PER_COMMIT_MAX || run.seconds == 0 ||
        run.spread_ms == 0 || run.payload_size < LEDGER_PAYLOAD_SIZE_MIN || run.payload_size > PAYLOAD_SIZE_MAX ||
        run.consumers == 0 || run.consumers > CONSUMERS_MAX)
        bench_die("out of range");
    run.expected = run.rate * TICK_MS / 1000 * (run.seconds * 1000 / TICK_MS);
    ledger_init(&run.ledger, run.expected);
    bench_flow_init(&run.flow);
    pthread_t consumers[CONSUMERS_MAX];
    for (uint64_t i = 0; i < run.consumers; i++)
        if (pthread_create(&consumers[i], NULL, consume, &run) != 0) bench_die("no thread");
    tarry_client *client = bench_client(run.broker, COMMITS_UNDER_WAY);
    produce(&run, client);
    if (run.leave != 0) atomic_store(&run.over, true);
    for (uint64_t i = 0; i < run.consumers; i++) pthread_join(consumers[i], NULL);
    int status = judge(&run, client);
    tarry_close(client);
    ledger_deinit(&run.ledger);
    return status;
}
