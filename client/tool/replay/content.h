/* content.h: the contents that a record names, read from the log that it stands in. */
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
    struct tarry_attribute *attributes; /* in the arena */
    size_t attribute_count;
    const void *payload; /* in the arena, or NULL */
    size_t payload_size;
    struct archive_cursor *archived; /* NULL: none is open */
    uint64_t base;                   /* of its segment */
    struct log_view view;            /* its last frame */
};

void content_init(struct content *content);
void content_deinit(struct content *content);
/* Reads the content of a task as its record names it, in the frame at `frame`, from log or archive; valid until the
 * next one is read. Fast if frames come in order. 0; 1: it is no longer there (its segment is gone, or it was erased),
 * and `content` is empty; negative: the log cannot be read. */
int content_read(struct content *content, struct store *store, uint64_t frame, const Tarry__Task *task);

#endif
