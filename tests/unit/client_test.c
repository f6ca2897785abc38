/* client_test.c: parts of libtarry that need no broker: names, addresses, packing, the set of held leases, argument
 * checks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "held.h"
#include "tarry.h"
#include "tarry.pb-c.h"

static const struct tarry_schedule_options order = {.queue = "orders", .key = "order-1", .when_ms = 500};

/* ---- without a broker */

static void codes_have_names_and_sentences(void **state) {
    for (int code = 0; code <= TARRY_FAILED; code++) {
        assert_string_not_equal(tarry_code_name(code), "unknown");
        assert_true(strlen(tarry_code_sentence(code)) > 1);
    }
    for (int code = TARRY_E_TIMEOUT; code <= TARRY_E_FORKED; code++) {
        assert_string_not_equal(tarry_code_name(code), "unknown");
        assert_true(strlen(tarry_code_sentence(code)) > 5);
    }
    assert_string_equal(tarry_code_name(99), "unknown");
    assert_string_equal(tarry_outcome_name(TARRY_LIVE), "exists");
    assert_string_equal(tarry_outcome_name(TARRY_IN_FLIGHT), "in_flight");
}

static void tokens_go_to_text_and_back(void **state) {
    char text[TARRY_TOKEN_SIZE];
    struct tarry_token token = {UINT32_MAX, UINT64_MAX}, back;
    assert_int_equal(tarry_token_parse(tarry_token_format(token, text), &back), TARRY_OK);
    assert_true(back.epoch == token.epoch && back.position == token.position);
    assert_int_equal(tarry_token_parse("0-0", &back), TARRY_OK);
    static const char *const bad[] = {"",     "1",    "1-",   "-1",  "1-2-3",        "1-2 ",
                                      " 1-2", "01-2", "+1-2", "1-a", "4294967296-1", "1-18446744073709551616",
                                      "1--2", "0x1-2"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(tarry_token_parse(bad[i], &back), TARRY_INVALID);
}

static void addresses_are_checked(void **state) {
    static const char *const bad[] = {"",
                                      "127.0.0.1:7272",
                                      "tcp://127.0.0.1:7272",
                                      "wss://",
                                      "ws://",
                                      "ws://:7272",
                                      "ws://127.0.0.1:7272/rpc",
                                      "ws://127.0.0.1:0",
                                      "ws://127.0.0.1:65536",
                                      "ws://127.0.0.1:x",
                                      "ws://127.0.0.1:7272,",
                                      "ws://a b:1",
                                      "ws://[::1:7272"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        tarry_client *client = NULL;
        struct tarry_options options = {.urls = bad[i]};
        assert_int_equal(tarry_open(&options, &client), TARRY_E_ADDRESS);
        assert_null(client);
    }
    struct addresses addresses = {.count = 0};
    assert_int_equal(addresses_parse(&addresses, "ws://a , ws://[::1]:9/,ws://a:7272/,ws://b:65535,ws://b:65535"),
                     TARRY_OK);
    assert_int_equal(addresses.count, 3);
    assert_string_equal(addresses.items[0].place.url, "ws://a:7272");
    assert_string_equal(addresses.items[1].place.url, "ws://[::1]:9");
    assert_string_equal(addresses.items[2].place.url, "ws://b:65535");
}

/* An address that a broker names is found among the program's addresses, whatever its spelling. Other addresses are not
 * found. */
static void an_address_is_found_again(void **state) {
    struct addresses addresses = {.count = 0};
    assert_int_equal(addresses_parse(&addresses, "ws://a,ws://a:7273,ws://[::1]:9"), TARRY_OK);
    static const struct {
        const char *url;
        size_t at;
    } found[] = {{"ws://a:7272", 0}, {"ws://a/", 0}, {"ws://a:7273/", 1}, {"ws://[::1]:9", 2},
                 {"ws://b", 3},      {"", 3},        {"nonsense", 3},     {"ws://a:7272,ws://a:7273", 3},
                 {"ws://a:07272", 3}};
    for (size_t i = 0; i < sizeof(found) / sizeof(found[0]); i++)
        assert_int_equal(addresses_find(&addresses, found[i].url), found[i].at);
    char endless[4 * ADDRESS_SIZE_MAX];
    memset(endless, 'a', sizeof(endless));
    memcpy(endless, "ws://", 5);
    endless[sizeof(endless) - 1] = 0;
    assert_int_equal(addresses_find(&addresses, endless), 3);
}

static void what_addresses_said_is_told_within_its_size(void **state) {
    struct addresses addresses = {.count = 0};
    char urls[ADDRESSES_MAX * 20] = "", told[200], long_words[2 * SAID_SIZE_MAX];
    for (unsigned i = 0; i < ADDRESSES_MAX; i++)
        snprintf(urls + strlen(urls), sizeof(urls) - strlen(urls), "%sws://h%u", i > 0 ? "," : "", i);
    assert_int_equal(addresses_parse(&addresses, urls), TARRY_OK);
    address_say(&addresses.items[0], "%s", "Connection refused");
    addresses_tell(&addresses, told, sizeof(told));
    assert_memory_equal(told, "ws://h0:7272: Connection refused; ws://h1:7272: not tried yet; ", 62);
    memset(long_words, 'x', sizeof(long_words));
    long_words[sizeof(long_words) - 1] = 0;
    for (size_t i = 0; i < ADDRESSES_MAX; i++) address_say(&addresses.items[i], "%s", long_words);
    for (size_t size = 1; size < sizeof(told); size++) {
        memset(told, '#', sizeof(told));
        addresses_tell(&addresses, told, size);
        assert_true(strlen(told) < size);
        assert_int_equal(told[size], '#');
    }
    snprintf(urls + strlen(urls), sizeof(urls) - strlen(urls), ",ws://one-more");
    addresses.count = 0;
    assert_int_equal(addresses_parse(&addresses, urls), TARRY_E_ADDRESS);
}

/* Unpacks one packed entry of Commit.ops with protobuf-c. */
static Tarry__Commit *unpack_ops(const struct buffer *body) {
    Tarry__Commit *commit = tarry__commit__unpack(NULL, body->size, body->data);
    assert_non_null(commit);
    assert_int_equal(commit->n_ops, 1);
    return commit;
}

/* Checks that the bytes equal those of protobuf-c. Frees both packed forms. */
static void packed_end(struct buffer *body, Tarry__Commit *commit) {
    struct buffer again = {NULL, 0, 0};
    assert_int_equal(pack_op(&again, commit->ops[0]), TARRY_OK);
    assert_int_equal(again.size, body->size);
    assert_memory_equal(again.data, body->data, body->size);
    tarry__commit__free_unpacked(commit, NULL);
    free(body->data);
    free(again.data);
}

static void assert_ref(const Tarry__Ref *found, const struct tarry_ref *ref, size_t key_size) {
    assert_int_equal(found->id, ref->id);
    assert_string_equal(found->queue, ref->id != 0 ? "" : ref->queue);
    assert_int_equal(found->key.len, key_size);
    if (key_size > 0) assert_memory_equal(found->key.data, ref->key, key_size);
}

/* Checks an operation that settles a lease. `kind`: number of ack, nack, extend, release, nack in this order. */
static void assert_settles(const Tarry__Op *op, unsigned kind, uint64_t id, struct tarry_token token) {
    static const Tarry__Op__OpCase cases[] = {TARRY__OP__OP_ACK, TARRY__OP__OP_NACK, TARRY__OP__OP_EXTEND,
                                              TARRY__OP__OP_RELEASE, TARRY__OP__OP_NACK};
    assert_int_equal(op->op_case, cases[kind]);
    /* Each of these messages begins with the task's id and the token. */
    assert_int_equal(op->ack->id, id);
    assert_int_equal(op->ack->token->epoch, token.epoch);
    assert_int_equal(op->ack->token->position, token.position);
}

static void schedules_are_packed_as_protobuf_does(void **state) {
    static char payload[70000];
    for (size_t i = 0; i < sizeof(payload); i++) payload[i] = (char)(i * 7);
    const struct tarry_attribute attributes[] = {{"trace", "abc"}, {"", "no name"}, {"empty", ""}};
    for (int variant = 0; variant < 64; variant++) {
        struct tarry_schedule_options options = {
            .queue = "orders",
            .key = variant & 1 ? "order-1" : NULL,
            .when = variant & 2 ? TARRY_AT : TARRY_DELAY,
            .when_ms = variant & 2 ? 1790000000000ull : (variant & 4 ? 0 : 1800000),
            .payload = payload,
            .payload_size = variant & 8 ? (variant & 16 ? sizeof(payload) : 100) : 0,
            .attributes = attributes,
            .attribute_count = variant & 16 ? 3 : 0,
            .priority = variant & 32 ? 9 : 0,
            .expires_ms = variant & 1 ? 300 : 0,
            .on_conflict = (enum tarry_on_conflict)(variant & 3),
        };
        struct buffer body = {NULL, 0, 0};
        assert_int_equal(pack_schedule(&body, &options), TARRY_OK);
        Tarry__Commit *commit = unpack_ops(&body);
        assert_int_equal(commit->ops[0]->op_case, TARRY__OP__OP_SCHEDULE);
        const Tarry__Schedule *schedule = commit->ops[0]->schedule;
        assert_string_equal(schedule->queue, "orders");
        assert_int_equal(schedule->key.len, variant & 1 ? 7 : 0);
        assert_int_equal(schedule->when->kind, options.when);
        assert_int_equal(schedule->when->ms, options.when_ms);
        assert_int_equal(schedule->priority, options.priority);
        assert_int_equal(schedule->expires_ms, options.expires_ms);
        assert_int_equal(schedule->on_conflict, options.on_conflict);
        Tarry__Content *content = tarry__content__unpack(NULL, schedule->content.len, schedule->content.data);
        assert_non_null(content);
        assert_int_equal(content->payload.len, options.payload_size);
        if (options.payload_size > 0) assert_memory_equal(content->payload.data, payload, options.payload_size);
        assert_int_equal(content->n_attributes, options.attribute_count);
        for (size_t i = 0; i < options.attribute_count; i++) {
            assert_string_equal(content->attributes[i]->name, attributes[i].name);
            assert_string_equal(content->attributes[i]->value, attributes[i].value);
        }
        tarry__content__free_unpacked(content, NULL);
        packed_end(&body, commit);
    }
}

static const uint64_t numbers[] = {0, 1, 127, 128, 1ull << 35, UINT64_MAX};
#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

static void what_names_a_task_is_packed_as_protobuf_does(void **state) {
    static char long_key[300];
    memset(long_key, 'k', sizeof(long_key));
    const struct tarry_ref refs[] = {{.id = 1},
                                     {.id = UINT64_MAX, .queue = "ignored", .key = "ignored"},
                                     {.queue = "orders", .key = "order-1"},
                                     {.queue = "", .key = ""},
                                     {.queue = "orders", .key = long_key, .key_size = sizeof(long_key)},
                                     {.queue = "orders", .key = "a\0b", .key_size = 3}};
    for (size_t i = 0; i < sizeof(refs) / sizeof(refs[0]) * NUMBERS * 2; i++) {
        const struct tarry_ref *ref = &refs[i / 2 / NUMBERS];
        const uint64_t ms = numbers[i / 2 % NUMBERS];
        const size_t key_size = ref->id != 0 ? 0 : (ref->key_size != 0 ? ref->key_size : strlen(ref->key));
        struct buffer body = {NULL, 0, 0}, other = {NULL, 0, 0};
        assert_int_equal(pack_cancel(&body, ref, i % 2 == 1), TARRY_OK);
        Tarry__Commit *commit = unpack_ops(&body);
        assert_int_equal(commit->ops[0]->op_case, TARRY__OP__OP_CANCEL);
        assert_int_equal(commit->ops[0]->cancel->withdraw, i % 2);
        assert_ref(commit->ops[0]->cancel->task, ref, key_size);
        packed_end(&body, commit);
        assert_int_equal(pack_move(&other, ref, i % 2 == 1 ? TARRY_AT : TARRY_DELAY, ms), TARRY_OK);
        commit = unpack_ops(&other);
        assert_int_equal(commit->ops[0]->op_case, TARRY__OP__OP_MOVE);
        assert_int_equal(commit->ops[0]->move->when->kind, i % 2);
        assert_int_equal(commit->ops[0]->move->when->ms, ms);
        assert_ref(commit->ops[0]->move->task, ref, key_size);
        packed_end(&other, commit);
    }
}

static void what_settles_is_packed_as_protobuf_does(void **state) {
    for (size_t i = 0; i < NUMBERS * NUMBERS * 2; i++) {
        const uint64_t id = numbers[i / 2 / NUMBERS], number = numbers[i / 2 % NUMBERS];
        const struct tarry_token token = {.epoch = i % 2 ? UINT32_MAX : (uint32_t)(i / 2 % NUMBERS),
                                          .position = number};
        const struct tarry_nack_options options = {.has_delay = i % 2 == 1,
                                                   .delay_ms = number,
                                                   .dead = i % 3 == 1,
                                                   .reason = i % 5 == 0 ? NULL : &"it failed"[i % 5 == 1 ? 9 : 0]};
        for (unsigned kind = 0; kind < 5; kind++) {
            struct buffer body = {NULL, 0, 0};
            if (kind == 0) assert_int_equal(pack_ack(&body, id, token), TARRY_OK);
            if (kind == 1) assert_int_equal(pack_nack(&body, id, token, &options), TARRY_OK);
            if (kind == 2) assert_int_equal(pack_extend(&body, id, token, number), TARRY_OK);
            if (kind == 3) assert_int_equal(pack_release(&body, id, token), TARRY_OK);
            if (kind == 4) assert_int_equal(pack_nack(&body, id, token, NULL), TARRY_OK);
            Tarry__Commit *commit = unpack_ops(&body);
            assert_settles(commit->ops[0], kind, id, token);
            const Tarry__Nack *nack = kind == 1 ? commit->ops[0]->nack : NULL;
            if (kind == 1) assert_int_equal(nack->has_delay, options.has_delay);
            if (kind == 1) assert_int_equal(nack->delay_ms, options.delay_ms);
            if (kind == 1) assert_int_equal(nack->dead, options.dead);
            if (kind == 1) assert_string_equal(nack->reason, options.reason != NULL ? options.reason : "");
            if (kind == 2) assert_int_equal(commit->ops[0]->extend->lease_ms, number);
            packed_end(&body, commit);
        }
    }
}

static void what_is_too_large_to_pack_is_refused(void **state) {
    const size_t size = REQUEST_SIZE_MAX;
    char *text = malloc(size + 1);
    assert_non_null(text);
    memset(text, 'x', size);
    text[size] = 0;
    struct buffer body = {NULL, 0, 0};
    const struct tarry_ref of_long_key = {.queue = "orders", .key = text}, of_long_queue = {.queue = text, .key = "k"};
    const struct tarry_ref of_no_end = {.queue = "orders", .key = text, .key_size = SIZE_MAX};
    const struct tarry_nack_options options = {.reason = text};
    assert_int_equal(pack_cancel(&body, &of_no_end, false), TARRY_TOO_LARGE);
    assert_int_equal(pack_cancel(&body, &of_long_key, false), TARRY_TOO_LARGE);
    assert_int_equal(pack_move(&body, &of_long_queue, TARRY_DELAY, 0), TARRY_TOO_LARGE);
    assert_int_equal(pack_nack(&body, 1, (struct tarry_token){0}, &options), TARRY_TOO_LARGE);
    /* The reason's text alone would fit into a request, but not together with the request's other fields. */
    text[REQUEST_SIZE_MAX - REQUEST_OVERHEAD_MAX - 16] = 0;
    assert_int_equal(pack_cancel(&body, &of_long_key, false), TARRY_TOO_LARGE);
    assert_int_equal(pack_nack(&body, 1, (struct tarry_token){9, 9}, &options), TARRY_TOO_LARGE);
    text[REQUEST_SIZE_MAX - REQUEST_OVERHEAD_MAX - 64] = 0;
    assert_int_equal(body.size, 0);
    assert_int_equal(pack_cancel(&body, &of_long_key, false), TARRY_OK);
    packed_end(&body, unpack_ops(&body));
    free(text);
}

static void held_leases_match_a_naive_model(void **state) {
    enum { IDS = 300, STEPS = 200000 };
    struct held held = {NULL, 0, 0};
    bool model[IDS + 1] = {false};
    size_t count = 0;
    uint64_t random = 88172645463325252ull;
    for (int step = 0; step < STEPS; step++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        uint64_t id = 1 + random % IDS;
        if (random >> 40 & 1) {
            bool taken = held_take(&held, (struct held_entry){.id = id, .token = {1, id}, .until_ms = 100 + id});
            assert_int_equal(taken, !model[id]); /* of all deliveries under the same lease, only one is taken */
            count += !model[id];
            model[id] = true;
        } else {
            held_settle(&held, id, (struct tarry_token){1, id});
            count -= model[id];
            model[id] = false;
        }
        assert_int_equal(held.count, count);
        uint64_t probe = 1 + (random >> 20) % IDS;
        assert_int_equal(held_find(&held, probe) != NULL, model[probe]);
    }
    held_sweep(&held, 100 + IDS / 2);
    for (uint64_t id = 1; id <= IDS; id++) assert_int_equal(held_find(&held, id) != NULL, model[id] && id >= IDS / 2);
    held_deinit(&held);
}

static void names_match_a_naive_model(void **state) {
    enum { NAMES = 200, STEPS = 200000 };
    struct names names = {NULL, 0, 0, 0};
    uint32_t counts[NAMES + 1] = {0};
    uint64_t random = 88172645463325252ull;
    for (int step = 0; step < STEPS; step++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        size_t number = 1 + random % NAMES;
        uint32_t name = (uint32_t)(number * 64 + number % 3); /* many names have the same home slot */
        if (random >> 40 & 1) {
            names_add(&names, name);
            counts[number]++;
        } else if (counts[number] > 0) {
            names_remove(&names, name);
            counts[number]--;
        }
        size_t probe = 1 + (random >> 20) % NAMES;
        assert_int_equal(names_has(&names, (uint32_t)(probe * 64 + probe % 3)), counts[probe] > 0);
    }
    names_deinit(&names);
    assert_int_not_equal(name_of_key("a", "bc", 2), name_of_key("ab", "c", 1));
    assert_int_equal(name_of_key("orders", "order-1", 7), name_of_key("orders", "order-1", 7));
    assert_int_not_equal(name_of_id(1), name_of_id(2));
}

static void timers_match_a_naive_model(void **state) {
    enum { TIMERS = 300, STEPS = 100000 };
    static struct timer all[TIMERS];
    struct timers timers = {NULL, 0, 0};
    uint64_t random = 88172645463325252ull;
    assert_null(timers_first(&timers));
    assert_true(timers_reserve(&timers, TIMERS));
    for (int step = 0; step < STEPS; step++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        struct timer *timer = &all[random % TIMERS];
        if (random >> 40 & 3)
            timer_set(&timers, timer, (random >> 20) % 1000);
        else
            timer_clear(&timers, timer);
        uint64_t first = UINT64_MAX;
        size_t count = 0;
        for (size_t i = 0; i < TIMERS; i++) {
            if (all[i].place == 0) continue;
            count++;
            if (all[i].at_ms < first) first = all[i].at_ms;
        }
        assert_int_equal(timers.count, count);
        assert_int_equal(timers_first(&timers) != NULL ? timers_first(&timers)->at_ms : UINT64_MAX, first);
    }
    for (uint64_t last = 0; timers_first(&timers) != NULL; timer_clear(&timers, timers_first(&timers))) {
        assert_true(timers_first(&timers)->at_ms >= last);
        last = timers_first(&timers)->at_ms;
    }
    timers_deinit(&timers);
}

/* The broker sends leases again to a resumed session. Such a delivery may arrive after the reply to the lease's ack. */
static void a_settled_lease_is_not_taken_again(void **state) {
    struct held held = {NULL, 0, 0};
    struct held_entry first = {.id = 1, .token = {1, 10}, .until_ms = 100};
    struct held_entry other = {.id = 2, .token = {1, 11}, .until_ms = 200};
    assert_true(held_take(&held, first));
    assert_true(held_take(&held, other));
    held_resume(&held);
    held_settle(&held, 1, first.token);
    assert_false(held_take(&held, first));
    assert_true(held_find(&held, 1)->settled);
    assert_false(held_find(&held, 2)->settled);

    struct held_entry later = {.id = 1,
                               .token = {1, 12},
                               .until_ms = 300}; /* a new lease of the same task is taken like any other */
    assert_true(held_take(&held, later));
    held_settle(&held, 1, first.token); /* settles the first lease only, so the later lease stays */
    assert_false(held_find(&held, 1)->settled);
    held_settle(&held, 1, later.token);
    /* The consumer got this lease after the session had resumed. So settling it removes the entry and leaves no mark
     * (held.h). */
    assert_null(held_find(&held, 1));

    held_settle(&held, 2, other.token);
    assert_int_equal(held.count, 1);
    /* After a second resumption, the old delivery can no longer arrive, because its lane is gone. So the mark is
     * removed. */
    held_resume(&held);
    assert_int_equal(held.count, 0);

    assert_true(held_take(&held, first));
    held_resume(&held);
    held_settle(&held, 1, first.token);
    held_sweep(&held, 101); /* a settled lease's mark is removed when the lease has expired, because the broker does not
                               send it again */
    assert_int_equal(held.count, 0);
    held_deinit(&held);
}

static void arguments_are_checked(void **state) {
    tarry_client *client = NULL;
    struct tarry_options nobody = {.urls = "ws://127.0.0.1:9", .timeout_ms = 200};
    assert_int_equal(tarry_open(&nobody, &client), TARRY_OK);
    struct tarry_result result;
    assert_int_equal(tarry_schedule(NULL, &order, &result), TARRY_E_ARGUMENT);
    assert_int_equal(tarry_schedule(client, NULL, &result), TARRY_E_ARGUMENT);
    assert_int_equal(result.code, TARRY_E_ARGUMENT);
    assert_true(strlen(result.message) > 5);
    struct tarry_schedule_options bad = order;
    bad.payload_size = 5;
    assert_int_equal(tarry_schedule_async(client, &bad, NULL, NULL), TARRY_E_ARGUMENT);
    bad = order;
    bad.on_conflict = (enum tarry_on_conflict)7;
    assert_int_equal(tarry_schedule_async(client, &bad, NULL, NULL), TARRY_E_ARGUMENT);
    bad = order;
    bad.payload = "x";
    bad.payload_size = SIZE_MAX;
    assert_int_equal(tarry_schedule_async(client, &bad, NULL, NULL), TARRY_TOO_LARGE);
    assert_int_equal(tarry_cancel(client, &(struct tarry_ref){.queue = "q"}, false, NULL, NULL), TARRY_E_ARGUMENT);
    assert_int_equal(tarry_queue_purge(client, "q", 64, NULL, NULL), TARRY_E_ARGUMENT);
    assert_int_equal(tarry_queue_set(client, "q", &(struct tarry_policy){0}, 1u << 20, NULL, NULL), TARRY_E_ARGUMENT);
    struct tarry_options options = {.commits_in_flight = 17};
    assert_int_equal(tarry_open(&options, &client), TARRY_E_ARGUMENT);
    tarry_close(client);
    tarry_close(NULL);
    tarry_commit_free(NULL);
    tarry_task_free(NULL);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_have_names_and_sentences),
        cmocka_unit_test(tokens_go_to_text_and_back),
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(schedules_are_packed_as_protobuf_does),
        cmocka_unit_test(what_names_a_task_is_packed_as_protobuf_does),
        cmocka_unit_test(what_settles_is_packed_as_protobuf_does),
        cmocka_unit_test(what_is_too_large_to_pack_is_refused),
        cmocka_unit_test(an_address_is_found_again),
        cmocka_unit_test(what_addresses_said_is_told_within_its_size),
        cmocka_unit_test(held_leases_match_a_naive_model),
        cmocka_unit_test(a_settled_lease_is_not_taken_again),
        cmocka_unit_test(names_match_a_naive_model),
        cmocka_unit_test(timers_match_a_naive_model),
        cmocka_unit_test(arguments_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
