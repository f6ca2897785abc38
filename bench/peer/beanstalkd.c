/* beanstalkd.c: its delays are whole seconds. With -f0 a job is on disk before the answer. */
#include <string.h>

#include "peer.h"

static void schedule(struct peer_link *link, const struct peer_task *tasks, size_t count) {
    const uint64_t now_ms = bench_wall_ms(), delay_ms = tasks->due_ms > now_ms ? tasks->due_ms - now_ms : 0;
    (void)count;
    peer_putf(link, "put 0 %llu 300 %d\r\n%s\r\n", (unsigned long long)(delay_ms + 999) / 1000, PEER_PAYLOAD_SIZE,
              tasks->payload);
}

static const char *await_line(struct peer_link *link, size_t *out_size) {
    const char *line;
    while ((line = peer_line(link, out_size)) == NULL) peer_hear(link);
    return line;
}

static bool starts(const char *line, size_t size, const char *with) {
    return size >= strlen(with) && memcmp(line, with, strlen(with)) == 0;
}

static bool answer(struct peer_link *link) {
    size_t size = 0;
    const char *line = peer_line(link, &size);
    if (line != NULL && !starts(line, size, "INSERTED ")) bench_die("beanstalkd: %.*s", (int)size, line);
    return line != NULL;
}

/* Sends each job in a request of its own, because the protocol has no batches. */
static size_t consume(struct peer_link *link, struct ledger *ledger) {
    const size_t acked = link->claimed_count;
    size_t size = 0;
    if (acked > 0) peer_putf(link, "delete %s\r\n", link->claimed[0]);
    link->claimed_count = 0;
    peer_putf(link, "reserve-with-timeout 1\r\n");
    peer_flush(link);
    const char *line;
    if (acked > 0) {
        line = await_line(link, &size);
        if (!starts(line, size, "DELETED")) bench_die("beanstalkd: %.*s", (int)size, line);
    }
    line = await_line(link, &size);
    if (starts(line, size, "TIMED_OUT") || starts(line, size, "DEADLINE_SOON")) return acked;
    if (!starts(line, size, "RESERVED ")) bench_die("beanstalkd: %.*s", (int)size, line);
    const char *id = line + strlen("RESERVED "), *end = memchr(id, ' ', size - strlen("RESERVED "));
    if (end == NULL || end - id > PEER_ID_SIZE) bench_die("beanstalkd: %.*s", (int)size, line);
    memcpy(link->claimed[0], id, (size_t)(end - id));
    link->claimed[0][end - id] = '\0';
    link->claimed_count = 1;
    while (peer_heard(link, &size), size < PEER_PAYLOAD_SIZE + 2) peer_hear(link);
    ledger_arrived(ledger, peer_heard(link, &size), PEER_PAYLOAD_SIZE, 0);
    peer_take(link, PEER_PAYLOAD_SIZE + 2);
    return acked;
}

const struct peer_protocol peer_beanstalkd = {
    .name = "beanstalkd", .batch_max = 1, .schedule = schedule, .answer = answer, .consume = consume};
