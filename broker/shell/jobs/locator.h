/* locator.h: the thread that searches log and archive for the tasks of a redaction and the places of their contents. It
 * is needed because the core knows only live tasks, not those that ended long ago. A search may take a second; it
 * delays only redactions. */
#ifndef TARRY_SHELL_LOCATOR_H
#define TARRY_SHELL_LOCATOR_H

#include <pthread.h>

#include "call.h"
#include "worker.h"

struct archive;
struct inbox;
struct log;

struct locator {
    struct log *log;
    struct index *index; /* source of the names of queues */
    const struct archive *archive;
    struct inbox *inbox;
    struct worker worker;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t durable; /* durable log position, as last reported to the locator */
};

void locator_start(struct locator *locator, struct log *log, struct index *index, const struct archive *archive,
                   struct inbox *inbox);
/* Takes over the request of a commit, finds the past tasks that it names, and posts it with commit.past to the core's
 * inbox. The caller has set `queue_numbers`, `past_end` and `past_id_end` of the request. */
void locator_post(struct locator *locator, struct engine_request *engine_request);
void locator_durable(struct locator *locator, uint64_t position);
void locator_stop(struct locator *locator);

#endif
