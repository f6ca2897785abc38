/* asker.h: one question at a time to the other node's /rpc, and its answer, or that none came.
 *
 * A newer question replaces the one under way. nng dials again by itself for as long as nobody listens; a question that
 * finds no connection, or loses it, ends without an answer after its time.
 *
 * Thread-safety: ask and close by one thread; `answered` is called by nng's. */
#ifndef TARRY_SHELL_PAIR_ASKER_H
#define TARRY_SHELL_PAIR_ASKER_H

#include <nng/nng.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct asker {
    /* Takes the answer over; NULL: none came. Any thread; must not wait. */
    void (*answered)(void *argument, nng_msg *answer);
    void *argument;

    nng_socket socket;
    nng_ctx context;
    nng_aio *aio;
    pthread_mutex_t mutex;
    nng_msg *next; /* asked while another was under way */
    int next_ms;
    int time_ms; /* of the one under way */
    bool busy;
    bool sending;
    bool closed;
};

/* `url` is the other broker's ("ws://HOST:PORT"). 0 or an nng error: the URL makes no sense, or there is no memory. */
int asker_open(struct asker *asker, const char *url, size_t answer_size_max,
               void (*answered)(void *argument, nng_msg *answer), void *argument);
/* Takes `question` over. An answer is waited for `time_ms` from its sending on, and a connection as long before. */
void asker_ask(struct asker *asker, nng_msg *question, int time_ms);
/* Nothing is asked any more; what is under way is forgotten. The socket stays open to the end of the process, for
 * closing is where nng's bugs are. */
void asker_close(struct asker *asker);

#endif
