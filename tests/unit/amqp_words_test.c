/* amqp_words_test.c: AMQP's bytes and exchanges without a broker: valid and hostile frames and methods, field tables,
 * routing, definitions that are read again, and dead-lettering of a message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "amqp_codec.h"
#include "amqp_message.h"
#include "amqp_topology.h"

#define NONE ((struct amqp_bytes){0})
#define BYTES(out) ((struct amqp_bytes){(out).bytes, (out).size})

/* ---- frames and methods */

static void a_method_is_read_as_it_was_written(void **state) {
    struct amqp_out out = {0};
    struct amqp_frame frame;
    struct amqp_method method;
    size_t size;
    amqp_put_method(&out, 7, AMQP_QUEUE_DECLARE, 0u, amqp_text("orders"), 0u, 1u, 0u, 1u, 0u, NONE);
    assert_int_equal(amqp_frame_read(BYTES(out), AMQP_FRAME_MIN, &frame, &size), AMQP_FRAME_WHOLE);
    assert_int_equal(size, out.size);
    assert_int_equal(frame.channel, 7);
    assert_true(amqp_method_read(frame.payload, &method));
    assert_int_equal(method.kind, AMQP_QUEUE_DECLARE);
    assert_true(amqp_is(method.fields[AMQP_QUEUE_DECLARE_queue].bytes, "orders"));
    assert_int_equal(method.fields[AMQP_QUEUE_DECLARE_durable].number, 1);
    assert_int_equal(method.fields[AMQP_QUEUE_DECLARE_exclusive].number, 0);
    assert_int_equal(method.fields[AMQP_QUEUE_DECLARE_auto_delete].number, 1);
    for (size_t cut = 0; cut < frame.payload.size; cut++)
        if (cut >= 4) assert_false(amqp_method_read((struct amqp_bytes){frame.payload.at, cut}, &method));
    amqp_out_free(&out);
}

static void a_frame_is_not_longer_than_agreed_and_ends_as_it_must(void **state) {
    struct amqp_frame frame;
    size_t size;
    uint8_t bytes[32] = {AMQP_FRAME_METHOD, 0, 1, 0, 0, 0, 4, 0, 10, 0, 51, AMQP_FRAME_END};
    for (size_t part = 0; part < 12; part++)
        assert_int_equal(amqp_frame_read((struct amqp_bytes){bytes, part}, AMQP_FRAME_MIN, &frame, &size),
                         AMQP_FRAME_PART);
    assert_int_equal(amqp_frame_read((struct amqp_bytes){bytes, 12}, AMQP_FRAME_MIN, &frame, &size), AMQP_FRAME_WHOLE);
    bytes[11] = 0;
    assert_int_equal(amqp_frame_read((struct amqp_bytes){bytes, 12}, AMQP_FRAME_MIN, &frame, &size), AMQP_FRAME_BAD);
    bytes[3] = 0xff;
    assert_int_equal(amqp_frame_read((struct amqp_bytes){bytes, 7}, AMQP_FRAME_MIN, &frame, &size), AMQP_FRAME_BAD);
    bytes[0] = 4;
    assert_int_equal(amqp_frame_read((struct amqp_bytes){bytes, 1}, AMQP_FRAME_MIN, &frame, &size), AMQP_FRAME_BAD);
}

static void a_table_is_bounded_in_depth_and_in_number(void **state) {
    struct amqp_out out = {0};
    for (unsigned i = 0; i < AMQP_TABLE_FIELDS_MAX; i++) amqp_put_text_field(&out, "a", amqp_text("b"));
    assert_true(amqp_table_valid(BYTES(out)));
    amqp_put_text_field(&out, "a", amqp_text("b"));
    assert_false(amqp_table_valid(BYTES(out)));
    amqp_out_free(&out);
    for (unsigned depth = AMQP_DEPTH_MAX - 1; depth <= AMQP_DEPTH_MAX; depth++) {
        size_t begins[AMQP_DEPTH_MAX];
        for (unsigned i = 0; i < depth; i++) {
            amqp_put_field(&out, "t", 'F');
            begins[i] = amqp_put_begin(&out);
        }
        for (unsigned i = depth; i > 0; i--) amqp_put_end(&out, begins[i - 1]);
        assert_int_equal(amqp_table_valid(BYTES(out)), depth < AMQP_DEPTH_MAX);
        amqp_out_free(&out);
    }
    amqp_put_field(&out, "t", 'S');
    amqp_put_number(&out, 0xffffffff, 4);
    assert_false(amqp_table_valid(BYTES(out)));
    amqp_out_free(&out);
    amqp_put_field(&out, "t", 'Q');
    assert_false(amqp_table_valid(BYTES(out)));
    amqp_out_free(&out);
}

static void methods_with_one_handler_have_their_fields_in_the_same_places(void **state) {
    /* The functions channel_reject and channel_recover each handle two methods, whose fields must therefore be equal.
     * amqp_test.py compares the whole table with the specification. */
    assert_int_equal((int)AMQP_BASIC_NACK_delivery_tag, (int)AMQP_BASIC_REJECT_delivery_tag);
    assert_int_equal((int)AMQP_BASIC_NACK_delivery_tag, (int)AMQP_BASIC_ACK_delivery_tag);
    assert_int_equal((int)AMQP_BASIC_NACK_multiple, (int)AMQP_BASIC_ACK_multiple);
    assert_int_equal((int)AMQP_BASIC_RECOVER_requeue, (int)AMQP_BASIC_RECOVER_ASYNC_requeue);
}

static void properties_are_read_as_they_were_written(void **state) {
    struct amqp_properties properties = {.present = 0}, again;
    struct amqp_out out = {0};
    properties.present = 1u << AMQP_CONTENT_TYPE | 1u << AMQP_PRIORITY | 1u << AMQP_TIMESTAMP | 1u << AMQP_CLUSTER_ID;
    properties.bytes[AMQP_CONTENT_TYPE] = amqp_text("text/plain");
    properties.numbers[AMQP_PRIORITY] = 7;
    properties.numbers[AMQP_TIMESTAMP] = 1ull << 40;
    properties.bytes[AMQP_CLUSTER_ID] = amqp_text("c");
    amqp_put_properties(&out, &properties);
    assert_true(amqp_properties_read(BYTES(out), &again));
    assert_int_equal(again.present, properties.present);
    assert_int_equal(again.numbers[AMQP_PRIORITY], 7);
    assert_int_equal(again.numbers[AMQP_TIMESTAMP], 1ull << 40);
    assert_true(amqp_is(again.bytes[AMQP_CLUSTER_ID], "c"));
    for (size_t cut = 0; cut < out.size; cut++)
        assert_false(amqp_properties_read((struct amqp_bytes){out.bytes, cut}, &again));
    out.bytes[1] |= 1; /* the bit says that more flags follow, but AMQP defines no further flags */
    assert_false(amqp_properties_read(BYTES(out), &again));
    amqp_out_free(&out);
}

/* ---- routing */

static void topics_match_word_by_word(void **state) {
    static const struct {
        const char *pattern, *key;
        bool matches;
    } cases[] = {
        {"a.b", "a.b", true},
        {"a.b", "a", false},
        {"a.*", "a.b", true},
        {"a.*", "a", false},
        {"a.*", "a.b.c", false},
        {"#", "", true},
        {"#", "a.b.c", true},
        {"a.#", "a", true},
        {"a.#", "a.b.c", true},
        {"#.c", "c", true},
        {"#.c", "a.b.c", true},
        {"#.c", "a.b", false},
        {"a.#.c", "a.c", true},
        {"a.#.c", "a.b.b.c", true},
        {"a.#.c", "a.b", false},
        {"*", "", false},
        {"*", "a", true},
        {"", "", true},
        {"", "a", false},
        {"#.#", "", true},
        {"*.#", "a", true},
        {"*.#", "", false},
        {"#.b.#", "a.b.c", true},
        {"#.b.#.b", "b.b", true},
        {"#.b.#.b", "b", false},
        {"a..c", "a..c", true},
        {"a.*.c", "a..c", true},
        {"#.a.*", "a.a.a", true},
        {"*.a.#.b", "x.a.a.b", true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (amqp_topic_matches(amqp_text(cases[i].pattern), amqp_text(cases[i].key)) != cases[i].matches)
            fail_msg("%s %s", cases[i].pattern, cases[i].key);
}

static void a_hostile_topic_costs_little(void **state) {
    char pattern[255], key[255];
    for (size_t i = 0; i < sizeof(pattern); i += 2)
        memcpy(pattern + i, i % 4 == 0 ? "#." : "a.", i + 1 < sizeof(pattern) ? 2 : 1);
    for (size_t i = 0; i < sizeof(key); i++) key[i] = i % 2 == 0 ? 'a' : '.';
    key[sizeof(key) - 1] = 'b';
    (void)amqp_topic_matches((struct amqp_bytes){(uint8_t *)pattern, sizeof(pattern)},
                             /* A slow match would take hours, so this test would hang. */
                             (struct amqp_bytes){(uint8_t *)key, sizeof(key)});
}

static struct amqp_queue *add_queue(struct amqp_topology *topology, const char *name, struct amqp_bytes arguments) {
    bool is_refused;
    struct amqp_queue *queue = amqp_queue_new(amqp_text(name), arguments);
    assert_non_null(queue);
    assert_null(amqp_queue_arguments(queue, &is_refused));
    assert_true(amqp_queue_add(topology, queue));
    return queue;
}

static struct amqp_exchange *add_exchange(struct amqp_topology *topology, const char *name,
                                          enum amqp_exchange_type type) {
    struct amqp_exchange *exchange = amqp_exchange_new(amqp_text(name), NONE);
    assert_non_null(exchange);
    exchange->type = type;
    assert_true(amqp_exchange_add(topology, exchange));
    return exchange;
}

static void bind(struct amqp_topology *topology, struct amqp_exchange *source, struct amqp_exchange *exchange,
                 struct amqp_queue *queue, const char *key, struct amqp_bytes arguments) {
    struct amqp_binding *binding = amqp_binding_new(source, exchange, queue, amqp_text(key), arguments);
    assert_non_null(binding);
    assert_null(amqp_binding_find(topology, binding));
    assert_true(amqp_binding_add(topology, binding));
    assert_ptr_equal(amqp_binding_find(topology, binding), binding);
}

/* Returns the names of the queues that get the message, in order. */
static const char *route(struct amqp_topology *topology, const char *exchange, const char *key,
                         struct amqp_bytes headers) {
    static char names[1024];
    struct amqp_targets targets = {0};
    names[0] = '\0';
    amqp_route_message(topology, exchange[0] != '\0' ? amqp_exchange_find(topology, amqp_text(exchange)) : NULL,
                       amqp_text(key), headers, &targets);
    for (size_t i = 0; i < targets.count; i++) {
        strcat(names, targets.queues[i]->name);
        strcat(names, " ");
    }
    amqp_targets_free(&targets);
    return names;
}

static void messages_find_their_queues(void **state) {
    struct amqp_topology topology;
    struct amqp_out any = {0}, headers = {0};
    assert_true(amqp_topology_init(&topology));
    struct amqp_queue *a = add_queue(&topology, "a", NONE), *b = add_queue(&topology, "b", NONE);
    struct amqp_exchange *direct = amqp_exchange_find(&topology, amqp_text("amq.direct"));
    struct amqp_exchange *fanout = add_exchange(&topology, "fan", AMQP_FANOUT);
    struct amqp_exchange *topic = add_exchange(&topology, "top", AMQP_TOPIC);
    struct amqp_exchange *by_headers = amqp_exchange_find(&topology, amqp_text("amq.headers"));
    bind(&topology, direct, NULL, a, "k", NONE);
    bind(&topology, direct, fanout, NULL, "k", NONE);
    bind(&topology, fanout, NULL, b, "", NONE);
    bind(&topology, fanout, NULL, a, "", NONE);
    bind(&topology, fanout, direct, NULL, "", NONE); /* a circle */
    bind(&topology, topic, NULL, b, "x.#", NONE);
    amqp_put_text_field(&any, "x-match", amqp_text("any"));
    amqp_put_text_field(&any, "colour", amqp_text("red"));
    amqp_put_text_field(&any, "size", amqp_text("big"));
    bind(&topology, by_headers, NULL, a, "", BYTES(any));
    assert_string_equal(route(&topology, "", "a", NONE), "a ");
    assert_string_equal(route(&topology, "", "nobody", NONE), "");
    /* The message is routed to queue a and to queue b, once to each. */
    assert_int_equal(strlen(route(&topology, "amq.direct", "k", NONE)), 4);
    assert_string_equal(route(&topology, "amq.direct", "other", NONE), "");
    assert_string_equal(route(&topology, "top", "x.y", NONE), "b ");
    assert_string_equal(route(&topology, "amq.headers", "", NONE), "");
    amqp_put_text_field(&headers, "size", amqp_text("big"));
    assert_string_equal(route(&topology, "amq.headers", "", BYTES(headers)), "a ");
    strcpy(topic->alternate, "fan");
    assert_int_equal(strlen(route(&topology, "top", "elsewhere", NONE)), 4);
    amqp_put_field(&headers, "CC", 'A');
    size_t begin = amqp_put_begin(&headers);
    amqp_put_number(&headers, 'S', 1);
    amqp_put_longstr(&headers, amqp_text("b"));
    amqp_put_end(&headers, begin);
    assert_string_equal(route(&topology, "", "a", BYTES(headers)), "a b ");
    amqp_out_free(&any);
    amqp_out_free(&headers);
    amqp_topology_deinit(&topology);
}

static void what_depends_on_it_goes_with_it(void **state) {
    struct amqp_topology topology;
    char key[AMQP_DEFINITION_KEY_SIZE];
    assert_true(amqp_topology_init(&topology));
    const uint64_t bytes = topology.bytes;
    struct amqp_queue *queue = add_queue(&topology, "q", NONE);
    struct amqp_exchange *last = add_exchange(&topology, "last", AMQP_FANOUT),
                         *first = add_exchange(&topology, "first", AMQP_FANOUT);
    last->auto_delete = first->auto_delete = true;
    bind(&topology, last, NULL, queue, "", NONE);
    bind(&topology, first, last, NULL, "", NONE);
    assert_true(amqp_doom_queue(&topology, queue));
    assert_int_equal(topology.doomed_count, 5);
    amqp_key_of_doomed(&topology, 0, key);
    assert_string_equal(key, "q:q");
    amqp_doomed_end(&topology, 0);
    assert_ptr_equal(amqp_queue_find(&topology, amqp_text("q")), queue);
    assert_true(amqp_doom_queue(&topology, queue));
    /* Bindings are deleted first. After a crash between two commits, each remaining binding then still has its queue
     * and its exchange. */
    amqp_doomed_order(&topology);
    amqp_key_of_doomed(&topology, 0, key);
    assert_memory_equal(key, "b:", 2);
    amqp_doomed_end(&topology, 1);
    assert_int_equal(topology.bindings.count, 1);
    assert_ptr_equal(amqp_queue_find(&topology, amqp_text("q")), queue);
    assert_false(queue->node.is_doomed);
    assert_true(amqp_doom_queue(&topology, queue) && amqp_doom_exchange(&topology, last));
    amqp_doomed_order(&topology);
    amqp_doomed_end(&topology, 4);
    assert_null(amqp_queue_find(&topology, amqp_text("q")));
    assert_null(amqp_exchange_find(&topology, amqp_text("first")));
    assert_null(amqp_exchange_find(&topology, amqp_text("last")));
    assert_int_equal(topology.bindings.count, 0);
    assert_int_equal(topology.bytes, bytes);
    amqp_topology_deinit(&topology);
}

static void definitions_are_read_again(void **state) {
    struct amqp_topology topology, again;
    struct amqp_out arguments = {0}, definitions[3] = {{0}};
    assert_true(amqp_topology_init(&topology) && amqp_topology_init(&again));
    amqp_put_field(&arguments, "x-message-ttl", 'I');
    amqp_put_number(&arguments, 5000, 4);
    struct amqp_queue *queue = add_queue(&topology, "q", BYTES(arguments));
    queue->durable = true;
    strcpy(queue->creator, "shop");
    struct amqp_exchange *exchange = add_exchange(&topology, "e", AMQP_TOPIC);
    exchange->internal = true;
    bind(&topology, exchange, NULL, queue, "a.#", NONE);
    amqp_put_queue(&definitions[0], queue);
    amqp_put_exchange(&definitions[1], exchange);
    amqp_put_binding(&definitions[2], TAILQ_FIRST(&queue->to));
    assert_int_equal(amqp_define(&again, BYTES(definitions[2])), AMQP_DEFINED_LATER);
    for (unsigned i = 0; i < 3; i++) {
        for (size_t cut = 0; cut < definitions[i].size; cut++)
            assert_int_not_equal(amqp_define(&again, (struct amqp_bytes){definitions[i].bytes, cut}), AMQP_DEFINED);
        assert_int_equal(amqp_define(&again, BYTES(definitions[i])), AMQP_DEFINED);
    }
    const struct amqp_queue *found = amqp_queue_find(&again, amqp_text("q"));
    assert_true(found->durable && !found->exclusive && found->has_ttl && found->ttl_ms == 5000);
    assert_string_equal(found->creator, "shop");
    assert_true(amqp_exchange_find(&again, amqp_text("e"))->internal);
    assert_string_equal(route(&again, "e", "a.b", NONE), "q ");
    for (unsigned i = 0; i < 3; i++) amqp_out_free(&definitions[i]);
    amqp_out_free(&arguments);
    amqp_topology_deinit(&topology);
    amqp_topology_deinit(&again);
}

static void wrong_arguments_are_refused_with_a_sentence(void **state) {
    static const struct {
        const char *name;
        uint8_t type;
        const char *text;
        bool is_refused;
    } cases[] = {
        {"x-message-ttl", 'S', "5000", false},          {"x-dead-letter-exchange", 'I', NULL, false},
        {"x-queue-type", 'S', "stream", true},          {"x-max-length", 'I', NULL, true},
        {"x-dead-letter-routing-key", 'S', "k", false}, {"x-max-priority", 'S', "9", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct amqp_out arguments = {0};
        bool is_refused;
        amqp_put_field(&arguments, cases[i].name, cases[i].type);
        if (cases[i].text != NULL)
            amqp_put_longstr(&arguments, amqp_text(cases[i].text));
        else
            amqp_put_number(&arguments, 10, 4);
        struct amqp_queue *queue = amqp_queue_new(amqp_text("q"), BYTES(arguments));
        if (amqp_queue_arguments(queue, &is_refused) == NULL) fail_msg("%s", cases[i].name);
        assert_int_equal(is_refused, cases[i].is_refused);
        amqp_queue_free(queue);
        amqp_out_free(&arguments);
    }
}

/* ---- messages */

static void a_dead_message_says_where_it_died(void **state) {
    struct amqp_topology topology;
    struct amqp_out envelope_bytes = {0}, raw = {0}, dead = {0}, twice = {0};
    struct amqp_properties properties = {.present = 1u << AMQP_EXPIRATION};
    struct amqp_field field, entry, count;
    assert_true(amqp_topology_init(&topology));
    struct amqp_queue *queue = add_queue(&topology, "wait", NONE);
    properties.bytes[AMQP_EXPIRATION] = amqp_text("5000");
    amqp_put_properties(&raw, &properties);
    struct amqp_envelope envelope = {amqp_text("orders"), amqp_text("close"), BYTES(raw)};
    amqp_put_dead(&dead, &envelope, queue, AMQP_DEATH_EXPIRED, 1234);
    assert_true(amqp_properties_read(BYTES(dead), &properties));
    assert_false(amqp_has(&properties, AMQP_EXPIRATION));
    struct amqp_bytes headers = properties.bytes[AMQP_HEADERS];
    assert_true(amqp_table_valid(headers));
    assert_true(amqp_table_find(headers, "x-first-death-queue", &field) && amqp_is(field.value, "wait"));
    assert_true(amqp_table_find(headers, "x-first-death-reason", &field) && amqp_is(field.value, "expired"));
    assert_true(amqp_table_find(headers, "x-death", &field) && field.type == 'A');
    assert_true(amqp_field_next(&field.value, true, &entry) && entry.type == 'F');
    assert_true(amqp_table_find(entry.value, "count", &count) && count.number == 1);
    assert_true(amqp_table_find(entry.value, "original-expiration", &count) && amqp_is(count.value, "5000"));
    assert_true(amqp_death_circles(headers, "wait"));
    assert_false(amqp_death_circles(headers, "work"));
    envelope.properties = BYTES(dead);
    amqp_put_dead(&twice, &envelope, queue, AMQP_DEATH_EXPIRED, 1235);
    assert_true(amqp_properties_read(BYTES(twice), &properties));
    assert_true(amqp_table_find(properties.bytes[AMQP_HEADERS], "x-death", &field));
    assert_true(amqp_field_next(&field.value, true, &entry));
    assert_true(amqp_table_find(entry.value, "count", &count) && count.number == 2);
    assert_false(amqp_field_next(
        &field.value, true,
        &entry)); /* messages that died in the same queue for the same reason share one entry of the table */
    amqp_out_free(&envelope_bytes);
    amqp_out_free(&raw);
    amqp_out_free(&dead);
    amqp_out_free(&twice);
    amqp_topology_deinit(&topology);
}

static void expirations_are_decimal_milliseconds(void **state) {
    uint64_t ms;
    assert_true(amqp_duration_read(amqp_text("0"), &ms) && ms == 0);
    assert_true(amqp_duration_read(amqp_text("5184000000"), &ms) && ms == 5184000000ull); /* 60 days */
    static const char *const wrong[] = {"", "-1", "1.5", "1s", "99999999999999", "315619200001"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(amqp_duration_read(amqp_text(wrong[i]), &ms));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_method_is_read_as_it_was_written),
        cmocka_unit_test(a_frame_is_not_longer_than_agreed_and_ends_as_it_must),
        cmocka_unit_test(a_table_is_bounded_in_depth_and_in_number),
        cmocka_unit_test(methods_with_one_handler_have_their_fields_in_the_same_places),
        cmocka_unit_test(properties_are_read_as_they_were_written),
        cmocka_unit_test(topics_match_word_by_word),
        cmocka_unit_test(a_hostile_topic_costs_little),
        cmocka_unit_test(messages_find_their_queues),
        cmocka_unit_test(what_depends_on_it_goes_with_it),
        cmocka_unit_test(definitions_are_read_again),
        cmocka_unit_test(wrong_arguments_are_refused_with_a_sentence),
        cmocka_unit_test(a_dead_message_says_where_it_died),
        cmocka_unit_test(expirations_are_decimal_milliseconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
