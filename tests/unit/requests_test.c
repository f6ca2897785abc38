/* requests_test.c: docs/REQUESTS.md agrees with proto/requests.def. With TARRY_RECORD=1 in the environment, the test
 * writes the document. */
#include "requests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "roles.h"

static const char *const classes[] = {[CLASS_QUESTION] = "question",
                                      [CLASS_CHANGE] = "change",
                                      [CLASS_SESSION] = "session",
                                      [CLASS_LOG] = "log",
                                      [CLASS_PAIR] = "pair"};
static const char *const targets[] = {
    [NAMES_NEW_TASK] = "a new task",    [NAMES_TASK] = "a task",   [NAMES_DEAD_TASK] = "dead letters",
    [NAMES_PAST_TASKS] = "ended tasks", [NAMES_LEASE] = "a lease", [NAMES_QUEUE] = "a queue",
    [NAMES_DEFINITION] = "a definition"};
static const char *const reaches[] = {
    [REACH_NOTHING] = "–",   [REACH_QUEUE] = "named", [REACH_OWN] = "own",
    [REACH_SHOWN] = "shown", [REACH_ALL] = "all",     [REACH_BROKER] = "only the broker itself"};

struct entry {
    unsigned number;
    const char *message;
    const char *const *kind; /* name of the request's kind: a string of `classes` or `targets` */
    const char *text;
};

static const struct entry requests[] = {
#define REQUEST(CASE, member, Message, class, answerer, roles, reach, queue, check, room, name, text)                  \
    {TARRY__REQUEST__BODY_##CASE, #Message, &classes[class], text},
#include "requests.def"
};
static const struct entry operations[] = {
#define OPERATION(CASE, member, Message, target, roles, reach, creates, job, check, name, text)                        \
    {TARRY__OP__OP_##CASE, #Message, &targets[target], text},
#include "requests.def"
};
#define REQUEST_COUNT (sizeof(requests) / sizeof(requests[0]))
#define OPERATION_COUNT (sizeof(operations) / sizeof(operations[0]))

/* ---- the document */

static const char head[] =
    "# Requests and operations\n\n"
    "`proto/requests.def` is the source of this page; `TARRY_RECORD=1 build/tests/unit/requests_test` writes it.\n"
    "[ACCESS.md](ACCESS.md#roles) explains the columns *role* and *queues*, [WIRE.md](../proto/WIRE.md) the messages.\n"
    "A follower answers questions too. The number is that of the field in `Request`.\n\n"
    "| number | request | class | role | queues | what it does |\n| --- | --- | --- | --- | --- | --- |\n";
static const char head_of_operations[] =
    "\n`Pair` needs the role in the table to promote, demote and read the record; each client may ask for the "
    "status.\n\n"
    "A `Commit` has operations. The number is that of the field in `Op`.\n\n"
    "| number | operation | names | role | queues | what it does |\n| --- | --- | --- | --- | --- | --- |\n";
static const char head_of_pages[] = "\nPages of the web interface and of monitoring:\n\n"
                                    "| page | role | queues |\n| --- | --- | --- |\n";

static const char *roles_text(const struct access_rule *rule, char out[ROLES_TEXT_SIZE]) {
    if (rule->roles == ROLES_NONE) return "none";
    return rule->roles == ROLES_ALL ? "any" : roles_format(rule->roles, ", ", out);
}

static void write_entry(FILE *out, const struct entry *entry, const struct access_rule *rule) {
    char roles[ROLES_TEXT_SIZE];
    fprintf(out, "| %u | `%s` | %s | %s | %s | %s |\n", entry->number, entry->message, *entry->kind,
            roles_text(rule, roles), reaches[rule->reach], entry->text);
}

static void write_document(FILE *out) {
    static const char *const pages[] = {"/", "/metrics", "/healthz", "/readyz"};
    Tarry__Pair pair = {.what = TARRY__PAIR__WHAT__PROMOTE};
    char roles[ROLES_TEXT_SIZE];
    fputs(head, out);
    for (size_t i = 0; i < REQUEST_COUNT; i++) {
        const Tarry__Request request = {.body_case = (Tarry__Request__BodyCase)requests[i].number, .pair = &pair};
        write_entry(out, &requests[i], access_rule_of_request(&request));
    }
    fputs(head_of_operations, out);
    for (size_t i = 0; i < OPERATION_COUNT; i++)
        write_entry(out, &operations[i], access_rule_of_op((Tarry__Op__OpCase)operations[i].number));
    fputs(head_of_pages, out);
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        const struct access_rule *rule = access_rule_of_page(pages[i]);
        fprintf(out, "| `%s` | %s | %s |\n", pages[i], roles_text(rule, roles), reaches[rule->reach]);
    }
}

static char *read_file(const char *path) {
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 20);
    assert_non_null(file);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

static void the_document_says_what_the_table_says(void **state) {
    (void)state;
    char *expected = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&expected, &size);
    assert_non_null(out);
    write_document(out);
    fclose(out);
    if (getenv("TARRY_RECORD") != NULL) {
        FILE *file = fopen(REQUESTS_DOC, "w");
        assert_non_null(file);
        fputs(expected, file);
        fclose(file);
    }
    char *document = read_file(REQUESTS_DOC);
    assert_string_equal(document, expected);
    free(document);
    free(expected);
}

/* ---- the entries */

static void check_entries(const ProtobufCMessageDescriptor *type, const struct entry *entries, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(type, entries[i].number);
        assert_non_null(field);
        const ProtobufCMessageDescriptor *body = field->descriptor;
        assert_string_equal(body->short_name, entries[i].message);
    }
}

static void entries_have_the_messages_of_the_proto(void **state) {
    (void)state;
    check_entries(&tarry__request__descriptor, requests, REQUEST_COUNT);
    check_entries(&tarry__op__descriptor, operations, OPERATION_COUNT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_document_says_what_the_table_says),
        cmocka_unit_test(entries_have_the_messages_of_the_proto),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
