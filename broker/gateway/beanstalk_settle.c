/* beanstalk_settle.c: put, and the commands that settle a reserved job: delete, release, bury, touch. */
#include <stdlib.h>
#include <string.h>

#include "beanstalk_parts.h"

/* ---- put */

static void on_put(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    if (!reply_is_fine(connection, reply)) return;
    Tarry__Code code = result_code(reply, 0);
    if (code != TARRY__CODE__OK) {
        connection_refuse(connection, code);
        return;
    }
    if (connection->command.delay_s > 0) { /* the due time shows the pri only once the job is ranked */
        struct beanstalk_note *note = beanstalk_note_make(&connection->server->notes, reply->commit->results[0]->id);
        if (note != NULL) {
            note->pri = connection->command.pri;
            note->has_pri = true;
        }
    }
    connection_reply(connection, "INSERTED %llu", (unsigned long long)reply->commit->results[0]->id);
    connection_finish(connection);
}

/* Returns the due time and priority of a job with this pri and delay. */
static void place(uint32_t pri, uint32_t delay_s, Tarry__When *out_when, uint32_t *out_priority) {
    tarry__when__init(out_when);
    out_when->kind = delay_s > 0 ? TARRY__WHEN__KIND__DELAY : TARRY__WHEN__KIND__AT;
    out_when->ms = delay_s > 0 ? (uint64_t)delay_s * 1000 : beanstalk_rank_ms(pri);
    *out_priority = delay_s > 0 ? BEANSTALK_PRIORITY_FRESH : BEANSTALK_PRIORITY_RANKED;
}

static bool is_too_far(uint32_t delay_s) {
    return (uint64_t)delay_s * 1000 > DUE_AHEAD_MAX_MS;
}

void put_begin(struct beanstalk_connection *connection, const struct beanstalk_command *command) {
    const struct beanstalk_job job = {.pri = command->pri, .ttr_s = command->ttr_s, .delay_s = command->delay_s};
    char value[BEANSTALK_ATTRIBUTE_SIZE];
    Tarry__Attribute attribute = TARRY__ATTRIBUTE__INIT, *attributes = &attribute;
    Tarry__Content content = TARRY__CONTENT__INIT;
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Schedule schedule = TARRY__SCHEDULE__INIT;
    Tarry__When when;
    if (is_too_far(command->delay_s)) {
        connection_answer(connection, "BAD_FORMAT");
        return;
    }
    beanstalk_job_format(&job, value);
    attribute.name = BEANSTALK_ATTRIBUTE;
    attribute.value = value;
    content.attributes = &attributes;
    content.n_attributes = 1;
    content.payload = (ProtobufCBinaryData){.data = (uint8_t *)command->body, .len = command->body_size};
    size_t size = tarry__content__get_packed_size(&content);
    uint8_t *packed = malloc(size);
    if (packed == NULL) {
        connection_answer(connection, "OUT_OF_MEMORY");
        return;
    }
    tarry__content__pack(&content, packed);
    place(command->pri, command->delay_s, &when, &schedule.priority);
    schedule.queue = connection->used->name;
    schedule.when = &when;
    schedule.content = (ProtobufCBinaryData){.data = packed, .len = size};
    op.op_case = TARRY__OP__OP_SCHEDULE;
    op.schedule = &schedule;
    connection_commit(connection, &op, 1, on_put);
    free(packed);
}

/* ---- jobs that this connection has reserved */

/* Finds the reserved job of the command, and stops its TTR meanwhile. NULL: this connection has not reserved the job.
 */
static struct beanstalk_reserved *settle(struct beanstalk_connection *connection, Tarry__Token *out_token) {
    struct beanstalk_reserved *reserved = held_find(connection, connection->command.id);
    connection->settling = reserved;
    if (reserved == NULL) return NULL;
    reserved->is_settling = true;
    tarry__token__init(out_token);
    out_token->epoch = reserved->epoch;
    out_token->position = reserved->position;
    return reserved;
}

/* Whether the operation succeeded. False: it failed, and the client has its reply. */
static bool is_settled(struct beanstalk_connection *connection, const Tarry__Reply *reply) {
    struct beanstalk_reserved *reserved = connection->settling;
    Tarry__Code code = reply != NULL ? reply->code : TARRY__CODE__FAILED;
    connection->asked = 0;
    if (code == TARRY__CODE__OK) code = result_code(reply, 0);
    if (code == TARRY__CODE__OK) return true;
    if (code == TARRY__CODE__STALE_TOKEN) {
        held_drop(connection, reserved); /* the lease has ended */
        connection_answer(connection, "NOT_FOUND");
        return false;
    }
    reserved->is_settling = false; /* its TTR continues */
    connection_refuse(connection, code);
    return false;
}

static struct beanstalk_tube *tube_of(struct beanstalk_connection *connection, const char *name) {
    return beanstalk_tube_find(&connection->server->tubes, name);
}

static void deleted(struct beanstalk_connection *connection, const char *tube_name) {
    struct beanstalk_tube *tube = tube_of(connection, tube_name);
    if (tube != NULL) tube->deletes++;
    beanstalk_note_drop(&connection->server->notes, connection->command.id);
    connection_answer(connection, "DELETED");
}

static void on_acked(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    char tube[QUEUE_NAME_SIZE_MAX + 1];
    if (!is_settled(connection, reply)) return;
    memcpy(tube, connection->settling->tube, sizeof(tube));
    held_drop(connection, connection->settling);
    deleted(connection, tube);
}

static void on_removed(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    if (!reply_is_fine(connection, reply)) return;
    Tarry__Code code = result_code(reply, 0);
    if (code == TARRY__CODE__OK)
        deleted(connection, connection->tube);
    else if (code == TARRY__CODE__NOT_DONE)
        connection_answer(connection, "NOT_FOUND"); /* another client took or deleted the job first */
    else
        connection_refuse(connection, code);
}

/* Deletes a job that no client has reserved. */
static void on_found(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    if (!reply_is_fine(connection, reply)) return;
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Ref ref = TARRY__REF__INIT;
    Tarry__Cancel cancel = TARRY__CANCEL__INIT;
    Tarry__DeadOp drop = TARRY__DEAD_OP__INIT;
    const Tarry__TaskReply *get = reply->get;
    bool is_dead = get->outcome == TARRY__OUTCOME__DEAD;
    if ((!is_dead && get->outcome != TARRY__OUTCOME__PENDING) || get->task == NULL) {
        connection_answer(connection, "NOT_FOUND");
        return;
    }
    memcpy(connection->tube, get->task->queue, strlen(get->task->queue) + 1);
    ref.id = connection->command.id;
    if (is_dead) {
        drop.what = TARRY__DEAD_OP__WHAT__DROP;
        drop.task = &ref;
        op.op_case = TARRY__OP__OP_DEAD;
        op.dead = &drop;
    } else {
        cancel.task = &ref;
        op.op_case = TARRY__OP__OP_CANCEL;
        op.cancel = &cancel;
    }
    connection_commit(connection, &op, 1, on_removed);
}

void delete_begin(struct beanstalk_connection *connection) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Ack ack = TARRY__ACK__INIT;
    Tarry__Token token;
    if (connection->command.id == 0) {
        connection_answer(connection, "NOT_FOUND");
    } else if (settle(connection, &token) == NULL) {
        connection_get(connection, connection->command.id, false, on_found);
    } else {
        ack.id = connection->command.id;
        ack.token = &token;
        op.op_case = TARRY__OP__OP_ACK;
        op.ack = &ack;
        connection_commit(connection, &op, 1, on_acked);
    }
}

static void on_released(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    if (!is_settled(connection, reply)) return;
    const struct beanstalk_command *command = &connection->command;
    struct beanstalk_note *note = beanstalk_note_make(&connection->server->notes, command->id);
    if (note != NULL) {
        note->releases++;
        note->pri = command->pri;
        note->delay_s = command->delay_s;
        note->has_pri = note->has_delay = true;
    }
    held_drop(connection, connection->settling);
    connection_answer(connection, "RELEASED");
}

void release_begin(struct beanstalk_connection *connection) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Release release = TARRY__RELEASE__INIT;
    Tarry__Token token;
    Tarry__When when;
    if (is_too_far(connection->command.delay_s)) {
        connection_answer(connection, "BAD_FORMAT");
        return;
    }
    if (settle(connection, &token) == NULL) {
        connection_answer(connection, "NOT_FOUND");
        return;
    }
    place(connection->command.pri, connection->command.delay_s, &when, &release.priority);
    release.has_priority = true;
    release.id = connection->command.id;
    release.token = &token;
    release.when = &when;
    op.op_case = TARRY__OP__OP_RELEASE;
    op.release = &release;
    connection_commit(connection, &op, 1, on_released);
}

static void on_buried(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    if (!is_settled(connection, reply)) return;
    struct beanstalk_note *note = beanstalk_note_make(&connection->server->notes, connection->command.id);
    if (note != NULL) {
        note->burial = ++connection->server->burials;
        note->buries++;
        note->pri = connection->command.pri;
        note->has_pri = true;
    }
    held_drop(connection, connection->settling);
    connection_answer(connection, "BURIED");
}

void bury_begin(struct beanstalk_connection *connection) {
    char reason[BEANSTALK_REASON_SIZE];
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Nack nack = TARRY__NACK__INIT;
    Tarry__Token token;
    if (settle(connection, &token) == NULL) {
        connection_answer(connection, "NOT_FOUND");
        return;
    }
    beanstalk_reason_format(connection->command.pri, reason);
    nack.id = connection->command.id;
    nack.token = &token;
    nack.dead = true;
    nack.reason = reason;
    op.op_case = TARRY__OP__OP_NACK;
    op.nack = &nack;
    connection_commit(connection, &op, 1, on_buried);
}

void touch_begin(struct beanstalk_connection *connection) {
    struct beanstalk_reserved *reserved = held_find(connection, connection->command.id);
    if (reserved != NULL) held_touch(connection, reserved);
    connection_answer(connection, reserved != NULL ? "TOUCHED" : "NOT_FOUND");
}
