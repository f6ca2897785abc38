/* retire.h: retires old segments of the log, and makes a summary of each new one. Index thread only.
 *
 * A segment is retired in slices. Contents of live tasks move into the index first, so that a timer of one year keeps
 * one payload and no whole segment. The engine decides the order (engine/retention.h). */
#ifndef TARRY_SHELL_RETIRE_H
#define TARRY_SHELL_RETIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "log.h"
#include "retention.h"
#include "summary.h"

struct archivist;
struct clock;
struct config;
struct index;
struct node;
struct signer;

struct retirement_needs {
    const struct config *config;
    struct clock *clock;
    struct log *log;
    struct index *index;
    struct archivist *archivist;
    struct signer *signer;
    const struct node *node;
};

struct retirement {
    struct retirement_needs needs;
    struct retention retention;
    struct log_cursor *cursor; /* reads the segment being retired; NULL: none */
    struct arena arena;
};

void retire_init(struct retirement *retire, const struct retirement_needs *needs);
/* Runs one slice. Returns 0 if nothing is due, 1 if it did something, and -ENOSPC if the index has no space now. After
 * -ENOSPC, retry later; the segment is then read again from its start, which is harmless. Any other failure ends the
 * process. */
int retire_step(struct retirement *retire);
bool retire_active(const struct retirement *retire);
/* Returns the longest time until the next check for work, if nothing else happens. */
uint64_t retire_wait_ns(struct retirement *retire);

/* ---- summaries */

/* Makes the summary of each segment while the index absorbs it (summary.h). If the broker was started in
 * the middle of a segment, that segment gets no summary here. */

struct summarizer {
    struct log *log;
    struct summary *summary; /* summary of the segment being absorbed; NULL: none is made */
};

void summarizer_init(struct summarizer *summarizer, struct log *log);
void summarizer_deinit(struct summarizer *summarizer);
/* Receives the next frame that the index absorbed, and the base of its segment. */
void summarizer_take(struct summarizer *summarizer, uint64_t base, const struct frame_header *header,
                     const Tarry__FrameBody *body);

#endif
