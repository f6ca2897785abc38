/* signals.c: see signals.h. */
#include "signals.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "say.h"

static struct {
    int fd;
    atomic_bool ended;
    atomic_bool graceful;
    atomic_int children[SIGNALS_CHILDREN_MAX]; /* 0: unused */
    sigset_t original;
    sigset_t awaited;
    sem_t running; /* posted when the signal thread has started */
    pthread_mutex_t lock;
    void (*wake)(void *argument);
    void *argument;
} signals = {.fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER};

void signals_end(void) {
    uint64_t one = 1;
    pthread_mutex_lock(&signals.lock);
    atomic_store(&signals.ended, true);
    /* The counter cannot overflow, because it grows by one with each signal. So the write fails only if the descriptor
     * is closed. */
    if (write(signals.fd, &one, sizeof one) != sizeof one) tool_say("eventfd: %s", strerror(errno));
    if (signals.wake != NULL) signals.wake(signals.argument);
    pthread_mutex_unlock(&signals.lock);
}

static void *take_signals(void *argument) {
    (void)argument;
    sem_post(&signals.running);
    for (unsigned count = 0;; count++) {
        int number;
        if (sigwait(&signals.awaited, &number) != 0) continue;
        if (count > 0 || !atomic_load(&signals.graceful)) {
            for (size_t i = 0; i < SIGNALS_CHILDREN_MAX; i++) {
                pid_t group = atomic_load(&signals.children[i]);
                if (group > 0) kill(-group, SIGTERM);
            }
            _exit(128 + number);
        }
        signals_end();
    }
    return NULL;
}

int signals_start(void) {
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL);
    sigemptyset(&signals.awaited);
    sigaddset(&signals.awaited, SIGINT);
    sigaddset(&signals.awaited, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals.awaited, &signals.original);
    sem_init(&signals.running, 0, 0);
    signals.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_t thread = 0;
    int error = signals.fd < 0 ? errno : pthread_create(&thread, NULL, take_signals, NULL);
    if (error != 0) {
        tool_say("cannot start: %s", strerror(error));
        return EXIT_REFUSED;
    }
    pthread_detach(thread);
    /* `tarry verify` forks. While a thread starts, a sanitizer holds locks of its allocator; a child forked at that
     * moment would wait for them for ever (seen once). */
    while (sem_wait(&signals.running) != 0) {
    }
    return 0;
}

void signals_graceful(void) {
    atomic_store(&signals.graceful, true);
}

int signals_fd(void) {
    return signals.fd;
}

bool signals_ended(void) {
    return atomic_load(&signals.ended);
}

void signals_on_end(void (*wake)(void *argument), void *argument) {
    pthread_mutex_lock(&signals.lock);
    signals.wake = wake;
    signals.argument = argument;
    if (wake != NULL && atomic_load(&signals.ended)) wake(argument);
    pthread_mutex_unlock(&signals.lock);
}

/* Replaces the first entry `from` by `to`. */
static void replace_child(pid_t from, pid_t to) {
    for (size_t i = 0; i < SIGNALS_CHILDREN_MAX; i++) {
        int expected = from;
        if (atomic_compare_exchange_strong(&signals.children[i], &expected, to)) return;
    }
}

void signals_child_add(pid_t group) {
    replace_child(0, group);
}

void signals_child_remove(pid_t group) {
    replace_child(group, 0);
}

const sigset_t *signals_original_mask(void) {
    return &signals.original;
}
