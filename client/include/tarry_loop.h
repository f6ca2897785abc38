/* tarry_loop.h: the library in a program's own event loop; and what it tells of its connections. A part of tarry.h,
 * which includes it and has the rules on units, errors and threads.
 *
 * By default callbacks (completions, `settled`, events) run on the client's own thread, and handlers on their
 * consumers'. A client that was opened with tarry_options.dispatch calls nothing by itself: everything waits until
 * tarry_dispatch is called, and runs there, handlers included. tarry_client_fd says when that is worth while. The
 * library's thread goes on sending, receiving and keeping sessions alive, however long the program does not dispatch.
 *
 *     #include <poll.h>
 *     #include <tarry.h>
 *
 *     int serve(tarry_client *client) {
 *         struct pollfd waiting = {.fd = tarry_client_fd(client), .events = POLLIN};
 *         for (;;) {
 *             if (poll(&waiting, 1, -1) < 0) return 1;
 *             int code = tarry_dispatch(client, 100, NULL);
 *             if (code != TARRY_OK) return code;
 *         }
 *     }
 */
#ifndef TARRY_LOOP_H
#define TARRY_LOOP_H

#ifndef TARRY_H
#error "include tarry.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A descriptor that is readable while there is something to dispatch: for poll, epoll, libevent and the like, level or
 * edge. Only to be waited for: not to be read, written or closed. The same for the client's life, closed by
 * tarry_close. -1: the client was opened without tarry_options.dispatch. Any thread. */
TARRY_API int tarry_client_fd(tarry_client *client);

/* Calls what waits, `max` callbacks at most (0: all that wait by now), on this thread; does not wait. If any are left,
 * the descriptor stays readable, also for a loop that waits for edges. *out_count (may be NULL): how many were called.
 * Any thread, one at a time: another one waits for its turn. Callbacks may make blocking calls, which hold up the
 * others; they may not dispatch, nor close their client or a consumer (TARRY_E_CALLBACK). TARRY_E_ARGUMENT: no
 * tarry_options.dispatch.
 *
 * tarry_consumer_close dispatches what its consumer waits for, and tarry_close what is left, on the thread that closes.
 */
TARRY_API int tarry_dispatch(tarry_client *client, size_t max, size_t *out_count);

enum tarry_event_kind {
    TARRY_CONNECTED = 1,    /* a connection to the broker at `url` is up; whether it leads is not known yet */
    TARRY_DISCONNECTED = 2, /* … is not any more, or was given up; `message` says why, if that is known */
    TARRY_LOG = 3           /* something of use in the search for a fault; `url` may be "" */
};
/* The library's; valid until the callback returns. May grow. */
struct tarry_event {
    enum tarry_event_kind kind;
    uint64_t at_ms;      /* this machine's CLOCK_REALTIME */
    const char *url;     /* as given to tarry_open; never NULL */
    const char *message; /* a sentence; never NULL. The words of a log line may change */
};
/* tarry_options.on_event is called for each event, in order, on the client's own thread (or by tarry_dispatch); from
 * before tarry_open returns until tarry_close has returned. It may submit and look; a blocking call is refused
 * (TARRY_E_CALLBACK) on the client's thread. A try to connect that fails like the one before is told of every 10
 * seconds at most. If 256 events wait, later ones are dropped, and a log line says how many. The library itself writes
 * nothing anywhere. */

#ifdef __cplusplus
}
#endif

#endif
