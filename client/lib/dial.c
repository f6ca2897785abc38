/* dial.c: a dialer of nng: one try to connect, one connection at most, and its end.
 *
 * nng 1.5.2 must not be asked to close a WebSocket dialer just as its TCP connection or its upgrade comes about:
 * ws_conn_cb then leaves the list that ws_dialer_free waits for, which blocks nng's reaper for good, and with it every
 * news of lost pipes; or the connection is completed twice, and nng panics. So it is always known here whether a dialer
 * rests, and only one that rests is closed:
 *
 *   the try failed    the thread that made it closes the dialer
 *   the pipe is lost  whoever nng tells so closes the dialer, before nng dials again of its own accord (it would at
 *                     once: its random wait is negative half of the time)
 *   the pipe is up    anybody may close it
 *   the try goes on   for longer than DIAL_PATIENCE_MS: then nothing answers, and nothing is about to come about
 *
 * Trying again, and where, is the caller's business (link.c, session.c). */
#include "client.h"

#include <assert.h>
#include <stdlib.h>

/* A try under way, in a thread of its own: nng says how a try ended only to who waits for it. */
struct dial_try {
    tarry_client *client;
    struct dial *dial;
    nng_dialer dialer;
};

static bool is_present(const struct dial *dial, nng_dialer dialer) {
    return dial->open && nng_dialer_id(dial->dialer) == nng_dialer_id(dialer);
}

static void *try_run(void *arg) {
    struct dial_try try = *(struct dial_try *)arg;
    free(arg);
    int rv = nng_dialer_start(try.dialer, 0);
    if (rv != 0) nng_dialer_close(try.dialer);
    pthread_mutex_lock(&try.client->lock);
    try.dial->threads--;
    if (is_present(try.dial, try.dialer)) {
        try.dial->trying = false;
        try.dial->error = rv;
        if (rv != 0) try.dial->open = false;
    }
    engine_kick(try.client);
    pthread_cond_broadcast(&try.client->drained);
    pthread_mutex_unlock(&try.client->lock);
    return NULL;
}

static int start(tarry_client *client, struct dial *dial, nng_dialer dialer) {
    pthread_t thread;
    struct dial_try *try = malloc(sizeof(*try));
    if (try == NULL) return TARRY_E_NOMEM;
    *try = (struct dial_try){client, dial, dialer};
    if (pthread_create(&thread, NULL, try_run, try) != 0) {
        free(try);
        return TARRY_E_SYSTEM;
    }
    pthread_detach(thread);
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
    int rv = start(client, dial, dialer);
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
    return TARRY_OK;
}

void dial_end(tarry_client *client, struct dial *dial) {
    if (!dial->open) return;
    nng_dialer dialer = dial->dialer;
    dial->open = dial->trying = false;
    pthread_mutex_unlock(&client->lock);
    nng_dialer_close(dialer);
    pthread_mutex_lock(&client->lock);
}

uint64_t dial_rests_at(const struct dial *dial) {
    return dial->trying ? dial->since_ms + DIAL_PATIENCE_MS : 0;
}

nng_dialer dial_pipe_lost(nng_pipe pipe) {
    nng_dialer dialer = nng_pipe_dialer(pipe);
    nng_dialer_close(dialer);
    return dialer;
}

void dial_lost(struct dial *dial, nng_dialer dialer) {
    if (is_present(dial, dialer)) dial->open = dial->trying = false;
}

static bool wait_until(tarry_client *client, uint64_t until_ms) {
    uint64_t now = now_ms();
    if (now >= until_ms) return false;
    struct timespec until;
    deadline_after(until_ms - now, &until);
    pthread_cond_timedwait(&client->drained, &client->lock, &until);
    return true;
}

void dial_settle(tarry_client *client, struct dial *dial) {
    while (wait_until(client, dial_rests_at(dial))) {
    }
}

bool dial_ended(tarry_client *client, struct dial *dial) {
    uint64_t until_ms = now_ms() + CLOSE_PATIENCE_MS;
    while (dial->threads > 0 && wait_until(client, until_ms)) {
    }
    return dial->threads == 0;
}
