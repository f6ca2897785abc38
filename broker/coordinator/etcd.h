/* etcd.h: internals of etcd:// and etcds://. etcd.c chooses the member and has the credentials; etcd_flight.c executes
 * calls. Only the coordinator's thread uses them. */
#ifndef TARRY_COORDINATOR_ETCD_H
#define TARRY_COORDINATOR_ETCD_H

#include "coordinator_backend.h"
#include "etcd_gateway.h"

#define ETCD_HOSTS_MAX 9

struct etcd;

/* One of the hosts, and the probe that tests whether it serves. */
struct endpoint {
    struct exchange probe;
    struct etcd *etcd;
    uint64_t token_number;                   /* number of the token with which the running probe was sent */
    uint64_t answered_ms;                    /* time of the host's last answer; 0: no answer yet */
    uint64_t failed_ms;                      /* time of the host's last failure, which `problem` describes */
    uint64_t cluster;                        /* id of the host's cluster; 0: unknown */
    bool asks_token;                         /* true: the exchange is a request for a token, which precedes the probe */
    bool has_asked_token;                    /* a token was requested since the probe began */
    bool is_forbidden;                       /* true: only an operator can solve `problem` */
    char host[COORDINATOR_URL_SIZE_MAX + 1]; /* host:port */
    char problem[COORDINATOR_MESSAGE_SIZE];
};

/* A call, as sent to etcd. */
struct etcd_flight {
    struct exchange exchange;
    struct etcd_flight *next;
    struct etcd *etcd;
    struct coordinator_call *call;
    const struct endpoint *endpoint; /* member that got the call; NULL: not sent yet */
    uint64_t again_ms;               /* time before which the call is not sent */
    uint64_t token_number;
    struct etcd_change changes[COORDINATOR_CHANGES_MAX];
    char keys[COORDINATOR_CHANGES_MAX][ETCD_KEY_SIZE];
    struct etcd_entry entries[COORDINATOR_CHANGES_MAX];
};

/* Last version of an entry that this process has read or written. */
struct etcd_known {
    char name[COORDINATOR_NAME_SIZE_MAX + 1]; /* "": unused */
    struct etcd_entry entry;
};

enum lease_step { LEASE_GRANT = 0, LEASE_PUT, LEASE_KEEP, LEASE_REVOKE };

/* The lease of this process's declared presence. */
struct etcd_lease {
    struct exchange exchange;
    enum lease_step step; /* the step that is running, or the next one */
    bool is_wanted;
    uint64_t again_ms; /* time before which nothing is done */
    uint64_t id;
    uint64_t token_number;
    struct presence presence;
};

struct etcd {
    struct coordinator *coordinator;
    struct gateway gateway;
    char hosts[COORDINATOR_URL_SIZE_MAX + 1];
    char prefix[COORDINATOR_URL_SIZE_MAX + 2]; /* prefix of all keys: the path and a '/' */
    char *credentials;                         /* NULL: none */
    char *token;                               /* NULL: no token yet */
    uint64_t token_number;                     /* grows with each new token */
    uint32_t session_ms;
    uint32_t presence_ms;
    size_t endpoint_count;
    struct endpoint endpoints[ETCD_HOSTS_MAX];
    struct endpoint *current; /* member that gets all calls; NULL: none */
    uint64_t cluster;         /* id of the cluster; 0: unknown */
    uint64_t sessions;        /* number of times that calls became possible */
    uint64_t begun_ms;        /* time of the first probes */
    uint64_t heard_ms;        /* time of a member's last answer */
    uint64_t search_ms;       /* valid if is_searching: start of the search */
    uint64_t probe_ms;        /* time of the next round of probes */
    uint64_t watch_ms;        /* time before which the watch is not started */
    struct exchange watch;
    struct etcd_lease lease;
    bool is_up;         /* calls can be sent */
    bool is_searching;  /* true: it is unknown whether the current member serves; all members are probed, and the first
                           that answers becomes the current one */
    bool is_told_up;    /* true: the session was reported as connected */
    bool has_no_room;   /* true: etcd's storage quota permits no changes */
    bool is_changed;    /* the watch has reported a change */
    bool is_watch_up;   /* etcd has confirmed the watch */
    bool is_watch_over; /* true: etcd has ended the watch, though the connection is open */
    struct etcd_flight *flights;
    struct etcd_known known[COORDINATOR_NAMES_MAX];
};

/* ---- etcd.c */
/* Returns whether an answer of cluster `cluster` may be believed; if not, writes an error message to `out`. */
bool etcd_is_ours(const struct etcd *etcd, uint64_t cluster, char out[COORDINATOR_MESSAGE_SIZE]);
/* Reports that the current member failed a call. Starts a search for another member at once. */
void etcd_doubt(struct etcd *etcd);
/* Drops the token with this number, because etcd does not accept it any more. */
void etcd_forget_token(struct etcd *etcd, uint64_t number);
/* Describes a refusal for the operator; `text` is etcd's error message. */
void etcd_explain(const struct etcd *etcd, enum etcd_refusal refusal, const char *host, const char *text,
                  char out[COORDINATOR_MESSAGE_SIZE]);
/* Notes whether etcd's storage quota permits changes. */
void etcd_has_room(struct etcd *etcd, bool has_room);

/* ---- etcd_lease.c */
void etcd_declare(void *state, const struct presence *presence);
/* Renews or revokes the lease when due. Requires a current member. */
void etcd_lease_turn(struct etcd *etcd, uint64_t now_ms);

/* ---- etcd_flight.c */
/* Makes a flight for `call`, which is sent later. Returns 0, or 1 if memory is exhausted. */
int etcd_flight_make(struct etcd *etcd, struct coordinator_call *call);
void etcd_flight_free(struct etcd_flight *flight);
/* Sends all waiting flights that are due. */
void etcd_flights_send(struct etcd *etcd);
/* Sends flights to the new current member: those not sent yet, and those that may be repeated. */
void etcd_flights_move(struct etcd *etcd);
/* Returns when the first waiting flight may be sent; UINT64_MAX: none waits. */
uint64_t etcd_flights_again_ms(const struct etcd *etcd);

#endif
