/* thread.c: the library's threads, and which may call.
 *
 * Signals are the program's business: a handler that ran on one of the library's threads would hold up answers, and a
 * sigwait of the program's would never see what such a thread took. So all the library's threads block all signals but
 * those that a fault in their own code raises, and so do those that they start.
 *
 * A child process has the client's memory and none of its threads, and its locks as they happened to be. So
 * a child is told so at every call, before any lock is touched. */
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

/* How many forks lie between the process that opened its first client, and this one. */
static atomic_uint forks;

static void forked(void) {
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static void watch_forks(void) {
    (void)pthread_atfork(NULL, NULL, forked); /* fails without memory alone: then a child is not told */
}

int process_enter(unsigned *out_process) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    *out_process = atomic_load_explicit(&forks, memory_order_relaxed);
    /* A child cannot open another client either: that is what it has always been told, and programs rely on it. */
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
