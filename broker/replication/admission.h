/* admission.h: which node asks to follow, and may the rules be asked what to answer?
 *
 * The rules of a pair know two nodes. Here it is decided that the requester is the other one of the two: of this
 * cluster, with the same options, on a disk of its own that this pair may count (F-29). Pure; any thread. */
#ifndef TARRY_REPLICATION_ADMISSION_H
#define TARRY_REPLICATION_ADMISSION_H

#include <stdbool.h>

#include "hard_state.h"
#include "pair.h"
#include "tarry.pb-c.h"

/* The node that is asked. */
struct admission_self {
    const uint8_t *cluster; /* CLUSTER_ID_SIZE bytes */
    const uint8_t *member;  /* its disk: MEMBER_ID_SIZE bytes */
    const struct hard_state *hard_state;
};

enum admission_kind {
    ADMISSION_RULES = 1, /* the rules answer (PAIR_ASKED) */
    ADMISSION_PROBE,     /* is it there, and which epoch does it lead? Answered at once; acknowledges nothing */
    ADMISSION_JOIN,      /* a directory that belongs to no cluster yet */
    ADMISSION_REFUSE,    /* with `sentence` */
};

struct admission {
    enum admission_kind kind;
    bool is_early;        /* REFUSE: the requester may ask again; otherwise it takes an operator */
    const char *sentence; /* REFUSE; lasts for ever */
};

/* `pair`: the rules of the node that is asked, in any role. */
struct admission admission_of(const struct pair *pair, const struct admission_self *self, const Tarry__Follow *follow);

#endif
