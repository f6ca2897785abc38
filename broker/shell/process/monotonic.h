/* monotonic.h: the machine's clocks that cannot be set, and waiting by them. */
#ifndef TARRY_SHELL_MONOTONIC_H
#define TARRY_SHELL_MONOTONIC_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_MS UINT64_C(1000000)

uint64_t boottime_ns(void);  /* CLOCK_BOOTTIME in nanoseconds */
uint64_t monotonic_ns(void); /* CLOCK_MONOTONIC in nanoseconds */
/* monotonic_cond_init makes a condition variable that uses CLOCK_MONOTONIC; monotonic_after makes its deadline. */
void monotonic_cond_init(pthread_cond_t *cond);
struct timespec monotonic_after(uint64_t wait_ns);

#endif
