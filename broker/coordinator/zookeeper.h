/* zookeeper.h: internals of zk://: one session with ZooKeeper (zookeeper.c), and its requests (zookeeper_flight.c).
 *
 *   coordinator's thread                                     ZooKeeper's threads (libzookeeper-mt)
 *     start ──► flight ── zoo_aset, … ─────────────────────►   I/O
 *     turn  ◄── list of completed flights, eventfd ◄────────   completions
 *
 * ZooKeeper's threads only append to that list. Only the coordinator's thread uses everything else, except `renewal`.
 * That thread exists while a session is being opened, because the name lookup may take long. */
#ifndef TARRY_COORDINATOR_ZOOKEEPER_H
#define TARRY_COORDINATOR_ZOOKEEPER_H

#include <pthread.h>
#include <stdatomic.h>

#include <zookeeper/zookeeper.h>

#include "coordinator_backend.h"
#include "zookeeper_words.h"

#define ZOOKEEPER_PATH_SIZE (COORDINATOR_URL_SIZE_MAX + COORDINATOR_NAME_SIZE_MAX + 2)

struct zookeeper;

enum flight_step {
    FLIGHT_WAITS = 1, /* for a connection */
    FLIGHT_SYNCS,     /* a read: the server first catches up with the leader */
    FLIGHT_READS,
    FLIGHT_CHANGES,
    FLIGHT_MAKES_PATH, /* creates the entries' parents one by one; then repeats the change */
    FLIGHT_WATCHES,
    FLIGHT_CLEARS, /* removes this process's presence: the znode of an earlier session, or its own */
    FLIGHT_DECLARES,
};

/* A request to ZooKeeper, and its answer. */
struct flight {
    struct flight *next;      /* list of all flights */
    struct flight *next_back; /* list of completed flights */
    struct zookeeper *zookeeper;
    struct coordinator_call *call; /* NULL: no caller waits any more, or the flight belongs to a watch */
    struct watched *watched;
    bool is_presence; /* a CLEARS, or the DECLARES after it */
    enum flight_step step;
    uint64_t session;
    size_t path_made; /* MAKES_PATH: number of bytes of the base that exist */
    /* the answer */
    int rc;
    size_t size;
    char value[COORDINATOR_VALUE_SIZE_MAX + 1];
    struct Stat stats[COORDINATOR_CHANGES_MAX]; /* zeros: unknown */
    zoo_op_result_t results[COORDINATOR_CHANGES_MAX];
};

struct watched {
    struct zookeeper *zookeeper;
    char name[COORDINATOR_NAME_SIZE_MAX + 1]; /* empty: unused */
    enum { WATCH_IDLE, WATCH_ASKED, WATCH_STANDS } state;
    uint64_t again_ms;    /* IDLE: earliest time of the next request */
    atomic_bool is_fired; /* ZooKeeper's threads set it */
};

/* The presence that this process has declared: an ephemeral znode. */
struct declared {
    bool is_wanted;
    bool is_asked;
    struct presence wanted;
    struct presence made;
    uint64_t session;  /* session in which the znode was made; 0: not made */
    uint64_t again_ms; /* earliest time of the next request */
};

struct zookeeper {
    struct coordinator *coordinator;
    char hosts[COORDINATOR_URL_SIZE_MAX + 1];
    char base[COORDINATOR_URL_SIZE_MAX + 1];
    char *credentials; /* NULL: none */
    int session_ms;
    const struct ACL_vector *acl; /* for new znodes */

    zhandle_t *handle; /* NULL: no session, or one is being opened */
    uint64_t sessions; /* number of sessions opened; also the number of the current one */
    uint64_t lost_ms;  /* since when there is no connection */
    uint64_t renew_ms; /* earliest time of the next renewal */
    bool is_connected;
    atomic_bool is_up;    /* by the last event of ZooKeeper's threads */
    atomic_bool was_lost; /* a connection was lost since the last look; ZooKeeper's threads set it */
    bool is_forbidden;
    bool is_renewing;
    pthread_t renewal;
    struct flight *flights;
    struct watched watched[COORDINATOR_NAMES_MAX];
    struct declared declared;

    pthread_mutex_t mutex; /* guards the fields below */
    struct flight *back;   /* completed flights, newest first */
    bool is_renewed;
    zhandle_t *renewed; /* NULL with `renewed_error`: opening failed */
    char renewed_error[ZOOKEEPER_WHY_SIZE];
};

/* Creates a flight for `call`, or for a watch. NULL: out of memory. */
struct flight *flight_make(struct zookeeper *zookeeper, struct coordinator_call *call, struct watched *watched);
/* Creates or removes the declared znode. Call only while connected. */
void flight_declare(struct zookeeper *zookeeper);
/* Sends a waiting flight. Call only while connected. */
void flight_begin(struct flight *flight);
/* Handles a completed flight. */
void flight_land(struct flight *flight);
/* Notes whether the ACLs refuse this node, which an operator must solve, or admit it. */
void zookeeper_forbidden(struct zookeeper *zookeeper, const char *reason);
void zookeeper_permitted(struct zookeeper *zookeeper);

#endif
