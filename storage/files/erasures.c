/* erasures.c: see erasures.h. */
#include "erasures.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool lies_inside(const struct frame_header *header, const Tarry__Task *task) {
    uint64_t start = frame_blob_position(header->position);
    return task->blob_at >= start && task->blob_size <= header->blob_size &&
           task->blob_at - start <= header->blob_size - task->blob_size;
}

static bool is_right(const uint8_t *content, const Tarry__TaskPut *put) {
    uint8_t hash[CONTENT_HASH_SIZE];
    if (frame_sum(content, put->task->blob_size) != put->task->blob_sum) return false;
    content_hash(content, put->task->blob_size, hash);
    return put->content_hash.len == sizeof hash && memcmp(hash, put->content_hash.data, sizeof hash) == 0;
}

enum content_state content_state(const struct frame_header *header, const uint8_t *blob, const Tarry__TaskPut *put) {
    if (!put->fresh || put->task == NULL || put->task->blob_size == 0) return CONTENT_RIGHT;
    if (!lies_inside(header, put->task)) return CONTENT_DAMAGED;
    const uint8_t *content = blob + (put->task->blob_at - frame_blob_position(header->position));
    if (is_right(content, put)) return CONTENT_RIGHT;
    if ((header->flags & FRAME_FLAG_ERASED) == 0 || put->content_hash.len != CONTENT_HASH_SIZE) return CONTENT_DAMAGED;
    return content_is_erased(content, put->task->blob_size) ? CONTENT_ERASED : CONTENT_PARTLY;
}

void erasures_deinit(struct erasures *erasures) {
    free(erasures->noted);
    *erasures = (struct erasures){0};
}

/* Removes the contents that have a redaction. Called when more than half of the noted contents have one. */
static void compact(struct erasures *erasures) {
    size_t kept = 0;
    for (size_t i = 0; i < erasures->count; i++)
        if (erasures->noted[i].blob_size > 0) erasures->noted[kept++] = erasures->noted[i];
    erasures->count = kept;
    erasures->explained = 0;
}

int erasures_note(struct erasures *erasures, const Tarry__TaskPut *put, enum content_state state) {
    if (erasures->explained > erasures->count / 2) compact(erasures);
    if (erasures->count == erasures->room) {
        size_t room = erasures->room > 0 ? 2 * erasures->room : 64;
        struct erasure_noted *noted = realloc(erasures->noted, room * sizeof *noted);
        if (noted == NULL) return -ENOMEM;
        erasures->noted = noted;
        erasures->room = room;
    }
    struct erasure_noted *noted = &erasures->noted[erasures->count++];
    *noted = (struct erasure_noted){.blob_at = put->task->blob_at,
                                    .id = put->task->id,
                                    .blob_size = put->task->blob_size,
                                    .is_whole = state == CONTENT_ERASED};
    memcpy(noted->content_hash, put->content_hash.data, CONTENT_HASH_SIZE);
    return 0;
}

static struct erasure_noted *find(const struct erasures *erasures, uint64_t blob_at) {
    size_t low = 0, high = erasures->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (erasures->noted[middle].blob_at < blob_at)
            low = middle + 1;
        else
            high = middle;
    }
    return low < erasures->count && erasures->noted[low].blob_at == blob_at ? &erasures->noted[low] : NULL;
}

void erasures_explain(struct erasures *erasures, const Tarry__Redaction *redaction, bool is_under_way) {
    struct erasure_noted *noted = redaction->frame != 0 ? find(erasures, redaction->blob_at) : NULL;
    if (noted == NULL || noted->id != redaction->id || noted->blob_size != redaction->blob_size) return;
    if (redaction->content_hash.len != CONTENT_HASH_SIZE || (!noted->is_whole && !is_under_way)) return;
    if (memcmp(noted->content_hash, redaction->content_hash.data, CONTENT_HASH_SIZE) != 0) return;
    noted->blob_size = 0;
    erasures->explained++;
}

const struct erasure_noted *erasures_unexplained(const struct erasures *erasures) {
    for (size_t i = 0; i < erasures->count; i++)
        if (erasures->noted[i].blob_size > 0) return &erasures->noted[i];
    return NULL;
}
