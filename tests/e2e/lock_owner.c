/* lock_owner.c: preloaded into tarryd by harness.watch_locks. Ends a process in which a thread unlocks a mutex that it
 * has not locked, or waits for a condition with such a mutex. That thread accessed data without the mutex that protects
 * them, which mostly has no visible effect in a test. The GNU C library stores in a mutex the number of the thread that
 * holds it. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

static int (*real_unlock)(pthread_mutex_t *);
static int (*real_wait)(pthread_cond_t *, pthread_mutex_t *);
static int (*real_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static __thread pid_t thread;

static void forget_thread(void) {
    thread = 0;
}

__attribute__((constructor)) static void find(void) {
    real_unlock = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    real_wait = (int (*)(pthread_cond_t *, pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_cond_wait");
    real_timedwait = (int (*)(pthread_cond_t *, pthread_mutex_t *,
                              const struct timespec *))dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    pthread_atfork(NULL, NULL, forget_thread);
}

static void check(const pthread_mutex_t *mutex, const char *call) {
    if (thread == 0) thread = gettid();
    if (mutex->__data.__owner == thread) return;
    char name[16] = "", line[160];
    pthread_getname_np(pthread_self(), name, sizeof name);
    int size = snprintf(line, sizeof line, "lock_owner: %s calls %s with a mutex that it has not taken\n", name, call);
    if (write(STDERR_FILENO, line, (size_t)size) < 0) _exit(1);
    abort();
}

SHOWN int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    if (real_unlock == NULL) find(); /* another library's constructor ran earlier */
    check(mutex, "pthread_mutex_unlock");
    return real_unlock(mutex);
}

SHOWN int pthread_cond_wait(pthread_cond_t *changed, pthread_mutex_t *mutex) {
    check(mutex, "pthread_cond_wait");
    return real_wait(changed, mutex);
}

SHOWN int pthread_cond_timedwait(pthread_cond_t *changed, pthread_mutex_t *mutex, const struct timespec *until) {
    check(mutex, "pthread_cond_timedwait");
    return real_timedwait(changed, mutex, until);
}
