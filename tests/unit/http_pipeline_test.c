/* http_pipeline_test.c: pipelined requests of a connection (broker/http/http_connection.c): which of them may be under
 * way together, the order of their effects and responses, and commits that the broker refuses for a moment
 * (Reply.retry_ms). The door and the gateway are simulated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "door_turn.h"
#include "http_exchange.h"

#define COMMITS_MAX 128u
#define ID 7u

struct commit {
    gateway_reply *reply; /* callback for the reply; NULL: the gateway has replied, or the commit is forgotten */
    void *argument;
    char key[32];
    Tarry__Op__OpCase kind;
    size_t size; /* size of the packed commit */
};

static struct {
    char *out; /* bytes that the client has received */
    size_t out_size;
    bool finished, killed, upgraded;
    struct commit commits[COMMITS_MAX];
    unsigned sent; /* number of commits that the gateway got */
    gateway_reply *asked;
    void *asked_by;
    gateway_leased *leased;
    gateway_timeout *timeout;
    void *timeout_of;
    uint64_t after_ms;
    size_t half;
    int64_t held, held_most;
    bool lacks_spare, lacks_memory, lacks_timers;
    size_t spare_size;     /* the largest size for which gateway_has_spare was asked */
    bool holds_only_small; /* the memory limit is reached, so only small requests find room */
    void *connection;
    struct http_server *server;
} world;

/* ---- the gateway */

const char gateway_once_differs[] = "differs";

uint64_t gateway_commit(struct gateway *gateway, const struct gateway_caller *caller, Tarry__Commit *commit,
                        const struct gateway_once *once, gateway_reply *reply, void *argument) {
    struct commit *new = &world.commits[world.sent++];
    assert_in_range(world.sent, 1, COMMITS_MAX);
    *new = (struct commit){.reply = reply, .argument = argument, .kind = commit->ops[0]->op_case};
    new->size = tarry__commit__get_packed_size(commit);
    if (new->kind == TARRY__OP__OP_SCHEDULE) {
        const ProtobufCBinaryData *key = &commit->ops[0]->schedule->key;
        if (key->len > 0) memcpy(new->key, key->data, key->len);
    }
    return world.sent;
}

uint64_t gateway_ask(struct gateway *gateway, const struct gateway_caller *caller, Tarry__Request *request,
                     gateway_reply *reply, void *argument) {
    world.asked = reply;
    world.asked_by = argument;
    return 1000;
}

uint64_t gateway_lease(struct gateway *gateway, const struct gateway_caller *caller,
                       const struct gateway_lease_options *options, gateway_leased *leased, void *argument) {
    world.leased = leased;
    world.asked_by = argument;
    return 1001;
}

void gateway_forget(struct gateway *gateway, uint64_t handle) {
    if (handle > 0 && handle <= world.sent) world.commits[handle - 1].reply = NULL;
}

uint64_t gateway_timer(struct gateway *gateway, uint64_t after_ms, gateway_timeout *timeout, void *argument) {
    assert_null(world.timeout);
    if (world.lacks_timers) return 0;
    world.timeout = timeout;
    world.timeout_of = argument;
    world.after_ms = after_ms;
    return 2000;
}

void gateway_timer_cancel(struct gateway *gateway, uint64_t handle) {
    if (handle == 2000) world.timeout = NULL;
}

bool gateway_has_spare(struct gateway *gateway, const struct gateway_caller *caller, size_t size) {
    if (size > world.spare_size) world.spare_size = size;
    return !world.lacks_spare;
}

Tarry__Code gateway_pay(struct gateway *gateway, const struct gateway_caller *caller, const struct gateway_deed *deed,
                        char sentence[GATEWAY_SENTENCE_SIZE]) {
    if (deed->operations != 1u << TARRY__OP__OP_MOVE) return TARRY__CODE__OK;
    snprintf(sentence, GATEWAY_SENTENCE_SIZE, "you may not");
    return TARRY__CODE__DENIED;
}

void gateway_unpay(struct gateway *gateway, const struct gateway_caller *caller) {}
void gateway_cancel(struct gateway *gateway, uint64_t handle) {}
void gateway_left(struct gateway *gateway, uint64_t handle, bool left) {}
void gateway_who(struct gateway *gateway, const struct gateway_caller *caller, struct gateway_who *out) {}
void gateway_wake(struct gateway_wakeup *wakeup) {}
void gateway_disown(struct gateway *gateway, uint64_t principal) {}
uint64_t gateway_own(struct gateway *gateway) {
    return 1;
}
struct gateway_wakeup *gateway_wakeup(struct gateway *gateway, gateway_timeout *arrived, void *argument) {
    return (struct gateway_wakeup *)&world;
}

/* ---- the door */

const char door_host_refused[] = "unknown host";

void door_stream_send(struct door *door, uint64_t id, struct message *message) {
    world.out = realloc(world.out, world.out_size + message->size + 1);
    assert_non_null(world.out);
    memcpy(world.out + world.out_size, message->bytes, message->size);
    world.out_size += message->size;
    world.out[world.out_size] = '\0';
    message_free(message);
}

bool door_stream_half(struct door *door, uint64_t id, size_t size, bool is_small) {
    if (world.holds_only_small && size > 0 && !is_small) return false;
    world.half = size;
    return true;
}

bool door_stream_hold(struct door *door, int64_t bytes) {
    if (bytes > 0 && world.lacks_memory) return false;
    world.held += bytes;
    if (world.held > world.held_most) world.held_most = world.held;
    return true;
}

bool door_stream_host(struct door *door, uint64_t id, const char *host) {
    return host == NULL || strcmp(host, "evil") != 0;
}

struct caller_verdict door_stream_upgrade(struct door *door, uint64_t id, const struct head *head, const void *behind,
                                          size_t size) {
    world.upgraded = true;
    return (struct caller_verdict){.status = 0};
}

const char *door_token(const struct head_text *authorization, size_t *out_size) {
    *out_size = authorization->text != NULL ? authorization->size : 0;
    return authorization->text != NULL ? authorization->text : "";
}

struct caller_verdict door_stream_admit(struct door *door, uint64_t id, enum caller_place place, const char *path,
                                        const char *token, size_t token_size) {
    return (struct caller_verdict){.principal = 1};
}

bool door_stream_count(struct door *door, uint64_t id, size_t size) {
    return true;
}
bool door_stream_keep(struct door *door, uint64_t id, size_t size) {
    return true;
}
bool door_stream_origin(struct door *door, uint64_t id, const char *origin, const char *host, bool shows_token) {
    return true;
}
bool door_stream_page(struct door *door, uint64_t id, const char *path) {
    return false;
}
size_t door_stream_unsent(struct door *door, uint64_t id) {
    return 0;
}
void door_stream_deadline(struct door *door, uint64_t id, uint64_t after_ms) {}
void door_stream_pause(struct door *door, uint64_t id, bool pause) {}
void door_stream_refused(struct door *door, uint64_t id, unsigned status, const char *sentence) {}
void door_stream_whole(struct door *door, uint64_t id) {}
void door_stream_finish(struct door *door, uint64_t id) {
    world.finished = true;
}
void door_stream_kill(struct door *door, uint64_t id) {
    world.killed = true;
}
bool door_turn_begin(struct door *door, uint64_t id, struct door_turn *out) {
    return true;
}
bool door_turn_goes_on(struct door_turn *turn, size_t bytes) {
    return true;
}
void door_turn_end(struct door *door, uint64_t id, const struct door_turn *turn, bool wants_more) {}

/* ---- a client */

static int begin(void **state) {
    memset(&world, 0, sizeof world);
    world.server = http_server_new(NULL);
    assert_non_null(world.server);
    http_server_serve(world.server, NULL);
    const struct door_stream_calls *calls = http_server_calls(world.server);
    world.connection = calls->opened(calls->argument, ID, "127.0.0.1:1");
    assert_non_null(world.connection);
    world.out = calloc(1, 1);
    return 0;
}

static void leave(void) {
    if (world.connection != NULL) http_server_calls(world.server)->gone(world.connection);
    world.connection = NULL;
}

static int end(void **state) {
    leave();
    assert_int_equal(world.held, 0);
    assert_int_equal(world.half, 0);
    assert_false(world.killed);
    http_server_free(world.server);
    free(world.out);
    return 0;
}

static void renew(void **state) {
    end(state);
    begin(state);
}

static void say(const char *text) {
    http_server_calls(world.server)->received(world.connection, (const uint8_t *)text, strlen(text));
}

/* Appends a request to `text`: schedules the task with this key. */
static void add_schedule(char *text, const char *fields, const char *key) {
    char body[80];
    int size = snprintf(body, sizeof body, "{\"queue\":\"q\",\"key\":\"%s\",\"in\":\"1h\"}", key);
    sprintf(text + strlen(text),
            "POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s",
            fields, size, body);
}

/* Changes the Host of the request that schedules `key` to one that the door refuses. */
static void forge_host(char *text, const char *key) {
    char *host = strstr(strstr(text, key), "Host: x");
    memmove(host + 10, host + 7, strlen(host + 7) + 1);
    memcpy(host, "Host: evil", 10);
}

static void say_schedules(unsigned first, unsigned count) {
    static char text[COMMITS_MAX * 256];
    char key[16];
    text[0] = '\0';
    for (unsigned i = first; i < first + count; i++) {
        snprintf(key, sizeof key, "k%u", i);
        add_schedule(text, "", key);
    }
    say(text);
}

static void reply_to(unsigned i, Tarry__Code code, uint32_t retry_ms) {
    struct commit *commit = &world.commits[i];
    Tarry__Reply reply = TARRY__REPLY__INIT;
    Tarry__CommitReply results = TARRY__COMMIT_REPLY__INIT;
    Tarry__OpResult result = TARRY__OP_RESULT__INIT, *one = &result;
    gateway_reply *tell = commit->reply;
    assert_non_null(tell);
    commit->reply = NULL;
    reply.code = code;
    reply.retry_ms = retry_ms;
    reply.body_case = code == TARRY__CODE__OK ? TARRY__REPLY__BODY_COMMIT : TARRY__REPLY__BODY__NOT_SET;
    results.n_results = 1;
    results.results = &one;
    if (code == TARRY__CODE__OK) reply.commit = &results;
    tell(commit->argument, &reply);
}

static void ok(unsigned i) {
    reply_to(i, TARRY__CODE__OK, 0);
}

/* Checks the responses so far: the status of each, and the key behind it, for example "201 k0 403 201 k2". */
static void assert_got(const char *expected) {
    char got[COMMITS_MAX * 12] = "";
    for (const char *at = world.out; (at = strstr(at, "HTTP/1.1 ")) != NULL; at++) {
        const char *next = strstr(at + 1, "HTTP/1.1 "), *key = strstr(at, "\"key\":\"");
        sprintf(got + strlen(got), "%s%.3s", got[0] != '\0' ? " " : "", at + 9);
        if (key == NULL || (next != NULL && key > next)) continue;
        sprintf(got + strlen(got), " %.*s", (int)strcspn(key + 7, "\""), key + 7);
    }
    assert_string_equal(got, expected);
}

static void assert_sent(unsigned first, unsigned count) {
    char key[16];
    assert_int_equal(world.sent, first + count);
    for (unsigned i = first; i < first + count; i++) {
        snprintf(key, sizeof key, "k%u", i);
        assert_string_equal(world.commits[i].key, key);
    }
}

/* ---- tests */

static void responses_have_the_order_of_the_requests(void **state) {
    say_schedules(0, 4);
    assert_sent(0, 4);
    ok(2);
    ok(1);
    assert_got("");
    ok(0);
    assert_got("201 k0 201 k1 201 k2");
    say_schedules(4, 1);
    assert_sent(0, 5);
    ok(4);
    assert_got("201 k0 201 k1 201 k2");
    ok(3);
    assert_got("201 k0 201 k1 201 k2 201 k3 201 k4");
    assert_false(world.finished);
}

static void a_connection_has_a_bounded_number_under_way(void **state) {
    say_schedules(0, 40);
    assert_sent(0, HTTP_PIPELINED_MAX);
    for (unsigned i = 1; i < HTTP_PIPELINED_MAX; i++)
        ok(i); /* these responses wait for the first one, so their requests still count as in progress */
    assert_sent(0, HTTP_PIPELINED_MAX);
    ok(0);
    assert_sent(0, 2 * HTTP_PIPELINED_MAX);
    ok(HTTP_PIPELINED_MAX);
    assert_sent(0, 2 * HTTP_PIPELINED_MAX + 1);
    for (unsigned i = HTTP_PIPELINED_MAX + 1; i < 40; i++) ok(i);
    assert_int_equal(world.sent, 40);
    assert_in_range(world.held_most, 1, HTTP_PIPELINED_BYTES);
}

/* CALM-1 */
static void the_bytes_of_a_connection_are_bounded(void **state) {
    static char text[HTTP_PIPELINED_MAX * 16000], payload[14000];
    for (unsigned i = 0; i < HTTP_PIPELINED_MAX; i++) {
        memset(payload, 'x', sizeof payload - 1);
        sprintf(text + strlen(text),
                "POST /v1/tasks HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %zu\r\nHost: x\r\n\r\n"
                "{\"queue\":\"q\",\"in\":\"1h\",\"json\":\"%s\"}",
                sizeof "{'queue':'q','in':'1h','json':''}" - 1 + strlen(payload), payload);
    }
    say(text);
    assert_in_range(world.sent, 2, HTTP_PIPELINED_MAX - 1);
    assert_in_range(world.held_most, 1, HTTP_PIPELINED_BYTES);
    for (unsigned i = 0; i < HTTP_PIPELINED_MAX; i++) ok(i);
}

/* Requests that begin only when all earlier ones have their responses. No later request begins before such a request
 * has its own. */
static void a_barrier_is_passed_alone(void **state) {
    static const char *const barriers[] = {
        "GET /v1/tasks/1 HTTP/1.1\r\nHost: x\r\n\r\n",
        "HEAD /v1/tasks/1 HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /v1/lease HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n"
        "{\"queues\":[\"q\"]}",
    };
    for (size_t i = 0; i < sizeof barriers / sizeof barriers[0]; i++) {
        char text[1024] = "";
        add_schedule(text, "", "k0");
        strcat(text, barriers[i]);
        add_schedule(text, "", "k1");
        say(text);
        assert_sent(0, 1);
        assert_null(world.asked_by);
        ok(0);
        assert_got("201 k0");
        assert_non_null(world.asked_by);
        assert_sent(0, 1);
        if (world.leased != NULL) {
            const struct gateway_leased none = {.code = TARRY__CODE__OK};
            world.leased(world.asked_by, &none);
        } else {
            Tarry__Reply reply = TARRY__REPLY__INIT;
            reply.code = TARRY__CODE__BUSY;
            world.asked(world.asked_by, &reply);
        }
        assert_sent(0, 2);
        ok(1);
        assert_non_null(strstr(world.out, "\"key\":\"k1\""));
        renew(state);
    }
}

/* The core first reads the stored tasks that a commit needs, and a later commit that needs none would take effect
 * before it. */
static void no_commit_takes_effect_before_an_earlier_one(void **state) {
    static const char *const alone[] = {
        "POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 69\r\n\r\n"
        "[{\"queue\":\"q\",\"key\":\"a\",\"in\":\"1h\"},{\"queue\":\"q\",\"key\":\"b\",\"in\":\"1h\"}]",
        "POST /v1/queues/q/purge HTTP/1.1\r\nHost: x\r\n\r\n",
        "DELETE /v1/queues/q HTTP/1.1\r\nHost: x\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof alone / sizeof alone[0]; i++) {
        char text[1024] = "";
        add_schedule(text, "", "k0");
        if (i > 0) strcat(text, alone[i]); /* an operation on a queue waits for the earlier commit */
        say(text);
        assert_sent(0, 1);
        ok(0);
        text[0] = '\0';
        if (i == 0) strcat(text, alone[i]);
        add_schedule(text, "", "k1");
        say(text);
        assert_int_equal(world.sent, 2);
        reply_to(1, TARRY__CODE__STOPPING, 0);
        assert_int_equal(world.sent, 3);
        ok(2);
        assert_got("201 k0 503 201 k1");
        renew(state);
    }
}

/* These commits begin only when the connection has no other request in progress. Reasons: the commit ends the
 * connection, takes several steps, or comes from another client. */
static void a_commit_that_is_not_plain_begins_alone(void **state) {
    static const char *const fields[] = {"Idempotency-Key: a\r\n", "Authorization: Bearer other\r\n",
                                         "Origin: http://x\r\n", "Expect: 100-continue\r\n"};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        char text[1024] = "";
        add_schedule(text, "", "k0");
        add_schedule(text, fields[i], "k1");
        add_schedule(text, i == 1 ? fields[i] : "", "k2");
        say(text);
        assert_sent(0, 1);
        ok(0);
        assert_sent(0, i == 0
                           ? 2
                           : 3); /* if the commit has a key, it takes several steps, and the next request must wait */
        ok(1);
        assert_sent(0, 3);
        ok(2);
        assert_got("201 k0 201 k1 201 k2");
        renew(state);
    }
}

static void a_body_that_has_not_come_whole_begins_nothing(void **state) {
    char text[1024] = "";
    add_schedule(text, "", "k0");
    add_schedule(text, "", "k1");
    size_t size = strlen(text);
    char last = text[size - 1];
    text[size - 1] = '\0';
    say(text);
    assert_sent(0, 1);
    assert_int_equal(world.held, 0); /* the second request has not begun while the first one is under way */
    say((const char[]){last, '\0'});
    ok(0);
    assert_sent(0, 2);
    ok(1);
    assert_got("201 k0 201 k1");
}

static void a_refused_request_is_answered_in_its_place(void **state) {
    char text[2048] = "";
    add_schedule(text, "", "k0");
    strcat(text, "PATCH /v1/tasks/1 HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"
                 "{}");
    strcat(text, "POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{,");
    add_schedule(text, "", "k1");
    say(text);
    assert_sent(0, 2);
    ok(1);
    assert_got("");
    ok(0);
    assert_got("201 k0 403 400 201 k1");
    assert_false(world.finished);
}

static void nothing_begins_behind_the_end(void **state) {
    static const char *const ends[] = {
        "Connection: close\r\n", /* makes the server end the connection after the response */
        "Host: x\r\n",           /* malformed: a second Host, which another server may read differently */
    };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char text[1024] = "";
        add_schedule(text, "", "k0");
        add_schedule(text, ends[i], "k1");
        add_schedule(text, "", "k2");
        say(text);
        assert_sent(0, 1);
        assert_false(world.finished);
        ok(0);
        if (i == 0) ok(1);
        assert_got(i == 0 ? "201 k0 201 k1" : "201 k0 400");
        assert_true(world.finished);
        assert_int_equal(world.sent, i == 0 ? 2 : 1);
        renew(state);
    }
}

/* A refusal that ends the connection waits for the earlier responses. */
static void the_end_waits_for_earlier_responses(void **state) {
    char text[1024] = "";
    add_schedule(text, "", "k0");
    add_schedule(text, "", "k1");
    forge_host(text, "k0");
    add_schedule(text, "", "k2");
    say(text);
    assert_sent(0, 1);
    assert_got("");
    assert_false(world.finished);
    ok(0);
    assert_got("201 k0 403");
    assert_true(world.finished);
    assert_sent(0, 1);
}

static void an_upgrade_takes_effect_behind_the_responses(void **state) {
    char text[1024] = "";
    add_schedule(text, "", "k0");
    strcat(text, "GET /rpc HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    say(text);
    assert_false(world.upgraded);
    ok(0);
    assert_got("201 k0");
    assert_true(world.upgraded);
}

static void a_client_that_goes_leaves_nothing(void **state) {
    say_schedules(0, 5);
    ok(3);
    ok(0);
    leave();
    for (unsigned i = 1; i < 5; i++) assert_null(world.commits[i].reply);
    assert_got("201 k0");
}

static void a_half_closed_client_gets_all_responses(void **state) {
    say_schedules(0, 3);
    assert_true(http_server_calls(world.server)->ended(world.connection));
    ok(1);
    ok(0);
    assert_false(world.finished);
    ok(2);
    assert_got("201 k0 201 k1 201 k2");
    assert_true(world.finished);
}

/* A client that has gone looks like a half-closed one, and must get no task. */
static void a_lease_does_not_begin_behind_the_half_close(void **state) {
    char text[1024] = "";
    add_schedule(text, "", "k0");
    strcat(text, "POST /v1/lease HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n"
                 "{\"queues\":[\"q\"]}");
    say(text);
    assert_true(http_server_calls(world.server)->ended(world.connection));
    ok(0);
    assert_got("201 k0");
    assert_true(world.finished);
}

static void without_capacity_requests_are_handled_one_by_one(void **state) {
    for (unsigned i = 0; i < 2; i++) {
        world.lacks_spare = i == 0;
        world.lacks_memory = i == 1;
        say_schedules(0, 3);
        for (unsigned k = 0; k < 3; k++) {
            assert_sent(0, k + 1);
            ok(k);
        }
        assert_got("201 k0 201 k1 201 k2");
        renew(state);
    }
}

/* CAP-1: a small body finds room whatever else is held, also if it arrives in one piece. */
static void a_small_body_always_finds_room(void **state) {
    static char text[DOOR_SMALL_MAX], payload[12000];
    memset(payload, 'x', sizeof payload - 1);
    sprintf(text,
            "POST /v1/tasks HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %zu\r\nHost: x\r\n\r\n"
            "{\"queue\":\"q\",\"in\":\"1h\",\"body\":\"%s\"}",
            sizeof "{'queue':'q','in':'1h','body':''}" - 1 + strlen(payload), payload);
    world.holds_only_small = true;
    say(text);
    assert_int_equal(world.sent, 1);
    ok(0);
}

/* Otherwise the principal's limit of bytes would refuse a commit that it admits alone. */
static void capacity_is_there_for_the_whole_commit(void **state) {
    static const char *const tasks[] = {"{\"in\":\"0\"}", "{\"in\":\"0\",\"json\":1}"};
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
        static char text[2 * DOOR_SMALL_MAX], body[DOOR_SMALL_MAX];
        char queue[QUEUE_NAME_SIZE_MAX + 1] = "";
        memset(queue, 'q', sizeof queue - 1);
        strcpy(body, "[");
        while (strlen(body) + strlen(tasks[i]) + 2 < sizeof body) strcat(strcat(body, tasks[i]), ",");
        body[strlen(body) - 1] = ']';
        text[0] = '\0';
        add_schedule(text, "", "k0");
        sprintf(text + strlen(text),
                "POST /v1/queues/%s/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "
                "%zu\r\n\r\n%s",
                queue, strlen(body), body);
        say(text);
        ok(0);
        assert_int_equal(world.sent, 2);
        assert_in_range(world.commits[1].size, 1, world.spare_size);
        reply_to(1, TARRY__CODE__STOPPING, 0);
        renew(state);
    }
}

/* ---- commits that the broker refuses for a moment */

static void soon(unsigned i) {
    reply_to(i, TARRY__CODE__BUSY, 20);
}

static void pass_time(void) {
    gateway_timeout *timeout = world.timeout;
    assert_non_null(timeout);
    assert_int_equal(world.after_ms, 20);
    world.timeout = NULL;
    timeout(world.timeout_of);
}

static void what_is_busy_for_a_moment_is_sent_again(void **state) {
    say_schedules(0, 1);
    soon(0);
    assert_got("");
    pass_time();
    assert_int_equal(world.sent, 2);
    assert_string_equal(world.commits[1].key, "k0");
    ok(1);
    assert_got("201 k0");
}

static void a_moment_has_an_end(void **state) {
    unsigned i = 0;
    say_schedules(0, 1);
    for (; i < HTTP_RETRIED_MAX_MS / 20; i++) {
        soon(i);
        pass_time();
    }
    soon(i);
    assert_got("503");
    assert_null(world.timeout);
}

static void what_is_busy_for_longer_is_told(void **state) {
    say_schedules(0, 2);
    reply_to(0, TARRY__CODE__BUSY, 0);
    reply_to(1, TARRY__CODE__STOPPING, 20);
    assert_got("503 503");
    assert_int_equal(world.sent, 2);
}

static void without_a_timer_it_is_told(void **state) {
    world.lacks_timers = true;
    say_schedules(0, 2);
    soon(0);
    soon(1);
    assert_got("503 503");
    say_schedules(2, 1); /* the connection stays open after the refusals */
    ok(2);
    assert_got("503 503 201 k2");
}

static void what_is_sent_again_keeps_its_order(void **state) {
    say_schedules(0, 3);
    soon(2);
    assert_null(world.timeout); /* the other commits may still be executed, so no request is repeated yet */
    soon(0);
    say_schedules(3, 1);
    soon(1);
    assert_int_equal(world.sent, 3); /* no new request begins before the postponed ones */
    pass_time();
    assert_int_equal(world.sent, 7);
    for (unsigned i = 0; i < 4; i++) assert_int_equal(world.commits[3 + i].key[1], '0' + i);
    for (unsigned i = 3; i < 7; i++) ok(i);
    assert_got("201 k0 201 k1 201 k2 201 k3");
}

static void what_was_overtaken_is_not_sent_again(void **state) {
    say_schedules(0, 4);
    soon(0);
    ok(1);
    soon(2);
    assert_got("");
    soon(3);
    assert_got(
        "503 201 k1"); /* 503: the first commit is not sent again, because it would take effect after the second */
    pass_time();
    assert_int_equal(world.sent, 6);
    assert_string_equal(world.commits[4].key, "k2");
    assert_string_equal(world.commits[5].key, "k3");
    ok(4);
    ok(5);
    assert_got("503 201 k1 201 k2 201 k3");
}

static void what_is_busy_before_the_end_is_told(void **state) {
    char text[1024] = "";
    add_schedule(text, "", "k0");
    add_schedule(text, "", "k1");
    add_schedule(text, "", "k2");
    forge_host(text, "k1");
    say(text);
    assert_sent(0, 2);
    soon(0);
    ok(1);
    assert_got("503 201 k1 403");
    assert_true(world.finished);
}

static void a_client_that_goes_is_not_sent_again(void **state) {
    say_schedules(0, 2);
    soon(0);
    soon(1);
    leave();
    assert_null(world.timeout);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(responses_have_the_order_of_the_requests),
        TEST(a_connection_has_a_bounded_number_under_way),
        TEST(the_bytes_of_a_connection_are_bounded),
        TEST(a_barrier_is_passed_alone),
        TEST(no_commit_takes_effect_before_an_earlier_one),
        TEST(a_commit_that_is_not_plain_begins_alone),
        TEST(a_body_that_has_not_come_whole_begins_nothing),
        TEST(a_refused_request_is_answered_in_its_place),
        TEST(nothing_begins_behind_the_end),
        TEST(the_end_waits_for_earlier_responses),
        TEST(an_upgrade_takes_effect_behind_the_responses),
        TEST(a_client_that_goes_leaves_nothing),
        TEST(a_half_closed_client_gets_all_responses),
        TEST(a_lease_does_not_begin_behind_the_half_close),
        TEST(a_small_body_always_finds_room),
        TEST(capacity_is_there_for_the_whole_commit),
        TEST(without_capacity_requests_are_handled_one_by_one),
        TEST(what_is_busy_for_a_moment_is_sent_again),
        TEST(a_moment_has_an_end),
        TEST(what_is_busy_for_longer_is_told),
        TEST(without_a_timer_it_is_told),
        TEST(what_is_sent_again_keeps_its_order),
        TEST(what_was_overtaken_is_not_sent_again),
        TEST(what_is_busy_before_the_end_is_told),
        TEST(a_client_that_goes_is_not_sent_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
