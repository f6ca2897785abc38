/* call.c: how long one blocking, durable schedule takes with another system, from one connection or from several,
 * each with a thread, like ../latency.c for Tarry. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "peer.h"

struct caller {
    struct peer_link link;
    uint64_t run;
    uint64_t first;
    uint64_t calls;
    uint64_t *samples_ns;
};

static void *call(void *argument) {
    struct caller *caller = argument;
    struct peer_task task;
    for (uint64_t i = 0; i < caller->calls; i++) {
        peer_make(&task, caller->run, caller->first + i, bench_wall_ms() + 3600000);
        const uint64_t before_ns = bench_now_ns();
        caller->link.protocol->schedule(&caller->link, &task, 1);
        peer_flush(&caller->link);
        while (!caller->link.protocol->answer(&caller->link)) peer_hear(&caller->link);
        caller->samples_ns[i] = bench_now_ns() - before_ns;
    }
    return NULL;
}

int main(int argc, char **argv) {
    const char *name = "";
    uint64_t port = 0, calls = 5000, threads = 1;
    const struct bench_option options[] = {
        {"peer", "beanstalkd, redis, postgresql or rabbitmq", NULL, &name},
        {"port", "on loopback", &port, NULL},
        {"calls", "of each connection", &calls, NULL},
        {"threads", "each with a connection", &threads, NULL},
        {0},
    };
    bench_options(argc, argv, "Latency of one durable schedule at another system.", options);
    const struct peer_protocol *protocol = peer_named(name);
    if (protocol == NULL || port == 0 || port > UINT16_MAX || threads == 0 || threads > 256 || calls == 0)
        bench_die("out of range");
    uint64_t *samples_ns = calloc(calls * threads, sizeof(*samples_ns)), run = bench_wall_us();
    struct caller *callers = calloc(threads, sizeof(*callers));
    pthread_t *ids = calloc(threads, sizeof(*ids));
    if (samples_ns == NULL || callers == NULL || ids == NULL) bench_die("out of memory");
    for (uint64_t i = 0; i < threads; i++) {
        callers[i].run = run;
        callers[i].first = i * calls;
        callers[i].calls = calls;
        callers[i].samples_ns = samples_ns + i * calls;
        peer_open(&callers[i].link, protocol, (uint16_t)port);
    }
    const uint64_t start_ns = bench_now_ns();
    for (uint64_t i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, call, &callers[i]) != 0) bench_die("no thread");
    for (uint64_t i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    const double seconds = (double)(bench_now_ns() - start_ns) / 1e9;
    bench_sort(samples_ns, calls * threads);
    printf("bench=peer peer=%s threads=%llu calls=%llu per_s=%.0f p50_us=%.0f p99_us=%.0f\n", name,
           (unsigned long long)threads, (unsigned long long)(calls * threads), (double)(calls * threads) / seconds,
           (double)bench_quantile(samples_ns, calls * threads, 0.5) / 1e3,
           (double)bench_quantile(samples_ns, calls * threads, 0.99) / 1e3);
    for (uint64_t i = 0; i < threads; i++) peer_close(&callers[i].link);
    free(ids);
    free(callers);
    free(samples_ns);
    return 0;
}
