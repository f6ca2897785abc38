/* etcd.h: inside of etcd:// and etcds://: which member is spoken to, and with which credentials (etcd.c); what it is
 * asked (etcd_flight.c). Everything here is the coordinator's thread's. */
#ifndef TARRY_COORDINATOR_ETCD_H
#define TARRY_COORDINATOR_ETCD_H

#include "coordinator_backend.h"
#include "etcd_gateway.h"

#define ETCD_HOSTS_MAX 9

struct etcd;

/* One of the hosts, and the question that tells whether it serves. */
struct endpoint {
    struct exchange probe;
    struct etcd *etcd;
    uint64_t token_number;                   /* of the question under way */
    uint64_t answered_ms;                    /* it served then; 0: never yet */
    uint64_t failed_ms;                      /* it did not; `problem` says why */
    uint64_t cluster;                        /* its cluster's id; 0: not known yet */
    bool asks_token;                         /* the exchange asks for a token first */
    bool has_asked_token;                    /* since the probe began */
    bool is_forbidden;                       /* `problem` is one that only an operator can mend */
    char host[COORDINATOR_URL_SIZE_MAX + 1]; /* host:port */
    char problem[COORDINATOR_MESSAGE_SIZE];
};

/* What etcd was asked for a call. */
struct etcd_flight {
    struct exchange exchange;
    struct etcd_flight *next;
    struct etcd *etcd;
    struct coordinator_call *call;
    const struct endpoint *endpoint; /* NULL: it waits */
    uint64_t again_ms;               /* it waits at least until then */
    uint64_t token_number;
    struct etcd_change changes[COORDINATOR_CHANGES_MAX];
    char keys[COORDINATOR_CHANGES_MAX][ETCD_KEY_SIZE];
    struct etcd_entry entries[COORDINATOR_CHANGES_MAX];
};

/* What was read or written last, by this process. */
struct etcd_known {
    char name[COORDINATOR_NAME_SIZE_MAX + 1]; /* empty: there is none */
    struct etcd_entry entry;
};

enum lease_step { LEASE_GRANT = 0, LEASE_PUT, LEASE_KEEP, LEASE_REVOKE };

/* What this process has declared. */
struct etcd_lease {
    struct exchange exchange;
    enum lease_step step; /* the next one, or the one under way */
    bool is_wanted;
    uint64_t again_ms; /* not before */
    uint64_t id;
    uint64_t token_number;
    struct presence presence;
};

struct etcd {
    struct coordinator *coordinator;
    struct gateway gateway;
    char hosts[COORDINATOR_URL_SIZE_MAX + 1];
    char prefix[COORDINATOR_URL_SIZE_MAX + 2]; /* of the keys: the path and a '/' */
    char *credentials;                         /* NULL: none */
    char *token;                               /* NULL: none yet */
    uint64_t token_number;                     /* each has another */
    uint32_t session_ms;
    uint32_t presence_ms;
    size_t endpoint_count;
    struct endpoint endpoints[ETCD_HOSTS_MAX];
    struct endpoint *current; /* the member that is asked; NULL: none */
    uint64_t cluster;         /* its id; 0: not known yet */
    uint64_t sessions;        /* how often calls could go out after they could not */
    uint64_t begun_ms;        /* the first probes went out */
    uint64_t heard_ms;        /* a member served */
    uint64_t search_ms;       /* is_searching: since then */
    uint64_t probe_ms;        /* the next round of probes */
    uint64_t watch_ms;        /* not to be asked for before */
    struct exchange watch;
    struct etcd_lease lease;
    bool is_up;         /* calls may go out */
    bool is_searching;  /* the current one is in doubt: all are asked, and the first that answers is the next */
    bool is_told_up;    /* so the session's check has found */
    bool has_no_room;   /* for changes */
    bool is_changed;    /* the watch has told of something */
    bool is_watch_up;   /* it stands: etcd has said so */
    bool is_watch_over; /* it has ended, though its connection stands */
    struct etcd_flight *flights;
    struct etcd_known known[COORDINATOR_NAMES_MAX];
};

/* ---- etcd.c */
/* What the answer of cluster `cluster` says may be believed. Else false with a sentence in `out`. */
bool etcd_is_ours(const struct etcd *etcd, uint64_t cluster, char out[COORDINATOR_MESSAGE_SIZE]);
/* The current member failed a call: others are looked for at once. */
void etcd_doubt(struct etcd *etcd);
/* etcd does not know that token any more. */
void etcd_forget_token(struct etcd *etcd, uint64_t number);
/* A refusal in words for the operator; `text` is etcd's. */
void etcd_explain(const struct etcd *etcd, enum etcd_refusal refusal, const char *host, const char *text,
                  char out[COORDINATOR_MESSAGE_SIZE]);
/* Whether there is room for changes. */
void etcd_has_room(struct etcd *etcd, bool has_room);

/* ---- etcd_lease.c */
void etcd_declare(void *state, const struct presence *presence);
/* There is a member to ask. */
void etcd_lease_turn(struct etcd *etcd, uint64_t now_ms);

/* ---- etcd_flight.c */
/* A flight for `call`, which waits. 0, or 1: no memory. */
int etcd_flight_make(struct etcd *etcd, struct coordinator_call *call);
void etcd_flight_free(struct etcd_flight *flight);
/* Those that wait go out. */
void etcd_flights_send(struct etcd *etcd);
/* Another member is asked from now on: what it can be asked again, or has not been asked at all, is. */
void etcd_flights_move(struct etcd *etcd);
/* When the first one that waits may go out; UINT64_MAX: none waits. */
uint64_t etcd_flights_again_ms(const struct etcd *etcd);

#endif
