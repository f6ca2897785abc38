/* peer.h: other systems that people use for delays, used durably and in their clients' own protocols: Tarry is
 * compared with them.
 *
 * A link is one blocking connection of one thread. Requests are appended to the output, and answers are taken from
 * the input, so that many may be in flight. Anything unexpected ends the bench. */
#ifndef TARRY_BENCH_PEER_H
#define TARRY_BENCH_PEER_H

#include "bench.h"
#include "ledger.h"

#define PEER_PAYLOAD_SIZE 128
#define PEER_ID_SIZE 32 /* number of hexadecimal digits of a random id */
#define PEER_CLAIM_MAX 512
#define PEER_SCRIPTS 4
#define PEER_TAGS 65536u /* more than the number of delivery tags that are ever in flight */

struct peer_task {
    char id[PEER_ID_SIZE + 1];
    uint64_t due_ms;
    char payload[PEER_PAYLOAD_SIZE + 1];
};

struct bytes {
    uint8_t *at;
    size_t from; /* index of the first byte that the reader has not consumed */
    size_t end;
    size_t capacity;
};

struct peer_link {
    const struct peer_protocol *protocol;
    int fd;
    struct bytes out;
    struct bytes in;
    char scripts[PEER_SCRIPTS][41];                 /* Redis: names of its scripts */
    char claimed[PEER_CLAIM_MAX][PEER_ID_SIZE + 1]; /* tasks that a consumer has claimed and not acked yet */
    size_t claimed_count;
    uint64_t tag_low; /* RabbitMQ: all tags below this one are confirmed */
    uint64_t answers; /* number of confirmations that were not read yet */
    bool confirmed[PEER_TAGS];
};

struct peer_protocol {
    const char *name;
    size_t batch_max; /* maximum number of tasks in a request */
    void (*prepare)(struct peer_link *link);
    /* Appends a request, which gets one answer. */
    void (*schedule)(struct peer_link *link, const struct peer_task *tasks, size_t count);
    /* Cancels a task; NULL: the system cannot do that. */
    void (*cancel)(struct peer_link *link, const struct peer_task *task);
    /* Takes a successful answer; returns false if it is incomplete. */
    bool (*answer)(struct peer_link *link);
    /* Acks the last claimed tasks, durably, claims tasks that are due by now, and reports them to the ledger; waits
     * some milliseconds if there are none. Returns the number of acked tasks. NULL: not supported. */
    size_t (*consume)(struct peer_link *link, struct ledger *ledger);
};

extern const struct peer_protocol peer_beanstalkd, peer_redis, peer_postgresql, peer_rabbitmq;

/* Returns the protocol of that name; NULL: unknown. */
const struct peer_protocol *peer_named(const char *name);

/* Opens a link to a loopback port. */
void peer_open(struct peer_link *link, const struct peer_protocol *protocol, uint16_t port);
void peer_close(struct peer_link *link);

/* Makes the task with this number in this run: its id is the same each time. */
void peer_make(struct peer_task *task, uint64_t run, uint64_t number, uint64_t due_ms);

void peer_put(struct peer_link *link, const void *bytes, size_t size);
void peer_putf(struct peer_link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));
void peer_flush(struct peer_link *link);

/* Waits for more input. */
void peer_hear(struct peer_link *link);
/* Returns the input that was not taken. */
const uint8_t *peer_heard(const struct peer_link *link, size_t *out_size);
void peer_take(struct peer_link *link, size_t size);
/* Takes a complete line and returns it without its end; NULL: it is incomplete. Valid until the next input. */
const char *peer_line(struct peer_link *link, size_t *out_size);

#endif
