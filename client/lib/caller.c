/* caller.c: a blocking call with no other call beside it reads its reply itself. This saves one of the two threads that
 * a call puts to sleep (caller and engine) and its wake-up.
 *
 * The calling thread takes over the connection: it removes the connection from the engine's epoll, so the engine stays
 * asleep. The connection remains removed from call to call. A thread gives the connection back to the engine if another
 * call wants a reply, if the reply does not come, or if the reply also completes asynchronous operations. The engine
 * takes the connection back when no caller has read for LENT_MS. Until then the client answers no ping and does not
 * notice a lost connection, but no request waits in that time.
 *
 * While a caller reads, caller_turns is set and the engine does nothing. A caller begins to read only while the engine
 * waits. So all rules about the engine's thread also hold for a reading caller.
 *
 * (The pattern is Leader/Followers: Schmidt et al., Pattern-Oriented Software Architecture 2, 2000.) */
#include "client.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- the gate */

/* On a struct gate the threads of blocking calls wait whose operations share a commit. One reply answers all operations
 * of a commit. One system call (futex) then wakes all these threads, and a woken thread needs no lock. */

void gate_wait(struct gate *gate, unsigned turn) {
    atomic_fetch_add(&gate->waiters, 1);
    syscall(SYS_futex, &gate->turn, FUTEX_WAIT_PRIVATE, turn, NULL, NULL, 0);
    atomic_fetch_sub(&gate->waiters, 1);
}

/* Changes gate->turn first, so that a thread that calls gate_wait later with the old value returns at once. */
void gate_open(struct gate *gate) {
    atomic_fetch_add(&gate->turn, 1);
    if (atomic_load(&gate->waiters) > 0) syscall(SYS_futex, &gate->turn, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* ---- reading the reply */

/* Number of consecutive calls without another beside them. Lending the connection for fewer calls would cost
 * more than it saves. */
#define LEND_AFTER 4u
/* Interval at which a reading caller checks whether its call is done. If the engine has read the reply instead, no
 * event wakes the caller. */
#define POLL_MAX_MS 10u

static bool is_alone(const tarry_client *client) {
    return client->waiting == 1 && slots_busy(client) && client->engine_waits && !client->caller_reads;
}

bool caller_may_read(tarry_client *client) {
    const bool may = is_alone(client) && link_is_ready(&client->link) && ws_client_is_sent(&client->link.connection);
    if (!may) {
        client->lone_calls = 0;
        caller_take_back(client);
        return false;
    }
    if (client->lone_calls < LEND_AFTER) client->lone_calls++;
    return client->lone_calls == LEND_AFTER;
}

void caller_take_back(tarry_client *client) {
    struct ws_client *connection = &client->link.connection;
    if (!connection->is_lent) return;
    /* If this fails, the engine will close this connection and open another. */
    if (!ws_client_take_back(connection)) link_stalled(client);
    engine_kick(client);
}

bool caller_is_gone(const tarry_client *client, uint64_t now) {
    if (!client->link.connection.is_lent || client->caller_reads) return false;
    return client->waiting > 0 || now >= client->caller_read_ms + LENT_MS;
}

static void lend(tarry_client *client, uint64_t now) {
    if (client->link.connection.is_lent) return;
    ws_client_lend(&client->link.connection);
    /* The engine must take the borrowed connection back after LENT_MS. */
    if (client->engine_until_ms > now + LENT_MS) engine_kick(client);
}

/* Waits until the connection has something to read, or until the engine's next deadline, or for POLL_MAX_MS. Releases
 * the lock meanwhile. Returns false if this caller must not read. */
static bool wait_readable(tarry_client *client, uint32_t *out_events) {
    const uint64_t now = now_ms(), until = client->engine_until_ms, id = client->link.connection.id;
    const uint64_t wait_ms = until <= now ? 1 : until - now < POLL_MAX_MS ? until - now : POLL_MAX_MS;
    struct pollfd readable = {.fd = client->link.connection.fd, .events = POLLIN};
    pthread_mutex_unlock(&client->lock);
    const int count = poll(&readable, 1, (int)wait_ms);
    pthread_mutex_lock(&client->lock);
    *out_events = count > 0 ? (uint32_t)readable.revents : 0; /* poll and epoll use the same bits */
    return client->link.connection.is_lent && client->link.connection.id == id && (count >= 0 || errno == EINTR);
}

/* Reads what has arrived on the connection. Completes the replies if all of them belong to blocking calls. Releases the
 * lock meanwhile. */
static void turn(tarry_client *client, uint32_t events) {
    client->caller_turns = true;
    link_turn(client, events);
    engine_complete_callers(client);
    client->caller_turns = false;
    pthread_cond_signal(&client->turned);
}

static bool goes_on(tarry_client *client) {
    struct ws_client *connection = &client->link.connection;
    return connection->is_lent && ws_client_is_sent(connection) && client->finished.first == NULL;
}

/* Removes the connection from the engine's epoll, and reads from it until the call is done or another thread must read.
 */
static void read_until(tarry_client *client, const atomic_bool *is_done) {
    uint32_t events;
    lend(client, now_ms());
    client->caller_reads = true;
    while (!atomic_load(is_done) && goes_on(client) && wait_readable(client, &events)) {
        if (events == 0) continue;
        if (!client->engine_waits) break;
        turn(client, events);
    }
    client->caller_reads = false;
    client->caller_read_ms = now_ms();
    if (!atomic_load(is_done)) caller_take_back(client);
    if (client->finished.first != NULL || !client->link.up) engine_kick(client);
}

void caller_read(tarry_client *client, const atomic_bool *is_done) {
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_mutex_lock(&client->lock);
    if (!atomic_load(is_done)) {
        if (is_alone(client) && client->link.connection.state == WS_CLIENT_OPEN)
            read_until(client, is_done);
        else
            caller_take_back(client);
    }
    pthread_mutex_unlock(&client->lock);
    pthread_setcancelstate(before, NULL);
}
