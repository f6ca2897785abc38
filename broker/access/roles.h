/* roles.h: the six roles, and the roles that each request and operation requires, as proto/requests.def states them.
 * docs/REQUESTS.md shows them to readers (tests/unit/requests_test.c). Pure, any thread. */
#ifndef TARRY_ACCESS_ROLES_H
#define TARRY_ACCESS_ROLES_H

#include <stdbool.h>
#include <stddef.h>

#include "tarry.pb-c.h"

/* X(name, bit, purpose). */
#define ACCESS_ROLES(X)                                                                                                \
    X(produce, 0, "schedule, move, cancel and get tasks")                                                              \
    X(consume, 1, "receive tasks and settle them")                                                                     \
    X(read, 2, "read lists, statistics, history and metrics")                                                          \
    X(operate, 3, "change policies, pause and purge queues, handle dead letters, choose the primary of a pair")        \
    X(admin, 4, "redact, back up, settle tasks of other principals")                                                   \
    X(peer, 5, "act as the other node of a pair")

enum access_role {
#define X(name, bit, text) ROLE_##name = 1u << (bit),
    ACCESS_ROLES(X)
#undef X
};
#define ROLES_NONE 0u
#define ROLES_ALL 63u
/* Roles of a client on this host without token or certificate. */
#define ROLES_LOCAL ((unsigned)ROLE_produce | ROLE_consume | ROLE_read | ROLE_operate)

#define ROLES_TEXT_SIZE 64 /* size of "produce,consume,read,operate,admin,peer" */

/* Returns the bit of a role such as "produce"; 0: unknown role. */
unsigned access_role_of(const char *name, size_t size);
/* Writes the names of `roles`, separated by `between`, for example "produce, read". Returns `out`. */
char *roles_format(unsigned roles, const char *between, char out[ROLES_TEXT_SIZE]);

/* How a request or operation depends on queues, for a principal that is confined to some queues. */
enum access_reach {
    REACH_NOTHING, /* the request names and shows no queue */
    REACH_QUEUE,   /* the request uses one queue: the one that it names, or the queue of its task */
    REACH_OWN,     /* the request names a session, a producer or a lease, whose owner must be the client */
    REACH_SHOWN,   /* the reply contains only what the client may see */
    REACH_ALL,     /* the request affects all queues, so a confined principal may not use it */
    REACH_BROKER   /* only the broker itself may use it (KIND_BROKER) */
};

struct access_rule {
    const char *name; /* name as in docs/REQUESTS.md, for example "commit: schedule" or "get" */
    unsigned roles;   /* bits of roles, one of which the principal needs */
    enum access_reach reach;
};

/* Returns the rule of a request; NULL: unknown request, which the broker refuses. The operations in a commit have their
 * own rules, in addition to the commit's. */
const struct access_rule *access_rule_of_request(const Tarry__Request *request);
const struct access_rule *access_rule_of_op(Tarry__Op__OpCase op);
/* Returns the rule of the page at `path`; NULL: no such page. */
const struct access_rule *access_rule_of_page(const char *path);
/* Returns all rules, for documents and tests. */
const struct access_rule *access_rules(size_t *out_count);

#endif
