/* pending.c: many commits that wait in the client: they are submitted at once, each with one small task, and the
 * time until the last reply is measured. The client's work per reply must not depend on how many commits wait. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

struct pending {
    atomic_ullong good;
    atomic_ullong bad;
};

static void done(void *arg, int code, const struct tarry_result *results, size_t count) {
    struct pending *pending = arg;
    (void)results;
    (void)count;
    atomic_fetch_add(code == TARRY_OK ? &pending->good : &pending->bad, 1);
}

int main(int argc, char **argv) {
    const char *broker = getenv("TARRY_BROKER"), *queue = "pending";
    uint64_t commits = 25000, in_flight = 16;
    const struct bench_option options[] = {
        {"broker", "url [$TARRY_BROKER]", NULL, &broker},
        {"queue", "name of a queue [pending]", NULL, &queue},
        {"commits", "submitted at once [25000]", &commits, NULL},
        {"in-flight", "of them under way at most [16]", &in_flight, NULL},
        {0},
    };
    bench_options(argc, argv, "Answers commits of which many wait in the client.", options);
    /* The last commits wait for all others, which takes longer than the default timeout of a call. */
    const struct tarry_options far = {.urls = broker,
                                      .name = "bench",
                                      .timeout_ms = 600000,
                                      .commits_in_flight = (uint32_t)in_flight,
                                      .queued_size_max = 256u << 20};
    tarry_client *client = NULL;
    if (tarry_open(&far, &client) != TARRY_OK) bench_die("cannot open a client");
    struct pending pending = {.good = 0};
    tarry_commit *commit = NULL;
    if (tarry_ping(client, NULL) != TARRY_OK) bench_die("no broker");
    if (tarry_commit_new(client, false, &commit) != TARRY_OK) bench_die("out of memory");
    const uint64_t start_ns = bench_now_ns();
    for (uint64_t i = 0; i < commits; i++) {
        struct tarry_schedule_options task = {.queue = queue, .when_ms = 3600000};
        if (tarry_commit_schedule(commit, &task) != TARRY_OK) bench_die("schedule");
        if (tarry_commit_submit(commit, NULL, done, &pending) != TARRY_OK) bench_die("submit");
    }
    const uint64_t submitted_ns = bench_now_ns();
    while (atomic_load(&pending.good) + atomic_load(&pending.bad) < commits)
        bench_sleep_until_ns(bench_now_ns() + 1000000);
    const double seconds = (double)(bench_now_ns() - start_ns) / 1e9;
    printf("bench=pending commits=%llu in_flight=%llu submitted_s=%.2f seconds=%.2f commits_per_s=%.0f refused=%llu\n",
           (unsigned long long)commits, (unsigned long long)in_flight, (double)(submitted_ns - start_ns) / 1e9, seconds,
           (double)commits / seconds, (unsigned long long)atomic_load(&pending.bad));
    tarry_commit_free(commit);
    tarry_close(client);
    return atomic_load(&pending.bad) > 0;
}
