/* tool_test.c: the parts of the tool that need no broker: times, JSON lines, the command line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "../random.h"
#include "args.h"
#include "lines.h"
#include "rfc3339.h"
#include "table.h"

/* ---- times */

static void times_are_read(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t ms;
    } good[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01t00:00:00.001z", 1},
        {"1970-01-01T01:00:00+01:00", 0},
        {"1969-12-31T23:00:00-01:00", 0},
        {"2026-11-21T04:00:00Z", 1795233600000},
        {"2026-11-21 05:00:00.5+01:00", 1795233600500},
        {"2026-11-21T04:00:00.0001Z", 1795233600001}, /* TIME-1: the fraction is rounded up, so that no task is early */
        {"2026-11-21T04:00:00.1230000Z", 1795233600123},
        {"2026-11-21T04:00:00.9999Z", 1795233601000},
        {"2024-02-29T00:00:00Z", 1709164800000},
        {"2000-02-29T00:00:00Z", 951782400000},
        {"2038-01-19T03:14:08Z", 2147483648000},
        {"2016-12-31T23:59:60Z", 1483228800000}, /* a leap second is the first second of the next minute */
        {"9999-12-31T23:59:59.999+00:00", 253402300799999},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t ms = 7;
        assert_null(rfc3339_parse(good[i].text, &ms));
        assert_int_equal(ms, good[i].ms);
    }
}

static void what_is_no_time_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        "now",
        "2026-11-21",
        "2026-11-21T04:00Z",
        "2026-11-21T04:00:00",
        "2026-11-21T04:00:00.Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "2026-11-21T24:00:00Z",
        "2026-11-21T04:60:00Z",
        "2026-11-21T04:00:61Z",
        "2026-11-21T04:00:00+1:00",
        "2026-11-21T04:00:00+01",
        "2026-11-21T04:00:00+24:00",
        "2026-11-21T04:00:00Zx",
        "2026-11-21T04:00:00Z ",
        " 2026-11-21T04:00:00Z",
        "1969-12-31T23:59:59Z",
        "0000-01-01T00:00:00Z",
        "+026-11-21T04:00:00Z",
        "2026-11-21T04:00:00,5Z",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t ms = 7;
        assert_non_null(rfc3339_parse(bad[i], &ms));
        assert_int_equal(ms, 7);
    }
}

static void times_are_written_in_local_time_and_read_back(void **state) {
    (void)state;
    char text[RFC3339_TEXT_SIZE];
    struct random random = {random_seed(20)};
    setenv("TZ", "XYZ-05:30", 1);
    tzset();
    assert_string_equal(rfc3339_format(1795233600123, text), "2026-11-21T09:30:00.123+05:30");
    setenv("TZ", "XYZ03", 1);
    tzset();
    assert_string_equal(rfc3339_format(1795233600123, text), "2026-11-21T01:00:00.123-03:00");
    for (int i = 0; i < 20000; i++) {
        uint64_t ms = random_u64(&random) % 253402300799999u, back = 0;
        assert_null(rfc3339_parse(rfc3339_format(ms, text), &back));
        assert_int_equal(back, ms);
    }
    setenv("TZ", "UTC", 1);
    tzset();
    assert_string_equal(rfc3339_format(UINT64_MAX, text), "18446744073709551615ms");
    assert_string_equal(rfc3339_format(253402300799999, text), "9999-12-31T23:59:59.999+00:00");
    assert_string_equal(rfc3339_format(253402300800000, text), "253402300800000ms");
}

/* ---- JSON in */

static int parse(struct fields *fields, enum verb verb, const char *line) {
    return fields_parse(fields, verb, line, strlen(line));
}

static void a_line_becomes_a_schedule(void **state) {
    (void)state;
    struct fields f;
    assert_int_equal(parse(&f, VERB_SCHEDULE,
                           "{\"queue\":\"q\",\"key\":\"k\",\"delay_ms\":1.5e3,\"body\":\"a\\u0000b\",\"priority\":9,"
                           "\"attributes\":{\"x\":\"y\"},\"expires_ms\":60000,\"on_conflict\":\"later\"}\r"),
                     TARRY_OK);
    assert_string_equal(f.schedule.queue, "q");
    assert_int_equal(f.schedule.key_size, 1);
    assert_int_equal(f.schedule.when, TARRY_DELAY);
    assert_int_equal(f.schedule.when_ms, 1500);
    assert_int_equal(f.schedule.payload_size, 3);
    assert_memory_equal(f.schedule.payload, "a\0b", 3);
    assert_int_equal(f.schedule.priority, 9);
    assert_int_equal(f.schedule.attribute_count, 1);
    assert_string_equal(f.schedule.attributes[0].value, "y");
    assert_int_equal(f.schedule.expires_ms, 60000);
    assert_int_equal(f.schedule.on_conflict, TARRY_KEEP_LATER);
    fields_deinit(&f);
    assert_int_equal(parse(&f, VERB_SCHEDULE, " {\"queue\":\"q\",\"key\":null,\"due_ms\":0,\"body_base64\":\"/w==\"} "),
                     TARRY_OK);
    assert_int_equal(f.schedule.when, TARRY_AT);
    assert_int_equal(f.schedule.key_size, 0);
    assert_int_equal(f.schedule.payload_size, 1);
    assert_memory_equal(f.schedule.payload, "\xff", 1);
    fields_deinit(&f);
}

static void broken_lines_are_refused_with_a_sentence(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        "\r",
        "   ",
        "{",
        "[]",
        "7",
        "null",
        "{} x",
        "\"queue\"",
        "\xff\xfe",
        "{\"queue\":\"q\"}",
        "{\"delay_ms\":1}",
        "{\"queue\":7,\"delay_ms\":1}",
        "{\"queue\":null,\"delay_ms\":1}",
        "{\"queue\":\"q\",\"delay_ms\":-1}",
        "{\"queue\":\"q\",\"delay_ms\":1.5}",
        "{\"queue\":\"q\",\"delay_ms\":\"1\"}",
        "{\"queue\":\"q\",\"delay_ms\":1e300}",
        "{\"queue\":\"q\",\"due_ms\":99999999999999999999}",
        "{\"queue\":\"q\",\"delay_ms\":1,\"due_ms\":1}",
        "{\"queue\":\"q\",\"delay_ms\":1,\"body\":7}",
        "{\"queue\":\"q\",\"delay_ms\":1,\"body\":\"\",\"body_base64\":\"\"}",
        "{\"queue\":\"q\",\"delay_ms\":1,\"body_base64\":\"x\"}",
        "{\"queue\":\"q\",\"delay_ms\":1,\"priority\":10}",
        "{\"queue\":\"q\",\"delay_ms\":1,\"priority\":4294967296}",
        "{\"queue\":\"q\",\"delay_ms\":1,\"attributes\":[]}",
        "{\"queue\":\"q\",\"delay_ms\":1,\"attributes\":{\"a\":1}}",
        "{\"queue\":\"q\",\"delay_ms\":1,\"on_conflict\":\"x\"}",
        "{\"queue\":\"q\",\"delay_ms\":1,\"prioritty\":1}",
        "{\"queue\":\"q\",\"queue\":\"q\",\"delay_ms\":1}",
        "{\"queue\":\"a\\u0000b\",\"delay_ms\":1}",
        "{\"queue\":\"q\",\"delay_ms\":true}",
        "{\"queue\":\"q\",\"key\":\"\xff\",\"delay_ms\":1}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct fields f;
        assert_int_equal(parse(&f, VERB_SCHEDULE, bad[i]), TARRY_INVALID);
        assert_true(f.message[0] != 0);
        fields_deinit(&f);
    }
}

static void a_task_is_named_by_id_or_by_queue_and_key(void **state) {
    (void)state;
    static const char *const bad[] = {"{}",
                                      "{\"queue\":\"q\"}",
                                      "{\"key\":\"k\"}",
                                      "{\"id\":\"x\"}",
                                      "{\"id\":\"\"}",
                                      "{\"id\":0}",
                                      "{\"id\":-1}",
                                      "{\"id\":\"0\"}",
                                      "{\"id\":\"12 \"}",
                                      "{\"queue\":\"q\",\"key\":\"\"}",
                                      "{\"id\":\"1\",\"withdraw\":1}",
                                      "{\"id\":\"1\",\"kee\":1}"};
    struct fields f;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(parse(&f, VERB_CANCEL, bad[i]), TARRY_INVALID);
        fields_deinit(&f);
    }
    assert_int_equal(parse(&f, VERB_CANCEL, "{\"id\":\"18446744073709551615\",\"withdraw\":true}"), TARRY_OK);
    assert_int_equal(f.ref.id, UINT64_MAX);
    assert_true(f.withdraw);
    fields_deinit(&f);
    /* The output of tarry schedule may be the input of tarry cancel. */
    assert_int_equal(parse(&f, VERB_CANCEL,
                           "{\"line\":1,\"id\":\"7\",\"queue\":\"q\",\"key\":\"k\",\"result\":\"scheduled\","
                           "\"due_ms\":5}"),
                     TARRY_OK);
    assert_int_equal(f.ref.id, 7);
    fields_deinit(&f);
    assert_int_equal(parse(&f, VERB_MOVE, "{\"queue\":\"q\",\"key\":\"k\"}"), TARRY_INVALID);
    fields_deinit(&f);
    assert_int_equal(parse(&f, VERB_MOVE, "{\"queue\":\"q\",\"key\":\"k\",\"due_ms\":12}"), TARRY_OK);
    assert_int_equal(f.when_ms, 12);
    fields_deinit(&f);
}

/* ---- the command line */

static const struct arg_spec put_options[] = {{"key", ARG_VALUE, "K", ""},
                                              {"attr", ARG_MANY, "k=v", ""},
                                              {"force", ARG_FLAG, NULL, ""},
                                              {0}};
static const struct command put = {
    .name = "put", .options = put_options, .positional_min = 1, .positional_max = 1, .positional_names = "QUEUE"};
static const struct command queue_set = {.name = "queue set", .options = put_options, .positional_max = 9};
static const struct command *const commands[] = {&put, &queue_set, NULL};

static int parse_words(struct args *args, const char *line, char *message) {
    static char storage[512];
    char *argv[32] = {"tarry"};
    int argc = 1;
    snprintf(storage, sizeof storage, "%s", line);
    char *rest;
    for (char *word = strtok_r(storage, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    static char *kept[32];
    memcpy(kept, argv, sizeof kept);
    return args_parse(args, commands, argc, kept, message, 512);
}

static void globals_may_stand_anywhere(void **state) {
    (void)state;
    static const char *const lines[] = {
        "--json --broker u put q --key k --attr a=1 --attr b=2 --force",
        "put --json q --key=k --attr a=1 --broker=u --attr b=2 --force",
        "--broker u put --force --attr a=1 --attr b=2 --key k q --json",
        "put --key k --force --attr a=1 --attr b=2 --broker x --broker u --json -- q",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct args args;
        char message[512] = "";
        assert_int_equal(parse_words(&args, lines[i], message), 0);
        assert_ptr_equal(args.command, &put);
        assert_true(args.json);
        assert_string_equal(args.broker, "u");
        assert_string_equal(args_get(&args, "key"), "k");
        assert_true(args_has(&args, "force"));
        assert_int_equal(args.many_count, 2);
        assert_string_equal(args.many[1].value, "b=2");
        assert_int_equal(args.positional_count, 1);
        assert_string_equal(args.positional[0], "q");
        args_deinit(&args);
    }
}

static void wrong_command_lines_get_a_hint(void **state) {
    (void)state;
    static const struct {
        const char *line;
        const char *hint;
    } wrong[] = {
        {"pot q", "did you mean 'put'"},
        {"put", "needs QUEUE"},
        {"put q r", "unexpected argument 'r'"},
        {"put q --kye k", "did you mean '--key'"},
        {"put q --key", "needs a value"},
        {"put q --force=1", "takes no value"},
        {"put q --key a --key b", "twice"},
        {"queue", "needs a subcommand"},
        {"queue ste x", "did you mean 'queue set'"},
        {"--force put q", "is before the command"},
        {"put q -x", "unknown option '-x'"},
        {"xyzzy", "unknown command 'xyzzy'"},
        {"put q --timeuot 3s", "did you mean '--timeout'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct args args;
        char message[512] = "";
        assert_int_equal(parse_words(&args, wrong[i].line, message), 2);
        if (strstr(message, wrong[i].hint) == NULL) fail_msg("%s: %s", wrong[i].line, message);
        args_deinit(&args);
    }
}

static void a_value_is_taken_as_it_is(void **state) {
    (void)state;
    struct args args;
    char message[512] = "";
    assert_int_equal(parse_words(&args, "put q --key --json", message), 0);
    assert_string_equal(args_get(&args, "key"), "--json");
    assert_false(args.json);
    args_deinit(&args);
    assert_int_equal(parse_words(&args, "queue set q --help", message), 0);
    assert_true(args.help);
    assert_ptr_equal(args.command, &queue_set);
    args_deinit(&args);
    assert_int_equal(parse_words(&args, "help put", message), 0);
    assert_true(args.help);
    assert_ptr_equal(args.command, &put);
    args_deinit(&args);
}

/* ---- tables */

static void columns_are_aligned_by_characters(void **state) {
    (void)state;
    static const char *const heads[] = {"KEY", ">N", "STATE"};
    struct table table;
    struct text out = {0};
    table_init(&table, heads, 3);
    table_cell(&table, "größe");
    table_cell_number(&table, 7);
    table_cell(&table, "a\033b");
    table_print(&table, &out);
    table_cell(&table, "x");
    table_cell_number(&table, 10);
    table_cell(&table, "ready");
    table_print(&table, &out);
    assert_string_equal(text_str(&out), "KEY    N  STATE\ngröße  7  a?b\nx      10  ready\n");
    table_deinit(&table);
    out.size = 0;
    bar_add(&out, 1, 2, 4);
    bar_add(&out, 0, 2, 2);
    bar_add(&out, 1, 1e9, 2);
    assert_string_equal(text_str(&out), "██    ▏ ");
    text_deinit(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_read),
        cmocka_unit_test(what_is_no_time_is_refused),
        cmocka_unit_test(times_are_written_in_local_time_and_read_back),
        cmocka_unit_test(a_line_becomes_a_schedule),
        cmocka_unit_test(broken_lines_are_refused_with_a_sentence),
        cmocka_unit_test(a_task_is_named_by_id_or_by_queue_and_key),
        cmocka_unit_test(globals_may_stand_anywhere),
        cmocka_unit_test(wrong_command_lines_get_a_hint),
        cmocka_unit_test(a_value_is_taken_as_it_is),
        cmocka_unit_test(columns_are_aligned_by_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
