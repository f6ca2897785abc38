/* monotonic.c: see monotonic.h. */
#include "monotonic.h"

#include <assert.h>

void monotonic_cond_init(pthread_cond_t *cond) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    int error = pthread_cond_init(cond, &attributes);
    assert(error == 0);
    pthread_condattr_destroy(&attributes);
}

uint64_t boottime_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_BOOTTIME, &time);
    return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

uint64_t monotonic_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

struct timespec monotonic_after(uint64_t wait_ns) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    uint64_t ns = (uint64_t)time.tv_nsec + wait_ns % 1000000000ull;
    time.tv_sec += (time_t)(wait_ns / 1000000000ull + ns / 1000000000ull);
    time.tv_nsec = (long)(ns % 1000000000ull);
    return time;
}
