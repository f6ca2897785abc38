/* content.h: reads the content of a recorded task from the log or the archive. */
#ifndef TARRY_TOOL_CONTENT_H
#define TARRY_TOOL_CONTENT_H

#include "arena.h"
#include "store.h"
#include "tarry.h"
#include "tarry.pb-c.h"

struct content {
    struct arena arena;
    uint8_t *bytes; /* owned */
    size_t capacity;
    struct tarry_attribute *attributes; /* the task's attributes, in the arena */
    size_t attribute_count;
    const void *payload; /* the payload, in the arena; NULL: none */
    size_t payload_size;
    const void *properties; /* properties of another protocol's message, in the arena; NULL: none */
    size_t properties_size;
    struct archive_cursor *archived; /* open archived segment; NULL: none is open */
    uint64_t base;                   /* base of the open archived segment */
    struct log_view view;            /* last frame that was read from the open archived segment */
};

void content_init(struct content *content);
void content_deinit(struct content *content);
/* Reads the content of a task from the frame at `frame`, in log or archive; valid until the next read. Fast if frames
 * are read in order. Returns 0; 1: the content is lost (its segment was deleted, or it was erased), and `content` is
 * empty; negative: the log cannot be read. */
int content_read(struct content *content, struct store *store, uint64_t frame, const Tarry__Task *task);

#endif
