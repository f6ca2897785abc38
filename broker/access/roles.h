/* roles.h: what a principal may do at a broker, in six words, and which of them each request and operation takes. The
 * table below is the one place that says so; docs/ACCESS.md repeats it for people, and tests/unit/access_rules_test.c
 * compares the two. Pure, any thread. */
#ifndef TARRY_ACCESS_ROLES_H
#define TARRY_ACCESS_ROLES_H

#include <stdbool.h>
#include <stddef.h>

#include "tarry.pb-c.h"

/* X(name, bit, what it is for). */
#define ACCESS_ROLES(X)                                                                                                \
    X(produce, 0, "schedule, move, cancel and get tasks")                                                              \
    X(consume, 1, "take tasks, and settle what was taken")                                                             \
    X(read, 2, "look: lists, statistics, history, metrics")                                                            \
    X(operate, 3, "queues' policies, pauses, purges, dead letters, who leads a pair")                                  \
    X(admin, 4, "redact, back up, act for others")                                                                     \
    X(peer, 5, "be the other node of a pair")

enum access_role {
#define X(name, bit, text) ROLE_##name = 1u << (bit),
    ACCESS_ROLES(X)
#undef X
};
#define ROLES_NONE 0u
#define ROLES_ALL 63u
/* A client on this host that shows nothing. */
#define ROLES_LOCAL ((unsigned)ROLE_produce | ROLE_consume | ROLE_read | ROLE_operate)

#define ROLES_TEXT_SIZE 64 /* "produce,consume,read,operate,admin,peer" */

/* "produce"; 0: there is no such role. */
unsigned access_role_of(const char *name, size_t size);
/* "produce, read" with `between` ", ". Returns `out`. */
char *roles_format(unsigned roles, const char *between, char out[ROLES_TEXT_SIZE]);

/* How a request or operation is bound to queues, for a principal that is confined to some. */
enum access_reach {
    REACH_NOTHING, /* it names no queue and shows none */
    REACH_QUEUE,   /* the queue that it names, or that of the task it means */
    REACH_OWN,     /* what it names has an owner, which must be the requester: a session, a producer, a lease */
    REACH_SHOWN,   /* it is answered with what the requester may see */
    REACH_ALL      /* all queues at once: no principal may that is confined to some */
};

struct access_rule {
    const char *name; /* as in docs/ACCESS.md: "commit: schedule", "get" */
    unsigned roles;   /* any one of them is enough */
    enum access_reach reach;
};

/* NULL: this version knows no such request, and refuses it. A commit's operations have a rule each, and it has one of
 * its own. */
const struct access_rule *access_rule_of_request(const Tarry__Request *request);
const struct access_rule *access_rule_of_op(Tarry__Op__OpCase op);
/* The page at `path`; NULL: there is none. */
const struct access_rule *access_rule_of_page(const char *path);
/* All of them, for docs and tests. */
const struct access_rule *access_rules(size_t *out_count);

#endif
