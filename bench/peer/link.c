/* link.c: see peer.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "peer.h"

#define PART 65536u
#define TEXT_MAX 1024

const struct peer_protocol *peer_named(const char *name) {
    static const struct peer_protocol *const all[] = {&peer_beanstalkd, &peer_redis, &peer_postgresql, &peer_rabbitmq};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i]->name, name) == 0) return all[i];
    return NULL;
}

void peer_open(struct peer_link *link, const struct peer_protocol *protocol, uint16_t port) {
    memset(link, 0, sizeof(*link));
    link->protocol = protocol;
    link->fd = bench_dial(port);
    if (protocol->prepare != NULL) protocol->prepare(link);
}

void peer_close(struct peer_link *link) {
    close(link->fd);
    free(link->out.at);
    free(link->in.at);
}

static uint64_t mixed(uint64_t number) {
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9u;
    number = (number ^ (number >> 27)) * 0x94D049BB133111EBu;
    return number ^ (number >> 31);
}

void peer_make(struct peer_task *task, uint64_t run, uint64_t number, uint64_t due_ms) {
    char *half = bench_hex(task->id, mixed(run ^ (number * 2 + 1)), PEER_ID_SIZE / 2);
    *bench_hex(half, mixed(run ^ (number * 2 + 2)), PEER_ID_SIZE / 2) = '\0';
    task->due_ms = due_ms;
    ledger_write(task->payload, PEER_PAYLOAD_SIZE, number, due_ms);
    task->payload[PEER_PAYLOAD_SIZE] = '\0';
}

static void make_room(struct bytes *bytes, size_t size) {
    if (bytes->from == bytes->end) bytes->from = bytes->end = 0;
    if (bytes->capacity - bytes->end >= size) return;
    memmove(bytes->at, bytes->at + bytes->from, bytes->end - bytes->from);
    bytes->end -= bytes->from;
    bytes->from = 0;
    if (bytes->capacity - bytes->end >= size) return;
    bytes->capacity = (bytes->end + size) * 2;
    bytes->at = realloc(bytes->at, bytes->capacity);
    if (bytes->at == NULL) bench_die("out of memory");
}

void peer_put(struct peer_link *link, const void *bytes, size_t size) {
    make_room(&link->out, size);
    memcpy(link->out.at + link->out.end, bytes, size);
    link->out.end += size;
}

void peer_putf(struct peer_link *link, const char *format, ...) {
    char text[TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (size < 0 || size >= TEXT_MAX) bench_die("too long");
    peer_put(link, text, (size_t)size);
}

void peer_flush(struct peer_link *link) {
    while (link->out.from < link->out.end) {
        ssize_t part = write(link->fd, link->out.at + link->out.from, link->out.end - link->out.from);
        if (part <= 0) bench_die("%s: the connection broke", link->protocol->name);
        link->out.from += (size_t)part;
    }
}

void peer_hear(struct peer_link *link) {
    make_room(&link->in, PART);
    ssize_t part = read(link->fd, link->in.at + link->in.end, link->in.capacity - link->in.end);
    if (part <= 0) bench_die("%s: the connection broke", link->protocol->name);
    link->in.end += (size_t)part;
}

const uint8_t *peer_heard(const struct peer_link *link, size_t *out_size) {
    *out_size = link->in.end - link->in.from;
    return link->in.at + link->in.from;
}

void peer_take(struct peer_link *link, size_t size) {
    link->in.from += size;
}

const char *peer_line(struct peer_link *link, size_t *out_size) {
    size_t size = 0;
    const uint8_t *heard = peer_heard(link, &size), *end = size > 0 ? memchr(heard, '\n', size) : NULL;
    if (end == NULL) return NULL;
    *out_size = (size_t)(end - heard);
    peer_take(link, *out_size + 1);
    if (*out_size > 0 && heard[*out_size - 1] == '\r') (*out_size)--;
    return (const char *)heard;
}
