/* http_live_test.c: a stream of statistics (broker/http/http_live.c), with a simulated gateway and connection. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http_exchange.h"

#define SHOWN_MAX 8u

static struct {
    void (*on_reply)(struct http_exchange *exchange, const Tarry__Reply *reply);
    Tarry__Request__BodyCase asked;
    gateway_timeout *timeout;
    unsigned refused; /* HTTP status */
    unsigned begun, ended;
    char *told; /* text of the last event; owned by the test */
    bool lacks_timers, lacks_memory, lacks_rows, is_held_up;
} world;

static struct http_server server;

void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);

void *__wrap_realloc(void *memory, size_t size) {
    return world.lacks_memory ? NULL : __real_realloc(memory, size);
}

uint64_t gateway_timer(struct gateway *gateway, uint64_t after_ms, gateway_timeout *timeout, void *argument) {
    assert_int_equal(after_ms, HTTP_LIVE_EVERY_MS);
    assert_null(world.timeout);
    if (world.lacks_timers) return 0;
    world.timeout = timeout;
    return 1;
}

void http_ask(struct http_exchange *exchange, Tarry__Request *request,
              void (*on_reply)(struct http_exchange *exchange, const Tarry__Reply *reply)) {
    assert_null(world.on_reply);
    world.asked = request->body_case;
    world.on_reply = on_reply;
}

bool http_keep(struct http_exchange *exchange, size_t size) {
    return size < 1000;
}

void http_refuse(struct http_exchange *exchange, unsigned status, const char *code, const char *sentence) {
    assert_false(exchange->is_stream);
    world.refused = status;
}

bool http_refused(struct http_exchange *exchange, const Tarry__Reply *reply) {
    http_refuse(exchange, 503, "busy", "");
    return true;
}

void http_stream_begin(struct http_exchange *exchange, const char *type) {
    assert_string_equal(type, "text/event-stream");
    exchange->is_stream = true;
    world.begun++;
}

/* Replaces the function of the broker: in this test, texts are allocated with malloc. */
void http_text_drop(struct text *text) {
    text_deinit(text);
}

bool http_stream_write(struct http_exchange *exchange, struct text *out) {
    assert_false(out->failed);
    free(world.told);
    world.told = strdup(text_str(out));
    assert_non_null(world.told);
    text_deinit(out);
    return !world.is_held_up;
}

void http_stream_end(struct http_exchange *exchange) {
    world.ended++;
}

/* ---- a client that follows the stream */

static void answer(struct http_exchange *exchange, Tarry__Reply *reply, Tarry__Code code) {
    void (*on_reply)(struct http_exchange *, const Tarry__Reply *) = world.on_reply;
    assert_non_null(on_reply);
    world.on_reply = NULL;
    if (reply != NULL) reply->code = code;
    on_reply(exchange, reply);
}

static void refuse(struct http_exchange *exchange, Tarry__Code code) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    answer(exchange, &reply, code);
}

static void tell_status(struct http_exchange *exchange) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    Tarry__PairReply pair = TARRY__PAIR_REPLY__INIT;
    assert_int_equal(world.asked, TARRY__REQUEST__BODY_PAIR);
    reply.pair = &pair;
    answer(exchange, &reply, TARRY__CODE__OK);
}

/* Reports statistics of queues "a", "b", … with these numbers of pending tasks. */
static void tell(struct http_exchange *exchange, size_t count, const uint64_t *pending) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    Tarry__StatsReply stats = TARRY__STATS_REPLY__INIT;
    Tarry__QueueStats queues[SHOWN_MAX], *listed[SHOWN_MAX];
    char names[SHOWN_MAX][2];
    tell_status(exchange);
    assert_int_equal(world.asked, TARRY__REQUEST__BODY_STATS);
    for (size_t i = 0; i < count; i++) {
        tarry__queue_stats__init(listed[i] = &queues[i]);
        names[i][0] = (char)('a' + i);
        names[i][1] = '\0';
        queues[i].name = names[i];
        queues[i].pending = pending[i];
    }
    stats.queues = listed;
    stats.n_queues = count;
    reply.stats = &stats;
    world.lacks_memory = world.lacks_rows;
    answer(exchange, &reply, TARRY__CODE__OK);
}

static void pass_time(struct http_exchange *exchange) {
    gateway_timeout *timeout = world.timeout;
    assert_non_null(timeout);
    world.timeout = NULL;
    timeout(exchange);
}

static struct http_exchange *begin(void) {
    memset(&world, 0, sizeof world);
    struct http_exchange *exchange = calloc(1, sizeof *exchange);
    assert_non_null(exchange);
    exchange->server = &server;
    http_live_begin(exchange);
    assert_int_equal(server.live_count, 1);
    return exchange;
}

static void end(struct http_exchange *exchange) {
    http_live_end(exchange);
    assert_int_equal(server.live_count, 0);
    text_deinit(&exchange->out);
    free(world.told);
    free(exchange);
}

/* Checks that the event has exactly these queues. */
static void assert_queues(const char *all, size_t count, const char *const *queues) {
    size_t named = 0;
    assert_non_null(strstr(world.told, all));
    for (size_t i = 0; i < count; i++) assert_non_null(strstr(world.told, queues[i]));
    const char *at = strstr(world.told, "\"queues\":[");
    assert_non_null(at);
    while ((at = strstr(at, "{\"name\":")) != NULL) at++, named++;
    assert_int_equal(named, count);
    assert_string_equal(world.told + strlen(world.told) - 4, "]}\n\n");
}

static void an_event_has_what_has_changed(void **state) {
    struct http_exchange *exchange = begin();
    tell(exchange, 2, (uint64_t[]){1, 2});
    assert_non_null(strstr(world.told, "event: stats\ndata: {"));
    assert_queues("\"all\":true", 2,
                  (const char *[]){"{\"name\":\"a\",\"pending\":1,", "{\"name\":\"b\",\"pending\":2,"});
    pass_time(exchange);
    tell(exchange, 3, (uint64_t[]){1, 3, 0});
    assert_queues("\"all\":false", 2,
                  (const char *[]){"{\"name\":\"b\",\"pending\":3,", "{\"name\":\"c\",\"pending\":0,"});
    pass_time(exchange);
    tell(exchange, 1, (uint64_t[]){1}); /* two of the queues do not exist any more */
    assert_queues("\"all\":true", 1, (const char *[]){"{\"name\":\"a\",\"pending\":1,"});
    assert_int_equal(world.begun, 1);
    assert_int_equal(world.ended, 0);
    world.is_held_up = true; /* the client does not read: no timer runs until the written data has left */
    pass_time(exchange);
    tell(exchange, 1, (uint64_t[]){1});
    assert_null(world.timeout);
    exchange->on_drained(exchange);
    assert_non_null(world.timeout);
    end(exchange);
}

static void what_is_busy_is_asked_again_and_all_else_ends_it(void **state) {
    struct http_exchange *exchange = begin();
    tell(exchange, 0, NULL);
    for (unsigned round = 0; round < 4; round++) {
        pass_time(exchange);
        if (round % 2 == 1) tell_status(exchange);
        if (round < 2)
            refuse(exchange, TARRY__CODE__BUSY);
        else
            answer(exchange, NULL, 0); /* there is no memory for the reply */
        assert_int_equal(world.ended, 0);
    }
    pass_time(exchange);
    refuse(exchange, TARRY__CODE__DENIED);
    assert_int_equal(world.ended, 1);
    assert_null(world.timeout);
    end(exchange);
    exchange = begin();
    refuse(exchange, TARRY__CODE__BUSY); /* replies to the first query */
    assert_int_equal(world.refused, 503);
    assert_null(world.timeout);
    end(exchange);
}

static void without_memory_it_is_refused_or_ends(void **state) {
    for (unsigned begun = 0; begun < 2; begun++) {
        struct http_exchange *exchange = begin();
        if (begun) {
            tell(exchange, 1, (uint64_t[]){1});
            pass_time(exchange);
        }
        world.lacks_rows = true;
        tell(exchange, SHOWN_MAX, (uint64_t[SHOWN_MAX]){1});
        world.lacks_memory = false;
        assert_int_equal(world.refused, begun ? 0 : 503);
        assert_int_equal(world.ended, begun);
        assert_null(world.timeout);
        end(exchange);
    }
    struct http_exchange *exchange = begin();
    world.lacks_timers = true;
    tell(exchange, 1, (uint64_t[]){1});
    assert_int_equal(world.ended, 1);
    end(exchange);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_has_what_has_changed),
        cmocka_unit_test(what_is_busy_is_asked_again_and_all_else_ends_it),
        cmocka_unit_test(without_memory_it_is_refused_or_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
