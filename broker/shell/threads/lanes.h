/* lanes.h: the PUSH endpoints /lane/N that consumers pull from. It carries out engine/lane_state.h, which decides which
 * session holds a lane and what may be sent on it. A connecting client proves that it is the holder by the session's
 * secret in the upgrade request.
 *
 * Threads: lanes_open, lanes_close, lanes_turn and lanes_is_news are for the core thread; lanes_send is for any thread;
 * the others are for the door. */
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

/* Kind of a lane's event. core_thread.c has a table with the same order. */
enum lane_event { LANE_UP, LANE_GONE, LANE_SENT, LANE_CREDIT };

/* Event of a lane for the core thread, which frees the struct. The event is dropped unless lanes_is_news is true. */
struct lane_news {
    struct item item; /* must be the first member */
    enum lane_event event;
    uint32_t lane;
    uint64_t turn; /* turn of the lane when the event was posted */
    uint64_t session;
    bool ok;               /* LANE_SENT: the delivery was sent */
    uint32_t credit;       /* LANE_CREDIT: number of tasks that the session may receive */
    uint64_t delivered_ns; /* LANE_SENT: when it was sent, on the core's steady clock */
};

struct lane {
    struct lanes *lanes;
    pthread_mutex_t mutex;
    struct lane_state state;
    char principal[PRINCIPAL_SIZE_MAX + 1]; /* principal of the session that holds the lane, as in records */
};

struct lanes {
    const struct datadir *dir; /* contains the key from which the sessions' secrets are made */
    struct inbox *inbox;
    struct door *door;
    struct lane lanes[LANES_MAX];
};

void lanes_init(struct lanes *lanes, const struct datadir *dir, struct inbox *inbox, struct door *door);
/* Gives the lane to a session and expects its connection. Closes the connection of a former holder. */
void lanes_open(struct lanes *lanes, const struct core_lane *open);
/* Takes the lane from a session. After it returns, no further delivery to the session begins to be sent. The consumer
 * has DOOR_LINGER_S seconds to close the connection. */
void lanes_close(struct lanes *lanes, uint32_t number, uint64_t session);
/* Returns the lane's turn: a number that changes when another session gets the lane. A delivery that the core decided
 * before the change is never sent, even if its session gets the lane again, because the core expects no event about it
 * (TRUE-1). Core thread only. */
uint64_t lanes_turn(const struct lanes *lanes, uint32_t number);
/* Returns whether the lane's turn is still the one in which this event was posted. Core thread only. */
bool lanes_is_news(const struct lanes *lanes, const struct lane_news *news);
/* Takes over `message` and sends it; NULL if the message could not be made. LANE_SENT reports the result; `ok` false
 * means that it was certainly not sent. A delivery of another turn is dropped without an event. */
void lanes_send(struct lanes *lanes, const struct core_delivery *delivery, struct message *message,
                uint64_t delivered_ns);

/* Copies the principal of the session on the lane. Returns false if the session lost the lane. Any thread. */
bool lanes_principal(struct lanes *lanes, uint32_t number, uint64_t session, char out[PRINCIPAL_SIZE_MAX + 1]);

/* Callbacks of the door (door.h). */
uint64_t lanes_ask(struct lanes *lanes, uint32_t number, const char *authorization);
bool lanes_up(struct lanes *lanes, uint32_t number, uint64_t session, uint64_t connection);
void lanes_gone(struct lanes *lanes, uint32_t number, uint64_t connection);
bool lanes_leave(struct lanes *lanes, uint32_t number, uint64_t turn);
void lanes_sent(struct lanes *lanes, uint32_t number, uint64_t turn, bool left, uint64_t delivered_ns);
/* Grants credit for this many tasks to a pooled session (core.h, CORE_CREDIT), if it still holds the lane. */
void lanes_credit(struct lanes *lanes, uint32_t number, uint64_t session, uint32_t credit);

#endif
