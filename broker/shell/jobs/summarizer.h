/* summarizer.h: makes the summary of each segment while the index absorbs it (summary.h). If the broker was started in
 * the middle of a segment, that segment gets no summary here. Index thread only. */
#ifndef TARRY_SHELL_SUMMARIZER_H
#define TARRY_SHELL_SUMMARIZER_H

#include "summary.h"

struct log;

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
