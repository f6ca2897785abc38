/* link.c: connection to the primary: one at a time (transport/ws_client.h), and the choice of the next address.
 *
 * If a connection is lost after it has brought a reply, the engine connects to the same address again at once. After
 * a failed attempt it tries the next address, also at once. When all addresses have failed, it waits, a little
 * longer after each round. If the broker is not the primary or has become silent, the engine moves on in the same
 * way. (With one address it connects again, which ends a half-open connection.) Each round tries each address once.
 * The address that a broker names as the primary comes next, if it is a given one and was not tried in this round.
 * So brokers that name each other or themselves cannot make a client loop. While no call waits for a reply, the
 * engine opens no connection.
 *
 * A dead host sends nothing. If there are other addresses, the kernel checks for it (HOST_DEAD_AFTER_MS), and a dead
 * host is not tried first. */
#include "client.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

/* ---- addresses */

/* Addresses of brokers: parsing of URLs, comparison with addresses that brokers name, and the last result
 * of each address.
 *
 * The results are text for people. A call that no broker answered fails with a message that has all of them. */

size_t addresses_find(const struct addresses *addresses, const char *url) {
    struct place place;
    size_t at = 0;
    if (place_parse(url, strnlen(url, PLACE_URL_MAX), &place) != 0) return addresses->count;
    while (at < addresses->count && strcmp(addresses->items[at].place.url, place.url) != 0) at++;
    return at;
}

int addresses_parse(struct addresses *addresses, const char *urls) {
    const char *environment = urls == NULL ? secure_getenv("TARRY_BROKER") : NULL;
    const char *at = urls != NULL ? urls : environment != NULL && environment[0] != 0 ? environment : DEFAULT_URL;
    for (;;) {
        size_t size = strcspn(at, ",");
        const char *end = at + size;
        while (size > 0 && *at == ' ') at++, size--;
        while (size > 0 && at[size - 1] == ' ') size--;
        if (addresses->count == ADDRESSES_MAX) return TARRY_E_ADDRESS;
        struct address *address = &addresses->items[addresses->count];
        if (place_parse(at, size, &address->place) != 0) return TARRY_E_ADDRESS;
        address->said[0] = 0;
        if (addresses_find(addresses, address->place.url) == addresses->count) addresses->count++; /* no duplicates */
        if (*end == 0) return TARRY_OK;
        at = end + 1;
    }
}

void address_say(struct address *address, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(address->said, sizeof(address->said), format, list);
    va_end(list);
}

void addresses_tell(const struct addresses *addresses, char *out, size_t size) {
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < addresses->count && used < size; i++) {
        const struct address *address = &addresses->items[i];
        const char *said = address->said[0] != 0 ? address->said : "not tried yet";
        int added = snprintf(out + used, size - used, "%s%s: %s", i > 0 ? "; " : "", address->place.url, said);
        used += added > 0 ? (size_t)added : 0;
    }
}

/* ---- the connection */

static struct address *present(struct link *link) {
    return &link->addresses.items[link->address];
}

/* After a useful connection has ended, counts the rounds of connection attempts from 0 again. So the first attempt
 * begins without a pause. */
static void start_anew(struct link *link) {
    link->tries = 0;
    link->tried = 0;
    link->retry_at_ms = 0;
}

/* ---- events of the connection */

static void opened(tarry_client *client) {
    struct link *link = &client->link;
    link->trying = false;
    link->up = true;
    /* If the new connection is to another broker, the former broker's BUSY refusals no longer count. */
    if (link->opened != link->address) queue_forget_refusals(client);
    link->opened = link->address;
    present(link)->denied = false;
    event_note(client, TARRY_CONNECTED, present(link)->place.url, "connected");
}

/* Handles a connection that has ended or was never established. */
static void lost(tarry_client *client) {
    struct link *link = &client->link;
    const bool was_up = link->up, was_useful = client->answered_ms >= link->since_ms;
    const char *why = link->connection.said;
    if (why[0] == 0) why = was_useful ? "the connection was lost" : "closed the connection without a reply";
    if (!link->again) address_say(present(link), "%s", why);
    present(link)->denied = link->connection.denied;
    link->trying = link->up = false;
    ws_client_close(&link->connection);
    if (was_up) {
        event_note(client, TARRY_DISCONNECTED, present(link)->place.url, "%s", present(link)->said);
        if (was_useful) start_anew(link);
        if (link->connection.dead) {
            link->tried = 1u << link->address;
            link->again = true; /* the next connection attempt goes to the next address */
            sessions_host_dead(client, now_ms());
        }
    }
    answers_lost(client);
    if (link_is_denied(link)) expiry_denied(client);
}

/* Handles the connection's next event. True: there may be more events. */
static bool take_news(tarry_client *client, enum ws_client_news news, const uint8_t *data, size_t size) {
    struct link *link = &client->link;
    switch (news) {
    case WS_CLIENT_NOTHING:
        return false;
    case WS_CLIENT_OPENED:
        opened(client);
        return true;
    case WS_CLIENT_MESSAGE:
        if (answer_take(client, data, size)) return true;
        ws_client_say(&link->connection, "broke the protocol: a message without a request number");
        /* fall through */
    case WS_CLIENT_LOST:
        lost(client);
        return false;
    }
    return false;
}

void link_turn(tarry_client *client, uint32_t events) {
    struct link *link = &client->link;
    const enum ws_client_state state = link->connection.state;
    ws_client_ready(&link->connection, events);
    for (bool goes_on = true; goes_on;) {
        const uint8_t *data = NULL;
        size_t size = 0;
        pthread_mutex_unlock(&client->lock);
        const enum ws_client_news news = ws_client_next(&link->connection, &data, &size);
        pthread_mutex_lock(&client->lock);
        goes_on = take_news(client, news, data, size);
    }
    if (link->connection.state != state) link->progress_ms = now_ms();
}

/* ---- connection attempts */

/* Returns a random time between half of wait_ms and wait_ms, so that clients do not reconnect at the same moment. */
static uint64_t some_of(uint64_t wait_ms) {
    uint32_t random = 0;
    (void)!getrandom(&random, sizeof(random), GRND_NONBLOCK);
    return wait_ms / 2 + random % (wait_ms / 2);
}

/* Reads the token to send to the current address. Returns false after an error, with the message in the connection.
 * Then no request is sent, and the client counts as denied; the next attempt reads the file again.
 *
 * Reason for not waiting for a missing file: programs replace a file by renaming, so it is never missing. Waiting would
 * only hide an error. */
static bool read_token(tarry_client *client, char token[TOKEN_SIZE_MAX + 1]) {
    struct ws_client *connection = &client->link.connection;
    const struct credentials *credentials = &client->credentials;
    connection->denied = false;
    if (credentials->token_file == NULL) return true;
    connection->denied = true;
    if (place_is_in_the_clear(&present(&client->link)->place) && !credentials->unsafe_plain_token) {
        ws_client_say(connection, "the token is not sent over unencrypted ws:// to another machine: use wss://, or "
                                  "allow it with --unsafe-plain-token (unsafe_plain_token)");
        return false;
    }
    connection->denied =
        !private_read_token(credentials->token_file, token, connection->said, sizeof(connection->said));
    return !connection->denied;
}

/* Starts an attempt at the current address. */
static void try_address(tarry_client *client) {
    struct link *link = &client->link;
    size_t count = link->addresses.count;
    uint64_t now = now_ms();
    link->tries++;
    link->serial++;
    link->tried |= 1u << link->address;
    link->retry_at_ms = now;
    if (link->tries % count == 0) { /* all addresses have been tried */
        size_t rounds = link->tries / count;
        uint64_t wait_ms = rounds <= 3 ? DIAL_AGAIN_MIN_MS << (rounds - 1) : DIAL_AGAIN_MAX_MS;
        link->retry_at_ms = now + some_of(wait_ms);
        link->tried = 0;
    }
    link->since_ms = link->progress_ms = now;
    link->trying = true;
    char token[TOKEN_SIZE_MAX + 1] = "";
    if (!read_token(client, token)) {
        lost(client);
        return;
    }
    const struct tls_source tls = {credentials_tls_context, &client->credentials};
    const struct ws_client_options options = {.place = &present(link)->place,
                                              .path = "/rpc",
                                              .protocol = "rep.sp.nanomsg.org",
                                              .bearer = token,
                                              .tls = &tls,
                                              .message_max = ANSWER_SIZE_MAX,
                                              .dead_after_ms = count > 1 ? HOST_DEAD_AFTER_MS : 0};
    ws_client_open(&link->connection, client->loop.epoll, ++client->loop.last_id, &options);
    explicit_bzero(token, sizeof(token));
    if (link->connection.state == WS_CLIENT_CLOSED) lost(client);
}

void link_begin(tarry_client *client) {
    try_address(client);
}

void link_end(tarry_client *client) {
    struct link *link = &client->link;
    if (link->up) event_note(client, TARRY_DISCONNECTED, present(link)->place.url, "the client was closed");
    link->up = link->trying = false;
    ws_client_close(&link->connection);
}

void link_ask_last(tarry_client *client, struct packet *packet, uint64_t patience_ms) {
    struct ws_client *connection = &client->link.connection;
    const uint64_t until_ms = now_ms() + patience_ms;
    ws_client_send(connection, packet, 0);
    for (enum ws_client_news news = WS_CLIENT_NOTHING; news == WS_CLIENT_NOTHING;) {
        const uint8_t *data;
        size_t size;
        const uint64_t now = now_ms();
        struct pollfd waiting = {.fd = connection->fd, .events = POLLIN};
        if (now >= until_ms || (poll(&waiting, 1, (int)(until_ms - now)) < 0 && errno != EINTR)) return;
        ws_client_ready(connection, EPOLLIN | EPOLLOUT);
        news = ws_client_next(connection, &data, &size);
    }
}

bool link_is_denied(const struct link *link) {
    for (size_t i = 0; i < link->addresses.count; i++)
        if (!link->addresses.items[i].denied) return false;
    return !link->up;
}

bool link_is_ready(const struct link *link) {
    return link->up && !link->again;
}

/* Returns the time limit for the next step of a connection attempt. */
static uint64_t patience_ms(const struct link *link) {
    const size_t count = link->addresses.count;
    if (count == 1) return DIAL_PATIENCE_ALONE_MS;
    const bool is_first = link->tries <= DIAL_ROUNDS_TCP * count;
    return is_first && link->connection.state == WS_CLIENT_CONNECTING ? DIAL_PATIENCE_TCP_MS : DIAL_PATIENCE_MS;
}

uint64_t link_deadline(const tarry_client *client) {
    const struct link *link = &client->link;
    if (link->again)
        return link->grace_until_ms > link->retry_at_ms && slots_busy(client) ? link->grace_until_ms
                                                                              : link->retry_at_ms;
    if (link->up) return UINT64_MAX;
    if (!link->trying) return link->retry_at_ms;
    return link->progress_ms + patience_ms(link);
}

/* Returns the index of the next address to try in this round. */
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

/* Records why the current address has not answered, unless the broker there has given a reason. An attempt that has
 * just begun does not overwrite the reason of the previous one. */
static void note_present(tarry_client *client) {
    struct link *link = &client->link;
    bool is_young = present(link)->said[0] != 0 && now_ms() < link->since_ms + DIAL_PATIENCE_MS;
    if (link->again || is_young) return;
    if (link->trying)
        address_say(present(link), "does not answer");
    else if (link->up && client->answered_ms < link->since_ms)
        address_say(present(link), "accepts requests but does not answer them");
}

void link_step(tarry_client *client, uint64_t now) {
    struct link *link = &client->link;
    if (now < link_deadline(client)) return;
    note_present(client);
    if (link->up)
        event_note(client, TARRY_DISCONNECTED, present(link)->place.url, "the client gave up: %s", present(link)->said);
    else
        event_note_address(client, present(link));
    if (link->again && client->answered_ms >= link->since_ms) {
        start_anew(link);
        link->tried = 1u << link->address;
    }
    if (link->again || link->tries > 0) link->address = next_address(link);
    link->again = link->up = link->trying = false;
    link->grace_until_ms = 0;
    ws_client_close(&link->connection);
    answers_lost(client);
    try_address(client);
}

void link_not_primary(struct link *link, const char *primary, const char *message) {
    struct address *address = present(link);
    link->again = true;
    /* Keep the connection for NOT_PRIMARY_GRACE_MS, because the broker will refuse the other sent requests, too.
     * Without that refusal, their callers would have to assume that a commit may have been executed. */
    link->grace_until_ms = now_ms() + NOT_PRIMARY_GRACE_MS;
    link->hint = primary[0] != 0 ? addresses_find(&link->addresses, primary) : ADDRESSES_MAX;
    if (primary[0] == 0)
        address_say(address, "not the primary (%s)", message[0] != 0 ? message : "and does not know the primary");
    else if (link->hint == link->address)
        address_say(address, "not the primary, but names itself as the primary");
    else if (link->hint < link->addresses.count)
        address_say(address, "not the primary; the primary is %s", link->addresses.items[link->hint].place.url);
    else
        address_say(address, "not the primary; it names %s, which is not one of the client's addresses", primary);
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
