/* link.c: the way to a broker. One REQ socket, one dialer at a time (dial.c).
 *
 * A connection that is lost after it has brought an answer is tried anew at once, at the same address. A try that fails
 * sends the engine to the next address, at once too; when all of them have failed it waits, a little longer from round
 * to round. When the broker is not the primary, or has gone silent, the engine moves on in the same way (or dials the
 * only address anew, which ends a connection that is half open). While nobody waits for an answer nothing is dialled.
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
    const bool lost = event == NNG_PIPE_EV_REM_POST;
    nng_dialer dialer = NNG_DIALER_INITIALIZER;
    if (lost) dialer = dial_pipe_lost(pipe);
    pthread_mutex_lock(&client->lock);
    if (lost) dial_lost(&link->dial, dialer);
    if (!lost) {
        link->pipe = pipe;
        link->up = true;
        engine_kick(client);
    } else if (link->up && nng_pipe_id(pipe) == nng_pipe_id(link->pipe)) {
        link->up = false;
        if (client->answered_ms >= link->dial.since_ms) {
            link->tries = 0;
            link->retry_at_ms = 0;
        }
        engine_kick(client);
    }
    pthread_mutex_unlock(&client->lock);
}

/* Tries the present address. Gives the lock up. */
static int try_address(tarry_client *client) {
    struct link *link = &client->link;
    uint64_t now = now_ms();
    link->tries++;
    link->retry_at_ms = now;
    if (link->tries % link->address_count == 0) { /* they all have had their turn */
        size_t rounds = link->tries / link->address_count;
        uint64_t wait_ms = rounds <= 3 ? DIAL_AGAIN_MIN_MS << (rounds - 1) : DIAL_AGAIN_MAX_MS;
        link->retry_at_ms = now + wait_ms / 2 + nng_random() % (wait_ms / 2); /* not all clients at once */
    }
    char url[ADDRESS_SIZE_MAX + 8];
    snprintf(url, sizeof(url), "%s/rpc", link->addresses[link->address]);
    return dial_begin(client, &link->dial, link->socket, url, NULL);
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
    pthread_mutex_lock(&client->lock);
    int rv = try_address(client);
    pthread_mutex_unlock(&client->lock);
    return rv;
}

bool link_close(tarry_client *client) {
    struct link *link = &client->link;
    if (!link->socket_open) return true;
    pthread_mutex_lock(&client->lock);
    dial_settle(client, &link->dial);
    pthread_mutex_unlock(&client->lock);
    link->socket_open = false;
    if (!socket_close(link->socket)) return false;
    pthread_mutex_lock(&client->lock);
    bool ended = dial_ended(client, &link->dial);
    pthread_mutex_unlock(&client->lock);
    return ended;
}

uint64_t link_deadline(const tarry_client *client) {
    const struct link *link = &client->link;
    if (link->again) return dial_rests_at(&link->dial);
    if (link->up) return UINT64_MAX;
    if (!link->dial.trying) return link->retry_at_ms;
    return link->dial.since_ms + (link->address_count > 1 ? DIAL_PATIENCE_MS : DIAL_PATIENCE_ALONE_MS);
}

void link_step(tarry_client *client, uint64_t now) {
    struct link *link = &client->link;
    if (now < link_deadline(client)) return;
    if (link->again || link->tries > 0) link->address = (link->address + 1) % link->address_count;
    link->again = link->up = false;
    dial_end(client, &link->dial);
    /* A failure to begin is a failed try. */
    (void)try_address(client);
}
