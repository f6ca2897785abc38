/* late_thread.c: preloaded into tarryd: the thread that LATE_THREAD names starts its work LATE_THREAD_MS later. So a
 * test can send requests that other threads pass to this thread before it works. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* tarryd names a thread just after its creation. */
#define NAME_WAIT_US 100000u
#define NAME_LOOK_US 200u

struct started {
    void *(*run)(void *);
    void *argument;
};

static int is_late(void) {
    const char *late = getenv("LATE_THREAD");
    char name[17] = "";
    for (unsigned waited_us = 0; late != NULL && waited_us < NAME_WAIT_US; waited_us += NAME_LOOK_US) {
        prctl(PR_GET_NAME, name);
        if (strcmp(name, late) == 0) return 1;
        if (strcmp(name, program_invocation_short_name) != 0) return 0;
        usleep(NAME_LOOK_US);
    }
    return 0;
}

static void *begin(void *argument) {
    struct started started = *(struct started *)argument;
    free(argument);
    const char *wait_ms = getenv("LATE_THREAD_MS");
    if (is_late() && wait_ms != NULL) usleep(1000u * (unsigned)atoi(wait_ms));
    return started.run(started.argument);
}

__attribute__((visibility("default"))) int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                                          void *(*run)(void *), void *argument) {
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
        (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
    struct started *started = malloc(sizeof *started);
    if (started == NULL) return ENOMEM;
    *started = (struct started){.run = run, .argument = argument};
    return real(thread, attributes, begin, started);
}
