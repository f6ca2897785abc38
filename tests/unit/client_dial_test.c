/* client_dial_test.c: how libtarry connects, and that it closes a dialer only while it rests (client/lib/dial.c).
 *
 * nng 1.5.2 hangs or panics if a WebSocket dialer is closed while its connection comes about, or while nobody answers
 * there. No test meets that reliably, so the linker leads the library's calls of nng_dialer_start and nng_dialer_close
 * through here (--wrap), and every close is held against what is known of the dialer: a try whose end has not been told
 * is taken for dangerous until it is nearly a second old. So is a dialer closed by one thread while another closes its
 * socket, which frees it under the first (client/lib/socket.c). */
#include "fake_broker.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "client.h"

#define DIALERS_MAX 65536
enum { AT_REST, TRYING, UNTOLD };
static atomic_int dialers[DIALERS_MAX];
static _Atomic uint64_t tried_ms[DIALERS_MAX];
static atomic_int starts, closes, dangers;
static atomic_int sockets[DIALERS_MAX];    /* of the dialers */
static atomic_int closers[DIALERS_MAX];    /* of a socket's dialers: threads at it now */
static atomic_bool is_closed[DIALERS_MAX]; /* sockets */
static _Thread_local bool frees;           /* nng's own thread that frees dialers: it frees none while it is here */

int __real_nng_close(nng_socket socket);
int __wrap_nng_close(nng_socket socket);
int __real_nng_dialer_create(nng_dialer *out_dialer, nng_socket socket, const char *url);
int __wrap_nng_dialer_create(nng_dialer *out_dialer, nng_socket socket, const char *url);
int __real_nng_dialer_start(nng_dialer dialer, int flags);
int __real_nng_dialer_close(nng_dialer dialer);
nng_dialer __real_nng_pipe_dialer(nng_pipe pipe);
int __wrap_nng_dialer_start(nng_dialer dialer, int flags);
int __wrap_nng_dialer_close(nng_dialer dialer);
nng_dialer __wrap_nng_pipe_dialer(nng_pipe pipe);

int __wrap_nng_dialer_create(nng_dialer *out_dialer, nng_socket socket, const char *url) {
    int rv = __real_nng_dialer_create(out_dialer, socket, url);
    if (rv == 0) atomic_store(&sockets[nng_dialer_id(*out_dialer) % DIALERS_MAX], nng_socket_id(socket) % DIALERS_MAX);
    return rv;
}

int __wrap_nng_close(nng_socket socket) {
    int id = nng_socket_id(socket) % DIALERS_MAX;
    atomic_store(&is_closed[id], true);
    if (atomic_load(&closers[id]) > 0) atomic_fetch_add(&dangers, 1);
    return __real_nng_close(socket);
}

/* Takes its time, each another, so that whoever does not wait for it is found out. */
static int close_slowly(nng_dialer dialer) {
    static atomic_int turn;
    int socket = atomic_load(&sockets[nng_dialer_id(dialer) % DIALERS_MAX]);
    atomic_fetch_add(&closers[socket], 1);
    nng_msleep(atomic_fetch_add(&turn, 7) % 10);
    if (atomic_load(&is_closed[socket])) atomic_fetch_add(&dangers, 1);
    int rv = __real_nng_dialer_close(dialer);
    atomic_fetch_sub(&closers[socket], 1);
    return rv;
}

int __wrap_nng_dialer_start(nng_dialer dialer, int flags) {
    int id = nng_dialer_id(dialer) % DIALERS_MAX;
    atomic_fetch_add(&starts, 1);
    atomic_store(&tried_ms[id], now_ms());
    atomic_store(&dialers[id], TRYING);
    int rv = __real_nng_dialer_start(dialer, flags);
    atomic_store(&dialers[id], (flags & NNG_FLAG_NONBLOCK) != 0 ? UNTOLD : AT_REST);
    return rv;
}

int __wrap_nng_dialer_close(nng_dialer dialer) {
    int id = nng_dialer_id(dialer) % DIALERS_MAX;
    atomic_fetch_add(&closes, 1);
    assert_true(id >= 0);
    if (atomic_load(&dialers[id]) == UNTOLD) atomic_fetch_add(&dangers, 1);
    if (atomic_load(&dialers[id]) == TRYING && now_ms() < atomic_load(&tried_ms[id]) + 900)
        atomic_fetch_add(&dangers, 1);
    return frees ? __real_nng_dialer_close(dialer) : close_slowly(dialer);
}

/* Asked of a lost pipe: so there was one, and the try has ended even if nng_dialer_start has not returned yet. */
nng_dialer __wrap_nng_pipe_dialer(nng_pipe pipe) {
    nng_dialer dialer = __real_nng_pipe_dialer(pipe);
    frees = true;
    if (nng_dialer_id(dialer) > 0) atomic_store(&dialers[nng_dialer_id(dialer) % DIALERS_MAX], AT_REST);
    return dialer;
}

static tarry_client *client_to(const char *urls, uint64_t timeout_ms) {
    tarry_client *client;
    struct tarry_options options = {.urls = urls, .name = "client_dial_test", .timeout_ms = timeout_ms};
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    return client;
}

static const struct tarry_schedule_options order = {.queue = "orders", .key = "order-1", .when_ms = 500};

/* A port that refuses: bound, so that nobody else gets it, and not listening. */
static int refusing_port(int *out_port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int handle = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(handle >= 0);
    assert_int_equal(bind(handle, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getsockname(handle, (struct sockaddr *)&address, &size), 0);
    *out_port = ntohs(address.sin_port);
    return handle;
}

static void dead_addresses_cost_no_wait(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    int handles[ADDRESSES_MAX];
    char urls[1024] = "";
    /* A refusal was a second once: all of these would be longer than the client waits. */
    for (unsigned i = 1; i < ADDRESSES_MAX; i++) {
        int port;
        handles[i] = refusing_port(&port);
        snprintf(urls + strlen(urls), sizeof(urls) - strlen(urls), "ws://127.0.0.1:%d,", port);
    }
    snprintf(urls + strlen(urls), sizeof(urls) - strlen(urls), "%s", fake->url);
    tarry_client *client = client_to(urls, 10000);
    assert_int_equal(tarry_schedule(client, &order, NULL), TARRY_OK);
    tarry_close(client);
    for (unsigned i = 1; i < ADDRESSES_MAX; i++) close(handles[i]);
    fake_stop(fake);
}

static void what_refuses_is_tried_in_rounds(void **state) {
    int port, handle = refusing_port(&port);
    char url[64];
    snprintf(url, sizeof(url), "ws://127.0.0.1:%d", port);
    atomic_store(&closes, 0);
    tarry_client *client = client_to(url, 3000);
    assert_int_equal(tarry_schedule(client, &order, NULL), TARRY_E_NO_BROKER);
    /* 50, 100, 200, 400, 400 … ms at most, half of that at least: no fewer than one a second, no hot loop. */
    assert_in_range(atomic_load(&closes), 4, 24);
    tarry_close(client);
    close(handle);
}

/* A broker that is frozen: the system takes its connections, and nobody says anything. To close nng's dialer there ends
 * the process, once in a thousand times. */
static void nng_is_led_only_to_who_answers(void **state) { /* F-17 */
    int port, handle = refusing_port(&port);
    char urls[128];
    snprintf(urls, sizeof(urls), "ws://127.0.0.1:%d,ws://localhost:%d", port, port);
    assert_int_equal(listen(handle, 256), 0);
    atomic_store(&starts, 0);
    uint64_t closing_ms = 0;
    for (int i = 0; i < 100; i++) {
        tarry_client *client = client_to(urls, 10);
        struct tarry_result result = {0};
        assert_int_equal(tarry_schedule(client, &order, &result), TARRY_E_NO_BROKER);
        uint64_t before = now_ms();
        tarry_close(client);
        closing_ms += now_ms() - before;
    }
    assert_true(closing_ms < 100 * CLOSE_PATIENCE_MS / 2); /* nobody waits for a knock */
    tarry_client *client = client_to(urls, DIAL_PATIENCE_MS + 500);
    struct tarry_result result = {0};
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_E_NO_BROKER);
    assert_non_null(strstr(result.message, "does not answer"));
    tarry_close(client);
    assert_int_equal(atomic_load(&starts), 0);
    close(handle);
}

static void *hang_up(void *arg) {
    for (int taken; (taken = accept(*(int *)arg, NULL, NULL)) >= 0;) close(taken);
    return NULL;
}

static void who_hangs_up_is_told_of(void **state) {
    int port, handle = refusing_port(&port);
    char urls[128];
    pthread_t thread;
    snprintf(urls, sizeof(urls), "ws://127.0.0.1:%d", port);
    assert_int_equal(listen(handle, 256), 0);
    assert_int_equal(pthread_create(&thread, NULL, hang_up, &handle), 0);
    tarry_client *client = client_to(urls, 3000);
    struct tarry_result result = {0};
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_E_NO_BROKER);
    assert_non_null(strstr(result.message, "onnection "));
    tarry_close(client);
    shutdown(handle, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(handle);
}

/* A broker that is there and drops every connection is as bad as one that refuses. */
static void connections_that_bring_nothing_are_no_hot_loop(void **state) {
    enum deed script[256];
    for (int i = 0; i < 256; i++) script[i] = LOSE_REQUEST;
    struct fake *fake = fake_start(script, 256);
    tarry_client *client = client_to(fake->url, 1500);
    assert_int_equal(tarry_schedule(client, &order, NULL), TARRY_E_TIMEOUT);
    assert_in_range(COUNT(fake, commits), 2, 20);
    tarry_close(client);
    fake_stop(fake);
}

static void a_useful_connection_is_made_anew_at_once(void **state) {
    const enum deed script[] = {ANSWER, LOSE_ANSWER};
    struct fake *fake = fake_start(script, 2);
    int port, handle = refusing_port(&port);
    char urls[128];
    snprintf(urls, sizeof(urls), "%s,ws://127.0.0.1:%d", fake->url, port);
    tarry_client *client = client_to(urls, 10000);
    assert_int_equal(tarry_schedule(client, &order, NULL), TARRY_OK);
    uint64_t before = now_ms();
    assert_int_equal(tarry_schedule(client, &order, NULL), TARRY_OK);
    assert_true(now_ms() - before < RESEND_AFTER_MS); /* nobody has waited for the answer that was lost */
    tarry_close(client);
    close(handle);
    fake_stop(fake);
}

/* The broker comes and goes, addresses are given up, clients are closed at any moment. */
static void a_dialer_is_closed_only_while_it_rests(void **state) {
    int port, handle = refusing_port(&port);
    for (int i = 0; i < 100; i++) {
        const enum deed script[] = {LOSE_REQUEST, ANSWER, LOSE_ANSWER};
        struct fake *fake = fake_start(script, (size_t)(i % 4));
        char urls[128];
        snprintf(urls, sizeof(urls), "ws://127.0.0.1:%d,%s", port, fake->url);
        tarry_client *client = client_to(i % 3 == 0 ? fake->url : urls, 10000);
        if (i % 5 != 0) assert_int_equal(tarry_schedule(client, &order, NULL), TARRY_OK);
        if (i % 7 == 0) nng_msleep(1);
        tarry_close(client);
        fake_stop(fake);
    }
    close(handle);
    assert_true(atomic_load(&closes) > 100);
    assert_int_equal(atomic_load(&dangers), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dead_addresses_cost_no_wait),
        cmocka_unit_test(what_refuses_is_tried_in_rounds),
        cmocka_unit_test(nng_is_led_only_to_who_answers),
        cmocka_unit_test(who_hangs_up_is_told_of),
        cmocka_unit_test(connections_that_bring_nothing_are_no_hot_loop),
        cmocka_unit_test(a_useful_connection_is_made_anew_at_once),
        cmocka_unit_test(a_dialer_is_closed_only_while_it_rests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
