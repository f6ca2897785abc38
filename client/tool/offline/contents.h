/* contents.h: the contents of tasks, as tarry verify checks them: each is what its record says, or was erased, rightly
 * (storage/files/erasures.h). */
#ifndef TARRY_TOOL_CONTENTS_H
#define TARRY_TOOL_CONTENTS_H

#include "erasures.h"
#include "store.h"

struct contents { /* zeroed memory to begin with */
    uint64_t checked;
    uint64_t erased;
    uint64_t under_way; /* redactions that the broker has still to carry out */
    struct erasures erasures;
    bool has_listed; /* the archive's files: */
    uint64_t *bases;
    size_t base_count;
    struct archive_cursor *cursor; /* in one of them */
    uint64_t cursor_base;
};

/* Each: 0, or EXIT_REFUSED after a sentence in store->message. */
/* A frame and its records, in the order of the log; the view has its blob area. */
int contents_frame(struct contents *contents, struct store *store, const struct log_view *view,
                   const Tarry__FrameBody *body);
/* Frames are missing here: what explains an earlier erasure may be among them. */
void contents_gap(struct contents *contents);
/* All frames have been seen. */
int contents_end(struct contents *contents, struct store *store);
void contents_deinit(struct contents *contents);

#endif
