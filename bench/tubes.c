/* tubes.c: the life of jobs in beanstalkd's protocol, with Tarry or with beanstalkd: put, then reserve and delete,
 * by several connections, each with a thread that waits for each reply. Jobs are spread over `tubes`, and each
 * connection watches all of them. Reserved jobs are counted: a doubled or missing job ends the bench. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

#define PAYLOAD_SIZE 128
#define BUFFER_SIZE 4096
#define THREADS_MAX 256
#define TUBES_MAX 64

enum what { PUT, RESERVE, DELETE, WHATS };
static const char *const names[WHATS] = {"put", "reserve", "delete"};

struct worker {
    pthread_t thread;
    int fd;
    uint64_t number;
    uint64_t calls;
    uint64_t tubes;
    uint64_t *samples_ns[WHATS]; /* durations of the calls of each kind: `calls` values each */
    uint64_t *ids;               /* ids of the jobs that this connection has reserved */
    size_t size;
    char buffer[BUFFER_SIZE];
};

/* Sends `text`, and reads until `lines` lines have come. The first must begin with `expected`. */
static void ask(struct worker *worker, const char *text, size_t size, unsigned lines, const char *expected) {
    unsigned got = 0;
    if (write(worker->fd, text, size) != (ssize_t)size) bench_die("the connection broke");
    for (worker->size = 0; got < lines;) {
        ssize_t part = read(worker->fd, worker->buffer + worker->size, BUFFER_SIZE - 1 - worker->size);
        if (part <= 0) bench_die("the connection broke");
        for (ssize_t i = 0; i < part; i++) got += worker->buffer[worker->size + (size_t)i] == '\n';
        worker->size += (size_t)part;
    }
    worker->buffer[worker->size] = '\0';
    if (strncmp(worker->buffer, expected, strlen(expected)) != 0)
        bench_die("%.*s: %.60s", (int)strcspn(text, "\r"), text, worker->buffer);
}

static void ask_timed(struct worker *worker, enum what what, uint64_t i, const char *text, unsigned lines,
                      const char *expected) {
    uint64_t before_ns = bench_now_ns();
    ask(worker, text, strlen(text), lines, expected);
    worker->samples_ns[what][i] = bench_now_ns() - before_ns;
}

static void *produce(void *argument) {
    struct worker *worker = argument;
    char text[BUFFER_SIZE], payload[PAYLOAD_SIZE + 1];
    memset(payload, 'x', PAYLOAD_SIZE);
    payload[PAYLOAD_SIZE] = '\0';
    for (uint64_t i = 0; i < worker->calls; i++) {
        uint64_t tube = (worker->number + i) % worker->tubes;
        int size = snprintf(text, sizeof(text), "use bench-%llu\r\n", (unsigned long long)tube);
        if (i == 0 || worker->tubes > 1) ask(worker, text, (size_t)size, 1, "USING ");
        snprintf(text, sizeof(text), "put 1024 0 60 %d\r\n%s\r\n", PAYLOAD_SIZE, payload);
        ask_timed(worker, PUT, i, text, 1, "INSERTED ");
    }
    return NULL;
}

static void *consume(void *argument) {
    struct worker *worker = argument;
    char text[BUFFER_SIZE];
    for (uint64_t i = 0; i < worker->calls; i++) {
        ask_timed(worker, RESERVE, i, "reserve-with-timeout 30\r\n", 2, "RESERVED ");
        unsigned long long id = strtoull(worker->buffer + strlen("RESERVED "), NULL, 10);
        worker->ids[i] = id;
        snprintf(text, sizeof(text), "delete %llu\r\n", id);
        ask_timed(worker, DELETE, i, text, 1, "DELETED");
    }
    return NULL;
}

static void prepare(struct worker *worker, uint16_t port) {
    char text[BUFFER_SIZE];
    worker->fd = bench_dial(port);
    if ((worker->ids = calloc(worker->calls, sizeof(uint64_t))) == NULL) bench_die("out of memory");
    for (enum what what = PUT; what < WHATS; what++)
        if ((worker->samples_ns[what] = calloc(worker->calls, sizeof(uint64_t))) == NULL) bench_die("out of memory");
    for (uint64_t tube = 0; tube < worker->tubes; tube++) {
        int size = snprintf(text, sizeof(text), "watch bench-%llu\r\n", (unsigned long long)tube);
        ask(worker, text, (size_t)size, 1, "WATCHING ");
    }
    ask(worker, "ignore default\r\n", strlen("ignore default\r\n"), 1, "WATCHING ");
}

/* Returns seconds. */
static double all(struct worker *workers, uint64_t count, void *(*work)(void *)) {
    uint64_t start_ns = bench_now_ns();
    for (uint64_t i = 0; i < count; i++)
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) bench_die("no thread");
    for (uint64_t i = 0; i < count; i++) pthread_join(workers[i].thread, NULL);
    return (double)(bench_now_ns() - start_ns) / 1e9;
}

static void check_once(const struct worker *workers, uint64_t count, uint64_t calls) {
    uint64_t *ids = calloc(count * calls, sizeof(*ids));
    if (ids == NULL) bench_die("out of memory");
    for (uint64_t i = 0; i < count; i++) memcpy(ids + i * calls, workers[i].ids, calls * sizeof(*ids));
    bench_sort(ids, count * calls);
    for (uint64_t i = 1; i < count * calls; i++)
        if (ids[i] == ids[i - 1]) bench_die("job %llu was reserved twice", (unsigned long long)ids[i]);
    free(ids);
}

static void print_times(const struct worker *workers, uint64_t count, uint64_t calls) {
    uint64_t *samples_ns = calloc(count * calls, sizeof(*samples_ns));
    if (samples_ns == NULL) bench_die("out of memory");
    for (enum what what = PUT; what < WHATS; what++) {
        for (uint64_t i = 0; i < count; i++)
            memcpy(samples_ns + i * calls, workers[i].samples_ns[what], calls * sizeof(*samples_ns));
        bench_sort(samples_ns, count * calls);
        printf(" %s_p50_us=%.0f %s_p99_us=%.0f", names[what],
               (double)bench_quantile(samples_ns, count * calls, 0.5) / 1e3, names[what],
               (double)bench_quantile(samples_ns, count * calls, 0.99) / 1e3);
    }
    free(samples_ns);
}

int main(int argc, char **argv) {
    uint64_t port = 0, calls = 1000, threads = 16, tubes = 1;
    const struct bench_option options[] = {
        {"port", "of beanstalkd's protocol, on loopback", &port, NULL},
        {"calls", "jobs of each connection", &calls, NULL},
        {"threads", "each with a connection", &threads, NULL},
        {"tubes", "that are put into in turn, and watched by all", &tubes, NULL},
        {0},
    };
    bench_options(argc, argv, "Jobs in beanstalkd's protocol, from put to delete.", options);
    if (port == 0 || port > UINT16_MAX || threads == 0 || threads > THREADS_MAX || calls == 0 || tubes == 0 ||
        tubes > TUBES_MAX)
        bench_die("out of range");
    struct worker *workers = calloc(threads, sizeof(*workers));
    if (workers == NULL) bench_die("out of memory");
    for (uint64_t i = 0; i < threads; i++) {
        workers[i].number = i;
        workers[i].calls = calls;
        workers[i].tubes = tubes;
        prepare(&workers[i], (uint16_t)port);
    }
    double put_s = all(workers, threads, produce), work_s = all(workers, threads, consume);
    check_once(workers, threads, calls);
    double jobs = (double)(calls * threads);
    printf("bench=tubes threads=%llu jobs=%.0f tubes=%llu put_per_s=%.0f worked_per_s=%.0f",
           (unsigned long long)threads, jobs, (unsigned long long)tubes, jobs / put_s, jobs / work_s);
    print_times(workers, threads, calls);
    printf("\n");
    return 0;
}
