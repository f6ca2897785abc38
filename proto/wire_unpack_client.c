/* wire_unpack_client.c: what comes to a client with every task: the answer to a commit, a delivery, a content. See
 * wire.h. */
#include "wire.h"
#include "wire_copies.h"

/* ---- the answer to a commit */

struct result_parts {
    Tarry__OpResult result;
    Tarry__Token token;
};

/* NULL: it is odd, or the arena is full, which protobuf-c will find out. */
static Tarry__OpResult *unpack_result_plain(struct copies *copies, ProtobufCBinaryData bytes) {
    struct result_parts *parts = arena_alloc(copies->arena, sizeof(*parts));
    if (parts == NULL) return NULL;
    Tarry__OpResult *result = &parts->result;
    parts->result = (Tarry__OpResult)TARRY__OP_RESULT__INIT;
    struct wire_reader reader = reader_of(bytes);
    result->code = (Tarry__Code)take_enum(&reader, 1);
    result->outcome = (Tarry__Outcome)take_enum(&reader, 2);
    take_number(&reader, 3, &result->id);
    take_number(&reader, 4, &result->due_ms);
    take_number32(&reader, 5, &result->deliveries);
    take_number(&reader, 6, &result->at_ms);
    take_number(&reader, 7, &result->session);
    take_number(&reader, 8, &result->delivered_ms);
    ProtobufCBinaryData token = take_bytes(&reader, 9);
    take_number(&reader, 10, &result->known_since_ms);
    take_number(&reader, 11, &result->lease_deadline_ms);
    ProtobufCBinaryData message = take_bytes(&reader, 12);
    take_number32(&reader, 13, &result->attempt);
    take_number(&reader, 14, &result->count);
    take_number(&reader, 15, &result->job);
    take_number(&reader, 16, &result->left);
    if (!reader_done(&reader) || !take_token(token, &parts->token, &result->token)) return NULL;
    keep_text(copies, message, &result->message);
    return result;
}

static Tarry__OpResult *unpack_result(struct copies *copies, ProtobufCBinaryData bytes) {
    struct arena_mark mark = arena_mark(copies->arena);
    Tarry__OpResult *result = unpack_result_plain(copies, bytes);
    if (result != NULL) return result;
    arena_rewind(copies->arena, mark);
    return tarry__op_result__unpack(&copies->arena->pb, bytes.len, bytes.data);
}

static bool unpack_results(struct copies *copies, struct wire_reader *reader, Tarry__CommitReply *reply) {
    if (reply->n_results == 0) return true;
    reply->results = arena_alloc(copies->arena, reply->n_results * sizeof(*reply->results));
    if (reply->results == NULL) return false;
    for (size_t i = 0; i < reply->n_results; i++) {
        reply->results[i] = unpack_result(copies, take_bytes(reader, 1));
        if (reply->results[i] == NULL || copies->lacks) return false;
    }
    return true;
}

/* Of an answer that says that all is well, by whom it may be. */
Tarry__Reply *reply_unpack(struct arena *arena, size_t size, const uint8_t *data) {
    struct {
        Tarry__Reply reply;
        Tarry__CommitReply commit;
    } fields = {TARRY__REPLY__INIT, TARRY__COMMIT_REPLY__INIT}, *parts;
    if (size == 0) return tarry__reply__unpack(&arena->pb, 0, NULL);
    struct wire_reader reader = {.at = data, .end = data + size};
    take_number(&reader, 4, &fields.reply.position);
    ProtobufCBinaryData commit = take_bytes(&reader, 11);
    if (!reader_done(&reader) || commit.data == NULL) return tarry__reply__unpack(&arena->pb, size, data);
    struct wire_reader inner = reader_of(commit), results = inner;
    while (take_bytes(&inner, 1).data != NULL) fields.commit.n_results++;
    take_bool(&inner, 2, &fields.commit.aborted);
    take_bool(&inner, 3, &fields.commit.abandoned);
    if (!reader_done(&inner)) return tarry__reply__unpack(&arena->pb, size, data);
    parts = arena_alloc(arena, sizeof(*parts));
    if (parts == NULL) return NULL;
    parts->reply = fields.reply;
    parts->commit = fields.commit;
    parts->reply.body_case = TARRY__REPLY__BODY_COMMIT;
    parts->reply.commit = &parts->commit;
    struct copies copies = {.arena = arena};
    return unpack_results(&copies, &results, &parts->commit) ? &parts->reply : NULL;
}

/* ---- a delivery */

struct delivered_parts {
    Tarry__DeliveredTask task;
    Tarry__Token token;
};

static Tarry__DeliveredTask *unpack_delivered_plain(struct copies *copies, ProtobufCBinaryData bytes) {
    struct delivered_parts *parts = arena_alloc(copies->arena, sizeof(*parts));
    if (parts == NULL) return NULL;
    Tarry__DeliveredTask *task = &parts->task;
    parts->task = (Tarry__DeliveredTask)TARRY__DELIVERED_TASK__INIT;
    struct wire_reader reader = reader_of(bytes);
    take_number(&reader, 1, &task->id);
    ProtobufCBinaryData queue = take_bytes(&reader, 2);
    task->key = take_bytes(&reader, 3);
    take_number(&reader, 4, &task->due_ms);
    take_number32(&reader, 5, &task->attempt);
    take_number32(&reader, 6, &task->deliveries);
    ProtobufCBinaryData token = take_bytes(&reader, 7);
    take_number32(&reader, 8, &task->priority);
    take_number(&reader, 9, &task->lease_deadline_ms);
    task->content = take_bytes(&reader, 10);
    if (!reader_done(&reader) || !take_token(token, &parts->token, &task->token)) return NULL;
    keep_text(copies, queue, &task->queue);
    keep_bytes(copies, &task->key);
    keep_bytes(copies, &task->content);
    return task;
}

static Tarry__DeliveredTask *unpack_delivered(struct copies *copies, ProtobufCBinaryData bytes) {
    struct arena_mark mark = arena_mark(copies->arena);
    Tarry__DeliveredTask *task = unpack_delivered_plain(copies, bytes);
    if (task != NULL) return task;
    arena_rewind(copies->arena, mark);
    return tarry__delivered_task__unpack(&copies->arena->pb, bytes.len, bytes.data);
}

Tarry__Delivery *delivery_unpack(struct arena *arena, size_t size, const uint8_t *data) {
    Tarry__Delivery fields = TARRY__DELIVERY__INIT;
    if (size == 0) return tarry__delivery__unpack(&arena->pb, 0, NULL);
    struct wire_reader reader = {.at = data, .end = data + size};
    take_number(&reader, 1, &fields.session);
    take_number(&reader, 2, &fields.delivered_ms);
    struct wire_reader tasks = reader;
    while (take_bytes(&reader, 3).data != NULL) fields.n_tasks++;
    if (!reader_done(&reader)) return tarry__delivery__unpack(&arena->pb, size, data);
    Tarry__Delivery *delivery = arena_alloc(arena, sizeof(*delivery));
    if (delivery == NULL) return NULL;
    *delivery = fields;
    if (delivery->n_tasks == 0) return delivery;
    delivery->tasks = arena_alloc(arena, delivery->n_tasks * sizeof(*delivery->tasks));
    if (delivery->tasks == NULL) return NULL;
    struct copies copies = {.arena = arena};
    for (size_t i = 0; i < delivery->n_tasks; i++) {
        delivery->tasks[i] = unpack_delivered(&copies, take_bytes(&tasks, 3));
        if (delivery->tasks[i] == NULL || copies.lacks) return NULL;
    }
    return delivery;
}

/* ---- a content */

static bool unpack_attribute(struct copies *copies, ProtobufCBinaryData bytes, Tarry__Attribute *attribute) {
    *attribute = (Tarry__Attribute)TARRY__ATTRIBUTE__INIT;
    struct wire_reader reader = reader_of(bytes);
    ProtobufCBinaryData name = take_bytes(&reader, 1), value = take_bytes(&reader, 2);
    if (!reader_done(&reader)) return false;
    keep_text(copies, name, &attribute->name);
    keep_text(copies, value, &attribute->value);
    return true;
}

/* False: it is odd, or the arena is full. */
static bool unpack_content_plain(struct copies *copies, struct wire_reader reader, Tarry__Content *content) {
    struct wire_reader attributes = reader;
    while (take_bytes(&reader, 1).data != NULL) content->n_attributes++;
    content->payload = take_bytes(&reader, 2);
    if (!reader_done(&reader)) return false;
    keep_bytes(copies, &content->payload);
    if (content->n_attributes == 0) return true;
    content->attributes = arena_alloc(copies->arena, content->n_attributes * sizeof(*content->attributes));
    Tarry__Attribute *all = arena_alloc(copies->arena, content->n_attributes * sizeof(*all));
    if (content->attributes == NULL || all == NULL) return false;
    for (size_t i = 0; i < content->n_attributes; i++) {
        if (!unpack_attribute(copies, take_bytes(&attributes, 1), &all[i])) return false;
        content->attributes[i] = &all[i];
    }
    return true;
}

Tarry__Content *content_unpack(struct arena *arena, size_t size, const uint8_t *data) {
    if (size == 0) return tarry__content__unpack(&arena->pb, 0, NULL);
    struct arena_mark mark = arena_mark(arena);
    struct copies copies = {.arena = arena};
    struct wire_reader reader = {.at = data, .end = data + size};
    Tarry__Content *content = arena_alloc(arena, sizeof(*content));
    if (content == NULL) return NULL;
    *content = (Tarry__Content)TARRY__CONTENT__INIT;
    if (unpack_content_plain(&copies, reader, content)) return copies.lacks ? NULL : content;
    arena_rewind(arena, mark);
    return tarry__content__unpack(&arena->pb, size, data);
}
