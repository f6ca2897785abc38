/* lanes.h: the PUSH endpoints /lane/N that consumers pull from: the hand of engine/lane_state.h, which says which
 * session holds a lane and what may leave on it. A client that connects proves to be the holder by the session's secret
 * in the upgrade request.
 *
 * Thread-safety: lanes_open, lanes_close, lanes_turn and lanes_is_news are the core thread's, lanes_send any thread's,
 * the others the door's. */
#ifndef TARRY_SHELL_LANES_H
#define TARRY_SHELL_LANES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core.h"
#include "door.h"
#include "inbox.h"
#include "lane_state.h"
#include "tarry_limits.h"

struct datadir;
struct lanes;

/* In the order of the core's events for them (core_thread.c). */
enum lane_event { LANE_UP, LANE_GONE, LANE_SENT, LANE_CREDIT };

/* Told to the core thread, which frees it. It is dropped unless `lanes_is_news`. */
struct lane_news {
    struct item item; /* first */
    enum lane_event event;
    uint32_t lane;
    uint64_t turn; /* of the lane, when it was told */
    uint64_t session;
    bool ok;               /* SENT */
    uint32_t credit;       /* CREDIT */
    uint64_t delivered_ns; /* SENT: logical steady time of sending */
};

struct lane {
    struct lanes *lanes;
    pthread_mutex_t mutex;
    struct lane_state state;
    char principal[PRINCIPAL_SIZE_MAX + 1]; /* whose the session that holds it is, as in records */
};

struct lanes {
    const struct datadir *dir; /* whose secret the sessions' secrets are made from */
    struct inbox *inbox;       /* the core's */
    struct door *door;
    struct lane lanes[LANES_MAX];
};

void lanes_init(struct lanes *lanes, const struct datadir *dir, struct inbox *inbox, struct door *door);
/* Expect the session's connection on the lane; drops a former holder's. */
void lanes_open(struct lanes *lanes, const struct core_lane *open);
/* The session is gone: once this has returned nothing that waits for the lane begins to leave. The connection is the
 * consumer's to close; it has some seconds for that (DOOR_LINGER_S). */
void lanes_close(struct lanes *lanes, uint32_t number, uint64_t session);
/* Whose turn it is. What was decided in another turn never leaves, also if its session has come back to the lane: the
 * core expects no news of it (TRUE-1). Core thread only. */
uint64_t lanes_turn(const struct lanes *lanes, uint32_t number);
/* Is the turn in which this was told still on? Core thread only. */
bool lanes_is_news(const struct lanes *lanes, const struct lane_news *news);
/* Takes `message` over (NULL: it could not be made). LANE_SENT says what became of it: not ok means that it provably
 * never left. Silent about a delivery of another turn. */
void lanes_send(struct lanes *lanes, const struct core_delivery *delivery, struct message *message,
                uint64_t delivered_ns);

/* Whose the session on the lane is. False: it holds it no more. Any thread. */
bool lanes_principal(struct lanes *lanes, uint32_t number, uint64_t session, char out[PRINCIPAL_SIZE_MAX + 1]);

/* The door's calls (door.h). */
uint64_t lanes_ask(struct lanes *lanes, uint32_t number, const char *authorization);
bool lanes_up(struct lanes *lanes, uint32_t number, uint64_t session, uint64_t connection);
void lanes_gone(struct lanes *lanes, uint32_t number, uint64_t connection);
bool lanes_leave(struct lanes *lanes, uint32_t number, uint64_t turn);
void lanes_sent(struct lanes *lanes, uint32_t number, uint64_t turn, bool left, uint64_t delivered_ns);
/* The pooled session may get so many tasks (core.h, CORE_CREDIT); not if it holds the lane no more. */
void lanes_credit(struct lanes *lanes, uint32_t number, uint64_t session, uint32_t credit);

#endif
