/* client_dial_test.c: how libtarry finds a broker: addresses in turn, rounds with pauses, servers that hang up,
 * servers that stay silent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"
#include "fake_broker.h"

#define FAR_MS 600000u /* timeout in ms that no test reaches */

static tarry_client *client_to(const char *urls, uint64_t timeout_ms) {
    tarry_client *client;
    struct tarry_options options = {.urls = urls, .name = "client_dial_test", .timeout_ms = timeout_ms};
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    return client;
}

static const struct tarry_schedule_options order = {.queue = "orders", .key = "order-1", .when_ms = 500};

/* Makes a port that refuses connections: bound, so that no other process gets it, but not listening. */
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
    /* If the client paused after each refusal, the pauses together would take longer than the client's timeout. */
    for (unsigned i = 1; i < ADDRESSES_MAX; i++) {
        int port;
        handles[i] = refusing_port(&port);
        snprintf(urls + strlen(urls), sizeof(urls) - strlen(urls), "ws://127.0.0.1:%d,", port);
    }
    snprintf(urls + strlen(urls), sizeof(urls) - strlen(urls), "%s", fake->url);
    tarry_client *client = client_to(urls, FAR_MS);
    assert_int_equal(tarry_schedule(client, &order, NULL), TARRY_OK);
    tarry_close(client);
    for (unsigned i = 1; i < ADDRESSES_MAX; i++) close(handles[i]);
    fake_stop(fake);
}

/* A server that accepts connections, closes them at once, and counts them. */
struct dropping {
    int handle;
    atomic_int count;
};

static void *hang_up(void *arg) {
    struct dropping *dropping = arg;
    for (int taken; (taken = accept(dropping->handle, NULL, NULL)) >= 0;) {
        atomic_fetch_add(&dropping->count, 1);
        close(taken);
    }
    return NULL;
}

static void what_hangs_up_is_tried_in_rounds(void **state) {
    int port;
    struct dropping dropping = {.handle = refusing_port(&port)};
    char url[64];
    pthread_t thread;
    snprintf(url, sizeof(url), "ws://127.0.0.1:%d", port);
    assert_int_equal(listen(dropping.handle, 256), 0);
    assert_int_equal(pthread_create(&thread, NULL, hang_up, &dropping), 0);
    tarry_client *client = client_to(url, 3000);
    struct tarry_result result = {0};
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_E_NO_BROKER);
    assert_non_null(strstr(result.message, "closed the connection without a reply"));
    /* Pauses are at most 50, 100, 200, 400, 400 … ms, and at least half of that. So there is at least one try per
     * second, and no busy loop. */
    assert_in_range(atomic_load(&dropping.count), 4, 24);
    tarry_close(client);
    shutdown(dropping.handle, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(dropping.handle);
}

/* A broker whose process is frozen: the kernel accepts connections, and no process answers. */
static void who_says_nothing_keeps_nobody(void **state) { /* F-17 */
    int port, handle = refusing_port(&port);
    char urls[128];
    snprintf(urls, sizeof(urls), "ws://127.0.0.1:%d,ws://localhost:%d", port, port);
    assert_int_equal(listen(handle, 256), 0);
    uint64_t closing_ms = 0;
    for (int i = 0; i < 100; i++) {
        tarry_client *client = client_to(urls, 10);
        struct tarry_result result = {0};
        assert_int_equal(tarry_schedule(client, &order, &result), TARRY_E_NO_BROKER);
        uint64_t before = now_ms();
        tarry_close(client);
        closing_ms += now_ms() - before;
    }
    assert_true(closing_ms < 100 * DIAL_PATIENCE_MS / 2); /* the close does not wait for these connections */
    tarry_client *client = client_to(urls, DIAL_PATIENCE_MS + 500);
    struct tarry_result result = {0};
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_E_NO_BROKER);
    assert_non_null(strstr(result.message, "does not answer"));
    tarry_close(client);
    close(handle);
}

/* A broker that accepts the connection and then never replies. */
static void a_broker_that_answers_nothing_is_told_from_one_that_is_not_there(void **state) { /* F-17 */
    struct fake *fake = fake_start(NULL, 0);
    fake->hangs = true;
    tarry_client *client = client_to(fake->url, FAR_MS);
    const struct tarry_ref ref = {.queue = "orders", .key = "order-1"};
    const struct tarry_call soon = {.timeout_ms = 50};
    struct tarry_view *view = NULL;
    char message[TARRY_MESSAGE_SIZE] = "";
    for (bool has_been_asked = false, is_last = false; !is_last;) {
        is_last = has_been_asked;
        assert_int_not_equal(tarry_get(client, &ref, false, &soon, &view, message), TARRY_OK);
        has_been_asked = COUNT(fake, requests) > 0;
    }
    assert_non_null(strstr(message, "accepts requests but does not answer them"));
    tarry_close(client);
    fake_stop(fake);
}

/* The client also pauses between tries if a broker accepts each connection and closes it again. */
static void connections_that_bring_nothing_are_no_hot_loop(void **state) {
    enum deed script[256];
    for (int i = 0; i < 256; i++) script[i] = LOSE_REQUEST;
    struct fake *fake = fake_start(script, 256);
    tarry_client *client = client_to(fake->url, 1500);
    assert_int_equal(tarry_schedule(client, &order, NULL), TARRY_E_TIMEOUT);
    /* About 15 tries; more if the machine reacts late to the deadline. A busy loop makes thousands. */
    assert_in_range(COUNT(fake, commits), 2, 200);
    tarry_close(client);
    fake_stop(fake);
}

static void a_useful_connection_is_made_anew_at_once(void **state) {
    const enum deed script[] = {ANSWER, LOSE_ANSWER};
    struct fake *fake = fake_start(script, 2);
    int port, handle = refusing_port(&port);
    char urls[128];
    snprintf(urls, sizeof(urls), "%s,ws://127.0.0.1:%d", fake->url, port);
    tarry_client *client = client_to(urls, FAR_MS);
    assert_int_equal(tarry_schedule(client, &order, NULL), TARRY_OK);
    uint64_t before = now_ms();
    assert_int_equal(tarry_schedule(client, &order, NULL), TARRY_OK);
    assert_true(now_ms() - before < RESEND_AFTER_MS); /* the client has not waited for the lost answer */
    tarry_close(client);
    close(handle);
    fake_stop(fake);
}

/* At a switch-over, the former leader answers BUSY, which starts a pause, and then leaves. The client must use the
 * other node at once, without waiting for the end of the pause. */
static void who_was_busy_elsewhere_is_not_waited_for(void **state) { /* CALM-1 */
    struct fake *fakes[] = {fake_start(NULL, 0), fake_start(NULL, 0)};
    char urls[160];
    snprintf(urls, sizeof(urls), "%s,%s", fakes[0]->url, fakes[1]->url);
    tarry_client *client = client_to(urls, TARRY_FOREVER);
    assert_int_equal(tarry_ping(client, NULL), TARRY_OK);
    pthread_mutex_lock(&client->lock);
    const uint32_t at =
        client->link.address; /* the client usually uses the first address, unless that broker was slow */
    pthread_mutex_unlock(&client->lock);
    struct fake *busy = fakes[at], *other = fakes[1 - at];
    pthread_mutex_lock(&busy->lock);
    busy->lacks_room = true;
    pthread_mutex_unlock(&busy->lock);
    assert_int_equal(tarry_schedule_async(client, &order, NULL, NULL), TARRY_OK);
    /* The test prolongs the pause after BUSY to an hour. The client must end this pause when it changes the broker. */
    for (bool waits = false; !waits; sleep_ms(1)) {
        assert_int_equal(COUNT(other, commits), 0);
        pthread_mutex_lock(&client->lock);
        waits = !slots_busy(client) && client->commits[NEEDS_ROOM].retry_at_ms > now_ms();
        if (waits) client->commits[NEEDS_ROOM].retry_at_ms += 3600000;
        pthread_mutex_unlock(&client->lock);
    }
    fake_stop(busy);
    for (int i = 0; i < 20000 && COUNT(other, ops) == 0; i++) sleep_ms(1);
    assert_int_equal(COUNT(other, ops), 1);
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    tarry_close(client);
    fake_stop(other);
}

static tarry_client *client_with_token(const char *urls, const char *token_file) {
    tarry_client *client;
    struct tarry_options options = {.urls = urls, .timeout_ms = 20000, .token_file = token_file};
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    return client;
}

static void put_token(const char *path, mode_t mode, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fchmod(fileno(file), mode), 0);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void count_fine(void *arg, const struct tarry_result *result) {
    if (result->code == TARRY_OK) atomic_fetch_add((atomic_int *)arg, 1);
}

/* With an unreadable token file, a call fails at once, even a call without a deadline. The message has the file's name
 * and the error. Later calls read the repaired file. */
static void a_token_that_cannot_be_read_is_said_at_once(void **state) {
    static const struct {
        const char *text;
        mode_t mode;
        const char *said;
    } cases[] = {{NULL, 0, "No such file or directory"},
                 {"word\n", 0640, "can be read by other users (mode 0640): run chmod 600 on it"},
                 {"", 0600, "is empty"},
                 {"two words\n", 0600, "contains no token"}};
    struct fake *fake = fake_start(NULL, 0);
    char path[] = "/tmp/tarry-token-XXXXXX", urls[160];
    int port, handle = refusing_port(&port), file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    snprintf(urls, sizeof(urls), "%s,ws://127.0.0.1:%d", fake->url, port);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tarry_result result = {0};
        if (cases[i].text != NULL)
            put_token(path, cases[i].mode, cases[i].text);
        else
            unlink(path);
        tarry_client *client = client_with_token(i % 2 == 0 ? fake->url : urls, path);
        assert_int_equal(tarry_schedule(client, &order, &result), TARRY_DENIED);
        assert_non_null(strstr(result.message, path));
        assert_non_null(strstr(result.message, cases[i].said));
        assert_int_equal(COUNT(fake, commits), i);
        put_token(path, 0600, "word\n");
        for (int code = TARRY_DENIED; code != TARRY_OK;) { /* an attempt that read the broken file may still end */
            assert_true(code == TARRY_DENIED);
            code = tarry_schedule(client, &order, NULL);
        }
        tarry_close(client);
    }
    unlink(path);
    close(handle);
    fake_stop(fake);
}

/* A commit that may have been executed does not fail when the token file is unreadable. It waits for the file, and
 * takes effect once (ONCE-1). */
static void what_was_sent_waits_for_its_token(void **state) {
    const enum deed script[] = {ANSWER, LOSE_REQUEST, ANSWER};
    struct fake *fake = fake_start(script, 3);
    char path[] = "/tmp/tarry-token-XXXXXX";
    const struct tarry_ref ref = {.queue = "orders", .key = "order-1"};
    struct tarry_view *view;
    atomic_int answered = 0;
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    put_token(path, 0600, "word\n");
    tarry_client *client = client_with_token(fake->url, path);
    assert_int_equal(tarry_schedule(client, &order, NULL), TARRY_OK);
    unlink(path);
    assert_int_equal(tarry_schedule_async(client, &order, count_fine, &answered), TARRY_OK);
    for (bool is_denied = false; !is_denied; sleep_ms(1)) {
        pthread_mutex_lock(&client->lock);
        is_denied = link_is_denied(&client->link);
        pthread_mutex_unlock(&client->lock);
    }
    assert_int_equal(tarry_get(client, &ref, false, NULL, &view, NULL), TARRY_DENIED);
    assert_int_equal(atomic_load(&answered), 0);
    put_token(path, 0600, "word\n");
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    assert_int_equal(atomic_load(&answered), 1);
    assert_int_equal(COUNT(fake, ops), 2);
    tarry_close(client);
    unlink(path);
    fake_stop(fake);
}

/* The broker starts and stops, the client changes addresses, and clients are closed at any moment. */
static void brokers_come_and_go(void **state) {
    int port, handle = refusing_port(&port);
    for (int i = 0; i < 30; i++) {
        const enum deed script[] = {LOSE_REQUEST, ANSWER, LOSE_ANSWER};
        struct fake *fake = fake_start(script, (size_t)(i % 4));
        char urls[128];
        snprintf(urls, sizeof(urls), "ws://127.0.0.1:%d,%s", port, fake->url);
        tarry_client *client = client_to(i % 3 == 0 ? fake->url : urls, FAR_MS);
        if (i % 5 != 0) assert_int_equal(tarry_schedule(client, &order, NULL), TARRY_OK);
        if (i % 7 == 0) sleep_ms(1);
        tarry_close(client);
        fake_stop(fake);
    }
    close(handle);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dead_addresses_cost_no_wait),
        cmocka_unit_test(what_hangs_up_is_tried_in_rounds),
        cmocka_unit_test(who_says_nothing_keeps_nobody),
        cmocka_unit_test(a_broker_that_answers_nothing_is_told_from_one_that_is_not_there),
        cmocka_unit_test(connections_that_bring_nothing_are_no_hot_loop),
        cmocka_unit_test(a_useful_connection_is_made_anew_at_once),
        cmocka_unit_test(who_was_busy_elsewhere_is_not_waited_for),
        cmocka_unit_test(a_token_that_cannot_be_read_is_said_at_once),
        cmocka_unit_test(what_was_sent_waits_for_its_token),
        cmocka_unit_test(brokers_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
