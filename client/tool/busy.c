/* busy.c: see busy.h. */
#include "busy.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <time.h>

#include "tool.h"
#include "units.h"

#define LOOK_EVERY_MS 250u
#define BUSY_SAID_AFTER_MS 2000u
#define BUSY_SAID_EVERY_MS 60000u

static struct {
    pthread_t thread;
    sem_t stop;
    bool watches;
    tarry_client *client;
} busy;

/* False: it is time to stop. */
static bool wait_a_little(void) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_EVERY_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    return sem_clockwait(&busy.stop, CLOCK_MONOTONIC, &until) != 0;
}

static void *watch(void *argument) {
    (void)argument;
    uint64_t last_ms = 0, said_after_ms = BUSY_SAID_AFTER_MS;
    while (wait_a_little()) {
        char duration[UNITS_TEXT_SIZE], reason[TARRY_MESSAGE_SIZE];
        uint64_t busy_ms = tarry_busy_ms(busy.client, reason);
        if (busy_ms < last_ms) said_after_ms = BUSY_SAID_AFTER_MS; /* that wait is over, and this another one */
        last_ms = busy_ms;
        if (busy_ms < said_after_ms) continue;
        tool_say("the broker has been busy for %s, and is asked again until it is not: %s",
                 duration_format(busy_ms / 1000 * 1000, duration), reason);
        said_after_ms = busy_ms + BUSY_SAID_EVERY_MS;
    }
    return NULL;
}

void busy_watch(tarry_client *client) {
    busy.client = client;
    busy.watches = sem_init(&busy.stop, 0, 0) == 0 && pthread_create(&busy.thread, NULL, watch, NULL) == 0;
}

void busy_unwatch(void) {
    if (!busy.watches) return;
    sem_post(&busy.stop);
    pthread_join(busy.thread, NULL);
    sem_destroy(&busy.stop);
    busy.watches = false;
}
