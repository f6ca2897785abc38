/* zookeeper.c: zk://host:port,host:port/path: the session. zookeeper_flight.c sends the calls.
 *
 *   no session ── renewal: look up names ──► connecting ◄──► connected      (ZooKeeper's client tries all servers)
 *       ▲                                        │               │
 *       └─ expired, or credentials refused ──────┴───────────────┘          closed, and opened again after a second
 *
 * When a session expires, another is opened; nothing else depends on it. A session without a connection for LOST_MS is
 * replaced too, because the servers may have new addresses.
 *
 * ZooKeeper's client gets addresses, never names: the renewal thread looks the names up. Client 3.8 would look them up
 * again at every turn of its I/O thread. A resolver that hangs would then break a good connection, and a failed look-up
 * would leave that thread with an uninitialised descriptor and timeout. (Both were found in its source.) */
#include "zookeeper.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "place.h"

static const struct place_kind place_kind = {.scheme = "zk://",
                                             .server = "ZooKeeper",
                                             .reserved = "/zookeeper",
                                             .port = 2181,
                                             .drops_brackets =
                                                 true}; /* ZooKeeper's client expects them without brackets */

#define LAST_WORDS_SIZE 256
#define ADDRESSES_SIZE 4096
#define LOST_MS 10000
#define ENTER_TRIES 2000

/* Last error that ZooKeeper's client has logged. The client reports why it cannot connect only in its log, without
 * handle or context. */
static struct {
    pthread_mutex_t mutex;
    char text[LAST_WORDS_SIZE];
} last_words = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- Words ------------------------------------------------------------------------------------------------------- */

/* Stores the message of a log line, without its head, such as "2026-11-21
 * 18:30:00,123:4711(0x7f…):ZOO_ERROR@function@2928: Socket […] …". */
static void keep_last_words(const char *line) {
    const char *at = strrchr(line, '@');
    at = at == NULL ? NULL : strstr(at, ": ");
    pthread_mutex_lock(&last_words.mutex);
    snprintf(last_words.text, sizeof last_words.text, "%s", at == NULL ? line : at + 2);
    pthread_mutex_unlock(&last_words.mutex);
}

static void read_last_words(char out[LAST_WORDS_SIZE]) {
    pthread_mutex_lock(&last_words.mutex);
    memcpy(out, last_words.text, LAST_WORDS_SIZE);
    pthread_mutex_unlock(&last_words.mutex);
}

static void say_connecting(struct zookeeper *zookeeper) {
    char words[LAST_WORDS_SIZE], why[ZOOKEEPER_WHY_SIZE];
    read_last_words(words);
    zookeeper_why(words, why);
    if (words[0] == '\0')
        coordinator_is(zookeeper->coordinator, COORDINATOR_CONNECTING, zookeeper->sessions,
                       "connecting to ZooKeeper at %s", zookeeper->hosts);
    else
        coordinator_is(zookeeper->coordinator, COORDINATOR_CONNECTING, zookeeper->sessions,
                       "no connection to ZooKeeper at %s: %s", zookeeper->hosts, why);
}

void zookeeper_forbidden(struct zookeeper *zookeeper, const char *reason) {
    zookeeper->is_forbidden = true;
    coordinator_is(zookeeper->coordinator, COORDINATOR_FORBIDDEN, zookeeper->sessions, "%s", reason);
}

void zookeeper_permitted(struct zookeeper *zookeeper) {
    zookeeper->is_forbidden = false;
    coordinator_is(zookeeper->coordinator, COORDINATOR_CONNECTED, zookeeper->sessions, "%s", "");
}

/* ---- the session */

/* Handles an event of the session. A connection is up if zoo_state and the last event both say so: a loss appears first
 * in the events, but the end of a session only in zoo_state. The client may have reconnected before this thread checks.
 */
static void state_changed(zhandle_t *handle, int type, int state, const char *path, void *context) {
    (void)handle;
    (void)path;
    struct zookeeper *zookeeper = context;
    if (type == ZOO_SESSION_EVENT) {
        atomic_store(&zookeeper->is_up, state == ZOO_CONNECTED_STATE);
        if (state != ZOO_CONNECTED_STATE) atomic_store(&zookeeper->was_lost, true);
    }
    coordinator_wake(zookeeper->coordinator);
}

/* Appends all addresses of one host, given as name:port, to `out`. If there are none, `why` describes the problem. */
static void add_addresses(const char *host, char out[ADDRESSES_SIZE], char why[ZOOKEEPER_WHY_SIZE]) {
    char name[COORDINATOR_URL_SIZE_MAX + 1], port[8];
    const char *colon = strrchr(host, ':');
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    snprintf(name, sizeof name, "%.*s", (int)(colon - host), host);
    int error = getaddrinfo(name, colon + 1, &hints, &found);
    if (error != 0) {
        snprintf(
            why, ZOOKEEPER_WHY_SIZE,
            "%s; the name '%.256s' cannot be resolved: check the host names in --coordinator, and this host's resolver",
            gai_strerror(error), name);
        return;
    }
    for (const struct addrinfo *one = found; one != NULL; one = one->ai_next) {
        size_t size = strlen(out);
        int wrong = getnameinfo(one->ai_addr, one->ai_addrlen, name, sizeof name, port, sizeof port,
                                NI_NUMERICHOST | NI_NUMERICSERV);
        if (wrong != 0 || size + strlen(name) + sizeof port + 2 > ADDRESSES_SIZE) continue;
        sprintf(out + size, "%s%s:%s", size > 0 ? "," : "", name, port);
    }
    freeaddrinfo(found);
}

/* Appends the addresses of all hosts that have any. Returns false, with `why`, if no host has one. */
static bool look_up(const char *hosts, char out[ADDRESSES_SIZE], char why[ZOOKEEPER_WHY_SIZE]) {
    char list[COORDINATOR_URL_SIZE_MAX + 1], *rest = list;
    out[0] = '\0';
    snprintf(why, ZOOKEEPER_WHY_SIZE, "no host has an address to connect to; check the host names in --coordinator");
    snprintf(list, sizeof list, "%s", hosts);
    for (const char *host; (host = strtok_r(rest, ",", &rest)) != NULL;) add_addresses(host, out, why);
    return out[0] != '\0';
}

/* Passes the credentials to the client. Its thread may be connecting already, and for a moment between a dead server
 * and the next one it accepts no credentials. A session without credentials would get "forbidden" for everything.
 * Returns ZOK or another result. */
static int enter(zhandle_t *handle, const char *credentials) {
    const struct timespec pause = {.tv_nsec = 1000000};
    int rc = ZINVALIDSTATE;
    for (int tries = 0; tries < ENTER_TRIES && rc == ZINVALIDSTATE; tries++) {
        if (tries > 0) nanosleep(&pause, NULL);
        rc = zoo_add_auth(handle, "digest", credentials, (int)strlen(credentials), NULL, NULL);
    }
    return rc;
}

/* Opens a session with credentials. Returns NULL with an error message on failure. */
static zhandle_t *open_session(struct zookeeper *zookeeper, char why[ZOOKEEPER_WHY_SIZE]) {
    char addresses[ADDRESSES_SIZE];
    if (!look_up(zookeeper->hosts, addresses, why)) return NULL;
    zhandle_t *handle = zookeeper_init2(addresses, state_changed, zookeeper->session_ms, NULL, zookeeper,
                                        ZOO_NO_LOG_CLIENTENV, keep_last_words);
    if (handle == NULL) {
        snprintf(why, ZOOKEEPER_WHY_SIZE, "this node lacks memory, a file descriptor or a thread for it (%s)",
                 strerror(errno));
        return NULL;
    }
    (void)zoo_set_servers_resolution_delay(handle, -1); /* the client must not look up names while it is connected */
    int rc = zookeeper->credentials == NULL ? ZOK : enter(handle, zookeeper->credentials);
    if (rc == ZOK) return handle;
    zookeeper_why_not_entered(rc, why);
    zookeeper_close(handle);
    return NULL;
}

/* Thread function: closes the previous handle, which ends its threads; looks up names, and opens another handle. */
static void *renewal_run(void *argument) {
    struct zookeeper *zookeeper = argument;
    char why[ZOOKEEPER_WHY_SIZE] = "";
    if (zookeeper->renewed != NULL) zookeeper_close(zookeeper->renewed);
    atomic_store(&zookeeper->is_up, false);
    zhandle_t *handle = open_session(zookeeper, why);
    pthread_mutex_lock(&zookeeper->mutex);
    zookeeper->renewed = handle;
    memcpy(zookeeper->renewed_error, why, sizeof why);
    zookeeper->is_renewed = true;
    pthread_mutex_unlock(&zookeeper->mutex);
    coordinator_wake(zookeeper->coordinator);
    return NULL;
}

static void renew(struct zookeeper *zookeeper) {
    zookeeper->renewed = zookeeper->handle; /* the renewal thread closes it; no other code uses it meanwhile */
    zookeeper->renew_ms = coordinator_now_ms() + COORDINATOR_TURN_MS;
    if (pthread_create(&zookeeper->renewal, NULL, renewal_run, zookeeper) != 0) return; /* a later turn tries again */
    pthread_setname_np(zookeeper->renewal, "tarry-coord-new");
    zookeeper->handle = NULL;
    zookeeper->is_connected = false;
    zookeeper->is_renewing = true;
}

static struct flight *find_stranded(const struct zookeeper *zookeeper) {
    struct flight *flight = zookeeper->flights;
    while (flight != NULL && (flight->step == FLIGHT_WAITS || flight->session == zookeeper->sessions))
        flight = flight->next;
    return flight;
}

/* Finishes the flights that the client of the old session never returned. */
static void land_stranded(struct zookeeper *zookeeper) {
    for (struct flight *flight; (flight = find_stranded(zookeeper)) != NULL;) {
        flight->rc = ZCLOSING;
        flight->session = zookeeper->sessions;
        flight_land(flight);
    }
}

static void land_all(struct zookeeper *zookeeper) {
    pthread_mutex_lock(&zookeeper->mutex);
    struct flight *back = zookeeper->back, *first = NULL;
    zookeeper->back = NULL;
    pthread_mutex_unlock(&zookeeper->mutex);
    while (back != NULL) { /* oldest first */
        struct flight *next = back->next_back;
        back->next_back = first;
        first = back;
        back = next;
    }
    while (first != NULL) {
        struct flight *next = first->next_back;
        flight_land(first);
        first = next;
    }
}

static void take_renewed(struct zookeeper *zookeeper) {
    pthread_mutex_lock(&zookeeper->mutex);
    bool is_renewed = zookeeper->is_renewed;
    zookeeper->is_renewed = false;
    pthread_mutex_unlock(&zookeeper->mutex);
    if (!is_renewed) return;
    pthread_join(zookeeper->renewal, NULL);
    zookeeper->is_renewing = false;
    land_all(zookeeper); /* the client can return no flight of the old session any more */
    if (zookeeper->renewed == NULL) {
        coordinator_is(zookeeper->coordinator, COORDINATOR_CONNECTING, zookeeper->sessions,
                       "no session with ZooKeeper at %s: %s", zookeeper->hosts, zookeeper->renewed_error);
        return;
    }
    zookeeper->handle = zookeeper->renewed;
    zookeeper->renewed = NULL;
    zookeeper->sessions++;
    zookeeper->lost_ms = coordinator_now_ms();
    land_stranded(zookeeper);
    for (size_t i = 0; i < COORDINATOR_NAMES_MAX; i++) {
        zookeeper->watched[i].state = WATCH_IDLE;
        zookeeper->watched[i].again_ms = 0;
    }
}

/* ---- the turn */

static void look_at_state(struct zookeeper *zookeeper) {
    int state = zookeeper->handle == NULL ? 0 : zoo_state(zookeeper->handle);
    uint64_t now_ms = coordinator_now_ms();
    bool was_connected = zookeeper->is_connected;
    bool is_lost_between = atomic_exchange(&zookeeper->was_lost, false) &&
                           was_connected; /* report the loss now; the next turn reports the new state */
    zookeeper->is_connected = state == ZOO_CONNECTED_STATE && atomic_load(&zookeeper->is_up) && !is_lost_between;
    if (was_connected && !zookeeper->is_connected) zookeeper->lost_ms = now_ms;
    bool is_lost = state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE ||
                   (!zookeeper->is_connected && now_ms >= zookeeper->lost_ms + LOST_MS);
    if (state == ZOO_AUTH_FAILED_STATE)
        zookeeper_forbidden(
            zookeeper, "coordinator: ZooKeeper refuses this node's credentials; correct --coordinator-credentials");
    if (was_connected && !zookeeper->is_connected && state != ZOO_AUTH_FAILED_STATE) zookeeper->is_forbidden = false;
    if (zookeeper->is_connected && !was_connected && !zookeeper->is_forbidden) zookeeper_permitted(zookeeper);
    if (!zookeeper->is_connected && !zookeeper->is_forbidden && zookeeper->handle != NULL) say_connecting(zookeeper);
    if (zookeeper->is_connected) keep_last_words("");
    bool is_due = now_ms >= zookeeper->renew_ms;
    if ((zookeeper->handle == NULL || is_lost) && !zookeeper->is_renewing && is_due) renew(zookeeper);
}

static struct flight *find_waiting(const struct zookeeper *zookeeper) {
    struct flight *flight = zookeeper->flights, *oldest = NULL;
    for (; flight != NULL; flight = flight->next)
        if (flight->step == FLIGHT_WAITS)
            oldest = flight; /* the list is newest first, so the last one found is the oldest */
    return oldest;
}

static void watch_again(struct zookeeper *zookeeper, struct watched *watched) {
    bool is_fired = atomic_exchange(&watched->is_fired, false);
    if (is_fired && watched->state == WATCH_STANDS) watched->state = WATCH_IDLE;
    if (watched->name[0] == '\0' || watched->state != WATCH_IDLE) return;
    if (!is_fired && coordinator_now_ms() < watched->again_ms) return;
    if (flight_make(zookeeper, NULL, watched) != NULL) watched->state = WATCH_ASKED;
}

static void zookeeper_turn(void *state) {
    struct zookeeper *zookeeper = state;
    take_renewed(zookeeper);
    land_all(zookeeper);
    look_at_state(zookeeper);
    if (!zookeeper->is_connected) return;
    for (size_t i = 0; i < COORDINATOR_NAMES_MAX; i++) watch_again(zookeeper, &zookeeper->watched[i]);
    flight_declare(zookeeper);
    for (struct flight *flight; (flight = find_waiting(zookeeper)) != NULL;) flight_begin(flight);
}

static void zookeeper_start(void *state, struct coordinator_call *call) {
    struct zookeeper *zookeeper = state; /* only makes the flight; the next turn starts the call */
    if (flight_make(zookeeper, call, NULL) == NULL)
        coordinator_fail(zookeeper->coordinator, call, PAIR_UNKNOWN, "coordinator: no memory");
}

static void zookeeper_abandon(void *state, struct coordinator_call *call) {
    (void)state;
    struct flight *flight = call->flight;
    flight->call = NULL;
    if (flight->step == FLIGHT_WAITS) flight_land(flight);
}

static void zookeeper_declare(void *state, const struct presence *presence) {
    struct declared *declared = &((struct zookeeper *)state)->declared;
    declared->is_wanted = presence != NULL; /* the next turn creates or deletes the znode */
    if (presence != NULL) declared->wanted = *presence;
}

static void zookeeper_watch(void *state, const char *name) {
    struct zookeeper *zookeeper = state;
    for (size_t i = 0; i < COORDINATOR_NAMES_MAX; i++) {
        struct watched *watched = &zookeeper->watched[i];
        if (strcmp(watched->name, name) == 0) return;
        if (watched->name[0] != '\0') continue;
        watched->zookeeper = zookeeper;
        watched->state = WATCH_IDLE;
        snprintf(watched->name, sizeof watched->name, "%s", name);
        return;
    }
    assert(!"more entries than COORDINATOR_NAMES_MAX");
}

/* ---- opening and closing */

static void zookeeper_close_all(void *state) {
    struct zookeeper *zookeeper = state;
    if (zookeeper->is_renewing) {
        pthread_join(zookeeper->renewal, NULL);
        zookeeper->handle = zookeeper->renewed;
    }
    if (zookeeper->handle != NULL) zookeeper_close(zookeeper->handle);
    while (zookeeper->flights != NULL) {
        struct flight *next = zookeeper->flights->next;
        free(zookeeper->flights);
        zookeeper->flights = next;
    }
    pthread_mutex_destroy(&zookeeper->mutex);
    free(zookeeper->credentials);
    free(zookeeper);
}

static int zookeeper_check(const char *place, char message[COORDINATOR_MESSAGE_SIZE]) {
    char hosts[COORDINATOR_URL_SIZE_MAX + 1];
    const char *path;
    return place_take(&place_kind, place, hosts, &path, message);
}

static int zookeeper_open(struct coordinator *coordinator, const char *place, const struct coordinator_options *options,
                          void **out, char message[COORDINATOR_MESSAGE_SIZE]) {
    const char *path;
    struct zookeeper *zookeeper = calloc(1, sizeof *zookeeper);
    if (zookeeper == NULL) return coordinator_refuse(message, "coordinator: no memory");
    int failed = place_take(&place_kind, place, zookeeper->hosts, &path, message);
    if (failed == 0 && options->credentials != NULL) {
        zookeeper->credentials = strdup(options->credentials);
        if (zookeeper->credentials == NULL) failed = coordinator_refuse(message, "coordinator: no memory");
    }
    if (failed != 0) {
        free(zookeeper);
        return failed;
    }
    zookeeper->coordinator = coordinator;
    snprintf(zookeeper->base, sizeof zookeeper->base, "%s", path);
    zookeeper->session_ms = (int)options->session_ms;
    zookeeper->acl = options->credentials != NULL ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
    pthread_mutex_init(&zookeeper->mutex, NULL);
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    *out = zookeeper;
    return 0;
}

static void zookeeper_wait(void *state, int wake, int wait_ms) {
    (void)state; /* no descriptor is needed: ZooKeeper's threads wake the coordinator's thread */
    coordinator_poll(wake, -1, wait_ms);
}

const struct backend zookeeper_backend = {
    .scheme = "zk://",
    .warning = "",
    .check = zookeeper_check,
    .open = zookeeper_open,
    .close = zookeeper_close_all,
    .wait = zookeeper_wait,
    .start = zookeeper_start,
    .abandon = zookeeper_abandon,
    .declare = zookeeper_declare,
    .turn = zookeeper_turn,
    .watch = zookeeper_watch,
};
