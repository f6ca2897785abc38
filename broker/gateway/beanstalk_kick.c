/* beanstalk_kick.c: kick and kick-job: makes buried jobs ready again; if there are none, delayed jobs. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "beanstalk_parts.h"

/* Subtracted from the due time of a kicked job. A job that is due now stays pending until the millisecond ends. A
 * client that asks at once would see it as delayed, and kick it again. 1 s also covers small clock differences. */
#define KICKED_AGO_MS 1000u

/* Operations that make a job ready at the place of its pri. If the pri is unknown, the job is fresh, and the connection
 * that leases it ranks it. */
struct kicked {
    Tarry__Ref ref;
    Tarry__DeadOp dead;
    Tarry__Move move;
    Tarry__When when;
};

/* Appends the job's operations to `ops`. Returns the number of operations. */
static size_t kick_ops(struct kicked *kicked, uint64_t id, bool is_dead, const uint32_t *pri, Tarry__Op *ops) {
    size_t count = 0;
    tarry__ref__init(&kicked->ref);
    tarry__dead_op__init(&kicked->dead);
    tarry__move__init(&kicked->move);
    tarry__when__init(&kicked->when);
    kicked->ref.id = id;
    kicked->dead.what = TARRY__DEAD_OP__WHAT__REQUEUE;
    kicked->dead.task = kicked->move.task = &kicked->ref;
    kicked->when.kind = TARRY__WHEN__KIND__AT;
    kicked->when.ms = pri != NULL ? beanstalk_rank_ms(*pri) : beanstalk_wall_ms() - KICKED_AGO_MS;
    kicked->move.when = &kicked->when;
    kicked->move.has_priority = true;
    kicked->move.priority = pri != NULL ? BEANSTALK_PRIORITY_RANKED : BEANSTALK_PRIORITY_FRESH;
    if (is_dead) {
        tarry__op__init(&ops[count]);
        ops[count].op_case = TARRY__OP__OP_DEAD;
        ops[count++].dead = &kicked->dead;
    }
    tarry__op__init(&ops[count]);
    ops[count].op_case = TARRY__OP__OP_MOVE;
    ops[count++].move = &kicked->move;
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
    Tarry__Content *content = tarry__content__unpack(NULL, view->content.len, view->content.data);
    beanstalk_job_parse(content, &job);
    if (content != NULL) tarry__content__free_unpacked(content, NULL);
    uint32_t pri = view_pri(connection->server, view, &job);
    Tarry__Op ops[2];
    struct kicked kicked;
    size_t count = kick_ops(&kicked, view->id, is_dead, &pri, ops);
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

/* Replies with the number of jobs kicked so far if a later commit was refused: those jobs stay kicked. */
static bool is_kicked_in_part(struct beanstalk_connection *connection, const Tarry__Reply *reply) {
    bool is_refused = reply != NULL && reply->code != TARRY__CODE__OK && reply->code != TARRY__CODE__FAILED;
    if (!is_refused || connection->done == 0) return false;
    connection->asked = 0;
    kick_done(connection);
    return true;
}

/* Counts the kicked jobs. A job is kicked if its last operation succeeded; jobs that another client took first do not
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

int burial_order(const struct beanstalk *server, const Tarry__TaskView *a, const Tarry__TaskView *b) {
    if (a->dead_ms != b->dead_ms) return a->dead_ms < b->dead_ms ? -1 : 1;
    const uint64_t x = burial_of(server, a->id), y = burial_of(server, b->id); /* order within one millisecond */
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
            op_count +=
                kick_ops(&kicked[i], view->id, connection->kicks_buried, is_known ? &pri : NULL, ops + op_count);
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
    if (!is_empty && count == 0 && reply->list->next.len > 0) { /* no task of that state on this result page */
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
    if (!connection->kicks_buried) list.due_from_ms = BEANSTALK_RANK_END_MS; /* skips ranked jobs: ready */
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
