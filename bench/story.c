/* story.c: fills a broker's log with the *order story*: each order is a task that would close the order in 30 minutes.
 * Most orders are paid before, so their tasks are cancelled; some get more time; a few are shipped by a consumer that
 * acks.
 *
 * Orders are committed in batches. The decisions about the orders of a batch are committed with the orders of a later
 * batch, after the commit of the first batch was acknowledged. At the end every order must have been decided as
 * planned; otherwise the bench exits with an error. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "flow.h"

#define BATCHES_BEHIND 16u /* length of the ring of batches; more than are ever in flight */
#define IN_FLIGHT 8u
#define CLOSE_AFTER_MS (30u * 60 * 1000)
#define MORE_TIME_MS (15u * 60 * 1000)
/* Percentages of the orders that are paid, and of those that get more time. */
#define PAID 85u
#define MOVED 10u

struct story {
    const char *broker;
    tarry_client *client;
    uint64_t orders;
    uint64_t batch;
    struct bench_flow flow;
    atomic_ullong shipped;
    atomic_bool over;
};

static size_t key_of(uint64_t order, char key[32]) {
    return (size_t)snprintf(key, 32, "order-%09llu", (unsigned long long)order);
}

static void place(tarry_commit *commit, uint64_t order) {
    char key[32], payload[64];
    size_t payload_size = (size_t)snprintf(payload, sizeof payload, "{\"order\":%llu}", (unsigned long long)order);
    struct tarry_schedule_options task = {.queue = "close-order",
                                          .key = key,
                                          .key_size = key_of(order, key),
                                          .when_ms = CLOSE_AFTER_MS,
                                          .payload = payload,
                                          .payload_size = payload_size};
    if (tarry_commit_schedule(commit, &task) != TARRY_OK) bench_die("schedule");
}

static void decide(tarry_commit *commit, uint64_t order) {
    char key[32];
    struct tarry_ref ref = {.queue = "close-order", .key = key, .key_size = key_of(order, key)};
    int rc;
    if (order % 100 < PAID) {
        rc = tarry_commit_cancel(commit, &ref, false);
    } else if (order % 100 < PAID + MOVED) {
        rc = tarry_commit_move(commit, &ref, TARRY_DELAY, CLOSE_AFTER_MS + MORE_TIME_MS);
    } else {
        struct tarry_schedule_options task = {.queue = "ship", .key = key, .key_size = ref.key_size};
        rc = tarry_commit_schedule(commit, &task);
    }
    if (rc != TARRY_OK) bench_die("decide");
}

static void tell(struct story *story) {
    tarry_commit *commit = NULL;
    uint64_t batches = (story->orders + story->batch - 1) / story->batch;
    if (tarry_commit_new(story->client, false, &commit) != TARRY_OK) bench_die("out of memory");
    for (uint64_t i = 0; i < batches + BATCHES_BEHIND; i++) {
        for (uint64_t order = i * story->batch; order < (i + 1) * story->batch && order < story->orders; order++)
            place(commit, order);
        uint64_t decided = i < BATCHES_BEHIND ? story->orders : (i - BATCHES_BEHIND) * story->batch;
        for (uint64_t order = decided; order < decided + story->batch && order < story->orders; order++)
            decide(commit, order);
        if (tarry_commit_count(commit) == 0) continue;
        bench_flow_submit(&story->flow, commit, IN_FLIGHT);
    }
    bench_flow_wait(&story->flow, 0);
    tarry_commit_free(commit);
}

static void *ship(void *arg) {
    struct story *story = arg;
    const char *queue = "ship";
    const struct tarry_task *tasks[1024];
    tarry_client *client = bench_client(story->broker, 1);
    tarry_consumer *consumer = NULL;
    struct tarry_consumer_options options = {.queues = &queue, .queue_count = 1, .prefetch = 4096, .max_batch = 1024};
    if (tarry_consumer_open(client, &options, &consumer, NULL) != TARRY_OK) bench_die("cannot subscribe");
    while (!atomic_load(&story->over)) {
        size_t count = 0;
        int rc = tarry_consumer_next_batch(consumer, 100, tasks, 1024, &count);
        /* true: no task arrived in time, for example because the machine is busy; the consumer tries again. */
        bool is_quiet = rc == TARRY_E_NOTHING || rc == TARRY_E_TIMEOUT;
        if (rc != TARRY_OK && !is_quiet) bench_die("next: %s", tarry_code_sentence(rc));
        for (size_t i = 0; i < count; i++) {
            if (tarry_ack_async(client, tasks[i]->id, tasks[i]->token, NULL, NULL, NULL) != TARRY_OK) bench_die("ack");
            tarry_task_free(tasks[i]);
        }
        if (tarry_drain(client, 4096, NULL) != TARRY_OK) bench_die("drain");
        atomic_fetch_add(&story->shipped, count);
    }
    if (tarry_drain(client, 0, NULL) != TARRY_OK) bench_die("drain");
    tarry_consumer_close(consumer, 0, NULL);
    tarry_close(client);
    return NULL;
}

int main(int argc, char **argv) {
    struct story story = {.orders = 100000, .batch = 1000};
    uint64_t wait_s = 600;
    const struct bench_option options[] = {
        {"broker", "url [$TARRY_BROKER]", NULL, &story.broker},
        {"orders", "how many; a million makes 2.1 million records", &story.orders, NULL},
        {"batch", "orders in a commit", &story.batch, NULL},
        {"wait-s", "give up on the last shipment and on the index after", &wait_s, NULL},
        {0},
    };
    bench_options(argc, argv, "Fills a fresh broker's log with the story of orders.", options);
    if (story.batch == 0 || story.batch * 2 > TARRY_OPS_PER_COMMIT_MAX)
        bench_die("--batch: 1 … %d", TARRY_OPS_PER_COMMIT_MAX / 2);
    bench_flow_init(&story.flow);
    story.client = bench_client(story.broker, IN_FLIGHT);
    pthread_t shipper;
    if (pthread_create(&shipper, NULL, ship, &story) != 0) bench_die("no thread");
    uint64_t start_ns = bench_now_ns(), expected = 0;
    for (uint64_t order = 0; order < story.orders; order++) expected += order % 100 >= PAID + MOVED;
    tell(&story);
    while (atomic_load(&story.shipped) < expected && bench_now_ns() - start_ns < wait_s * 1000000000u)
        bench_sleep_until_ns(bench_now_ns() + 10000000);
    atomic_store(&story.over, true);
    pthread_join(shipper, NULL);
    bench_wait_indexed(story.client, wait_s);
    double seconds = (double)(bench_now_ns() - start_ns) / 1e9;
    printf("bench=story orders=%llu shipped=%llu refused=%llu seconds=%.2f orders_per_s=%.0f\n",
           (unsigned long long)story.orders, (unsigned long long)story.shipped, (unsigned long long)story.flow.refused,
           seconds, (double)story.orders / seconds);
    tarry_close(story.client);
    if (story.flow.refused > 0 || story.shipped != expected) bench_die("the story was not told to its end");
    return 0;
}
