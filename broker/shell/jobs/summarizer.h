/* summarizer.h: makes the summary of each segment while the index absorbs it (summary.h). A segment that was not
 * absorbed from its first frame on, because the broker was started in the middle of it, gets none from here. Index
 * thread only. */
#ifndef TARRY_SHELL_SUMMARIZER_H
#define TARRY_SHELL_SUMMARIZER_H

#include "summary.h"

struct log;

struct summarizer {
    struct log *log;
    struct summary *summary; /* of the segment being absorbed; NULL: none is made of it */
};

void summarizer_init(struct summarizer *summarizer, struct log *log);
void summarizer_deinit(struct summarizer *summarizer);
/* The next frame that the index absorbed, and the base of the segment that it lies in. */
void summarizer_take(struct summarizer *summarizer, uint64_t base, const struct frame_header *header,
                     const Tarry__FrameBody *body);

#endif
