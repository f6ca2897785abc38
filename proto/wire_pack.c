/* wire_pack.c: see wire.h. The numbers are those of tarry.proto; tests/fuzz/fuzz_wire.c holds each message to what
 * protobuf-c makes of it. What is rare (other facts than a task's, fields that are not known) protobuf-c packs. */
#include "wire.h"

#include "wire_field.h"

static uint8_t *any_before(uint8_t *at, const ProtobufCMessage *message) {
    at -= protobuf_c_message_get_packed_size(message);
    protobuf_c_message_pack(message, at);
    return at;
}

static uint8_t *token_before(uint8_t *at, unsigned number, const Tarry__Token *token) {
    if (token == NULL) return at;
    uint8_t *end = at;
    at = number_before(at, 2, token->position);
    at = number_before(at, 1, token->epoch);
    return message_before(at, number, end);
}
#define TOKEN_ROOM (BYTES_ROOM + NUMBER_ROOM + NUMBER32_ROOM)

/* ---- a frame's body */

static uint8_t *task_before(uint8_t *at, unsigned number, const Tarry__Task *task) {
    uint8_t *end = at;
    at = bytes_before(at, 21, task->reason);
    at = number_before(at, 20, task->dead_ms);
    at = number_before(at, 19, task->delivered_ms);
    at = number_before(at, 18, task->session);
    at = number_before(at, 17, task->lease_deadline_ms);
    at = number_before(at, 16, task->lease_position);
    at = number_before(at, 15, task->lease_epoch);
    at = fixed64_before(at, 14, task->blob_sum);
    at = number_before(at, 13, task->blob_size);
    at = number_before(at, 12, task->blob_at);
    at = number_before(at, 11, task->scheduled_ms);
    at = number_before(at, 10, task->expires_ms);
    at = number_before(at, 9, task->deliveries);
    at = number_before(at, 8, task->attempt);
    at = enum_before(at, 7, (int)task->state);
    at = number_before(at, 6, task->priority);
    at = enum_before(at, 5, (int)task->time_base);
    at = number_before(at, 4, task->due_ms);
    at = bytes_before(at, 3, task->key);
    at = number_before(at, 2, task->queue);
    at = number_before(at, 1, task->id);
    return message_before(at, number, end);
}

static size_t task_room(const Tarry__Task *task) {
    return BYTES_ROOM + 10 * NUMBER_ROOM + 6 * NUMBER32_ROOM + 2 * NUMBER_ROOM + FIXED64_ROOM + 2 * BYTES_ROOM +
           task->key.len + task->reason.len;
}

static uint8_t *put_before(uint8_t *at, const Tarry__TaskPut *put) {
    uint8_t *end = at;
    at = number_before(at, 14, put->before_priority);
    at = number_before(at, 13, put->before_delivered_ms);
    at = number_before(at, 12, put->before_session);
    at = number_before(at, 11, put->before_lease_deadline_ms);
    at = number_before(at, 10, put->before_attempt);
    at = bytes_before(at, 9, put->reason);
    at = bytes_before(at, 8, put->content_hash);
    at = number_before(at, 7, put->before_due_ms);
    at = enum_before(at, 6, (int)put->before_time_base);
    at = enum_before(at, 5, (int)put->before_state);
    at = fixed64_before(at, 4, put->before_hash);
    at = bool_before(at, 3, put->fresh);
    at = task_before(at, 2, put->task);
    at = enum_before(at, 1, (int)put->cause);
    return message_before(at, 1, end); /* Record.put */
}

static size_t put_room(const Tarry__TaskPut *put) {
    return BYTES_ROOM + 4 * NUMBER_ROOM + 2 * NUMBER32_ROOM + 3 * NUMBER_ROOM + FIXED64_ROOM + BOOL_ROOM +
           2 * BYTES_ROOM + put->content_hash.len + put->reason.len + task_room(put->task);
}

static uint8_t *end_before(uint8_t *at, const Tarry__TaskEnd *task_end) {
    uint8_t *end = at;
    at = task_before(at, 2, task_end->task);
    at = enum_before(at, 1, (int)task_end->cause);
    return message_before(at, 2, end); /* Record.end */
}

/* A message is there (each begins with its base), and all its fields are known. */
static bool is_plain(const void *message) {
    const ProtobufCMessage *base = message;
    return base != NULL && base->n_unknown_fields == 0;
}

static bool is_plain_put(const Tarry__Record *record) {
    return record->fact_case == TARRY__RECORD__FACT_PUT && is_plain(record) && is_plain(record->put) &&
           is_plain(record->put->task);
}

static bool is_plain_end(const Tarry__Record *record) {
    return record->fact_case == TARRY__RECORD__FACT_END && is_plain(record) && is_plain(record->end) &&
           is_plain(record->end->task);
}

static size_t record_room(const Tarry__Record *record) {
    if (is_plain_put(record)) return BYTES_ROOM + put_room(record->put);
    if (is_plain_end(record)) return 2 * BYTES_ROOM + NUMBER_ROOM + task_room(record->end->task);
    return BYTES_ROOM + tarry__record__get_packed_size(record);
}

static uint8_t *record_before(uint8_t *at, const Tarry__Record *record) {
    if (is_plain_put(record)) return put_before(at, record->put);
    if (is_plain_end(record)) return end_before(at, record->end);
    return any_before(at, &record->base);
}

size_t frame_body_room(const Tarry__FrameBody *body) {
    if (!is_plain(body)) return tarry__frame_body__get_packed_size(body);
    size_t room = 3 * NUMBER_ROOM + 4 * BYTES_ROOM + BOOL_ROOM + body->reply.len;
    room += text_size(body->client) + text_size(body->peer) + text_size(body->token);
    for (size_t i = 0; i < body->n_records; i++) room += record_room(body->records[i]);
    return room;
}

uint8_t *frame_body_pack(const Tarry__FrameBody *body, uint8_t *end) {
    if (!is_plain(body)) return any_before(end, &body->base);
    uint8_t *at = bool_before(end, 9, body->atomic);
    at = text_before(at, 8, body->token);
    at = text_before(at, 7, body->peer);
    at = text_before(at, 6, body->client);
    at = bytes_before(at, 5, body->reply);
    at = number_before(at, 4, body->oldest_unanswered);
    at = number_before(at, 3, body->sequence);
    at = number_before(at, 2, body->producer);
    for (size_t i = body->n_records; i-- > 0;) {
        const uint8_t *record_end = at;
        at = message_before(record_before(at, body->records[i]), 1, record_end);
    }
    return at;
}

static bool is_plain_with(const void *message, const Tarry__Token *token) {
    return is_plain(message) && (token == NULL || is_plain(token));
}

/* ---- the answer to a commit */

static uint8_t *result_before(uint8_t *at, const Tarry__OpResult *result) {
    at = number_before(at, 16, result->left);
    at = number_before(at, 15, result->job);
    at = number_before(at, 14, result->count);
    at = number_before(at, 13, result->attempt);
    at = text_before(at, 12, result->message);
    at = number_before(at, 11, result->lease_deadline_ms);
    at = number_before(at, 10, result->known_since_ms);
    at = token_before(at, 9, result->token);
    at = number_before(at, 8, result->delivered_ms);
    at = number_before(at, 7, result->session);
    at = number_before(at, 6, result->at_ms);
    at = number_before(at, 5, result->deliveries);
    at = number_before(at, 4, result->due_ms);
    at = number_before(at, 3, result->id);
    at = enum_before(at, 2, (int)result->outcome);
    return enum_before(at, 1, (int)result->code);
}

static size_t result_room(const Tarry__OpResult *result) {
    if (!is_plain_with(result, result->token)) return BYTES_ROOM + tarry__op_result__get_packed_size(result);
    return 2 * BYTES_ROOM + 10 * NUMBER_ROOM + 2 * NUMBER32_ROOM + 2 * NUMBER_ROOM + TOKEN_ROOM +
           text_size(result->message);
}

size_t commit_reply_room(const Tarry__CommitReply *reply) {
    if (!is_plain(reply)) return tarry__commit_reply__get_packed_size(reply);
    size_t room = 2 * BOOL_ROOM;
    for (size_t i = 0; i < reply->n_results; i++) room += result_room(reply->results[i]);
    return room;
}

uint8_t *commit_reply_pack(const Tarry__CommitReply *reply, uint8_t *end) {
    if (!is_plain(reply)) return any_before(end, &reply->base);
    uint8_t *at = bool_before(end, 3, reply->abandoned);
    at = bool_before(at, 2, reply->aborted);
    for (size_t i = reply->n_results; i-- > 0;) {
        const Tarry__OpResult *result = reply->results[i];
        const uint8_t *result_end = at;
        at = is_plain_with(result, result->token) ? result_before(at, result) : any_before(at, &result->base);
        at = message_before(at, 1, result_end);
    }
    return at;
}

/* ---- a delivery */

static uint8_t *delivered_before(uint8_t *at, const Tarry__DeliveredTask *task) {
    at = bytes_before(at, 10, task->content);
    at = number_before(at, 9, task->lease_deadline_ms);
    at = number_before(at, 8, task->priority);
    at = token_before(at, 7, task->token);
    at = number_before(at, 6, task->deliveries);
    at = number_before(at, 5, task->attempt);
    at = number_before(at, 4, task->due_ms);
    at = bytes_before(at, 3, task->key);
    at = text_before(at, 2, task->queue);
    return number_before(at, 1, task->id);
}

static size_t delivered_room(const Tarry__DeliveredTask *task) {
    if (!is_plain_with(task, task->token)) return BYTES_ROOM + tarry__delivered_task__get_packed_size(task);
    return 4 * BYTES_ROOM + 3 * NUMBER_ROOM + 3 * NUMBER32_ROOM + TOKEN_ROOM + text_size(task->queue) + task->key.len +
           task->content.len;
}

size_t delivery_room(const Tarry__Delivery *delivery) {
    if (!is_plain(delivery)) return tarry__delivery__get_packed_size(delivery);
    size_t room = 2 * NUMBER_ROOM;
    for (size_t i = 0; i < delivery->n_tasks; i++) room += delivered_room(delivery->tasks[i]);
    return room;
}

uint8_t *delivery_pack(const Tarry__Delivery *delivery, uint8_t *end) {
    if (!is_plain(delivery)) return any_before(end, &delivery->base);
    uint8_t *at = end;
    for (size_t i = delivery->n_tasks; i-- > 0;) {
        const Tarry__DeliveredTask *task = delivery->tasks[i];
        const uint8_t *task_end = at;
        at = is_plain_with(task, task->token) ? delivered_before(at, task) : any_before(at, &task->base);
        at = message_before(at, 3, task_end);
    }
    at = number_before(at, 2, delivery->delivered_ms);
    return number_before(at, 1, delivery->session);
}
