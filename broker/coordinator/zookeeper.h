/* zookeeper.h: internals of zk://: one session with ZooKeeper (zookeeper.c), and the calls sent over it
 * (zookeeper_flight.c).
 *
 *   coordinator's thread                                     ZooKeeper's threads (libzookeeper-mt)
 *     start ──► flight ── zoo_aset, … ─────────────────────►   I/O
 *     turn  ◄── list of returned flights, eventfd ◄─────────   completions
 *
 * ZooKeeper's threads only put flights on that list. The coordinator's thread owns everything else here, except
 * `renewal`: a thread that opens a session and looks up names, which may take long. */
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
    FLIGHT_WAITS = 1, /* the flight waits for a connection */
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
    struct flight *next;      /* next in the list of all flights */
    struct flight *next_back; /* next in the list of returned flights */
    struct zookeeper *zookeeper;
    struct coordinator_call *call; /* NULL: the caller does not wait any more, or the flight belongs to a watch */
    struct watched *watched;
    bool is_presence; /* true for FLIGHT_CLEARS of a presence and for the FLIGHT_DECLARES after it */
    enum flight_step step;
    uint64_t session;
    size_t path_made; /* FLIGHT_MAKES_PATH: number of bytes of `base` that exist */
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
    atomic_bool is_fired; /* set by ZooKeeper's threads */
};

/* Presence that this process has declared: an ephemeral znode. */
struct declared {
    bool is_wanted;
    bool is_asked;
    struct presence wanted;
    struct presence made;
    uint64_t session;  /* session in which the znode was created; 0: not created */
    uint64_t again_ms; /* time before which no attempt is made */
};

struct zookeeper {
    struct coordinator *coordinator;
    char hosts[COORDINATOR_URL_SIZE_MAX + 1];
    char base[COORDINATOR_URL_SIZE_MAX + 1];
    char *credentials; /* NULL: none */
    int session_ms;
    const struct ACL_vector *acl; /* ACL of created znodes */

    zhandle_t *handle; /* NULL: no session, or one that is being opened */
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

/* Makes a flight for `call` or for a watch; NULL: out of memory. */
struct flight *flight_make(struct zookeeper *zookeeper, struct coordinator_call *call, struct watched *watched);
/* Creates or deletes the znode of the presence; requires a connection. */
void flight_declare(struct zookeeper *zookeeper);
/* Sends a waiting flight; requires a connection. */
void flight_begin(struct flight *flight);
/* Handles a returned flight. */
void flight_land(struct flight *flight);
/* Report whether the ACLs deny this node access, which only an operator can change. */
void zookeeper_forbidden(struct zookeeper *zookeeper, const char *reason);
void zookeeper_permitted(struct zookeeper *zookeeper);

#endif
