/* knock.c: does anybody answer at an address? Asked on a plain connection, before nng opens a WebSocket there (dial.c
 * says why). Any word of HTTP is an answer, from a broker or from whatever stands before it. nng's plain connections
 * can be given up at any moment, while a name is looked up too. */
#include "client.h"

#include <stdio.h>

/* A step that takes longer is given up; somebody stops the knock long before, as a rule. */
#define KNOCK_PATIENCE_MS (2 * (nng_duration)DIAL_PATIENCE_ALONE_MS)

enum step { REACH, ASK, LISTEN };

int knock_init(struct knock *knock) {
    *knock = (struct knock){0};
    if (nng_aio_alloc(&knock->aio, NULL, NULL) != 0) return TARRY_E_NOMEM;
    nng_aio_set_timeout(knock->aio, KNOCK_PATIENCE_MS);
    pthread_mutex_init(&knock->lock, NULL);
    return TARRY_OK;
}

void knock_deinit(struct knock *knock) {
    if (knock->stream != NULL) nng_stream_free(knock->stream);
    if (knock->dialer != NULL) nng_stream_dialer_free(knock->dialer);
    nng_aio_free(knock->aio);
    pthread_mutex_destroy(&knock->lock);
}

void knock_stop(struct knock *knock) {
    pthread_mutex_lock(&knock->lock);
    knock->stopped = true;
    nng_aio_abort(knock->aio, NNG_ECANCELED);
    pthread_mutex_unlock(&knock->lock);
}

/* Begun under the lock, so that no step begins behind knock_stop's back. */
static int take_step(struct knock *knock, enum step step) {
    pthread_mutex_lock(&knock->lock);
    bool stopped = knock->stopped;
    if (!stopped && step == REACH) nng_stream_dialer_dial(knock->dialer, knock->aio);
    if (!stopped && step == ASK) nng_stream_send(knock->stream, knock->aio);
    if (!stopped && step == LISTEN) nng_stream_recv(knock->stream, knock->aio);
    pthread_mutex_unlock(&knock->lock);
    if (stopped) return NNG_ECANCELED;
    nng_aio_wait(knock->aio);
    return nng_aio_result(knock->aio);
}

static int transfer(struct knock *knock, enum step step, char *bytes, size_t size) {
    nng_iov iov = {.iov_buf = bytes, .iov_len = size};
    int rv = nng_aio_set_iov(knock->aio, 1, &iov);
    return rv != 0 ? rv : take_step(knock, step);
}

static int knock_at(struct knock *knock, const char *host) {
    char text[ADDRESS_SIZE_MAX + 96], answer;
    snprintf(text, sizeof(text), "tcp://%s", host);
    int rv = nng_stream_dialer_alloc(&knock->dialer, text);
    if (rv == 0) rv = take_step(knock, REACH);
    if (rv != 0) return rv;
    knock->stream = nng_aio_get_output(knock->aio, 0);
    int size = snprintf(text, sizeof(text), "GET /healthz HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host);
    rv = transfer(knock, ASK, text, (size_t)size); /* a fresh connection takes all of it */
    return rv != 0 ? rv : transfer(knock, LISTEN, &answer, 1);
}

int knock_run(struct knock *knock, const char *url) {
    nng_url *parts;
    int rv = nng_url_parse(&parts, url);
    if (rv != 0) return rv;
    rv = knock_at(knock, parts->u_host);
    nng_url_free(parts);
    return rv;
}
