/* first.c: waits for one delivery on a queue, also while the broker is not there yet, and prints when it came: how
 * long a restart takes until the first overdue task is delivered. */
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

#define RETRY_NS 1000000u

/* Dials until the broker accepts: libtarry would dial only ten times a second, which is too coarse here. */
static void wait_for_port(uint16_t port, uint64_t end_ns) {
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons(port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (bool is_there = false; !is_there;) {
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        is_there = fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
        if (fd >= 0) close(fd);
        if (bench_now_ns() > end_ns) bench_die("no broker listens on port %u", port);
        if (!is_there) bench_sleep_until_ns(bench_now_ns() + RETRY_NS);
    }
}

int main(int argc, char **argv) {
    const char *broker = NULL, *queue = "first";
    uint64_t wait_s = 120, port = 0;
    const struct bench_option options[] = {
        {"broker", "url [$TARRY_BROKER]", NULL, &broker},
        {"queue", "on which a task is overdue [first]", NULL, &queue},
        {"port", "of loopback: asks nothing before somebody listens there; 0: at once", &port, NULL},
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
    if (port > UINT16_MAX) bench_die("out of range");
    if (port != 0) wait_for_port((uint16_t)port, end_ns);
    const uint64_t accepted_us = bench_wall_us();
    if (tarry_open(&patient, &client) != TARRY_OK) bench_die("cannot open a client");
    while (tarry_consumer_open(client, &wish, &consumer, NULL) != TARRY_OK) {
        if (bench_now_ns() > end_ns) bench_die("no broker within %llu s", (unsigned long long)wait_s);
        bench_sleep_until_ns(bench_now_ns() + RETRY_NS);
    }
    const uint64_t subscribed_us = bench_wall_us();
    int rc = TARRY_E_NOTHING;
    while (rc != TARRY_OK && bench_now_ns() < end_ns) rc = tarry_consumer_next(consumer, 1000, &task);
    if (rc != TARRY_OK) bench_die("no delivery within %llu s", (unsigned long long)wait_s);
    printf("bench=first accepted_us=%llu subscribed_us=%llu delivered_us=%llu early=%d\n",
           (unsigned long long)accepted_us, (unsigned long long)subscribed_us, (unsigned long long)bench_wall_us(),
           task->delivered_ms < task->due_ms);
    rc = tarry_ack(client, task->id, task->token, NULL, NULL);
    tarry_task_free(task);
    tarry_consumer_close(consumer, 0, NULL);
    tarry_close(client);
    return rc == TARRY_OK ? 0 : 1;
}
