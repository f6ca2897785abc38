/* calendar_reader.h: the thread that asks the index how much falls due when. It waits for the index to have what was
 * recorded when the question came, so that the answer is of no earlier state than the question; no other request waits
 * for it. */
#ifndef TARRY_SHELL_CALENDAR_READER_H
#define TARRY_SHELL_CALENDAR_READER_H

#include "inbox.h"
#include "worker.h"

struct index;

/* How long a question waits for the index, which a full disk stops (F-4). */
#define CALENDAR_WAIT_MS 2000u

struct calendar_reader_needs {
    struct index *index;
    struct inbox *inbox;
    /* Waits, for so long at most, until the index has what is recorded below the position. NULL: it never will have
     * more than it has (--inspect). */
    bool (*await)(void *context, uint64_t position, uint64_t wait_ns);
    void *context;
};
struct calendar_reader {
    struct calendar_reader_needs needs;
    struct worker worker;
};

void calendar_reader_start(struct calendar_reader *reader, const struct calendar_reader_needs *needs);
/* Takes the request over; it comes back to the core's inbox with what it wanted (ENGINE_REQUEST_COUNT). */
void calendar_reader_post(struct calendar_reader *reader, struct engine_request *engine_request);
void calendar_reader_stop(struct calendar_reader *reader);

#endif
