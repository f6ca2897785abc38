/* past.c: see past.h. */
#include "past.h"

#include <string.h>

static bool is_meant(const Tarry__Redact *redact, uint32_t queue, const Tarry__Task *task) {
    const Tarry__Ref *ref = redact->task;
    if (ref->id != 0) return task->id == ref->id;
    if (task->queue != queue || task->id <= redact->after_id) return false;
    return ref->key.len == 0 ||
           (task->key.len == ref->key.len && memcmp(task->key.data, ref->key.data, ref->key.len) == 0);
}

void past_take(struct core_past *out, const Tarry__Redact *redact, uint32_t queue, const struct frame_header *header,
               const Tarry__FrameBody *body) {
    for (size_t i = 0; body != NULL && i < body->n_records; i++) {
        const Tarry__TaskPut *put = body->records[i]->put;
        if (body->records[i]->fact_case != TARRY__RECORD__FACT_PUT || !put->fresh) continue;
        const Tarry__Task *task = put->task;
        if (!is_meant(redact, queue, task)) continue;
        out->tasks[out->count++] =
            (struct core_past_task){.id = task->id,
                                    .queue = task->queue,
                                    .scheduled_ms = task->scheduled_ms,
                                    .frame = task->blob_size < BLOB_SALT_SIZE ? 0 : header->position,
                                    .blob_at = task->blob_at,
                                    .blob_size = task->blob_size,
                                    .key_size = (uint8_t)task->key.len,
                                    .key = (const char *)task->key.data};
    }
}

bool past_ends(const Tarry__FrameBody *body, uint64_t id) {
    for (size_t i = 0; body != NULL && i < body->n_records; i++) {
        const Tarry__Record *record = body->records[i];
        if (record->fact_case == TARRY__RECORD__FACT_END && record->end->task->id == id) return true;
    }
    return false;
}
