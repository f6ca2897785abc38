/* lanes.c: see lanes.h.
 *
 * nng calls back without holding locks of its own that it needs in the calls made here, so a lane's mutex may be held
 * across nng_send_aio, nng_aio_cancel and nng_pipe_close: they complete aios on other threads, never in place.
 *
 * The fillers. In nng 1.5.2 (and since) the end of a pipe's send may put the pipe among those that are ready for the
 * next message although it has been closed meanwhile; it is freed a moment later, and the lane's next send, or next
 * pipe, writes where it was. (A consumer that left right after it was served: 1 of 7,000 ended the broker.) So as soon
 * as a pipe is known to be lost, and before nng frees it, empty messages are sent on its lane: one takes the lost pipe
 * from among the ready ones, and vanishes with it (nng never frees it: 176 bytes); the others wait, and meet the pipe
 * if it comes late; or the next consumer gets them, and ignores what names no session of its. They are as many as there
 * may be pipes before the lost one, for a newcomer that is ready takes the first. (Two newcomers in a row with a
 * session's secret, and its first pipe was forgotten: strangers ended the broker in a minute.) The core gives a lane to
 * the next session a second later, so that a pipe that comes late does not find the fillers gone. */
#include "lanes.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <nng/protocol/pipeline0/push.h>
#include <nng/transport/ws/websocket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http.h"
#include "logfmt.h"
#include "secret.h"
#include "shell.h"

/* A consumer has nothing to say on a lane. */
#define LANE_RECEIVE_MAX 4096

static struct logfmt_limit refused_limit;

static void post(struct lane *lane, enum lane_event event, uint64_t session, bool ok, uint64_t delivered_ns) {
    struct lane_news *news = malloc(sizeof(*news));
    if (news == NULL) shell_fail("lane_news_failed", -ENOMEM);
    *news = (struct lane_news){
        .item.kind = ITEM_LANE, .event = event, .session = session, .ok = ok, .delivered_ns = delivered_ns};
    inbox_post(&lane->lanes->shell->inbox, &news->item);
}

/* Nothing more goes out, and what is queued reaches nobody. */
static void fall_silent(struct lane *lane) {
    lane->up = false;
    if (lane->sending) nng_aio_cancel(lane->aio);
}

static void drop_pipe(struct lane *lane) {
    fall_silent(lane);
    nng_pipe pipe = lane->pipe;
    lane->pipe = (nng_pipe)NNG_PIPE_INITIALIZER;
    if (pipe.id != 0) nng_pipe_close(pipe);
}

/* Where the pipe is noted; id 0: a free place. NULL: nowhere. */
static nng_pipe *find_pipe(struct lane *lane, uint32_t id) {
    for (size_t i = 0; i < LANE_PIPES_MAX; i++)
        if (lane->pipes[i].id == id) return &lane->pipes[i];
    return NULL;
}

/* Sends the fillers, whatever became of the last ones. nng frees the lost pipe only after this. */
static void refill(struct lane *lane) {
    for (size_t i = 0; i < LANE_FILLERS; i++) {
        nng_aio *filler = lane->fillers[i];
        nng_aio_cancel(filler);
        nng_aio_wait(filler); /* it has no callback: this waits for no thread that could want the lane */
        nng_msg *message = nng_aio_get_msg(filler);
        if (message == NULL && nng_msg_alloc(&message, 0) != 0) shell_fail("lane_failed", -ENOMEM);
        nng_aio_set_msg(filler, message);
        nng_send_aio(lane->socket, filler);
    }
}

static void pipe_added(struct lane *lane, nng_pipe pipe) {
    char *headers = NULL;
    uint64_t session = 0;
    if (nng_pipe_get_string(pipe, NNG_OPT_WS_REQUEST_HEADERS, &headers) == 0 && headers != NULL) {
        session = secret_check_headers(lane->lanes->shell->dir.secret, headers);
        nng_strfree(headers);
    }
    pthread_mutex_lock(&lane->mutex);
    /* Without a place the newcomer is one of too many in a moment, and may dial again. */
    nng_pipe *place = find_pipe(lane, 0);
    bool valid = session != 0 && session == lane->session && place != NULL;
    if (valid) {
        drop_pipe(lane);
        lane->pipe = *place = pipe;
    }
    pthread_mutex_unlock(&lane->mutex);
    if (valid) return;
    nng_pipe_close(pipe);
    if (logfmt_allowed(&refused_limit))
        logfmt("lane_refused", "lane=%u reason=\"%s\"", lane->number,
               session == 0    ? "no valid session secret"
               : place == NULL ? "too many pipes of the session's at once"
                               : "another session's lane");
}

static void pipe_event(nng_pipe pipe, nng_pipe_ev event, void *argument) {
    struct lane *lane = argument;
    if (event == NNG_PIPE_EV_ADD_PRE) {
        pipe_added(lane, pipe);
        return;
    }
    pthread_mutex_lock(&lane->mutex);
    /* A pipe that was refused was never among the ready ones. */
    nng_pipe *place = find_pipe(lane, pipe.id);
    if (event == NNG_PIPE_EV_REM_POST && place != NULL) {
        *place = (nng_pipe)NNG_PIPE_INITIALIZER;
        refill(lane);
    }
    if (lane->pipe.id == pipe.id) {
        bool up = event == NNG_PIPE_EV_ADD_POST;
        if (up) {
            lane->up = lane->session != 0;
        } else {
            lane->pipe = (nng_pipe)NNG_PIPE_INITIALIZER; /* it is closed already */
            fall_silent(lane);
        }
        if (lane->session != 0) post(lane, up ? LANE_UP : LANE_GONE, lane->session, true, 0);
    }
    pthread_mutex_unlock(&lane->mutex);
}

static void send_done(void *argument) {
    struct lane *lane = argument;
    pthread_mutex_lock(&lane->mutex);
    bool ok = nng_aio_result(lane->aio) == 0;
    nng_msg *rest = nng_aio_get_msg(lane->aio);
    if (!ok && rest != NULL) {
        nng_msg_free(rest);
        nng_aio_set_msg(lane->aio, NULL);
    }
    lane->sending = false;
    /* Of a session that has left the lane the core expects no news; it would take them for those of its next delivery,
     * if it has been resumed on another lane. */
    if (lane->sending_turn == lane->turn) post(lane, LANE_SENT, lane->session, ok, lane->sending_ns);
    pthread_mutex_unlock(&lane->mutex);
}

void lanes_init(struct lanes *lanes, struct shell *shell) {
    lanes->shell = shell;
    for (uint32_t i = 0; i < LANES_MAX; i++) {
        lanes->lanes[i] = (struct lane){.lanes = lanes, .number = i};
        pthread_mutex_init(&lanes->lanes[i].mutex, NULL);
    }
}

static struct lane *lane_at(struct lanes *lanes, uint32_t number) {
    assert(number < LANES_MAX);
    return &lanes->lanes[number];
}

/* Opens the endpoint, once. Core thread only, so `listening` needs no lock. */
static int lane_listen(struct lane *lane) {
    char url[CONFIG_TEXT_SIZE + 32];
    snprintf(url, sizeof(url), "%s/lane/%u", lane->lanes->shell->url, lane->number);
    nng_listener listener;
    int error = nng_aio_alloc(&lane->aio, send_done, lane);
    if (error != 0) return error;
    for (size_t i = 0; error == 0 && i < LANE_FILLERS; i++)
        if ((error = nng_aio_alloc(&lane->fillers[i], NULL, NULL)) == 0)
            nng_aio_set_timeout(lane->fillers[i], NNG_DURATION_INFINITE);
    if (error == 0) error = nng_push0_open(&lane->socket);
    if (error == 0) {
        for (int event = NNG_PIPE_EV_ADD_PRE; error == 0 && event <= NNG_PIPE_EV_REM_POST; event++)
            error = nng_pipe_notify(lane->socket, (nng_pipe_ev)event, pipe_event, lane);
        if (error == 0) error = http_keepalive(lane->socket);
        if (error == 0) error = nng_listener_create(&listener, lane->socket, url);
        if (error == 0) error = nng_listener_set_size(listener, NNG_OPT_RECVMAXSZ, LANE_RECEIVE_MAX);
        if (error == 0) error = nng_listener_start(listener, 0);
        if (error != 0) nng_close(lane->socket);
    }
    if (error != 0) {
        nng_aio_free(lane->aio);
        for (size_t i = 0; i < LANE_FILLERS; i++) nng_aio_free(lane->fillers[i]);
        memset(lane->fillers, 0, sizeof(lane->fillers));
        return error;
    }
    lane->listening = true;
    return 0;
}

int lanes_open(struct lanes *lanes, uint32_t number, uint64_t session) {
    struct lane *lane = lane_at(lanes, number);
    if (!lane->listening) {
        int error = lane_listen(lane);
        if (error != 0) return error;
    }
    pthread_mutex_lock(&lane->mutex);
    if (lane->session != session) {
        drop_pipe(lane);
        lane->session = session;
        lane->turn++;
    }
    pthread_mutex_unlock(&lane->mutex);
    return 0;
}

void lanes_close(struct lanes *lanes, uint32_t number, uint64_t session) {
    struct lane *lane = lane_at(lanes, number);
    pthread_mutex_lock(&lane->mutex);
    if (lane->session == session) {
        /* The pipe is left to its consumer to close: nng's dialer would redial a pipe that is closed on it, and its
         * close hangs if it meets that. The next session of the lane drops what still lingers. */
        fall_silent(lane);
        lane->session = 0;
        lane->turn++;
    }
    pthread_mutex_unlock(&lane->mutex);
}

uint64_t lanes_turn(const struct lanes *lanes, uint32_t number) {
    assert(number < LANES_MAX);
    return lanes->lanes[number].turn; /* only the core thread changes it */
}

void lanes_send(struct lanes *lanes, const struct core_delivery *delivery, nng_msg *message, uint64_t delivered_ns) {
    struct lane *lane = lane_at(lanes, delivery->lane);
    pthread_mutex_lock(&lane->mutex);
    while (lane->turn == delivery->turn && lane->sending && lane->sending_turn != lane->turn) {
        /* A former holder's send was cancelled; its completion is a moment away. */
        pthread_mutex_unlock(&lane->mutex);
        nng_aio_wait(lane->aio);
        pthread_mutex_lock(&lane->mutex);
    }
    bool is_holder = lane->turn == delivery->turn;                                /* TRUE-1 */
    assert(!is_holder || (lane->session == delivery->session && !lane->sending)); /* one at a time is decided */
    if (message != NULL && is_holder && lane->up) {
        lane->sending = true;
        lane->sending_turn = lane->turn;
        lane->sending_ns = delivered_ns;
        nng_aio_set_msg(lane->aio, message);
        nng_send_aio(lane->socket, lane->aio);
    } else {
        nng_msg_free(message);
        if (is_holder) post(lane, LANE_SENT, lane->session, false, delivered_ns);
    }
    pthread_mutex_unlock(&lane->mutex);
}
