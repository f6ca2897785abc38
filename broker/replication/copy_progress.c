/* copy_progress.c: see copy_progress.h. */
#include "copy_progress.h"

#define NS_PER_MS UINT64_C(1000000)

void copy_progress_see(struct copy_progress *progress, uint64_t left, uint64_t now_ns) {
    if (left == 0) {
        *progress = (struct copy_progress){0};
        return;
    }
    const struct copy_mark now = {now_ns, left};
    if (progress->from.ns == 0) *progress = (struct copy_progress){.from = now, .since = now, .said_ns = now_ns};
    if (now_ns - progress->since.ns >= COPY_PROGRESS_WINDOW_MS * NS_PER_MS) {
        progress->from = progress->since;
        progress->since = now;
    }
    uint64_t took_ms = (now_ns - progress->from.ns) / NS_PER_MS;
    if (took_ms == 0) return;
    progress->left_ms = 0;
    if (left >= progress->from.left) return; /* no progress */
    double rate = (double)(progress->from.left - left) / (double)took_ms;
    progress->left_ms = (uint64_t)((double)left / rate) + 1;
}

bool copy_progress_says(struct copy_progress *progress, uint64_t now_ns) {
    if (now_ns - progress->said_ns < COPY_PROGRESS_SAY_MS * NS_PER_MS) return false;
    progress->said_ns = now_ns;
    return true;
}
