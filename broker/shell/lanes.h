/* lanes.h: the PUSH endpoints /lane/N that consumers pull from.
 *
 * A lane is opened when it is first needed and kept for good: pipes come and go safely, closing listeners is where
 * nng's bugs are. It has one pipe, that of the session which holds it, proved by the session's secret in the upgrade
 * request; a valid newcomer closes the old one. At most one send is outstanding, and it is cancelled before its pipe is
 * replaced, or what was meant for one consumer would reach the next. */
#ifndef TARRY_SHELL_LANES_H
#define TARRY_SHELL_LANES_H

#include <nng/nng.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core.h"
#include "inbox.h"
#include "tarry_limits.h"

struct shell;
struct lanes;

enum lane_event { LANE_UP, LANE_GONE, LANE_SENT };

/* Told to the core thread, which frees it. */
struct lane_news {
    struct item item; /* first */
    enum lane_event event;
    uint64_t session;
    bool ok;               /* SENT */
    uint64_t delivered_ns; /* SENT: logical steady time of sending */
};

/* Pipes of a lane that nng may still count among the ready ones: the holder's, and former ones on their way out. */
#define LANE_PIPES_MAX 4u
/* Each of those may take a filler that is meant for another, and one that lives may come back for one more. */
#define LANE_FILLERS (LANE_PIPES_MAX + 2u)

struct lane {
    struct lanes *lanes;
    uint32_t number;
    pthread_mutex_t mutex;
    bool listening;
    nng_socket socket;
    nng_aio *aio;
    nng_aio *fillers[LANE_FILLERS]; /* see lanes.c */
    uint64_t session;               /* who holds it; 0: nobody */
    uint64_t turn;                  /* grows whenever the lane changes hands */
    nng_pipe pipe;                  /* the holder's; id 0: none */
    nng_pipe pipes[LANE_PIPES_MAX]; /* it, and those before it that nng has not let go; id 0: free */
    bool up;                        /* the pipe may be sent to */
    bool sending;
    uint64_t sending_turn;
    uint64_t sending_ns;
};

struct lanes {
    struct shell *shell;
    struct lane lanes[LANES_MAX];
};

void lanes_init(struct lanes *lanes, struct shell *shell);
/* Expect the session's pipe on the lane; drops a former holder's. 0, or an nng error (the endpoint cannot be opened).
 */
int lanes_open(struct lanes *lanes, uint32_t number, uint64_t session);
/* The session is gone: cancels what is queued and sends no more. Its pipe is the consumer's to close. */
void lanes_close(struct lanes *lanes, uint32_t number, uint64_t session);
/* Whose turn it is: grows whenever the lane changes hands. What was decided in another turn never leaves, also if its
 * session has come back to the lane: the core expects no news of it (TRUE-1). Core thread only. */
uint64_t lanes_turn(const struct lanes *lanes, uint32_t number);
/* Takes `message` over (NULL: it could not be made). LANE_SENT says what became of it: not ok means that it provably
 * never left. Silent about a delivery of another turn. Any thread. */
void lanes_send(struct lanes *lanes, const struct core_delivery *delivery, nng_msg *message, uint64_t delivered_ns);

#endif
