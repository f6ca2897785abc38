/* outgoing.c: see outgoing.h. */
#include "outgoing.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "logfmt.h"
#include "shell.h"

static struct logfmt_limit overdue_limit;

static int read_log(const struct outgoing *outgoing, uint64_t position, void *out, size_t size) {
    struct log *log = outgoing->shell->log;
    return outgoing->may_wait ? log_read(log, position, out, size) : log_read_now(log, position, out, size);
}

/* Packed reply of a commit that was logged before, into `out`. 0, 1: forgotten, or negative. */
static int repeat_read(struct outgoing *outgoing, const struct core_reply *reply, const uint8_t **out,
                       size_t *out_size) {
    struct shell *shell = outgoing->shell;
    uint8_t head[FRAME_HEADER_SIZE];
    struct frame_header header;
    int error = read_log(outgoing, reply->repeat_position, head, sizeof(head));
    if (error == LOG_RETIRED) {
        if (!outgoing->may_wait) return -EAGAIN; /* what LMDB has mapped may be on the disk */
        void *result;
        error = index_result(shell->index, reply->repeat_producer, reply->repeat_sequence, &outgoing->arena, &result,
                             out_size);
        *out = result;
        return error;
    }
    if (error != 0) return error;
    if (!frame_header_decode(head, &header)) return LOG_DAMAGED;
    uint8_t *body = arena_alloc(&outgoing->arena, header.body_size);
    if (body == NULL) return -ENOMEM;
    error = read_log(outgoing, frame_body_position(reply->repeat_position, header.blob_size), body, header.body_size);
    if (error == LOG_RETIRED) return repeat_read(outgoing, reply, out, out_size); /* it moves to the index first */
    if (error != 0) return error;
    if (frame_sum(body, header.body_size) != header.body_sum) return LOG_DAMAGED;
    Tarry__FrameBody *unpacked = tarry__frame_body__unpack(&outgoing->arena.pb, header.body_size, body);
    if (unpacked == NULL) return LOG_DAMAGED;
    assert(unpacked->producer == reply->repeat_producer && unpacked->sequence == reply->repeat_sequence);
    *out = unpacked->reply.data;
    *out_size = unpacked->reply.len;
    return 0;
}

/* The packed Content of a task: without its salt, its checksum compared. 0, 1: there is none, or negative. */
static int content_read(struct outgoing *outgoing, const struct row *row, ProtobufCBinaryData *out) {
    struct shell *shell = outgoing->shell;
    /* An empty content is read only to learn whether it was erased. */
    if (row->blob_size < BLOB_SALT_SIZE || (row->blob_size == BLOB_SALT_SIZE && !outgoing->is_again)) {
        *out = (ProtobufCBinaryData){0};
        return 0;
    }
    void *blob = arena_alloc(&outgoing->arena, row->blob_size);
    if (blob == NULL) return -ENOMEM;
    size_t size = row->blob_size;
    int error = read_log(outgoing, row->blob_at, blob, row->blob_size);
    /* Retired: the index got it in the transaction before. What LMDB has mapped may be on the disk. */
    if (error == LOG_RETIRED)
        error = outgoing->may_wait ? index_blob(shell->index, row->id, &outgoing->arena, &blob, &size) : -EAGAIN;
    if (error != 0) return error;
    if (content_is_erased(blob, size)) return 1; /* a later commit ended the task and redacted it */
    if (size != row->blob_size || frame_sum(blob, size) != row->blob_sum) return LOG_DAMAGED;
    *out = (ProtobufCBinaryData){.data = (uint8_t *)blob + BLOB_SALT_SIZE, .len = size - BLOB_SALT_SIZE};
    return 0;
}

/* LOG-1. */
static void wait_durable(const struct outgoing *outgoing, uint64_t after) {
    courier_wait_durable(&outgoing->shell->courier, after > outgoing->end ? after : outgoing->end);
}

/* Whether the result is one to go on with: 0 or 1. False: -EAGAIN. Anything else ends the process. */
static bool was_read(const struct outgoing *outgoing, const char *what, int error) {
    if (error == -EAGAIN && !outgoing->may_wait) return false;
    if (error < 0) shell_fail(what, error);
    return true;
}

static int reply_repeat(struct outgoing *outgoing, const struct core_reply *reply) {
    const uint8_t *packed;
    size_t size;
    int error = repeat_read(outgoing, reply, &packed, &size);
    if (!was_read(outgoing, "repeat_unreadable", error)) return OUTGOING_COLD;
    struct message *message =
        error > 0 ? reply_pack_refusal(TARRY__CODE__FORGOTTEN, NULL) : reply_pack_commit(packed, size, reply->after);
    wait_durable(outgoing, reply->after);
    struct call *call = call_of(reply->ticket);
    call->answer(call, message);
    return 0;
}

static int reply_with_content(struct outgoing *outgoing, const struct core_reply *reply) {
    assert(reply->reply->body_case == TARRY__REPLY__BODY_GET);
    Tarry__Reply copy = *reply->reply;
    Tarry__TaskReply get = *copy.get;
    Tarry__TaskView view = *get.task;
    uint64_t erasures;
    outgoing->is_again = false;
    for (;; outgoing->is_again = true) {
        erasures = log_erasures(outgoing->shell->log);
        view.content = (ProtobufCBinaryData){0};
        int error = content_read(outgoing, reply->content, &view.content);
        if (!was_read(outgoing, "content_unreadable", error)) return OUTGOING_COLD;
        wait_durable(outgoing, reply->after);
        if (log_erasures(outgoing->shell->log) == erasures) break;
    }
    get.task = &view; /* 1: it ended and its content is gone meanwhile; the view is still true */
    copy.get = &get;
    struct message *message = copy.follower ? node_pack(&outgoing->shell->node, &copy) : reply_pack(&copy);
    struct call *call = call_of(reply->ticket);
    call->answer(call, message);
    return 0;
}

int outgoing_reply(struct outgoing *outgoing, const struct core_reply *reply) {
    arena_reset(&outgoing->arena);
    return reply->repeat_position != 0 ? reply_repeat(outgoing, reply) : reply_with_content(outgoing, reply);
}

static void task_fill(const struct core_delivered *delivered, Tarry__DeliveredTask *out, Tarry__Token *token) {
    const struct row *row = &delivered->row;
    tarry__token__init(token);
    token->epoch = row->lease_epoch;
    token->position = row->lease_position;
    tarry__delivered_task__init(out);
    out->id = row->id;
    out->queue = (char *)delivered->queue_name;
    out->key = (ProtobufCBinaryData){.data = (uint8_t *)row->key, .len = row->key_size};
    out->due_ms = row->due_ms;
    out->attempt = row->attempt;
    out->deliveries = row->deliveries;
    out->token = token;
    out->priority = row->priority;
    out->lease_deadline_ms = row->lease_deadline_ms;
}

/* What is being delivered: the first `count` of each. */
struct contents {
    const struct core_delivered **tasks;
    ProtobufCBinaryData *contents;
    size_t count;
};

/* Reads all contents, and waits until the leases are durable. 0, OUTGOING_COLD. */
static int contents_read(struct outgoing *outgoing, const struct core_delivery *delivery, struct contents *out) {
    uint64_t erasures;
    outgoing->is_again = false;
    for (;; outgoing->is_again = true) { /* what was redacted since it was read does not leave */
        erasures = log_erasures(outgoing->shell->log);
        arena_reset(&outgoing->arena);
        out->tasks = arena_alloc(&outgoing->arena, delivery->count * sizeof(*out->tasks));
        out->contents = arena_alloc(&outgoing->arena, delivery->count * sizeof(*out->contents));
        if (out->tasks == NULL || out->contents == NULL) shell_fail("delivery_failed", -ENOMEM);
        out->count = 0;
        for (size_t i = 0; i < delivery->count; i++) {
            const struct core_delivered *task = &delivery->tasks[i];
            int error = content_read(outgoing, &task->row, &out->contents[out->count]);
            if (!was_read(outgoing, "content_unreadable", error)) return OUTGOING_COLD;
            /* 1: a later record ended it before it could leave, and its content went with a retired segment. A task
             * without its content is never sent. */
            if (error == 0)
                out->tasks[out->count++] = task;
            else
                logfmt("content_gone", "id=%" PRIu64, task->row.id);
        }
        wait_durable(outgoing, delivery->after); /* LOG-1 */
        if (log_erasures(outgoing->shell->log) == erasures) return 0;
    }
}

/* Leaves out what is no longer leased: it may be another consumer's by now. */
static void drop_overdue(struct contents *contents, const struct core_delivery *delivery, uint64_t now_ms) {
    size_t kept = 0;
    for (size_t i = 0; i < contents->count; i++) {
        if (contents->tasks[i]->row.lease_deadline_ms <= now_ms) continue;
        contents->contents[kept] = contents->contents[i];
        contents->tasks[kept++] = contents->tasks[i];
    }
    if (kept < contents->count && logfmt_allowed(&overdue_limit))
        logfmt("lease_over_unsent", "session=%" PRIu64 " tasks=%zu", delivery->session, contents->count - kept);
    contents->count = kept;
}

/* NULL: out of memory. */
static struct message *delivery_pack(struct outgoing *outgoing, const struct core_delivery *delivery,
                                     const struct contents *contents, struct instant now) {
    struct arena *arena = &outgoing->arena;
    Tarry__Delivery message = TARRY__DELIVERY__INIT;
    Tarry__DeliveredTask *tasks = arena_alloc(arena, contents->count * sizeof(*tasks));
    Tarry__DeliveredTask **pointers = arena_alloc(arena, contents->count * sizeof(void *));
    Tarry__Token *tokens = arena_alloc(arena, contents->count * sizeof(*tokens));
    if (tasks == NULL || pointers == NULL || tokens == NULL) return NULL;
    message.tasks = pointers;
    message.n_tasks = contents->count;
    for (size_t i = 0; i < contents->count; i++) {
        pointers[i] = &tasks[i];
        task_fill(contents->tasks[i], &tasks[i], &tokens[i]);
        tasks[i].content = contents->contents[i];
    }
    message.session = delivery->session;
    message.delivered_ms = instant_ms(now);
    struct message *packed = message_new(tarry__delivery__get_packed_size(&message));
    if (packed != NULL) tarry__delivery__pack(&message, packed->bytes);
    return packed;
}

int outgoing_deliver(struct outgoing *outgoing, const struct core_delivery *delivery) {
    struct shell *shell = outgoing->shell;
    struct contents contents;
    if (contents_read(outgoing, delivery, &contents) != 0) return OUTGOING_COLD;
    struct instant now = clock_now(&shell->clock, NULL); /* that of leaving */
    size_t read_count = contents.count;
    drop_overdue(&contents, delivery, now.steady_ns / NS_PER_MS);
    bool is_over = contents.count == 0 && read_count > 0; /* nothing left that could be sent: it never will be */
    struct message *message = is_over ? NULL : delivery_pack(outgoing, delivery, &contents, now);
    lanes_send(&shell->lanes, delivery, message, now.steady_ns);
    courier_left(&shell->courier, delivery);
    return 0;
}
