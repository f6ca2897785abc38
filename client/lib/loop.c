/* loop.c: the engine waits here for connections and for other threads.
 *
 * loop_wait is in its own file because tests/fuzz/fuzz_reply.c replaces it with the linker's option --wrap. That option
 * does not affect calls from the file that defines the function. */
#include "client.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define KICK_ID 0u
#define EVENTS_AT_ONCE 16
#define WAIT_MAX_MS (24 * 3600 * 1000)

int loop_open(struct loop *loop) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = KICK_ID};
    loop->kick = -1;
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll < 0) return TARRY_E_SYSTEM;
    loop->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->kick < 0) return TARRY_E_SYSTEM;
    return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, loop->kick, &event) == 0 ? TARRY_OK : TARRY_E_SYSTEM;
}

void loop_close(struct loop *loop) {
    if (loop->kick >= 0) close(loop->kick);
    if (loop->epoll >= 0) close(loop->epoll);
    loop->kick = loop->epoll = -1;
}

void loop_kick(struct loop *loop) {
    const uint64_t one = 1;
    while (write(loop->kick, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
}

static void take(tarry_client *client, const struct epoll_event *event) {
    uint64_t kicks;
    if (event->data.u64 == KICK_ID)
        (void)!read(client->loop.kick, &kicks, sizeof(kicks));
    else if (event->data.u64 == client->link.connection.id)
        link_turn(client, event->events);
    else
        /* if the event belongs to a connection that was closed meanwhile, sessions_turn ignores it */
        sessions_turn(client, event->data.u64, event->events);
}

void loop_wait(tarry_client *client, uint64_t until_ms) {
    struct epoll_event events[EVENTS_AT_ONCE];
    const uint64_t now = now_ms(), wait_ms = until_ms > now ? until_ms - now : 0;
    client->engine_waits = true;
    client->engine_until_ms = until_ms;
    pthread_mutex_unlock(&client->lock);
    const int count =
        epoll_wait(client->loop.epoll, events, EVENTS_AT_ONCE, wait_ms < WAIT_MAX_MS ? (int)wait_ms : WAIT_MAX_MS);
    pthread_mutex_lock(&client->lock);
    client->engine_waits = false;
    while (client->caller_turns) pthread_cond_wait(&client->turned, &client->lock);
    for (int i = 0; i < count; i++) take(client, &events[i]);
}
