/* rpc_client_test.c: the client with which one node of a pair sends requests to the other (broker/peer/rpc_client.h),
 * against a server in this process that the test controls byte by byte. */
#include "rpc_client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "ws_frame.h"
#include "ws_handshake.h"

#define ANSWER_MAX (1u << 20)
#define PATIENCE_MS 10000
#define LONG_MS 600000u /* ms; timeout of a request, which passes only when a test advances the clock */
#define ID_SIZE 4u

/* Time in ms that a test adds to the machine's clock, as the client sees it. */
static _Atomic uint64_t passed_ms;

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out) {
    const int rv = __real_clock_gettime(clock, out);
    if (clock == CLOCK_MONOTONIC) out->tv_sec += (time_t)(atomic_load(&passed_ms) / 1000);
    return rv;
}

struct fixture {
    int listener;
    int peer; /* descriptor of the accepted connection; -1: none */
    struct listen_address address;
    struct rpc_client *client;
    struct ws_decoder decoder;
    uint8_t in[2 * ANSWER_MAX]; /* received bytes after the upgrade request */
    size_t in_size;
    char head[4096]; /* the last upgrade request */
    sem_t answered;
    struct message *answer;
    atomic_uint losses;
};

static void on_answer(void *argument, struct message *answer) {
    struct fixture *f = argument;
    f->answer = answer;
    sem_post(&f->answered);
}

static void on_lost(void *argument) {
    atomic_fetch_add(&((struct fixture *)argument)->losses, 1);
}

static bool show_token(const void *argument, char out[RPC_CLIENT_TOKEN_SIZE]) {
    snprintf(out, RPC_CLIENT_TOKEN_SIZE, "tarry_node");
    return true;
}

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof(*f));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    const struct peer_credentials credentials = {.token = show_token};
    char url[64];
    const char *problem;
    assert_non_null(f);
    f->peer = -1;
    sem_init(&f->answered, 0, 0);
    f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(f->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(f->listener, 8), 0);
    assert_int_equal(getsockname(f->listener, (struct sockaddr *)&address, &size), 0);
    snprintf(url, sizeof(url), "ws://127.0.0.1:%d", ntohs(address.sin_port));
    assert_true(listen_parse_peer(url, &f->address, &problem));
    assert_int_equal(rpc_client_open(&f->client, &f->address, &credentials, ANSWER_MAX, on_answer, f), 0);
    rpc_client_tell_lost(f->client, on_lost);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    rpc_client_close(f->client);
    message_free(f->answer);
    if (f->peer >= 0) close(f->peer);
    if (f->listener >= 0) close(f->listener);
    sem_destroy(&f->answered);
    free(f);
    return 0;
}

static void ask(struct fixture *f, const char *text, size_t size, unsigned time_ms) {
    struct message *question = message_new(size);
    assert_non_null(question);
    memset(question->bytes, 'q', size);
    memcpy(question->bytes, text, strlen(text));
    rpc_client_ask(f->client, question, time_ms);
}

/* Waits for the result of a request. Returns the reply without its id, as text; NULL: no reply. */
static const char *result(struct fixture *f) {
    static char text[64];
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_MS / 1000;
    assert_int_equal(sem_timedwait(&f->answered, &until), 0);
    if (f->answer == NULL) return NULL;
    snprintf(text, sizeof(text), "%.*s", (int)message_size(f->answer), (const char *)message_data(f->answer));
    message_free(f->answer);
    f->answer = NULL;
    return text;
}

/* ---- the server */

static void say(struct fixture *f, const void *bytes, size_t size) {
    for (size_t at = 0; at < size;) {
        const ssize_t gave = send(f->peer, (const char *)bytes + at, size - at, MSG_NOSIGNAL);
        assert_true(gave > 0);
        at += (size_t)gave;
    }
}

/* Waits for data and receives what has arrived. Returns 0 at the end of the connection. */
static size_t receive(struct fixture *f, void *out, size_t size) {
    struct pollfd ready = {.fd = f->peer, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
    const ssize_t took = recv(f->peer, out, size, 0);
    return took > 0 ? (size_t)took : 0;
}

static void hang_up(struct fixture *f) {
    close(f->peer);
    f->peer = -1;
}

/* Accepts a connection and reads its upgrade request. */
static void take_connection(struct fixture *f) {
    struct pollfd ready = {.fd = f->listener, .events = POLLIN};
    size_t size = 0;
    assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
    f->peer = accept(f->listener, NULL, NULL);
    assert_true(f->peer >= 0);
    while (size < 4 || memcmp(f->head + size - 4, "\r\n\r\n", 4) != 0) {
        const size_t took = receive(f, f->head + size, sizeof(f->head) - 1 - size);
        assert_int_not_equal(took, 0);
        size += took;
    }
    f->head[size] = '\0';
    f->in_size = 0;
    ws_decoder_init(&f->decoder, WS_SERVER, UINT64_MAX, UINT64_MAX);
}

static void let_in(struct fixture *f) {
    char response[512], key[WS_KEY_SIZE + 1];
    take_connection(f);
    const char *at = strstr(f->head, "Sec-WebSocket-Key: ");
    assert_non_null(at);
    snprintf(key, sizeof(key), "%s", at + strlen("Sec-WebSocket-Key: "));
    assert_true(ws_key_is_valid(key, strlen(key)));
    say(f, response, ws_response(key, "rep.sp.nanomsg.org", response, sizeof(response)));
}

/* Reads one request. Returns its id; *out_size: its bytes after the id. NULL: the connection ended first. */
static const uint8_t *take_request(struct fixture *f, size_t *out_size) {
    static uint8_t message[2 * ANSWER_MAX];
    size_t size = 0;
    for (;;) {
        uint8_t bytes[65536];
        struct ws_event event;
        const size_t took = receive(f, bytes, sizeof(bytes));
        if (took == 0) return NULL;
        for (size_t at = 0; at < took;) {
            at += ws_decode(&f->decoder, bytes + at, took - at, &event);
            if (event.kind == WS_GOT_CLOSE) return NULL;
            if (event.kind != WS_DATA) continue;
            memcpy(message + size, event.data, event.size);
            size += event.size;
            if (!event.ends_message) continue;
            assert_int_equal(at, took); /* nothing more has arrived, because only one request is sent at a time */
            assert_in_range(size, ID_SIZE, sizeof(message));
            *out_size = size - ID_SIZE;
            return message;
        }
    }
}

static void expect_request(struct fixture *f, uint8_t id[ID_SIZE], const char *text, size_t text_size) {
    size_t size = 0;
    const uint8_t *request = take_request(f, &size);
    assert_non_null(request);
    memcpy(id, request, ID_SIZE);
    assert_true((id[0] & 0x80) != 0);
    assert_int_equal(size, text_size);
    assert_memory_equal(request + ID_SIZE, text, strlen(text));
}

/* Sends a fragment of a reply; the first fragment also has the request's id. */
static void reply_part(struct fixture *f, const uint8_t *id, const char *text, bool is_last) {
    uint8_t room[WS_HEAD_MAX + ID_SIZE + 64], *payload = room + WS_HEAD_MAX;
    size_t size = 0;
    if (id != NULL) memcpy(payload, id, size = ID_SIZE);
    memcpy(payload + size, text, strlen(text));
    size += strlen(text);
    const size_t head_size = ws_seal(id != NULL ? WS_BINARY : WS_CONTINUATION, is_last, payload, size, NULL);
    say(f, payload - head_size, head_size + size);
}

/* ---- tests */

static void a_request_is_answered_on_one_connection(void **state) {
    struct fixture *f = *state;
    uint8_t first[ID_SIZE], second[ID_SIZE];
    ask(f, "one", 3, LONG_MS);
    let_in(f);
    assert_int_equal(strncmp(f->head, "GET /rpc HTTP/1.1\r\n", 19), 0);
    assert_non_null(strstr(f->head, "\r\nSec-WebSocket-Protocol: rep.sp.nanomsg.org\r\n"));
    assert_non_null(strstr(f->head, "\r\nAuthorization: Bearer tarry_node\r\n"));
    expect_request(f, first, "one", 3);
    reply_part(f, first, "1", true);
    assert_string_equal(result(f), "1");
    ask(f, "two", 3, LONG_MS);
    expect_request(f, second, "two", 3);
    assert_memory_not_equal(first, second, ID_SIZE);
    reply_part(f, second, "a", false);
    reply_part(f, NULL, "b", false);
    reply_part(f, NULL, "c", true);
    assert_string_equal(result(f), "abc");
    assert_int_equal(atomic_load(&f->losses), 0);
}

/* A request whose connection breaks is sent again on a new connection, also after a refused upgrade. */
static void a_request_survives_broken_connections(void **state) {
    struct fixture *f = *state;
    uint8_t id[ID_SIZE];
    ask(f, "one", 3, LONG_MS);
    take_connection(f);
    hang_up(f);
    take_connection(f);
    say(f, "HTTP/1.1 503 x\r\n\r\n", 18);
    hang_up(f);
    let_in(f);
    expect_request(f, id, "one", 3);
    hang_up(f);
    let_in(f);
    expect_request(f, id, "one", 3);
    reply_part(f, id, "half", false);
    hang_up(f);
    let_in(f);
    expect_request(f, id, "one", 3);
    say(f, "\x83\x00", 2); /* the opcode of this frame is not defined */
    assert_null(take_request(f, &(size_t){0}));
    hang_up(f);
    let_in(f);
    expect_request(f, id, "one", 3);
    reply_part(f, id, "whole", true);
    assert_string_equal(result(f), "whole");
    assert_in_range(atomic_load(&f->losses), 5, UINT32_MAX);
}

/* A newer request replaces the current one, whose late reply is dropped. */
static void a_newer_request_replaces_the_current_one(void **state) {
    struct fixture *f = *state;
    uint8_t first[ID_SIZE], second[ID_SIZE];
    ask(f, "one", 3, LONG_MS);
    let_in(f);
    expect_request(f, first, "one", 3);
    ask(f, "two", 3, LONG_MS);
    expect_request(f, second, "two", 3);
    reply_part(f, first, "late", true);
    reply_part(f, second, "2", true);
    assert_string_equal(result(f), "2");
    assert_int_equal(atomic_load(&f->losses), 0);
}

/* If the server does not read a request, no other request can follow it on that connection. So the connection is
 * closed. */
static void a_half_sent_request_ends_its_connection(void **state) {
    struct fixture *f = *state;
    uint8_t id[ID_SIZE];
    const size_t large = 64u << 20; /* more than the buffers of both sockets can hold */
    ask(f, "large", large, LONG_MS);
    let_in(f);
    uint8_t byte;
    assert_int_equal(receive(f, &byte, 1), 1); /* one byte shows that the client has begun to send the request */
    ask(f, "small", 5, LONG_MS);
    int former = f->peer;
    let_in(f);
    expect_request(f, id, "small", 5);
    reply_part(f, id, "s", true);
    assert_string_equal(result(f), "s");
    close(former);
}

/* Sends a ping and waits for its pong. Then the client has read everything that was sent before. */
static void synchronize(struct fixture *f) {
    uint8_t bytes[64];
    struct ws_event event = {.kind = WS_NEEDS_MORE};
    say(f, "\x89\x00", 2);
    while (event.kind == WS_NEEDS_MORE) {
        const size_t took = receive(f, bytes, sizeof(bytes));
        assert_int_not_equal(took, 0);
        (void)ws_decode(&f->decoder, bytes, took, &event);
    }
    assert_int_equal(event.kind, WS_GOT_PONG);
}

/* F-27: each part of a reply restarts the timeout. If no part comes, the request ends and its connection is closed. */
static void a_reply_may_take_long_if_it_makes_progress(void **state) {
    struct fixture *f = *state;
    uint8_t id[ID_SIZE];
    enum { PARTS = 5 };
    ask(f, "one", 3, LONG_MS);
    let_in(f);
    expect_request(f, id, "one", 3);
    reply_part(f, id, "", false);
    for (int i = 0; i < PARTS; i++) {
        synchronize(f);
        atomic_fetch_add(&passed_ms, LONG_MS / 2); /* all parts together take longer than twice the timeout */
        reply_part(f, NULL, "x", i == PARTS - 1);
    }
    assert_string_equal(result(f), "xxxxx");
    ask(f, "two", 3, LONG_MS);
    expect_request(f, id, "two", 3);
    reply_part(f, id, "half", false);
    synchronize(f);
    atomic_fetch_add(&passed_ms, LONG_MS);
    say(f, "\x89\x00", 2); /* a ping wakes the client, but does not restart the timeout */
    assert_null(result(f));
    assert_null(take_request(f, &(size_t){0}));
}

static void a_reply_above_the_limit_ends_the_connection(void **state) {
    struct fixture *f = *state;
    uint8_t id[ID_SIZE], head[WS_HEAD_MAX];
    ask(f, "one", 3, LONG_MS);
    let_in(f);
    expect_request(f, id, "one", 3);
    say(f, head, ws_head(head, WS_BINARY, true, ANSWER_MAX + 1, NULL));
    assert_null(take_request(f, &(size_t){0}));
    hang_up(f);
    let_in(f);
    expect_request(f, id, "one", 3);
    reply_part(f, id, "1", true);
    assert_string_equal(result(f), "1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_request_is_answered_on_one_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(a_request_survives_broken_connections, setup, teardown),
        cmocka_unit_test_setup_teardown(a_newer_request_replaces_the_current_one, setup, teardown),
        cmocka_unit_test_setup_teardown(a_half_sent_request_ends_its_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reply_may_take_long_if_it_makes_progress, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reply_above_the_limit_ends_the_connection, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
