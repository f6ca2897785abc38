/* rabbitmq.c: a peer's load for RabbitMQ: a quorum queue whose messages each have a time to live and then move to
 * another queue. With publisher confirms the data is on disk before the answer. A frame of AMQP 0-9-1 has a type, a
 * channel, a size, a body and an end byte. Measures schedules only. Lateness cannot be compared, because a message
 * waits for all earlier messages of the queue, even if they have a longer time to live. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "peer.h"

#define HEAD_SIZE 7u
#define FRAME_METHOD 1
#define FRAME_END 0xCE
#define PERSISTENT 2

static void put_number(struct peer_link *link, uint64_t number, size_t size) {
    for (size_t i = size; i-- > 0;) {
        const uint8_t byte = (uint8_t)(number >> (8 * i));
        peer_put(link, &byte, 1);
    }
}

static uint64_t number_at(const uint8_t *bytes, size_t size) {
    uint64_t number = 0;
    for (size_t i = 0; i < size; i++) number = number << 8 | bytes[i];
    return number;
}

static void put_short(struct peer_link *link, const char *text) {
    put_number(link, strlen(text), 1);
    peer_put(link, text, strlen(text));
}

/* Begins a method's frame; the caller appends `size` bytes of arguments, then an end. */
static void begin(struct peer_link *link, uint32_t channel, uint32_t class_id, uint32_t method_id, size_t size) {
    put_number(link, FRAME_METHOD, 1);
    put_number(link, channel, 2);
    put_number(link, 4 + size, 4);
    put_number(link, class_id, 2);
    put_number(link, method_id, 2);
}

static void end(struct peer_link *link) {
    put_number(link, FRAME_END, 1);
}

/* Returns the next frame's body; NULL: incomplete. */
static const uint8_t *frame(struct peer_link *link) {
    size_t heard = 0;
    const uint8_t *bytes = peer_heard(link, &heard);
    if (heard < HEAD_SIZE) return NULL;
    const size_t size = HEAD_SIZE + (size_t)number_at(bytes + 3, 4) + 1;
    if (heard < size) return NULL;
    peer_take(link, size);
    return bytes + HEAD_SIZE;
}

static void await(struct peer_link *link, uint64_t class_id, uint64_t method_id) {
    const uint8_t *body;
    peer_flush(link);
    while ((body = frame(link)) == NULL) peer_hear(link);
    if (number_at(body, 2) != class_id || number_at(body + 2, 2) != method_id)
        bench_die("rabbitmq: %llu.%llu instead of %llu.%llu", (unsigned long long)number_at(body, 2),
                  (unsigned long long)number_at(body + 2, 2), (unsigned long long)class_id,
                  (unsigned long long)method_id);
}

static size_t table_row(char *to, const char *name, const char *value) {
    const size_t name_size = strlen(name), value_size = strlen(value);
    to[0] = (char)name_size;
    memcpy(to + 1, name, name_size);
    memcpy(to + 1 + name_size, "S\0\0\0", 4);
    to[5 + name_size] = (char)value_size;
    memcpy(to + 6 + name_size, value, value_size);
    return 6 + name_size + value_size;
}

static void declare(struct peer_link *link, const char *queue, bool is_delay) {
    char rows[256];
    size_t size = table_row(rows, "x-queue-type", "quorum");
    if (is_delay) size += table_row(rows + size, "x-dead-letter-exchange", "");
    if (is_delay) size += table_row(rows + size, "x-dead-letter-routing-key", "ready");
    begin(link, 1, 50, 10, 2 + 1 + strlen(queue) + 1 + 4 + size);
    put_number(link, 0, 2);
    put_short(link, queue);
    put_number(link, 2, 1); /* durable */
    put_number(link, size, 4);
    peer_put(link, rows, size);
    end(link);
    await(link, 50, 11);
}

static void prepare(struct peer_link *link) {
    static const char login[] = "\0guest\0guest";
    peer_put(link, "AMQP\0\0\x09\x01", 8);
    await(link, 10, 10);
    begin(link, 0, 10, 11, 4 + 6 + 4 + sizeof(login) - 1 + 6);
    put_number(link, 0, 4); /* size of the client's properties, which are empty */
    put_short(link, "PLAIN");
    put_number(link, sizeof(login) - 1, 4);
    peer_put(link, login, sizeof(login) - 1);
    put_short(link, "en_US");
    end(link);
    await(link, 10, 30);
    begin(link, 0, 10, 31, 8);
    put_number(link, 1, 2);      /* channels */
    put_number(link, 131072, 4); /* maximum size of a frame, in bytes */
    put_number(link, 0, 2);      /* no heartbeats */
    end(link);
    begin(link, 0, 10, 40, 4);
    put_short(link, "/");
    put_number(link, 0, 2);
    end(link);
    await(link, 10, 41);
    begin(link, 1, 20, 10, 1);
    put_number(link, 0, 1);
    end(link);
    await(link, 20, 11);
    declare(link, "ready", false);
    declare(link, "delay", true);
    begin(link, 1, 85, 10, 1);
    put_number(link, 0, 1);
    end(link);
    await(link, 85, 11);
}

static void schedule(struct peer_link *link, const struct peer_task *tasks, size_t count) {
    char delay[24];
    const uint64_t now_ms = bench_wall_ms();
    (void)count;
    snprintf(delay, sizeof(delay), "%llu", (unsigned long long)(tasks->due_ms > now_ms ? tasks->due_ms - now_ms : 0));
    begin(link, 1, 60, 40, 2 + 1 + 6 + 1);
    put_number(link, 0, 3); /* names the default exchange, which routes by the queue's name */
    put_short(link, "delay");
    put_number(link, 0, 1);
    end(link);
    put_number(link, 2, 1); /* frame type 2 is a content header */
    put_number(link, 1, 2);
    put_number(link, 2 + 2 + 8 + 2 + 1 + 1 + strlen(delay), 4);
    put_number(link, 60, 2);
    put_number(link, 0, 2);
    put_number(link, PEER_PAYLOAD_SIZE, 8);
    put_number(link, 0x1100, 2); /* flags: the properties delivery mode and expiration follow them */
    put_number(link, PERSISTENT, 1);
    put_short(link, delay);
    end(link);
    put_number(link, 3, 1); /* frame type 3 is a content body */
    put_number(link, 1, 2);
    put_number(link, PEER_PAYLOAD_SIZE, 4);
    peer_put(link, tasks->payload, PEER_PAYLOAD_SIZE);
    end(link);
}

static void confirm(struct peer_link *link, uint64_t tag) {
    if (link->confirmed[tag % PEER_TAGS] || tag < link->tag_low) return;
    link->confirmed[tag % PEER_TAGS] = true;
    link->answers++;
    while (link->confirmed[link->tag_low % PEER_TAGS]) link->confirmed[link->tag_low++ % PEER_TAGS] = false;
}

static bool answer(struct peer_link *link) {
    const uint8_t *body;
    if (link->tag_low == 0) link->tag_low = 1;
    while (link->answers == 0 && (body = frame(link)) != NULL) {
        if (number_at(body, 4) != (60u << 16 | 80u))
            bench_die("rabbitmq: %llu.%llu", (unsigned long long)number_at(body, 2),
                      (unsigned long long)number_at(body + 2, 2));
        const uint64_t tag = number_at(body + 4, 8);
        if ((body[12] & 1) != 0) /* this flag confirms all delivery tags up to the given one */
            for (uint64_t each = link->tag_low; each < tag; each++) confirm(link, each);
        confirm(link, tag);
    }
    if (link->answers == 0) return false;
    link->answers--;
    return true;
}

const struct peer_protocol peer_rabbitmq = {
    .name = "rabbitmq", .batch_max = 1, .prepare = prepare, .schedule = schedule, .answer = answer};
