/* asker.h: one question at a time to another broker's /rpc, and its answer, or that none came.
 *
 * A newer question replaces the one under way. A thread of its own dials, again and again for as long as somebody waits
 * for an answer, and a question whose connection is lost is sent once more by the next. One that has no answer after
 * its time ends without, and its connection with it: it may be dead.
 *
 * Thread-safety: ask and close by one thread; `answered` is called by the asker's own. */
#ifndef TARRY_NET_ASKER_H
#define TARRY_NET_ASKER_H

#include <stdbool.h>
#include <stddef.h>

#include "listen.h"
#include "message.h"

struct asker;

/* Takes the answer over; NULL: none came. The asker's thread; must not wait. */
typedef void (*asker_answered)(void *argument, struct message *answer);

/* `where` is copied. 0 or a positive errno. */
int asker_open(struct asker **out, const struct listen_address *where, size_t answer_size_max, asker_answered answered,
               void *argument);
/* Before the first question: `told` is called by the asker's thread whenever a connection is lost, or a dial fails; it
 * must not wait. */
void asker_tell_lost(struct asker *asker, void (*told)(void *argument));
/* Takes `question` over. An answer is waited for `time_ms`. */
void asker_ask(struct asker *asker, struct message *question, unsigned time_ms);
/* Nothing is asked any more; what is under way is forgotten. `answered` is not called again once this has returned.
 * NULL is fine. */
void asker_close(struct asker *asker);

#endif
