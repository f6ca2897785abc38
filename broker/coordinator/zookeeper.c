/* zookeeper.c: zk://host:port,host:port/path: the session, and the calls that are sent over it.
 *
 *   no session ── renewal: look up names ──► connecting ◄──► connected      (ZooKeeper's client tries all servers)
 *       ▲                                        │               │
 *       └─ expired, or credentials refused ──────┴───────────────┘          closed, and opened again after a second
 *
 * When a session expires, another session is opened; nothing else depends on sessions. A session without a connection
 * for LOST_MS is replaced too, because the servers may have new addresses.
 *
 * ZooKeeper's client gets addresses, never names: the renewal thread looks the names up. Client 3.8 would look them up
 * again at every turn of its I/O thread. A resolver that hangs would then break a good connection, and a failed look-up
 * would leave that thread with an uninitialised descriptor and timeout. (Both were found in its source.) */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <zookeeper/zookeeper.h>

#include "coordinator_backend.h"
#include "place.h"
#include "zookeeper_words.h"

/* Threads:
 *
 *   coordinator's thread                                     ZooKeeper's threads (libzookeeper-mt)
 *     start ──► flight ── zoo_aset, … ─────────────────────►   I/O
 *     turn  ◄── list of returned flights, eventfd ◄─────────   completions
 *
 * A *flight* is a request in progress. ZooKeeper's threads only add returned flights to the list. The coordinator's
 * thread owns everything else in this file, except `renewal`: a thread that opens a session and looks up names,
 * which may take long. */

#define ZOOKEEPER_PATH_SIZE (COORDINATOR_URL_SIZE_MAX + COORDINATOR_NAME_SIZE_MAX + 2)

struct zookeeper;

enum flight_step {
    FLIGHT_WAITS = 1, /* the request waits for a connection */
    FLIGHT_SYNCS,     /* first step of a read: the server catches up with the leader */
    FLIGHT_READS,
    FLIGHT_CHANGES,
    FLIGHT_MAKES_PATH, /* creates the parents of the entries one by one; after that, the change is repeated */
    FLIGHT_WATCHES,
    FLIGHT_CLEARS, /* deletes the znode of this process's presence, which may belong to a former session */
    FLIGHT_DECLARES,
};

/* A request to ZooKeeper, and its result. */
struct flight {
    struct flight *next;      /* next in the list of all requests in progress */
    struct flight *next_back; /* next in the list of requests with a result */
    struct zookeeper *zookeeper;
    struct coordinator_call *call; /* NULL: the caller does not wait any more, or the request is for a watch */
    struct watched *watched;
    /* true: the request deletes the znode of an earlier presence (FLIGHT_CLEARS), or creates the new one after that
     * (FLIGHT_DECLARES). */
    bool is_presence;
    enum flight_step step;
    uint64_t session;
    size_t path_made; /* FLIGHT_MAKES_PATH: length in bytes of the first part of `base` for which znodes exist */
    /* result */
    int rc;
    size_t size;
    char value[COORDINATOR_VALUE_SIZE_MAX + 1];
    struct Stat stats[COORDINATOR_CHANGES_MAX]; /* zeros: unknown */
    zoo_op_result_t results[COORDINATOR_CHANGES_MAX];
};

struct watched {
    struct zookeeper *zookeeper;
    char name[COORDINATOR_NAME_SIZE_MAX + 1]; /* "": unused */
    enum { WATCH_IDLE, WATCH_ASKED, WATCH_STANDS } state;
    uint64_t again_ms;    /* WATCH_IDLE: time before which the watch is not requested */
    atomic_bool is_fired; /* the watch has reported a change; set by ZooKeeper's threads */
};

/* Presence that this process has declared: an ephemeral znode. */
struct declared {
    bool is_wanted;
    bool is_asked;
    struct presence wanted;
    struct presence made;
    uint64_t session;  /* session in which the znode was created; 0: not created */
    uint64_t again_ms; /* time before which the znode is neither created nor deleted */
};

struct zookeeper {
    struct coordinator *coordinator;
    char hosts[COORDINATOR_URL_SIZE_MAX + 1];
    char base[COORDINATOR_URL_SIZE_MAX + 1];
    char *credentials; /* NULL: none */
    int session_ms;
    const struct ACL_vector *acl; /* ACL of created znodes */

    zhandle_t *handle; /* the session; NULL: none, or one that is being opened */
    uint64_t sessions; /* number of sessions opened so far, which is the number of the current one */
    uint64_t lost_ms;  /* time since when the session has no connection */
    uint64_t renew_ms; /* time before which the session is not renewed */
    bool is_connected;
    atomic_bool is_up;    /* connected, according to the last event of ZooKeeper's threads */
    atomic_bool was_lost; /* set by ZooKeeper's threads: the connection was lost since the state was last checked */
    bool is_forbidden;
    bool is_renewing;
    pthread_t renewal;
    struct flight *flights;
    struct watched watched[COORDINATOR_NAMES_MAX];
    struct declared declared;

    pthread_mutex_t mutex; /* protects all members below */
    struct flight *back;   /* newest first */
    bool is_renewed;
    zhandle_t *renewed; /* handle of the new session; NULL with `renewed_error`: it could not be opened */
    char renewed_error[ZOOKEEPER_WHY_SIZE];
};

/* ---- requests */

/* Sends the calls to ZooKeeper and interprets the answers.
 *
 *   read     sync ──► get                       entry NAME is the znode BASE/NAME, its version the znode's + 1
 *   change   create, set or multi ──► no parents? create BASE, part by part ──► repeat the change
 *   watch    exists, with a watcher
 *   presence delete (an earlier session's znode) ──► create, ephemeral: deleted with this session; set: a new text
 *
 * A change is *done* if ZooKeeper says so, and *refused* if ZooKeeper refuses it because of a version. Everything else
 * is *unknown*: when a connection breaks, ZooKeeper's client fails all running requests, and never repeats one. */

static void set_path(const struct zookeeper *zookeeper, const char *name, char out[ZOOKEEPER_PATH_SIZE]) {
    snprintf(out, ZOOKEEPER_PATH_SIZE, "%s/%s", zookeeper->base, name);
}

/* Makes a request to ZooKeeper, for `call` or for a watch; NULL: out of memory. */
static struct flight *flight_make(struct zookeeper *zookeeper, struct coordinator_call *call, struct watched *watched) {
    struct flight *flight = calloc(1, sizeof *flight);
    if (flight == NULL) return NULL;
    flight->zookeeper = zookeeper;
    flight->call = call;
    flight->watched = watched;
    flight->step = FLIGHT_WAITS;
    if (call != NULL) call->flight = flight;
    flight->next = zookeeper->flights;
    zookeeper->flights = flight;
    return flight;
}

static void flight_free(struct flight *flight) {
    struct flight **at = &flight->zookeeper->flights;
    while (*at != flight) at = &(*at)->next;
    *at = flight->next;
    free(flight);
}

/* ---- ZooKeeper's threads: results of requests */

static void came_back(struct flight *flight, int rc) {
    struct zookeeper *zookeeper = flight->zookeeper;
    flight->rc = rc;
    pthread_mutex_lock(&zookeeper->mutex);
    flight->next_back = zookeeper->back;
    zookeeper->back = flight;
    pthread_mutex_unlock(&zookeeper->mutex);
    coordinator_wake(zookeeper->coordinator);
}

static void came_back_void(int rc, const void *data) {
    came_back((struct flight *)data, rc);
}

static void came_back_text(int rc, const char *text, const void *data) {
    (void)text;
    came_back((struct flight *)data, rc);
}

static void came_back_stat(int rc, const struct Stat *stat, const void *data) {
    struct flight *flight = (struct flight *)data;
    if (rc == ZOK && stat != NULL) flight->stats[0] = *stat;
    came_back(flight, rc);
}

static void came_back_made(int rc, const char *text, const struct Stat *stat, const void *data) {
    (void)text;
    came_back_stat(rc, stat, data);
}

static void came_back_data(int rc, const char *value, int size, const struct Stat *stat, const void *data) {
    struct flight *flight = (struct flight *)data;
    flight->size = size > 0 ? (size_t)size : 0;
    if (rc == ZOK && flight->size <= COORDINATOR_VALUE_SIZE_MAX && flight->size > 0)
        memcpy(flight->value, value, flight->size);
    came_back_stat(rc, stat, data);
}

static void watch_fired(zhandle_t *handle, int type, int state, const char *path, void *context) {
    struct watched *watched = context;
    (void)handle;
    (void)state;
    (void)path;
    if (type == ZOO_SESSION_EVENT) return;
    atomic_store(&watched->is_fired, true);
    coordinator_wake(watched->zookeeper->coordinator);
}

/* ---- sending */

/* Notes the current session in the request, which is about to be sent. If no session exists, ends the request with
 * ZSESSIONEXPIRED and returns false. */
static bool has_session(struct flight *flight) {
    flight->session = flight->zookeeper->sessions;
    if (flight->zookeeper->handle == NULL) came_back(flight, ZSESSIONEXPIRED);
    return flight->zookeeper->handle != NULL;
}

/* Ends the request with the error `rc` if ZooKeeper's client did not accept it. Otherwise a completion will end it. */
static void depart(struct flight *flight, int rc) {
    if (rc == ZINVALIDSTATE || rc == ZBADARGUMENTS || rc == ZMARSHALLINGERROR) came_back(flight, rc);
}

static void send_sync(struct flight *flight) {
    flight->step = FLIGHT_SYNCS;
    if (!has_session(flight)) return;
    depart(flight, zoo_async(flight->zookeeper->handle, flight->zookeeper->base, came_back_text, flight));
}

static void send_read(struct flight *flight) {
    char path[ZOOKEEPER_PATH_SIZE];
    set_path(flight->zookeeper, flight->call->name, path);
    flight->step = FLIGHT_READS;
    if (!has_session(flight)) return;
    depart(flight, zoo_aget(flight->zookeeper->handle, path, 0, came_back_data, flight));
}

static void send_watch(struct flight *flight) {
    char path[ZOOKEEPER_PATH_SIZE];
    set_path(flight->zookeeper, flight->watched->name, path);
    flight->step = FLIGHT_WATCHES;
    if (!has_session(flight)) return;
    depart(flight, zoo_awexists(flight->zookeeper->handle, path, watch_fired, flight->watched, came_back_stat, flight));
}

/* Converts a version: ZooKeeper counts from 0, and has no version for a missing znode. */
static int znode_version(uint64_t version) {
    assert(version > 0);
    return version - 1 < INT_MAX ? (int)(version - 1) : INT_MAX;
}

static int send_one(struct flight *flight) {
    const struct zookeeper *zookeeper = flight->zookeeper;
    const struct coordinator_change *change = &flight->call->changes[0];
    char path[ZOOKEEPER_PATH_SIZE];
    set_path(zookeeper, change->name, path);
    if (change->version == 0)
        return zoo_acreate2(zookeeper->handle, path, change->value, (int)change->size, zookeeper->acl, 0,
                            came_back_made, flight);
    return zoo_aset(zookeeper->handle, path, change->value, (int)change->size, znode_version(change->version),
                    came_back_stat, flight);
}

static int send_many(struct flight *flight) {
    const struct zookeeper *zookeeper = flight->zookeeper;
    const struct coordinator_call *call = flight->call;
    char paths[COORDINATOR_CHANGES_MAX][ZOOKEEPER_PATH_SIZE];
    zoo_op_t ops[COORDINATOR_CHANGES_MAX];
    for (size_t i = 0; i < call->count; i++) {
        const struct coordinator_change *change = &call->changes[i];
        set_path(zookeeper, change->name, paths[i]);
        if (change->value == NULL)
            zoo_check_op_init(&ops[i], paths[i], znode_version(change->version));
        else if (change->version == 0)
            zoo_create_op_init(&ops[i], paths[i], change->value, (int)change->size, zookeeper->acl, 0, NULL, 0);
        else
            zoo_set_op_init(&ops[i], paths[i], change->value, (int)change->size, znode_version(change->version),
                            &flight->stats[i]);
    }
    return zoo_amulti(zookeeper->handle, (int)call->count, ops, flight->results, came_back_void, flight);
}

static void send_change(struct flight *flight) {
    bool is_one = flight->call->count == 1 && flight->call->changes[0].value != NULL;
    memset(flight->stats, 0, sizeof flight->stats);
    memset(flight->results, 0, sizeof flight->results);
    flight->step = FLIGHT_CHANGES;
    if (!has_session(flight)) return;
    depart(flight, is_one ? send_one(flight) : send_many(flight));
}

/* Creates the next part of the base path: /a, then /a/b. */
static void send_path(struct flight *flight) {
    const struct zookeeper *zookeeper = flight->zookeeper;
    char path[ZOOKEEPER_PATH_SIZE];
    const char *slash = strchr(zookeeper->base + flight->path_made + 1, '/');
    flight->path_made = slash == NULL ? strlen(zookeeper->base) : (size_t)(slash - zookeeper->base);
    snprintf(path, sizeof path, "%.*s", (int)flight->path_made, zookeeper->base);
    flight->step = FLIGHT_MAKES_PATH;
    if (!has_session(flight)) return;
    depart(flight, zoo_acreate2(zookeeper->handle, path, "", 0, zookeeper->acl, 0, came_back_made, flight));
}

/* ---- presence */

static void send_clear(struct flight *flight) {
    char path[ZOOKEEPER_PATH_SIZE];
    const struct declared *declared = &flight->zookeeper->declared;
    set_path(flight->zookeeper, declared->session != 0 ? declared->made.name : declared->wanted.name, path);
    flight->step = FLIGHT_CLEARS;
    if (!has_session(flight)) return;
    depart(flight, zoo_adelete(flight->zookeeper->handle, path, -1, came_back_void, flight));
}

static void send_declare(struct flight *flight) {
    struct zookeeper *zookeeper = flight->zookeeper;
    struct declared *declared = &zookeeper->declared;
    char path[ZOOKEEPER_PATH_SIZE];
    declared->made = declared->wanted;
    set_path(zookeeper, declared->made.name, path);
    flight->step = FLIGHT_DECLARES;
    if (!has_session(flight)) return;
    depart(flight, zoo_acreate2(zookeeper->handle, path, declared->made.text, (int)strlen(declared->made.text),
                                zookeeper->acl, ZOO_EPHEMERAL, came_back_made, flight));
}

/* Sets a new text in the znode of this session, so that a reader always finds the old or the new one. */
static void send_words(struct flight *flight) {
    struct zookeeper *zookeeper = flight->zookeeper;
    struct declared *declared = &zookeeper->declared;
    char path[ZOOKEEPER_PATH_SIZE];
    declared->made = declared->wanted;
    set_path(zookeeper, declared->made.name, path);
    flight->step = FLIGHT_DECLARES;
    if (!has_session(flight)) return;
    depart(flight, zoo_aset(flight->zookeeper->handle, path, declared->made.text, (int)strlen(declared->made.text), -1,
                            came_back_stat, flight));
}

static void begin_presence(struct flight *flight) {
    const struct declared *declared = &flight->zookeeper->declared;
    bool is_same_name = strcmp(declared->made.name, declared->wanted.name) == 0;
    if (declared->is_wanted && declared->session != 0 && is_same_name)
        send_words(flight);
    else
        send_clear(flight);
}

static void land_presence(struct flight *flight) {
    struct zookeeper *zookeeper = flight->zookeeper;
    struct declared *declared = &zookeeper->declared;
    bool is_done = flight->rc == ZOK || (flight->step == FLIGHT_CLEARS && flight->rc == ZNONODE);
    bool is_declared = is_done && flight->step == FLIGHT_DECLARES;
    declared->session = is_declared ? flight->session : 0;
    if (is_done && !is_declared && declared->is_wanted) {
        send_declare(flight);
        return;
    }
    coordinator_stood(zookeeper->coordinator, is_declared ? declared->made.text : NULL);
    declared->is_asked = false;
    /* Try again soon after a failure: the base does not exist yet, or there is no connection. */
    declared->again_ms = is_done ? 0 : coordinator_now_ms() + COORDINATOR_TURN_MS;
    flight_free(flight);
}

/* Creates or deletes the znode of the presence; requires a connection. */
static void flight_declare(struct zookeeper *zookeeper) {
    struct declared *declared = &zookeeper->declared;
    bool is_made = declared->session != 0 && declared->session == zookeeper->sessions;
    bool is_same = strcmp(declared->made.name, declared->wanted.name) == 0 &&
                   strcmp(declared->made.text, declared->wanted.text) == 0;
    bool is_right = declared->is_wanted ? is_made && is_same : !is_made;
    if (is_right || declared->is_asked || coordinator_now_ms() < declared->again_ms) return;
    struct flight *flight = flight_make(zookeeper, NULL, NULL);
    if (flight == NULL) return;
    flight->is_presence = declared->is_asked = true;
    declared->session = is_made ? declared->session : 0;
}

/* ---- beginning a request */

/* Sends a waiting request; requires a connection. */
static void flight_begin(struct flight *flight) {
    assert(flight->step == FLIGHT_WAITS);
    if (flight->is_presence)
        begin_presence(flight);
    else if (flight->call == NULL)
        send_watch(flight);
    else if (flight->call->name != NULL)
        send_sync(flight);
    else
        send_change(flight);
}

/* ---- responses */

static void finish(struct flight *flight, enum pair_outcome outcome) {
    struct coordinator_call *call = flight->call;
    struct coordinator *coordinator = flight->zookeeper->coordinator;
    flight_free(flight);
    coordinator_finish(coordinator, call, outcome);
}

/* Reports that the ACLs deny this node access, which only an operator can change. */
static void zookeeper_forbidden(struct zookeeper *zookeeper, const char *reason) {
    zookeeper->is_forbidden = true;
    coordinator_is(zookeeper->coordinator, COORDINATOR_FORBIDDEN, zookeeper->sessions, "%s", reason);
}

/* Finishes the call after a result other than a version conflict. `name`: the entry; NULL: the base. */
static void finish_failed(struct flight *flight, int rc, const char *name) {
    struct zookeeper *zookeeper = flight->zookeeper;
    char path[ZOOKEEPER_PATH_SIZE];
    if (name != NULL)
        set_path(zookeeper, name, path);
    else
        snprintf(path, sizeof path, "%.*s", (int)(flight->path_made > 0 ? flight->path_made : sizeof path - 1),
                 zookeeper->base);
    zookeeper_explain(rc, path, zookeeper->credentials != NULL, flight->call->reason);
    if (rc == ZNOAUTH || rc == ZINVALIDACL) zookeeper_forbidden(zookeeper, flight->call->reason);
    finish(flight, PAIR_UNKNOWN);
}

static void finish_refused(struct flight *flight, const char *name) {
    snprintf(flight->call->reason, sizeof flight->call->reason,
             "coordinator: entry '%s' does not have the expected version: another process changed it", name);
    finish(flight, PAIR_REFUSED);
}

/* Returns the trait of the znode: the ids of the transaction that created it and of the one that changed it last. */
static struct coordinator_trait trait_of(const struct Stat *stat) {
    return (struct coordinator_trait){.birth = (uint64_t)stat->czxid, .mark = (uint64_t)stat->mzxid};
}

/* Reports that the ACLs do not deny this node access any more. */
static void zookeeper_permitted(struct zookeeper *zookeeper) {
    zookeeper->is_forbidden = false;
    coordinator_is(zookeeper->coordinator, COORDINATOR_CONNECTED, zookeeper->sessions, "%s", "");
}

static void land_read(struct flight *flight) {
    struct coordinator_call *call = flight->call;
    if (flight->rc != ZOK && flight->rc != ZNONODE) {
        finish_failed(flight, flight->rc, call->name);
    } else if (flight->size > COORDINATOR_VALUE_SIZE_MAX) {
        snprintf(call->reason, sizeof call->reason,
                 "coordinator: entry '%s' has %zu bytes, more than %d, so Tarry did not write it: name another path in "
                 "--coordinator",
                 call->name, flight->size, COORDINATOR_VALUE_SIZE_MAX);
        finish(flight, PAIR_UNKNOWN);
    } else {
        zookeeper_permitted(flight->zookeeper);
        if (flight->rc == ZOK) {
            call->version = call->is_presence ? 1 : (uint64_t)flight->stats[0].version + 1;
            call->traits[0] = trait_of(&flight->stats[0]);
            call->size = flight->size;
            memcpy(call->value, flight->value, flight->size);
            call->value[flight->size] = '\0';
        }
        finish(flight, PAIR_DONE);
    }
}

static void finish_changed(struct flight *flight) {
    struct coordinator_call *call = flight->call;
    for (size_t i = 0; i < call->count; i++) {
        if (call->changes[i].value == NULL) continue;
        call->changes[i].version++;
        call->traits[i] = trait_of(&flight->stats[i]);
    }
    zookeeper_permitted(flight->zookeeper);
    finish(flight, PAIR_DONE);
}

/* Returns the change that made the other changes fail, and its error. */
static size_t find_culprit(const struct flight *flight, int *out_rc) {
    *out_rc = flight->rc;
    for (size_t i = 0; i < flight->call->count && flight->call->count > 1; i++)
        if (flight->results[i].err == flight->rc) return i;
    return 0;
}

static void land_change(struct flight *flight) {
    int rc;
    const struct coordinator_change *change = &flight->call->changes[find_culprit(flight, &rc)];
    if (rc == ZOK) {
        finish_changed(flight);
    } else if (rc == ZNONODE && change->version == 0 && flight->path_made == 0) {
        send_path(flight);
    } else if (rc == ZBADVERSION || rc == ZNODEEXISTS || (rc == ZNONODE && change->version > 0)) {
        zookeeper_permitted(flight->zookeeper);
        finish_refused(flight, change->name);
    } else {
        finish_failed(flight, rc, change->name);
    }
}

static void land_path(struct flight *flight) {
    if (flight->rc != ZOK && flight->rc != ZNODEEXISTS)
        finish_failed(flight, flight->rc, NULL);
    else if (flight->zookeeper->base[flight->path_made] != '\0')
        send_path(flight);
    else
        send_change(flight);
}

/* Handles the answer to a watch. The caller reads the entry after this, and the watch reports later changes. */
static void land_watch(struct flight *flight) {
    struct watched *watched = flight->watched;
    bool stands = flight->rc == ZOK || flight->rc == ZNONODE;
    watched->state = stands ? WATCH_STANDS : WATCH_IDLE;
    watched->again_ms = coordinator_now_ms() + COORDINATOR_TURN_MS;
    flight_free(flight);
    if (stands) coordinator_changed(watched->zookeeper->coordinator, watched->name);
}

/* Handles the result of a request. */
static void flight_land(struct flight *flight) {
    if (flight->is_presence) {
        land_presence(flight);
    } else if (flight->watched != NULL) {
        land_watch(flight);
    } else if (flight->call == NULL) {
        flight_free(flight); /* the call's deadline has passed, so no caller waits */
    } else if (flight->step == FLIGHT_SYNCS && flight->rc == ZOK) {
        send_read(flight);
    } else if (flight->step == FLIGHT_SYNCS) {
        finish_failed(flight, flight->rc, NULL);
    } else if (flight->step == FLIGHT_READS) {
        land_read(flight);
    } else if (flight->step == FLIGHT_MAKES_PATH) {
        land_path(flight);
    } else {
        land_change(flight);
    }
}

/* ---- messages for the operator */

#define LAST_WORDS_SIZE 256

/* Last error that ZooKeeper's client has logged. The client reports why it cannot connect only in its log, without
 * handle or context. */
static struct {
    pthread_mutex_t mutex;
    char text[LAST_WORDS_SIZE];
} last_words = {.mutex = PTHREAD_MUTEX_INITIALIZER};

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

/* ---- the session */

#define ADDRESSES_SIZE 4096
#define LOST_MS 10000
#define ENTER_TRIES 2000

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

/* Passes the credentials to ZooKeeper's client. The client's own thread may be connecting already. While that thread
 * changes from a dead server to the next one, the client accepts no credentials, so the call is repeated. A session
 * without credentials would get "forbidden" for everything. Returns ZOK or another result. */
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
    /* The renewal thread closes this handle; no other code uses the handle meanwhile. */
    zookeeper->renewed = zookeeper->handle;
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

/* Ends the requests of the old session for which ZooKeeper's client never reported a result. */
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
    land_all(zookeeper); /* from now on the client can report no result of the old session */
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
    /* Report the loss now; the next turn reports the new state. */
    bool is_lost_between = atomic_exchange(&zookeeper->was_lost, false) && was_connected;
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
            oldest = flight; /* the newest flight is the first of the list, so the last match is the oldest flight */
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
    struct zookeeper *zookeeper = state; /* this function only makes the request; the next turn sends it */
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

static const struct place_kind place_kind = {
    .scheme = "zk://",
    .server = "ZooKeeper",
    .reserved = "/zookeeper",
    .port = 2181,
    .drops_brackets = true, /* ZooKeeper's client expects IPv6 addresses without brackets */
};

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
