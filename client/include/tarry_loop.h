/* tarry_loop.h: use of the library in a program's own event loop, and events about connections. Part of tarry.h,
 * which includes it and has the rules on units, errors and threads.
 *
 * By default, callbacks (completions, `settled`, events) run on the client's own thread, and handlers on the threads
 * of their consumers. With tarry_options.dispatch the client calls nothing by itself: callbacks and handlers wait
 * and run inside tarry_dispatch. tarry_client_fd shows when callbacks wait. The library's thread continues to send,
 * to receive and to keep sessions alive, even if the program never calls tarry_dispatch.
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
 *     } */
#ifndef TARRY_LOOP_H
#define TARRY_LOOP_H

#ifndef TARRY_H
#error "include tarry.h before this header"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Returns a file descriptor that is readable while callbacks wait for tarry_dispatch; -1 without
 * tarry_options.dispatch. It works with poll, epoll, libevent and others, level-triggered or edge-triggered. The
 * program must not read, write or close it. It stays the same until tarry_close closes it. Any thread. */
TARRY_API int tarry_client_fd(tarry_client *client);

/* Runs the waiting callbacks on this thread, at most `max` (0: all that wait now). It does not wait for new ones. If
 * callbacks remain, the descriptor becomes readable again, also for edge-triggered loops. *out_count (may be NULL)
 * receives the number of callbacks that ran.
 *
 * Any thread; a second thread waits for the first. Callbacks may make blocking calls, which delay the other callbacks.
 * They must not call tarry_dispatch or close their client or a consumer (TARRY_E_CALLBACK). TARRY_E_ARGUMENT: the
 * client was opened without tarry_options.dispatch.
 *
 * tarry_consumer_close runs the waiting callbacks of its consumer on the thread that closes the consumer. tarry_close
 * runs all remaining callbacks on the thread that closes the client. */
TARRY_API int tarry_dispatch(tarry_client *client, size_t max, size_t *out_count);

enum tarry_event_kind {
    TARRY_CONNECTED = 1,    /* the connection to the broker at `url` is up; its role is not known yet */
    TARRY_DISCONNECTED = 2, /* the connection to `url` was lost or given up; `message` says why, if known */
    TARRY_LOG = 3,          /* information that helps to find a fault; `url` may be "" */
    TARRY_WARNING = 4       /* a probable mistake: a consumer waits for a queue that does not exist yet */
};
/* One event. The library owns it; it is valid until the callback returns. New versions may add fields at its end. */
struct tarry_event {
    enum tarry_event_kind kind;
    uint64_t at_ms;      /* time of the event, by this machine's CLOCK_REALTIME */
    const char *url;     /* the address as given to tarry_open; never NULL */
    const char *message; /* one sentence; never NULL. The wording of TARRY_LOG may change */
};
/* tarry_options.on_event is called for each event, in order, on the client's own thread or inside tarry_dispatch. Calls
 * may begin before tarry_open returns and end before tarry_close returns. The callback may submit operations. On the
 * client's thread a blocking call is refused (TARRY_E_CALLBACK). Repeated failures to connect for the same reason are
 * reported at most every 10 s. At most 256 events wait; the library drops further events, and a TARRY_LOG event reports
 * the number of dropped events. The library itself writes no log. */

#ifdef __cplusplus
}
#endif

#endif
