/* zookeeper.h: inside of zk://: one session with ZooKeeper (zookeeper.c), and what is asked of it (zookeeper_flight.c).
 *
 *   coordinator's thread                                     ZooKeeper's threads (libzookeeper-mt)
 *     start ──► flight ── zoo_aset, … ─────────────────────►   I/O
 *     turn  ◄── list of flights that came back, eventfd ◄───   completions
 *
 * ZooKeeper's threads do nothing but put a flight on that list. Everything else here is the coordinator's thread's,
 * save `renewal`, a thread that lives as long as a session is being opened: that looks up names, which may take long.
 */
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
    FLIGHT_SYNCS,     /* a read: the server catches up with the leader first */
    FLIGHT_READS,
    FLIGHT_CHANGES,
    FLIGHT_MAKES_PATH, /* of the entries' parents, one after the other; then the change once more */
    FLIGHT_WATCHES,
    FLIGHT_CLEARS, /* of this process's presence: the znode of a former session, or of its own, goes */
    FLIGHT_DECLARES,
};

/* What ZooKeeper was asked, and what it said. */
struct flight {
    struct flight *next;      /* of all */
    struct flight *next_back; /* of those that came back */
    struct zookeeper *zookeeper;
    struct coordinator_call *call; /* NULL: no caller waits any more, or it is a watch's */
    struct watched *watched;
    bool is_presence; /* a CLEARS, and a DECLARES after it */
    enum flight_step step;
    uint64_t session;
    size_t path_made; /* MAKES_PATH: so many bytes of the base are there */
    /* the answer */
    int rc;
    size_t size;
    char value[COORDINATOR_VALUE_SIZE_MAX + 1];
    struct Stat stats[COORDINATOR_CHANGES_MAX]; /* zeros: not known */
    zoo_op_result_t results[COORDINATOR_CHANGES_MAX];
};

struct watched {
    struct zookeeper *zookeeper;
    char name[COORDINATOR_NAME_SIZE_MAX + 1]; /* empty: there is none */
    enum { WATCH_IDLE, WATCH_ASKED, WATCH_STANDS } state;
    uint64_t again_ms;    /* IDLE: not to be asked for before */
    atomic_bool is_fired; /* ZooKeeper's threads set it */
};

/* What this process has declared: an ephemeral znode. */
struct declared {
    bool is_wanted;
    bool is_asked;
    struct presence wanted;
    struct presence made;
    uint64_t session;  /* in which it was made; 0: it is not */
    uint64_t again_ms; /* not to be asked for before */
};

struct zookeeper {
    struct coordinator *coordinator;
    char hosts[COORDINATOR_URL_SIZE_MAX + 1];
    char base[COORDINATOR_URL_SIZE_MAX + 1];
    char *credentials; /* NULL: none */
    int session_ms;
    const struct ACL_vector *acl; /* of what is made */

    zhandle_t *handle; /* NULL: there is none, or it is being opened */
    uint64_t sessions; /* opened so far; the current one's number */
    uint64_t lost_ms;  /* since when it is not connected */
    uint64_t renew_ms; /* not before */
    bool is_connected;
    atomic_bool is_up;    /* as the last event of ZooKeeper's threads has it */
    atomic_bool was_lost; /* a connection, since the state was looked at last; theirs too */
    bool is_forbidden;
    bool is_renewing;
    pthread_t renewal;
    struct flight *flights;
    struct watched watched[COORDINATOR_NAMES_MAX];
    struct declared declared;

    pthread_mutex_t mutex; /* the rest */
    struct flight *back;   /* newest first */
    bool is_renewed;
    zhandle_t *renewed; /* NULL with `renewed_error`: it could not be opened */
    char renewed_error[ZOOKEEPER_WHY_SIZE];
};

/* A flight for `call`, or for a watch. NULL: no memory. */
struct flight *flight_make(struct zookeeper *zookeeper, struct coordinator_call *call, struct watched *watched);
/* Makes, or takes away, what was declared; there is a connection. */
void flight_declare(struct zookeeper *zookeeper);
/* It waits, and there is a connection. */
void flight_begin(struct flight *flight);
/* It came back. */
void flight_land(struct flight *flight);
/* An operator must help: the ACLs do not let this node in; or it is let in. */
void zookeeper_forbidden(struct zookeeper *zookeeper, const char *reason);
void zookeeper_permitted(struct zookeeper *zookeeper);

#endif
