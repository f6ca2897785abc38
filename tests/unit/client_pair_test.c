/* client_pair_test.c: libtarry with several addresses: it finds the primary whatever the brokers say about each other,
 * repeats open requests there, and finally reports the last result of each address. The brokers are fakes
 * (fake_broker.h). */
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
#include <unistd.h>

#include "client.h"
#include "fake_broker.h"

static const struct tarry_schedule_options order = {.queue = "orders", .key = "order-1", .when_ms = 500};
static const struct tarry_ref task = {.queue = "orders", .key = "order-1"};

/* A pair of fake brokers. Only the first `count` of them run. */
struct pair {
    struct fake *fakes[3];
    size_t count;
    char urls[512];
    tarry_client *client;
};

static void pair_start(struct pair *pair, size_t count) {
    *pair = (struct pair){.count = count};
    for (size_t i = 0; i < count; i++) {
        pair->fakes[i] = fake_start(NULL, 0);
        snprintf(pair->urls + strlen(pair->urls), sizeof(pair->urls) - strlen(pair->urls), "%s%s", i > 0 ? "," : "",
                 pair->fakes[i]->url);
    }
}

static void pair_connect(struct pair *pair, uint64_t timeout_ms, bool follower_reads) {
    struct tarry_options options = {.urls = pair->urls,
                                    .name = "client_pair_test",
                                    .timeout_ms = timeout_ms,
                                    .follower_reads = follower_reads};
    assert_int_equal(tarry_open(&options, &pair->client), TARRY_OK);
}

static void pair_stop(struct pair *pair) {
    tarry_close(pair->client);
    for (size_t i = 0; i < pair->count; i++)
        if (pair->fakes[i] != NULL) fake_stop(pair->fakes[i]);
}

/* Makes the fake a node that is not the primary, and that names the addresses `names` as the primary's. NULL: makes it
 * the primary. */
static void set_role(struct fake *fake, const char *names) {
    pthread_mutex_lock(&fake->lock);
    fake->is_not_primary = names != NULL;
    snprintf(fake->names, sizeof(fake->names), "%s", names != NULL ? names : "");
    pthread_mutex_unlock(&fake->lock);
}

/* ---- the primary is found */

static void a_named_primary_comes_next(void **state) {
    struct pair pair;
    pair_start(&pair, 3);
    set_role(pair.fakes[0], pair.fakes[2]->url);
    set_role(pair.fakes[1], "");
    pair_connect(&pair, 10000, false);
    uint64_t before = now_ms();
    assert_int_equal(tarry_schedule(pair.client, &order, NULL), TARRY_OK);
    assert_true(now_ms() - before < RESEND_AFTER_MS);
    assert_int_equal(COUNT(pair.fakes[0], not_primary), 1);
    assert_int_equal(COUNT(pair.fakes[1], requests), 0);
    pair_stop(&pair);
}

/* The brokers name no primary, each other, themselves, an unknown address, or nonsense: the client tries the next
 * address. */
static void whatever_brokers_say_of_each_other_the_primary_is_found(void **state) {
    for (int story = 0; story < 5; story++) {
        struct pair pair;
        pair_start(&pair, 3);
        const char *first[] = {"", pair.fakes[1]->url, pair.fakes[0]->url, "ws://192.0.2.1:7272", "nonsense,ws://"};
        const char *second[] = {"", pair.fakes[0]->url, pair.fakes[1]->url, "ws://192.0.2.1:7272", "\x01"};
        set_role(pair.fakes[0], first[story]);
        set_role(pair.fakes[1], second[story]);
        pair_connect(&pair, 10000, false);
        uint64_t before = now_ms();
        assert_int_equal(tarry_schedule(pair.client, &order, NULL), TARRY_OK);
        assert_true(now_ms() - before < RESEND_AFTER_MS);
        assert_in_range(COUNT(pair.fakes[0], not_primary) + COUNT(pair.fakes[1], not_primary), 1, 4);
        pair_stop(&pair);
    }
}

/* One address has a listener that never accepts, another one has a broker that accepts but never replies. */
static void who_does_not_answer_is_passed_over(void **state) {
    struct pair pair;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int deaf = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(deaf, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(deaf, 16), 0);
    assert_int_equal(getsockname(deaf, (struct sockaddr *)&address, &size), 0);
    pair_start(&pair, 2);
    pair.fakes[0]->hangs = true;
    char urls[512];
    snprintf(urls, sizeof(urls), "ws://127.0.0.1:%d,%.400s", ntohs(address.sin_port), pair.urls);
    memcpy(pair.urls, urls, sizeof(urls));
    pair_connect(&pair, 20000, false);
    uint64_t before = now_ms();
    assert_int_equal(tarry_schedule(pair.client, &order, NULL), TARRY_OK);
    /* So little time passed that each of these addresses was tried only once. */
    assert_true(now_ms() - before < DIAL_PATIENCE_MS + 2 * RESEND_AFTER_MS);
    assert_true(COUNT(pair.fakes[0], requests) > 0);
    pair_stop(&pair);
    close(deaf);
}

static void hang(struct fake *fake) {
    pthread_mutex_lock(&fake->lock);
    fake->hangs = true;
    pthread_mutex_unlock(&fake->lock);
}

/* The kernel of a paused primary still acknowledges TCP data, so the connection looks alive. The other node becomes the
 * leader soon, and the client sends to it within 2 s. */
static void a_paused_primary_is_left_before_two_seconds(void **state) {
    struct pair pair;
    pair_start(&pair, 2);
    pair_connect(&pair, 20000, false);
    assert_int_equal(tarry_schedule(pair.client, &order, NULL), TARRY_OK);
    hang(pair.fakes[0]);
    uint64_t before = now_ms();
    /* The first fake had executed the commit already, and the other fake does not know the commit's producer. */
    assert_int_equal(tarry_schedule(pair.client, &order, NULL), TARRY_FORGOTTEN);
    assert_in_range(now_ms() - before, RESEND_ELSEWHERE_MS - 1, RESEND_AFTER_MS - 1);
    assert_int_equal(tarry_schedule(pair.client, &order, NULL), TARRY_OK);
    assert_int_equal(COUNT(pair.fakes[1], ops), 1);
    pair_stop(&pair);
}

/* The client leaves a slow primary early only once. Until the primary has replied again, the client waits
 * RESEND_AFTER_MS before it changes the node. */
static void a_slow_primary_is_left_once(void **state) {
    struct pair pair;
    struct tarry_result result;
    pair_start(&pair, 2);
    set_role(pair.fakes[1], pair.fakes[0]->url);
    pair_connect(&pair, 2 * RESEND_ELSEWHERE_MS + 1000, false);
    assert_int_equal(tarry_schedule(pair.client, &order, NULL), TARRY_OK);
    hang(pair.fakes[0]);
    assert_int_not_equal(tarry_schedule(pair.client, &order, &result), TARRY_OK);
    assert_int_equal(COUNT(pair.fakes[1], not_primary), 1);
    pair_stop(&pair);
}

/* One address may lead to either node of a pair. */
static void one_address_is_asked_until_it_is_the_primarys(void **state) {
    struct pair pair;
    pair_start(&pair, 1);
    set_role(pair.fakes[0], "ws://192.0.2.1:7272");
    pair_connect(&pair, 10000, false);
    bool had = false;
    assert_int_equal(tarry_schedule_async(pair.client, &order, NULL, &had), TARRY_OK);
    while (COUNT(pair.fakes[0], not_primary) < 2) sleep_ms(5);
    set_role(pair.fakes[0], NULL);
    assert_int_equal(tarry_drain(pair.client, 0, NULL), TARRY_OK);
    assert_int_equal(COUNT(pair.fakes[0], ops), 1);
    pair_stop(&pair);
}

/* ---- no primary is found */

#define VAIN_TRIES 5

/* A request may be in flight just when its deadline comes. Its outcome is unknown then, and the library says so. That
 * is rare, because the client waits for the replies to all requests before it leaves a broker that is not the primary.
 */
static int schedule_in_vain(struct pair *pair, struct tarry_result *result, uint64_t *out_took_ms) {
    int code = TARRY_E_TIMEOUT;
    for (int i = 0; i < VAIN_TRIES && code == TARRY_E_TIMEOUT; i++) {
        uint64_t before_ms = now_ms();
        code = tarry_schedule(pair->client, &order, result);
        *out_took_ms = now_ms() - before_ms;
    }
    return code;
}

static void no_primary_is_told_in_time_with_what_each_said(void **state) {
    struct pair pair;
    struct tarry_result result;
    pair_start(&pair, 3);
    set_role(pair.fakes[0], pair.fakes[1]->url);
    set_role(pair.fakes[1], "ws://192.0.2.1:7272");
    fake_stop(pair.fakes[2]);
    pair.fakes[2] = NULL;
    pair_connect(&pair, 1000, false);
    uint64_t took_ms = 0, began_ms = now_ms();
    assert_int_equal(schedule_in_vain(&pair, &result, &took_ms), TARRY_NOT_PRIMARY);
    assert_true(took_ms >= 1000 && took_ms < RESEND_AFTER_MS);
    char expected[256];
    snprintf(expected, sizeof(expected), "%s: not the primary; the primary is %s", pair.fakes[0]->url,
             pair.fakes[1]->url);
    const char *names = strstr(result.message, expected);
    assert_non_null(names);
    assert_int_not_equal(
        names[strlen(expected)],
        ','); /* the remark "…, which is not one of the client's addresses" does not follow this address */
    assert_non_null(strstr(result.message, "names ws://192.0.2.1:7272, which is not one of the client's addresses"));
    assert_non_null(strstr(result.message, "onnection refused"));
    assert_non_null(strstr(result.message, "nothing was done"));
    assert_int_equal(result.producer, 0);
    /* Pauses between rounds: at least 25 ms, then 50, 100, 200, 200 … ms. */
    assert_in_range(COUNT(pair.fakes[0], not_primary), 2, 12 * ((now_ms() - began_ms) / 1000 + 1));
    assert_int_equal(COUNT(pair.fakes[0], ops) + COUNT(pair.fakes[1], ops), 0);
    /* A query is refused in the same way. Later a primary is found. */
    char message[TARRY_MESSAGE_SIZE];
    struct tarry_view *view;
    int code = TARRY_E_TIMEOUT;
    for (int i = 0; i < VAIN_TRIES && code == TARRY_E_TIMEOUT; i++)
        code = tarry_get(pair.client, &task, false, NULL, &view, message);
    assert_int_equal(code, TARRY_NOT_PRIMARY);
    assert_non_null(strstr(message, expected));
    assert_non_null(strstr(tarry_addresses_say(pair.client, message), expected));
    set_role(pair.fakes[1], NULL);
    code = TARRY_E_TIMEOUT;
    for (int i = 0; i < VAIN_TRIES && code != TARRY_OK; i++) code = tarry_schedule(pair.client, &order, NULL);
    assert_int_equal(code, TARRY_OK);
    pair_stop(&pair);
}

static void an_address_that_was_not_given_is_not_used(void **state) {
    struct pair pair;
    struct fake *other = fake_start(NULL, 0);
    pair_start(&pair, 2);
    set_role(pair.fakes[0], other->url);
    set_role(pair.fakes[1], other->url);
    pair_connect(&pair, 1500, false);
    uint64_t took_ms;
    assert_int_equal(schedule_in_vain(&pair, NULL, &took_ms), TARRY_NOT_PRIMARY);
    assert_int_equal(COUNT(other, requests), 0);
    pair_stop(&pair);
    fake_stop(other);
}

/* F-29 from the client's side: in another cluster, the producer's number and sequence belong to another client. */
static void a_broker_of_another_cluster_is_passed_over(void **state) {
    struct pair pair;
    struct tarry_result result;
    pair_start(&pair, 2);
    memset(pair.fakes[1]->cluster, 7, CLUSTER_ID_SIZE);
    pair.fakes[1]->producer = 101; /* the second broker issues the same producer number as the first one */
    pair_connect(&pair, 2000, false);
    assert_int_equal(tarry_schedule(pair.client, &order, NULL), TARRY_OK);
    fake_stop(pair.fakes[0]);
    pair.fakes[0] = NULL;
    int code = tarry_schedule(pair.client, &order, &result);
    assert_true(code == TARRY_NOT_PRIMARY ||
                code == TARRY_E_TIMEOUT); /* the client may have left the first broker while a request was in flight */
    /* The message contains the broker's own text. */
    assert_non_null(strstr(result.message, "the fake is not the primary"));
    assert_int_equal(COUNT(pair.fakes[1], commits), 0);
    assert_int_equal(COUNT(pair.fakes[1], hellos), 0);
    pair_stop(&pair);
}

/* ---- the primary changes */

struct counter {
    atomic_uint ok, wrong;
};

static void count(void *arg, const struct tarry_result *result) {
    struct counter *counter = arg;
    atomic_fetch_add(result->code == TARRY_OK ? &counter->ok : &counter->wrong, 1);
}

static void count_refused(void *arg, const struct tarry_result *result) {
    struct counter *counter = arg;
    atomic_fetch_add(result->code == TARRY_NOT_PRIMARY ? &counter->ok : &counter->wrong, 1);
}

/* Sends a commit and a query to a former primary, which refuses the second of them `late_ms` later. */
static void two_at_a_former_primary(struct pair *pair, uint32_t late_ms, struct counter *counter, int *out_asked) {
    struct tarry_view *view;
    char message[TARRY_MESSAGE_SIZE];
    assert_int_equal(tarry_schedule(pair->client, &order, NULL), TARRY_OK);
    set_role(pair->fakes[0], "");
    pair->fakes[0]->late_ms = late_ms;
    pair->fakes[0]->refuses_late = 2;
    assert_int_equal(tarry_schedule_async(pair->client, &order, count_refused, counter), TARRY_OK);
    *out_asked = tarry_get(pair->client, &task, false, NULL, &view, message);
    if (*out_asked == TARRY_OK) tarry_view_free(view);
    assert_int_equal(tarry_drain(pair->client, 0, NULL), TARRY_OK);
}

/* A client that leaves at the first refusal does not get the second one, and must report an unknown outcome. A
 * request may also be in flight just at its deadline, or a thread may be delayed, so several tries are made. */
static void a_broker_that_is_not_the_primary_is_left_once_it_has_told_all(void **state) {
    bool all_heard = false;
    for (int i = 0; i < 8 && !all_heard; i++) {
        struct pair pair;
        struct counter counter = {0};
        int asked;
        pair_start(&pair, 2);
        set_role(pair.fakes[1], "");
        pair_connect(&pair, 1500, false);
        two_at_a_former_primary(&pair, NOT_PRIMARY_GRACE_MS / 2, &counter, &asked);
        all_heard = asked == TARRY_NOT_PRIMARY && atomic_load(&counter.ok) == 1;
        pair_stop(&pair);
    }
    assert_true(all_heard);
}

static void it_is_not_waited_for_long(void **state) {
    struct pair pair;
    struct counter counter = {0};
    int asked;
    pair_start(&pair, 2);
    set_role(pair.fakes[1], pair.fakes[0]->url);
    pair_connect(&pair, 10000, false);
    assert_int_equal(tarry_schedule(pair.client, &order, NULL), TARRY_OK);
    fake_copy_log(pair.fakes[1], pair.fakes[0]);
    set_role(pair.fakes[1], NULL);
    uint64_t before = now_ms();
    two_at_a_former_primary(&pair, 4500, &counter, &asked);
    assert_int_equal(asked, TARRY_OK);
    assert_true(now_ms() - before < 4000);
    pair_stop(&pair);
}

/* The first broker executes the commit, loses the reply, and is no longer the primary; the second broker has its
 * log. */
static void what_was_not_answered_takes_effect_once_at_the_new_primary(void **state) { /* ONCE-1 */
    struct pair pair;
    struct tarry_result before, after;
    struct counter counter = {0};
    pair_start(&pair, 2);
    set_role(pair.fakes[1], pair.fakes[0]->url);
    pair.fakes[0]->script[1] = LOSE_ANSWER;
    pair.fakes[0]->script_size = 2;
    pair_connect(&pair, 10000, false);
    assert_int_equal(tarry_schedule(pair.client, &order, &before), TARRY_OK);
    /* From now on, the fake broker ceases to be the primary as soon as it has executed the second commit. */
    assert_int_equal(tarry_schedule_async(pair.client, &order, count, &counter), TARRY_OK);
    while (COUNT(pair.fakes[0], ops) < 2) sleep_ms(1);
    set_role(pair.fakes[0], pair.fakes[1]->url);
    fake_copy_log(pair.fakes[1], pair.fakes[0]);
    set_role(pair.fakes[1], NULL);
    for (int i = 0; i < 500; i++)
        assert_int_equal(tarry_schedule_async(pair.client, &order, count, &counter), TARRY_OK);
    assert_int_equal(tarry_drain(pair.client, 0, NULL), TARRY_OK);
    assert_int_equal(atomic_load(&counter.ok), 501);
    assert_int_equal(tarry_schedule(pair.client, &order, &after), TARRY_OK);
    assert_int_equal(after.producer, before.producer);
    assert_true(after.sequence > before.sequence);
    pthread_mutex_lock(&pair.fakes[1]->lock);
    assert_int_equal(pair.fakes[1]->ops, 503);
    assert_false(pair.fakes[1]->out_of_order);
    assert_int_equal(pair.fakes[1]->hellos, 0);
    pthread_mutex_unlock(&pair.fakes[1]->lock);
    pair_stop(&pair);
}

/* The roles change again and again under load. Each new primary first gets a copy of the log, as a follower has it. */
static void roles_may_change_under_load(void **state) { /* ONCE-1, F-16 */
    struct pair pair;
    struct counter counter = {0};
    unsigned submitted = 0, primary = 0;
    pair_start(&pair, 2);
    set_role(pair.fakes[1], pair.fakes[0]->url);
    pair_connect(&pair, 10000, false);
    for (int change = 0; change < 8; change++) {
        for (int i = 0; i < 200; i++, submitted++)
            assert_int_equal(tarry_schedule_async(pair.client, &order, count, &counter), TARRY_OK);
        if (change % 2 == 0) assert_int_equal(tarry_drain(pair.client, 150, NULL), TARRY_OK);
        struct fake *old = pair.fakes[primary], *new = pair.fakes[1 - primary];
        set_role(old, change % 3 == 0 ? "" : new->url);
        fake_copy_log(new, old); /* as a follower, the new primary has exactly the commits of the old one */
        set_role(new, NULL);
        primary = 1 - primary;
    }
    assert_int_equal(tarry_drain(pair.client, 0, NULL), TARRY_OK);
    assert_int_equal(atomic_load(&counter.ok), submitted);
    assert_int_equal(atomic_load(&counter.wrong), 0);
    pthread_mutex_lock(&pair.fakes[primary]->lock);
    assert_int_equal(pair.fakes[primary]->ops, submitted);
    assert_false(pair.fakes[0]->out_of_order || pair.fakes[1]->out_of_order);
    pthread_mutex_unlock(&pair.fakes[primary]->lock);
    pair_stop(&pair);
}

/* ---- reads from a follower */

static void a_follower_answers_only_who_lets_it(void **state) {
    for (int allowed = 0; allowed < 2; allowed++) {
        struct pair pair;
        struct tarry_view *view;
        char message[TARRY_MESSAGE_SIZE];
        pair_start(&pair, 2);
        set_role(pair.fakes[0], pair.fakes[1]->url);
        pair.fakes[0]->follows = true;
        pair_connect(&pair, 10000, allowed != 0);
        assert_int_equal(tarry_get(pair.client, &task, false, NULL, &view, message), TARRY_OK);
        assert_int_equal(view->source.follower, allowed);
        assert_int_equal(view->source.position, allowed ? 4096 : 0);
        assert_int_equal(COUNT(pair.fakes[1], requests), allowed ? 0 : 1);
        tarry_view_free(view);
        assert_int_equal(tarry_schedule(pair.client, &order, NULL),
                         TARRY_OK); /* this call needs the primary; queries do not */
        pair_stop(&pair);
    }
}

static int get_fresh(struct pair *pair, uint64_t at_least, uint64_t staleness_ms, uint64_t *out_took_ms) {
    const struct tarry_call fresh = {.at_least = at_least, .staleness_ms = staleness_ms};
    struct tarry_view *view = NULL;
    char message[TARRY_MESSAGE_SIZE];
    uint64_t before = now_ms();
    int code = tarry_get(pair->client, &task, false, &fresh, &view, message);
    *out_took_ms = now_ms() - before;
    if (code == TARRY_OK) tarry_view_free(view);
    assert_int_equal(message[0] != 0, code != TARRY_OK);
    return code;
}

/* This fake broker always answers as of position 4096, whatever the request requires, and does not report the
 * answer's age. */
static void an_older_follower_that_does_not_know_what_is_asked_for_is_not_believed(void **state) { /* TRUE-1 */
    struct pair pair;
    uint64_t took_ms;
    pair_start(&pair, 1);
    set_role(pair.fakes[0], "");
    pair.fakes[0]->follows = true;
    pair_connect(&pair, 600, true);
    assert_int_equal(get_fresh(&pair, 0, 0, &took_ms), TARRY_OK);
    assert_int_equal(get_fresh(&pair, 4096, 0, &took_ms), TARRY_OK);
    assert_int_equal(get_fresh(&pair, 4097, 0, &took_ms),
                     /* The follower may reach the position later, so the client retries until the deadline. */
                     TARRY_BEHIND);
    assert_in_range(took_ms, 500, 4000);
    assert_int_equal(get_fresh(&pair, 0, 500, &took_ms), TARRY_TOO_OLD);
    assert_int_equal(get_fresh(&pair, 0, (uint64_t)INT32_MAX + 1, &took_ms), TARRY_E_ARGUMENT);
    pair_stop(&pair);
}

/* An answer of a follower does not count as a sign that there is a primary. */
static void a_follower_keeps_nobody_waiting_for_ever(void **state) {
    struct pair pair;
    struct counter counter = {0};
    pair_start(&pair, 1);
    set_role(pair.fakes[0], "");
    pair.fakes[0]->follows = true;
    pair_connect(&pair, 600, true);
    uint64_t before = now_ms();
    assert_int_equal(tarry_schedule_async(pair.client, &order, count, &counter), TARRY_OK);
    while (atomic_load(&counter.wrong) == 0 && now_ms() - before < 5000) {
        struct tarry_view *view;
        char message[TARRY_MESSAGE_SIZE];
        if (tarry_get(pair.client, &task, false, NULL, &view, message) == TARRY_OK) tarry_view_free(view);
    }
    assert_int_equal(atomic_load(&counter.wrong), 1);
    assert_true(now_ms() - before < 4000);
    pair_stop(&pair);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_named_primary_comes_next),
        cmocka_unit_test(whatever_brokers_say_of_each_other_the_primary_is_found),
        cmocka_unit_test(who_does_not_answer_is_passed_over),
        cmocka_unit_test(a_paused_primary_is_left_before_two_seconds),
        cmocka_unit_test(a_slow_primary_is_left_once),
        cmocka_unit_test(one_address_is_asked_until_it_is_the_primarys),
        cmocka_unit_test(no_primary_is_told_in_time_with_what_each_said),
        cmocka_unit_test(an_address_that_was_not_given_is_not_used),
        cmocka_unit_test(a_broker_of_another_cluster_is_passed_over),
        cmocka_unit_test(a_broker_that_is_not_the_primary_is_left_once_it_has_told_all),
        cmocka_unit_test(it_is_not_waited_for_long),
        cmocka_unit_test(what_was_not_answered_takes_effect_once_at_the_new_primary),
        cmocka_unit_test(roles_may_change_under_load),
        cmocka_unit_test(a_follower_answers_only_who_lets_it),
        cmocka_unit_test(an_older_follower_that_does_not_know_what_is_asked_for_is_not_believed),
        cmocka_unit_test(a_follower_keeps_nobody_waiting_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
