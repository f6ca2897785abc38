/* thread.c: the library's threads, and checks of the calling thread.
 *
 * Signals belong to the program. A handler on a library thread would delay replies, and a sigwait in the program
 * would miss signals that such a thread received. So all library threads, and the threads that they start, block all
 * signals except those for faults in their own code.
 *
 * A child process has the client's memory, but none of its threads, and its locks in any state. So every call in a
 * child returns TARRY_E_FORKED before it touches a lock. */
#include "client.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

/* ---- signals and names */

void signals_block(sigset_t *out_before) {
    static const int raised_by_faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    sigset_t blocked;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof(raised_by_faults) / sizeof(raised_by_faults[0]); i++)
        sigdelset(&blocked, raised_by_faults[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, out_before);
}

void signals_restore(const sigset_t *before) {
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

int thread_start(pthread_t *thread, void *(*run)(void *), void *arg, const char *name) {
    sigset_t before;
    signals_block(&before);
    int error = pthread_create(thread, NULL, run, arg);
    signals_restore(&before);
    if (error != 0) return TARRY_E_SYSTEM;
    pthread_setname_np(*thread, name);
    return TARRY_OK;
}

/* ---- forks */

/* Number of forks that led to this process, counted from the process that opened its first client; 0 in that process.
 */
static atomic_uint forks;

static void forked(void) {
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static void watch_forks(void) {
    /* fails only without memory; then a child process does not notice the fork */
    (void)pthread_atfork(NULL, NULL, forked);
}

int process_enter(unsigned *out_process) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    *out_process = atomic_load_explicit(&forks, memory_order_relaxed);
    /* A child process cannot open another client. Earlier versions had the same rule, and programs rely on it. */
    return *out_process == 0 ? TARRY_OK : TARRY_E_FORKED;
}

bool process_is_other(const tarry_client *client) {
    return client->process != atomic_load_explicit(&forks, memory_order_relaxed);
}

int may_call(const tarry_client *client) {
    if (client == NULL) return TARRY_E_ARGUMENT;
    return process_is_other(client) ? TARRY_E_FORKED : TARRY_OK;
}

int may_block(const tarry_client *client) {
    int rv = may_call(client);
    return rv == TARRY_OK && engine_is_me(client) ? TARRY_E_CALLBACK : rv;
}

/* ---- clocks and conditions. Waiting uses CLOCK_MONOTONIC, so a jump of the wall clock moves no deadline */

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
    /* A wait of more than a year counts as a year, so that the deadline cannot overflow. */
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
