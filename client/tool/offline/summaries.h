/* summaries.h: do the summaries beside the segments tell the truth? They are derived, and whoever asks for a history
 * passes over what they say need not be read: one that lies would hide records. Each is made anew of the frames that
 * verify reads anyway, and compared. What is missing or damaged is used by nobody, and only counted. */
#ifndef TARRY_TOOL_SUMMARIES_H
#define TARRY_TOOL_SUMMARIES_H

#include "frames.h"
#include "summary.h"

struct summaries {
    struct summary *made; /* of the segment that is being read; NULL: it has none that is used */
    uint64_t segment;     /* its base; 0: no segment yet */
    char directory[STORE_PATH_SIZE];
    uint64_t checked;
    uint64_t unused; /* missing, damaged, or of another end */
};

/* The next frame, in the order of the log, right after frames_next; `body` NULL: a seal. 0, or EXIT_REFUSED after a
 * sentence in the store's message. */
int summaries_frame(struct summaries *summaries, const struct frames *frames, const struct frame_header *header,
                    const Tarry__FrameBody *body);
/* After the last. Likewise. */
int summaries_end(struct summaries *summaries, struct store *store);
void summaries_deinit(struct summaries *summaries);

#endif
