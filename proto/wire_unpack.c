/* wire_unpack.c: see wire.h. The numbers are those of tarry.proto; tests/fuzz/fuzz_wire.c holds what is made of
 * any bytes to what protobuf-c makes of them. A commit's operations: wire_unpack_ops.c; what the client gets:
 * wire_unpack_client.c. */
#include "wire.h"

#include "wire_copies.h"

/* ---- a frame's body */

static bool take_task(ProtobufCBinaryData bytes, Tarry__Task *task) {
    struct wire_reader reader = reader_of(bytes);
    take_number(&reader, 1, &task->id);
    take_number32(&reader, 2, &task->queue);
    task->key = take_bytes(&reader, 3);
    take_number(&reader, 4, &task->due_ms);
    task->time_base = (Tarry__Task__Base)take_enum(&reader, 5);
    take_number32(&reader, 6, &task->priority);
    task->state = (Tarry__Task__State)take_enum(&reader, 7);
    take_number32(&reader, 8, &task->attempt);
    take_number32(&reader, 9, &task->deliveries);
    take_number(&reader, 10, &task->expires_ms);
    take_number(&reader, 11, &task->scheduled_ms);
    take_number(&reader, 12, &task->blob_at);
    take_number32(&reader, 13, &task->blob_size);
    take_fixed64(&reader, 14, &task->blob_sum);
    take_number32(&reader, 15, &task->lease_epoch);
    take_number(&reader, 16, &task->lease_position);
    take_number(&reader, 17, &task->lease_deadline_ms);
    take_number(&reader, 18, &task->session);
    take_number(&reader, 19, &task->delivered_ms);
    take_number(&reader, 20, &task->dead_ms);
    task->reason = take_bytes(&reader, 21);
    return reader_done(&reader);
}

struct put_parts {
    Tarry__Record record;
    Tarry__TaskPut put;
    Tarry__Task task;
};

static bool take_put(ProtobufCBinaryData bytes, struct put_parts *parts) {
    Tarry__TaskPut *put = &parts->put;
    struct wire_reader reader = reader_of(bytes);
    put->cause = (Tarry__Cause)take_enum(&reader, 1);
    ProtobufCBinaryData task = take_bytes(&reader, 2);
    take_bool(&reader, 3, &put->fresh);
    take_fixed64(&reader, 4, &put->before_hash);
    put->before_state = (Tarry__Task__State)take_enum(&reader, 5);
    put->before_time_base = (Tarry__Task__Base)take_enum(&reader, 6);
    take_number(&reader, 7, &put->before_due_ms);
    put->content_hash = take_bytes(&reader, 8);
    put->reason = take_bytes(&reader, 9);
    take_number32(&reader, 10, &put->before_attempt);
    take_number(&reader, 11, &put->before_lease_deadline_ms);
    take_number(&reader, 12, &put->before_session);
    take_number(&reader, 13, &put->before_delivered_ms);
    take_number32(&reader, 14, &put->before_priority);
    return reader_done(&reader) && task.data != NULL && take_task(task, &parts->task);
}

static Tarry__Record *unpack_put(struct copies *copies, ProtobufCBinaryData bytes) {
    struct put_parts *parts = arena_alloc(copies->arena, sizeof(*parts));
    if (parts == NULL) return NULL;
    parts->record = (Tarry__Record)TARRY__RECORD__INIT;
    parts->put = (Tarry__TaskPut)TARRY__TASK_PUT__INIT;
    parts->task = (Tarry__Task)TARRY__TASK__INIT;
    if (!take_put(bytes, parts)) return NULL;
    parts->record.fact_case = TARRY__RECORD__FACT_PUT;
    parts->record.put = &parts->put;
    parts->put.task = &parts->task;
    keep_bytes(copies, &parts->put.content_hash);
    keep_bytes(copies, &parts->put.reason);
    keep_bytes(copies, &parts->task.key);
    keep_bytes(copies, &parts->task.reason);
    return &parts->record;
}

struct end_parts {
    Tarry__Record record;
    Tarry__TaskEnd end;
    Tarry__Task task;
};

static bool take_end(ProtobufCBinaryData bytes, struct end_parts *parts) {
    struct wire_reader reader = reader_of(bytes);
    parts->end.cause = (Tarry__Cause)take_enum(&reader, 1);
    ProtobufCBinaryData task = take_bytes(&reader, 2);
    return reader_done(&reader) && task.data != NULL && take_task(task, &parts->task);
}

static Tarry__Record *unpack_end(struct copies *copies, ProtobufCBinaryData bytes) {
    struct end_parts *parts = arena_alloc(copies->arena, sizeof(*parts));
    if (parts == NULL) return NULL;
    parts->record = (Tarry__Record)TARRY__RECORD__INIT;
    parts->end = (Tarry__TaskEnd)TARRY__TASK_END__INIT;
    parts->task = (Tarry__Task)TARRY__TASK__INIT;
    if (!take_end(bytes, parts)) return NULL;
    parts->record.fact_case = TARRY__RECORD__FACT_END;
    parts->record.end = &parts->end;
    parts->end.task = &parts->task;
    keep_bytes(copies, &parts->task.key);
    keep_bytes(copies, &parts->task.reason);
    return &parts->record;
}

/* NULL: it is odd, or the arena is full, which protobuf-c will find out. */
static Tarry__Record *unpack_record_plain(struct copies *copies, ProtobufCBinaryData bytes) {
    struct wire_reader reader = reader_of(bytes);
    ProtobufCBinaryData put = take_bytes(&reader, 1), end = take_bytes(&reader, 2);
    if (!reader_done(&reader) || (put.data == NULL) == (end.data == NULL)) return NULL;
    return put.data != NULL ? unpack_put(copies, put) : unpack_end(copies, end);
}

static Tarry__Record *unpack_record(struct copies *copies, ProtobufCBinaryData bytes) {
    struct arena_mark mark = arena_mark(copies->arena);
    Tarry__Record *record = unpack_record_plain(copies, bytes);
    if (record != NULL) return record;
    arena_rewind(copies->arena, mark);
    return tarry__record__unpack(&copies->arena->pb, bytes.len, bytes.data);
}

static Tarry__FrameBody *unpack_records(struct copies *copies, struct wire_reader *reader, Tarry__FrameBody *body) {
    if (body->n_records == 0) return body;
    body->records = arena_alloc(copies->arena, body->n_records * sizeof(*body->records));
    if (body->records == NULL) return NULL;
    for (size_t i = 0; i < body->n_records; i++) {
        body->records[i] = unpack_record(copies, take_bytes(reader, 1));
        if (body->records[i] == NULL || copies->lacks) return NULL;
    }
    return body;
}

Tarry__FrameBody *frame_body_unpack(struct arena *arena, size_t size, const uint8_t *data) {
    if (size == 0) return tarry__frame_body__unpack(&arena->pb, 0, NULL);
    struct wire_reader reader = {.at = data, .end = data + size};
    Tarry__FrameBody fields = TARRY__FRAME_BODY__INIT;
    while (take_bytes(&reader, 1).data != NULL) fields.n_records++;
    take_number(&reader, 2, &fields.producer);
    take_number(&reader, 3, &fields.sequence);
    take_number(&reader, 4, &fields.oldest_unanswered);
    fields.reply = take_bytes(&reader, 5);
    ProtobufCBinaryData client = take_bytes(&reader, 6), peer = take_bytes(&reader, 7), token = take_bytes(&reader, 8);
    take_bool(&reader, 9, &fields.atomic);
    if (!reader_done(&reader)) return tarry__frame_body__unpack(&arena->pb, size, data);
    Tarry__FrameBody *body = arena_alloc(arena, sizeof(*body));
    if (body == NULL) return NULL;
    *body = fields;
    struct copies copies = {.arena = arena};
    keep_bytes(&copies, &body->reply);
    keep_text(&copies, client, &body->client);
    keep_text(&copies, peer, &body->peer);
    keep_text(&copies, token, &body->token);
    reader = (struct wire_reader){.at = data, .end = data + size};
    return copies.lacks ? NULL : unpack_records(&copies, &reader, body);
}

/* ---- a commit */

/* `out` is set up; false: it is odd. */
static bool take_commit(ProtobufCBinaryData bytes, Tarry__Commit *out, struct wire_reader *out_ops) {
    struct wire_reader reader = reader_of(bytes);
    take_number(&reader, 1, &out->producer);
    take_number(&reader, 2, &out->sequence);
    take_number(&reader, 3, &out->oldest_unanswered);
    take_bool(&reader, 4, &out->atomic);
    *out_ops = reader;
    while (take_bytes(&reader, 5).data != NULL) out->n_ops++;
    take_bool(&reader, 6, &out->ask);
    return reader_done(&reader);
}

static bool unpack_ops(struct copies *copies, struct wire_reader *reader, Tarry__Commit *commit) {
    if (commit->n_ops == 0) return true;
    commit->ops = arena_alloc(copies->arena, commit->n_ops * sizeof(*commit->ops));
    if (commit->ops == NULL) return false;
    for (size_t i = 0; i < commit->n_ops; i++) {
        commit->ops[i] = op_unpack(copies, take_bytes(reader, 5));
        if (commit->ops[i] == NULL || copies->lacks) return false;
    }
    return true;
}

Tarry__Request *request_unpack(struct arena *arena, size_t size, const uint8_t *data) {
    if (size == 0) return tarry__request__unpack(&arena->pb, 0, NULL);
    struct {
        Tarry__Request request;
        Tarry__Commit commit;
    } fields = {TARRY__REQUEST__INIT, TARRY__COMMIT__INIT}, *parts;
    struct wire_reader reader = {.at = data, .end = data + size}, ops;
    take_number32(&reader, 1, &fields.request.version);
    ProtobufCBinaryData client = take_bytes(&reader, 2);
    fields.request.cluster = take_bytes(&reader, 3);
    ProtobufCBinaryData commit = take_bytes(&reader, 11);
    if (!reader_done(&reader) || commit.data == NULL || !take_commit(commit, &fields.commit, &ops))
        return tarry__request__unpack(&arena->pb, size, data);
    parts = arena_alloc(arena, sizeof(*parts));
    if (parts == NULL) return NULL;
    parts->request = fields.request;
    parts->commit = fields.commit;
    parts->request.body_case = TARRY__REQUEST__BODY_COMMIT;
    parts->request.commit = &parts->commit;
    struct copies copies = {.arena = arena};
    keep_text(&copies, client, &parts->request.client);
    keep_bytes(&copies, &parts->request.cluster);
    return !copies.lacks && unpack_ops(&copies, &ops, &parts->commit) ? &parts->request : NULL;
}
