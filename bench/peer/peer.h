/* peer.h: other systems that people use for delays, each spoken to as its own clients do, durably: what Tarry is
 * measured beside.
 *
 * A link is one blocking connection of one thread. Requests are appended to what goes out, and answers are taken out of
 * what has come in, so that many may be under way. Whatever is not as expected ends the bench. */
#ifndef TARRY_BENCH_PEER_H
#define TARRY_BENCH_PEER_H

#include "bench.h"
#include "ledger.h"

#define PEER_PAYLOAD_SIZE 128
#define PEER_ID_SIZE 32 /* hexadecimal digits, at random */
#define PEER_CLAIM_MAX 512
#define PEER_SCRIPTS 4
#define PEER_TAGS 65536u /* more than are ever under way */

struct peer_task {
    char id[PEER_ID_SIZE + 1];
    uint64_t due_ms;
    char payload[PEER_PAYLOAD_SIZE + 1];
};

struct bytes {
    uint8_t *at;
    size_t from; /* what lies before has been taken */
    size_t end;
    size_t capacity;
};

struct peer_link {
    const struct peer_protocol *protocol;
    int fd;
    struct bytes out;
    struct bytes in;
    char scripts[PEER_SCRIPTS][41];                 /* Redis: their names */
    char claimed[PEER_CLAIM_MAX][PEER_ID_SIZE + 1]; /* by a consumer, and not acked yet */
    size_t claimed_count;
    uint64_t tag_low; /* RabbitMQ: all tags below are confirmed … */
    uint64_t answers; /* … these many were, and have not been taken … */
    bool confirmed[PEER_TAGS];
};

struct peer_protocol {
    const char *name;
    size_t batch_max; /* tasks in a request */
    void (*prepare)(struct peer_link *link);
    /* Appends a request, which has one answer. */
    void (*schedule)(struct peer_link *link, const struct peer_task *tasks, size_t count);
    void (*cancel)(struct peer_link *link, const struct peer_task *task); /* NULL: not spoken here */
    /* Takes an answer, which says that it was done; false: not all of it has come. */
    bool (*answer)(struct peer_link *link);
    /* Acks what was claimed the last time, durably, claims what is due by now, and tells the ledger of it; waits some
     * milliseconds if there is nothing. How many are acked. NULL: not spoken here. */
    size_t (*consume)(struct peer_link *link, struct ledger *ledger);
};

extern const struct peer_protocol peer_beanstalkd, peer_redis, peer_postgresql, peer_rabbitmq;

/* NULL: no such one. */
const struct peer_protocol *peer_named(const char *name);

/* To a port of loopback. */
void peer_open(struct peer_link *link, const struct peer_protocol *protocol, uint16_t port);
void peer_close(struct peer_link *link);

/* The task of this number, of this run: its id is the same each time that it is asked for. */
void peer_make(struct peer_task *task, uint64_t run, uint64_t number, uint64_t due_ms);

void peer_put(struct peer_link *link, const void *bytes, size_t size);
void peer_putf(struct peer_link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));
void peer_flush(struct peer_link *link);

/* Waits for more. */
void peer_hear(struct peer_link *link);
/* What has come and was not taken. */
const uint8_t *peer_heard(const struct peer_link *link, size_t *out_size);
void peer_take(struct peer_link *link, size_t size);
/* A whole line, without its end, which is taken; NULL: it is not there yet. Valid until more is heard. */
const char *peer_line(struct peer_link *link, size_t *out_size);

#endif
