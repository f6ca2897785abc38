/* flow.h: commits under way: so many at most, and what became of them. */
#ifndef TARRY_BENCH_FLOW_H
#define TARRY_BENCH_FLOW_H

#include <pthread.h>

#include "bench.h"

struct bench_flow {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t under_way; /* commits */
    uint64_t done;      /* operations that took effect */
    uint64_t refused;   /* operations that did not */
    uint64_t last_ns;   /* when the last answer came; 0: none has */
    char why[TARRY_MESSAGE_SIZE + 64];
};

void bench_flow_init(struct bench_flow *flow);

/* Waits until fewer than `under_way_max` commits are unanswered, and submits. `commit` is empty then, as
 * tarry_commit_submit says. */
void bench_flow_submit(struct bench_flow *flow, tarry_commit *commit, uint64_t under_way_max);

/* Waits until at most so many are unanswered. */
void bench_flow_wait(struct bench_flow *flow, uint64_t under_way_max);

uint64_t bench_flow_done(struct bench_flow *flow);

/* Dies, with the reason, unless each of `expected` operations took effect. */
void bench_flow_check(struct bench_flow *flow, uint64_t expected);

#endif
