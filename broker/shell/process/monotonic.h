/* monotonic.h: the machine's clocks that cannot be set, and how threads wait by them. */
#ifndef TARRY_SHELL_MONOTONIC_H
#define TARRY_SHELL_MONOTONIC_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_MS UINT64_C(1000000)

uint64_t boottime_ns(void);  /* CLOCK_BOOTTIME */
uint64_t monotonic_ns(void); /* CLOCK_MONOTONIC */
/* A condition variable that waits on CLOCK_MONOTONIC, and an absolute time for it. */
void monotonic_cond_init(pthread_cond_t *cond);
struct timespec monotonic_after(uint64_t wait_ns);

#endif
