/* door_connections.c: the table of connections, the number of connections per address, and their principals. */
#include <arpa/inet.h>
#include <assert.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "door_parts.h"

static_assert(DOOR_CONNECTIONS_MAX <= SLOT_MASK, "a slot number fits into an id");
static_assert(PEER_SIZE_MAX >= INET6_ADDRSTRLEN + IF_NAMESIZE, "an address with its port fits");

static unsigned smaller(unsigned a, unsigned b) {
    return a < b ? a : b;
}

bool connections_init(struct door *door) {
    unsigned max = door->limits.connections_max;
    assert(max > 0 && max <= DOOR_CONNECTIONS_MAX);
    door->slots = calloc(max, sizeof(*door->slots));
    door->free_slots = calloc(max, sizeof(*door->free_slots));
    if (door->slots == NULL || door->free_slots == NULL) return false;
    for (unsigned i = 0; i < max; i++) door->free_slots[i] = max - 1 - i;
    door->free_count = max;
    /* Even with few descriptors, neither one address nor new connections may take all of them. */
    door->of_address_max = smaller(DOOR_CONNECTIONS_OF_ADDRESS_MAX, max - max / 4);
    struct newcomers *plain = &door->newcomers[false], *tls = &door->newcomers[true];
    size_t handshakes = door->limits.held_max / DOOR_HANDSHAKE_SIZE;
    plain->max = smaller(DOOR_HTTP_MAX, max / 4);
    tls->max = handshakes < plain->max ? (unsigned)handshakes : plain->max;
    TAILQ_INIT(&plain->list);
    TAILQ_INIT(&tls->list);
    TAILQ_INIT(&door->waiting);
    TAILQ_INIT(&door->dirty);
    TAILQ_INIT(&door->again);
    TAILQ_INIT(&door->dead);
    TAILQ_INIT(&door->halves);
    TAILQ_INIT(&door->keepers);
    TAILQ_INIT(&door->unread);
    TAILQ_INIT(&door->slow);
    return true;
}

/* ---- addresses */

/* Returns whether the address is 127.0.0.0/8 (also mapped to IPv6) or ::1. */
static bool is_loopback(const uint8_t bytes[DOOR_ADDRESS_SIZE]) {
    static const uint8_t six[DOOR_ADDRESS_SIZE] = {[15] = 1}, four[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127};
    return memcmp(bytes, six, sizeof(six)) == 0 || memcmp(bytes, four, sizeof(four)) == 0;
}

/* Reads the uid and pid of the process at the other end of a Unix socket. All connections of a user count for one
 * address, which no IPv6 host has. */
static void look_at_process(int fd, struct connection *connection, uint8_t bytes[DOOR_ADDRESS_SIZE]) {
    struct ucred process;
    socklen_t size = sizeof(process);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &process, &size) != 0)
        return; /* connection->way stays CALLER_NETWORK, so no user is known */
    connection->way = CALLER_UNIX;
    connection->uid = process.uid;
    connection->pid = (uint32_t)process.pid;
    bytes[0] = 0xff;
    memcpy(bytes + DOOR_ADDRESS_SIZE - sizeof(process.uid), &process.uid, sizeof(process.uid));
    snprintf(connection->peer, PEER_SIZE_MAX + 1, "unix:uid=%u,pid=%u", connection->uid, connection->pid);
}

static void look_at_peer(int fd, struct connection *connection, uint8_t bytes[DOOR_ADDRESS_SIZE]) {
    char *text = connection->peer;
    struct sockaddr_storage address = {0};
    const struct sockaddr_in *four = (const struct sockaddr_in *)&address;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address;
    socklen_t size = sizeof(address);
    char host[INET6_ADDRSTRLEN];
    memset(bytes, 0, DOOR_ADDRESS_SIZE);
    connection->way = CALLER_NETWORK;
    if (getpeername(fd, (struct sockaddr *)&address, &size) != 0) return;
    if (address.ss_family == AF_UNIX) look_at_process(fd, connection, bytes);
    if (address.ss_family == AF_INET && inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host)) != NULL) {
        memset(bytes + 10, 0xff, 2);
        memcpy(bytes + 12, &four->sin_addr, 4);
        snprintf(text, PEER_SIZE_MAX + 1, "%s:%u", host, ntohs(four->sin_port));
    } else if (address.ss_family == AF_INET6 && inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host)) != NULL) {
        memcpy(bytes, &six->sin6_addr, DOOR_ADDRESS_SIZE);
        snprintf(text, PEER_SIZE_MAX + 1, "[%s]:%u", host, ntohs(six->sin6_port));
    }
    if (is_loopback(bytes)) connection->way = CALLER_LOOPBACK;
}

static struct address **address_place(struct door *door, const uint8_t bytes[DOOR_ADDRESS_SIZE]) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < DOOR_ADDRESS_SIZE; i++) hash = (hash ^ bytes[i]) * 16777619u;
    struct address **place = &door->addresses[hash % DOOR_ADDRESS_BUCKETS];
    while (*place != NULL && memcmp((*place)->bytes, bytes, DOOR_ADDRESS_SIZE) != 0) place = &(*place)->next;
    return place;
}

/* Counts a connection of the address. NULL: the address has its maximum, or out of memory. */
static struct address *address_take(struct door *door, const uint8_t bytes[DOOR_ADDRESS_SIZE]) {
    struct address **place = address_place(door, bytes);
    if (*place == NULL) {
        *place = calloc(1, sizeof(**place));
        if (*place == NULL) return NULL;
        memcpy((*place)->bytes, bytes, DOOR_ADDRESS_SIZE);
    }
    if ((*place)->count >= door->of_address_max) return NULL;
    (*place)->count++;
    return *place;
}

static void address_give(struct door *door, struct address *address) {
    if (--address->count > 0) return;
    struct address **place = address_place(door, address->bytes);
    assert(*place == address);
    *place = address->next;
    free(address);
}

/* ---- connections */

static void make_room_for(struct newcomers *newcomers) {
    if (++newcomers->count <= newcomers->max) return;
    struct connection *oldest = TAILQ_FIRST(&newcomers->list);
    connection_settle(oldest);
    connection_kill(oldest);
}

struct connection *connection_new(const struct listener *listener, int fd, struct refused_peer *out_refused) {
    struct door *door = listener->door;
    uint8_t bytes[DOOR_ADDRESS_SIZE];
    *out_refused = (struct refused_peer){.sentence = "the broker has its maximum number of connections"};
    struct connection *connection = calloc(1, sizeof(*connection));
    if (connection == NULL) return NULL;
    look_at_peer(fd, connection, bytes);
    memcpy(out_refused->peer, connection->peer, sizeof(connection->peer));
    if (door->free_count > 0) {
        out_refused->sentence = "this address has its maximum number of connections";
        connection->address = address_take(door, bytes);
    }
    if (connection->address == NULL) {
        free(connection);
        return NULL;
    }
    uint32_t slot = door->free_slots[--door->free_count];
    connection->source = SOURCE_CONNECTION;
    connection->fd = fd;
    connection->door = door;
    connection->over_tls = listener->over_tls;
    connection->speaks = listener->speaks;
    connection->id = (++door->serial << SLOT_BITS) | slot;
    connection->out_last = &connection->out_first;
    door->slots[slot].connection = connection;
    struct newcomers *newcomers = &door->newcomers[connection->over_tls];
    LIST_LAST(&newcomers->list, connection, in_newcomers);
    make_room_for(newcomers);
    return connection;
}

void connection_settle(struct connection *connection) {
    struct newcomers *newcomers = &connection->door->newcomers[connection->over_tls];
    if (LISTED(connection, in_newcomers)) newcomers->count--;
    UNLIST(&newcomers->list, connection, in_newcomers);
}

void connection_dismiss(struct connection *connection) {
    if (!connection->is_admitted) return;
    connection->is_admitted = false;
    connection->door->calls.dismiss(connection->door->calls.argument, connection->principal, connection->id);
}

struct caller_verdict connection_admit(struct connection *connection, enum caller_place place, const char *path,
                                       uint64_t session, const char *token, size_t token_size) {
    char certificate[TLS_NAME_SIZE] = "";
    if (connection->ssl != NULL) tls_name(connection->ssl, certificate);
    const struct door_calls *calls = &connection->door->calls;
    const struct net_caller caller = {.peer = connection->peer,
                                      .way = connection->way,
                                      .place = place,
                                      .path = path,
                                      .session = session,
                                      .uid = connection->uid,
                                      .pid = connection->pid,
                                      .over_tls = connection->over_tls,
                                      .certificate = certificate,
                                      .token = token,
                                      .token_size = token_size,
                                      .former = connection->is_admitted ? connection->principal : 0};
    struct caller_verdict verdict = calls->admit(calls->argument, &caller);
    if (verdict.status == 0) {
        connection_dismiss(connection);
        connection->principal = verdict.principal;
        connection->is_admitted = true;
        /* Any client may fetch a page. So a client that has only fetched pages still counts as not admitted to requests
         * (DOOR_HTTP_MAX). */
        if (place != CALLER_PAGE) connection_settle(connection);
    }
    // cppcheck-suppress returnDanglingLifetime ; a verdict points to nothing of the caller's
    return verdict;
}

/* Frees the connection and all that it held, and informs the callees. */
static void bury(struct connection *connection) {
    struct door *door = connection->door;
    struct slot *slot = &door->slots[connection->id & SLOT_MASK];
    assert(slot->connection == connection);
    slot->connection = NULL;
    door->free_slots[door->free_count++] = (uint32_t)(connection->id & SLOT_MASK);
    connection_settle(connection);
    if (connection->kind == KIND_STREAM)
        stream_gone(connection);
    else
        ws_drop(connection);
    io_drop(connection);
    connection_dismiss(connection);
    address_give(door, connection->address);
    io_close(connection);
    free(connection);
}

void connections_bury(struct door *door) {
    struct connection *connection;
    while ((connection = TAILQ_FIRST(&door->dead)) != NULL) {
        TAILQ_REMOVE(&door->dead, connection, in_dead);
        bury(connection);
    }
}

struct connection *connection_find(struct door *door, uint64_t id) {
    uint64_t slot = id & SLOT_MASK;
    if (slot >= door->limits.connections_max) return NULL;
    struct connection *connection = door->slots[slot].connection;
    return connection != NULL && connection->id == id ? connection : NULL;
}

void connection_kill(struct connection *connection) {
    if (connection->state == STATE_DEAD) return;
    connection->state = STATE_DEAD;
    LIST_LAST(&connection->door->dead, connection, in_dead);
}
