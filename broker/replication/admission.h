/* admission.h: decides whether a request to follow comes from the other node of this pair.
 *
 * The rules of a pair know two nodes only. The requester must be of this cluster, have the same options, and have a
 * disk of its own that this pair may count (F-29). Pure; any thread. */
#ifndef TARRY_REPLICATION_ADMISSION_H
#define TARRY_REPLICATION_ADMISSION_H

#include <stdbool.h>

#include "hard_state.h"
#include "pair.h"
#include "tarry.pb-c.h"

/* The node that received the request. */
struct admission_self {
    const uint8_t *cluster; /* CLUSTER_ID_SIZE bytes */
    const uint8_t *member;  /* id of the node's disk: MEMBER_ID_SIZE bytes */
    const struct hard_state *hard_state;
};

enum admission_kind {
    ADMISSION_RULES = 1, /* pass the request to the rules (PAIR_ASKED) */
    ADMISSION_PROBE, /* a probe (silence.h): answer at once with the epoch that this node leads; the answer acknowledges
                        no frames */
    ADMISSION_JOIN,  /* a new directory asks to join the cluster */
    ADMISSION_REFUSE, /* refuse, with `sentence` */
};

struct admission {
    enum admission_kind kind;
    bool is_early;        /* REFUSE: true if the requester may ask again; false if an operator must act */
    const char *sentence; /* REFUSE: the reason, a static string */
};

/* Decides about the request `follow`. `pair` is the state of the rules of the node that received it, in any role. */
struct admission admission_of(const struct pair *pair, const struct admission_self *self, const Tarry__Follow *follow);

#endif
