/* beanstalk_choose.c: which of several watched tubes a reserve takes from; the first ready job of a range.
 *
 * The core knows the order within a queue, and between queues only whose turn it is. beanstalkd gives the job of the
 * least (pri, id) of all watched tubes. So the first ranked job of each is looked at, and the least one's tube is
 * leased from; if that has nothing any more, or none had, all of them are waited for.
 *
 * A job that is ready and not ranked (its delay has just ended, or a client of Tarry's own has scheduled it) has no
 * place in that order: while a watched tube has one, the tubes take turns, so that it waits behind no backlog.
 * That there is none is believed for BEANSTALK_TURN_MS.
 *
 * What is found is remembered of the tube for as long, or until a connection here changes the order within it (a put,
 * a release, a kick, a delete of what is ready …; acks change nothing); what is leased is struck off. So of several
 * tubes a reserve looks at those alone that have changed, and not at all while one only takes. */
#include "beanstalk_parts.h"

static void choose_next(struct beanstalk_connection *connection);
static void remember(struct beanstalk_connection *connection, const Tarry__ListReply *list);
static void look_page(struct beanstalk_connection *connection, const ProtobufCBinaryData *cursor);

/* ---- the first of a range */

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
    } else { /* what the index has there is leased since */
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

/* ---- what is remembered of a tube */

static uint64_t version_of(const struct beanstalk *server, const struct beanstalk_tube *tube) {
    return server->changes + tube->changes; /* both only grow */
}

/* NULL: there is no such queue, so there are no jobs. */
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

/* ---- the tube */

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

/* A job without a rank, or it is not known: turns. */
static void on_unranked(struct beanstalk_connection *connection, const Tarry__TaskView *first, bool is_known) {
    if (!is_known || first != NULL) {
        reserve_from(connection, BEANSTALK_ANY_TUBE);
        return;
    }
    tube_at_hand(connection)->ranked_only_ms = beanstalk_now_ms();
    connection->choosing++;
    choose_next(connection);
}

/* True: the next tube; false: whether it has a job without a rank is asked. */
static bool is_done_with(struct beanstalk_connection *connection, const struct beanstalk_tube *tube) {
    if (is_ranked_only(tube)) return true;
    look_for_first(connection, tube->name, BEANSTALK_RANK_END_MS, 0, on_unranked);
    return false;
}

static void on_ranked_first(struct beanstalk_connection *connection, const Tarry__TaskView *first, bool is_known) {
    if (!is_known) {
        reserve_from(connection, BEANSTALK_ANY_TUBE);
        return;
    }
    if (first != NULL) consider(connection, first->due_ms, first->id);
    if (!is_done_with(connection, tube_at_hand(connection))) return;
    connection->choosing++;
    choose_next(connection);
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
            look_at_ranked(connection, tube);
            return;
        }
        const struct beanstalk_seen *first = first_seen(tube);
        if (first != NULL) consider(connection, first->due_ms, first->id);
        if (!is_done_with(connection, tube)) return;
    }
    /* The next connection that chooses takes the one behind it. */
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
