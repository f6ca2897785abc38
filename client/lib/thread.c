/* thread.c: the library's threads, and checks of the calling thread.
 *
 * Signals belong to the program. A handler on a library thread would delay replies, and a sigwait in the program
 * would miss signals that such a thread received. So all library threads, and the threads that they start, block all
 * signals except those for faults in their own code.
 *
 * A child process has the client's memory, but none of its threads, and its locks in any state. So every call in a
 * child returns TARRY_E_FORKED before it touches a lock. */
#include "client.h"

#include <signal.h>
#include <stdatomic.h>

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

/* Number of forks between this process and the one that opened its first client. */
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
    /* A child process cannot open another client. This has always been the rule, and programs rely on it. */
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
