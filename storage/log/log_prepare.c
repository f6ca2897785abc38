/* log_prepare.c: a thread, the preparer, that makes the next segment ahead of time. A roll then costs the writer two
 * syncs, not the writing of a whole file.
 *
 * The file next.tmp has one owner at a time: in state PREPARER_WORKING the preparer, which fills the file; in state
 * PREPARER_TAKEN the writer, which renames the file; in other states no thread. Any thread may request a segment at any
 * time (log_fits).
 *
 * A failure, such as a full disk, does not fail the log. log_stats shows the failure, and the preparer retries after
 * PREPARE_AGAIN_MS. If the writer needs the segment sooner, the writer makes the segment, and an error of that attempt
 * fails the log. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <time.h>

#include "log_internal.h"

/* Delay before another attempt to make the next segment. It is short, because the broker refuses new tasks until the
 * disk has space again (F-4), and an attempt costs one system call. */
#define PREPARE_AGAIN_MS 200

/* Waits PREPARE_AGAIN_MS, or until the state changes. The caller has the mutex. */
static void preparer_pause(struct preparer *preparer) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += PREPARE_AGAIN_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (!preparer->stop && preparer->state == PREPARER_WANTED)
        if (pthread_cond_timedwait(&preparer->changed, &preparer->mutex, &until) == ETIMEDOUT) return;
}

static void *preparer_run(void *argument) {
    struct log *log = argument;
    struct preparer *preparer = &log->preparer;
    pthread_mutex_lock(&preparer->mutex);
    while (!preparer->stop) {
        if (preparer->state != PREPARER_WANTED) {
            pthread_cond_wait(&preparer->changed, &preparer->mutex);
            continue;
        }
        preparer->state = PREPARER_WORKING;
        pthread_mutex_unlock(&preparer->mutex);
        int handle = segment_make(log, segment_next_name, log->segment_size);
        pthread_mutex_lock(&preparer->mutex);
        preparer->handle = handle;
        preparer->error = handle < 0 ? handle : 0;
        preparer->state = handle < 0 ? PREPARER_WANTED : PREPARER_READY;
        pthread_cond_broadcast(&preparer->changed);
        if (handle < 0) preparer_pause(preparer);
    }
    pthread_mutex_unlock(&preparer->mutex);
    return NULL;
}

int preparer_start(struct log *log) {
    struct preparer *preparer = &log->preparer;
    /* Block all signals: the program's own threads handle them. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&preparer->thread, NULL, preparer_run, log);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) return -error;
    pthread_setname_np(preparer->thread, "tarry-prepare");
    preparer->running = true;
    return 0;
}

void preparer_stop(struct log *log) {
    struct preparer *preparer = &log->preparer;
    if (!preparer->running) return;
    pthread_mutex_lock(&preparer->mutex);
    preparer->stop = true;
    pthread_cond_broadcast(&preparer->changed);
    pthread_mutex_unlock(&preparer->mutex);
    pthread_join(preparer->thread, NULL);
    preparer->running = false;
    if (preparer->state != PREPARER_READY) return;
    /* Ignore errors: the file has no data, and the next start deletes it. */
    char path[LOG_PATH_SIZE];
    log_path(log, segment_next_name, path);
    (void)log->disk->close(log->disk->context, preparer->handle);
    (void)log->disk->unlink(log->disk->context, path);
    preparer->state = PREPARER_IDLE;
}

/* Requests a file. The caller has the mutex. */
static void want(struct preparer *preparer) {
    if (preparer->state != PREPARER_IDLE) return;
    preparer->state = PREPARER_WANTED;
    pthread_cond_broadcast(&preparer->changed);
}

void preparer_want(struct log *log) {
    struct preparer *preparer = &log->preparer;
    if (!preparer->running) return;
    pthread_mutex_lock(&preparer->mutex);
    want(preparer);
    pthread_mutex_unlock(&preparer->mutex);
}

int log_fits(struct log *log, uint64_t from, uint64_t size) {
    /* Read the current segment before the preparer's state. If the prepared segment becomes current in between,
     * log_fits counts too little space, never too much. */
    pthread_mutex_lock(&log->mutex);
    uint64_t end = log->current->base + log->current->capacity;
    pthread_mutex_unlock(&log->mutex);
    if (from + size <= end) return 0;
    struct preparer *preparer = &log->preparer;
    if (!preparer->running) return -EAGAIN;
    bool is_enough = from + size <= end + log->segment_size;
    pthread_mutex_lock(&preparer->mutex);
    want(preparer);
    bool is_ready = preparer->state == PREPARER_READY;
    int error = preparer->error != 0 ? preparer->error : -EINPROGRESS;
    pthread_mutex_unlock(&preparer->mutex);
    if (!is_ready) return error;
    return is_enough ? 0 : -EAGAIN;
}

int preparer_take(struct log *log) {
    struct preparer *preparer = &log->preparer;
    if (!preparer->running) return -1;
    pthread_mutex_lock(&preparer->mutex);
    while (preparer->state == PREPARER_WORKING) pthread_cond_wait(&preparer->changed, &preparer->mutex);
    int handle = preparer->state == PREPARER_READY ? preparer->handle : -1;
    preparer->state = PREPARER_TAKEN;
    pthread_mutex_unlock(&preparer->mutex);
    return handle;
}

void preparer_give_back(struct log *log) {
    struct preparer *preparer = &log->preparer;
    if (!preparer->running) return;
    pthread_mutex_lock(&preparer->mutex);
    preparer->state = PREPARER_IDLE;
    want(preparer);
    pthread_mutex_unlock(&preparer->mutex);
}
