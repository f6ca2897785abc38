/* roles.c: see roles.h. The rules of requests and operations are entries of requests.def. */
#include "roles.h"

#include <stdio.h>
#include <string.h>

#include "requests.h"

/* Roles that may commit some operation. */
#define ROLES_COMMIT (ROLE_produce | ROLE_consume | ROLE_operate | ROLE_admin)
/* Roles that may read data. An operator needs this right to follow an operation, such as a purge or an erasure, in the
 * statistics. */
#define ROLES_LOOK (ROLE_read | ROLE_operate | ROLE_admin)

enum rule {
#define REQUEST(CASE, ...) RULE_##CASE,
#include "requests.def"
    RULE_PAIR_STATUS,
#define OPERATION(CASE, ...) RULE_COMMIT_##CASE,
#include "requests.def"
    RULE_METRICS,
    RULE_LOOK,
    RULE_READY,
    RULE_HEALTH,
    RULES
};

static const struct access_rule rules[RULES] = {
#define REQUEST(CASE, member, Message, class, answerer, roles, reach, queue, check, room, name, text)                  \
    [RULE_##CASE] = {name, roles, reach},
#include "requests.def"
    [RULE_PAIR_STATUS] = {"pair: status", ROLES_ALL, REACH_NOTHING},
#define OPERATION(CASE, member, Message, target, roles, reach, creates, job, check, name, text)                        \
    [RULE_COMMIT_##CASE] = {"commit: " name, roles, reach},
#include "requests.def"
    [RULE_METRICS] = {"page /metrics", ROLE_read | ROLE_operate, REACH_ALL},
    [RULE_LOOK] = {"page /", ROLES_NONE, REACH_NOTHING},
    [RULE_READY] = {"page /readyz", ROLES_NONE, REACH_NOTHING},
    [RULE_HEALTH] = {"page /healthz", ROLES_NONE, REACH_NOTHING},
};

const struct access_rule *access_rules(size_t *out_count) {
    *out_count = RULES;
    return rules;
}

const struct access_rule *access_rule_of_request(const Tarry__Request *request) {
    if (request->body_case == TARRY__REQUEST__BODY_PAIR && request->pair->what == TARRY__PAIR__WHAT__STATUS)
        return &rules[RULE_PAIR_STATUS];
    switch (request->body_case) {
#define REQUEST(CASE, ...)                                                                                             \
    case TARRY__REQUEST__BODY_##CASE:                                                                                  \
        return &rules[RULE_##CASE];
#include "requests.def"
        REQUEST_UNKNOWN
    }
    return NULL;
}

const struct access_rule *access_rule_of_op(Tarry__Op__OpCase op) {
    switch (op) {
#define OPERATION(CASE, ...)                                                                                           \
    case TARRY__OP__OP_##CASE:                                                                                         \
        return &rules[RULE_COMMIT_##CASE];
#include "requests.def"
        OPERATION_UNKNOWN
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
