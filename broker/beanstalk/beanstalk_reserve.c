/* beanstalk_reserve.c: reserve, reserve-with-timeout, reserve-job.
 *
 * A reserve takes these steps:
 *   1. If several tubes are watched, choose one.
 *   2. Wait for a task. If no task comes, reply TIMED_OUT or DEADLINE_SOON. A wait longer than the gateway's
 *      maximum is repeated.
 *   3. If the task is fresh (it has no rank, beanstalk_text.h) and another job may precede it, give ranks to all
 *      fresh jobs and wait again.
 *   4. If another connection's reserve-job wants this job, give it to that connection and wait again.
 *   5. Reply RESERVED.
 *
 * reserve-job moves its job to the first place of its tube, and leases the tube's first job. If another connection gets
 * the job, that connection passes the job on.
 *
 * Choosing the tube. The core orders tasks within a queue, but not between queues. beanstalkd delivers the job with the
 * least (pri, id) of all watched tubes. So this file compares the first ranked job of each watched tube, and leases
 * from the tube with the least one. If that tube has become empty, or no tube had a job, the reserve waits for all
 * watched tubes.
 *
 * A ready job without a rank has no place in this order: its delay has just ended, or a Tarry client scheduled it.
 * While a watched tube has such a job, jobs are taken from the tubes in turns, so that this job is delivered, too.
 * After a search without such a job, the tube counts as free of them for BEANSTALK_TURN_MS.
 *
 * Of the connections that need a tube's first jobs, one asks the broker (the tube's *looker*), and the others wait for
 * its result. Otherwise, sixteen workers would ask sixteen times whenever the cache is used up.
 *
 * Each tube caches its first jobs for BEANSTALK_TURN_MS, or until a connection of this process changes the tube's order
 * (by a put, release, kick, or the delete of a ready job; acks change nothing). Leased jobs are removed from the cache.
 * So a reserve asks the broker only about tubes that have changed. While clients only reserve, no tube changes. */
#include <stdlib.h>
#include <string.h>

#include "beanstalk_parts.h"
#include "message.h"

/* Leases a ready job from one watched tube, or waits for all watched tubes (BEANSTALK_ANY_TUBE). */
static void reserve_from(struct beanstalk_connection *connection, uint32_t tube);
static void choose_next(struct beanstalk_connection *connection);
static void remember(struct beanstalk_connection *connection, const Tarry__ListReply *list);
static void look_page(struct beanstalk_connection *connection, const ProtobufCBinaryData *cursor);

/* ==== choosing the tube */

/* ---- the first job of a range */

static void on_page(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    connection->asked = 0;
    const bool is_list = reply != NULL && reply->code == TARRY__CODE__OK && reply->body_case == TARRY__REPLY__BODY_LIST;
    const bool is_nothing = reply != NULL && reply->code == TARRY__CODE__NO_SUCH_QUEUE;
    if (connection->look_into != NULL && (is_list || is_nothing)) remember(connection, is_list ? reply->list : NULL);
    if (!is_list) {
        connection->looked(connection, NULL, is_nothing);
    } else if (reply->list->n_tasks > 0 || reply->list->next.len == 0) {
        connection->looked(connection, reply->list->n_tasks > 0 ? reply->list->tasks[0] : NULL, true);
    } else if (++connection->look_pages == BEANSTALK_LOOK_PAGES_MAX) {
        connection->looked(connection, NULL, false);
    } else { /* all jobs that the index lists on this page were leased after the index was written */
        look_page(connection, &reply->list->next);
    }
}

static void look_page(struct beanstalk_connection *connection, const ProtobufCBinaryData *cursor) {
    Tarry__List list = TARRY__LIST__INIT;
    list.queue = (char *)connection->look_tube;
    list.states = STATE_READY;
    list.due_from_ms = connection->look_from_ms;
    list.due_to_ms = connection->look_to_ms;
    list.limit = cursor == NULL ? BEANSTALK_FEW : BEANSTALK_PAGE;
    if (cursor != NULL) list.cursor = *cursor;
    connection_list(connection, &list, on_page);
}

static void look_begin(struct beanstalk_connection *connection, const char *tube, uint64_t from_ms, uint64_t to_ms,
                       beanstalk_looked *looked) {
    connection->look_tube = tube;
    connection->look_from_ms = from_ms;
    connection->look_to_ms = to_ms;
    connection->look_pages = 0;
    connection->looked = looked;
    look_page(connection, NULL);
}

/* Finds the first ready job of a tube with a due time in [from_ms, to_ms); `to_ms` 0 means no end. `tube` must stay
 * valid until `looked` is called. */
static void look_for_first(struct beanstalk_connection *connection, const char *tube, uint64_t from_ms, uint64_t to_ms,
                           beanstalk_looked *looked) {
    connection->look_into = NULL;
    look_begin(connection, tube, from_ms, to_ms, looked);
}

/* ---- the cache of a tube */

static uint64_t version_of(const struct beanstalk *server, const struct beanstalk_tube *tube) {
    return server->changes + tube->changes; /* both counters only grow, so their sum identifies a version */
}

/* Stores the result in the tube's cache. NULL: the queue does not exist, so it has no jobs. */
static void remember(struct beanstalk_connection *connection, const Tarry__ListReply *list) {
    struct beanstalk_tube *tube = connection->look_into;
    const size_t count = list != NULL ? list->n_tasks : 0;
    const bool is_all = list == NULL || list->next.len == 0;
    if (connection->look_version != version_of(connection->server, tube) || (count == 0 && !is_all)) return;
    tube->seen_ms = beanstalk_now_ms();
    tube->seen_version = connection->look_version;
    tube->seen_count = 0;
    tube->seen_is_all = is_all && count <= BEANSTALK_SEEN_MAX;
    for (size_t i = 0; i < count && i < BEANSTALK_SEEN_MAX; i++)
        tube->seen[tube->seen_count++] =
            (struct beanstalk_seen){.due_ms = list->tasks[i]->due_ms, .id = list->tasks[i]->id};
}

static bool is_remembered(const struct beanstalk *server, const struct beanstalk_tube *tube) {
    return tube->seen_ms != 0 && tube->seen_version == version_of(server, tube) &&
           beanstalk_now_ms() < tube->seen_ms + BEANSTALK_TURN_MS && (tube->seen_count > 0 || tube->seen_is_all);
}

static const struct beanstalk_seen *first_seen(const struct beanstalk_tube *tube) {
    return tube->seen_count > 0 ? &tube->seen[0] : NULL;
}

static void choose_took(struct beanstalk *server, const char *name, uint64_t id) {
    struct beanstalk_tube *tube = beanstalk_tube_find(&server->tubes, name);
    if (tube == NULL) return;
    for (uint32_t i = 0; i < tube->seen_count; i++) {
        if (tube->seen[i].id != id) continue;
        for (; i + 1 < tube->seen_count; i++) tube->seen[i] = tube->seen[i + 1];
        tube->seen_count--;
    }
}

/* ---- comparing the tubes */

static struct beanstalk_tube *tube_at_hand(const struct beanstalk_connection *connection) {
    return connection->watched[connection->choosing];
}

static bool is_ranked_only(const struct beanstalk_tube *tube) {
    return beanstalk_now_ms() < tube->ranked_only_ms + BEANSTALK_TURN_MS;
}

static void consider(struct beanstalk_connection *connection, uint64_t due_ms, uint64_t id) {
    if (connection->chosen != BEANSTALK_ANY_TUBE &&
        (due_ms > connection->chosen_due_ms || (due_ms == connection->chosen_due_ms && id > connection->chosen_id)))
        return;
    connection->chosen = connection->choosing;
    connection->chosen_due_ms = due_ms;
    connection->chosen_id = id;
}

/* Makes the connection the tube's looker. Returns false if the tube has a looker; the connection then waits for its
 * result. */
static bool begin_look(struct beanstalk_connection *connection, struct beanstalk_tube *tube) {
    if (tube->looker == NULL) {
        tube->looker = connection;
        return true;
    }
    connection->awaits_look = tube;
    TAILQ_INSERT_TAIL(&tube->lookers, connection, in_lookers);
    return false;
}

/* Ends the looker's request, and moves the connections that wait for its result to `out`. */
static void end_look(struct beanstalk_tube *tube, struct beanstalk_lookers *out) {
    TAILQ_INIT(out);
    TAILQ_CONCAT(out, &tube->lookers, in_lookers);
    tube->looker = NULL;
}

/* Removes and returns the next waiting connection; NULL: there is none. */
static struct beanstalk_connection *next_of(struct beanstalk_lookers *waiting) {
    struct beanstalk_connection *connection = TAILQ_FIRST(waiting);
    if (connection == NULL) return NULL;
    TAILQ_REMOVE(waiting, connection, in_lookers);
    connection->awaits_look = NULL;
    return connection;
}

/* Handles the search for an unranked job. If such a job exists, or this is unknown, jobs are taken from the tubes in
 * turns. */
static void on_unranked(struct beanstalk_connection *connection, const Tarry__TaskView *first, bool is_known) {
    struct beanstalk_tube *tube = tube_at_hand(connection);
    struct beanstalk_lookers waiting;
    bool has_unranked = !is_known || first != NULL;
    end_look(tube, &waiting);
    if (!has_unranked) tube->ranked_only_ms = beanstalk_now_ms();
    /* This connection chooses again and passes over this tube, whose first ranked job it knows. A waiting connection
     * may not know that job. */
    connection->choosing++;
    do {
        if (has_unranked)
            reserve_from(connection, BEANSTALK_ANY_TUBE);
        else
            choose_next(connection);
    } while ((connection = next_of(&waiting)) != NULL);
}

/* Returns true if the tube has only ranked jobs, so the next tube may be searched. Otherwise begins a search for an
 * unranked job in this tube, and returns false. */
static bool is_done_with(struct beanstalk_connection *connection, struct beanstalk_tube *tube) {
    if (is_ranked_only(tube)) return true;
    if (begin_look(connection, tube)) look_for_first(connection, tube->name, BEANSTALK_RANK_END_MS, 0, on_unranked);
    return false;
}

static void go_on_ranked(struct beanstalk_connection *connection, const Tarry__TaskView *first, bool is_known) {
    if (!is_known) {
        reserve_from(connection, BEANSTALK_ANY_TUBE);
        return;
    }
    if (first != NULL) consider(connection, first->due_ms, first->id);
    if (!is_done_with(connection, tube_at_hand(connection))) return;
    connection->choosing++;
    choose_next(connection);
}

/* Handles the result of a search for a tube's first ranked job. If the tube's cache now contains the result, each
 * waiting connection takes another job from the cache. Otherwise the waiting connections continue with the job that was
 * found. */
static void on_ranked_first(struct beanstalk_connection *connection, const Tarry__TaskView *first, bool is_known) {
    struct beanstalk_tube *tube = tube_at_hand(connection);
    struct beanstalk_lookers waiting;
    end_look(tube, &waiting);
    go_on_ranked(connection, first, is_known);
    while ((connection = next_of(&waiting)) != NULL) {
        if (is_remembered(connection->server, tube))
            choose_next(connection);
        else
            go_on_ranked(connection, first, is_known);
    }
}

static void choose_abandon(struct beanstalk_connection *connection) {
    struct beanstalk_tube *tube = connection->awaits_look;
    struct beanstalk_lookers waiting;
    if (tube != NULL) TAILQ_REMOVE(&tube->lookers, connection, in_lookers);
    connection->awaits_look = NULL;
    if (connection->choosing >= connection->watched_count) return;
    tube = tube_at_hand(connection);
    if (tube->looker != connection) return;
    end_look(tube, &waiting);
    while ((connection = next_of(&waiting)) != NULL)
        choose_next(connection); /* the first of the waiting connections becomes the looker */
}

static void look_at_ranked(struct beanstalk_connection *connection, struct beanstalk_tube *tube) {
    connection->look_into = tube;
    connection->look_version = version_of(connection->server, tube);
    look_begin(connection, tube->name, beanstalk_rank_ms(0), BEANSTALK_RANK_END_MS, on_ranked_first);
}

static void choose_next(struct beanstalk_connection *connection) {
    for (; connection->choosing < connection->watched_count; connection->choosing++) {
        struct beanstalk_tube *tube = tube_at_hand(connection);
        if (!is_remembered(connection->server, tube)) {
            if (begin_look(connection, tube)) look_at_ranked(connection, tube);
            return;
        }
        const struct beanstalk_seen *first = first_seen(tube);
        if (first != NULL) consider(connection, first->due_ms, first->id);
        if (!is_done_with(connection, tube)) return;
    }
    /* The next connection that chooses starts with the tube after the last searched one. */
    if (connection->chosen != BEANSTALK_ANY_TUBE)
        choose_took(connection->server, connection->watched[connection->chosen]->name, connection->chosen_id);
    reserve_from(connection, connection->chosen);
}

static void choose_begin(struct beanstalk_connection *connection) {
    connection->choosing = 0;
    connection->chosen = BEANSTALK_ANY_TUBE;
    if (connection->watched_count < 2 || connection->watched_count > BEANSTALK_CHOOSE_MAX)
        reserve_from(connection, BEANSTALK_ANY_TUBE);
    else
        choose_next(connection);
}

static void reserve_try(struct beanstalk_connection *connection);

/* ==== reserve, reserve-with-timeout, reserve-job */

/* ---- waiting connections */

static void waiting_begin(struct beanstalk_connection *connection) {
    connection->is_waiting = true;
    connection->server->waiting++;
    for (uint32_t i = 0; i < connection->watched_count; i++) connection->watched[i]->waiting++;
}

static void waiting_end(struct beanstalk_connection *connection) {
    if (!connection->is_waiting) return;
    connection->is_waiting = false;
    connection->server->waiting--;
    for (uint32_t i = 0; i < connection->watched_count; i++) connection->watched[i]->waiting--;
}

static void drop_held(struct beanstalk_connection *connection) {
    message_free(connection->held_message);
    free(connection->held);
    connection->held_message = NULL;
    connection->held = NULL;
}

/* Releases the job as if it had never been leased, because no client has seen it. */
static void put_back(struct beanstalk_connection *connection) {
    connection->server->changes++;
    gateway_left(connection->server->gateway, connection->held->lease, false);
    drop_held(connection);
}

void reserve_abandon(struct beanstalk_connection *connection) {
    choose_abandon(connection);
    waiting_end(connection);
    if (connection->held != NULL) put_back(connection);
    if (connection->lease != 0) gateway_cancel(connection->server->gateway, connection->lease);
    connection->lease = 0;
    connection->wanted = 0;
}

static void end_with(struct beanstalk_connection *connection, const char *line) {
    waiting_end(connection);
    connection->wanted = 0;
    connection_answer(connection, line);
}

/* ---- a task arrives */

static void deliver(struct beanstalk_connection *connection) {
    struct beanstalk_reserved *reserved = connection->held;
    struct message *message = connection->held_message;
    connection->held = NULL;
    connection->held_message = NULL;
    waiting_end(connection);
    connection->wanted = 0;
    message->stamp = reserved->lease;
    held_add(connection, reserved);
    connection_send(connection, message);
    connection_finish(connection);
}

static bool comes_before(const Tarry__TaskView *view, const struct beanstalk_reserved *reserved) {
    uint32_t pri = beanstalk_pri_of_rank(view->due_ms);
    return pri != reserved->job.pri ? pri < reserved->job.pri : view->id < reserved->id;
}

static void on_ranked(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    connection->asked = 0;
    reserve_try(connection); /* try again after a failure, too: another consumer may have leased the job meanwhile */
}

void ranking_init(struct ranking *ranking, uint64_t id, uint64_t due_ms, uint32_t priority) {
    tarry__op__init(&ranking->op);
    tarry__move__init(&ranking->move);
    tarry__ref__init(&ranking->ref);
    tarry__when__init(&ranking->when);
    ranking->ref.id = id;
    ranking->when.kind = TARRY__WHEN__KIND__AT;
    ranking->when.ms = due_ms;
    ranking->move.task = &ranking->ref;
    ranking->move.when = &ranking->when;
    ranking->move.has_priority = true;
    ranking->move.priority = priority;
    ranking->op.op_case = TARRY__OP__OP_MOVE;
    ranking->op.move = &ranking->move;
}

static void rank_by_pri(struct ranking *ranking, uint64_t id, uint32_t pri) {
    ranking_init(ranking, id, beanstalk_rank_ms(pri), BEANSTALK_PRIORITY_RANKED);
}

static void rank(struct beanstalk_connection *connection) {
    struct ranking ranking;
    rank_by_pri(&ranking, connection->held->id, connection->held->job.pri);
    connection->ranks++;
    put_back(connection);
    connection_commit(connection, &ranking.op, 1, on_ranked);
}

static void on_first_ranked(struct beanstalk_connection *connection, const Tarry__TaskView *first, bool is_known) {
    if (first != NULL && comes_before(first, connection->held))
        rank(connection);
    else
        deliver(connection);
}

/* Asks whether a ranked job precedes the held job. The held job's delay has ended, or a Tarry client has released it.
 */
static void look_for_ranked(struct beanstalk_connection *connection) {
    const struct beanstalk_reserved *held = connection->held;
    look_for_first(connection, held->tube, beanstalk_rank_ms(0), beanstalk_rank_ms(held->job.pri) + 1, on_first_ranked);
}

/* Ranks the held job, and other fresh jobs whose pri is noted. False: out of memory. */
static bool rank_all(struct beanstalk_connection *connection, const Tarry__ListReply *list) {
    const struct beanstalk_notes *notes = &connection->server->notes;
    struct ranking *rankings = calloc(list->n_tasks + 1, sizeof(*rankings));
    Tarry__Op *ops = calloc(list->n_tasks + 1, sizeof(*ops));
    size_t count = 0;
    bool has_memory = rankings != NULL && ops != NULL;
    if (has_memory) rank_by_pri(&rankings[count++], connection->held->id, connection->held->job.pri);
    for (size_t i = 0; i < list->n_tasks && has_memory; i++) {
        const Tarry__TaskView *view = list->tasks[i];
        const struct beanstalk_note *note = beanstalk_note_find(notes, view->id);
        if (view->priority == BEANSTALK_PRIORITY_FRESH && note != NULL && note->has_pri)
            rank_by_pri(&rankings[count++], view->id, note->pri);
    }
    for (size_t i = 0; i < count; i++) ops[i] = rankings[i].op;
    if (has_memory) {
        connection->ranks++;
        put_back(connection);
        connection_commit(connection, ops, count, on_ranked);
    }
    free(rankings);
    free(ops);
    return has_memory;
}

static void on_fresh(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    const bool is_list = reply != NULL && reply->code == TARRY__CODE__OK && reply->body_case == TARRY__REPLY__BODY_LIST;
    bool has_others = false;
    connection->asked = 0;
    for (size_t i = 0; is_list && i < reply->list->n_tasks; i++)
        has_others |= reply->list->tasks[i]->priority == BEANSTALK_PRIORITY_FRESH;
    if (!has_others || !rank_all(connection, reply->list)) look_for_ranked(connection);
}

/* Lists the tube's fresh jobs. A job whose delay has ended is ordered by its due time until it is ranked. So all fresh
 * jobs are ranked before one of them is delivered, unless the held job is the only one. */
static void look_at_fresh(struct beanstalk_connection *connection) {
    Tarry__List list = TARRY__LIST__INIT;
    list.queue = connection->held->tube;
    list.states = STATE_READY;
    list.due_from_ms = BEANSTALK_RANK_END_MS;
    list.limit = BEANSTALK_PAGE;
    connection_list(connection, &list, on_fresh);
}

static struct beanstalk_connection *who_wants(const struct beanstalk *server, uint64_t id) {
    struct beanstalk_connection *connection = NULL;
    TAILQ_FOREACH(connection, &server->connections, all) {
        if (connection->wanted == id && connection->lease != 0) return connection;
    }
    return NULL;
}

/* Keeps the leased task as the connection's held job. False: out of memory. */
static bool hold_task(struct beanstalk_connection *connection, const Tarry__DeliveredTask *task, uint64_t lease) {
    struct beanstalk_reserved *reserved = calloc(1, sizeof(*reserved));
    Tarry__Content *content = tarry__content__unpack(NULL, task->content.len, task->content.data);
    if (reserved != NULL && content != NULL)
        connection->held_message = job_message("RESERVED", task->id, content->payload.data, content->payload.len);
    if (reserved == NULL || connection->held_message == NULL) {
        free(reserved);
        if (content != NULL) tarry__content__free_unpacked(content, NULL);
        return false;
    }
    reserved->id = task->id;
    reserved->epoch = task->token->epoch;
    reserved->position = task->token->position;
    reserved->lease = lease;
    memcpy(reserved->tube, task->queue, strnlen(task->queue, QUEUE_NAME_SIZE_MAX));
    beanstalk_job_parse(content, &reserved->job);
    const struct beanstalk_note *note = beanstalk_note_find(&connection->server->notes, task->id);
    if (beanstalk_is_rank(task->due_ms) && task->priority == BEANSTALK_PRIORITY_RANKED)
        reserved->job.pri = beanstalk_pri_of_rank(task->due_ms);
    else if (note != NULL && note->has_pri)
        reserved->job.pri = note->pri;
    tarry__content__free_unpacked(content, NULL);
    connection->held = reserved;
    return true;
}

static bool is_fresh(const Tarry__DeliveredTask *task) {
    return task->priority == BEANSTALK_PRIORITY_FRESH && !beanstalk_is_rank(task->due_ms);
}

static void got(struct beanstalk_connection *connection, const Tarry__DeliveredTask *task, uint64_t lease) {
    struct gateway *gateway = connection->server->gateway;
    struct beanstalk_connection *to = who_wants(connection->server, task->id);
    choose_took(connection->server, task->queue, task->id);
    if (to == NULL) to = connection;
    if (to != connection) { /* the other connection reserves the job, so its own lease request is cancelled */
        gateway_cancel(gateway, to->lease);
        to->lease = 0;
    }
    bool is_another = to == connection && connection->wanted != 0 && connection->wanted != task->id;
    if (is_another || !hold_task(to, task, lease)) {
        connection->server->changes++;
        gateway_left(gateway, lease, false);
        if (is_another)
            reserve_try(connection);
        else
            end_with(to, "OUT_OF_MEMORY");
    } else if (is_fresh(task) && to->wanted == 0 && to->ranks < BEANSTALK_RANKS_MAX) {
        look_at_fresh(to);
    } else {
        deliver(to);
    }
    if (to != connection) reserve_try(connection);
}

/* ---- no task arrives */

static void on_undone(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    connection->asked = 0;
    end_with(connection, "NOT_FOUND");
}

/* Moves the wanted job back to its old place in the tube. Called if no client could lease the job, because its tube is
 * paused. */
static void undo_first(struct beanstalk_connection *connection) {
    struct ranking ranking;
    ranking_init(&ranking, connection->wanted, connection->undo_ms, connection->undo_priority);
    connection->wanted = 0;
    connection_commit(connection, &ranking.op, 1, on_undone);
}

static void got_nothing(struct beanstalk_connection *connection) {
    uint64_t now_ms = beanstalk_now_ms(), soonest_ms = held_soonest_ms(connection);
    if (connection->wanted != 0) {
        if (now_ms >= connection->wait_until_ms)
            undo_first(connection);
        else
            reserve_try(connection);
    } else if (soonest_ms != UINT64_MAX && soonest_ms <= now_ms + BEANSTALK_MARGIN_MS) {
        end_with(connection, "DEADLINE_SOON");
    } else if (now_ms >= connection->wait_until_ms) {
        end_with(connection, "TIMED_OUT");
    } else {
        reserve_try(connection);
    }
}

static void on_leased(void *argument, const struct gateway_leased *leased) {
    struct beanstalk_connection *connection = argument;
    uint64_t lease = connection->lease;
    connection->lease = 0;
    if (leased->code != TARRY__CODE__OK) {
        waiting_end(connection);
        connection->wanted = 0;
        connection_refuse(connection, leased->code);
    } else if (leased->count == 0 && connection->chosen != BEANSTALK_ANY_TUBE) {
        connection->server->changes++; /* another client has leased the job, or the tube is paused */
        reserve_from(connection, BEANSTALK_ANY_TUBE);
    } else if (leased->count == 0) {
        got_nothing(connection);
    } else {
        got(connection, leased->tasks[0], lease);
    }
}

/* Returns for how many ms to wait for a job of the chosen tube: the rest of the client's time limit, at most
 * BEANSTALK_CHOSEN_WAIT_MS. The minimum is 1 s, because the broker needs time to answer. */
static uint64_t chosen_wait_ms(const struct beanstalk_connection *connection, uint64_t now_ms) {
    uint64_t left_ms = connection->wait_until_ms > now_ms ? connection->wait_until_ms - now_ms : 0;
    if (left_ms > BEANSTALK_CHOSEN_WAIT_MS) left_ms = BEANSTALK_CHOSEN_WAIT_MS;
    return left_ms > 1000 ? left_ms : 1000;
}

static void reserve_from(struct beanstalk_connection *connection, uint32_t tube) {
    const char *queues[BEANSTALK_WATCHED_MAX];
    uint64_t now_ms = beanstalk_now_ms(), until_ms = connection->wait_until_ms;
    size_t count = connection->watched_count;
    connection->chosen = tube;
    if (connection->wanted != 0) {
        queues[0] = connection->tube;
        count = 1;
    } else if (tube != BEANSTALK_ANY_TUBE) {
        queues[0] = connection->watched[tube]->name;
        count = 1;
        until_ms = now_ms; /* lease only a job that is ready now */
    } else {
        uint64_t soonest_ms = held_soonest_ms(connection);
        uint64_t margin_ms = soonest_ms > BEANSTALK_MARGIN_MS ? soonest_ms - BEANSTALK_MARGIN_MS : 0;
        if (soonest_ms != UINT64_MAX && margin_ms < until_ms) until_ms = margin_ms;
        for (size_t i = 0; i < count; i++) queues[i] = connection->watched[i]->name;
    }
    uint64_t wait_ms = until_ms > now_ms ? until_ms - now_ms : 0;
    const struct gateway_lease_options options = {
        .queues = queues,
        .queue_count = count,
        .max = 1,
        .lease_ms = BEANSTALK_LEASE_MS,
        .wait_ms = wait_ms < GATEWAY_WAIT_MAX_MS ? wait_ms : GATEWAY_WAIT_MAX_MS,
        .now_ms = tube != BEANSTALK_ANY_TUBE ? chosen_wait_ms(connection, now_ms) : 0,
    };
    const struct gateway_caller caller = connection_caller(connection);
    connection->is_busy = true;
    connection->lease = gateway_lease(connection->server->gateway, &caller, &options, on_leased, connection);
    if (connection->lease == 0) end_with(connection, "OUT_OF_MEMORY");
}

static void reserve_try(struct beanstalk_connection *connection) {
    if (connection->wanted != 0)
        reserve_from(connection, BEANSTALK_ANY_TUBE);
    else
        choose_begin(connection);
}

/* Ends the wait, because the client has shut down its sending side: beanstalkd gives no job to such a client. A reserve
 * that arrived with the shutdown still tries once. */
void reserve_hurry(struct beanstalk_connection *connection) {
    uint64_t now_ms = beanstalk_now_ms();
    if (!connection->is_waiting || connection->wanted != 0) return;
    connection->wait_until_ms = now_ms;
    /* The broker has not answered the current request; the reply's callback will check wait_until_ms. */
    if (connection->lease == 0) return;
    gateway_cancel(connection->server->gateway, connection->lease);
    connection->lease = 0;
    if (now_ms > connection->wait_began_ms + BEANSTALK_FIRST_LOOK_MS)
        end_with(connection, "TIMED_OUT");
    else
        reserve_try(connection);
}

void reserve_begin(struct beanstalk_connection *connection) {
    const struct beanstalk_command *command = &connection->command;
    connection->is_worker = true;
    if (connection->reserved_count >= BEANSTALK_RESERVED_MAX) {
        connection_answer(connection, "OUT_OF_MEMORY");
        return;
    }
    bool is_endless = command->kind == BEANSTALK_RESERVE || command->timeout_s < 0 ||
                      command->timeout_s > (int64_t)(DUE_AHEAD_MAX_MS / 1000);
    connection->wait_until_ms = is_endless ? UINT64_MAX : beanstalk_now_ms() + (uint64_t)command->timeout_s * 1000;
    connection->wait_began_ms = beanstalk_now_ms();
    if (connection->is_deaf) connection->wait_until_ms = connection->wait_began_ms;
    connection->wanted = 0;
    connection->ranks = 0;
    /* Stay busy until the reserve is answered. Otherwise the connection would look idle while it waits for another
     * connection's search of the tube. */
    connection->is_busy = true;
    waiting_begin(connection);
    reserve_try(connection);
}

/* ---- reserve-job */

static void on_first(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    if (!reply_is_fine(connection, reply)) return;
    for (size_t i = 0; i < reply->commit->n_results; i++) {
        if (result_code(reply, i) == TARRY__CODE__OK) continue;
        bool is_gone = result_code(reply, i) == TARRY__CODE__NOT_DONE || result_code(reply, i) == TARRY__CODE__ABORTED;
        connection->wanted = 0;
        connection_answer(connection, is_gone ? "NOT_FOUND" : "INTERNAL_ERROR");
        return;
    }
    connection->wait_until_ms = beanstalk_now_ms() + BEANSTALK_JOB_WAIT_MS;
    reserve_try(connection);
}

/* Moves the job to the first place of its tube: due time 0 is the earliest, and no priority is higher. */
static void put_first(struct beanstalk_connection *connection, uint64_t id, bool is_dead) {
    Tarry__Op ops[2];
    struct kicked kicked;
    size_t count = kick_ops(&kicked, id, is_dead, 0, BEANSTALK_PRIORITY_FRESH, ops);
    connection->wanted = id;
    connection_commit(connection, ops, count, on_first);
}

static void on_wanted(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    if (!reply_is_fine(connection, reply)) return;
    const Tarry__TaskReply *get = reply->get;
    const Tarry__TaskView *view = get->task;
    bool is_dead = get->outcome == TARRY__OUTCOME__DEAD;
    if ((get->outcome != TARRY__OUTCOME__PENDING && !is_dead) || view == NULL) {
        connection_answer(connection, "NOT_FOUND");
        return;
    }
    struct beanstalk_note *note = beanstalk_note_make(&connection->server->notes, view->id);
    bool is_known = note != NULL && note->has_pri;
    uint32_t pri;
    if (note != NULL && is_dead && beanstalk_reason_parse(view->reason, &pri)) {
        note->pri = pri;
        note->has_pri = true;
    } else if (note != NULL && !is_known &&
               beanstalk_is_rank(view->due_ms)) { /* the task loses its rank, so keep its pri in a note */
        note->pri = beanstalk_pri_of_rank(view->due_ms);
        note->has_pri = true;
    }
    memcpy(connection->tube, view->queue, strlen(view->queue) + 1);
    connection->undo_ms = view->due_ms;
    connection->undo_priority = view->priority;
    put_first(connection, view->id, is_dead);
}

void reserve_job_begin(struct beanstalk_connection *connection) {
    if (connection->command.id == 0 || connection->reserved_count >= BEANSTALK_RESERVED_MAX) {
        connection_answer(connection, connection->command.id == 0 ? "NOT_FOUND" : "OUT_OF_MEMORY");
        return;
    }
    connection->is_worker = true;
    connection_get(connection, connection->command.id, false, on_wanted);
}
