/* peer.c: how long one blocking, durable schedule takes at another system, from one connection or from several, each
 * with a thread: what latency.c asks of Tarry. beanstalkd's and Redis' protocols, and PostgreSQL's (trust; prepared
 * statements), spoken here. */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

#define PAYLOAD_SIZE 128
#define BUFFER_SIZE 4096

struct caller {
    const struct protocol *protocol;
    int fd;
    uint64_t number;
    uint64_t calls;
    uint64_t *samples_ns;
    char script[41]; /* Redis: its name */
    size_t size;
    uint8_t buffer[BUFFER_SIZE];
};

struct protocol {
    const char *name;
    void (*prepare)(struct caller *caller);
    void (*schedule)(struct caller *caller, uint64_t task, const char *payload);
};

static void tell(const struct caller *caller, const void *bytes, size_t size) {
    if (write(caller->fd, bytes, size) != (ssize_t)size) bench_die("%s: the connection broke", caller->protocol->name);
}

static void hear_more(struct caller *caller) {
    ssize_t part = read(caller->fd, caller->buffer + caller->size, BUFFER_SIZE - caller->size);
    if (part <= 0) bench_die("%s: the connection broke", caller->protocol->name);
    caller->size += (size_t)part;
}

/* Up to and with a line's end; it must begin with `expected`. */
static void hear_line(struct caller *caller, const char *expected) {
    caller->size = 0;
    while (memchr(caller->buffer, '\n', caller->size) == NULL) hear_more(caller);
    if (memcmp(caller->buffer, expected, strlen(expected)) != 0)
        bench_die("%s: %.*s", caller->protocol->name, (int)caller->size, (char *)caller->buffer);
}

/* ---- beanstalkd: whole seconds */

static void bean_schedule(struct caller *caller, uint64_t task, const char *payload) {
    char text[BUFFER_SIZE];
    int size = snprintf(text, sizeof(text), "put 0 3600 60 %d\r\n%s\r\n", PAYLOAD_SIZE, payload);
    tell(caller, text, (size_t)size);
    hear_line(caller, "INSERTED ");
}

/* ---- Redis: an order by due time, and contents */

static void redis_prepare(struct caller *caller) {
    static const char script[] =
        "redis.call('ZADD','due',ARGV[1],ARGV[2]) redis.call('HSET','task',ARGV[2],ARGV[3]) return 1";
    char text[BUFFER_SIZE];
    int size =
        snprintf(text, sizeof(text), "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n%s\r\n", strlen(script), script);
    tell(caller, text, (size_t)size);
    caller->size = 0;
    while (caller->size < strlen("$40\r\n") + 40 + 2) hear_more(caller);
    memcpy(caller->script, caller->buffer + strlen("$40\r\n"), 40);
}

static void redis_schedule(struct caller *caller, uint64_t task, const char *payload) {
    char text[BUFFER_SIZE], due[32], key[64];
    int due_size = snprintf(due, sizeof(due), "%llu", (unsigned long long)bench_wall_ms() + 3600000);
    int key_size =
        snprintf(key, sizeof(key), "%llu-%llu", (unsigned long long)caller->number, (unsigned long long)task);
    int size = snprintf(text, sizeof(text),
                        "*6\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n0\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n",
                        caller->script, due_size, due, key_size, key, PAYLOAD_SIZE, payload);
    tell(caller, text, (size_t)size);
    hear_line(caller, ":1");
}

/* ---- PostgreSQL: messages of a letter, a length and a body */

struct packet {
    size_t size;
    size_t length_at;
    uint8_t bytes[BUFFER_SIZE];
};

static void put(struct packet *packet, const void *bytes, size_t size) {
    if (packet->size + size > sizeof(packet->bytes)) bench_die("too long");
    memcpy(packet->bytes + packet->size, bytes, size);
    packet->size += size;
}

static void put_number(struct packet *packet, uint32_t number, size_t size) {
    uint32_t big = htonl(number);
    put(packet, (uint8_t *)&big + 4 - size, size);
}

/* A letter of 0: none. */
static void begin(struct packet *packet, char letter) {
    if (letter != 0) put(packet, &letter, 1);
    packet->length_at = packet->size;
    put_number(packet, 0, 4);
}

static void end(struct packet *packet) {
    uint32_t length = htonl((uint32_t)(packet->size - packet->length_at));
    memcpy(packet->bytes + packet->length_at, &length, sizeof(length));
}

/* Up to ReadyForQuery; an error ends the bench. */
static void pg_hear(struct caller *caller) {
    size_t at = 0;
    caller->size = 0;
    for (;;) {
        uint32_t length = 0;
        while (caller->size < at + 5) hear_more(caller);
        memcpy(&length, caller->buffer + at + 1, sizeof(length));
        length = ntohl(length);
        while (caller->size < at + 1 + length) hear_more(caller);
        if (caller->buffer[at] == 'E') bench_die("PostgreSQL: %.*s", (int)length - 4, (char *)caller->buffer + at + 5);
        if (caller->buffer[at] == 'Z') return;
        at += 1 + length;
    }
}

static void pg_ask(struct caller *caller, const char *query) {
    struct packet packet = {0};
    begin(&packet, 'Q');
    put(&packet, query, strlen(query) + 1);
    end(&packet);
    tell(caller, packet.bytes, packet.size);
    pg_hear(caller);
}

static void pg_prepare(struct caller *caller) {
    static const char who[] = "user\0postgres\0database\0postgres\0";
    struct packet packet = {0};
    begin(&packet, 0);
    put_number(&packet, 196608, 4); /* version 3.0 */
    put(&packet, who, sizeof(who));
    end(&packet);
    tell(caller, packet.bytes, packet.size);
    pg_hear(caller);
    if (caller->number == 0) {
        pg_ask(
            caller,
            "CREATE TABLE IF NOT EXISTS task (id bigserial PRIMARY KEY, due bigint NOT NULL, payload text NOT NULL)");
        pg_ask(caller, "CREATE INDEX IF NOT EXISTS task_due ON task (due)");
    }
}

static void pg_schedule(struct caller *caller, uint64_t task, const char *payload) {
    struct packet packet = {0};
    char due[32];
    int due_size = snprintf(due, sizeof(due), "%llu", (unsigned long long)bench_wall_ms() + 3600000);
    if (task == 0) {
        static const char query[] = "schedule\0INSERT INTO task (due, payload) VALUES ($1, $2)";
        begin(&packet, 'P');
        put(&packet, query, sizeof(query));
        put_number(&packet, 0, 2); /* types are as the table says */
        end(&packet);
    }
    begin(&packet, 'B');
    put(&packet, "\0schedule\0\0\0\0\2", 14); /* no portal; texts; two */
    put_number(&packet, (uint32_t)due_size, 4);
    put(&packet, due, (size_t)due_size);
    put_number(&packet, PAYLOAD_SIZE, 4);
    put(&packet, payload, PAYLOAD_SIZE);
    put_number(&packet, 0, 2);
    end(&packet);
    begin(&packet, 'E');
    put(&packet, "\0\0\0\0\0", 5);
    end(&packet);
    begin(&packet, 'S');
    end(&packet);
    tell(caller, packet.bytes, packet.size);
    pg_hear(caller);
}

/* ---- */

static const struct protocol protocols[] = {{.name = "beanstalkd", .schedule = bean_schedule},
                                            {.name = "redis", .prepare = redis_prepare, .schedule = redis_schedule},
                                            {.name = "postgresql", .prepare = pg_prepare, .schedule = pg_schedule}};

static void *call(void *argument) {
    struct caller *caller = argument;
    char payload[PAYLOAD_SIZE + 1];
    memset(payload, 'x', PAYLOAD_SIZE);
    payload[PAYLOAD_SIZE] = '\0';
    for (uint64_t i = 0; i < caller->calls; i++) {
        uint64_t before_ns = bench_now_ns();
        caller->protocol->schedule(caller, i, payload);
        caller->samples_ns[i] = bench_now_ns() - before_ns;
    }
    return NULL;
}

int main(int argc, char **argv) {
    const char *name = "";
    uint64_t port = 0, calls = 5000, threads = 1;
    const struct bench_option options[] = {
        {"peer", "beanstalkd, redis or postgresql", NULL, &name},
        {"port", "on loopback", &port, NULL},
        {"calls", "of each connection", &calls, NULL},
        {"threads", "each with a connection", &threads, NULL},
        {0},
    };
    bench_options(argc, argv, "Latency of one durable schedule at another system.", options);
    const struct protocol *protocol = NULL;
    for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++)
        if (strcmp(protocols[i].name, name) == 0) protocol = &protocols[i];
    if (protocol == NULL || port == 0 || port > UINT16_MAX || threads == 0 || threads > 256 || calls == 0)
        bench_die("out of range");
    uint64_t *samples_ns = calloc(calls * threads, sizeof(*samples_ns));
    struct caller *callers = calloc(threads, sizeof(*callers));
    pthread_t *ids = calloc(threads, sizeof(*ids));
    if (samples_ns == NULL || callers == NULL || ids == NULL) bench_die("out of memory");
    for (uint64_t i = 0; i < threads; i++) {
        callers[i] =
            (struct caller){.protocol = protocol, .number = i, .calls = calls, .samples_ns = samples_ns + i * calls};
        callers[i].fd = bench_dial((uint16_t)port);
        if (protocol->prepare != NULL) protocol->prepare(&callers[i]);
    }
    uint64_t start_ns = bench_now_ns();
    for (uint64_t i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, call, &callers[i]) != 0) bench_die("no thread");
    for (uint64_t i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    double seconds = (double)(bench_now_ns() - start_ns) / 1e9;
    bench_sort(samples_ns, calls * threads);
    printf("bench=peer peer=%s threads=%llu calls=%llu per_s=%.0f p50_us=%.0f p99_us=%.0f\n", name,
           (unsigned long long)threads, (unsigned long long)(calls * threads), (double)(calls * threads) / seconds,
           (double)bench_quantile(samples_ns, calls * threads, 0.5) / 1e3,
           (double)bench_quantile(samples_ns, calls * threads, 0.99) / 1e3);
    return 0;
}
