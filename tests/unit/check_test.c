/* check_test.c: every refusal with its error message; every limit, at its value and one above it; and the checks of a
 * packed Content, compared with protobuf-c. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "check.h"
#include "errors.h"
#include "queue_policy.h"
#include "tarry_limits.h"
#include "wire.h"

#define PAYLOAD_MAX 1000u

/* ---- text */

static void utf8_is_what_the_standard_says(void **state) {
    static const char *const good[] = {"",
                                       "a",
                                       "\xc2\x80",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf",
                                       "Auftrag-\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80"};
    static const char *const bad[] = {"\x80",
                                      "\xbf",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xc2",
                                      "\xc2\x41",
                                      "\xe0\x80\x80",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xed\xbf\xbf",
                                      "\xe2\x82",
                                      "\xe2\x82\x41",
                                      "\xf0\x80\x80\x80",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "\xfe",
                                      "\xf0\x9f\x98",
                                      "ab\xe2"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) assert_true(is_utf8(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) assert_false(is_utf8(bad[i], strlen(bad[i])));
    assert_true(is_utf8("\0", 1));
}

/* Encodes and decodes every code point. Checks that the decoder refuses every other 3-byte string that begins like a
 * 3-byte character. */
static void every_code_point_is_judged(void **state) {
    for (uint32_t point = 0x80; point < 0x120000; point++) {
        uint8_t bytes[4];
        size_t size = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
        for (size_t i = size - 1, rest = point; i > 0; i--, rest >>= 6) bytes[i] = 0x80 | (rest & 0x3f);
        static const uint8_t leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
        bytes[0] = (uint8_t)(leads[size] | point >> 6 * (size - 1));
        bool is_good = point <= 0x10ffff && !(point >= 0xd800 && point <= 0xdfff);
        assert_int_equal(is_utf8(bytes, size), is_good);
        assert_false(is_utf8(bytes, size - 1));
    }
}

static void queue_names(void **state) {
    char name[QUEUE_NAME_SIZE_MAX + 2];
    memset(name, 'q', sizeof(name));
    name[QUEUE_NAME_SIZE_MAX + 1] = '\0';
    assert_string_equal(check_queue_name(name), "queue name is longer than 128 bytes");
    name[QUEUE_NAME_SIZE_MAX] = '\0';
    assert_null(check_queue_name(name));
    assert_null(check_queue_name("orders/eu 1"));
    assert_null(check_queue_name("\xc3\xbc"));
    assert_string_equal(check_queue_name(""), "queue name is empty");
    assert_string_equal(check_queue_name(NULL), "queue name is empty");
    assert_string_equal(check_queue_name(" a"), "queue name begins or ends with a space");
    assert_string_equal(check_queue_name("a "), "queue name begins or ends with a space");
    assert_string_equal(check_queue_name("a\nb"), "queue name contains a control character");
    assert_string_equal(check_queue_name("a\x7f"), "queue name contains a control character");
    assert_string_equal(check_queue_name("a\xc2\x85"), "queue name contains a control character");
    assert_string_equal(check_queue_name("a\xff"), "queue name is not UTF-8");
    assert_true(queue_is_reserved("tarry."));
    assert_true(queue_is_reserved("tarry.once"));
    assert_false(queue_is_reserved("tarry"));
    assert_false(queue_is_reserved("Tarry.once"));
    assert_false(queue_is_reserved("my.tarry.once"));
    assert_string_equal(check_queue_name("a\n\xff"), "queue name is not UTF-8");
}

static void keys(void **state) {
    char key[KEY_SIZE_MAX + 1];
    memset(key, 'k', sizeof(key));
    assert_null(check_key(key, KEY_SIZE_MAX));
    assert_string_equal(check_key(key, KEY_SIZE_MAX + 1), "key is longer than 255 bytes");
    assert_null(check_key(NULL, 0));
    assert_null(check_key(" ", 1));
    assert_string_equal(check_key("a\0b", 3), "key contains a control character");
    assert_string_equal(check_key("a\tb", 3), "key contains a control character");
    assert_string_equal(check_key("\xff", 1), "key is not UTF-8");
}

/* ---- content */

struct content {
    uint8_t bytes[1u << 20];
    size_t size;
};

static struct content packed;

static void append(const void *data, size_t size) {
    assert_true(packed.size + size <= sizeof(packed.bytes));
    if (size > 0) memcpy(packed.bytes + packed.size, data, size);
    packed.size += size;
}

static void append_varint(uint64_t value) {
    uint8_t byte;
    for (; value >= 0x80; value >>= 7) {
        byte = (uint8_t)(value | 0x80);
        append(&byte, 1);
    }
    byte = (uint8_t)value;
    append(&byte, 1);
}

static void append_field(uint8_t field, const void *data, size_t size) {
    append_varint(field << 3 | 2);
    append_varint(size);
    append(data, size);
}

static void append_attribute(const char *name, size_t name_size, const char *value, size_t value_size) {
    static uint8_t inner[8192];
    size_t start = packed.size;
    append_field(1, name, name_size);
    append_field(2, value, value_size);
    size_t size = packed.size - start;
    assert_true(size <= sizeof(inner));
    memcpy(inner, packed.bytes + start, size);
    packed.size = start;
    append_field(1, inner, size);
}

static void expect_content(const char *problem, bool too_large) {
    bool got = !too_large;
    const char *sentence = check_content(packed.bytes, packed.size, PAYLOAD_MAX, &got);
    if (problem == NULL) {
        assert_null(sentence);
    } else {
        assert_non_null(sentence);
        assert_string_equal(sentence, problem);
    }
    assert_int_equal(got, too_large);
    packed.size = 0;
}

static char long_text[CONTENT_OVERHEAD_MAX + PROPERTIES_SIZE_MAX + PAYLOAD_MAX + 100];

static void content_limits(void **state) { /* F-20, CAP-1 */
    memset(long_text, 'x', sizeof(long_text));
    expect_content(NULL, false); /* empty */
    append_field(2, long_text, PAYLOAD_MAX);
    expect_content(NULL, false);
    append_field(2, long_text, PAYLOAD_MAX + 1);
    expect_content("payload is larger than this broker's payload limit", true);
    append_field(2, long_text, sizeof(long_text));
    expect_content("content is larger than this broker's payload limit", true);
    append_attribute(long_text, ATTRIBUTE_NAME_SIZE_MAX, long_text, ATTRIBUTE_VALUE_SIZE_MAX);
    expect_content(NULL, false);
    append_attribute(long_text, ATTRIBUTE_NAME_SIZE_MAX + 1, "", 0);
    expect_content("an attribute name is longer than 128 bytes", true);
    append_attribute("n", 1, long_text, ATTRIBUTE_VALUE_SIZE_MAX + 1);
    expect_content("an attribute value is longer than 4096 bytes", true);
    char name[8];
    for (int i = 0; i < ATTRIBUTES_MAX; i++)
        append_attribute(name, (size_t)snprintf(name, sizeof(name), "n%d", i), "", 0);
    append_field(2, long_text, PAYLOAD_MAX);
    expect_content(NULL, false);
    for (int i = 0; i <= ATTRIBUTES_MAX; i++)
        append_attribute(name, (size_t)snprintf(name, sizeof(name), "n%d", i), "", 0);
    expect_content("more than 64 attributes", true);
    for (int i = 0; i < 16; i++)
        append_attribute(name, (size_t)snprintf(name, sizeof(name), "n%d", i), long_text, ATTRIBUTE_VALUE_SIZE_MAX);
    expect_content("the attributes are together larger than 65536 bytes", true);
    append_field(3, long_text, PROPERTIES_SIZE_MAX);
    append_field(2, long_text, PAYLOAD_MAX);
    for (int i = 0; i < 15; i++)
        append_attribute(name, (size_t)snprintf(name, sizeof(name), "n%d", i), long_text, ATTRIBUTE_VALUE_SIZE_MAX);
    expect_content(NULL, false);
    append_field(3, long_text, PROPERTIES_SIZE_MAX + 1);
    expect_content("the properties are larger than 65536 bytes (PROPERTIES_SIZE_MAX)", true);
}

static void content_that_is_not_well_formed(void **state) { /* F-20 */
    append_attribute("a", 1, "1", 1);
    append_attribute("b", 1, "2", 1);
    append_attribute("a", 1, "3", 1);
    expect_content("two attributes have the same name", false);
    append_attribute("", 0, "1", 1);
    expect_content("an attribute has no name", false);
    append_attribute("a\n", 2, "", 0);
    expect_content("an attribute name contains a control character", false);
    append_attribute("\xff", 1, "", 0);
    expect_content("an attribute name is not UTF-8", false);
    append_attribute("a", 1, "line 1\nline 2", 13);
    expect_content(NULL, false);
    append_attribute("a", 1, "a\0b", 3);
    expect_content("an attribute value contains a NUL", false);
    append_attribute("a", 1, "\xe2\x82", 2);
    expect_content("an attribute value is not UTF-8", false);
    append_field(2, "x", 1);
    append_field(2, "", 0);
    expect_content("content has two payloads", false);
    append_field(2, "", 0);
    append_field(2, "", 0);
    expect_content("content has two payloads", false);
    append_field(3, "x", 1);
    append_field(3, "", 0);
    expect_content("content has properties twice", false);
    append_field(4, "x", 1);
    expect_content("content has a field that is unknown to this broker", false);
    append("\x10\x01", 2); /* field 2 with the type varint */
    expect_content("content is malformed or cut off", false);
    append("\x12\x05xxxx", 6);
    expect_content("content is malformed or cut off", false);
    append("\x12", 1);
    expect_content("content is malformed or cut off", false);
    append("\x12\xff\xff\xff\xff\x7f", 6); /* a length of more than 32 bits */
    expect_content("content is malformed or cut off", false);
    append("\x12\x80\x80\x80\x80\x10", 6); /* a length of 2^32 must not be truncated to 0 */
    expect_content("content is malformed or cut off", false);
    append("\x12\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11);
    expect_content("content is malformed or cut off", false);
    append_field(1, "\x0a\x01n\x0a\x01m", 6);
    expect_content("an attribute contains a field twice", false);
    append_field(1, "\x0a\x01n\x1a\x01m", 6);
    expect_content("content has a field that is unknown to this broker", false);
}

/* Whatever check_content accepts, protobuf-c unpacks with the same sizes. The inputs are random bytes, and valid bytes
 * with flipped bits. */
static void what_is_accepted_can_be_unpacked(void **state) {
    struct random random = {random_seed(1)};
    int accepted = 0;
    for (int n = 0; n < 200000; n++) {
        packed.size = 0;
        int attributes = (int)random_below(&random, 4);
        for (int i = 0; i < attributes; i++) {
            char name = (char)('a' + random_below(&random, 5));
            append_attribute(&name, 1, "value", random_below(&random, 6));
        }
        if (random_below(&random, 2)) append_field(2, "payload", random_below(&random, 8));
        if (random_below(&random, 2)) append_field(3, "\x00\xff\x80", random_below(&random, 4));
        size_t flips = random_below(&random, 3);
        for (size_t i = 0; i < flips && packed.size > 0; i++)
            packed.bytes[random_below(&random, packed.size)] ^= (uint8_t)(1u << random_below(&random, 8));
        if (random_below(&random, 4) == 0) packed.size = random_below(&random, packed.size + 1);
        bool too_large;
        if (check_content(packed.bytes, packed.size, PAYLOAD_MAX, &too_large) != NULL) continue;
        accepted++;
        Tarry__Content *content = tarry__content__unpack(NULL, packed.size, packed.bytes);
        assert_non_null(content);
        assert_int_equal(content->base.n_unknown_fields, 0);
        for (size_t i = 0; i < content->n_attributes; i++)
            for (size_t j = 0; j < i; j++)
                assert_string_not_equal(content->attributes[i]->name, content->attributes[j]->name);
        tarry__content__free_unpacked(content, NULL);
    }
    assert_true(accepted > 20000);
}

/* ---- operations */

struct ops {
    Tarry__When when;
    Tarry__Ref ref;
    Tarry__Token token;
    Tarry__Schedule schedule;
    Tarry__Cancel cancel;
    Tarry__Move move;
    Tarry__Ack ack;
    Tarry__Nack nack;
    Tarry__Extend extend;
    Tarry__Release release;
    Tarry__DeadOp dead;
    Tarry__QueueSet queue_set;
    Tarry__QueuePause queue_pause;
    Tarry__QueuePurge queue_purge;
    Tarry__Policy policy;
};

static struct ops good; /* each operation in a valid state */

static int setup(void **state) {
    packed.size = 0;
    good =
        (struct ops){TARRY__WHEN__INIT,        TARRY__REF__INIT,         TARRY__TOKEN__INIT,   TARRY__SCHEDULE__INIT,
                     TARRY__CANCEL__INIT,      TARRY__MOVE__INIT,        TARRY__ACK__INIT,     TARRY__NACK__INIT,
                     TARRY__EXTEND__INIT,      TARRY__RELEASE__INIT,     TARRY__DEAD_OP__INIT, TARRY__QUEUE_SET__INIT,
                     TARRY__QUEUE_PAUSE__INIT, TARRY__QUEUE_PURGE__INIT, TARRY__POLICY__INIT};
    good.ref.id = good.ack.id = good.nack.id = good.extend.id = good.release.id = 1;
    good.ack.token = good.nack.token = good.extend.token = good.release.token = &good.token;
    good.schedule.queue = "orders";
    good.schedule.when = good.move.when = &good.when;
    good.cancel.task = good.move.task = good.dead.task = &good.ref;
    good.queue_set.queue = good.queue_pause.queue = good.queue_purge.queue = "orders";
    return 0;
}

static void expect_op(Tarry__Op__OpCase op_case, void *message, Tarry__Code code, const char *problem) {
    Tarry__Op op = TARRY__OP__INIT;
    op.op_case = op_case;
    op.schedule = message; /* all members of the union are pointers */
    Tarry__Code got = TARRY__CODE__OK;
    const char *sentence = check_op(&op, PAYLOAD_MAX, &got);
    if (problem == NULL) {
        assert_null(sentence);
    } else {
        assert_non_null(sentence);
        assert_string_equal(sentence, problem);
    }
    assert_int_equal(got, code);
}

#define FINE(op, message) expect_op(TARRY__OP__OP_##op, message, TARRY__CODE__OK, NULL)
#define REFUSED(op, message, code, problem) expect_op(TARRY__OP__OP_##op, message, TARRY__CODE__##code, problem)

static void own_settings_of_schedules(void **state) { /* OWN-1 */
    good.schedule.max_attempts = TASK_ATTEMPTS_MAX;
    good.schedule.backoff_ms = BACKOFF_MAX_MS;
    good.schedule.lease_ms = LEASE_MAX_MS;
    FINE(SCHEDULE, &good.schedule);
    good.schedule.lease_ms++;
    REFUSED(SCHEDULE, &good.schedule, INVALID, "lease_ms must be at most 24 hours");
    good.schedule.lease_ms = LEASE_MIN_MS - 1;
    REFUSED(SCHEDULE, &good.schedule, INVALID, "lease_ms must be at least 10 ms");
    good.schedule.backoff_ms++;
    REFUSED(SCHEDULE, &good.schedule, INVALID, "backoff_ms must be at most 30 days");
    good.schedule.max_attempts++;
    REFUSED(SCHEDULE, &good.schedule, INVALID, "max_attempts of a task must be at most 10000");
}

static void schedules(void **state) {
    FINE(SCHEDULE, &good.schedule);
    good.when.ms = DUE_AHEAD_MAX_MS;
    FINE(SCHEDULE, &good.schedule);
    good.when.ms++;
    REFUSED(SCHEDULE, &good.schedule, INVALID, "delay is longer than ten years (3653 days)");
    good.when.kind = TARRY__WHEN__KIND__AT;
    good.when.ms = UINT64_MAX;
    FINE(SCHEDULE, &good.schedule); /* valid in this check, because only the core knows the current time */
    good.when.ms = 0;
    FINE(SCHEDULE, &good.schedule);
    good.when.kind = (Tarry__When__Kind)2;
    REFUSED(SCHEDULE, &good.schedule, INVALID, "the kind of time (when.kind) is unknown");
    good.schedule.when = NULL;
    REFUSED(SCHEDULE, &good.schedule, INVALID, "the time (when) is missing");
    setup(NULL);
    good.schedule.priority = 9;
    good.schedule.expires_ms = DUE_AHEAD_MAX_MS;
    good.schedule.on_conflict = TARRY__SCHEDULE__ON_CONFLICT__LATER;
    FINE(SCHEDULE, &good.schedule);
    good.schedule.expires_ms++;
    REFUSED(SCHEDULE, &good.schedule, INVALID, "expires_ms is longer than ten years (3653 days)");
    good.schedule.priority = 10;
    REFUSED(SCHEDULE, &good.schedule, INVALID, "priority must be at most 9");
    setup(NULL);
    good.schedule.on_conflict = (Tarry__Schedule__OnConflict)4;
    REFUSED(SCHEDULE, &good.schedule, INVALID, "on_conflict is unknown");
    setup(NULL);
    char key[256];
    memset(key, 'k', sizeof(key));
    good.schedule.key = (ProtobufCBinaryData){.len = 256, .data = (uint8_t *)key};
    REFUSED(SCHEDULE, &good.schedule, TOO_LARGE, "key is longer than 255 bytes");
    for (size_t size = 1; size <= 2; size++) {
        good.schedule.key = (ProtobufCBinaryData){.len = size, .data = (uint8_t *)".."};
        REFUSED(SCHEDULE, &good.schedule, INVALID, "key must not be . or .., because an HTTP path cannot contain them");
    }
    good.schedule.key = (ProtobufCBinaryData){.len = 3, .data = (uint8_t *)"..."};
    FINE(SCHEDULE, &good.schedule);
    static const char *const occurrences[] = {"recur:r@2026-11-28T09:00:00Z", "recur:r@2026-11-28T09:00:00+08:00#7",
                                              "recur:r@2026-11-28T09:00:00"},
                             *const others[] = {"r@2026-11-28T09:00:00Z", "recur:r", "recur:@2026-11-28T09:00:00Z",
                                                "recur:r@2026-11-28 09:00:00Z", "recur:r@2026-11-28T09:00:0"};
    for (size_t i = 0; i < sizeof occurrences / sizeof occurrences[0]; i++) { /* KEEP-1 */
        good.schedule.key = (ProtobufCBinaryData){.len = strlen(occurrences[i]), .data = (uint8_t *)occurrences[i]};
        REFUSED(SCHEDULE, &good.schedule, INVALID,
                "keys of the form recur:NAME@TIME belong to recurrences: use another key");
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        good.schedule.key = (ProtobufCBinaryData){.len = strlen(others[i]), .data = (uint8_t *)others[i]};
        FINE(SCHEDULE, &good.schedule);
    }
    good.schedule.queue = "..";
    REFUSED(SCHEDULE, &good.schedule, INVALID,
            "queue name must not be . or .., because an HTTP path cannot contain them");
    setup(NULL);
    good.schedule.queue = "";
    REFUSED(SCHEDULE, &good.schedule, INVALID, "queue name is empty");
    setup(NULL);
    append_field(2, long_text, PAYLOAD_MAX + 1);
    good.schedule.content = (ProtobufCBinaryData){.len = packed.size, .data = packed.bytes};
    REFUSED(SCHEDULE, &good.schedule, TOO_LARGE, "payload is larger than this broker's payload limit");
    good.schedule.content.len--;
    REFUSED(SCHEDULE, &good.schedule, INVALID, "content is malformed or cut off");
}

static void references(void **state) {
    FINE(CANCEL, &good.cancel);
    FINE(MOVE, &good.move);
    good.move.when = NULL;
    REFUSED(MOVE, &good.move, INVALID, "the time (when) is missing");
    good.ref.id = 0;
    REFUSED(CANCEL, &good.cancel, INVALID, "the task is missing: give either its id, or its queue and key");
    good.ref.queue = "orders";
    REFUSED(MOVE, &good.move, INVALID, "key is empty");
    good.ref.key = (ProtobufCBinaryData){.len = 1, .data = (uint8_t *)"k"};
    FINE(CANCEL, &good.cancel);
    good.ref.queue = "";
    REFUSED(CANCEL, &good.cancel, INVALID, "queue name is empty");
    good.cancel.task = NULL;
    REFUSED(CANCEL, &good.cancel, INVALID, "the task is missing: give its id, or its queue and key");
}

static void settlements(void **state) {
    FINE(ACK, &good.ack);
    FINE(NACK, &good.nack);
    FINE(EXTEND, &good.extend);
    FINE(RELEASE, &good.release);
    good.ack.token = good.release.token = NULL;
    REFUSED(ACK, &good.ack, INVALID, "token is missing");
    REFUSED(RELEASE, &good.release, INVALID, "token is missing");
    good.ack.id = 0;
    REFUSED(ACK, &good.ack, INVALID, "id is missing");
    good.extend.lease_ms = LEASE_MIN_MS;
    FINE(EXTEND, &good.extend);
    good.extend.lease_ms--;
    REFUSED(EXTEND, &good.extend, INVALID, "lease_ms must be at least 10 ms");
    good.extend.lease_ms = LEASE_MAX_MS;
    FINE(EXTEND, &good.extend);
    good.extend.lease_ms++;
    REFUSED(EXTEND, &good.extend, INVALID, "lease_ms must be at most 24 hours");
    good.nack.has_delay = true;
    good.nack.delay_ms = DUE_AHEAD_MAX_MS;
    FINE(NACK, &good.nack);
    good.nack.delay_ms++;
    REFUSED(NACK, &good.nack, INVALID, "delay is longer than ten years (3653 days)");
    good.nack.dead = true;
    REFUSED(NACK, &good.nack, INVALID, "a nack must not have both a delay and dead");
    good.nack.has_delay = false;
    char reason[REASON_SIZE_MAX + 2] = {0};
    memset(reason, 'r', REASON_SIZE_MAX);
    good.nack.reason = reason;
    FINE(NACK, &good.nack);
    reason[REASON_SIZE_MAX] = 'r';
    REFUSED(NACK, &good.nack, TOO_LARGE, "reason is longer than 255 bytes");
    good.nack.reason = "\xff";
    REFUSED(NACK, &good.nack, INVALID, "reason is not UTF-8");
}

static void dead_letters_and_queues(void **state) {
    FINE(DEAD, &good.dead);
    good.dead.all = true;
    REFUSED(DEAD, &good.dead, INVALID, "queue name is empty");
    good.ref.queue = "orders";
    FINE(DEAD, &good.dead);
    good.dead.task = NULL;
    REFUSED(DEAD, &good.dead, INVALID, "queue name is empty");
    good.dead.what = (Tarry__DeadOp__What)2;
    REFUSED(DEAD, &good.dead, INVALID, "the field what of a dead-letter operation is unknown");
    FINE(QUEUE_PAUSE, &good.queue_pause);
    good.queue_pause.for_ms = PAUSE_MAX_MS;
    REFUSED(QUEUE_PAUSE, &good.queue_pause, INVALID, "for_ms is allowed only for a pause");
    good.queue_pause.paused = true;
    FINE(QUEUE_PAUSE, &good.queue_pause);
    good.queue_pause.for_ms++;
    REFUSED(QUEUE_PAUSE, &good.queue_pause, INVALID, "for_ms is longer than ten years (3653 days)");
    good.queue_purge.states = 15;
    FINE(QUEUE_PURGE, &good.queue_purge);
    good.queue_purge.states = 16;
    REFUSED(QUEUE_PURGE, &good.queue_purge, INVALID, "states has a bit that is unknown to this broker");
    Tarry__QueueDelete delete = TARRY__QUEUE_DELETE__INIT;
    REFUSED(QUEUE_DELETE, &delete, INVALID, "queue name is empty");
    delete.queue = "orders";
    FINE(QUEUE_DELETE, &delete);
}

static void redactions(void **state) {
    Tarry__Redact redact = TARRY__REDACT__INIT;
    redact.task = &good.ref;
    redact.reason = "asked for";
    FINE(REDACT, &redact);
    redact.after_id = 7; /* refused, because a redaction of one task has no earlier part to continue after */
    REFUSED(REDACT, &redact, INVALID, "after_id is allowed with a key or a queue, but not with a task's id");
}

static char *policy_fields[] = {"lease_ms",
                                "max_attempts",
                                "backoff",
                                "backoff_min_ms",
                                "backoff_max_ms",
                                "backoff_jitter",
                                "rate",
                                "rate_period_ms",
                                "burst",
                                "max_in_flight",
                                "overdue_expire_ms",
                                "overdue_dead_ms",
                                "overdue_spread_ms",
                                "spread_ms",
                                "push",
                                "filter",
                                "lease_before_due",
                                "backoff"};

static void policies(void **state) {
    FINE(QUEUE_SET, &good.queue_set); /* a QueueSet without fields creates the queue */
    good.queue_set.fields = policy_fields;
    good.queue_set.n_fields = POLICY_FIELDS + POLICY_FIELDS_OWN;
    REFUSED(QUEUE_SET, &good.queue_set, INVALID, "policy is missing");
    char *queue = good.queue_set.queue;
    good.queue_set.queue = ".";
    REFUSED(QUEUE_SET, &good.queue_set, INVALID,
            "queue name must not be . or .., because an HTTP path cannot contain them");
    good.queue_set.queue = queue;
    good.queue_set.policy = &good.policy;
    REFUSED(QUEUE_SET, &good.queue_set, INVALID, "lease_ms is out of range (10 ms to 24 hours)");
    good.policy = (Tarry__Policy)TARRY__POLICY__INIT;
    good.policy.lease_ms = LEASE_MAX_MS;
    good.policy.max_attempts = UINT32_MAX;
    good.policy.backoff = TARRY__POLICY__BACKOFF__EXPONENTIAL;
    good.policy.backoff_min_ms = good.policy.backoff_max_ms = BACKOFF_MAX_MS;
    good.policy.backoff_jitter = 100;
    good.policy.rate_period_ms = RATE_PERIOD_MIN_MS;
    good.policy.rate = good.policy.burst = RATE_MAX;
    good.policy.max_in_flight = LEASES_MAX;
    good.policy.overdue_expire_ms = good.policy.overdue_dead_ms = OVERDUE_MAX_MS;
    good.policy.overdue_spread_ms = OVERDUE_SPREAD_MAX_MS;
    good.policy.spread_ms = SPREAD_MAX_MS;
    FINE(QUEUE_SET, &good.queue_set);
    good.policy.spread_ms++;
    REFUSED(QUEUE_SET, &good.queue_set, INVALID, "spread_ms is out of range (0 to 24 hours)");
    good.policy.overdue_spread_ms++;
    REFUSED(QUEUE_SET, &good.queue_set, INVALID, "overdue_spread_ms is out of range (0 to 24 hours)");
    good.policy.overdue_dead_ms++;
    REFUSED(QUEUE_SET, &good.queue_set, INVALID, "overdue_dead_ms is out of range (0 to 365 days)");
    good.policy.overdue_expire_ms++;
    REFUSED(QUEUE_SET, &good.queue_set, INVALID, "overdue_expire_ms is out of range (0 to 365 days)");
    good.policy.max_in_flight++;
    REFUSED(QUEUE_SET, &good.queue_set, INVALID, "max_in_flight is out of range (0 to 262144)");
    good.policy.rate_period_ms--;
    REFUSED(QUEUE_SET, &good.queue_set, INVALID, "rate_period_ms is out of range (1 second to 24 hours)");
    good.policy.rate++;
    REFUSED(QUEUE_SET, &good.queue_set, INVALID, "rate is out of range (0 to 1000000)");
    good.policy.backoff_jitter++;
    REFUSED(QUEUE_SET, &good.queue_set, INVALID, "backoff_jitter is out of range (0 to 100 per cent)");
    good.policy.backoff_max_ms++;
    REFUSED(QUEUE_SET, &good.queue_set, INVALID, "backoff_max_ms is out of range (0 to 30 days)");
    good.policy.backoff = (Tarry__Policy__Backoff)2;
    REFUSED(QUEUE_SET, &good.queue_set, INVALID, "backoff is out of range (fixed or exponential)");
    good.queue_set.n_fields = POLICY_FIELDS + POLICY_FIELDS_OWN + 1;
    REFUSED(QUEUE_SET, &good.queue_set, INVALID, "more policy fields than exist");
    good.queue_set.n_fields = 2;
    policy_fields[1] = "lease_ms";
    REFUSED(QUEUE_SET, &good.queue_set, INVALID, "a policy field is given twice");
    policy_fields[1] = "colour";
    REFUSED(QUEUE_SET, &good.queue_set, UNSUPPORTED,
            "this broker does not know the policy field; the client may be newer than the broker");
}

static void operations_from_a_newer_client(void **state) {
    expect_op(TARRY__OP__OP__NOT_SET, NULL, TARRY__CODE__UNSUPPORTED,
              "this broker does not know the operation; the client may be newer than the broker");
    /* An operation of unknown kind, packed as on the wire: field 99. */
    Tarry__Op *op = tarry__op__unpack(NULL, 3, (const uint8_t *)"\x9a\x06\x00");
    assert_non_null(op);
    Tarry__Code code = TARRY__CODE__OK;
    assert_non_null(check_op(op, PAYLOAD_MAX, &code));
    assert_int_equal(code, TARRY__CODE__UNSUPPORTED);
    tarry__op__free_unpacked(op, NULL);
}

/* ---- names and replies */

/* A name is the enum's name in lower case, without the prefix. */
static void expect_name(const char *name, const char *enumerator, size_t prefix_size) {
    const char *expected = enumerator + prefix_size;
    assert_int_equal(strlen(name), strlen(expected));
    for (size_t i = 0; name[i] != '\0'; i++) assert_int_equal(name[i], tolower(expected[i]));
}

static void every_name_is_the_enums_own(void **state) {
    for (unsigned i = 0; i < tarry__code__descriptor.n_values; i++) {
        const ProtobufCEnumValue *value = &tarry__code__descriptor.values[i];
        expect_name(code_name((Tarry__Code)value->value), value->name, 0);
    }
    for (unsigned i = 0; i < tarry__outcome__descriptor.n_values; i++) {
        const ProtobufCEnumValue *value = &tarry__outcome__descriptor.values[i];
        if (value->value == TARRY__OUTCOME__LIVE)
            continue; /* the name of the outcome LIVE differs: it is printed as "exists" */
        expect_name(outcome_name((Tarry__Outcome)value->value), value->name, 0);
    }
    assert_string_equal(outcome_name((Tarry__Outcome)99), "unknown");
    assert_non_null(code_sentence((Tarry__Code)99));
}

static void names_are_as_printed(void **state) {
    assert_string_equal(code_name(TARRY__CODE__BUSY), "busy");
    assert_string_equal(code_name((Tarry__Code)99), "unknown");
    assert_string_equal(outcome_name(TARRY__OUTCOME__LIVE), "exists");
    assert_string_equal(outcome_name(TARRY__OUTCOME__IN_FLIGHT), "in_flight");
    for (int code = 0; code <= 14; code++) {
        assert_string_not_equal(code_name((Tarry__Code)code), "unknown");
        assert_true(strlen(code_sentence((Tarry__Code)code)) >= 4);
    }
}

static void a_wrapped_reply_is_what_protobuf_packs(void **state) {
    static Tarry__OpResult results[3000], *pointers[3000];
    static uint8_t inner[200000], outer[200000], expected[200000];
    for (size_t i = 0; i < 3000; i++) {
        results[i] = (Tarry__OpResult)TARRY__OP_RESULT__INIT;
        results[i].id = i * 12345;
        pointers[i] = &results[i];
    }
    for (size_t count = 0; count <= 3000; count = count * 2 + 1) {
        Tarry__CommitReply commit = TARRY__COMMIT_REPLY__INIT;
        commit.n_results = count;
        commit.results = pointers;
        Tarry__Reply reply = TARRY__REPLY__INIT;
        reply.body_case = TARRY__REPLY__BODY_COMMIT;
        reply.commit = &commit;
        reply.position = count * count * count * 4096;
        size_t inner_size = tarry__commit_reply__pack(&commit, inner);
        size_t expected_size = tarry__reply__pack(&reply, expected);
        assert_int_equal(wire_commit_reply_size(inner_size, reply.position), expected_size);
        assert_int_equal(wire_commit_reply_encode(inner, inner_size, reply.position, outer), expected_size);
        assert_memory_equal(outer, expected, expected_size);
    }
}

static void an_age_behind_a_reply_is_a_field_of_it(void **state) {
    for (uint32_t age = 1; age != 0; age = age == UINT32_MAX ? 0 : age * 2 + 1) {
        Tarry__Reply reply = TARRY__REPLY__INIT;
        uint8_t bytes[32];
        reply.position = 4096;
        size_t size = tarry__reply__pack(&reply, bytes);
        size += wire_age_encode(age, bytes + size);
        Tarry__Reply *unpacked = tarry__reply__unpack(NULL, size, bytes);
        assert_true(unpacked != NULL && unpacked->age_max_ms == age && unpacked->position == 4096);
        tarry__reply__free_unpacked(unpacked, NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_age_behind_a_reply_is_a_field_of_it),
        cmocka_unit_test(utf8_is_what_the_standard_says),
        cmocka_unit_test(every_code_point_is_judged),
        cmocka_unit_test(queue_names),
        cmocka_unit_test(keys),
        cmocka_unit_test(content_limits),
        cmocka_unit_test(content_that_is_not_well_formed),
        cmocka_unit_test(what_is_accepted_can_be_unpacked),
        cmocka_unit_test_setup(schedules, setup),
        cmocka_unit_test_setup(own_settings_of_schedules, setup),
        cmocka_unit_test_setup(references, setup),
        cmocka_unit_test_setup(settlements, setup),
        cmocka_unit_test_setup(dead_letters_and_queues, setup),
        cmocka_unit_test_setup(redactions, setup),
        cmocka_unit_test_setup(policies, setup),
        cmocka_unit_test(operations_from_a_newer_client),
        cmocka_unit_test(every_name_is_the_enums_own),
        cmocka_unit_test(names_are_as_printed),
        cmocka_unit_test(a_wrapped_reply_is_what_protobuf_packs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
