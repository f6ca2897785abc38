/* worker.c: a worker that calls an unreliable service.
 *
 *   - A failed call is retried after the queue's backoff, at most five times. Then the task becomes a dead letter. A
 *     permanent refusal makes it a dead letter at once. Each failure has its reason.
 *   - After a successful call, the task is acknowledged and its next step scheduled in one atomic commit. After a
 *     crash, either both have happened or neither.
 *
 * The worker creates its own tasks. Run it for some seconds, kill it and start it again.
 *
 *     worker [ws://host:port] */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarry.h>
#include <time.h>

#define CALLS 10

static volatile sig_atomic_t stopping;

static void on_signal(int signal_number) {
    (void)signal_number;
    stopping = 1;
}

enum charge { CHARGED, CARD_EXPIRED, BANK_DOWN };

/* An unreliable service: about every second call succeeds. */
static enum charge charge_card(const char *order) {
    (void)order;
    int luck = rand() % 20;
    return luck < 10 ? CHARGED : luck < 19 ? BANK_DOWN : CARD_EXPIRED;
}

/* Allows at most five attempts, with a backoff of 0.5 s, doubling. */
static int set_policy(tarry_client *client) {
    struct tarry_policy policy = {
        .max_attempts = 5,
        .backoff_exponential = true,
        .backoff_min_ms = 500,
        .backoff_max_ms = 10000,
        .backoff_jitter = 20,
    };
    struct tarry_result result;
    int rv = tarry_queue_set(client, "charge", &policy,
                             TARRY_POLICY_MAX_ATTEMPTS | TARRY_POLICY_BACKOFF | TARRY_POLICY_BACKOFF_MIN |
                                 TARRY_POLICY_BACKOFF_MAX | TARRY_POLICY_BACKOFF_JITTER,
                             NULL, &result);
    if (rv != TARRY_OK) fprintf(stderr, "worker: %s\n", result.message);
    return rv;
}

static void make_work(tarry_client *client) {
    for (int i = 0; i < CALLS; i++) {
        char key[32];
        snprintf(key, sizeof(key), "order-%d", i);
        struct tarry_schedule_options charge = {.queue = "charge", .key = key, .when_ms = (uint64_t)(i * 200)};
        struct tarry_result result;
        int rv = tarry_schedule(client, &charge, &result);
        if (rv == TARRY_EXISTS)
            printf("%s is already under way\n", key);
        else if (rv != TARRY_OK)
            fprintf(stderr, "worker: %s: %s\n", key, result.message);
    }
}

/* Acknowledges the task and schedules the next step in one atomic commit. */
static void finish_and_go_on(tarry_client *client, const struct tarry_task *task) {
    struct tarry_schedule_options ship = {.queue = "ship", .key = task->key, .when_ms = 1000};
    const struct tarry_result *results;
    tarry_commit *commit;
    if (tarry_commit_new(client, true, &commit) != TARRY_OK) return;
    tarry_commit_ack(commit, task->id, task->token);
    tarry_commit_schedule(commit, &ship);
    size_t count;
    int rv = tarry_commit_run(commit, NULL, &results, &count);
    if (rv == TARRY_OK) {
        printf("%s charged at attempt %u, ships in a second\n", task->key, task->attempt);
    } else {
        /* The lease was probably lost, and another worker has the task now. That worker acknowledges it and schedules
         * the next step. */
        printf("%s not finished: %s\n", task->key, tarry_code_sentence(rv));
    }
    tarry_commit_free(commit);
}

static enum tarry_verdict handle(void *arg, tarry_consumer *consumer, const struct tarry_task *task,
                                 struct tarry_nack_details *nack) {
    tarry_client *client = arg;
    (void)consumer;
    if (strcmp(task->queue, "ship") == 0) {
        printf("%s shipped\n", task->key);
        return TARRY_DO_ACK;
    }
    switch (charge_card(task->key)) {
    case CHARGED:
        finish_and_go_on(client, task);
        return TARRY_DO_NOTHING;
    case CARD_EXPIRED:
        nack->dead = true;
        snprintf(nack->reason, sizeof(nack->reason), "the card has expired");
        break;
    case BANK_DOWN:
        snprintf(nack->reason, sizeof(nack->reason), "the bank did not answer");
        break;
    }
    printf("%s could not be charged at attempt %u: %s\n", task->key, task->attempt, nack->reason);
    return TARRY_DO_NACK;
}

/* Receives the broker's answer to a verdict. If the lease had ended, another worker has or will get the task: see
 * `result->outcome`. */
static void settled(void *arg, const struct tarry_task *task, const struct tarry_result *result) {
    (void)arg;
    if (result->code != TARRY_OK) fprintf(stderr, "worker: %s: %s\n", task->key, result->message);
}

int main(int argc, char **argv) {
    struct tarry_options options = {.urls = argc > 1 ? argv[1] : getenv("TARRY_BROKER"), .name = "worker"};
    tarry_client *client;
    int rv = tarry_open(&options, &client);
    if (rv != TARRY_OK) {
        fprintf(stderr, "worker: %s\n", tarry_code_sentence(rv));
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);

    const char *const queues[] = {"charge", "ship"};
    struct tarry_consumer_options consuming = {
        .queues = queues, .queue_count = 2, .prefetch = 16, .handler = handle, .settled = settled, .arg = client};
    tarry_consumer *consumer = NULL;
    char message[TARRY_MESSAGE_SIZE];
    rv = set_policy(client);
    if (rv == TARRY_OK) {
        make_work(client);
        rv = tarry_consumer_open(client, &consuming, &consumer, message);
        if (rv != TARRY_OK) fprintf(stderr, "worker: %s\n", message);
    }
    const struct timespec tick = {0, 100000000};
    while (rv == TARRY_OK && !stopping) nanosleep(&tick, NULL);
    tarry_consumer_close(consumer, 0, NULL);
    tarry_close(client);
    return rv == TARRY_OK ? 0 : 1;
}
