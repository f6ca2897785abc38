/* requests_test.c: proto/WIRE.md has the same tables of requests and operations as proto/requests.def. */
#include "requests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define LINE_SIZE 512
#define ROWS_MAX 64

static const char *const classes[] = {[CLASS_QUESTION] = "question",
                                      [CLASS_CHANGE] = "change",
                                      [CLASS_SESSION] = "session",
                                      [CLASS_LOG] = "log",
                                      [CLASS_PAIR] = "pair"};
static const char *const targets[] = {
    [NAMES_NEW_TASK] = "a new task",    [NAMES_TASK] = "a task",   [NAMES_DEAD_TASK] = "dead letters",
    [NAMES_PAST_TASKS] = "ended tasks", [NAMES_LEASE] = "a lease", [NAMES_QUEUE] = "a queue"};

struct row {
    unsigned number;
    const char *message;
    const char *kind;
    const char *text;
};

static const struct row requests[] = {
#define REQUEST(CASE, member, Message, class, answerer, roles, reach, queue, check, room, name, text)                  \
    {TARRY__REQUEST__BODY_##CASE, #Message, classes[class], text},
#include "requests.def"
};
static const struct row operations[] = {
#define OPERATION(CASE, member, Message, target, roles, reach, creates, job, check, name, text)                        \
    {TARRY__OP__OP_##CASE, #Message, targets[target], text},
#include "requests.def"
};

/* Compares the table that starts with `head`. */
static void compare(const char *head, const struct row *rows, size_t count) {
    char line[LINE_SIZE], expected[LINE_SIZE];
    FILE *file = fopen(WIRE_DOC, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL && strcmp(line, head) != 0) continue;
    assert_non_null(fgets(line, sizeof(line), file)); /* | --- | */
    for (size_t i = 0; i < count; i++) {
        assert_non_null(fgets(line, sizeof(line), file));
        snprintf(expected, sizeof(expected), "| %u | `%s` | %s | %s |\n", rows[i].number, rows[i].message, rows[i].kind,
                 rows[i].text);
        assert_string_equal(line, expected);
    }
    assert_true(fgets(line, sizeof(line), file) == NULL || line[0] != '|');
    fclose(file);
}

static void the_wire_document_has_every_request(void **state) {
    (void)state;
    compare("| number | request | class | what it does |\n", requests, sizeof(requests) / sizeof(requests[0]));
}

static void the_wire_document_has_every_operation(void **state) {
    (void)state;
    compare("| number | operation | names | what it does |\n", operations, sizeof(operations) / sizeof(operations[0]));
}

/* An entry has the message and the member that tarry.proto gives its number. */
static void entries_are_those_of_the_proto(void **state) {
    (void)state;
    const struct {
        const ProtobufCMessageDescriptor *message;
        const struct row *rows;
        size_t count;
    } tables[] = {{&tarry__request__descriptor, requests, sizeof(requests) / sizeof(requests[0])},
                  {&tarry__op__descriptor, operations, sizeof(operations) / sizeof(operations[0])}};
    for (size_t t = 0; t < 2; t++)
        for (size_t i = 0; i < tables[t].count; i++) {
            const ProtobufCFieldDescriptor *field =
                protobuf_c_message_descriptor_get_field(tables[t].message, tables[t].rows[i].number);
            assert_non_null(field);
            const ProtobufCMessageDescriptor *body = field->descriptor;
            assert_string_equal(body->short_name, tables[t].rows[i].message);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_wire_document_has_every_request),
        cmocka_unit_test(the_wire_document_has_every_operation),
        cmocka_unit_test(entries_are_those_of_the_proto),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
