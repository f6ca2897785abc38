/* access_rules_test.c: every request and every operation of the wire has an access rule, and docs/ACCESS.md lists
 * the same rules as the broker. */
#include "roles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LINE_SIZE 512

static bool is_known(const struct access_rule *rule) {
    size_t count;
    const struct access_rule *rules = access_rules(&count);
    return rule >= rules && rule < rules + count && rule->name != NULL;
}

/* Visits the members of the message's oneof through protoc's descriptor, which includes new members. */
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

/* Requests that a client on the same host must not be able to make without a role. */
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

static const char *const reaches[] = {
    [REACH_NOTHING] = "–", [REACH_QUEUE] = "named", [REACH_OWN] = "own", [REACH_SHOWN] = "shown", [REACH_ALL] = "all"};

static void the_documentation_has_the_same_table(void **state) {
    (void)state;
    size_t count, found = 0;
    const struct access_rule *rules = access_rules(&count);
    char line[LINE_SIZE], expected[LINE_SIZE], roles[ROLES_TEXT_SIZE];
    FILE *file = fopen(ACCESS_DOC, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL && strcmp(line, "| request | role | queues |\n") != 0) continue;
    assert_non_null(fgets(line, sizeof(line), file)); /* | --- | */
    for (; found < count && fgets(line, sizeof(line), file) != NULL; found++) {
        const struct access_rule *rule = &rules[found];
        bool is_any = rule->roles == ROLES_ALL;
        snprintf(expected, sizeof(expected), "| %s | %s | %s |\n", rule->name,
                 rule->roles == ROLES_NONE ? "none"
                 : is_any                  ? "any"
                                           : roles_format(rule->roles, ", ", roles),
                 reaches[rule->reach]);
        assert_string_equal(line, expected);
    }
    assert_int_equal(found, count);
    assert_true(fgets(line, sizeof(line), file) == NULL || line[0] != '|');
    fclose(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_and_operation_has_a_rule),
        cmocka_unit_test(what_is_dangerous_is_not_local),
        cmocka_unit_test(the_documentation_has_the_same_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
