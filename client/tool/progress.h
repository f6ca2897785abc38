/* progress.h: a progress bar on standard error for long work, on a terminal only, never in a pipe. */
#ifndef TARRY_TOOL_PROGRESS_H
#define TARRY_TOOL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *what; /* "scheduled" */
    bool shown;       /* standard error is a terminal */
    bool drawn;
    uint64_t started_ms;
    uint64_t drawn_ms;
};

void progress_start(struct progress *progress, const char *what);
/* Draws at most ten times a second. `done` of `total` decides the bar (total 0: unknown, no bar); `count` is what has
 * been done in things, shown with its rate. Cheap when nothing is to be drawn. */
void progress_show(struct progress *progress, uint64_t done, uint64_t total, uint64_t count);
/* Takes the bar off the screen. */
void progress_end(struct progress *progress);

#endif
