/* locator.h: the thread that searches log and archive for the tasks that a redaction means: which there were, and where
 * their contents lie. The core knows the live tasks, and nothing of those that ended long ago. A search may take a
 * second; it delays redactions, and nothing else. */
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
    struct index *index; /* names of queues */
    const struct archive *archive;
    struct inbox *inbox; /* the core's */
    struct worker worker;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t durable; /* of the log, as the locator has been told */
};

void locator_start(struct locator *locator, struct log *log, struct index *index, const struct archive *archive,
                   struct inbox *inbox);
/* Takes the request of a commit over; it comes back to the core's inbox with event.past. Its queue_numbers
 * and what follows them must be set. */
void locator_post(struct locator *locator, struct engine_request *engine_request);
void locator_durable(struct locator *locator, uint64_t position);
void locator_stop(struct locator *locator);

#endif
