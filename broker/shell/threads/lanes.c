/* lanes.c: see lanes.h. The door may be called while a lane's mutex is held, because the door holds no lock of its own
 * when it calls this file. */
#include "lanes.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datadir.h"
#include "fatal.h"
#include "logfmt.h"
#include "secret.h"

static struct logfmt_limit refused_limit;

static void post(struct lane *lane, const struct lane_news *told) {
    struct lane_news *news = fatal_calloc(sizeof(*news));
    *news = *told;
    news->lane = (uint32_t)(lane - lane->lanes->lanes);
    news->turn = lane->state.turn;
    news->item.kind = ITEM_LANE;
    inbox_post(lane->lanes->inbox, &news->item);
}

static void post_sent(struct lane *lane, bool has_left, uint64_t delivered_ns) {
    const struct lane_news news = {.event = LANE_SENT,
                                   .session = lane->state.session,
                                   .ok = has_left,
                                   .delivered_ns = delivered_ns};
    post(lane, &news);
}

static struct lane *lane_at(struct lanes *lanes, uint32_t number) {
    assert(number < LANES_MAX);
    return &lanes->lanes[number];
}

void lanes_init(struct lanes *lanes, const struct datadir *dir, struct inbox *inbox, struct door *door) {
    lanes->dir = dir;
    lanes->inbox = inbox;
    lanes->door = door;
    for (uint32_t i = 0; i < LANES_MAX; i++) {
        lanes->lanes[i] = (struct lane){.lanes = lanes};
        pthread_mutex_init(&lanes->lanes[i].mutex, NULL);
    }
}

/* ---- the core thread */

void lanes_open(struct lanes *lanes, const struct core_lane *open) {
    struct lane *lane = lane_at(lanes, open->lane);
    pthread_mutex_lock(&lane->mutex);
    uint64_t former = lane_state_open(&lane->state, open->session);
    if (former != 0) door_close(lanes->door, former);
    snprintf(lane->principal, sizeof(lane->principal), "%s", open->principal);
    pthread_mutex_unlock(&lane->mutex);
}

void lanes_close(struct lanes *lanes, uint32_t number, uint64_t session) {
    struct lane *lane = lane_at(lanes, number);
    pthread_mutex_lock(&lane->mutex);
    uint64_t former = lane_state_close(&lane->state, session);
    /* The consumer must close the connection first. If the broker closed it, the nng dialer of the consumer would
     * reconnect at once, and the consumer's call to close its socket would hang during the reconnect. */
    if (former != 0) door_linger(lanes->door, former);
    pthread_mutex_unlock(&lane->mutex);
}

uint64_t lanes_turn(const struct lanes *lanes, uint32_t number) {
    assert(number < LANES_MAX);
    return lanes->lanes[number].state.turn; /* needs no lock, because only the core thread changes the lane's turn */
}

bool lanes_is_news(const struct lanes *lanes, const struct lane_news *news) {
    assert(news->lane < LANES_MAX);
    return lane_state_is_news(&lanes->lanes[news->lane].state, news->turn);
}

/* ---- any thread */

bool lanes_principal(struct lanes *lanes, uint32_t number, uint64_t session, char out[PRINCIPAL_SIZE_MAX + 1]) {
    struct lane *lane = lane_at(lanes, number);
    pthread_mutex_lock(&lane->mutex);
    bool is_holder = lane->state.session == session;
    if (is_holder) memcpy(out, lane->principal, sizeof(lane->principal));
    pthread_mutex_unlock(&lane->mutex);
    return is_holder;
}

void lanes_send(struct lanes *lanes, const struct core_delivery *delivery, struct message *message,
                uint64_t delivered_ns) {
    struct lane *lane = lane_at(lanes, delivery->lane);
    pthread_mutex_lock(&lane->mutex);
    enum lane_send send = lane_state_send(&lane->state, delivery->turn, message != NULL);
    assert(send == LANE_SILENT || lane->state.session == delivery->session);
    if (send == LANE_DELIVERS) {
        assert(message != NULL);
        message->lane = delivery->lane;
        message->turn = lane->state.turn;
        message->stamp = delivered_ns;
        door_deliver(lanes->door, lane->state.connection, message);
    } else {
        message_free(message);
    }
    if (send == LANE_UNSENT) post_sent(lane, false, delivered_ns);
    pthread_mutex_unlock(&lane->mutex);
}

/* ---- the door */

uint64_t lanes_ask(struct lanes *lanes, uint32_t number, const char *authorization) {
    struct lane *lane = lane_at(lanes, number);
    uint64_t session = 0;
    pthread_mutex_lock(&lane->mutex);
    if (authorization != NULL) session = secret_check_authorization(lanes->dir->secret, lane->principal, authorization);
    bool is_holder = lane_state_admits(&lane->state, session);
    pthread_mutex_unlock(&lane->mutex);
    if (is_holder) return session;
    if (logfmt_allowed(&refused_limit))
        logfmt("lane_refused", "lane=%u reason=\"%s\"", number,
               session == 0 ? "the secret is not that of the session that owns the lane"
                            : "the lane belongs to another session");
    return 0;
}

bool lanes_up(struct lanes *lanes, uint32_t number, uint64_t session, uint64_t connection) {
    struct lane *lane = lane_at(lanes, number);
    uint64_t former;
    pthread_mutex_lock(&lane->mutex);
    bool is_holder = lane_state_up(&lane->state, session, connection, &former);
    if (former != 0) door_close(lanes->door, former);
    if (is_holder) post(lane, &(struct lane_news){.event = LANE_UP, .session = session, .ok = true});
    pthread_mutex_unlock(&lane->mutex);
    return is_holder;
}

void lanes_gone(struct lanes *lanes, uint32_t number, uint64_t connection) {
    struct lane *lane = lane_at(lanes, number);
    pthread_mutex_lock(&lane->mutex);
    if (lane_state_gone(&lane->state, connection))
        post(lane, &(struct lane_news){.event = LANE_GONE, .session = lane->state.session, .ok = true});
    pthread_mutex_unlock(&lane->mutex);
}

bool lanes_leave(struct lanes *lanes, uint32_t number, uint64_t turn) {
    struct lane *lane = lane_at(lanes, number);
    pthread_mutex_lock(&lane->mutex);
    bool leaves = lane_state_leaves(&lane->state, turn);
    pthread_mutex_unlock(&lane->mutex);
    return leaves;
}

void lanes_credit(struct lanes *lanes, uint32_t number, uint64_t session, uint32_t credit) {
    struct lane *lane = lane_at(lanes, number);
    pthread_mutex_lock(&lane->mutex);
    if (lane->state.session == session)
        post(lane, &(struct lane_news){.event = LANE_CREDIT, .session = session, .ok = true, .credit = credit});
    pthread_mutex_unlock(&lane->mutex);
}

void lanes_sent(struct lanes *lanes, uint32_t number, uint64_t turn, bool left, uint64_t delivered_ns) {
    struct lane *lane = lane_at(lanes, number);
    pthread_mutex_lock(&lane->mutex);
    if (lane_state_sent(&lane->state, turn)) post_sent(lane, left, delivered_ns);
    pthread_mutex_unlock(&lane->mutex);
}
