/* flow.c: see flow.h. */
#include "flow.h"

#include <stdio.h>

void bench_flow_init(struct bench_flow *flow) {
    *flow = (struct bench_flow){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
}

static void commit_done(void *arg, int code, const struct tarry_result *results, size_t count) {
    struct bench_flow *flow = arg;
    const struct tarry_result *bad = NULL;
    uint64_t good = 0;
    for (size_t i = 0; i < count; i++) {
        if (results[i].code == TARRY_OK) good++;
        if (results[i].code != TARRY_OK && bad == NULL) bad = &results[i];
    }
    pthread_mutex_lock(&flow->lock);
    flow->under_way--;
    flow->done += good;
    flow->refused += count - good;
    if (code != TARRY_OK && count == 0) flow->refused++;
    flow->last_ns = bench_now_ns();
    if (bad != NULL || code != TARRY_OK)
        snprintf(flow->why, sizeof(flow->why), "%s %s", tarry_code_name(bad != NULL ? bad->code : code),
                 bad != NULL ? bad->message : "");
    pthread_cond_signal(&flow->changed);
    pthread_mutex_unlock(&flow->lock);
}

void bench_flow_wait(struct bench_flow *flow, uint64_t under_way_max) {
    pthread_mutex_lock(&flow->lock);
    while (flow->under_way > under_way_max) pthread_cond_wait(&flow->changed, &flow->lock);
    pthread_mutex_unlock(&flow->lock);
}

void bench_flow_submit(struct bench_flow *flow, tarry_commit *commit, uint64_t under_way_max) {
    bench_flow_wait(flow, under_way_max - 1);
    pthread_mutex_lock(&flow->lock);
    flow->under_way++;
    pthread_mutex_unlock(&flow->lock);
    int rc = tarry_commit_submit(commit, NULL, commit_done, flow);
    if (rc != TARRY_OK) bench_die("submit: %s", tarry_code_sentence(rc));
}

uint64_t bench_flow_done(struct bench_flow *flow) {
    pthread_mutex_lock(&flow->lock);
    const uint64_t done = flow->done;
    pthread_mutex_unlock(&flow->lock);
    return done;
}

void bench_flow_check(struct bench_flow *flow, uint64_t expected) {
    pthread_mutex_lock(&flow->lock);
    if (flow->refused > 0 || flow->done != expected)
        bench_die("%llu of %llu operations took effect, %llu were refused: %s", (unsigned long long)flow->done,
                  (unsigned long long)expected, (unsigned long long)flow->refused, flow->why);
    pthread_mutex_unlock(&flow->lock);
}
