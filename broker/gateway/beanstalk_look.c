/* beanstalk_look.c: peek, peek-ready, peek-delayed, peek-buried, stats-job. */
#include <assert.h>
#include <string.h>

#include "beanstalk_parts.h"
#include "message.h"

static void on_peeked(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    if (!reply_is_fine(connection, reply)) return;
    const Tarry__TaskReply *get = reply->get;
    bool is_there = get->outcome == TARRY__OUTCOME__PENDING || get->outcome == TARRY__OUTCOME__IN_FLIGHT ||
                    get->outcome == TARRY__OUTCOME__DEAD;
    if (!is_there || get->task == NULL) {
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
    if (reply->list->n_tasks == 0 && reply->list->next.len > 0) { /* no task of that state on this result page */
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
    /* The first result page may contain only tasks whose state has changed; later pages are longer. The search goes on
     * to the end of the tube, because the reply must be right; other requests are served between pages. */
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

uint32_t view_pri(const struct beanstalk *server, const Tarry__TaskView *view, const struct beanstalk_job *job) {
    const struct beanstalk_note *note = beanstalk_note_find(&server->notes, view->id);
    uint32_t pri;
    if (beanstalk_reason_parse(view->reason, &pri)) return pri;
    if (beanstalk_is_rank(view->due_ms)) return beanstalk_pri_of_rank(view->due_ms);
    return note != NULL && note->has_pri ? note->pri : job->pri;
}

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
    Tarry__Content *content = tarry__content__unpack(NULL, view->content.len, view->content.data);
    beanstalk_job_parse(content, &job);
    if (content != NULL) tarry__content__free_unpacked(content, NULL);
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
    bool is_there = get->outcome == TARRY__OUTCOME__PENDING || get->outcome == TARRY__OUTCOME__IN_FLIGHT ||
                    get->outcome == TARRY__OUTCOME__DEAD;
    if (is_there && get->task != NULL)
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
