/* full_disk.c: a service that uses one client for all its calls while the broker's disk fills up. It schedules large
 * tasks until the broker refuses them because the disk is full, continues to try, and at the same time consumes due
 * tasks. The client sends acks before waiting schedules (client/lib/queue.c), so no lease is lost.
 *
 * full_disk URL TASKS: prints "acked=N busy_ms=N slowest_ack_ms=N waiting=N". Exit status 0: every ack succeeded, and
 * schedules waited for disk space the whole time. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarry.h>
#include <time.h>

#define FAT_SIZE 20000u
#define FATS_MAX 20000u
#define ACK_MS 20000u /* longest accepted duration of an ack; far above the usual one, even on a busy machine */

static atomic_ullong answered;

static void fat_done(void *arg, const struct tarry_result *result) {
    (void)arg;
    (void)result;
    atomic_fetch_add(&answered, 1);
}

static unsigned long long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000 + (unsigned long long)now.tv_nsec / 1000000;
}

static _Noreturn void die(const char *what, int code) {
    fprintf(stderr, "full_disk: %s: %s\n", what, tarry_code_sentence(code));
    exit(1);
}

/* Submits one more large task, which waits without a time limit. */
static void schedule(tarry_client *client, const char *fat, unsigned long long number) {
    char key[32];
    snprintf(key, sizeof key, "fat%llu", number);
    struct tarry_schedule_options task = {.queue = "far", .key = key, .when_ms = 3600000, .payload = fat};
    task.payload_size = FAT_SIZE;
    task.call.timeout_ms = TARRY_FOREVER;
    int code = tarry_schedule_async(client, &task, fat_done, NULL);
    if (code != TARRY_OK) die("schedule", code);
}

/* Schedules large tasks until the broker has no space. Returns their number. */
static unsigned long long fill(tarry_client *client, const char *fat) {
    unsigned long long count = 0;
    for (; count < FATS_MAX && tarry_busy_ms(client, NULL) < 500; count++) {
        schedule(client, fat, count);
        if (count - atomic_load(&answered) > 8) nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    if (count == FATS_MAX) die("the disk never filled up", TARRY_OK);
    return count;
}

int main(int argc, char **argv) {
    static char fat[FAT_SIZE];
    tarry_client *client;
    tarry_consumer *consumer;
    const char *queue = "work";
    if (argc != 3) return 2;
    const struct tarry_options options = {.urls = argv[1]};
    int code = tarry_open(&options, &client);
    if (code != TARRY_OK) die("open", code);
    const struct tarry_consumer_options subscription = {.queues = &queue, .queue_count = 1};
    code = tarry_consumer_open(client, &subscription, &consumer, NULL);
    if (code != TARRY_OK) die("subscribe", code);
    memset(fat, 'x', sizeof fat);
    unsigned long long fats = fill(client, fat), slowest_ms = 0, acked = 0, busy_ms = UINT64_MAX;
    for (int left = atoi(argv[2]); left > 0; left--) {
        const struct tarry_task *task;
        code = tarry_consumer_next(consumer, ACK_MS, &task);
        if (code != TARRY_OK) die("next", code);
        unsigned long long before = now_ms(), busy_now_ms = tarry_busy_ms(client, NULL);
        struct tarry_result result;
        schedule(client, fat, fats++); /* this schedule may be in the same commit as the ack */
        code = tarry_ack(client, task->id, task->token, &(struct tarry_call){.timeout_ms = ACK_MS}, &result);
        if (code != TARRY_OK) die("ack", code);
        if (now_ms() - before > slowest_ms) slowest_ms = now_ms() - before;
        if (busy_now_ms < busy_ms) busy_ms = busy_now_ms;
        acked++;
        tarry_task_free(task);
    }
    printf("acked=%llu busy_ms=%llu slowest_ack_ms=%llu waiting=%llu\n", acked, busy_ms, slowest_ms,
           fats - atomic_load(&answered));
    const int status = busy_ms > 0 && fats > atomic_load(&answered) ? 0 : 1;
    (void)tarry_consumer_close(consumer, 0, &(struct tarry_call){.timeout_ms = ACK_MS});
    tarry_close(client);
    return status;
}
