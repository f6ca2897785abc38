/* flow.h: limits the number of commits in flight, and counts their results. */
#ifndef TARRY_BENCH_FLOW_H
#define TARRY_BENCH_FLOW_H

#include <pthread.h>

#include "bench.h"

struct bench_flow {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t under_way; /* number of commits in flight */
    uint64_t done;      /* number of operations that took effect */
    uint64_t refused;   /* number of operations that the broker refused */
    uint64_t last_ns;   /* time of the last reply; 0: none yet */
    char why[TARRY_MESSAGE_SIZE + 64];
};

void bench_flow_init(struct bench_flow *flow);

/* Waits until fewer than `under_way_max` commits are in flight, and submits. `commit` is then empty, as
 * tarry_commit_submit says. */
void bench_flow_submit(struct bench_flow *flow, tarry_commit *commit, uint64_t under_way_max);

/* Waits until at most `under_way_max` commits are in flight. */
void bench_flow_wait(struct bench_flow *flow, uint64_t under_way_max);

uint64_t bench_flow_done(struct bench_flow *flow);

/* Exits with the reason unless all `expected` operations took effect. */
void bench_flow_check(struct bench_flow *flow, uint64_t expected);

#endif
