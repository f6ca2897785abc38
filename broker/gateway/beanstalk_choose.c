/* beanstalk_choose.c: chooses the watched tube that a reserve leases from, and finds the first ready job of a range.
 *
 * The core orders tasks within a queue, but not between queues. beanstalkd delivers the job with the least (pri, id) of
 * all watched tubes. So this file compares the first ranked job of each watched tube, and leases from the tube with the
 * least one. If that tube is empty by then, or no tube had a job, the reserve waits for all watched tubes.
 *
 * A ready job without a rank has no place in this order: its delay has just ended, or a Tarry client scheduled it.
 * While a watched tube has such a job, the tubes take turns, so that the job does not starve. The knowledge that no
 * such job exists stays valid for BEANSTALK_TURN_MS.
 *
 * Of the connections that need to know a tube, one asks the broker (its *looker*), and the others wait for its result:
 * otherwise sixteen workers ask sixteen times whenever the cache is used up.
 *
 * Each tube caches its first jobs for the same time, or until a connection of this process changes the tube's order
 * (put, release, kick, delete of a ready job …; acks change nothing). Leased jobs are removed from the cache. So a
 * reserve looks only at the tubes that have changed; while clients only reserve, it looks at none. */
#include "beanstalk_parts.h"

static void choose_next(struct beanstalk_connection *connection);
static void remember(struct beanstalk_connection *connection, const Tarry__ListReply *list);
static void look_page(struct beanstalk_connection *connection, const ProtobufCBinaryData *cursor);

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
    } else { /* the jobs that the index lists there were leased meanwhile */
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

void look_for_first(struct beanstalk_connection *connection, const char *tube, uint64_t from_ms, uint64_t to_ms,
                    beanstalk_looked *looked) {
    connection->look_into = NULL;
    connection->look_tube = tube;
    connection->look_from_ms = from_ms;
    connection->look_to_ms = to_ms;
    connection->look_pages = 0;
    connection->looked = looked;
    look_page(connection, NULL);
}

/* ---- the cache of a tube */

static uint64_t version_of(const struct beanstalk *server, const struct beanstalk_tube *tube) {
    return server->changes + tube->changes; /* the sum identifies a version, because both only grow */
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

void choose_took(struct beanstalk *server, const char *name, uint64_t id) {
    struct beanstalk_tube *tube = beanstalk_tube_find(&server->tubes, name);
    if (tube == NULL) return;
    for (uint32_t i = 0; i < tube->seen_count; i++) {
        if (tube->seen[i].id != id) continue;
        for (; i + 1 < tube->seen_count; i++) tube->seen[i] = tube->seen[i + 1];
        tube->seen_count--;
    }
}

/* ---- choosing the tube */

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

/* Makes the connection the tube's looker. False: there is one, and the connection waits for its result. */
static bool begin_look(struct beanstalk_connection *connection, struct beanstalk_tube *tube) {
    if (tube->looker == NULL) {
        tube->looker = connection;
        return true;
    }
    connection->awaits_look = tube;
    TAILQ_INSERT_TAIL(&tube->lookers, connection, in_lookers);
    return false;
}

/* Ends the tube's look, and moves the connections that wait for its result to `out`. */
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

/* Handles the search for an unranked job: if one exists, or it is unknown, the tubes take turns. */
static void on_unranked(struct beanstalk_connection *connection, const Tarry__TaskView *first, bool is_known) {
    struct beanstalk_tube *tube = tube_at_hand(connection);
    struct beanstalk_lookers waiting;
    bool has_unranked = !is_known || first != NULL;
    end_look(tube, &waiting);
    if (!has_unranked) tube->ranked_only_ms = beanstalk_now_ms();
    connection->choosing++; /* it knows the tube's first ranked job; the others may not */
    do {
        if (has_unranked)
            reserve_from(connection, BEANSTALK_ANY_TUBE);
        else
            choose_next(connection);
    } while ((connection = next_of(&waiting)) != NULL);
}

/* Returns true to continue with the next tube, and false to ask first whether this tube has an unranked job. */
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

/* If the result is in the cache already, the connections that waited for it take one job after the other from there;
 * otherwise they go on with the job that the looker has found. */
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

void choose_abandon(struct beanstalk_connection *connection) {
    struct beanstalk_tube *tube = connection->awaits_look;
    struct beanstalk_lookers waiting;
    if (tube != NULL) TAILQ_REMOVE(&tube->lookers, connection, in_lookers);
    connection->awaits_look = NULL;
    if (connection->choosing >= connection->watched_count) return;
    tube = tube_at_hand(connection);
    if (tube->looker != connection) return;
    end_look(tube, &waiting);
    while ((connection = next_of(&waiting)) != NULL) choose_next(connection); /* the first of them looks */
}

static void look_at_ranked(struct beanstalk_connection *connection, struct beanstalk_tube *tube) {
    connection->look_into = tube;
    connection->look_version = version_of(connection->server, tube);
    connection->look_tube = tube->name;
    connection->look_from_ms = beanstalk_rank_ms(0);
    connection->look_to_ms = BEANSTALK_RANK_END_MS;
    connection->look_pages = 0;
    connection->looked = on_ranked_first;
    look_page(connection, NULL);
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
    /* The next connection that chooses starts with the tube after this one. */
    if (connection->chosen != BEANSTALK_ANY_TUBE)
        choose_took(connection->server, connection->watched[connection->chosen]->name, connection->chosen_id);
    reserve_from(connection, connection->chosen);
}

void choose_begin(struct beanstalk_connection *connection) {
    connection->choosing = 0;
    connection->chosen = BEANSTALK_ANY_TUBE;
    if (connection->watched_count < 2 || connection->watched_count > BEANSTALK_CHOOSE_MAX)
        reserve_from(connection, BEANSTALK_ANY_TUBE);
    else
        choose_next(connection);
}
