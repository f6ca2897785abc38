/* time.c: clocks and conditions. Waiting uses CLOCK_MONOTONIC, so a jump of the wall clock moves no deadline. */
#include "client.h"

#include <errno.h>
#include <time.h>

static uint64_t clock_ms(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t now_ms(void) {
    return clock_ms(CLOCK_MONOTONIC);
}

uint64_t wall_ms(void) {
    return clock_ms(CLOCK_REALTIME);
}

void deadline_after(uint64_t wait_ms, struct timespec *out_deadline) {
    /* A wait of more than a year counts as a year, so that the sum cannot overflow. */
    const uint64_t wait_max_ms = 365ull * 24 * 3600 * 1000;
    if (wait_ms > wait_max_ms) wait_ms = wait_max_ms;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t ns = (uint64_t)now.tv_nsec + wait_ms % 1000 * 1000000;
    out_deadline->tv_sec = now.tv_sec + (time_t)(wait_ms / 1000) + (time_t)(ns / 1000000000);
    out_deadline->tv_nsec = (long)(ns % 1000000000);
}

void sleep_ms(uint64_t wait_ms) {
    struct timespec until;
    deadline_after(wait_ms, &until);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
}

int cond_init_monotonic(pthread_cond_t *cond) {
    pthread_condattr_t attributes;
    int rv = pthread_condattr_init(&attributes);
    if (rv != 0) return rv;
    rv = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (rv == 0) rv = pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
    return rv;
}

bool wait_drained(tarry_client *client, uint64_t until_ms) {
    if (until_ms == UINT64_MAX) {
        pthread_cond_wait(&client->drained, &client->lock);
        return true;
    }
    uint64_t now = now_ms();
    if (now >= until_ms) return false;
    struct timespec until;
    deadline_after(until_ms - now, &until);
    pthread_cond_timedwait(&client->drained, &client->lock, &until);
    return true;
}
