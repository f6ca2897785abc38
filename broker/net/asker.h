/* asker.h: one question at a time to another broker's /rpc, and its answer, or that none came.
 *
 * A newer question replaces the one under way. A thread of its own dials, again and again for as long as somebody waits
 * for an answer, and a question whose connection is lost is sent once more by the next. One of whose answer nothing has
 * come for its time ends without, and its connection with it: it may be dead.
 *
 * With papers it shows a token, and over TLS its certificate; the other's must be of the peers' CA, and for the name or
 * address by which it is reached. A dial that fails is tried again in the same way: what was refused may be mended.
 *
 * Thread-safety: ask and close by one thread; `answered` is called by the asker's own. */
#ifndef TARRY_NET_ASKER_H
#define TARRY_NET_ASKER_H

#include <stdbool.h>
#include <stddef.h>

#include "listen.h"
#include "message.h"
#include "tls.h"

struct asker;

/* Takes the answer over; NULL: none came. The asker's thread; must not wait. */
typedef void (*asker_answered)(void *argument, struct message *answer);

#define ASKER_TOKEN_SIZE 256u

struct asker_papers {
    struct tls *tls; /* for wss://; else NULL */
    /* The token as it is now, for `Authorization: Bearer`; the asker's thread. False: there is none to be had. NULL:
     * nothing is shown. */
    bool (*token)(const void *argument, char out[ASKER_TOKEN_SIZE]);
    const void *argument;
};

/* `where` and `papers` are copied; for wss:// there must be a `tls`, which must stay. 0 or a positive errno. */
int asker_open(struct asker **out, const struct listen_address *where, const struct asker_papers *papers,
               size_t answer_size_max, asker_answered answered, void *argument);
/* Before the first question: `told` is called by the asker's thread whenever a connection is lost, or a dial fails; it
 * must not wait. */
void asker_tell_lost(struct asker *asker, void (*told)(void *argument));
/* Takes `question` over. An answer is waited for `time_ms`, and for as long again after each part of it: large ones may
 * take longer. */
void asker_ask(struct asker *asker, struct message *question, unsigned time_ms);
/* Nothing is asked any more; what is under way is forgotten. `answered` is not called again once this has returned.
 * NULL is fine. */
void asker_close(struct asker *asker);

#endif
