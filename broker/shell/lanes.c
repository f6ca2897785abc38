/* lanes.c: see lanes.h. The door may be told things under a lane's mutex: it takes no lock of ours while it holds its
 * own. */
#include "lanes.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "logfmt.h"
#include "secret.h"
#include "shell.h"

static struct logfmt_limit refused_limit;

static void post(struct lane *lane, const struct lane_news *told) {
    struct lane_news *news = malloc(sizeof(*news));
    if (news == NULL) shell_fail("lane_news_failed", -ENOMEM);
    *news = *told;
    news->item.kind = ITEM_LANE;
    inbox_post(&lane->lanes->shell->inbox, &news->item);
}

static struct lane *lane_at(struct lanes *lanes, uint32_t number) {
    assert(number < LANES_MAX);
    return &lanes->lanes[number];
}

void lanes_init(struct lanes *lanes, struct shell *shell) {
    lanes->shell = shell;
    for (uint32_t i = 0; i < LANES_MAX; i++) {
        lanes->lanes[i] = (struct lane){.lanes = lanes};
        pthread_mutex_init(&lanes->lanes[i].mutex, NULL);
    }
}

/* ---- the core thread */

/* What waits for a former holder is not sent. */
static void change_hands(struct lane *lane, uint64_t session) {
    lane->session = session;
    lane->turn++;
    lane->connection = 0;
    lane->sending = false;
}

void lanes_open(struct lanes *lanes, const struct core_lane *open) {
    struct lane *lane = lane_at(lanes, open->lane);
    pthread_mutex_lock(&lane->mutex);
    if (lane->session != open->session) {
        if (lane->connection != 0) door_close(lanes->shell->door, lane->connection);
        change_hands(lane, open->session);
    }
    snprintf(lane->principal, sizeof(lane->principal), "%s", open->principal);
    pthread_mutex_unlock(&lane->mutex);
}

void lanes_close(struct lanes *lanes, uint32_t number, uint64_t session) {
    struct lane *lane = lane_at(lanes, number);
    pthread_mutex_lock(&lane->mutex);
    if (lane->session == session) {
        /* nng's dialer would redial at once a connection that is closed on it, and its own close hangs if it meets
         * that. */
        if (lane->connection != 0) door_linger(lanes->shell->door, lane->connection);
        change_hands(lane, 0);
    }
    pthread_mutex_unlock(&lane->mutex);
}

uint64_t lanes_turn(const struct lanes *lanes, uint32_t number) {
    assert(number < LANES_MAX);
    return lanes->lanes[number].turn; /* only the core thread changes it */
}

/* ---- any thread */

bool lanes_principal(struct lanes *lanes, uint32_t number, uint64_t session, char out[PRINCIPAL_SIZE_MAX + 1]) {
    struct lane *lane = lane_at(lanes, number);
    pthread_mutex_lock(&lane->mutex);
    bool is_holder = lane->session == session;
    if (is_holder) memcpy(out, lane->principal, sizeof(lane->principal));
    pthread_mutex_unlock(&lane->mutex);
    return is_holder;
}

void lanes_send(struct lanes *lanes, const struct core_delivery *delivery, struct message *message,
                uint64_t delivered_ns) {
    struct lane *lane = lane_at(lanes, delivery->lane);
    pthread_mutex_lock(&lane->mutex);
    bool is_holder = lane->turn == delivery->turn;                                /* TRUE-1 */
    assert(!is_holder || (lane->session == delivery->session && !lane->sending)); /* one at a time is decided */
    if (message != NULL && is_holder && lane->connection != 0) {
        lane->sending = true;
        message->lane = delivery->lane;
        message->turn = lane->turn;
        message->stamp = delivered_ns;
        door_deliver(lanes->shell->door, lane->connection, message);
    } else {
        message_free(message);
        if (is_holder)
            post(lane, &(struct lane_news){.event = LANE_SENT, .session = lane->session, .delivered_ns = delivered_ns});
    }
    pthread_mutex_unlock(&lane->mutex);
}

/* ---- the door */

uint64_t lanes_ask(struct lanes *lanes, uint32_t number, const char *authorization) {
    struct lane *lane = lane_at(lanes, number);
    uint64_t session = 0;
    pthread_mutex_lock(&lane->mutex);
    if (authorization != NULL)
        session = secret_check_authorization(lanes->shell->dir.secret, lane->principal, authorization);
    bool is_holder = session != 0 && session == lane->session;
    pthread_mutex_unlock(&lane->mutex);
    if (is_holder) return session;
    if (logfmt_allowed(&refused_limit))
        logfmt("lane_refused", "lane=%u reason=\"%s\"", number,
               session == 0 ? "no secret of the session that holds it" : "another session's lane");
    return 0;
}

bool lanes_up(struct lanes *lanes, uint32_t number, uint64_t session, uint64_t connection) {
    struct lane *lane = lane_at(lanes, number);
    pthread_mutex_lock(&lane->mutex);
    bool is_holder = session == lane->session;
    if (is_holder) {
        if (lane->connection != 0) door_close(lanes->shell->door, lane->connection);
        lane->connection = connection;
        post(lane, &(struct lane_news){.event = LANE_UP, .session = session, .ok = true});
    }
    pthread_mutex_unlock(&lane->mutex);
    return is_holder;
}

void lanes_gone(struct lanes *lanes, uint32_t number, uint64_t connection) {
    struct lane *lane = lane_at(lanes, number);
    pthread_mutex_lock(&lane->mutex);
    if (lane->connection == connection) {
        lane->connection = 0;
        post(lane, &(struct lane_news){.event = LANE_GONE, .session = lane->session, .ok = true});
    }
    pthread_mutex_unlock(&lane->mutex);
}

bool lanes_leave(struct lanes *lanes, uint32_t number, uint64_t turn) {
    struct lane *lane = lane_at(lanes, number);
    pthread_mutex_lock(&lane->mutex);
    bool leaves = lane->turn == turn;
    pthread_mutex_unlock(&lane->mutex);
    return leaves;
}

void lanes_credit(struct lanes *lanes, uint32_t number, uint64_t session, uint32_t credit) {
    struct lane *lane = lane_at(lanes, number);
    pthread_mutex_lock(&lane->mutex);
    if (lane->session == session)
        post(lane, &(struct lane_news){.event = LANE_CREDIT, .session = session, .ok = true, .credit = credit});
    pthread_mutex_unlock(&lane->mutex);
}

void lanes_sent(struct lanes *lanes, uint32_t number, uint64_t turn, bool left, uint64_t delivered_ns) {
    struct lane *lane = lane_at(lanes, number);
    pthread_mutex_lock(&lane->mutex);
    /* Of a session that has left the lane the core expects no news; it would take them for those of its next delivery,
     * if it has been resumed on another lane. */
    if (lane->turn == turn) {
        lane->sending = false;
        const struct lane_news news = {.event = LANE_SENT,
                                       .session = lane->session,
                                       .ok = left,
                                       .delivered_ns = delivered_ns};
        post(lane, &news);
    }
    pthread_mutex_unlock(&lane->mutex);
}
