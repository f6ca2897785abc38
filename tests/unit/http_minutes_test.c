/* http_minutes_test.c: the last 1,440 minutes (broker/http/http_minutes.c). Each minute has the growth of its counters,
 * the ring keeps only the newest minutes, and only a principal that may see all queues gets them. This file replaces
 * the gateway. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "durations.h"
#include "http_exchange.h"

#define MINUTE_MS 60000ull
#define KEPT 1440u

static struct {
    gateway_timeout *timeout;
    gateway_reply *reply;
    void *argument;
    uint64_t after_ms;
    int owned; /* number of references to the broker's own principal that are held */
    bool may_look, is_confined;
    unsigned status;
    json_t *answer;
} world;

uint64_t gateway_own(struct gateway *gateway) {
    world.owned++;
    return 7;
}

void gateway_disown(struct gateway *gateway, uint64_t principal) {
    assert_int_equal(principal, 7);
    world.owned--;
}

uint64_t gateway_timer(struct gateway *gateway, uint64_t after_ms, gateway_timeout *timeout, void *argument) {
    world.timeout = timeout;
    world.argument = argument;
    world.after_ms = after_ms;
    return 1;
}

uint64_t gateway_ask(struct gateway *gateway, const struct gateway_caller *caller, Tarry__Request *request,
                     gateway_reply *reply, void *argument) {
    assert_int_equal(caller->principal, 7);
    assert_int_equal(request->body_case, TARRY__REQUEST__BODY_STATS);
    world.reply = reply;
    return 2;
}

void gateway_who(struct gateway *gateway, const struct gateway_caller *caller, struct gateway_who *out) {
    *out = (struct gateway_who){.name = "x", .may_look = world.may_look, .is_confined = world.is_confined};
}

bool http_text_grow(struct text *text, size_t capacity) {
    text->data = realloc(text->data, capacity);
    text->capacity = capacity;
    return text->data != NULL;
}

bool http_parameters_only(struct http_exchange *exchange, const char *known) {
    return true;
}

const char *http_code_of(unsigned status) {
    return "denied";
}

void http_refuse(struct http_exchange *exchange, unsigned status, const char *code, const char *sentence) {
    world.status = status;
}

void http_respond(struct http_exchange *exchange, unsigned status, struct text *out) {
    assert_false(out->failed);
    world.status = status;
    world.answer = json_loadb(out->data, out->size, 0, NULL);
    free(out->data);
}

/* Lets a minute pass. Each of the broker's two queues has scheduled `scheduled` tasks since the start, and `dead` tasks
 * are dead. `late` deliveries were at most 100 us late. */
static void pass(uint64_t at_ms, uint64_t scheduled, uint64_t dead, uint64_t late) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    Tarry__StatsReply stats = TARRY__STATS_REPLY__INIT;
    Tarry__BrokerStats broker = TARRY__BROKER_STATS__INIT;
    Tarry__Durations lateness = TARRY__DURATIONS__INIT;
    Tarry__QueueStats queue = TARRY__QUEUE_STATS__INIT, *queues[] = {&queue, &queue};
    uint64_t counts[DURATION_BUCKETS] = {late};
    lateness.n_counts = DURATION_BUCKETS;
    lateness.counts = counts;
    queue.scheduled = scheduled;
    queue.dead = dead;
    queue.lateness = &lateness;
    broker.now_ms = at_ms;
    stats.broker = &broker;
    stats.n_queues = 2;
    stats.queues = queues;
    reply.body_case = TARRY__REPLY__BODY_STATS;
    reply.stats = &stats;
    world.timeout(world.argument);
    assert_int_equal(world.after_ms, MINUTE_MS);
    assert_int_equal(world.owned, 0);
    world.reply(world.argument, &reply);
}

static void ask(struct http_minutes *minutes) {
    struct http_server server = {.minutes = minutes};
    struct http_exchange exchange = {.server = &server};
    json_decref(world.answer);
    world.answer = NULL;
    world.status = 0;
    handle_minutes(&exchange);
}

static json_int_t number(const char *name, size_t i) {
    return json_integer_value(json_array_get(json_object_get(world.answer, name), i));
}

static void a_minute_has_the_growth_of_its_counters(void **state) {
    struct http_minutes *minutes = http_minutes_new(NULL);
    world.may_look = true;
    http_minutes_start(minutes);
    ask(minutes);
    assert_int_equal(world.status, 200);
    assert_int_equal(json_array_size(json_object_get(world.answer, "at_ms")), 0);
    pass(1000, 10, 1, 4);
    pass(61000, 25, 3, 9);
    pass(121000, 20, 0, 9); /* the counts of one queue are missing, as if it had been deleted */
    ask(minutes);
    assert_int_equal(json_array_size(json_object_get(world.answer, "at_ms")), 2);
    assert_int_equal(number("at_ms", 0), 61000);
    assert_int_equal(number("scheduled", 0), 30);
    assert_int_equal(number("dead", 0), 6);
    assert_int_equal(json_integer_value(
                         json_array_get(json_array_get(json_object_get(world.answer, "lateness"), 0), 0)),
                     10);
    assert_int_equal(number("scheduled", 1), 0);
    assert_int_equal(number("dead", 1), 0);
    http_minutes_free(minutes);
}

static void the_ring_keeps_the_last_day(void **state) {
    struct http_minutes *minutes = http_minutes_new(NULL);
    world.may_look = true;
    http_minutes_start(minutes);
    for (uint64_t i = 0; i <= KEPT + 100; i++) pass(1000 + i * MINUTE_MS, i * i, 0, 0);
    ask(minutes);
    assert_int_equal(json_array_size(json_object_get(world.answer, "at_ms")), KEPT);
    for (uint64_t i = 0; i < KEPT; i++) {
        uint64_t minute = i + 101;
        assert_int_equal(number("at_ms", i), 1000 + minute * MINUTE_MS);
        assert_int_equal(number("scheduled", i), 2 * (minute * minute - (minute - 1) * (minute - 1)));
    }
    http_minutes_free(minutes);
}

static void only_who_may_see_all_queues_gets_them(void **state) {
    struct http_minutes *minutes = http_minutes_new(NULL);
    http_minutes_start(minutes);
    world.may_look = false;
    ask(minutes);
    assert_int_equal(world.status, 403);
    world.may_look = true;
    world.is_confined = true;
    ask(minutes);
    assert_int_equal(world.status, 403);
    world.is_confined = false;
    ask(minutes);
    assert_int_equal(world.status, 200);
    json_decref(world.answer);
    http_minutes_free(minutes);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_minute_has_the_growth_of_its_counters),
                                       cmocka_unit_test(the_ring_keeps_the_last_day),
                                       cmocka_unit_test(only_who_may_see_all_queues_gets_them)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
