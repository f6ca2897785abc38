/* zookeeper_flight.c: sends the calls to ZooKeeper and interprets the answers.
 *
 *   read     sync ──► get                       entry NAME is the znode BASE/NAME, its version the znode's + 1
 *   change   create, set or multi ──► no parents? create BASE, part by part ──► repeat the change
 *   watch    exists, with a watcher
 *   presence delete (an earlier session's znode) ──► create, ephemeral: deleted with this session; set: a new text
 *
 * A change is *done* if ZooKeeper says so, and *refused* if ZooKeeper refuses it because of a version. Everything else
 * is *unknown*: when a connection breaks, ZooKeeper's client fails all running requests, and never repeats one. */
#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zookeeper.h"

static void set_path(const struct zookeeper *zookeeper, const char *name, char out[ZOOKEEPER_PATH_SIZE]) {
    snprintf(out, ZOOKEEPER_PATH_SIZE, "%s/%s", zookeeper->base, name);
}

struct flight *flight_make(struct zookeeper *zookeeper, struct coordinator_call *call, struct watched *watched) {
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

/* ---- ZooKeeper's threads: returned flights */

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

/* Returns whether the session is still the one of the flight; if it has expired, the flight returns with that error. */
static bool has_session(struct flight *flight) {
    flight->session = flight->zookeeper->sessions;
    if (flight->zookeeper->handle == NULL) came_back(flight, ZSESSIONEXPIRED);
    return flight->zookeeper->handle != NULL;
}

/* Notes that ZooKeeper's client has accepted the request; if it has not, returns the flight at once with the error. */
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

/* ---- Presence ---------------------------------------------------------------------------------------------------- */

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
    declared->again_ms =
        is_done ? 0 : coordinator_now_ms() + COORDINATOR_TURN_MS; /* after a failure, because the base does not exist
                                                                     yet or there is no connection */
    flight_free(flight);
}

void flight_declare(struct zookeeper *zookeeper) {
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

/* ------------------------------------------------------------------------------------------------------------------ */

void flight_begin(struct flight *flight) {
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

/* Returns the transactions that created the znode and changed it last. */
static struct coordinator_trait trait_of(const struct Stat *stat) {
    return (struct coordinator_trait){.birth = (uint64_t)stat->czxid, .mark = (uint64_t)stat->mzxid};
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

void flight_land(struct flight *flight) {
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
