/* slow_threads.c: preloaded into the program that runs the tests. It delays threads of tarryd, tarry and the test
 * programs at random where they lock and unlock: usually very briefly, seldom up to SLOW_THREADS_MS. So two threads
 * often act in the reverse of their usual order, as on a busy machine (./dev test --slow-threads). */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ONE_IN 200
#define LONG_ONE_IN 10
#define MOMENT_US 200u

static unsigned max_us; /* 0: do not delay threads of this program */

__attribute__((constructor)) static void slow_threads_start(void) {
    static const char *const left_alone[] = {"python3", "java", "bash", "sh"};
    const char *max_ms = getenv("SLOW_THREADS_MS");
    if (max_ms == NULL) return;
    for (size_t i = 0; i < sizeof left_alone / sizeof *left_alone; i++)
        if (strcmp(program_invocation_short_name, left_alone[i]) == 0) return;
    max_us = 1000u * (unsigned)atoi(max_ms);
}

static void hold_up(void) {
    static __thread unsigned state;
    if (max_us == 0) return;
    if (state == 0) state = (unsigned)pthread_self() ^ (unsigned)getpid() << 16 ^ arc4random();
    if ((unsigned)rand_r(&state) % ONE_IN != 0) return;
    int before = errno;
    usleep((unsigned)rand_r(&state) % (rand_r(&state) % LONG_ONE_IN == 0 ? max_us : MOMENT_US));
    errno = before;
}

__attribute__((visibility("default"))) int pthread_mutex_lock(pthread_mutex_t *mutex) {
    static int (*real)(pthread_mutex_t *);
    if (real == NULL) real = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
    hold_up();
    return real(mutex);
}

__attribute__((visibility("default"))) int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    static int (*real)(pthread_mutex_t *);
    if (real == NULL) real = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    int result = real(mutex);
    hold_up();
    return result;
}
