/* request_test.c: conversion of a request's bytes to an event; secrets, the inbox, and latencies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>

#include "../random.h"
#include "inbox.h"
#include "latency.h"
#include "request.h"
#include "secret.h"

static const uint8_t key[IDENTITY_SECRET_SIZE] = {1, 2, 3};

struct fx {
    struct arena arena;
    uint8_t bytes[1u << 20];
    size_t size;
    struct core_request prepared;
    struct request_refusal refusal;
};

static int setup(void **state) {
    struct fx *f = calloc(1, sizeof(*f));
    arena_init(&f->arena, 8u << 20);
    *state = f;
    return sodium_init() < 0;
}

static int teardown(void **state) {
    struct fx *f = *state;
    arena_deinit(&f->arena);
    free(f);
    return 0;
}

static bool prepare(struct fx *f) {
    arena_reset(&f->arena);
    f->refusal = (struct request_refusal){TARRY__CODE__OK, NULL};
    const struct request_setting setting = {.secret = key, .principal = "", .payload_max = 1000};
    return request_prepare(&f->arena, f->bytes, f->size, &setting, &f->prepared, &f->refusal);
}

static bool prepare_request(struct fx *f, const Tarry__Request *request) {
    f->size = tarry__request__pack(request, f->bytes);
    return prepare(f);
}

#define OPS 3
struct commit {
    Tarry__Request request;
    Tarry__Commit commit;
    Tarry__Op ops[OPS];
    Tarry__Op *pointers[OPS];
    Tarry__Schedule schedules[OPS];
    Tarry__When when;
    uint8_t contents[OPS][2000];
};

static void commit_make(struct commit *c) {
    tarry__request__init(&c->request);
    tarry__commit__init(&c->commit);
    tarry__when__init(&c->when);
    c->when.ms = 500;
    c->request.version = WIRE_VERSION;
    c->request.body_case = TARRY__REQUEST__BODY_COMMIT;
    c->request.commit = &c->commit;
    c->commit.producer = c->commit.sequence = c->commit.oldest_unanswered = 1;
    c->commit.n_ops = OPS;
    c->commit.ops = c->pointers;
    for (int i = 0; i < OPS; i++) {
        Tarry__Content content = TARRY__CONTENT__INIT;
        content.payload = (ProtobufCBinaryData){.len = (size_t)i * 10, .data = c->contents[i]};
        uint8_t packed[2000];
        size_t size = tarry__content__pack(&content, packed);
        memcpy(c->contents[i], packed, size);
        tarry__op__init(&c->ops[i]);
        tarry__schedule__init(&c->schedules[i]);
        c->schedules[i].queue = (char *)"q";
        c->schedules[i].when = &c->when;
        c->schedules[i].content = (ProtobufCBinaryData){.len = size, .data = c->contents[i]};
        c->ops[i].op_case = TARRY__OP__OP_SCHEDULE;
        c->ops[i].schedule = &c->schedules[i];
        c->pointers[i] = &c->ops[i];
    }
}

static void contents_are_salted_summed_and_hashed(void **state) {
    struct fx *f = *state;
    struct commit c;
    commit_make(&c);
    c.schedules[1].priority = 10; /* the commit is refused because of this operation */
    assert_true(prepare_request(f, &c.request));
    assert_int_equal(f->prepared.message->body_case, TARRY__REQUEST__BODY_COMMIT);
    assert_int_equal(f->prepared.commit.contents[1].code, TARRY__CODE__INVALID);
    assert_non_null(f->prepared.commit.contents[1].problem);
    for (int i = 0; i < OPS; i += 2) {
        const struct core_content *content = &f->prepared.commit.contents[i];
        uint8_t hash[CONTENT_HASH_SIZE];
        assert_null(content->problem);
        assert_int_equal(content->size, BLOB_SALT_SIZE + c.schedules[i].content.len);
        assert_memory_equal((const uint8_t *)content->data + BLOB_SALT_SIZE, c.schedules[i].content.data,
                            c.schedules[i].content.len);
        assert_int_equal(content->sum, frame_sum(content->data, content->size));
        content_hash(content->data, content->size, hash);
        assert_memory_equal(hash, content->hash, sizeof(hash));
    }
    assert_memory_not_equal(f->prepared.commit.contents[0].data, f->prepared.commit.contents[2].data, BLOB_SALT_SIZE);
    uint8_t salt[BLOB_SALT_SIZE];
    memcpy(salt, f->prepared.commit.contents[0].data, sizeof(salt));
    assert_true(prepare(f));
    assert_memory_not_equal(f->prepared.commit.contents[0].data, salt, sizeof(salt)); /* no salt is used twice */
}

static void what_is_wrong_is_refused_with_code_and_sentence(void **state) {
    struct fx *f = *state;
    struct commit c;
#define REFUSED(expected)                                                                                              \
    assert_false(prepare_request(f, &c.request));                                                                      \
    assert_int_equal(f->refusal.code, TARRY__CODE__##expected);                                                        \
    assert_non_null(f->refusal.sentence);                                                                              \
    commit_make(&c);
    commit_make(&c);
    c.request.version = 0;
    REFUSED(INVALID)
    c.request.version = WIRE_VERSION + 1;
    REFUSED(UNSUPPORTED)
    c.request.body_case = TARRY__REQUEST__BODY__NOT_SET;
    REFUSED(UNSUPPORTED)
    c.commit.producer = 0;
    REFUSED(INVALID)
    c.commit.sequence = 0;
    REFUSED(INVALID)
    c.commit.oldest_unanswered = 2;
    REFUSED(INVALID)
    c.commit.n_ops = 0;
    REFUSED(INVALID)
    c.request.client = (char *)"\xff";
    REFUSED(INVALID)
    f->size = 0;
    assert_false(prepare(f));
    assert_int_equal(f->refusal.code, TARRY__CODE__INVALID);
}

static void a_refusal_states_the_limit_as_a_number(void **state) {
    struct fx *f = *state;
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Recurrences recurrences = TARRY__RECURRENCES__INIT;
    request.version = WIRE_VERSION;
    request.body_case = TARRY__REQUEST__BODY_RECURRENCES;
    request.recurrences = &recurrences;
    recurrences.times = 101;
    assert_false(prepare_request(f, &request));
    assert_string_equal(f->refusal.sentence, "times must be at most 100");
    recurrences.times = 100;
    recurrences.limit = 257;
    assert_false(prepare_request(f, &request));
    assert_string_equal(f->refusal.sentence, "limit must be at most 256");
    recurrences.limit = 256;
    assert_true(prepare_request(f, &request));
}

static void what_is_asked_of_the_pair_makes_sense(void **state) {
    struct fx *f = *state;
    for (int what = TARRY__PAIR__WHAT__STATUS; what <= TARRY__PAIR__WHAT__WRITE_RECORD + 1; what++) {
        for (int words = 0; words < 4; words++) {
            Tarry__Request request = TARRY__REQUEST__INIT;
            Tarry__Pair pair = TARRY__PAIR__INIT;
            request.version = WIRE_VERSION;
            request.body_case = TARRY__REQUEST__BODY_PAIR;
            request.pair = &pair;
            pair.what = (Tarry__Pair__What)what;
            pair.peer_is_stopped = (words & 1) != 0;
            pair.force = (words & 2) != 0;
            const char *named = NULL;
            if (words == 3) named = "exclude each other";
            bool writes = what == TARRY__PAIR__WHAT__WRITE_RECORD && !pair.force;
            if (words != 0 && what != TARRY__PAIR__WHAT__PROMOTE && !writes) named = "only with promote";
            if (what > TARRY__PAIR__WHAT__WRITE_RECORD) named = "must be status, promote, demote or record";
            assert_int_equal(prepare_request(f, &request), named == NULL);
            if (named == NULL) continue;
            assert_int_equal(f->refusal.code, TARRY__CODE__INVALID);
            assert_non_null(strstr(f->refusal.sentence, named));
        }
    }
}

static void too_many_operations_are_refused_before_they_take_memory(void **state) { /* F-20, CAP-1 */
    struct fx *f = *state;
    /* Packs Request{commit{ops: {} × N}}, which takes two bytes per operation. */
    size_t count = OPS_PER_COMMIT_MAX + 1, inner = count * 2;
    uint8_t *at = f->bytes;
    *at++ = 11 << 3 | 2;
    for (size_t rest = inner; rest > 0; rest >>= 7) *at++ = (uint8_t)((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
    for (size_t i = 0; i < count; i++) {
        *at++ = 5 << 3 | 2;
        *at++ = 0;
    }
    f->size = (size_t)(at - f->bytes);
    assert_false(prepare(f));
    assert_int_equal(f->refusal.code, TARRY__CODE__TOO_LARGE);
    assert_int_equal(f->arena.used, 0);
}

static void too_many_queues_are_refused_before_they_take_memory(void **state) { /* F-20, CAP-1 */
    struct fx *f = *state;
    /* Packs Request{subscribe{queues: "" × N}}, which takes two bytes per name. */
    const size_t count = 1000, inner = count * 2;
    uint8_t *at = f->bytes;
    *at++ = 13 << 3 | 2;
    *at++ = (inner & 0x7f) | 0x80;
    *at++ = inner >> 7;
    for (size_t i = 0; i < count; i++) {
        *at++ = 1 << 3 | 2;
        *at++ = 0;
    }
    f->size = (size_t)(at - f->bytes);
    assert_false(prepare(f));
    assert_int_equal(f->refusal.code, TARRY__CODE__INVALID);
    assert_int_equal(f->arena.used, 0);
}

/* Appends another request's bytes: protobuf reads both as one message with the fields of both. */
static void append(struct fx *f, const Tarry__Request *request) {
    f->size += tarry__request__pack(request, f->bytes + f->size);
}

static void a_request_has_one_body(void **state) { /* F-20: of two bodies, protobuf keeps the last one */
    struct fx *f = *state;
    struct commit c;
    Tarry__Stats stats = TARRY__STATS__INIT;
    Tarry__Follow follow = TARRY__FOLLOW__INIT;
    commit_make(&c);
    const Tarry__Request other[] = {
        {PROTOBUF_C_MESSAGE_INIT(&tarry__request__descriptor), .client = (char *)protobuf_c_empty_string,
         .body_case = TARRY__REQUEST__BODY_STATS, .stats = &stats},
        {PROTOBUF_C_MESSAGE_INIT(&tarry__request__descriptor), .client = (char *)protobuf_c_empty_string,
         .body_case = TARRY__REQUEST__BODY_FOLLOW, .follow = &follow},
        c.request,
    };
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
        for (int is_first = 0; is_first < 2; is_first++) {
            f->size = 0;
            append(f, is_first ? &other[i] : &c.request);
            append(f, is_first ? &c.request : &other[i]);
            assert_false(prepare(f));
            assert_int_equal(f->refusal.code, TARRY__CODE__INVALID);
            assert_non_null(strstr(f->refusal.sentence, "more than one body"));
            assert_int_equal(f->arena.used, 0); /* CAP-1 */
        }
    }
    assert_true(prepare_request(f, &c.request));
}

static void an_operation_has_one_body(void **state) { /* F-20 */
    struct fx *f = *state;
    /* Packs Request{version: 1, commit{producer: 1, sequence: 1, oldest_unanswered: 1, ops{…}}}. */
    const uint8_t head[] = {1 << 3, 1, 11 << 3 | 2, 0, 1 << 3, 1, 2 << 3, 1, 3 << 3, 1, 5 << 3 | 2, 0};
    /* This operation has field 99 with the value 1, and ack{id: 9}. */
    const uint8_t one[] = {0x98, 0x06, 1, 4 << 3 | 2, 2, 1 << 3, 9};
    /* This operation has redact{…} and ack{id: 9}. */
    const uint8_t two[] = {12 << 3 | 2, 2, 1 << 3, 9, 4 << 3 | 2, 2, 1 << 3, 9};
    /* This operation has ack{id: 9} twice. */
    const uint8_t same[] = {4 << 3 | 2, 2, 1 << 3, 9, 4 << 3 | 2, 2, 1 << 3, 9};
    const struct {
        const uint8_t *op;
        size_t size;
        bool fine;
    } cases[] = {{one, sizeof(one), true}, {two, sizeof(two), false}, {same, sizeof(same), false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        memcpy(f->bytes, head, sizeof(head));
        memcpy(f->bytes + sizeof(head), cases[i].op, cases[i].size);
        f->bytes[3] = (uint8_t)(sizeof(head) - 4 + cases[i].size);
        f->bytes[sizeof(head) - 1] = (uint8_t)cases[i].size;
        f->size = sizeof(head) + cases[i].size;
        assert_int_equal(prepare(f), cases[i].fine);
        if (cases[i].fine) continue;
        assert_int_equal(f->refusal.code, TARRY__CODE__INVALID);
        assert_non_null(strstr(f->refusal.sentence, "operation has more than one body"));
    }
}

static void operations_are_found_in_what_was_unpacked(void **state) {
    struct fx *f = *state;
    struct commit c;
    Tarry__Ack ack = TARRY__ACK__INIT;
    commit_make(&c);
    assert_true(prepare_request(f, &c.request));
    assert_true(request_has_op(f->prepared.message, TARRY__OP__OP_SCHEDULE));
    assert_false(request_has_op(f->prepared.message, TARRY__OP__OP_REDACT));
    for (int i = 0; i < OPS; i++) {
        c.ops[i].op_case = TARRY__OP__OP_ACK;
        c.ops[i].ack = &ack;
    }
    assert_true(prepare_request(f, &c.request));
    assert_false(request_has_op(f->prepared.message, TARRY__OP__OP_SCHEDULE));
    Tarry__Queues queues = TARRY__QUEUES__INIT;
    Tarry__Request question = TARRY__REQUEST__INIT;
    question.version = WIRE_VERSION;
    question.body_case = TARRY__REQUEST__BODY_QUEUES;
    question.queues = &queues;
    assert_true(prepare_request(f, &question));
    assert_false(request_has_op(f->prepared.message, TARRY__OP__OP_SCHEDULE));
}

static void a_peek_counts_what_a_request_holds(void **state) {
    struct fx *f = *state;
    struct commit c;
    struct request_peek peek;
    commit_make(&c);
    f->size = tarry__request__pack(&c.request, f->bytes);
    assert_true(request_peek(f->bytes, f->size, &peek));
    assert_true(peek.body_count == 1 && peek.schedules && peek.op_bodies_max == 1);
    assert_int_equal(peek.op_count, OPS);
    /* An unknown field hides no schedule: Request.commit{ops{99: 1, schedule{}}}. */
    const uint8_t hidden[] = {11 << 3 | 2, 7, 5 << 3 | 2, 5, 0x98, 0x06, 1, 1 << 3 | 2, 0};
    assert_true(request_peek(hidden, sizeof(hidden), &peek));
    assert_true(peek.schedules && peek.op_count == 1);
    /* Every truncated request is refused or harmless, and no read goes past its end (ASan). */
    for (size_t size = 0; size < f->size; size++) {
        uint8_t *copy = malloc(size + 1);
        memcpy(copy, f->bytes, size);
        uint8_t *exact = realloc(copy, size > 0 ? size : 1);
        request_peek(exact, size, &peek);
        free(exact);
    }
}

static void garbage_is_refused_and_crashes_nothing(void **state) { /* F-20 */
    struct fx *f = *state;
    struct random random = {random_seed(4)};
    struct commit c;
    commit_make(&c);
    size_t size = tarry__request__pack(&c.request, f->bytes);
    uint8_t good[4096];
    memcpy(good, f->bytes, size);
    for (int i = 0; i < 50000; i++) {
        memcpy(f->bytes, good, size);
        f->size = random_below(&random, size + 1);
        for (uint64_t flips = random_below(&random, 8); flips > 0; flips--)
            f->bytes[random_below(&random, size)] = (uint8_t)random_u64(&random);
        if (!prepare(f)) assert_non_null(f->refusal.sentence);
    }
}

static void a_secret_is_known_again_and_a_wrong_one_is_not(void **state) { /* F-23 */
    (void)state;
    uint8_t secret[SESSION_SECRET_SIZE], other[IDENTITY_SECRET_SIZE] = {9};
    char hex[2 * SESSION_SECRET_SIZE + 1], text[256];
    secret_make(key, 77, "shop", secret);
    assert_int_equal(secret_check(key, "shop", secret, sizeof(secret)), 77);
    assert_int_equal(secret_check(other, "shop", secret, sizeof(secret)), 0);
    /* The secret of another client is refused. */
    assert_int_equal(secret_check(key, "sho", secret, sizeof(secret)), 0);
    assert_int_equal(secret_check(key, "", secret, sizeof(secret)), 0);
    assert_int_equal(secret_check(key, "shop", secret, sizeof(secret) - 1), 0);
    sodium_bin2hex(hex, sizeof(hex), secret, sizeof(secret));
    snprintf(text, sizeof(text), "Bearer %s", hex);
    assert_int_equal(secret_check_authorization(key, "shop", text), 77);
    snprintf(text, sizeof(text), "bearer %s", hex);
    assert_int_equal(secret_check_authorization(key, "shop", text), 77);
    snprintf(text, sizeof(text), "Basic %s", hex);
    assert_int_equal(secret_check_authorization(key, "shop", text), 0);
    snprintf(text, sizeof(text), "Bearer %sff", hex);
    assert_int_equal(secret_check_authorization(key, "shop", text), 0);
    snprintf(text, sizeof(text), "Bearer %s\r\nA: b", hex);
    assert_int_equal(secret_check_authorization(key, "shop", text), 0);
    assert_int_equal(secret_check_authorization(key, "shop", ""), 0);
    for (size_t i = 0; i < sizeof(secret) * 8; i++) {
        secret[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_int_equal(secret_check(key, "shop", secret, sizeof(secret)), 0);
        secret[i / 8] ^= (uint8_t)(1 << i % 8);
    }
}

#define POSTERS 4
#define POSTS 20000

static struct inbox inbox;

static void *post_many(void *argument) {
    struct item *items = argument;
    for (int i = 0; i < POSTS; i++) inbox_post(&inbox, &items[i]);
    return NULL;
}

static void no_wake_up_is_lost_and_order_is_kept(void **state) {
    (void)state;
    static struct item items[POSTERS][POSTS];
    pthread_t threads[POSTERS];
    int next[POSTERS] = {0}, total = 0;
    inbox_init(&inbox);
    for (int i = 0; i < POSTERS; i++) pthread_create(&threads[i], NULL, post_many, items[i]);
    while (total < POSTERS * POSTS) {
        struct turn_load load;
        inbox_take(&inbox, 3600ull * 1000000000ull, false,
                   &load); /* if a wake-up were lost, the test would hang here */
        for (struct item *item = load.first; item != NULL; item = item->next, total++) {
            int poster = (int)((item - &items[0][0]) / POSTS);
            assert_ptr_equal(item, &items[poster][next[poster]]);
            next[poster]++;
        }
    }
    for (int i = 0; i < POSTERS; i++) pthread_join(threads[i], NULL);
    struct turn_load load;
    inbox_durable(&inbox, 5);
    inbox_indexed(&inbox, 4);
    inbox_take(&inbox, 3600ull * 1000000000ull, false, &load);
    assert_true(load.first == NULL && load.durable == 5 && load.indexed == 4 && !load.stop);
    inbox_take(&inbox, 1000000, false, &load); /* nothing arrives, so that the call returns after its timeout */
    assert_null(load.first);
}

static void quantiles_are_never_too_small(void **state) {
    (void)state;
    static struct latency latency;
    Tarry__Quantiles out = TARRY__QUANTILES__INIT;
    latency_quantiles(&latency, &out);
    assert_int_equal(out.count, 0);
    for (uint64_t value = 1; value <= 10000; value++) latency_add(&latency, value);
    latency_quantiles(&latency, &out);
    assert_int_equal(out.count, 10000);
    assert_true(out.p50 >= 5000 && out.p50 <= 5313);
    assert_true(out.p99 >= 9900 && out.p99 <= 10000);
    assert_true(out.p999 >= 9990 && out.p999 <= 10000);
    assert_true(out.max >= 10000 && out.max <= 10000);
    latency_add(&latency, UINT64_MAX);
    latency_add(&latency, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(contents_are_salted_summed_and_hashed, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_wrong_is_refused_with_code_and_sentence, setup, teardown),
        cmocka_unit_test_setup_teardown(a_refusal_states_the_limit_as_a_number, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_asked_of_the_pair_makes_sense, setup, teardown),
        cmocka_unit_test_setup_teardown(too_many_operations_are_refused_before_they_take_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(too_many_queues_are_refused_before_they_take_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(a_request_has_one_body, setup, teardown),
        cmocka_unit_test_setup_teardown(an_operation_has_one_body, setup, teardown),
        cmocka_unit_test_setup_teardown(operations_are_found_in_what_was_unpacked, setup, teardown),
        cmocka_unit_test_setup_teardown(a_peek_counts_what_a_request_holds, setup, teardown),
        cmocka_unit_test_setup_teardown(garbage_is_refused_and_crashes_nothing, setup, teardown),
        cmocka_unit_test(a_secret_is_known_again_and_a_wrong_one_is_not),
        cmocka_unit_test(no_wake_up_is_lost_and_order_is_kept),
        cmocka_unit_test(quantiles_are_never_too_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
