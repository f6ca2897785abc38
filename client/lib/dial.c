/* dial.c: a dialer of nng: one try to connect, one connection at most, and its end.
 *
 * nng 1.5.2 must not be asked to close a WebSocket dialer while it connects. Just as its TCP connection or its upgrade
 * comes about, ws_conn_cb leaves the list that ws_dialer_free waits for, which blocks nng's reaper for good, and with
 * it every news of lost pipes; or the connection is completed twice, and nng panics. And where a connection stands and
 * nobody answers, ws_dial_cancel and the callback that it causes complete it twice by themselves: one close in a
 * thousand, and the process of a user whose broker was frozen ended by that. So nng is led only to who has just
 * answered a knock (knock.c), it is always known here whether a dialer rests, and only one that rests is closed:
 *
 *   nobody answered yet   nng has not begun; the knock is stopped
 *   the try failed        the thread that made it closes the dialer, or whoever gave it up before
 *   the pipe is lost      whoever nng tells so closes the dialer, before nng dials again of its own accord (it would at
 *                         once: its random wait is negative half of the time)
 *   the pipe is up        anybody may close it
 *   the try goes on       for longer than DIAL_PATIENCE_MS: who answered a moment ago does so no more, or the name
 *                         leads to somebody else now. This alone is left to luck
 *
 * Trying again, and where, is the caller's business (link.c, session.c). */
#include "client.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* A try under way, in a thread of its own: nng says how a try ended only to who waits for it. */
struct dial_try {
    tarry_client *client;
    struct dial *dial;
    nng_dialer dialer;
    struct knock knock;
    char url[ADDRESS_SIZE_MAX + DIAL_PATH_MAX];
};

static bool is_present(const struct dial *dial, nng_dialer dialer) {
    return dial->open && nng_dialer_id(dial->dialer) == nng_dialer_id(dialer);
}

static bool is_knocking(const struct dial *dial) {
    return dial->trying && dial->tried_ms == 0;
}

/* Nobody stops the knock from now on. 0: it was answered, and nng may try; or an error of nng. */
static int knocked(struct dial_try *try, int rv) {
    pthread_mutex_lock(&try->client->lock);
    bool present = is_present(try->dial, try->dialer);
    if (present) try->dial->knock = NULL;
    if (present && rv == 0) try->dial->tried_ms = now_ms();
    pthread_mutex_unlock(&try->client->lock);
    return present ? rv : NNG_ECANCELED;
}

/* What came of it. Who gives a dialer up closes it (dial_end), so this closes what failed, unless it was given up.
 * Lock held, and given up meanwhile; `closing`, or its socket would be closed too (socket.c). */
static void try_ended(struct dial_try *try, int rv) {
    struct dial *dial = try->dial;
    if (rv != 0 && is_present(dial, try->dialer)) {
        dial->closing++;
        pthread_mutex_unlock(&try->client->lock);
        nng_dialer_close(try->dialer);
        pthread_mutex_lock(&try->client->lock);
        dial->closing--;
    }
    dial->threads--;
    if (!is_present(dial, try->dialer)) return;
    dial->trying = false;
    dial->error = rv;
    if (rv != 0) dial->open = false;
}

static void *try_run(void *arg) {
    struct dial_try *try = arg;
    tarry_client *client = try->client;
    int rv = knocked(try, knock_run(&try->knock, try->url));
    knock_deinit(&try->knock);
    if (rv == 0) rv = nng_dialer_start(try->dialer, 0);
    pthread_mutex_lock(&client->lock);
    try_ended(try, rv);
    engine_kick(client);
    pthread_cond_broadcast(&client->drained);
    pthread_mutex_unlock(&client->lock);
    free(try);
    return NULL;
}

static int start(tarry_client *client, struct dial *dial, nng_dialer dialer, const char *url) {
    pthread_t thread;
    struct dial_try *try = malloc(sizeof(*try));
    if (try == NULL) return TARRY_E_NOMEM;
    *try = (struct dial_try){.client = client, .dial = dial, .dialer = dialer};
    snprintf(try->url, sizeof(try->url), "%s", url);
    if (knock_init(&try->knock) != TARRY_OK) {
        free(try);
        return TARRY_E_NOMEM;
    }
    if (thread_start(&thread, try_run, try, "tarry-dial") != TARRY_OK) {
        knock_deinit(&try->knock);
        free(try);
        return TARRY_E_SYSTEM;
    }
    pthread_detach(thread);
    dial->knock = &try->knock;
    return TARRY_OK;
}

int dial_begin(tarry_client *client, struct dial *dial, nng_socket socket, const char *url, const char *headers) {
    assert(!dial->open);
    nng_dialer dialer;
    pthread_mutex_unlock(&client->lock);
    int error = nng_dialer_create(&dialer, socket, url);
    if (error == 0 && headers != NULL) {
        error = nng_dialer_set_string(dialer, NNG_OPT_WS_REQUEST_HEADERS, headers);
        if (error != 0) nng_dialer_close(dialer);
    }
    pthread_mutex_lock(&client->lock);
    if (error != 0) return TARRY_E_SYSTEM;
    int rv = start(client, dial, dialer, url);
    if (rv != TARRY_OK) {
        pthread_mutex_unlock(&client->lock);
        nng_dialer_close(dialer);
        pthread_mutex_lock(&client->lock);
        return rv;
    }
    dial->dialer = dialer;
    dial->open = dial->trying = true;
    dial->error = 0;
    dial->threads++;
    dial->since_ms = now_ms();
    dial->tried_ms = 0;
    return TARRY_OK;
}

void dial_end(tarry_client *client, struct dial *dial) {
    if (!dial->open) return;
    nng_dialer dialer = dial->dialer;
    if (dial->knock != NULL) knock_stop(dial->knock);
    dial->knock = NULL;
    dial->open = dial->trying = false;
    pthread_mutex_unlock(&client->lock);
    nng_dialer_close(dialer);
    pthread_mutex_lock(&client->lock);
}

uint64_t dial_rests_at(const struct dial *dial) {
    return dial->trying && !is_knocking(dial) ? dial->tried_ms + DIAL_PATIENCE_MS : 0;
}

uint64_t dial_given_up_at(const struct dial *dial, uint64_t patience_ms) {
    return (is_knocking(dial) ? dial->since_ms : dial->tried_ms) + patience_ms;
}

nng_dialer dial_pipe_lost(nng_pipe pipe) {
    nng_dialer dialer = nng_pipe_dialer(pipe);
    nng_dialer_close(dialer);
    return dialer;
}

void dial_lost(struct dial *dial, nng_dialer dialer) {
    if (is_present(dial, dialer)) dial->open = dial->trying = false;
}

void dial_settle(tarry_client *client, struct dial *dial) {
    if (is_knocking(dial)) dial_end(client, dial);
    while (wait_drained(client, dial_rests_at(dial))) {
    }
    uint64_t until_ms = now_ms() + CLOSE_PATIENCE_MS;
    while (dial->closing > 0 && wait_drained(client, until_ms)) {
    }
    dial->open = dial->trying = false; /* what is left is the socket's to close */
}

bool dial_ended(tarry_client *client, struct dial *dial) {
    uint64_t until_ms = now_ms() + CLOSE_PATIENCE_MS;
    while (dial->threads > 0 && wait_drained(client, until_ms)) {
    }
    return dial->threads == 0;
}

/* nng tells the answer of an HTTP server that knows no /rpc as a refused connection (its http_client.c: 404 and 405),
 * and what getaddrinfo says as if it were errno: the knock tells the ones from the others. */
const char *dial_sentence(const struct dial *dial) {
    const bool was_answered = dial->tried_ms != 0;
    switch (dial->error) {
    case NNG_ECONNREFUSED:
        if (!was_answered) return "Connection refused: no broker listens there";
        /* fall through */
    case NNG_EPROTO:
        return "what listens there is no broker: it does not speak Tarry's protocol (WebSocket at /rpc)";
    case NNG_EPERM:
        return "what listens there lets nobody in (HTTP 401 or 403): is a proxy in front of the broker?";
    case NNG_EADDRINVAL:
        return "no such host: the name is not known, or is no address; is it written right?";
    case NNG_EAGAIN:
        return "the host's name cannot be looked up: no name server answers";
    case NNG_ECLOSED:
    case NNG_ECONNRESET:
    case NNG_ECONNSHUT:
        return "the connection was closed without a word: is that a broker?";
    case NNG_ETIMEDOUT:
        return "does not answer";
    case NNG_EUNREACHABLE:
        return "cannot be reached: there is no route to it, or a firewall forbids it";
    default:
        return nng_strerror(dial->error);
    }
}
