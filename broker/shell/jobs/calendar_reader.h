/* calendar_reader.h: the thread that counts due tasks by time in the index. It first waits until the index includes
 * everything recorded before the question arrived, so that the reply is not older than the question. No other request
 * waits for it. */
#ifndef TARRY_SHELL_CALENDAR_READER_H
#define TARRY_SHELL_CALENDAR_READER_H

#include "inbox.h"
#include "worker.h"

struct index;

/* Maximum time that a question waits for the index. The index stops growing when the disk is full (F-4). */
#define CALENDAR_WAIT_MS 2000u

struct calendar_reader_needs {
    struct index *index;
    struct inbox *inbox;
    /* Waits at most `wait_ns` until the index includes all records below `position`. The pointer is NULL if the index
     * never grows (--inspect). */
    bool (*await)(void *context, uint64_t position, uint64_t wait_ns);
    void *context;
};
struct calendar_reader {
    struct calendar_reader_needs needs;
    struct worker worker;
};

void calendar_reader_start(struct calendar_reader *reader, const struct calendar_reader_needs *needs);
/* Takes over the request and posts it to the core's inbox with the counts (ENGINE_REQUEST_COUNT). */
void calendar_reader_post(struct calendar_reader *reader, struct engine_request *engine_request);
void calendar_reader_stop(struct calendar_reader *reader);

#endif
