/* orders.c: the *order story* as a load. Each order is a task that would close the order at its due time. 90 of 100
 * orders are paid, so their tasks are cancelled by key. The other 10 tasks fall due and are acked. Operations are
 * schedules, cancels and acks: two per order.
 *
 * An order is cancelled some batches after its schedule was acknowledged, and long before it is due: a cancel that
 * comes too late ends the bench. The rate counts everything that was answered until the last schedule or cancel. After
 * that, each remaining task must be delivered exactly once. */
#include <pthread.h>
#include <stdio.h>

#include "flow.h"
#include "ledger.h"

#define BATCH 1024
#define UNDER_WAY 8u
#define BATCHES_BEHIND 16u /* length of the ring of batches; more than are ever in flight */
#define PAID 90u           /* percentage of orders that are paid */
#define PAYLOAD_SIZE 128

static const char queue_name[] = "close-order";

struct orders {
    const char *broker;
    uint64_t orders, batch, close_after_ms, wait_s;
    uint64_t fires; /* number of orders that fire */
    struct ledger ledger;
    struct bench_flow decisions;
    struct bench_flow acks;
};

static bool is_paid(uint64_t order) {
    return order % 100 < PAID;
}

static size_t key_of(uint64_t order, char key[BENCH_KEY_SIZE]) {
    uint64_t scattered = order * 2654435761u + 1; /* keys are scattered, like order numbers */
    scattered = bench_random(&scattered);
    return bench_key(key, scattered, order);
}

static void place(tarry_commit *commit, const struct orders *orders, uint64_t order) {
    char key[BENCH_KEY_SIZE], payload[PAYLOAD_SIZE];
    ledger_write(payload, sizeof(payload), order, 0);
    struct tarry_schedule_options task = {.queue = queue_name,
                                          .key = key,
                                          .key_size = key_of(order, key),
                                          .when_ms = orders->close_after_ms,
                                          .payload = payload,
                                          .payload_size = sizeof(payload)};
    if (tarry_commit_schedule(commit, &task) != TARRY_OK) bench_die("schedule");
}

static void pay(tarry_commit *commit, uint64_t order) {
    char key[BENCH_KEY_SIZE];
    struct tarry_ref ref = {.queue = queue_name, .key = key, .key_size = key_of(order, key)};
    if (tarry_commit_cancel(commit, &ref, false) != TARRY_OK) bench_die("cancel");
}

static void decide_all(struct orders *orders, tarry_client *client) {
    tarry_commit *commit = NULL;
    const uint64_t batches = (orders->orders + orders->batch - 1) / orders->batch;
    if (tarry_commit_new(client, false, &commit) != TARRY_OK) bench_die("out of memory");
    for (uint64_t i = 0; i < batches + BATCHES_BEHIND; i++) {
        for (uint64_t order = i * orders->batch; order < (i + 1) * orders->batch && order < orders->orders; order++)
            place(commit, orders, order);
        const uint64_t first = i < BATCHES_BEHIND ? orders->orders : (i - BATCHES_BEHIND) * orders->batch;
        for (uint64_t order = first; order < first + orders->batch && order < orders->orders; order++)
            if (is_paid(order)) pay(commit, order);
        if (tarry_commit_count(commit) > 0) bench_flow_submit(&orders->decisions, commit, UNDER_WAY);
    }
    bench_flow_wait(&orders->decisions, 0);
    tarry_commit_free(commit);
}

static void *close_unpaid(void *arg) {
    struct orders *orders = arg;
    const char *const queues[] = {queue_name};
    const struct tarry_task *tasks[BATCH];
    const uint64_t end_ns = bench_now_ns() + orders->wait_s * 1000000000u;
    tarry_client *client = bench_client(orders->broker, 4);
    tarry_consumer *consumer = NULL;
    tarry_commit *acks = NULL;
    struct tarry_consumer_options options = {.queues = queues, .queue_count = 1, .prefetch = 8192, .max_batch = BATCH};
    if (tarry_consumer_open(client, &options, &consumer, NULL) != TARRY_OK) bench_die("cannot subscribe");
    if (tarry_commit_new(client, false, &acks) != TARRY_OK) bench_die("out of memory");
    while (bench_flow_done(&orders->acks) < orders->fires && bench_now_ns() < end_ns) {
        size_t count = 0;
        int rc = tarry_consumer_next_batch(consumer, 100, tasks, BATCH, &count);
        if (rc != TARRY_OK && rc != TARRY_E_NOTHING) bench_die("next: %s", tarry_code_sentence(rc));
        for (size_t i = 0; i < count; i++) {
            const uint64_t order =
                ledger_arrived(&orders->ledger, tasks[i]->payload, tasks[i]->payload_size, tasks[i]->due_ms);
            if (order == UINT64_MAX || is_paid(order)) bench_die("an order fired that was paid, or is none of ours");
            if (tarry_commit_ack(acks, tasks[i]->id, tasks[i]->token) != TARRY_OK) bench_die("ack");
            tarry_task_free(tasks[i]);
        }
        if (count > 0) bench_flow_submit(&orders->acks, acks, UNDER_WAY);
    }
    bench_flow_wait(&orders->acks, 0);
    tarry_commit_free(acks);
    tarry_consumer_close(consumer, 0, NULL);
    tarry_close(client);
    return NULL;
}

int main(int argc, char **argv) {
    static struct orders orders = {.orders = 1000000, .batch = 1000, .close_after_ms = 4000, .wait_s = 300};
    const struct bench_option options[] = {
        {"broker", "url [$TARRY_BROKER]", NULL, &orders.broker},
        {"orders", "how many", &orders.orders, NULL},
        {"batch", "orders in a commit, and decisions about as many", &orders.batch, NULL},
        {"after-ms", "they are closed after", &orders.close_after_ms, NULL},
        {"wait-s", "give up after", &orders.wait_s, NULL},
        {0},
    };
    bench_options(argc, argv, "The order story: schedule, cancel 90 % by key, let 10 % fire.", options);
    if (orders.batch == 0 || orders.batch * 2 > TARRY_OPS_PER_COMMIT_MAX || orders.orders == 0)
        bench_die("--batch: 1 … %d", TARRY_OPS_PER_COMMIT_MAX / 2);
    for (uint64_t order = 0; order < orders.orders; order++) orders.fires += !is_paid(order);
    ledger_init(&orders.ledger, orders.orders);
    bench_flow_init(&orders.decisions);
    bench_flow_init(&orders.acks);
    pthread_t closer;
    if (pthread_create(&closer, NULL, close_unpaid, &orders) != 0) bench_die("no thread");
    tarry_client *client = bench_client(orders.broker, UNDER_WAY);
    const uint64_t start_ns = bench_now_ns();
    decide_all(&orders, client);
    const double seconds = (double)(bench_now_ns() - start_ns) / 1e9;
    const uint64_t answered = bench_flow_done(&orders.decisions) + bench_flow_done(&orders.acks);
    bench_flow_check(&orders.decisions, orders.orders + orders.orders - orders.fires);
    pthread_join(closer, NULL);
    bench_wait_indexed(client, orders.wait_s);
    printf("bench=orders orders=%llu fired=%llu operations=%llu seconds=%.2f per_s=%.0f lost=%llu",
           (unsigned long long)orders.orders, (unsigned long long)orders.ledger.arrived, (unsigned long long)answered,
           seconds, (double)answered / seconds, (unsigned long long)(orders.fires - orders.ledger.arrived));
    ledger_print(&orders.ledger);
    printf("\n");
    tarry_close(client);
    const bool is_good = ledger_is_good(&orders.ledger, orders.fires);
    ledger_deinit(&orders.ledger);
    bench_flow_check(&orders.acks, orders.fires);
    return is_good ? 0 : 1;
}
