/* restart.c: see restart.h. */
#include "restart.h"

#include <errno.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "endpoints.h"
#include "fatal.h"
#include "logfmt.h"
#include "notify.h"

/* These are global variables, because there is one of each per process. */
static char **process_arguments;
static char listens_at[ENDPOINTS_TEXT_SIZE];

void restart_remember(char **arguments) {
    process_arguments = arguments;
}

void restart_remember_urls(const char *urls) {
    strncpy(listens_at, urls, sizeof(listens_at) - 1);
}

/* Guards told_to_stop and the taking of the stop signal. Either stop_wait takes the signal and restart sees
 * told_to_stop, or the signal stays pending and the next run receives it. */
static pthread_mutex_t stop_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool told_to_stop;

bool stop_is_told(void) {
    return atomic_load(&told_to_stop);
}

int stop_open_signals(const sigset_t *signals) {
    int come = signalfd(-1, signals, SFD_CLOEXEC);
    return come < 0 ? -errno : come;
}

void stop_wait(int come, const sigset_t *signals, siginfo_t *out) {
    const struct timespec now = {0};
    while (!stop_is_told()) {
        (void)poll(&(struct pollfd){.fd = come, .events = POLLIN}, 1, -1);
        pthread_mutex_lock(&stop_mutex);
        int number = sigtimedwait(signals, out, &now);
        if (number == SIGTERM || number == SIGINT) atomic_store(&told_to_stop, true);
        pthread_mutex_unlock(
            &stop_mutex); /* other signals, such as SIGHUP of a closed terminal, do not stop the broker */
    }
    close(come);
}

_Noreturn void restart(void) {
    pthread_mutex_lock(&stop_mutex); /* never unlocked */
    if (stop_is_told()) {
        logfmt("stopped", "reason=\"the broker was restarting when it received the signal to stop\"");
        _exit(0);
    }
    watchdog_suspend();
    if (setenv(RESTART_URLS, listens_at, 1) == 0 && close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC) == 0)
        execv("/proc/self/exe", process_arguments);
    fatal("restart_failed", -errno);
}
