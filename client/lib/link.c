/* link.c: the way to the primary. One REQ socket, one dialer at a time (dial.c).
 *
 * A connection that is lost after it has brought an answer is tried anew at once, at the same address. A try that fails
 * sends the engine to the next address, at once too; when all of them have failed it waits, a little longer from round
 * to round. When the broker is not the primary, or has gone silent, the engine moves on in the same way (or dials the
 * only address anew, which ends a connection that is half open). In every round each address is tried once: whom a
 * broker names as the primary comes next, if it is among the addresses and its turn has not been yet, so that brokers
 * that name each other, or themselves, lead nobody in circles. While nobody waits for an answer nothing is dialled.
 *
 * nng calls pipe_changed with no lock of its own that a dialer's opening or closing waits for; even so the client's
 * lock is given up around those calls. */
#include "client.h"

#include <stdio.h>

static struct address *present(struct link *link) {
    return &link->addresses.items[link->address];
}

/* A useful connection has ended: the rounds begin anew, with no wait before the first. */
static void start_anew(struct link *link) {
    link->tries = 0;
    link->tried = 0;
    link->retry_at_ms = 0;
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
        event_note(client, TARRY_CONNECTED, present(link)->url, "connected");
        engine_kick(client);
    } else if (link->up && nng_pipe_id(pipe) == nng_pipe_id(link->pipe)) {
        link->up = false;
        bool was_useful = client->answered_ms >= link->dial.since_ms;
        if (!link->again)
            address_say(present(link), was_useful ? "the connection was lost" : "dropped the connection unanswered");
        event_note(client, TARRY_DISCONNECTED, present(link)->url, "%s", present(link)->said);
        if (was_useful) start_anew(link);
        engine_kick(client);
    }
    pthread_mutex_unlock(&client->lock);
}

/* Tries the present address. Gives the lock up. */
static int try_address(tarry_client *client) {
    struct link *link = &client->link;
    size_t count = link->addresses.count;
    uint64_t now = now_ms();
    link->tries++;
    link->serial++;
    link->tried |= 1u << link->address;
    link->retry_at_ms = now;
    if (link->tries % count == 0) { /* they all have had their turn */
        size_t rounds = link->tries / count;
        uint64_t wait_ms = rounds <= 3 ? DIAL_AGAIN_MIN_MS << (rounds - 1) : DIAL_AGAIN_MAX_MS;
        link->retry_at_ms = now + wait_ms / 2 + nng_random() % (wait_ms / 2); /* not all clients at once */
        link->tried = 0;
    }
    char url[ADDRESS_SIZE_MAX + DIAL_PATH_MAX];
    snprintf(url, sizeof(url), "%s/rpc", present(link)->url);
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

bool link_is_ready(const struct link *link) {
    return link->up && !link->again;
}

uint64_t link_deadline(const tarry_client *client) {
    const struct link *link = &client->link;
    if (link->again) {
        uint64_t deadline = dial_rests_at(&link->dial);
        if (link->retry_at_ms > deadline) deadline = link->retry_at_ms;
        if (link->grace_until_ms > deadline && engine_awaits(client)) deadline = link->grace_until_ms;
        return deadline;
    }
    if (link->up) return UINT64_MAX;
    if (!link->dial.trying) return link->retry_at_ms;
    return dial_given_up_at(&link->dial, link->addresses.count > 1 ? DIAL_PATIENCE_MS : DIAL_PATIENCE_ALONE_MS);
}

/* The next address of this round. */
static size_t next_address(struct link *link) {
    size_t count = link->addresses.count, next = (link->address + 1) % count;
    if (link->hint < count && (link->tried & 1u << link->hint) == 0) {
        next = link->hint;
    } else {
        for (size_t i = 0; i < count && (link->tried & 1u << next) != 0; i++) next = (next + 1) % count;
    }
    link->hint = ADDRESSES_MAX;
    return next;
}

/* What is known of the present address, if it has said nothing itself. A try that is young does not blot out what came
 * of the one before. */
static void note_present(tarry_client *client) {
    struct link *link = &client->link;
    bool is_young = present(link)->said[0] != 0 && now_ms() < link->dial.since_ms + DIAL_PATIENCE_MS;
    if (link->again) return;
    if (link->dial.error != 0)
        address_say(present(link), "%s", dial_sentence(&link->dial));
    else if (is_young)
        return;
    else if (link->dial.trying)
        address_say(present(link), "does not answer");
    else if (link->up && client->answered_ms < link->dial.since_ms)
        address_say(present(link), "takes requests and does not answer them");
}

void link_step(tarry_client *client, uint64_t now) {
    struct link *link = &client->link;
    if (now < link_deadline(client)) return;
    note_present(client);
    if (link->up)
        event_note(client, TARRY_DISCONNECTED, present(link)->url, "given up: %s", present(link)->said);
    else
        event_note_address(client, present(link));
    if (link->again && client->answered_ms >= link->dial.since_ms) {
        start_anew(link);
        link->tried = 1u << link->address;
    }
    if (link->again || link->tries > 0) link->address = next_address(link);
    link->again = link->up = false;
    link->grace_until_ms = 0;
    dial_end(client, &link->dial);
    /* A failure to begin is a failed try. */
    (void)try_address(client);
}

void link_not_primary(struct link *link, const char *primary, const char *message) {
    struct address *address = present(link);
    link->again = true;
    /* It refuses the others too, and says so. Whoever does not hear it must take them for done, perhaps. */
    link->grace_until_ms = now_ms() + NOT_PRIMARY_GRACE_MS;
    link->hint = primary[0] != 0 ? addresses_find(&link->addresses, primary) : ADDRESSES_MAX;
    if (primary[0] == 0)
        address_say(address, "not the primary (%s)", message[0] != 0 ? message : "and does not know which is");
    else if (link->hint == link->address)
        address_say(address, "not the primary, and names itself");
    else if (link->hint < link->addresses.count)
        address_say(address, "not the primary, and names %s", link->addresses.items[link->hint].url);
    else
        address_say(address, "not the primary, and names %s, which is not among the addresses", primary);
}

void link_stalled(tarry_client *client) {
    note_present(client);
    client->link.again = true;
    client->link.grace_until_ms = 0;
}

void link_tell(tarry_client *client, char *out, size_t size) {
    note_present(client);
    addresses_tell(&client->link.addresses, out, size);
}
