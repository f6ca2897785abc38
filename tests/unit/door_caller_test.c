/* door_caller_test.c: before the door accepts an upgrade or answers a page, it asks whether the caller may do so. The
 * door then acts according to this verdict (broker/net/caller.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../must.h"
#include "door.h"
#include "gateway_host.h"
#include "http_server.h"

#define WAIT_MS 8000
#define STOP_MAX_S 60
#define PRINCIPALS 8

/* Records calls from the door's thread. A test reads this only after the effects of the calls have arrived. */
static struct {
    struct door *door;
    uint16_t port;
    char directory[64];
    struct listen_address local;
    struct listen_socket local_socket;
    struct caller_verdict verdict; /* verdict that the next callers will get */
    atomic_uint asked;
    struct net_caller caller; /* the last caller, with its texts below */
    char path[64], token[64];
    atomic_uint dismissed[PRINCIPALS];
    atomic_bool revoked[PRINCIPALS];
    atomic_bool is_full;
    atomic_uint offered;     /* number of times that the door offered a request, repeated offers included */
    atomic_ulong request_of; /* principal of the last request */
    atomic_ulong request_from;
    char peer[64]; /* address of the connection's peer */
} world;

static struct caller_verdict admit(void *argument, const struct net_caller *caller) {
    world.caller = *caller;
    snprintf(world.peer, sizeof(world.peer), "%s", caller->peer);
    snprintf(world.path, sizeof(world.path), "%s", caller->path);
    snprintf(world.token, sizeof(world.token), "%.*s", (int)caller->token_size, caller->token);
    atomic_fetch_add(&world.asked, 1);
    return world.verdict;
}

static void dismiss(void *argument, uint64_t principal, uint64_t id) {
    atomic_fetch_add(&world.dismissed[principal], 1);
}

static bool stays(void *argument, uint64_t principal) {
    return !atomic_load(&world.revoked[principal]);
}

/* Answers a request with a copy of it, if there is space. */
static bool request(void *argument, uint64_t from, uint64_t principal, const char *peer, struct message *request) {
    atomic_fetch_add(&world.offered, 1);
    if (atomic_load(&world.is_full)) return false;
    atomic_store(&world.request_of, principal);
    atomic_store(&world.request_from, from);
    struct message *answer = message_new(message_size(request));
    MUST(answer != NULL);
    memcpy(answer->bytes, message_data(request), message_size(request));
    message_put_head(answer, message_head(request), request->head_size);
    message_free(request);
    door_answer(world.door, from, answer);
    return true;
}

static bool page(void *argument, uint64_t id, const char *path) {
    struct message *page = message_new(2);
    MUST(page != NULL);
    memcpy(page->bytes, "ok", 2);
    page->status = 200;
    page->type = "text/plain";
    door_page(world.door, id, page);
    return true;
}

static uint64_t lane_asks(void *argument, uint32_t lane, const char *authorization) {
    return authorization != NULL && strcmp(authorization, "Bearer secret") == 0 ? 77 : 0;
}

static bool lane_up(void *argument, uint32_t lane, uint64_t holder, uint64_t id) {
    return true;
}

static void lane_gone(void *argument, uint32_t lane, uint64_t id) {}

static void refused(void *argument, const char *peer, unsigned status, const char *sentence) {}

static void served(void *argument) {}

static void resumed(void *argument) {}

static int open_door(void **state) {
    static const struct gateway_calls nobody;
    struct gateway *gateway = gateway_new(&nobody);
    struct http_server *http = gateway != NULL ? http_server_new(gateway) : NULL;
    if (http == NULL) return 1;
    const struct door_calls calls = {.admit = admit,
                                     .dismiss = dismiss,
                                     .stays = stays,
                                     .request = request,
                                     .lane_asks = lane_asks,
                                     .lane_up = lane_up,
                                     .lane_gone = lane_gone,
                                     .page = page,
                                     .served = served,
                                     .resumed = resumed,
                                     .refused = refused};
    const struct door_limits limits = {.request_max = 1 << 20,
                                       .held_max = 1 << 20,
                                       .connections_max = 64,
                                       .origins = "",
                                       .http = http_server_calls(http)};
    struct listen_address where = {.host = "127.0.0.1"}, local = {.scheme = LISTEN_UNIX};
    struct listen_socket tcp, unix_socket;
    snprintf(world.directory, sizeof(world.directory), "/tmp/tarry-door-XXXXXX");
    if (mkdtemp(world.directory) == NULL) return 1;
    snprintf(local.host, sizeof(local.host), "%s/socket", world.directory);
    world.door = door_new(&calls, &limits);
    if (world.door == NULL || listen_open(&where, &tcp) != 0 || listen_open(&local, &unix_socket) != 0) return 1;
    gateway_serve(gateway, world.door);
    http_server_serve(http, world.door);
    world.port = where.port;
    world.local = local;
    world.local_socket = unix_socket;
    door_add(world.door, tcp.fd, false, NULL);
    door_add(world.door, unix_socket.fd, false, NULL);
    return door_start(world.door);
}

/* Closes the door. Every request has been answered, so the door need not wait. If it waits, an alarm ends this process.
 */
static int close_door(void **state) {
    alarm(STOP_MAX_S);
    door_stop(world.door, 2000 * STOP_MAX_S);
    alarm(0);
    listen_remove(&world.local, &world.local_socket);
    return rmdir(world.directory); /* fails if the directory is not empty */
}

static int begin(void **state) {
    world.verdict = (struct caller_verdict){0};
    atomic_store(&world.asked, 0);
    for (int i = 0; i < PRINCIPALS; i++) {
        atomic_store(&world.dismissed[i], 0);
        atomic_store(&world.revoked[i], false);
    }
    return 0;
}

/* ---- a client without the library */

static int dial(void) {
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons(world.port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST(fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0);
    return fd;
}

/* Reads until `end` arrives or the connection is closed; NULL: until it is closed. */
static const char *hear(int fd, const char *end) {
    static char heard[2048];
    size_t size = 0;
    for (heard[0] = '\0'; end == NULL || strstr(heard, end) == NULL;) {
        struct pollfd waits = {.fd = fd, .events = POLLIN};
        MUST(poll(&waits, 1, WAIT_MS) == 1 && size < sizeof(heard) - 1);
        ssize_t part = read(fd, heard + size, sizeof(heard) - 1 - size);
        if (part <= 0) break;
        size += (size_t)part;
        heard[size] = '\0';
    }
    return heard;
}

static const char *ask(int fd, const char *path, const char *more, const char *end) {
    char text[1024];
    int size = snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: door\r\n%s\r\n", path, more);
    MUST(write(fd, text, (size_t)size) == size);
    return hear(fd, end);
}

#define UPGRADE(protocol)                                                                                              \
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OTAxMjM0NQ==\r\n"                     \
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: " protocol "\r\n"
#define RPC UPGRADE("rep.sp.nanomsg.org")
#define LANE UPGRADE("push.sp.nanomsg.org")

static int dial_as(uint64_t principal) {
    world.verdict = (struct caller_verdict){.principal = principal};
    int fd = dial();
    assert_non_null(strstr(ask(fd, "/rpc", RPC, "\r\n\r\n"), " 101 "));
    return fd;
}

static void send_request(int fd) {
    static const uint8_t frame[] = {0x82, 0x80 | 5, 0, 0, 0, 0, 0x80, 0, 0, 1, 'x'};
    MUST(write(fd, frame, sizeof(frame)) == sizeof(frame));
}

static void hear_answer(int fd) {
    uint8_t answer[7];
    MUST(recv(fd, answer, sizeof(answer), MSG_WAITALL) == sizeof(answer));
    assert_memory_equal(answer, "\x82\5\x80\0\0\1x", sizeof(answer));
}

/* Sends one request and reads its answer. */
static void exchange(int fd) {
    send_request(fd);
    hear_answer(fd);
}

static void await_dismissed(unsigned principal, unsigned times) {
    for (int ms = 0; atomic_load(&world.dismissed[principal]) < times; ms++) {
        MUST(ms < WAIT_MS);
        usleep(1000);
    }
}

/* ---- stories */

static void who_is_not_let_in_hears_why(void **state) {
    static const struct {
        unsigned status;
        const char *head;
    } kinds[] = {{401, "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer"},
                 {403, "HTTP/1.1 403 Forbidden\r\n"},
                 {429, "HTTP/1.1 429 Too Many Requests\r\nRetry-After: "}};
    char longest[CALLER_SENTENCE_MAX + 1] = "";
    memset(longest, 'x', CALLER_SENTENCE_MAX);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        for (int upgrades = 0; upgrades < 2; upgrades++) {
            world.verdict = (struct caller_verdict){.status = kinds[i].status, .sentence = longest, .principal = 1};
            int fd = dial();
            const char *heard = ask(fd, upgrades ? "/rpc" : "/metrics", upgrades ? RPC : "", NULL);
            assert_ptr_equal(strstr(heard, kinds[i].head), heard);
            assert_non_null(strstr(heard, longest));
            close(fd);
        }
    }
    assert_int_equal(atomic_load(&world.asked), 6);
    /* No end of a connection is reported (dismissed), because no connection was accepted. */
    assert_int_equal(atomic_load(&world.dismissed[1]), 0);
}

static void the_callee_is_told_who_and_where(void **state) {
    int fd = dial();
    assert_non_null(strstr(ask(fd, "/metrics", "Authorization: bearer  tarry_abc\r\n", "\r\n\r\nok"), " 200 "));
    assert_string_equal(world.path, "/metrics");
    assert_string_equal(world.token, "tarry_abc");
    assert_int_equal(world.caller.place, CALLER_PAGE);
    assert_int_equal(world.caller.way, CALLER_LOOPBACK);
    assert_false(world.caller.over_tls);
    close(fd);
    fd = dial();
    assert_non_null(strstr(ask(fd, "/healthz", "", "\r\n\r\nok"), " 200 "));
    assert_string_equal(world.token, "");
    assert_int_equal(world.caller.token_size, 0);
    close(fd);
    fd = dial();
    assert_non_null(strstr(ask(fd, "/lane/7", LANE "Authorization: Bearer secret\r\n", "\r\n\r\n"), " 101 "));
    assert_int_equal(world.caller.place, CALLER_LANE);
    assert_int_equal(world.caller.session, 77);
    assert_string_equal(world.path, "/lane/7");
    close(fd);
}

/* Some client libraries cannot send HTTP headers, so the secret may be in the path. The callback does not get it. */
static void a_lanes_secret_may_stand_in_the_path(void **state) {
    static const struct {
        const char *path, *more, *status;
    } tries[] = {{"/lane/7/secret", LANE, " 101 "},
                 {"/lane/7/Secret", LANE, " 401 "},
                 {"/lane/7/secret/", LANE, " 401 "},
                 {"/lane/7/", LANE, " 401 "},
                 {"/lane/7secret", LANE, " 404 "},
                 {"/lane//secret", LANE, " 404 "},
                 {"/lane/7/secret", LANE "Authorization: Bearer secret\r\n", " 400 "},
                 {"/lane/7/nonsense", LANE "Authorization: Bearer secret\r\n", " 400 "},
                 {"/lane/7/secret", LANE "Authorization:\r\n", " 400 "},
                 {"/rpc/secret", RPC, " 404 "}};
    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        world.path[0] = '\0';
        int fd = dial();
        assert_non_null(strstr(ask(fd, tries[i].path, tries[i].more, "\r\n\r\n"), tries[i].status));
        close(fd);
        assert_string_equal(world.path, i == 0 ? "/lane/7" : "");
    }
}

static void who_comes_by_a_unix_socket_is_known(void **state) {
    char peer[64];
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    memcpy(to.sun_path, world.local.host, strlen(world.local.host) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    assert_non_null(strstr(ask(fd, "/rpc", RPC, "\r\n\r\n"), " 101 "));
    exchange(fd);
    assert_int_equal(world.caller.way, CALLER_UNIX);
    assert_int_equal(world.caller.uid, geteuid());
    assert_int_equal(world.caller.pid, getpid());
    snprintf(peer, sizeof(peer), "unix:uid=%u,pid=%d", geteuid(), getpid());
    assert_string_equal(world.peer, peer);
    close(fd);
}

static void what_is_no_bearer_is_not_taken_for_nothing(void **state) {
    static const char *const odd[] = {"Authorization: Basic dGFycnk6\r\n", "Authorization: Bearer\r\n",
                                      "Authorization: Bearer \r\n",        "Authorization: Bearer two words\r\n",
                                      "Authorization: tarry_abc\r\n",      "Authorization:\r\n"};
    char longer[700] = "Authorization: Bearer ";
    memset(longer + strlen(longer), 'x', 600);
    strcat(longer, "\r\n");
    for (size_t i = 0; i <= sizeof(odd) / sizeof(odd[0]); i++) {
        const char *line = i < sizeof(odd) / sizeof(odd[0]) ? odd[i] : longer;
        char upgrade[1024];
        snprintf(upgrade, sizeof(upgrade), "%s%s", RPC, line);
        for (int upgrades = 0; upgrades < 2; upgrades++) {
            int fd = dial();
            const char *heard = ask(fd, upgrades ? "/rpc" : "/metrics", upgrades ? upgrade : line, NULL);
            if (strstr(heard, " 401 ") == NULL) fail_msg("%s: %s", line, heard);
            close(fd);
        }
    }
    assert_int_equal(atomic_load(&world.asked), 0);
}

static void a_request_comes_with_its_connections_principal(void **state) {
    int three = dial_as(3), four = dial_as(4);
    exchange(four);
    assert_int_equal(atomic_load(&world.request_of), 4);
    exchange(three);
    assert_int_equal(atomic_load(&world.request_of), 3);
    close(three);
    await_dismissed(3, 1);
    exchange(four);
    close(four);
    await_dismissed(4, 1);
    assert_int_equal(atomic_load(&world.dismissed[3]), 1);
    assert_int_equal(atomic_load(&world.dismissed[4]), 1);
}

static void await_offers(unsigned count) {
    for (int ms = 0; atomic_load(&world.offered) < count; ms++) {
        MUST(ms < WAIT_MS);
        usleep(1000);
    }
}

/* When there may be space again, the door offers the first waiting request again, and then the others in their order.
 */
static void requests_wait_for_room(void **state) {
    int three = dial_as(3), four = dial_as(4);
    atomic_store(&world.offered, 0);
    atomic_store(&world.is_full, true);
    send_request(three);
    await_offers(1);
    door_resume(world.door);
    await_offers(2);
    send_request(four);
    int five = dial();
    /* The reply to connection five shows that the door has read the data of the other connections too. */
    (void)ask(five, "/healthz", "", "ok");
    close(five);
    atomic_store(&world.is_full, false);
    door_resume(world.door);
    hear_answer(three);
    hear_answer(four);
    assert_int_equal(atomic_load(&world.request_of), 4);
    exchange(three);
    assert_int_equal(atomic_load(&world.offered), 5);
    close(three);
    close(four);
}

static void each_page_is_dismissed(void **state) {
    world.verdict.principal = 5;
    for (unsigned i = 1; i <= 3; i++) {
        int fd = dial();
        (void)ask(fd, "/metrics", "Connection: close\r\n", NULL);
        close(fd);
        await_dismissed(5, i);
    }
    world.verdict = (struct caller_verdict){.status = 403, .sentence = "no"};
    int fd = dial();
    assert_non_null(strstr(ask(fd, "/metrics", "", NULL), " 403 "));
    close(fd);
    (void)ask(fd = dial(), "/metrics", "Connection: close\r\n",
              NULL); /* when this request is answered, the first connection is closed */
    close(fd);
    assert_int_equal(atomic_load(&world.dismissed[5]), 3);
}

/* Dials; returns the connection and its id. */
static int dial_known(uint64_t *out_id) {
    int fd = dial_as(6);
    exchange(fd);
    *out_id = atomic_load(&world.request_from);
    return fd;
}

static void an_end_that_is_asked_for_comes_and_to_nobody_else(void **state) {
    uint64_t ids[5];
    int fds[5];
    for (int i = 0; i < 5; i++) fds[i] = dial_known(&ids[i]);
    door_close(world.door, ids[0]);
    door_close(world.door, ids[0]);
    assert_string_equal(hear(fds[0], NULL), "");
    await_dismissed(6, 1);
    uint64_t id;
    int fd = dial_known(&id); /* this connection gets the place of the first one in the table */
    assert_int_equal(id & UINT16_MAX, ids[0] & UINT16_MAX);
    door_close(world.door, ids[0]);
    exchange(fd);
    exchange(fd);
    for (int i = 1; i < 4; i++) { /* each kind of close ends the connection at once */
        if (i == 2) door_linger(world.door, ids[i]);
        door_close(world.door, ids[i]);
        if (i == 3) door_linger(world.door, ids[i]);
    }
    for (int i = 1; i < 4; i++) assert_string_equal(hear(fds[i], NULL), "");
    exchange(fds[4]);
    door_close(world.door, id); /* the connection is closed already, so its id has no effect */
    assert_string_equal(hear(fd, NULL), "");
    for (int i = 0; i < 5; i++) close(fds[i]);
    close(fd);
}

static void a_review_ends_who_may_not_stay_and_nobody_else(void **state) {
    int one = dial_as(1), two = dial_as(2), again = dial_as(1);
    exchange(one);
    atomic_store(&world.revoked[1], true);
    door_review(world.door);
    assert_string_equal(hear(one, NULL), "");
    assert_string_equal(hear(again, NULL), "");
    await_dismissed(1, 2);
    exchange(two);
    door_review(world.door);
    exchange(two);
    assert_int_equal(atomic_load(&world.dismissed[2]), 0);
    close(one);
    close(again);
    close(two);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(who_is_not_let_in_hears_why, begin),
        cmocka_unit_test_setup(the_callee_is_told_who_and_where, begin),
        cmocka_unit_test_setup(a_lanes_secret_may_stand_in_the_path, begin),
        cmocka_unit_test_setup(who_comes_by_a_unix_socket_is_known, begin),
        cmocka_unit_test_setup(what_is_no_bearer_is_not_taken_for_nothing, begin),
        cmocka_unit_test_setup(a_request_comes_with_its_connections_principal, begin),
        cmocka_unit_test_setup(requests_wait_for_room, begin),
        cmocka_unit_test_setup(each_page_is_dismissed, begin),
        cmocka_unit_test_setup(an_end_that_is_asked_for_comes_and_to_nobody_else, begin),
        cmocka_unit_test_setup(a_review_ends_who_may_not_stay_and_nobody_else, begin),
    };
    return cmocka_run_group_tests(tests, open_door, close_door);
}
