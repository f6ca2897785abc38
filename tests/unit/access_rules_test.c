/* access_rules_test.c: every request and every operation of the wire has a rule. */
#include "roles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool is_known(const struct access_rule *rule) {
    size_t count;
    const struct access_rule *rules = access_rules(&count);
    return rule >= rules && rule < rules + count && rule->name != NULL;
}

/* Visits all members of the message's oneof through protobuf's descriptor, so also members that are added later. */
static void each_body(const ProtobufCMessageDescriptor *message, void (*check)(uint32_t id, const char *name)) {
    size_t count = 0;
    for (unsigned i = 0; i < message->n_fields; i++) {
        if ((message->fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF) == 0) continue;
        check(message->fields[i].id, message->fields[i].name);
        count++;
    }
    assert_true(count > 10);
}

static void check_request(uint32_t id, const char *name) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Pair pair = TARRY__PAIR__INIT;
    request.body_case = (Tarry__Request__BodyCase)id;
    request.pair = &pair;
    const struct access_rule *rule = access_rule_of_request(&request);
    if (!is_known(rule)) fail_msg("request %s has no rule", name);
    if (rule->roles == ROLES_NONE) fail_msg("request %s takes no role", name);
}

static void check_op(uint32_t id, const char *name) {
    const struct access_rule *rule = access_rule_of_op((Tarry__Op__OpCase)id);
    if (!is_known(rule)) fail_msg("operation %s has no rule", name);
    if (rule->roles == ROLES_NONE) fail_msg("operation %s takes no role", name);
}

static void every_request_and_operation_has_a_rule(void **state) {
    (void)state;
    each_body(&tarry__request__descriptor, check_request);
    each_body(&tarry__op__descriptor, check_op);
    Tarry__Request nothing = TARRY__REQUEST__INIT;
    assert_null(access_rule_of_request(&nothing));
    assert_null(access_rule_of_op(TARRY__OP__OP__NOT_SET));
}

/* The requests below are dangerous, so they need a role even for a client on the same host. */
static void what_is_dangerous_is_not_local(void **state) {
    (void)state;
    Tarry__Request request = TARRY__REQUEST__INIT;
    request.body_case = TARRY__REQUEST__BODY_BACKUP;
    assert_int_equal(access_rule_of_request(&request)->roles, ROLE_admin);
    request.body_case = TARRY__REQUEST__BODY_FOLLOW;
    assert_int_equal(access_rule_of_request(&request)->roles, ROLE_peer);
    assert_int_equal(access_rule_of_op(TARRY__OP__OP_REDACT)->roles, ROLE_admin);
    assert_int_equal(ROLES_LOCAL & (ROLE_admin | ROLE_peer), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_and_operation_has_a_rule),
        cmocka_unit_test(what_is_dangerous_is_not_local),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
