/* index_retire.c: copies the data that is still needed from a segment into the index, before the segment is deleted
 * (LOG-3).
 *
 * This data is contents of live and dead tasks, and replies that clients may still request. Retirement first stores the
 * copies, then raises log_start; only then may the caller delete the segment. The first transaction with copies also
 * stores `retired_to`: if the content of an ending task lies below this position, the index may have a copy to delete.
 */
#include "index_parts.h"

#include <assert.h>
#include <stdlib.h>

static int keep_copy(struct index *index, const struct retire_copy *about, const void *data, size_t size) {
    struct retire_batch *batch = &index->retire;
    struct retire_copy copy = *about;
    copy.offset = batch->bytes.count;
    copy.size = size;
    int error = VECTOR_RESERVE(&batch->bytes, size);
    if (error == 0) error = VECTOR_PUSH(&batch->copies, copy);
    if (error != 0) return error;
    if (size > 0) memcpy(batch->bytes.items + batch->bytes.count, data, size);
    batch->bytes.count += size;
    return 0;
}

/* Contents of one frame that are added to the cache together. */
#define PUT_AT_ONCE 64u
struct puts {
    struct content_put items[PUT_AT_ONCE];
    size_t count;
};

static void put_gathered(struct index *index, struct puts *puts) {
    if (puts->count > 0) content_cache_put(index->contents, puts->items, puts->count);
    puts->count = 0;
}

static void to_memory(struct index *index, struct puts *puts, const struct content_put *put) {
    if (index->contents == NULL) return;
    puts->items[puts->count++] = *put;
    if (puts->count == PUT_AT_ONCE) put_gathered(index, puts);
}

/* Copies the content of the record, if its task is still live or dead. */
static int keep_content(struct index *index, const struct frame_header *header, const Tarry__TaskPut *put,
                        const uint8_t *blob, struct puts *puts) {
    const Tarry__Task *task = put->task;
    if (task == NULL) return INDEX_DAMAGED;
    if (!put->fresh || task->blob_size == 0 || ranges_ended(&index->ranges, task->id)) return 0;
    uint64_t from = frame_blob_position(header->position);
    if (blob == NULL || task->blob_at < from || task->blob_at - from > header->blob_size ||
        task->blob_size > header->blob_size - (task->blob_at - from)) {
        return INDEX_DAMAGED;
    }
    struct retire_copy copy = {.id = task->id};
    const uint8_t *content = blob + (task->blob_at - from);
    to_memory(index, puts, &(struct content_put){task->id, content, task->blob_size});
    int error = keep_copy(index, &copy, content, task->blob_size);
    if (error != 0) return error;
    uint8_t *kept = index->retire.bytes.items + index->retire.bytes.count - task->blob_size;
    error = keyring_apply(index->keyring, task->id, kept, task->blob_size);
    /* 1: the content was redacted; that is damage, because the task is live. */
    return error == 1 ? INDEX_DAMAGED : error;
}

/* Appends contents in order of their tasks' ids, except when a retirement is repeated. */
struct blob_writer {
    MDB_cursor *cursor;
    uint64_t last; /* highest task id in the table */
};

static int blob_writer_open(struct index *index, MDB_txn *txn, struct blob_writer *out) {
    *out = (struct blob_writer){0};
    int error = db_cursor(&index->db, txn, DB_BLOBS, &out->cursor);
    if (error != 0) return error;
    MDB_val key, value;
    error = db_cursor_get(out->cursor, &key, &value, MDB_LAST);
    if (error == 0) memcpy(&out->last, key.mv_data, sizeof out->last);
    return error == MDB_NOTFOUND ? 0 : error;
}

static int write_content(struct index *index, struct blob_writer *writer, const struct retire_copy *copy) {
    bool is_last = copy->id > writer->last;
    if (is_last) writer->last = copy->id;
    return db_put_at(writer->cursor, &copy->id, sizeof copy->id, index->retire.bytes.items + copy->offset, copy->size,
                     is_last ? MDB_APPEND : 0);
}

static int write_answer(struct index *index, MDB_txn *txn, const struct retire_copy *copy) {
    const uint8_t *data = index->retire.bytes.items + copy->offset;
    uint8_t key[16];
    MDB_val position;
    put_be64(key, copy->producer);
    put_be64(key + 8, copy->sequence);
    int error = db_get(&index->db, txn, DB_RESULTS, key, sizeof key, &position);
    if (error != 0) return error == 1 ? 0 : error;
    return db_put(&index->db, txn, DB_REPLIES, key, sizeof key, data, copy->size, 0);
}

/* Writes the copies, except those whose task ended or whose reply was forgotten meanwhile. */
static int write_copies(struct index *index, MDB_txn *txn) {
    const struct retire_batch *batch = &index->retire;
    struct blob_writer writer;
    int error = blob_writer_open(index, txn, &writer);
    for (size_t i = 0; i < batch->copies.count && error == 0; i++) {
        const struct retire_copy *copy = &batch->copies.items[i];
        if (copy->id == 0)
            error = write_answer(index, txn, copy);
        else if (!ranges_ended(&index->ranges, copy->id))
            error = write_content(index, &writer, copy);
    }
    if (writer.cursor != NULL) mdb_cursor_close(writer.cursor);
    return error;
}

struct retire {
    struct index *index;
    struct meta_record meta;
};

static int retire_body(void *argument, MDB_txn *txn) {
    struct retire *retire = argument;
    int error = write_copies(retire->index, txn);
    return error != 0 ? error : meta_put(retire->index, txn, &retire->meta);
}

/* Writes the waiting copies and `log_start`. */
static int retire_flush(struct index *index, uint64_t log_start) {
    struct retire retire = {.index = index, .meta = index->meta};
    retire.meta.log_start = log_start;
    if (retire.meta.retired_to < index->retire.end) retire.meta.retired_to = index->retire.end;
    if (retire.meta.retired_to < log_start) retire.meta.retired_to = log_start;
    int error = index_write(index, retire_body, &retire);
    if (error != 0) return error;
    index->meta = retire.meta;
    index->retire.copies.count = 0;
    index->retire.bytes.count = 0;
    return 0;
}

int index_retire_frame(struct index *index, const struct frame_header *header, const Tarry__FrameBody *body,
                       const uint8_t *blob) {
    if (index->failed != 0) return index->failed;
    /* A prepared batch is not on the disk yet: commit it first (index_commit). */
    if (index->batch.is_prepared) return -ENOSPC;
    assert(header->position < index->meta.position); /* LOG-3: the index has absorbed the frame */
    struct retire_batch *batch = &index->retire;
    int error = 0;
    /* False if this call repeats one that has already read the frame. The caller repeats calls after the disk was full
     * (CALM-1). */
    bool is_new = header->position >= batch->end;
    struct puts puts;
    puts.count = 0;
    for (size_t i = 0; is_new && body != NULL && i < body->n_records && error == 0; i++) {
        const Tarry__Record *record = body->records[i];
        if (record->fact_case == TARRY__RECORD__FACT_PUT) error = keep_content(index, header, record->put, blob, &puts);
    }
    put_gathered(index, &puts);
    if (is_new && error == 0 && body != NULL && body->producer != 0) {
        struct retire_copy copy = {.producer = body->producer, .sequence = body->sequence};
        error = keep_copy(index, &copy, body->reply.data, body->reply.len);
    }
    if (error != 0) return error;
    if (is_new) batch->end = header->position + frame_size(header->body_size, header->blob_size);
    const size_t scale = step_scale(index);
    if (batch->bytes.count < RETIRE_BYTES_MAX * scale && batch->copies.count < RETIRE_COPIES_MAX * scale) return 0;
    return retire_flush(index, index->meta.log_start);
}

int index_retire_commit(struct index *index, uint64_t log_start) {
    assert(log_start >= index->meta.log_start && log_start <= index->meta.position);
    if (index->batch.is_prepared) return -ENOSPC;
    return retire_flush(index, log_start);
}
