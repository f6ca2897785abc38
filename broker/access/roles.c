/* roles.c: see roles.h. The switches have no default, so a new request or operation without a rule does not compile. */
#include "roles.h"

#include <stdio.h>
#include <string.h>

enum rule {
    RULE_HELLO,
    RULE_COMMIT,
    RULE_GET,
    RULE_SUBSCRIBE,
    RULE_SESSION,
    RULE_LIST,
    RULE_QUEUES,
    RULE_STATS,
    RULE_CALENDAR,
    RULE_AUDIT,
    RULE_BACKUP,
    RULE_FOLLOW,
    RULE_PAIR_STATUS,
    RULE_PAIR,
    RULE_SCHEDULE,
    RULE_CHANGE,
    RULE_SETTLE,
    RULE_DEAD,
    RULE_QUEUE_SET,
    RULE_QUEUE_PAUSE,
    RULE_QUEUE_PURGE,
    RULE_QUEUE_DELETE,
    RULE_REDACT,
    RULE_METRICS,
    RULE_LOOK,
    RULE_READY,
    RULE_HEALTH,
    RULES
};

/* Roles that may commit some operation. */
#define ROLES_COMMIT (ROLE_produce | ROLE_consume | ROLE_operate | ROLE_admin)
/* Roles that may look. An operator needs it to follow an operation, such as a purge or an erasure, in the statistics.
 */
#define ROLES_LOOK (ROLE_read | ROLE_operate | ROLE_admin)

static const struct access_rule rules[RULES] = {
    [RULE_HELLO] = {"hello, goodbye", ROLES_COMMIT, REACH_OWN},
    [RULE_COMMIT] = {"commit", ROLES_COMMIT, REACH_OWN},
    [RULE_GET] = {"get", ROLE_produce | ROLE_read, REACH_QUEUE},
    [RULE_SUBSCRIBE] = {"subscribe", ROLE_consume, REACH_QUEUE},
    [RULE_SESSION] = {"heartbeat, unsubscribe, the lane", ROLE_consume, REACH_OWN},
    [RULE_LIST] = {"list", ROLES_LOOK, REACH_QUEUE},
    [RULE_QUEUES] = {"queues", ROLES_LOOK, REACH_SHOWN},
    [RULE_STATS] = {"stats", ROLES_LOOK, REACH_SHOWN},
    [RULE_CALENDAR] = {"calendar", ROLES_LOOK, REACH_SHOWN},
    [RULE_AUDIT] = {"audit, history", ROLE_read | ROLE_admin, REACH_ALL},
    [RULE_BACKUP] = {"backup", ROLE_admin, REACH_ALL},
    [RULE_FOLLOW] = {"follow", ROLE_peer, REACH_ALL},
    [RULE_PAIR_STATUS] = {"pair: status", ROLES_ALL, REACH_NOTHING},
    [RULE_PAIR] = {"pair: promote, demote, record", ROLE_operate, REACH_ALL},
    [RULE_SCHEDULE] = {"commit: schedule", ROLE_produce, REACH_QUEUE},
    [RULE_CHANGE] = {"commit: cancel, move", ROLE_produce, REACH_QUEUE},
    [RULE_SETTLE] = {"commit: ack, nack, extend, release", ROLE_consume, REACH_OWN},
    [RULE_DEAD] = {"commit: requeue or drop dead letters", ROLE_operate, REACH_QUEUE},
    [RULE_QUEUE_SET] = {"commit: set a queue's policy", ROLE_operate, REACH_QUEUE},
    [RULE_QUEUE_PAUSE] = {"commit: pause or resume a queue", ROLE_operate, REACH_QUEUE},
    [RULE_QUEUE_PURGE] = {"commit: purge a queue", ROLE_operate, REACH_QUEUE},
    [RULE_QUEUE_DELETE] = {"commit: delete a queue", ROLE_operate, REACH_QUEUE},
    [RULE_REDACT] = {"commit: redact", ROLE_admin, REACH_QUEUE},
    [RULE_METRICS] = {"page /metrics", ROLE_read | ROLE_operate, REACH_ALL},
    [RULE_LOOK] = {"page /", ROLES_NONE, REACH_NOTHING},
    [RULE_READY] = {"page /readyz", ROLES_NONE, REACH_NOTHING},
    [RULE_HEALTH] = {"page /healthz", ROLES_NONE, REACH_NOTHING},
};

const struct access_rule *access_rules(size_t *out_count) {
    *out_count = RULES;
    return rules;
}

static const struct access_rule *rule_of_pair(const Tarry__Pair *pair) {
    switch (pair->what) {
    case TARRY__PAIR__WHAT__STATUS:
        return &rules[RULE_PAIR_STATUS];
    case TARRY__PAIR__WHAT__PROMOTE:
    case TARRY__PAIR__WHAT__DEMOTE:
    case TARRY__PAIR__WHAT__RECORD:
    case TARRY__PAIR__WHAT__WRITE_RECORD:
    case _TARRY__PAIR__WHAT_IS_INT_SIZE:
        break;
    }
    return &rules[RULE_PAIR];
}

const struct access_rule *access_rule_of_request(const Tarry__Request *request) {
    switch (request->body_case) {
    case TARRY__REQUEST__BODY_HELLO:
    case TARRY__REQUEST__BODY_GOODBYE:
        return &rules[RULE_HELLO];
    case TARRY__REQUEST__BODY_COMMIT:
        return &rules[RULE_COMMIT];
    case TARRY__REQUEST__BODY_SUBSCRIBE:
        return &rules[RULE_SUBSCRIBE];
    case TARRY__REQUEST__BODY_HEARTBEAT:
    case TARRY__REQUEST__BODY_UNSUBSCRIBE:
        return &rules[RULE_SESSION];
    case TARRY__REQUEST__BODY_GET:
        return &rules[RULE_GET];
    case TARRY__REQUEST__BODY_LIST:
        return &rules[RULE_LIST];
    case TARRY__REQUEST__BODY_QUEUES:
        return &rules[RULE_QUEUES];
    case TARRY__REQUEST__BODY_STATS:
        return &rules[RULE_STATS];
    case TARRY__REQUEST__BODY_CALENDAR:
        return &rules[RULE_CALENDAR];
    case TARRY__REQUEST__BODY_AUDIT:
        return &rules[RULE_AUDIT];
    case TARRY__REQUEST__BODY_BACKUP:
        return &rules[RULE_BACKUP];
    case TARRY__REQUEST__BODY_FOLLOW:
        return &rules[RULE_FOLLOW];
    case TARRY__REQUEST__BODY_PAIR:
        return rule_of_pair(request->pair);
    case TARRY__REQUEST__BODY__NOT_SET:
    case _TARRY__REQUEST__BODY__CASE_IS_INT_SIZE:
        break;
    }
    return NULL;
}

const struct access_rule *access_rule_of_op(Tarry__Op__OpCase op) {
    switch (op) {
    case TARRY__OP__OP_SCHEDULE:
        return &rules[RULE_SCHEDULE];
    case TARRY__OP__OP_CANCEL:
    case TARRY__OP__OP_MOVE:
        return &rules[RULE_CHANGE];
    case TARRY__OP__OP_ACK:
    case TARRY__OP__OP_NACK:
    case TARRY__OP__OP_EXTEND:
    case TARRY__OP__OP_RELEASE:
        return &rules[RULE_SETTLE];
    case TARRY__OP__OP_DEAD:
        return &rules[RULE_DEAD];
    case TARRY__OP__OP_QUEUE_SET:
        return &rules[RULE_QUEUE_SET];
    case TARRY__OP__OP_QUEUE_PAUSE:
        return &rules[RULE_QUEUE_PAUSE];
    case TARRY__OP__OP_QUEUE_PURGE:
        return &rules[RULE_QUEUE_PURGE];
    case TARRY__OP__OP_QUEUE_DELETE:
        return &rules[RULE_QUEUE_DELETE];
    case TARRY__OP__OP_REDACT:
        return &rules[RULE_REDACT];
    case TARRY__OP__OP__NOT_SET:
    case _TARRY__OP__OP__CASE_IS_INT_SIZE:
        break;
    }
    return NULL;
}

const struct access_rule *access_rule_of_page(const char *path) {
    if (strcmp(path, "/metrics") == 0) return &rules[RULE_METRICS];
    if (strcmp(path, "/") == 0) return &rules[RULE_LOOK];
    if (strcmp(path, "/readyz") == 0) return &rules[RULE_READY];
    return strcmp(path, "/healthz") == 0 ? &rules[RULE_HEALTH] : NULL;
}

#define X(name, bit, text) #name,
static const char *const names[] = {ACCESS_ROLES(X)};
#undef X
#define ROLES (sizeof(names) / sizeof(names[0]))
_Static_assert((1u << ROLES) - 1 == ROLES_ALL, "a bit for each role");

unsigned access_role_of(const char *name, size_t size) {
    for (size_t i = 0; i < ROLES; i++)
        if (strlen(names[i]) == size && memcmp(names[i], name, size) == 0) return 1u << i;
    return 0;
}

char *roles_format(unsigned roles, const char *between, char out[ROLES_TEXT_SIZE]) {
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < ROLES; i++) {
        if ((roles & 1u << i) == 0) continue;
        used += (size_t)snprintf(out + used, ROLES_TEXT_SIZE - used, "%s%s", used == 0 ? "" : between, names[i]);
    }
    return out;
}
