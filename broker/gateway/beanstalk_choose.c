/* beanstalk_choose.c: which of several watched tubes a reserve takes from; the first ready job of a range.
 *
 * The core knows the order within a queue, and between queues only whose turn it is. beanstalkd gives the job of the
 * least (pri, id) of all watched tubes. So the first ranked job of each is looked at, and the least one's tube is
 * leased from; if that has nothing any more, or none had, all of them are waited for.
 *
 * A job that is ready and not ranked (its delay has just ended, or a client of Tarry's own has scheduled it) has no
 * place in that order: while a watched tube has one, the tubes take turns, so that it waits behind nobody's backlog.
 * That there is none is believed for BEANSTALK_TURN_MS. */
#include "beanstalk_parts.h"

static void choose_next(struct beanstalk_connection *connection);
static void look_page(struct beanstalk_connection *connection, const ProtobufCBinaryData *cursor);

/* ---- the first of a range */

static void on_page(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    connection->asked = 0;
    const bool is_list = reply != NULL && reply->code == TARRY__CODE__OK && reply->body_case == TARRY__REPLY__BODY_LIST;
    const bool is_nothing = reply != NULL && reply->code == TARRY__CODE__NO_SUCH_QUEUE;
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
    connection->look_tube = tube;
    connection->look_from_ms = from_ms;
    connection->look_to_ms = to_ms;
    connection->look_pages = 0;
    connection->looked = looked;
    look_page(connection, NULL);
}

/* ---- the tube */

static struct beanstalk_tube *tube_at_hand(const struct beanstalk_connection *connection) {
    return connection->watched[connection->choosing];
}

/* A job without a rank, or nobody knows: turns. */
static void on_unranked(struct beanstalk_connection *connection, const Tarry__TaskView *first, bool is_known) {
    if (!is_known || first != NULL) {
        reserve_from(connection, BEANSTALK_ANY_TUBE);
        return;
    }
    tube_at_hand(connection)->ranked_only_ms = beanstalk_now_ms();
    connection->choosing++;
    choose_next(connection);
}

static void on_ranked_first(struct beanstalk_connection *connection, const Tarry__TaskView *first, bool is_known) {
    if (!is_known) {
        reserve_from(connection, BEANSTALK_ANY_TUBE);
        return;
    }
    const bool is_least =
        first != NULL && (connection->chosen == BEANSTALK_ANY_TUBE || first->due_ms < connection->chosen_due_ms ||
                          (first->due_ms == connection->chosen_due_ms && first->id < connection->chosen_id));
    if (is_least) {
        connection->chosen = connection->choosing;
        connection->chosen_due_ms = first->due_ms;
        connection->chosen_id = first->id;
    }
    const struct beanstalk_tube *tube = tube_at_hand(connection);
    if (beanstalk_now_ms() < tube->ranked_only_ms + BEANSTALK_TURN_MS) {
        connection->choosing++;
        choose_next(connection);
    } else {
        look_for_first(connection, tube->name, BEANSTALK_RANK_END_MS, 0, on_unranked);
    }
}

static void choose_next(struct beanstalk_connection *connection) {
    if (connection->choosing == connection->watched_count)
        reserve_from(connection, connection->chosen);
    else
        look_for_first(connection, tube_at_hand(connection)->name, beanstalk_rank_ms(0), BEANSTALK_RANK_END_MS,
                       on_ranked_first);
}

void choose_begin(struct beanstalk_connection *connection) {
    connection->choosing = 0;
    connection->chosen = BEANSTALK_ANY_TUBE;
    if (connection->watched_count < 2 || connection->watched_count > BEANSTALK_CHOOSE_MAX)
        reserve_from(connection, BEANSTALK_ANY_TUBE);
    else
        choose_next(connection);
}
