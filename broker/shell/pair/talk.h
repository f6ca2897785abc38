/* talk.h: questions to the other node before this one runs: one after another, and whoever asks waits.
 *
 * Thread-safety: one owner. */
#ifndef TARRY_SHELL_PAIR_TALK_H
#define TARRY_SHELL_PAIR_TALK_H

#include <nng/nng.h>

#include "tarry.pb-c.h"

struct talk {
    nng_socket socket;
};

/* `url` is the other broker's. 0 or an nng error. The socket stays to the end of the process, for closing is where
 * nng's bugs are. */
int talk_open(struct talk *talk, const char *url);
/* A request of this broker's; its body is the caller's to put in. */
Tarry__Request talk_request(Tarry__Request__BodyCase body);
/* The answer, tarry__reply__free_unpacked's; NULL: none came in time, or one that makes no sense. */
Tarry__Reply *talk_ask(struct talk *talk, const Tarry__Request *request);
/* Why there was no answer, in words: nobody listens at `url`, or who does is no tarryd. A second at most. */
void talk_why(const char *url, char *out, size_t size);
/* Waits a moment. True: SIGTERM or SIGINT, which are blocked, has come: the process is to end. */
bool talk_pause(void);

#endif
