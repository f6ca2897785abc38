/* watch.c: see watch.h. */
#include "watch.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#include "say.h"
#include "units.h"

#define LOOK_EVERY_MS 250u
#define BUSY_SAID_AFTER_MS 2000u
#define SILENCE_SAID_AFTER_MS 1000u
/* Time in ms after which a wait is reported, if a connection is open. The limit is longer in that case, because the
 * broker has the request and may only be slow. */
#define SLOW_SAID_AFTER_MS 5000u
#define SAID_EVERY_MS 60000u

/* A reason why the command waits: no answer, or a busy broker. */
struct wait {
    uint64_t lasted_ms; /* duration of the wait in ms at the last check */
    uint64_t next_ms;   /* duration of the wait in ms at which it is reported again; 0: not reported yet */
};

static struct {
    pthread_t thread;
    sem_t stop;
    bool watches;
    tarry_client *client;
    struct wait busy;
    struct wait silence;
    atomic_bool is_connected;
    atomic_bool has_said;
    atomic_bool is_quiet; /* true: silence of the broker is not reported */
    atomic_uint_least64_t patience_ms;
} watch;

/* Sleeps until the next check. Returns false when the thread must stop. */
static bool wait_a_little(void) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_EVERY_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    return sem_clockwait(&watch.stop, CLOCK_MONOTONIC, &until) != 0;
}

/* Returns whether a wait of this duration is reported now. */
static bool is_due(struct wait *wait, uint64_t lasted_ms, uint64_t after_ms) {
    if (lasted_ms < wait->lasted_ms) wait->next_ms = 0; /* the previous wait has ended, and a new one has begun */
    wait->lasted_ms = lasted_ms;
    if (lasted_ms < after_ms || lasted_ms < wait->next_ms) return false;
    wait->next_ms = lasted_ms + SAID_EVERY_MS;
    return true;
}

static void look_at_busy(void) {
    char duration[UNITS_TEXT_SIZE], reason[TARRY_MESSAGE_SIZE];
    uint64_t busy_ms = tarry_busy_ms(watch.client, reason);
    if (is_due(&watch.busy, busy_ms, BUSY_SAID_AFTER_MS))
        tool_say("the broker has been busy for %s; retrying: %s", duration_format(busy_ms / 1000 * 1000, duration),
                 reason);
}

static void look_at_silence(void) {
    char duration[UNITS_TEXT_SIZE], said[TARRY_MESSAGE_SIZE];
    uint64_t silence_ms = tarry_silence_ms(watch.client), patience_ms = atomic_load(&watch.patience_ms);
    const bool was_said = watch.silence.next_ms != 0;
    if (atomic_load(&watch.is_quiet)) return;
    if (was_said && silence_ms < watch.silence.lasted_ms && atomic_load(&watch.is_connected)) {
        tool_say("a broker answers again, after %s",
                 duration_format((watch.silence.lasted_ms + 999) / 1000 * 1000, duration));
        watch.silence = (struct wait){0};
        atomic_store(&watch.has_said, false);
    }
    const bool is_connected = atomic_load(&watch.is_connected);
    if (!is_due(&watch.silence, silence_ms, is_connected ? SLOW_SAID_AFTER_MS : SILENCE_SAID_AFTER_MS)) return;
    tarry_addresses_say(watch.client, said);
    atomic_store(&watch.has_said, true);
    if (patience_ms == TARRY_FOREVER)
        tool_say("no broker answers; retrying (%s)", said);
    else
        tool_say("no broker answers; giving up after %s (%s)", duration_format(patience_ms, duration), said);
}

static void *run(void *argument) {
    (void)argument;
    while (wait_a_little()) {
        look_at_busy();
        look_at_silence();
    }
    return NULL;
}

void watch_event(void *argument, const struct tarry_event *event) {
    (void)argument;
    if (event->kind == TARRY_CONNECTED) atomic_store(&watch.is_connected, true);
    if (event->kind == TARRY_DISCONNECTED) atomic_store(&watch.is_connected, false);
    if (event->kind == TARRY_WARNING) tool_say("%s", event->message);
}

void watch_begin(tarry_client *client, uint64_t patience_ms) {
    watch.client = client;
    watch_patience(patience_ms);
    watch.watches = sem_init(&watch.stop, 0, 0) == 0 && pthread_create(&watch.thread, NULL, run, NULL) == 0;
}

void watch_patience(uint64_t patience_ms) {
    atomic_store(&watch.patience_ms, patience_ms);
}

void watch_silence(bool is_said) {
    atomic_store(&watch.is_quiet, !is_said);
}

bool watch_has_said(void) {
    return atomic_load(&watch.has_said);
}

void watch_end(void) {
    if (!watch.watches) return;
    sem_post(&watch.stop);
    pthread_join(watch.thread, NULL);
    sem_destroy(&watch.stop);
    watch.watches = false;
}
