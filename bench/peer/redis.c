/* redis.c: delays in Lua, as people commonly write them: a sorted set by due time, a hash of the contents, and a sorted
 * set of the tasks in flight. A claim moves tasks to the set in flight; an ack deletes them. With appendfsync always
 * the data is on disk before the answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

#define LEASE_MS 60000u
#define CLAIM "256"
#define CLAIM_NUMBER 256
#define NOTHING_NS 1000000u

enum script { PUT, CANCEL, CLAIM_DUE, ACK };

static const char *const scripts[PEER_SCRIPTS] = {
    [PUT] = "redis.call('ZADD','due',ARGV[1],ARGV[2]) redis.call('HSET','task',ARGV[2],ARGV[3]) return 1",
    [CANCEL] = "redis.call('HDEL','task',ARGV[1]) return redis.call('ZREM','due',ARGV[1])",
    [CLAIM_DUE] = "local ids = redis.call('ZRANGEBYSCORE','due','-inf',ARGV[1],'LIMIT',0," CLAIM ") "
                  "if #ids == 0 then return ids end redis.call('ZREM','due',unpack(ids)) "
                  "local held = {} for i = 1, #ids do held[2*i-1] = ARGV[2] held[2*i] = ids[i] end "
                  "redis.call('ZADD','held',unpack(held)) local tasks = redis.call('HMGET','task',unpack(ids)) "
                  "for i = 1, #ids do tasks[#ids+i] = ids[i] end return tasks",
    [ACK] = "redis.call('HDEL','task',unpack(ARGV)) return redis.call('ZREM','held',unpack(ARGV))",
};

static void prepare(struct peer_link *link) {
    for (size_t i = 0; i < PEER_SCRIPTS; i++) {
        peer_putf(link, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n%s\r\n", strlen(scripts[i]), scripts[i]);
        peer_flush(link);
        size_t size = 0;
        const char *line;
        while ((line = peer_line(link, &size)) == NULL) peer_hear(link);
        if (size != 3 || memcmp(line, "$40", 3) != 0) bench_die("redis: %.*s", (int)size, line);
        while ((line = peer_line(link, &size)) == NULL) peer_hear(link);
        memcpy(link->scripts[i], line, 40);
    }
}

static void begin(struct peer_link *link, enum script script, size_t arguments) {
    peer_putf(link, "*%zu\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n0\r\n", 3 + arguments, link->scripts[script]);
}

static void put_number(struct peer_link *link, uint64_t number) {
    char text[24];
    int size = snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    peer_putf(link, "$%d\r\n%s\r\n", size, text);
}

static void schedule(struct peer_link *link, const struct peer_task *tasks, size_t count) {
    (void)count;
    begin(link, PUT, 3);
    put_number(link, tasks->due_ms);
    peer_putf(link, "$%d\r\n%s\r\n$%d\r\n%s\r\n", PEER_ID_SIZE, tasks->id, PEER_PAYLOAD_SIZE, tasks->payload);
}

static void cancel(struct peer_link *link, const struct peer_task *task) {
    begin(link, CANCEL, 1);
    peer_putf(link, "$%d\r\n%s\r\n", PEER_ID_SIZE, task->id);
}

static bool answer(struct peer_link *link) {
    size_t size = 0;
    const char *line = peer_line(link, &size);
    if (line != NULL && (size != 2 || memcmp(line, ":1", 2) != 0)) bench_die("redis: %.*s", (int)size, line);
    return line != NULL;
}

static long await_number(struct peer_link *link, char kind) {
    size_t size = 0;
    const char *line;
    while ((line = peer_line(link, &size)) == NULL) peer_hear(link);
    if (size == 0 || *line != kind) bench_die("redis: %.*s", (int)size, line);
    return strtol(line + 1, NULL, 10);
}

/* Returns a bulk string of this size; valid until the next input. */
static const char *await_text(struct peer_link *link, size_t expected) {
    if (await_number(link, '$') != (long)expected) bench_die("redis: a text of %zu bytes was expected", expected);
    size_t size = 0;
    while (peer_heard(link, &size), size < expected + 2) peer_hear(link);
    const char *text = (const char *)peer_heard(link, &size);
    peer_take(link, expected + 2);
    return text;
}

static size_t consume(struct peer_link *link, struct ledger *ledger) {
    const size_t acked = link->claimed_count;
    if (acked > 0) begin(link, ACK, acked);
    for (size_t i = 0; i < acked; i++) peer_putf(link, "$%d\r\n%s\r\n", PEER_ID_SIZE, link->claimed[i]);
    const uint64_t now_ms = bench_wall_ms();
    begin(link, CLAIM_DUE, 2);
    put_number(link, now_ms);
    put_number(link, now_ms + LEASE_MS);
    peer_flush(link);
    if (acked > 0 && await_number(link, ':') != (long)acked) bench_die("redis: not all were acked");
    const long count = await_number(link, '*') / 2;
    if (count < 0 || count > CLAIM_NUMBER) bench_die("redis: %ld tasks claimed", count);
    for (long i = 0; i < count; i++) ledger_arrived(ledger, await_text(link, PEER_PAYLOAD_SIZE), PEER_PAYLOAD_SIZE, 0);
    for (long i = 0; i < count; i++) memcpy(link->claimed[i], await_text(link, PEER_ID_SIZE), PEER_ID_SIZE);
    link->claimed_count = (size_t)count;
    if (count == 0) bench_sleep_until_ns(bench_now_ns() + NOTHING_NS);
    return acked;
}

const struct peer_protocol peer_redis = {.name = "redis",
                                         .batch_max = 1,
                                         .prepare = prepare,
                                         .schedule = schedule,
                                         .cancel = cancel,
                                         .answer = answer,
                                         .consume = consume};
