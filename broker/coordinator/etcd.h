/* etcd.h: internals of etcd:// and etcds://. etcd.c chooses the member and the credentials; etcd_flight.c sends the
 * requests. Only the coordinator's thread uses them. */
#ifndef TARRY_COORDINATOR_ETCD_H
#define TARRY_COORDINATOR_ETCD_H

#include "coordinator_backend.h"
#include "etcd_gateway.h"

#define ETCD_HOSTS_MAX 9

struct etcd;

/* A host, and the probe that tests whether it serves. */
struct endpoint {
    struct exchange probe;
    struct etcd *etcd;
    uint64_t token_number;                   /* token of the probe under way */
    uint64_t answered_ms;                    /* time of its last good answer; 0: never */
    uint64_t failed_ms;                      /* time of its last failure; `problem` gives the reason */
    uint64_t cluster;                        /* id of its cluster; 0: unknown */
    bool asks_token;                         /* the exchange first requests a token */
    bool has_asked_token;                    /* since the probe began */
    bool is_forbidden;                       /* only an operator can solve `problem` */
    char host[COORDINATOR_URL_SIZE_MAX + 1]; /* host:port */
    char problem[COORDINATOR_MESSAGE_SIZE];
};

/* A request to etcd for a call. */
struct etcd_flight {
    struct exchange exchange;
    struct etcd_flight *next;
    struct etcd *etcd;
    struct coordinator_call *call;
    const struct endpoint *endpoint; /* NULL: not sent yet */
    uint64_t again_ms;               /* earliest time to send it */
    uint64_t token_number;
    struct etcd_change changes[COORDINATOR_CHANGES_MAX];
    char keys[COORDINATOR_CHANGES_MAX][ETCD_KEY_SIZE];
    struct etcd_entry entries[COORDINATOR_CHANGES_MAX];
};

/* The entry that this process last read or wrote. */
struct etcd_known {
    char name[COORDINATOR_NAME_SIZE_MAX + 1]; /* empty: unused */
    struct etcd_entry entry;
};

enum lease_step { LEASE_GRANT = 0, LEASE_PUT, LEASE_KEEP, LEASE_REVOKE };

/* The presence that this process has declared. */
struct etcd_lease {
    struct exchange exchange;
    enum lease_step step; /* the step under way, or the next one */
    bool is_wanted;
    uint64_t again_ms; /* earliest time of the next step */
    uint64_t id;
    uint64_t token_number;
    struct presence presence;
};

struct etcd {
    struct coordinator *coordinator;
    struct gateway gateway;
    char hosts[COORDINATOR_URL_SIZE_MAX + 1];
    char prefix[COORDINATOR_URL_SIZE_MAX + 2]; /* prefix of the keys: the path and a '/' */
    char *credentials;                         /* NULL: none */
    char *token;                               /* NULL: none yet */
    uint64_t token_number;                     /* unique for each token */
    uint32_t session_ms;
    uint32_t presence_ms;
    size_t endpoint_count;
    struct endpoint endpoints[ETCD_HOSTS_MAX];
    struct endpoint *current; /* the member that gets requests; NULL: none */
    uint64_t cluster;         /* id of the cluster; 0: unknown */
    uint64_t sessions;        /* number of times that is_up became true */
    uint64_t begun_ms;        /* time of the first probes */
    uint64_t heard_ms;        /* when a member last served */
    uint64_t search_ms;       /* start of the search (is_searching) */
    uint64_t probe_ms;        /* time of the next round of probes */
    uint64_t watch_ms;        /* earliest time of the next watch request */
    struct exchange watch;
    struct etcd_lease lease;
    bool is_up;         /* calls may be sent */
    bool is_searching;  /* the current member is in doubt: all members are probed, and the first to answer becomes
                           current */
    bool is_told_up;    /* the session's state has been reported as up */
    bool has_no_room;   /* etcd has no room for changes */
    bool is_changed;    /* the watch has reported a change */
    bool is_watch_up;   /* etcd has confirmed the watch */
    bool is_watch_over; /* the watch has ended; its connection is still open */
    struct etcd_flight *flights;
    struct etcd_known known[COORDINATOR_NAMES_MAX];
};

/* ---- etcd.c */
/* Returns whether an answer of cluster `cluster` may be believed; if not, `out` has a sentence. */
bool etcd_is_ours(const struct etcd *etcd, uint64_t cluster, char out[COORDINATOR_MESSAGE_SIZE]);
/* Starts a search for another member, because the current one failed a call. */
void etcd_doubt(struct etcd *etcd);
/* Drops token `number`, which etcd no longer accepts. */
void etcd_forget_token(struct etcd *etcd, uint64_t number);
/* Explains a refusal to the operator; `text` is etcd's message. */
void etcd_explain(const struct etcd *etcd, enum etcd_refusal refusal, const char *host, const char *text,
                  char out[COORDINATOR_MESSAGE_SIZE]);
/* Notes whether etcd has room for changes. */
void etcd_has_room(struct etcd *etcd, bool has_room);

/* ---- etcd_lease.c */
void etcd_declare(void *state, const struct presence *presence);
/* Advances the lease's next step. Call only while a member serves. */
void etcd_lease_turn(struct etcd *etcd, uint64_t now_ms);

/* ---- etcd_flight.c */
/* Creates a flight for `call`, which waits to be sent. Returns 0, or 1: out of memory. */
int etcd_flight_make(struct etcd *etcd, struct coordinator_call *call);
void etcd_flight_free(struct etcd_flight *flight);
/* Sends the flights that wait. */
void etcd_flights_send(struct etcd *etcd);
/* Moves to another member: sends it the unsent flights and those that may be repeated. */
void etcd_flights_move(struct etcd *etcd);
/* Returns when the first waiting flight may be sent; UINT64_MAX: none waits. */
uint64_t etcd_flights_again_ms(const struct etcd *etcd);

#endif
