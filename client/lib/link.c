/* link.c: the way to a broker. One REQ socket, one dialer at a time.
 *
 * nng connects again to the same address by itself, with short random waits; when that does not help, when the broker
 * is not the primary, or when it has gone silent, the engine moves on to the next address (or dials the only one anew,
 * which ends a connection that is half open).
 *
 * nng calls pipe_changed with no lock of its own that a dialer's opening or closing waits for; even so the client's
 * lock is given up around those calls. */
#include "client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCHEME "ws://"

/* One address, `size` bytes, into `out`, with the default port if it names none. */
static int parse_address(const char *text, size_t size, char out[ADDRESS_SIZE_MAX]) {
    size_t scheme_size = strlen(SCHEME);
    if (size > scheme_size && text[size - 1] == '/') size--;
    if (size <= scheme_size || size >= ADDRESS_SIZE_MAX - 8 || strncmp(text, SCHEME, scheme_size) != 0)
        return TARRY_E_ADDRESS;
    const char *host = text + scheme_size, *end = text + size, *port = NULL, *host_end = end;
    for (const char *at = host; at < end; at++) {
        if (*at <= ' ' || *at == '/' || *at == '?' || *at == '#' || *at == '@' || *at == 127) return TARRY_E_ADDRESS;
    }
    if (*host == '[') {
        const char *bracket = memchr(host, ']', (size_t)(end - host));
        if (bracket == NULL) return TARRY_E_ADDRESS;
        host_end = bracket + 1;
    } else {
        const char *colon = memchr(host, ':', (size_t)(end - host));
        if (colon != NULL) host_end = colon;
    }
    if (host_end == host) return TARRY_E_ADDRESS;
    if (host_end < end) {
        if (*host_end != ':') return TARRY_E_ADDRESS;
        port = host_end + 1;
        char digits[6] = {0};
        size_t digit_count = (size_t)(end - port);
        if (digit_count == 0 || digit_count > 5) return TARRY_E_ADDRESS;
        memcpy(digits, port, digit_count);
        if (strspn(digits, "0123456789") != digit_count) return TARRY_E_ADDRESS;
        int number = atoi(digits);
        if (number < 1 || number > 65535) return TARRY_E_ADDRESS;
        snprintf(out, ADDRESS_SIZE_MAX, "%.*s", (int)size, text);
    } else {
        snprintf(out, ADDRESS_SIZE_MAX, "%.*s:%d", (int)size, text, DEFAULT_PORT);
    }
    return TARRY_OK;
}

int link_parse(struct link *link, const char *urls) {
    const char *at = urls != NULL ? urls : DEFAULT_URL;
    for (;;) {
        size_t size = strcspn(at, ",");
        const char *end = at + size;
        while (size > 0 && *at == ' ') at++, size--;
        while (size > 0 && at[size - 1] == ' ') size--;
        if (link->address_count == ADDRESSES_MAX) return TARRY_E_ADDRESS;
        int rv = parse_address(at, size, link->addresses[link->address_count]);
        if (rv != TARRY_OK) return rv;
        link->address_count++;
        if (*end == 0) return TARRY_OK;
        at = end + 1;
    }
}

/* nng's callback. A pipe may be announced lost after its successor was announced. */
static void pipe_changed(nng_pipe pipe, nng_pipe_ev event, void *arg) {
    tarry_client *client = arg;
    struct link *link = &client->link;
    pthread_mutex_lock(&client->lock);
    if (event == NNG_PIPE_EV_ADD_POST) {
        link->pipe = pipe;
        link->up = true;
        engine_kick(client);
    } else if (event == NNG_PIPE_EV_REM_POST && link->up && nng_pipe_id(pipe) == nng_pipe_id(link->pipe)) {
        link->up = false;
        link->since_ms = now_ms();
        engine_kick(client);
    }
    pthread_mutex_unlock(&client->lock);
}

/* No lock. */
static int dial(tarry_client *client, const char *address, nng_dialer *out_dialer) {
    char url[ADDRESS_SIZE_MAX + 8];
    snprintf(url, sizeof(url), "%s/rpc", address);
    nng_dialer dialer;
    if (nng_dialer_create(&dialer, client->link.socket, url) != 0) return TARRY_E_SYSTEM;
    if (nng_dialer_set_ms(dialer, NNG_OPT_RECONNMINT, DIAL_AGAIN_MIN_MS) != 0 ||
        nng_dialer_set_ms(dialer, NNG_OPT_RECONNMAXT, DIAL_AGAIN_MAX_MS) != 0 ||
        nng_dialer_start(dialer, NNG_FLAG_NONBLOCK) != 0) {
        nng_dialer_close(dialer);
        return TARRY_E_SYSTEM;
    }
    *out_dialer = dialer;
    return TARRY_OK;
}

int link_open(tarry_client *client) {
    struct link *link = &client->link;
    if (nng_req0_open(&link->socket) != 0) return TARRY_E_SYSTEM;
    link->socket_open = true;
    /* The library repeats requests itself, under their sequence; nng must neither repeat nor give up on its own. */
    if (nng_socket_set_ms(link->socket, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE) != 0 ||
        nng_socket_set_ms(link->socket, NNG_OPT_SENDTIMEO, NNG_DURATION_INFINITE) != 0 ||
        nng_socket_set_ms(link->socket, NNG_OPT_RECVTIMEO, NNG_DURATION_INFINITE) != 0 ||
        nng_socket_set_size(link->socket, NNG_OPT_RECVMAXSZ, ANSWER_SIZE_MAX) != 0 ||
        nng_pipe_notify(link->socket, NNG_PIPE_EV_ADD_POST, pipe_changed, client) != 0 ||
        nng_pipe_notify(link->socket, NNG_PIPE_EV_REM_POST, pipe_changed, client) != 0)
        return TARRY_E_SYSTEM;
    int rv = dial(client, link->addresses[0], &link->dialer);
    if (rv != TARRY_OK) return rv;
    link->dialing = true;
    link->since_ms = link->dialed_ms = now_ms();
    return TARRY_OK;
}

bool link_close(tarry_client *client) {
    if (!client->link.socket_open) return true;
    /* Let the first try to connect end: see socket.c. */
    for (;;) {
        pthread_mutex_lock(&client->lock);
        bool settled = !client->link.dialing || client->link.up || now_ms() >= client->link.dialed_ms + DIAL_SETTLE_MS;
        pthread_mutex_unlock(&client->lock);
        if (settled) break;
        nng_msleep(1);
    }
    client->link.socket_open = false;
    return socket_close(client->link.socket);
}

static uint64_t patience_ms(const struct link *link) {
    return link->address_count > 1 ? ADDRESS_PATIENCE_MS : ADDRESS_PATIENCE_ALONE_MS;
}

uint64_t link_deadline(const tarry_client *client) {
    const struct link *link = &client->link;
    if (link->again) return 0;
    return link->up ? UINT64_MAX : link->since_ms + patience_ms(link);
}

void link_step(tarry_client *client, uint64_t now) {
    struct link *link = &client->link;
    if (now < link_deadline(client)) return;
    nng_dialer old = link->dialer;
    bool had = link->dialing;
    link->again = link->dialing = link->up = false;
    link->since_ms = now;
    link->address = (link->address + 1) % link->address_count;
    pthread_mutex_unlock(&client->lock);
    if (had) nng_dialer_close(old);
    nng_dialer dialer;
    int rv = dial(client, link->addresses[link->address], &dialer);
    pthread_mutex_lock(&client->lock);
    if (rv != TARRY_OK) return; /* once more when patience ends */
    link->dialer = dialer;
    link->dialing = true;
    link->dialed_ms = now_ms();
}
