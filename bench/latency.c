/* latency.c: how long one blocking, durable call takes, from one thread and from several that share a client; and
 * its cost in this process: CPU time, and how often its threads sleep. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bench.h"

#define PAYLOAD_SIZE 128 /* bytes; same as in peer/call.c */

struct caller {
    tarry_client *client;
    uint64_t calls;
    uint64_t number;
    uint64_t *samples_ns;
};

static void *call(void *arg) {
    struct caller *caller = arg;
    char key[48], payload[PAYLOAD_SIZE];
    memset(payload, 'x', sizeof payload);
    for (uint64_t i = 0; i < caller->calls; i++) {
        snprintf(key, sizeof key, "%llx-%llu-%llu", (unsigned long long)bench_wall_ms(),
                 (unsigned long long)caller->number, (unsigned long long)i);
        struct tarry_schedule_options task = {
            .queue = "latency", .key = key, .when_ms = 3600000, .payload = payload, .payload_size = sizeof payload};
        uint64_t before_ns = bench_now_ns();
        int rc = tarry_schedule(caller->client, &task, NULL);
        caller->samples_ns[i] = bench_now_ns() - before_ns;
        if (rc != TARRY_OK) bench_die("schedule: %s", tarry_code_sentence(rc));
    }
    return NULL;
}

static double cpu_us(const struct rusage *usage) {
    return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1e6 +
           (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
}

/* Prints CPU time and number of sleeps of this process, per call. */
static void print_cost(const struct rusage *before, const struct rusage *after, double calls) {
    printf(" client_cpu_us=%.1f client_sleeps=%.2f\n", (cpu_us(after) - cpu_us(before)) / calls,
           (double)(after->ru_nvcsw - before->ru_nvcsw) / calls);
}

int main(int argc, char **argv) {
    const char *broker = NULL;
    uint64_t calls = 5000, threads = 1;
    const struct bench_option options[] = {
        {"broker", "url [$TARRY_BROKER]", NULL, &broker},
        {"calls", "of each thread", &calls, NULL},
        {"threads", "that share one client", &threads, NULL},
        {0},
    };
    bench_options(argc, argv, "Latency of one durable schedule.", options);
    if (threads == 0 || threads > 256 || calls == 0) bench_die("out of range");
    tarry_client *client = bench_client(broker, 1);
    uint64_t *samples_ns = calloc(calls * threads, sizeof *samples_ns);
    struct caller *callers = calloc(threads, sizeof *callers);
    pthread_t *ids = calloc(threads, sizeof *ids);
    if (samples_ns == NULL || callers == NULL || ids == NULL) bench_die("out of memory");
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    uint64_t start_ns = bench_now_ns();
    for (uint64_t i = 0; i < threads; i++) {
        callers[i] = (struct caller){client, calls, i, samples_ns + i * calls};
        if (pthread_create(&ids[i], NULL, call, &callers[i]) != 0) bench_die("no thread");
    }
    for (uint64_t i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    double seconds = (double)(bench_now_ns() - start_ns) / 1e9;
    getrusage(RUSAGE_SELF, &after);
    bench_sort(samples_ns, calls * threads);
    printf("bench=latency threads=%llu calls=%llu per_s=%.0f p50_us=%.0f p99_us=%.0f p999_us=%.0f max_us=%.0f",
           (unsigned long long)threads, (unsigned long long)(calls * threads), (double)(calls * threads) / seconds,
           (double)bench_quantile(samples_ns, calls * threads, 0.5) / 1e3,
           (double)bench_quantile(samples_ns, calls * threads, 0.99) / 1e3,
           (double)bench_quantile(samples_ns, calls * threads, 0.999) / 1e3,
           (double)bench_quantile(samples_ns, calls * threads, 1.0) / 1e3);
    print_cost(&before, &after, (double)(calls * threads));
    tarry_close(client);
    free(samples_ns);
    free(callers);
    free(ids);
    return 0;
}
