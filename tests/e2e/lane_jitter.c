/* lane_jitter.c: LD_PRELOADed into tarryd by lane_churn_test.py. At random it delays a thread of nng's task queue, as a
 * busy machine does, so that a send ends after the pipe is closed. Without this program that happens once in thousands
 * of connections; with it, within a hundred. It changes nothing else. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define LATE_ONE_IN 40
#define LATE_US 1500

enum thread_kind { UNKNOWN, OF_TASKS, OTHER };

static int (*real_lock)(pthread_mutex_t *mutex);

__attribute__((constructor)) static void find(void) {
    real_lock = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
}

static enum thread_kind kind_of_thread(void) {
    char name[17] = "";
    prctl(PR_GET_NAME, name);
    if (strcmp(name, "nng:task") == 0) return OF_TASKS;
    /* A new thread has its creator's name until it sets its own. */
    return strncmp(name, "nng:", 4) == 0 || strncmp(name, "tarry-", 6) == 0 ? OTHER : UNKNOWN;
}

__attribute__((visibility("default"))) int pthread_mutex_lock(pthread_mutex_t *mutex) {
    static _Thread_local enum thread_kind kind;
    static _Thread_local unsigned seed;
    if (real_lock == NULL) find();
    if (kind == UNKNOWN) {
        kind = kind_of_thread();
        seed = (unsigned)gettid();
    }
    if (kind == OF_TASKS && rand_r(&seed) % LATE_ONE_IN == 0) usleep(LATE_US);
    return real_lock(mutex);
}
