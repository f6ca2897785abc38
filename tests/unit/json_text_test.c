/* json_text_test.c: JSON texts: json_is_valid and the quick readers compared with jansson, the writer's output, and the
 * reader's refusals. */
#include "json_valid.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "json_map.h"
#include "json_quick.h"
#include "json_tree.h"

#define CHANGED_TEXTS 20000

static const char *const good[] = {
    "0",
    "-0",
    "12.5e+3",
    "1E9",
    "[]",
    "{}",
    " [ 1 , 2 ] ",
    "\"\"",
    "\"\\u00e9\\ud83d\\ude00\\n\\/\"",
    "{\"a\":{\"b\":[true,false,null]},\"c\":\"d\"}",
    "\"\x7f\"",
    "{\"\":0}",
    "[[[[]]]]",
    "1e400",
};

static const char *const bad[] = {
    "",
    " ",
    "01",
    "-",
    "1.",
    ".5",
    "1e",
    "+1",
    "[1,]",
    "[,1]",
    "{\"a\"}",
    "{\"a\":}",
    "{a:1}",
    "{\"a\":1,}",
    "[1 2]",
    "\"",
    "\"\\\"",
    "\"\\x\"",
    "\"\\u12\"",
    "\"\\ud800\"",
    "\"\\udc00\\ud800\"",
    "\"\\ud800\\u0041\"",
    "\"a\nb\"",
    "tru",
    "nulll",
    "[1]]",
    "[",
    "{",
    "1 2",
    "\"\x80\"",
    "\"\xed\xa0\x80\"",
    "'a'",
    "[1}",
};

static void texts_are_judged_as_rfc_8259_says(void **state) {
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (!json_is_valid(good[i], strlen(good[i]))) fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (json_is_valid(bad[i], strlen(bad[i]))) fail_msg("taken: %s", bad[i]);
}

static void levels_are_bounded(void **state) {
    char text[2 * JSON_DEPTH_MAX + 2];
    memset(text, '[', sizeof text / 2);
    memset(text + sizeof text / 2, ']', sizeof text / 2);
    assert_true(json_is_valid(text + 1, sizeof text - 2));
    assert_false(json_is_valid(text, sizeof text));
}

/* Returns whether the text is valid JSON although jansson refused it, because jansson has stricter limits than JSON. */
static bool is_jansson_stricter(const json_error_t *error) {
    enum json_error_code code = json_error_code(error);
    return code == json_error_numeric_overflow || code == json_error_duplicate_key ||
           code == json_error_null_byte_in_key;
}

static void jansson_agrees_about_changed_texts(void **state) {
    static const char seed[] = "{\"a\":[1,-2.5e3,\"x\\u00e9\\n\"],\"b\":{\"c\":true,\"d\":null},\"e\":\"\xc3\xa9\"}";
    static const char bytes[] = "{}[],:\"\\/0123456789.eE+-truefalsn \n\t\x80\xc3\xa9"
                                "ud8";
    struct random random = {7};
    for (int i = 0; i < CHANGED_TEXTS; i++) {
        char text[sizeof seed];
        memcpy(text, seed, sizeof seed);
        size_t size = sizeof seed - 1;
        for (uint64_t change = 0; change <= random_u64(&random) % 3; change++) {
            size_t at = random_u64(&random) % size;
            text[at] = bytes[random_u64(&random) % (sizeof bytes - 1)];
            if (random_u64(&random) % 4 == 0) size = at + 1;
        }
        json_error_t error;
        json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
        bool is_read = root != NULL, is_open = !is_read && is_jansson_stricter(&error);
        json_decref(root);
        if (!is_open && json_is_valid(text, size) != is_read)
            fail_msg("jansson says %d: %.*s (%s)", is_read, (int)size, text, error.text);
    }
}

/* Compares the quick reader and writer with jansson's for one text. Returns whether the quick reader accepted it. */
static bool quick_ones_agree(const char *text, size_t size) {
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY;
    /* The text is copied to a block of its own, so that a sanitizer detects a read beyond its end. */
    char *copy = malloc(size + (size == 0));
    assert_non_null(copy);
    memcpy(copy, text, size);
    json_t *quick = json_tree_read(copy, size), *slow = json_loadb(text, size, flags, NULL);
    free(copy);
    if (quick != NULL && !json_equal(quick, slow)) fail_msg("read differently: %.*s", (int)size, text);
    char written[4096], other[4096];
    size_t written_size = slow != NULL ? json_tree_write(slow, written, sizeof(written)) : 0;
    if (written_size > 0) {
        assert_int_equal(json_dumpb(slow, other, sizeof(other), JSON_COMPACT | JSON_ENCODE_ANY), written_size);
        assert_memory_equal(written, other, written_size);
        for (size_t room = 0; room < written_size; room++) assert_int_equal(json_tree_write(slow, other, room), 0);
    }
    bool was_read = quick != NULL;
    json_decref(quick);
    json_decref(slow);
    return was_read;
}

static void the_quick_reader_and_writer_agree_with_jansson(void **state) {
    static const char *const quick[] = {
        "0",
        "-0",
        "-1",
        "999999999999999999",
        "[]",
        " [ 1 , 2 ] ",
        "{}",
        "\"\"",
        "[[[]],{\"a\":[{}]}]",
        "true",
        "false",
        "null",
        "{\"\":0,\"b\":\"\x7f\",\"\xc3\xa9\":\"\xf0\x9f\x98\x80\"}",
        "\t\r\n{ \"a\" : null }\n",
    };
    static const char *const not_quick[] = {
        "9999999999999999999",  "1.0", "1e3", "\"\\n\"", "{\"a\":1,\"a\":2}", "\"\xc3\"",
        "{\"\xed\xa0\x80\":1}", "1 2", "-",
    };
    static const char seed[] =
        "{\"queue\":\"orders\",\"json\":[1,-25,{\"x\":\"\xc3\xa9\"},{}],\"b\":{\"c\":true,\"d\":null}}";
    static const char bytes[] = "{}[],:\"\\/0123456789.eE+-truefalsn \n\t\x80\xc3\xa9"
                                "abc";
    struct random random = {13};
    unsigned read = 0;
    (void)state;
    for (size_t i = 0; i < sizeof quick / sizeof quick[0]; i++)
        if (!quick_ones_agree(quick[i], strlen(quick[i]))) fail_msg("not read: %s", quick[i]);
    for (size_t i = 0; i < sizeof not_quick / sizeof not_quick[0]; i++)
        if (quick_ones_agree(not_quick[i], strlen(not_quick[i]))) fail_msg("read: %s", not_quick[i]);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) (void)quick_ones_agree(good[i], strlen(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_false(quick_ones_agree(bad[i], strlen(bad[i])));
    for (int i = 0; i < 5 * CHANGED_TEXTS; i++) {
        char text[sizeof seed];
        memcpy(text, seed, sizeof seed);
        size_t size = sizeof seed - 1;
        for (uint64_t change = 0; change <= random_u64(&random) % 3; change++) {
            size_t at = random_u64(&random) % size;
            text[at] = bytes[random_u64(&random) % (sizeof bytes - 1)];
            if (random_u64(&random) % 16 == 0) size = at + 1;
        }
        read += quick_ones_agree(text, size);
    }
    assert_in_range(read, CHANGED_TEXTS / 4, 5 * CHANGED_TEXTS); /* the quick reader must have accepted enough texts */
}

/* ---- schedules without a tree of values */

#define TASKS_MAX 8u

/* Reads the operations of the text by json_read and json_op_named, and packs them. Returns their size; 0: the text is
 * refused. */
static size_t pack_slowly(struct arena *arena, const char *queue, const char *text, size_t size, uint8_t *out) {
    struct json_in in = {.arena = arena, .queue = queue};
    json_t *root = json_read(&in, text, size);
    bool is_single = json_is_object(root);
    size_t count = is_single ? 1 : json_array_size(root), at = 0;
    for (size_t i = 0; i < count; i++) {
        Tarry__Op *op = json_op_named(&in, "schedule", is_single ? root : json_array_get(root, i));
        at = op != NULL ? at + tarry__op__pack(op, out + at) : 0;
        if (op == NULL) break;
    }
    json_decref(root);
    return at;
}

/* Compares the quick reader with the other functions for one text. Returns whether the quick one accepted it. */
static bool schedules_agree(const char *queue, const char *text, size_t size) {
    static uint8_t quick[1u << 16], slow[1u << 16];
    Tarry__Op *ops[TASKS_MAX];
    struct arena arena;
    bool is_single = false;
    size_t quick_size = 0;
    arena_init(&arena, 1u << 20);
    struct json_in in = {.arena = &arena, .queue = queue};
    /* The text is copied to its own block, so that a sanitizer finds a read beyond its end. The block is overwritten
     * and freed below, because the operations must not refer to it. */
    char *copy = malloc(size + (size == 0));
    assert_non_null(copy);
    memcpy(copy, text, size);
    size_t count = json_quick_schedules(&in, copy, size, ops, TASKS_MAX, &is_single);
    memset(copy, 'x', size);
    free(copy);
    if (count == 0) assert_int_equal(arena.used, 0);
    for (size_t i = 0; i < count; i++) quick_size += tarry__op__pack(ops[i], quick + quick_size);
    if (count > 0) {
        size_t slow_size = pack_slowly(&arena, queue, text, size, slow);
        if (slow_size != quick_size || memcmp(slow, quick, slow_size) != 0)
            fail_msg("read differently: %.*s", (int)size, text);
        assert_int_equal(is_single, memchr(text, '[', strspn(text, " \t\r\n") + 1) == NULL);
    }
    arena_deinit(&arena);
    return count > 0;
}

static void schedules_are_read_quickly_with_the_same_result(void **state) {
    static const char *const quick[] = {
        "{\"queue\":\"q\",\"in\":\"30m\"}",
        " [ { \"in_ms\" : 5 , \"queue\" : \"q\" } , {\"delay_ms\":0,\"queue\":\"\xc3\xa9\"} ] ",
        "[{\"queue\":\"q\",\"key\":\"k\",\"in\":\"0\",\"json\":{\"order\":1,\"a\":[ 1, -2, {} , [] ],\"\":null}}]",
        "{\"queue\":\"q\",\"at\":\"2030-01-01T00:00:00Z\",\"json\":null,\"priority\":9,\"serial\":\"s\"}",
        "{\"queue\":\"q\",\"due_ms\":999999999999999999,\"body\":\"text\",\"priority\":0}",
        "{\"queue\":\"q\",\"in\":\"1h\",\"json\":[true,false,\"\xf0\x9f\x98\x80\",0]}",
    };
    static const char *const not_quick[] = {
        "{\"queue\":\"q\"}",
        "{\"in\":\"1h\"}",
        "{\"queue\":\"q\",\"in\":\"1h\",\"in_ms\":5}",
        "{\"queue\":\"q\",\"in\":\"1h\",\"queue\":\"q\"}",
        "{\"queue\":\"q\",\"in\":\"1h\",\"body\":\"b\",\"json\":1}",
        "{\"queue\":\"q\",\"in\":\"1h\",\"priority\":10}",
        "{\"queue\":\"q\",\"in\":\"1h\",\"json\":{\"a\":1,\"a\":2}}",
        "{\"queue\":\"q\",\"in\":\"1h\",\"json\":-0}",
        "{\"queue\":\"q\",\"in\":\"1h\",\"json\":1.5}",
        "{\"queue\":\"q\",\"in\":\"1 fortnight\"}",
        "{\"queue\":\"q\",\"key\":\"\",\"in\":\"1h\"}",
        "{\"queue\":\"q\",\"when\":\"1h\"}",
        "{\"queue\":\"q\",\"in\":\"1h\"},",
        "{\"queue\":\"q\",\"in\":\"1h\"}{}",
        "[]",
        "",
    };
    static const char seed[] =
        "[{\"queue\":\"orders\",\"key\":\"k\",\"in\":\"1h30m\",\"json\":{\"a\":[1,-2],\"b\":\"c\"}},"
        "{\"in_ms\":10,\"priority\":3,\"body\":\"\xc3\xa9\",\"queue\":\"q\"}]";
    static const char bytes[] = "{}[],:\"\\/0123456789.-truefalsn \n\x80\xc3\xa9qeyjpmshd";
    struct random random = {17};
    unsigned read = 0;
    for (size_t i = 0; i < sizeof quick / sizeof quick[0]; i++)
        if (!schedules_agree(NULL, quick[i], strlen(quick[i]))) fail_msg("not read: %s", quick[i]);
    assert_true(schedules_agree("of the path", "{\"in\":\"1h\"}", 11));
    assert_true(schedules_agree("of the path", quick[0], strlen(quick[0])));
    for (size_t i = 0; i < sizeof not_quick / sizeof not_quick[0]; i++)
        if (schedules_agree(NULL, not_quick[i], strlen(not_quick[i]))) fail_msg("read: %s", not_quick[i]);
    for (int i = 0; i < 5 * CHANGED_TEXTS; i++) {
        char text[sizeof seed];
        memcpy(text, seed, sizeof seed);
        size_t size = sizeof seed - 1;
        for (uint64_t change = 0; change <= random_u64(&random) % 3; change++) {
            size_t at = random_u64(&random) % size;
            text[at] = bytes[random_u64(&random) % (sizeof bytes - 1)];
            if (random_u64(&random) % 16 == 0) size = at + 1;
        }
        read += schedules_agree(i % 2 == 0 ? NULL : "p", text, size);
    }
    assert_in_range(read, CHANGED_TEXTS / 8, 5 * CHANGED_TEXTS); /* the quick reader accepted enough of them */
}

/* Sizes around the bounds of the quick reader: the payload, its length's bytes, names, depth. */
static void bounds_of_the_quick_reader(void **state) {
    static const size_t sizes[] = {1, 125, 126, 127, 128, 1021, 1022, 1023, 5000};
    char text[8000];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char value[5001];
        memset(value, 'v', sizes[i]);
        value[sizes[i]] = '\0';
        int size = snprintf(text, sizeof text, "{\"queue\":\"q\",\"in\":\"1h\",\"json\":\"%s\"}", value);
        assert_int_equal(schedules_agree(NULL, text, (size_t)size), sizes[i] <= 1022);
        size = snprintf(text, sizeof text, "{\"queue\":\"q\",\"in\":\"1h\",\"body\":\"%s\"}", value);
        assert_true(schedules_agree(NULL, text, (size_t)size));
    }
    for (unsigned count = 1; count < 40; count++) {
        size_t at = (size_t)sprintf(text, "{\"queue\":\"q\",\"in\":\"1h\",\"json\":{\"n0\":0");
        for (unsigned i = 1; i < count; i++) at += (size_t)sprintf(text + at, ",\"n%u\":%u", i, i);
        at += (size_t)sprintf(text + at, "}}");
        assert_int_equal(schedules_agree(NULL, text, at), count <= 16);
        at = (size_t)sprintf(text, "{\"queue\":\"q\",\"in\":\"1h\",\"json\":");
        memset(text + at, '[', count);
        memset(text + at + count, ']', count);
        text[at + 2 * count] = '}';
        assert_int_equal(schedules_agree(NULL, text, at + 2 * count + 1), count <= 16);
    }
    for (unsigned count = 1; count <= TASKS_MAX + 1; count++) {
        size_t at = (size_t)sprintf(text, "[");
        for (unsigned i = 0; i < count; i++) at += (size_t)sprintf(text + at, "%s{\"in\":\"0\"}", i == 0 ? "" : ",");
        at += (size_t)sprintf(text + at, "]");
        assert_int_equal(schedules_agree("q", text, at), count <= TASKS_MAX);
    }
}

/* The weight of a text is the same in whatever parts it is scanned. */
static void a_text_in_parts_weighs_the_same(void **state) {
    static const char text[] = "[{\"a\\\"b,{\":[1,2,\"\\\\\"]},\"\\u0022\",[[[]]],{}]";
    for (size_t part = 1; part < sizeof text; part++) {
        struct json_scan scan;
        json_scan_begin(&scan);
        for (size_t at = 0; at < sizeof text - 1; at += part)
            json_scan(&scan, text + at, part < sizeof text - 1 - at ? part : sizeof text - 1 - at);
        assert_int_equal(scan.weight, json_weigh(text, sizeof text - 1));
        assert_int_equal(scan.depth_max, 4);
        assert_int_equal(scan.depth, 0);
        assert_false(scan.in_string);
    }
}

static void any_bytes_are_written_as_a_string(void **state) {
    struct random random = {11};
    for (int i = 0; i < 3000; i++) {
        unsigned char bytes[24];
        size_t size = random_u64(&random) % sizeof bytes;
        for (size_t k = 0; k < size; k++) bytes[k] = (unsigned char)(random_u64(&random) % (i % 2 ? 256 : 128));
        struct text out = {0};
        out_string(&out, bytes, size);
        assert_false(out.failed);
        assert_true(json_is_valid(out.data, out.size));
        if (i % 2 == 0) { /* ASCII text is written unchanged */
            json_t *root = json_loadb(out.data, out.size, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
            assert_non_null(root);
            assert_int_equal(json_string_length(root), size);
            assert_memory_equal(json_string_value(root), bytes, size);
            json_decref(root);
        }
        text_cut(&out, 0);
        out_base64(&out, bytes, size);
        assert_int_equal(out.size, 2 + (size + 2) / 3 * 4);
        text_deinit(&out);
    }
}

/* ---- the writer */

static void json_says(struct text *out, const char *want) {
    assert_string_equal(text_str(out), want);
    out->size = 0;
}

static void strings_are_escaped(void **state) {
    (void)state;
    struct text out = {0};
    out_string(&out, "a\"b\\c\n\t\r\x01\x1f/\x7f", 12);
    json_says(&out, "\"a\\\"b\\\\c\\n\\t\\r\\u0001\\u001f/\\u007f\"");
    out_string(&out,
               "a\xc2\x9b"
               "31mé\xc2\xa0",
               10); /* U+009B begins a terminal command, as ESC [ does */
    json_says(&out, "\"a\\u009b31mé\xc2\xa0\"");
    out_string(&out, "\xc2\x9b\xff", 3);
    json_says(&out, "\"\\u009b\xEF\xBF\xBD\"");
    /* Some readers treat U+2028 and U+2029 as line ends. */
    out_string(&out, "a\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa", 10);
    json_says(&out, "\"a\\u2028\\u2029\xe2\x80\xaa\"");
    out_string(&out, "a\0b", 3);
    json_says(&out, "\"a\\u0000b\"");
    out_string(&out, "grüß 😀", strlen("grüß 😀"));
    json_says(&out, "\"grüß 😀\"");
    out_string(&out, "x\xff\xc3(\xe2\x82", 6); /* each invalid byte becomes one U+FFFD */
    json_says(&out, "\"x\xEF\xBF\xBD\xEF\xBF\xBD(\xEF\xBF\xBD\xEF\xBF\xBD\"");
    out_string(&out, "\xff\"\n", 3);
    json_says(&out, "\"\xEF\xBF\xBD\\\"\\n\"");
    text_deinit(&out);
}

static void write_body(struct text *out, const char *body, size_t size) {
    Tarry__Content content = TARRY__CONTENT__INIT;
    content.payload = (ProtobufCBinaryData){size, (uint8_t *)body};
    json_content(out, &content);
}

static void a_body_is_text_if_it_is_utf8(void **state) {
    (void)state;
    struct text out = {0};
    out_begin(&out, '{');
    write_body(&out, "", 0);
    out_line_end(&out);
    json_says(&out, "{\"body\":\"\"}\n");
    out_begin(&out, '{');
    write_body(&out, "\xc3\xa4\0", 3);
    out_line_end(&out);
    json_says(&out, "{\"body\":\"\xc3\xa4\\u0000\"}\n");
    out_begin(&out, '{');
    write_body(&out, "\xc3", 1); /* the text ends in the middle of a character */
    out_line_end(&out);
    json_says(&out, "{\"body_base64\":\"ww==\"}\n");
    out_begin(&out, '{');
    write_body(&out, "\xed\xa0\x80", 3); /* a surrogate is not valid in UTF-8 */
    out_line_end(&out);
    json_says(&out, "{\"body_base64\":\"7aCA\"}\n");
    text_deinit(&out);
}

static void members_have_their_types(void **state) {
    (void)state;
    struct text out = {0};
    Tarry__Token token = TARRY__TOKEN__INIT;
    token.epoch = 3;
    token.position = 81920;
    out_begin(&out, '{');
    out_id(&out, "id", UINT64_MAX);
    out_bytes(&out, "key", NULL, 0);
    out_number(&out, "due_ms", UINT64_MAX);
    out_token(&out, "token", &token);
    out_bool(&out, "paused", false);
    out_key(&out, "p50");
    out_double(&out, 0.25);
    out_line_end(&out);
    json_says(&out, "{\"id\":\"18446744073709551615\",\"key\":null,\"due_ms\":18446744073709551615,"
                    "\"token\":\"3-81920\",\"paused\":false,\"p50\":0.25}\n");
    text_deinit(&out);
}

/* ---- the reader */

static const char *refusal(const char *text) {
    static struct json_in in;
    struct arena arena;
    arena_init(&arena, 1u << 20);
    in = (struct json_in){.arena = &arena};
    json_t *json = json_read(&in, text, strlen(text));
    Tarry__Op *op = json != NULL ? json_op(&in, json) : NULL;
    json_decref(json);
    arena_deinit(&arena);
    return op == NULL ? in.problem : "";
}

/* The sizes are below, at and above DUMPED_QUICKLY_MAX (json_read.c), up to which a value is written in a faster way.
 */
static void json_of_any_size_becomes_the_payload(void **state) {
    static const size_t sizes[] = {0, 1, 1000, 1021, 1022, 1023, 1024, 1025, 5000};
    static char value[5003], text[sizeof(value) + 100];
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct arena arena;
        arena_init(&arena, 1u << 20);
        struct json_in in = {.arena = &arena};
        snprintf(value, sizeof(value), "\"%0*d\"", (int)sizes[i], 0);
        if (sizes[i] == 0) strcpy(value, "\"\"");
        int size = snprintf(text, sizeof(text), "{\"schedule\":{\"queue\":\"q\",\"in\":\"1h\",\"json\":%s}}", value);
        json_t *json = json_read(&in, text, (size_t)size);
        Tarry__Op *op = json_op(&in, json);
        assert_non_null(op);
        Tarry__Content *content = tarry__content__unpack(NULL, op->schedule->content.len, op->schedule->content.data);
        assert_int_equal(content->payload.len, strlen(value));
        assert_memory_equal(content->payload.data, value, strlen(value));
        tarry__content__free_unpacked(content, NULL);
        json_decref(json);
        arena_deinit(&arena);
    }
}

static void a_refusal_names_the_field_and_what_is_wrong(void **state) {
    static const struct {
        const char *text, *refusal;
    } cases[] = {
        {"{\"schedule\":{\"queue\":\"q\",\"dely_ms\":1}}", "unknown field \"dely_ms\" (did you mean \"delay_ms\"?)"},
        {"{\"schedule\":{\"queue\":\"q\",\"in\":\"1h\",\"prio\":1}}", "unknown field \"prio\""},
        {"{\"nack\":{\"id\":1,\"token\":\"1-2\",\"reson\":\"x\"}}",
         "unknown field \"reson\" (did you mean \"reason\"?)"},
        {"{\"schedule\":{\"queue\":\"q\",\"in\":\"1h\",\"priority\":10}}", "priority: 10 is more than 9"},
        {"{\"schedule\":{\"queue\":\"q\",\"in\":\"1h\",\"priority\":1.5}}", "priority: must be a whole number from 0"},
        {"{\"schedule\":{\"in\":\"1h\"}}", "queue is missing"},
        {"{\"schedule\":{\"queue\":\"q\"}}", "when: give one of in (\"30m\"), delay_ms, at (RFC 3339) and due_ms"},
        {"{\"schedule\":{\"queue\":\"q\",\"in\":\"1h\",\"due_ms\":1}}",
         "when: give one of in (\"30m\"), delay_ms, at (RFC 3339) and due_ms"},
        {"{\"schedule\":{\"queue\":\"q\",\"in\":\"1h\",\"on_conflict\":\"x\"}}",
         "on_conflict: must be reject, replace, earlier or later"},
        {"{\"schedule\":{\"queue\":\"q\",\"in\":\"1h\",\"expires\":\"1h\",\"expires_ms\":1}}",
         "expires_ms: is given twice, with and without _ms"},
        {"{\"cancel\":{\"queue\":\"q\"}}", "the task is missing: give id, or queue and key"},
        {"{\"cancel\":{\"id\":\"18446744073709551616\"}}", "id: must be a number from 1, as text or as a number"},
        {"{\"requeue\":{\"queue\":\"q\",\"key\":\"k\",\"all\":true}}",
         "all means every dead letter of the queue: leave out id and key"},
        {"{\"resume\":{\"queue\":\"q\",\"for\":\"1h\"}}", "unknown field \"for\""},
        {"{\"policy\":{\"queue\":\"q\"}}", "the policy has no field: give lease, max_attempts, …"},
        {"{\"purge\":{\"queue\":\"q\",\"states\":[\"gone\"]}}",
         "states: must be an array of pending, ready, in_flight and dead"},
        {"{\"ack\":{\"id\":1,\"token\":\"x\"}}", "token: must be the token of a lease, such as 3-81920"},
        {"{\"steal\":{}}", "there is no operation steal"},
        {"\xEF\xBB\xBF{}", "the JSON begins with a byte order mark (BOM): save it as UTF-8 without one"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(refusal(cases[i].text), cases[i].refusal);
    assert_string_equal(refusal("{\"schedule\":{\"queue\":\"q\",\"delay_ms\":1.5e3,\"priority\":9.0}}"), "");
    assert_string_equal(refusal("{\"cancel\":{\"id\":\"18446744073709551615\"}}"), "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_judged_as_rfc_8259_says),
        cmocka_unit_test(levels_are_bounded),
        cmocka_unit_test(jansson_agrees_about_changed_texts),
        cmocka_unit_test(the_quick_reader_and_writer_agree_with_jansson),
        cmocka_unit_test(schedules_are_read_quickly_with_the_same_result),
        cmocka_unit_test(bounds_of_the_quick_reader),
        cmocka_unit_test(a_text_in_parts_weighs_the_same),
        cmocka_unit_test(any_bytes_are_written_as_a_string),
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(a_body_is_text_if_it_is_utf8),
        cmocka_unit_test(members_have_their_types),
        cmocka_unit_test(json_of_any_size_becomes_the_payload),
        cmocka_unit_test(a_refusal_names_the_field_and_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
