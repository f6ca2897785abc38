/* progress.h: progress bar on standard error for long work, on a terminal only. */
#ifndef TARRY_TOOL_PROGRESS_H
#define TARRY_TOOL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *what; /* "scheduled" */
    bool shown;       /* true: standard error is a terminal */
    bool drawn;
    uint64_t started_ms;
    uint64_t drawn_ms;
};

void progress_start(struct progress *progress, const char *what);
/* Draws the bar, at most ten times a second. `done` / `total` is the length of the bar (total 0: no bar); `count` is
 * the printed number, with its rate. Cheap if nothing is drawn. */
void progress_show(struct progress *progress, uint64_t done, uint64_t total, uint64_t count);
/* Removes the bar from the screen. */
void progress_end(struct progress *progress);

#endif
