/* handler.c: a consumer whose handler settles each task as its payload says, and prints the result; run by
 * handler_test.py.
 *
 * Usage:
 *     handler URL QUEUE COUNT          ends when COUNT tasks are settled
 *     handler URL QUEUE COUNT loop     ends likewise; all callbacks run in the main thread's loop (tarry_loop.h)
 *
 * Payloads: "ack", "release", "nothing", "withdraw" (cancels the task, then acks it), "nack [MS [REASON]]",
 * "dead [REASON]". The handler acks a task that has been delivered before, whatever its payload says. */
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarry.h>

struct world {
    tarry_client *client;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t settled;
    bool closed;
    bool loops;
    pthread_t main;
};

static void say(struct tarry_nack_details *nack, const char *reason) {
    snprintf(nack->reason, sizeof(nack->reason), "%.*s", (int)sizeof(nack->reason) - 1, reason);
}

static enum tarry_verdict nack_after(const char *words, struct tarry_nack_details *nack) {
    char *rest;
    nack->delay_ms = strtoull(words, &rest, 10);
    nack->has_delay = rest != words;
    while (*rest == ' ') rest++;
    say(nack, rest);
    return TARRY_DO_NACK;
}

static enum tarry_verdict handle(void *arg, tarry_consumer *consumer, const struct tarry_task *task,
                                 struct tarry_nack_details *nack) {
    struct world *world = arg;
    char words[2048];
    (void)consumer;
    if (world->loops != (pthread_equal(world->main, pthread_self()) != 0)) printf("wrong thread\n");
    snprintf(words, sizeof(words), "%.*s", (int)task->payload_size, (const char *)task->payload);
    printf("handled %s delivery=%u at_ms=%" PRIu64 " fresh=%d\n", task->key, task->deliveries, task->received_ms,
           !nack->has_delay && !nack->dead && nack->reason[0] == 0);
    if (task->deliveries > 1 || strcmp(words, "ack") == 0) return TARRY_DO_ACK;
    if (strcmp(words, "release") == 0) return TARRY_DO_RELEASE;
    if (strcmp(words, "nothing") == 0) return TARRY_DO_NOTHING;
    if (strcmp(words, "withdraw") == 0) {
        const struct tarry_ref ref = {.id = task->id};
        return tarry_cancel(world->client, &ref, true, NULL, NULL) == TARRY_OK ? TARRY_DO_ACK : TARRY_DO_NOTHING;
    }
    if (strncmp(words, "dead ", 5) == 0) {
        nack->dead = true;
        say(nack, words + 5);
        return TARRY_DO_NACK;
    }
    return nack_after(words + 4, nack);
}

static void settled(void *arg, const struct tarry_task *task, const struct tarry_result *result) {
    struct world *world = arg;
    if (world->loops != (pthread_equal(world->main, pthread_self()) != 0)) printf("wrong thread\n");
    pthread_mutex_lock(&world->lock);
    printf("settled %s %s %s closed=%d\n", task->key, tarry_code_name(result->code),
           tarry_outcome_name(result->outcome), world->closed);
    world->settled++;
    pthread_cond_signal(&world->changed);
    pthread_mutex_unlock(&world->lock);
}

static void loop(struct world *world, size_t count) {
    struct pollfd waiting = {.fd = tarry_client_fd(world->client), .events = POLLIN};
    while (world->settled < count) {
        (void)poll(&waiting, 1, -1);
        if (tarry_dispatch(world->client, 1, NULL) != TARRY_OK) return;
    }
}

static void wait(struct world *world, size_t count) {
    pthread_mutex_lock(&world->lock);
    while (world->settled < count) pthread_cond_wait(&world->changed, &world->lock);
    pthread_mutex_unlock(&world->lock);
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    struct world world = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    const char *queue = argv[2];
    world.loops = argc > 4;
    world.main = pthread_self();
    struct tarry_options options = {.urls = argv[1], .dispatch = world.loops};
    struct tarry_consumer_options consuming = {
        .queues = &queue, .queue_count = 1, .handler = handle, .settled = settled, .arg = &world};
    tarry_consumer *consumer;
    char message[TARRY_MESSAGE_SIZE];
    if (tarry_open(&options, &world.client) != TARRY_OK) return 1;
    if (tarry_consumer_open(world.client, &consuming, &consumer, message) != TARRY_OK) {
        printf("refused %s\n", message);
        tarry_close(world.client);
        return 1;
    }
    if (world.loops)
        loop(&world, strtoull(argv[3], NULL, 10));
    else
        wait(&world, strtoull(argv[3], NULL, 10));
    tarry_consumer_close(consumer, 0, NULL);
    pthread_mutex_lock(&world.lock);
    world.closed = true;
    pthread_mutex_unlock(&world.lock);
    tarry_close(world.client);
    return 0;
}
