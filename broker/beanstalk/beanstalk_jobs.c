/* beanstalk_jobs.c: the commands that change or show one job: put; delete, release, bury, touch of a reserved job; kick
 * and kick-job, which make buried jobs ready again, or delayed jobs if there are none; peek and its variants;
 * stats-job. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "beanstalk_parts.h"
#include "message.h"

/* ==== put, and the commands that settle a reserved job */

/* ---- put */

static void on_put(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    if (!reply_is_fine(connection, reply)) return;
    Tarry__Code code = result_code(reply, 0);
    if (code != TARRY__CODE__OK) {
        connection_refuse(connection, code);
        return;
    }
    /* Keep the job's pri in a note, because a delayed job's due time is its real one and does not contain the pri
     * (beanstalk_text.h). */
    if (connection->command.delay_s > 0) {
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

/* Finds the reserved job of the command, and stops its TTR until the command ends. NULL: this connection has not
 * reserved the job. */
static struct beanstalk_reserved *settle(struct beanstalk_connection *connection, Tarry__Token *out_token) {
    struct beanstalk_reserved *reserved = held_find(connection, connection->command.id);
    connection->settling = reserved;
    if (reserved == NULL) return NULL;
    reserved->is_settling = true;
    held_token(reserved, out_token);
    return reserved;
}

/* Returns whether the operation succeeded. If it failed, the client has its reply. */
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
    reserved->is_settling = false; /* the TTR of the job continues */
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
        connection_answer(connection, "NOT_FOUND"); /* another client has taken or deleted the job */
    else
        connection_refuse(connection, code);
}

/* Handles the broker's reply about a job that no client has reserved: deletes the job. */
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

/* Reads the job in a task's content; a content without a job gives beanstalkd's defaults. */
static void parse_job(const Tarry__TaskView *view, struct beanstalk_job *out) {
    Tarry__Content *content = tarry__content__unpack(NULL, view->content.len, view->content.data);
    beanstalk_job_parse(content, out);
    if (content != NULL) tarry__content__free_unpacked(content, NULL);
}

/* Returns the pri of a job. Uses the first of these that has a pri: the task's reason, its due time, the job's note,
 * the content of the put. */
static uint32_t view_pri(const struct beanstalk *server, const Tarry__TaskView *view, const struct beanstalk_job *job) {
    const struct beanstalk_note *note = beanstalk_note_find(&server->notes, view->id);
    uint32_t pri;
    if (beanstalk_reason_parse(view->reason, &pri)) return pri;
    if (beanstalk_is_rank(view->due_ms)) return beanstalk_pri_of_rank(view->due_ms);
    return note != NULL && note->has_pri ? note->pri : job->pri;
}

/* ==== kick, kick-job */

/* Time that is subtracted from the due time of a kicked job. A job that is due now stays pending until the millisecond
 * ends; a client that asks at once would see it as delayed, and kick it again. 1 s also covers small clock differences.
 */
#define KICKED_AGO_MS 1000u

size_t kick_ops(struct kicked *kicked, uint64_t id, bool is_dead, uint64_t due_ms, uint32_t priority, Tarry__Op *ops) {
    size_t count = 0;
    ranking_init(&kicked->ranking, id, due_ms, priority);
    tarry__dead_op__init(&kicked->dead);
    kicked->dead.what = TARRY__DEAD_OP__WHAT__REQUEUE;
    kicked->dead.task = &kicked->ranking.ref;
    if (is_dead) {
        tarry__op__init(&ops[count]);
        ops[count].op_case = TARRY__OP__OP_DEAD;
        ops[count++].dead = &kicked->dead;
    }
    ops[count++] = kicked->ranking.op;
    return count;
}

static void note_kick(struct beanstalk *server, uint64_t id) {
    struct beanstalk_note *note = beanstalk_note_make(&server->notes, id);
    if (note != NULL) note->kicks++;
}

/* ---- kick-job */

static void on_job_kicked(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    if (!reply_is_fine(connection, reply)) return;
    Tarry__Code code = TARRY__CODE__OK;
    for (size_t i = 0; i < reply->commit->n_results && code == TARRY__CODE__OK; i++) code = result_code(reply, i);
    if (code == TARRY__CODE__OK) {
        note_kick(connection->server, connection->command.id);
        connection_answer(connection, "KICKED");
    } else if (code == TARRY__CODE__NOT_DONE || code == TARRY__CODE__ABORTED) {
        connection_answer(connection, "NOT_FOUND");
    } else {
        connection_refuse(connection, code);
    }
}

static void on_kickable(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    if (!reply_is_fine(connection, reply)) return;
    const Tarry__TaskView *view = reply->get->task;
    bool is_dead = reply->get->outcome == TARRY__OUTCOME__DEAD;
    bool is_delayed = view != NULL && strcmp(view->state, "pending") == 0;
    if (view == NULL || (!is_dead && !is_delayed)) {
        connection_answer(connection, "NOT_FOUND");
        return;
    }
    struct beanstalk_job job;
    parse_job(view, &job);
    uint32_t pri = view_pri(connection->server, view, &job);
    Tarry__Op ops[2];
    struct kicked kicked;
    size_t count = kick_ops(&kicked, view->id, is_dead, beanstalk_rank_ms(pri), BEANSTALK_PRIORITY_RANKED, ops);
    connection_commit(connection, ops, count, on_job_kicked);
}

void kick_job_begin(struct beanstalk_connection *connection) {
    if (connection->command.id == 0)
        connection_answer(connection, "NOT_FOUND");
    else
        connection_get(connection, connection->command.id, true, on_kickable);
}

/* ---- kick */

static void kick_page(struct beanstalk_connection *connection, const ProtobufCBinaryData *cursor);

static void kick_done(struct beanstalk_connection *connection) {
    connection_reply(connection, "KICKED %llu", (unsigned long long)connection->done);
    connection_finish(connection);
}

/* Handles a refused commit of a kick that needs several commits. If earlier commits kicked some jobs, these jobs stay
 * kicked: replies with their number and returns true. */
static bool is_kicked_in_part(struct beanstalk_connection *connection, const Tarry__Reply *reply) {
    bool is_refused = reply != NULL && reply->code != TARRY__CODE__OK && reply->code != TARRY__CODE__FAILED;
    if (!is_refused || connection->done == 0) return false;
    connection->asked = 0;
    kick_done(connection);
    return true;
}

/* Counts the kicked jobs. A job is kicked if its last operation succeeded; jobs that another client has taken do not
 * count. */
static void on_kicked(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    if (is_kicked_in_part(connection, reply)) return;
    if (!reply_is_fine(connection, reply)) return;
    size_t step = connection->kicks_buried ? 2 : 1;
    uint64_t before = connection->done;
    for (size_t i = step - 1; i < reply->commit->n_results; i += step) {
        if (result_code(reply, i) != TARRY__CODE__OK || result_code(reply, i + 1 - step) != TARRY__CODE__OK) continue;
        connection->done++;
        note_kick(connection->server, reply->commit->results[i]->id);
    }
    if (connection->done < connection->command.bound && connection->done > before)
        kick_page(connection, NULL);
    else
        kick_done(connection);
}

static uint64_t burial_of(const struct beanstalk *server, uint64_t id) {
    const struct beanstalk_note *note = beanstalk_note_find(&server->notes, id);
    return note != NULL ? note->burial : 0;
}

static int burial_order(const struct beanstalk *server, const Tarry__TaskView *a, const Tarry__TaskView *b) {
    if (a->dead_ms != b->dead_ms) return a->dead_ms < b->dead_ms ? -1 : 1;
    /* Orders jobs that were buried in the same millisecond by their burial numbers. */
    const uint64_t x = burial_of(server, a->id), y = burial_of(server, b->id);
    if (x != y) return x < y ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static int by_burial(const void *a, const void *b, void *server) {
    return burial_order(server, *(const Tarry__TaskView *const *)a, *(const Tarry__TaskView *const *)b);
}

static void kick_tasks(struct beanstalk_connection *connection, const Tarry__ListReply *list, size_t count) {
    Tarry__Op *ops = calloc(2 * count, sizeof(*ops));
    struct kicked *kicked = calloc(count, sizeof(*kicked));
    if (ops != NULL && kicked != NULL) {
        size_t op_count = 0;
        for (size_t i = 0; i < count; i++) {
            const Tarry__TaskView *view = list->tasks[i];
            const struct beanstalk_note *note = beanstalk_note_find(&connection->server->notes, view->id);
            uint32_t pri = note != NULL ? note->pri : 0;
            bool is_known = beanstalk_reason_parse(view->reason, &pri) || (note != NULL && note->has_pri);
            /* A job whose pri is unknown gets no rank (a due time made of the pri) now. The connection that leases the
             * job gives it a rank. */
            uint64_t due_ms = is_known ? beanstalk_rank_ms(pri) : beanstalk_wall_ms() - KICKED_AGO_MS;
            uint32_t priority = is_known ? BEANSTALK_PRIORITY_RANKED : BEANSTALK_PRIORITY_FRESH;
            op_count += kick_ops(&kicked[i], view->id, connection->kicks_buried, due_ms, priority, ops + op_count);
        }
        connection_commit(connection, ops, op_count, on_kicked);
    } else {
        connection_answer(connection, "OUT_OF_MEMORY");
    }
    free(ops);
    free(kicked);
}

static void on_page(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    connection->asked = 0;
    bool is_empty = reply != NULL && reply->code == TARRY__CODE__NO_SUCH_QUEUE;
    if (!is_empty && is_kicked_in_part(connection, reply)) return;
    if (!is_empty && !reply_is_fine(connection, reply)) return;
    assert(reply != NULL);
    size_t count = is_empty ? 0 : reply->list->n_tasks;
    if (!is_empty && count == 0 && reply->list->next.len > 0) { /* this result page has no task in the wanted state */
        kick_page(connection, &reply->list->next);
        return;
    }
    if (count == 0 && connection->kicks_buried && connection->done == 0) {
        connection->kicks_buried = false; /* no job is buried: kick delayed jobs */
        kick_page(connection, NULL);
        return;
    }
    if (count == 0) {
        kick_done(connection);
        return;
    }
    uint64_t left = connection->command.bound - connection->done;
    if (connection->kicks_buried)
        qsort_r(reply->list->tasks, count, sizeof(Tarry__TaskView *), by_burial, connection->server);
    kick_tasks(connection, reply->list, count < left ? count : (size_t)left);
}

static void kick_page(struct beanstalk_connection *connection, const ProtobufCBinaryData *cursor) {
    Tarry__List list = TARRY__LIST__INIT;
    list.queue = connection->used->name;
    list.states = connection->kicks_buried ? STATE_DEAD : STATE_PENDING;
    list.limit = BEANSTALK_PAGE;
    if (!connection->kicks_buried)
        list.due_from_ms = BEANSTALK_RANK_END_MS; /* skip the ranked jobs, because they are ready, not delayed */
    if (cursor != NULL) list.cursor = *cursor;
    connection_list(connection, &list, on_page);
}

void kick_begin(struct beanstalk_connection *connection) {
    connection->done = 0;
    connection->kicks_buried = true;
    if (connection->command.bound == 0)
        kick_done(connection);
    else
        kick_page(connection, NULL);
}

/* ==== peek and its variants, stats-job */

/* Returns whether the job exists. beanstalkd shows a job until it is deleted. */
static bool is_there(const Tarry__TaskReply *get) {
    bool is_live = get->outcome == TARRY__OUTCOME__PENDING || get->outcome == TARRY__OUTCOME__IN_FLIGHT ||
                   get->outcome == TARRY__OUTCOME__DEAD;
    return is_live && get->task != NULL;
}

static void on_peeked(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    if (!reply_is_fine(connection, reply)) return;
    const Tarry__TaskReply *get = reply->get;
    if (!is_there(get)) {
        connection_answer(connection, "NOT_FOUND");
        return;
    }
    Tarry__Content *content = tarry__content__unpack(NULL, get->task->content.len, get->task->content.data);
    if (content == NULL) {
        connection_answer(connection, "OUT_OF_MEMORY");
        return;
    }
    connection_send(connection, job_message("FOUND", get->task->id, content->payload.data, content->payload.len));
    tarry__content__free_unpacked(content, NULL);
    connection_finish(connection);
}

static const Tarry__TaskView *first_of(const struct beanstalk *server, const Tarry__ListReply *list, bool by_burial) {
    const Tarry__TaskView *first = NULL;
    for (size_t i = 0; i < list->n_tasks; i++) {
        const Tarry__TaskView *view = list->tasks[i];
        if (first == NULL || (by_burial && burial_order(server, view, first) < 0)) first = view;
    }
    return first;
}

static void look_for(struct beanstalk_connection *connection, const ProtobufCBinaryData *cursor);

static void on_candidates(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    connection->asked = 0;
    if (reply != NULL && reply->code == TARRY__CODE__NO_SUCH_QUEUE) {
        connection_answer(connection, "NOT_FOUND");
        return;
    }
    if (!reply_is_fine(connection, reply)) return;
    assert(reply != NULL);
    if (reply->list->n_tasks == 0 && reply->list->next.len > 0) { /* this result page has no task in the wanted state */
        look_for(connection, &reply->list->next);
        return;
    }
    const Tarry__TaskView *first =
        first_of(connection->server, reply->list, connection->command.kind == BEANSTALK_PEEK_BURIED);
    if (first == NULL)
        connection_answer(connection, "NOT_FOUND");
    else
        connection_get(connection, first->id, true, on_peeked);
}

static void look_for(struct beanstalk_connection *connection, const ProtobufCBinaryData *cursor) {
    Tarry__List list = TARRY__LIST__INIT;
    enum beanstalk_kind kind = connection->command.kind;
    list.queue = connection->used->name;
    list.states = kind == BEANSTALK_PEEK_READY ? STATE_READY : STATE_DEAD;
    /* The first result page is short and may contain only tasks whose state has changed since; later pages are longer.
     * The search continues to the end of the tube, because NOT_FOUND would be wrong while any page may have a job.
     * Other requests are served between pages. */
    list.limit = kind == BEANSTALK_PEEK_BURIED || cursor != NULL ? BEANSTALK_PAGE : BEANSTALK_FEW;
    if (kind == BEANSTALK_PEEK_DELAYED) {
        list.states = STATE_PENDING;
        list.due_from_ms = BEANSTALK_RANK_END_MS; /* ranked jobs are ready, so they are skipped */
    }
    if (cursor != NULL) list.cursor = *cursor;
    connection_list(connection, &list, on_candidates);
}

void peek_begin(struct beanstalk_connection *connection) {
    if (connection->command.kind == BEANSTALK_PEEK) {
        if (connection->command.id == 0)
            connection_answer(connection, "NOT_FOUND");
        else
            connection_get(connection, connection->command.id, true, on_peeked);
        return;
    }
    look_for(connection, NULL);
}

/* ---- stats-job */

static const char *state_of(const Tarry__TaskView *view) {
    if (strcmp(view->state, "pending") == 0) return "delayed";
    if (strcmp(view->state, "in_flight") == 0) return "reserved";
    return strcmp(view->state, "dead") == 0 ? "buried" : "ready";
}

static uint64_t time_left_s(const Tarry__TaskView *view, const struct beanstalk_note *note) {
    uint64_t now_ms = beanstalk_wall_ms(), until_ms = 0;
    if (strcmp(view->state, "pending") == 0) {
        until_ms = view->due_ms;
    } else if (strcmp(view->state, "in_flight") == 0 && note != NULL) {
        now_ms = beanstalk_now_ms();
        until_ms = note->deadline_ms;
    }
    return beanstalk_left_s(until_ms, now_ms);
}

static void describe(struct beanstalk_connection *connection, const Tarry__TaskView *view) {
    static const struct beanstalk_note nothing;
    const struct beanstalk_note *note = beanstalk_note_find(&connection->server->notes, view->id);
    struct beanstalk_job job;
    parse_job(view, &job);
    if (note == NULL) note = &nothing;
    uint64_t now_ms = beanstalk_wall_ms();
    const struct beanstalk_job_view job_view = {
        .id = view->id,
        .tube = view->queue,
        .state = state_of(view),
        .pri = view_pri(connection->server, view, &job),
        .age_s = now_ms > view->scheduled_ms ? (now_ms - view->scheduled_ms) / 1000 : 0,
        .delay_s = note->has_delay ? note->delay_s : job.delay_s,
        .ttr_s = job.ttr_s,
        .time_left_s = time_left_s(view, note),
        .reserves = view->deliveries,
        .timeouts = note->timeouts,
        .releases = note->releases,
        .buries = note->buries,
        .kicks = note->kicks,
    };
    beanstalk_text_job(&connection->yaml, &job_view);
    connection_reply_yaml(connection);
}

static void on_stats_job(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    if (!reply_is_fine(connection, reply)) return;
    const Tarry__TaskReply *get = reply->get;
    if (is_there(get))
        describe(connection, get->task);
    else
        connection_reply(connection, "NOT_FOUND");
    connection_finish(connection);
}

void stats_job_begin(struct beanstalk_connection *connection) {
    if (connection->command.id == 0)
        connection_answer(connection, "NOT_FOUND");
    else
        connection_get(connection, connection->command.id, true, on_stats_job);
}
