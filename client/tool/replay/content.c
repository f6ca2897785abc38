/* content.c: see content.h. A content is checked against the hash in its record. A content with another hash was
 * erased: it cannot be damaged, because each read verifies the frame's own checksums. */
#include "content.h"

#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "frame.h"

#define CONTENT_ARENA_MAX (64u << 20)

void content_init(struct content *content) {
    *content = (struct content){0};
    arena_init(&content->arena, CONTENT_ARENA_MAX);
    content->arena.keep_max = 1u << 20;
}

void content_deinit(struct content *content) {
    archive_cursor_close(content->archived);
    arena_deinit(&content->arena);
    free(content->bytes);
}

static void forget(struct content *content) {
    arena_reset(&content->arena);
    content->attributes = NULL;
    content->payload = content->properties = NULL;
    content->attribute_count = content->payload_size = content->properties_size = 0;
}

static int unpack(struct content *content, size_t size) {
    const Tarry__Content *wire =
        tarry__content__unpack(&content->arena.pb, size - BLOB_SALT_SIZE, content->bytes + BLOB_SALT_SIZE);
    if (wire == NULL) return LOG_DAMAGED;
    size_t room = (wire->n_attributes + 1) * sizeof *content->attributes;
    content->attributes = arena_alloc(&content->arena, room);
    if (content->attributes == NULL) return LOG_DAMAGED;
    content->attribute_count = wire->n_attributes;
    for (size_t i = 0; i < wire->n_attributes; i++)
        content->attributes[i] = (struct tarry_attribute){wire->attributes[i]->name, wire->attributes[i]->value};
    content->payload = wire->payload.data;
    content->payload_size = wire->payload.len;
    content->properties = wire->properties.data;
    content->properties_size = wire->properties.len;
    return 0;
}

/* ---- from the archive */

/* Returns the base of the archived segment with this position; 0: none. */
static uint64_t base_of(const struct store *store, uint64_t position) {
    uint64_t *bases = NULL, found = 0;
    size_t count = 0;
    if (archive_list(&store->archive, &bases, &count) != 0) return 0;
    for (size_t i = 0; i < count && bases[i] <= position; i++) found = bases[i];
    free(bases);
    return found;
}

static void close_archived(struct content *content) {
    archive_cursor_close(content->archived);
    content->archived = NULL;
    content->view = (struct log_view){0};
}

/* Reads the archived frame at that position into content->view. */
static int find_archived(struct content *content, struct store *store, uint64_t frame) {
    const char *problem;
    bool is_there = content->archived != NULL && content->view.body != NULL && content->view.header.position == frame;
    if (is_there) return 0;
    bool goes_on = content->archived != NULL && archive_cursor_position(content->archived) == frame;
    if (!goes_on) {
        close_archived(content);
        content->base = base_of(store, frame);
        if (content->base == 0) return LOG_RETIRED;
        int error = archive_cursor_open(&content->archived, &store->archive, content->base, frame, true, &problem);
        if (error != 0) return error;
    }
    int error = archive_cursor_next(content->archived, UINT64_MAX, &content->view);
    if (error == 0 && content->view.header.position == frame) return 0;
    close_archived(content);
    return LOG_RETIRED;
}

static int read_archived(struct content *content, struct store *store, uint64_t frame, const Tarry__Task *task) {
    int error = find_archived(content, store, frame);
    if (error != 0) return LOG_RETIRED; /* a damaged archive file was already reported when its records were read */
    uint64_t offset = task->blob_at - frame_blob_position(frame);
    uint32_t size = content->view.header.blob_size;
    if (offset > size || task->blob_size > size - offset) return LOG_DAMAGED;
    memcpy(content->bytes, content->view.blob + offset, task->blob_size);
    return 0;
}

int content_read(struct content *content, struct store *store, uint64_t frame, const Tarry__Task *task) {
    size_t size = task->blob_size;
    forget(content);
    if (size == 0) return 0;
    if (size > FRAME_BLOB_SIZE_MAX) return LOG_DAMAGED;
    if (content->capacity < size) {
        free(content->bytes);
        content->bytes = tool_alloc(size);
        content->capacity = size;
    }
    int error = log_read(store->log, task->blob_at, content->bytes, size);
    if (error == LOG_RETIRED) error = read_archived(content, store, frame, task);
    if (error == LOG_RETIRED) return 1;
    if (error != 0) return error;
    if (size < BLOB_SALT_SIZE || frame_sum(content->bytes, size) != task->blob_sum) return 1;
    return unpack(content, size);
}
