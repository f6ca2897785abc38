/* churn.c: consumers that are opened and closed as fast as possible while tasks are delivered. Lanes are opened, taken
 * over and lost while deliveries are being sent.
 *
 *     churn URL threads cycles
 *
 * Half of the threads have their own client; the other half share one. Every cycle opens a consumer, receives tasks for
 * some milliseconds (in some cycles without a time limit), acknowledges some of them, and closes the consumer. Every
 * eighth cycle does not release its leases. Prints the numbers of operations; exits with 1 after an unexpected reply.
 * For churn_test.py, and for runs with sanitizers. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <tarry.h>

#define THREADS_MAX 64
#define TASKS_PER_COMMIT 50
#define LEASE_MS 1000 /* ms; short, so that abandoned leases end soon */
#define PATIENCE_MS 30000

static tarry_client *shared;
static const char *url;
static unsigned cycles;
static atomic_ullong opened, taken, refused;
static atomic_bool is_over;

static void complain(const char *what, int code) {
    fprintf(stderr, "churn: %s: %s\n", what, tarry_code_sentence(code));
    atomic_fetch_add(&refused, 1);
}

static tarry_client *client_new(void) {
    tarry_client *client = NULL;
    struct tarry_options options = {.urls = url};
    int rv = tarry_open(&options, &client);
    if (rv != TARRY_OK) complain("open", rv);
    return client;
}

static void take_some(tarry_client *client, tarry_consumer *consumer, unsigned cycle) {
    const struct tarry_task *tasks[16];
    size_t count = 0;
    uint64_t wait_ms = cycle % 16 == 14 ? PATIENCE_MS : cycle % 5;
    int rv = tarry_consumer_next_batch(consumer, wait_ms, tasks, 1 + cycle % 16, &count);
    if (rv != TARRY_OK) {
        if (rv != TARRY_E_NOTHING && rv != TARRY_E_TIMEOUT) complain("next", rv);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (i % 3 != 0) /* Two thirds of the tasks are settled. The others are delivered again after their leases. */
            rv = i % 3 == 0 ? TARRY_OK : tarry_ack_async(client, tasks[i]->id, tasks[i]->token, NULL, NULL, NULL);
        if (rv != TARRY_OK) complain("ack", rv);
        tarry_task_free(tasks[i]);
    }
    atomic_fetch_add(&taken, count);
}

static void *come_and_go(void *argument) {
    unsigned number = (unsigned)(uintptr_t)argument;
    tarry_client *client = number % 2 == 0 ? shared : client_new();
    const char *queue = "churn";
    for (unsigned i = 0; i < cycles && client != NULL; i++) {
        struct tarry_consumer_options options = {.queues = &queue,
                                                 .queue_count = 1,
                                                 .prefetch = 1 + (i * 7 + number) % 64,
                                                 .lease_ms = LEASE_MS};
        tarry_consumer *consumer;
        int rv = tarry_consumer_open(client, &options, &consumer, NULL);
        if (rv != TARRY_OK) {
            complain("consumer", rv);
            continue;
        }
        atomic_fetch_add(&opened, 1);
        if ((i + number) % 3 != 0) take_some(client, consumer, i + number);
        tarry_consumer_close(consumer, i % 8 == 7 ? TARRY_KEEP_LEASES : 0, NULL);
    }
    if (client != shared) tarry_close(client);
    return NULL;
}

/* Schedules tasks until all consumers have ended. */
static void *feed(void *argument) {
    tarry_client *client = client_new();
    struct tarry_schedule_options task = {.queue = "churn", .when_ms = 0};
    while (client != NULL && !atomic_load(&is_over)) {
        int rv = TARRY_OK;
        for (unsigned i = 0; i < TASKS_PER_COMMIT && rv == TARRY_OK; i++)
            rv = tarry_schedule_async(client, &task, NULL, NULL);
        if (rv == TARRY_OK) rv = tarry_drain(client, 0, NULL);
        if (rv != TARRY_OK) complain("schedule", rv);
    }
    tarry_close(client);
    return NULL;
}

int main(int argc, char **argv) {
    unsigned count = argc == 4 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
    if (count == 0 || count > THREADS_MAX) {
        fprintf(stderr, "usage: churn URL threads cycles\n");
        return 2;
    }
    url = argv[1];
    cycles = (unsigned)strtoul(argv[3], NULL, 10);
    shared = client_new();
    if (shared == NULL) return 1;
    pthread_t feeder, threads[THREADS_MAX];
    if (pthread_create(&feeder, NULL, feed, NULL) != 0) return 1;
    for (unsigned i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, come_and_go, (void *)(uintptr_t)i) != 0) return 1;
    for (unsigned i = 0; i < count; i++) pthread_join(threads[i], NULL);
    atomic_store(&is_over, true);
    pthread_join(feeder, NULL);
    tarry_close(shared);
    printf("{\"opened\":%llu,\"taken\":%llu,\"refused\":%llu}\n", atomic_load(&opened), atomic_load(&taken),
           atomic_load(&refused));
    return atomic_load(&refused) > 0;
}
