/* http_commit_test.c: if the broker refuses a commit only for a moment (Reply.retry_ms), its own HTTP code sends it
 * again, and the client need not wait for Retry-After (broker/http/http_exchange.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "http_exchange.h"

static struct {
    unsigned sent;
    gateway_reply *reply;
    gateway_timeout *timeout;
    uint64_t after_ms;
    bool lacks_timers;
    unsigned told; /* number of replies that the client got, and the last one */
    Tarry__Code code;
} world;

void gateway_unpay(struct gateway *gateway, const struct gateway_caller *caller) {}

uint64_t gateway_commit(struct gateway *gateway, const struct gateway_caller *caller, Tarry__Commit *commit,
                        const struct gateway_once *once, gateway_reply *reply, void *argument) {
    world.sent++;
    world.reply = reply;
    return world.sent;
}

uint64_t gateway_timer(struct gateway *gateway, uint64_t after_ms, gateway_timeout *timeout, void *argument) {
    assert_null(world.timeout);
    if (world.lacks_timers) return 0;
    world.timeout = timeout;
    world.after_ms = after_ms;
    return 1;
}

/* ---- functions that these tests do not use */

uint64_t gateway_ask(struct gateway *gateway, const struct gateway_caller *caller, Tarry__Request *request,
                     gateway_reply *reply, void *argument) {
    fail();
    return 0;
}

uint64_t gateway_lease(struct gateway *gateway, const struct gateway_caller *caller,
                       const struct gateway_lease_options *options, gateway_leased *leased, void *argument) {
    fail();
    return 0;
}

void http_refuse(struct http_exchange *exchange, unsigned status, const char *code, const char *sentence) {
    fail();
}

bool door_stream_half(struct door *door, uint64_t id, size_t size, bool is_small) {
    return true;
}

void door_stream_whole(struct door *door, uint64_t id) {}
void body_deinit(struct http_body *body) {}

/* ---- tests */

static void on_told(struct http_exchange *exchange, const Tarry__Reply *reply) {
    world.told++;
    world.code = reply->code;
}

static void answer(struct http_exchange *exchange, Tarry__Code code, uint32_t retry_ms) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    gateway_reply *tell = world.reply;
    reply.code = code;
    reply.retry_ms = retry_ms;
    world.reply = NULL;
    tell(exchange, &reply);
}

static void fire(struct http_exchange *exchange) {
    gateway_timeout *fires = world.timeout;
    world.timeout = NULL;
    fires(exchange);
}

static struct http_server server;
static Tarry__Commit commit;

static int begin(void **state) {
    static struct http_exchange exchange;
    exchange = (struct http_exchange){.server = &server};
    memset(&world, 0, sizeof world);
    tarry__commit__init(&commit);
    http_commit(&exchange, &commit, on_told);
    assert_int_equal(world.sent, 1);
    *state = &exchange;
    return 0;
}

static void what_is_busy_for_a_moment_is_sent_again(void **state) {
    struct http_exchange *exchange = *state;
    answer(exchange, TARRY__CODE__BUSY, 20);
    assert_int_equal(world.told, 0);
    assert_int_equal(world.after_ms, 20);
    fire(exchange);
    assert_int_equal(world.sent, 2);
    answer(exchange, TARRY__CODE__OK, 0);
    assert_int_equal(world.told, 1);
    assert_int_equal(world.code, TARRY__CODE__OK);
}

static void a_moment_has_an_end(void **state) {
    struct http_exchange *exchange = *state;
    for (unsigned i = 0; i < HTTP_RETRIED_MAX_MS / 20; i++) {
        answer(exchange, TARRY__CODE__BUSY, 20);
        fire(exchange);
    }
    answer(exchange, TARRY__CODE__BUSY, 20);
    assert_int_equal(world.told, 1);
    assert_int_equal(world.code, TARRY__CODE__BUSY);
    assert_null(world.timeout);
}

static void what_is_busy_for_longer_is_told(void **state) {
    answer(*state, TARRY__CODE__BUSY, 0);
    assert_int_equal(world.told, 1);
    assert_int_equal(world.sent, 1);
}

static void another_refusal_is_told(void **state) {
    answer(*state, TARRY__CODE__STOPPING, 20);
    assert_int_equal(world.told, 1);
}

static void without_a_timer_it_is_told(void **state) {
    world.lacks_timers = true;
    answer(*state, TARRY__CODE__BUSY, 20);
    assert_int_equal(world.told, 1);
    assert_int_equal(world.code, TARRY__CODE__BUSY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_is_busy_for_a_moment_is_sent_again, begin),
        cmocka_unit_test_setup(a_moment_has_an_end, begin),
        cmocka_unit_test_setup(what_is_busy_for_longer_is_told, begin),
        cmocka_unit_test_setup(another_refusal_is_told, begin),
        cmocka_unit_test_setup(without_a_timer_it_is_told, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
