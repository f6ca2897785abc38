/* coordinator_test.c: the five calls of a coordinator that is a file on this host: success, refusal, unknown outcome,
 * and broken files. (tests/coordinator tests ZooKeeper, with lost replies.) */
#include "coordinator.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmocka.h>

#include "../must.h"

struct waiting {
    struct coordinator_call call;
    struct coordinator_watch watch;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_done;
    unsigned changes;
};

struct place {
    char directory[64], path[96], url[128];
    struct coordinator *coordinator;
    struct waiting waiting;
};

static void finished(struct coordinator_call *call) {
    struct waiting *waiting = (struct waiting *)call;
    pthread_mutex_lock(&waiting->mutex);
    waiting->is_done = true;
    pthread_cond_broadcast(&waiting->changed);
    pthread_mutex_unlock(&waiting->mutex);
}

static void await(struct waiting *waiting) {
    pthread_mutex_lock(&waiting->mutex);
    while (!waiting->is_done) pthread_cond_wait(&waiting->changed, &waiting->mutex);
    waiting->is_done = false;
    pthread_mutex_unlock(&waiting->mutex);
}

static struct coordinator *open_it(const char *url) {
    struct coordinator_options options = {.call_ms = 200, .session_ms = COORDINATOR_SESSION_MS};
    struct coordinator *coordinator;
    char message[COORDINATOR_MESSAGE_SIZE];
    if (coordinator_open(url, &options, &coordinator, message) != 0) {
        print_error("%s\n", message);
        return NULL;
    }
    return coordinator;
}

static int set_up(void **state) {
    struct place *place = calloc(1, sizeof *place);
    MUST(place != NULL);
    snprintf(place->directory, sizeof place->directory, "/tmp/tarry-coordinator-XXXXXX");
    MUST(mkdtemp(place->directory) != NULL);
    snprintf(place->path, sizeof place->path, "%s/pair", place->directory);
    snprintf(place->url, sizeof place->url, "file://%s", place->path);
    place->waiting.call.done = finished;
    pthread_mutex_init(&place->waiting.mutex, NULL);
    pthread_cond_init(&place->waiting.changed, NULL);
    place->coordinator = open_it(place->url);
    MUST(place->coordinator != NULL);
    *state = place;
    return 0;
}

static int tear_down(void **state) {
    struct place *place = *state;
    char command[128];
    coordinator_close(place->coordinator);
    snprintf(command, sizeof command, "rm -rf '%s'", place->directory);
    MUST(system(command) == 0);
    pthread_cond_destroy(&place->waiting.changed);
    pthread_mutex_destroy(&place->waiting.mutex);
    free(place);
    return 0;
}

static enum pair_outcome read_it(struct place *place) {
    coordinator_read(place->coordinator, "record", &place->waiting.call);
    await(&place->waiting);
    return place->waiting.call.outcome;
}

static enum pair_outcome set_it(struct place *place, uint64_t version, const char *value) {
    coordinator_compare_and_set(place->coordinator, "record", version, value, strlen(value), &place->waiting.call);
    await(&place->waiting);
    return place->waiting.call.outcome;
}

static void test_changes_at_its_version_only(void **state) {
    struct place *place = *state;
    const struct coordinator_call *call = &place->waiting.call;
    assert_int_equal(read_it(place), PAIR_DONE);
    assert_int_equal(call->version, 0);
    assert_int_equal(set_it(place, 1, "too early"), PAIR_REFUSED);
    assert_non_null(strstr(call->reason, "at version 0, not at version 1"));
    assert_int_equal(set_it(place, 0, "one"), PAIR_DONE);
    assert_int_equal(call->version, 1);
    assert_int_equal(set_it(place, 0, "made twice"), PAIR_REFUSED);
    assert_non_null(strstr(call->reason, "no longer has version 0"));
    assert_int_equal(set_it(place, 1, "two\nentry record 9 1\n"), PAIR_DONE);
    assert_int_equal(call->version, 2);
    assert_int_equal(read_it(place), PAIR_DONE);
    assert_int_equal(call->version, 2);
    assert_string_equal(call->value, "two\nentry record 9 1\n");
    assert_int_equal(call->size, strlen("two\nentry record 9 1\n"));
}

static void test_outlives_the_process_that_wrote(void **state) {
    struct place *place = *state;
    assert_int_equal(set_it(place, 0, "one"), PAIR_DONE);
    coordinator_close(place->coordinator);
    place->coordinator = open_it(place->url);
    assert_int_equal(read_it(place), PAIR_DONE);
    assert_int_equal(place->waiting.call.version, 1);
    assert_string_equal(place->waiting.call.value, "one");
}

static void test_a_multi_is_whole_or_not(void **state) {
    struct place *place = *state;
    struct coordinator_call *call = &place->waiting.call;
    struct coordinator_change both[] = {{.name = "record", .value = "r1", .size = 2},
                                        {.name = "other", .value = "o1", .size = 2}};
    coordinator_multi(place->coordinator, both, 2, call);
    await(&place->waiting);
    assert_int_equal(call->outcome, PAIR_DONE);
    assert_int_equal(call->changes[1].version, 1);
    struct coordinator_change half[] = {{.name = "record", .value = "r2", .size = 2, .version = 1},
                                        {.name = "other", .version = 7}};
    coordinator_multi(place->coordinator, half, 2, call);
    await(&place->waiting);
    assert_int_equal(call->outcome, PAIR_REFUSED);
    assert_int_equal(read_it(place), PAIR_DONE);
    assert_string_equal(call->value, "r1");
    half[1].version = 1;
    coordinator_multi(place->coordinator, half, 2, call);
    await(&place->waiting);
    assert_int_equal(call->outcome, PAIR_DONE);
    assert_int_equal(call->changes[0].version, 2);
    assert_int_equal(call->changes[1].version, 1);
}

static void seen_changed(struct coordinator_watch *watch) {
    struct waiting *waiting = (struct waiting *)((char *)watch - offsetof(struct waiting, watch));
    pthread_mutex_lock(&waiting->mutex);
    waiting->changes++;
    pthread_cond_broadcast(&waiting->changed);
    pthread_mutex_unlock(&waiting->mutex);
}

static void test_who_watches_hears_of_a_change_by_another(void **state) {
    struct place *place = *state;
    struct waiting *waiting = &place->waiting;
    waiting->watch = (struct coordinator_watch){.name = "record", .changed = seen_changed};
    coordinator_watch(place->coordinator, &waiting->watch);
    assert_int_equal(read_it(place), PAIR_DONE); /* a read of the record also sets the watch */
    struct coordinator *own = place->coordinator, *other = open_it(place->url);
    assert_non_null(other);
    place->coordinator = other;
    enum pair_outcome outcome = set_it(place, 0, "one");
    place->coordinator = own;
    assert_int_equal(outcome, PAIR_DONE);
    pthread_mutex_lock(&waiting->mutex);
    while (waiting->changes == 0) pthread_cond_wait(&waiting->changed, &waiting->mutex);
    pthread_mutex_unlock(&waiting->mutex);
    coordinator_close(other);
}

/* R4: a version older than one that was already seen is ignored. */
static void test_an_older_version_is_not_believed(void **state) {
    struct place *place = *state;
    char command[256];
    assert_int_equal(set_it(place, 0, "one"), PAIR_DONE);
    snprintf(command, sizeof command, "cp '%s' '%s.old'", place->path, place->path);
    MUST(system(command) == 0);
    assert_int_equal(set_it(place, 1, "two"), PAIR_DONE);
    snprintf(command, sizeof command, "mv '%s.old' '%s'", place->path, place->path);
    MUST(system(command) == 0);
    assert_int_equal(read_it(place), PAIR_UNKNOWN);
    assert_non_null(strstr(place->waiting.call.reason, "already read version 2"));
}

static void test_an_entry_that_is_gone_or_made_again_is_not_believed(void **state) {
    struct place *place = *state;
    assert_int_equal(set_it(place, 0, "one"), PAIR_DONE);
    MUST(unlink(place->path) == 0);
    assert_int_equal(read_it(place), PAIR_UNKNOWN);
    assert_non_null(strstr(place->waiting.call.reason, "is gone"));
    struct coordinator *own = place->coordinator;
    place->coordinator = open_it(place->url);
    assert_int_equal(set_it(place, 0, "another"), PAIR_DONE);
    coordinator_close(place->coordinator);
    place->coordinator = own;
    assert_int_equal(read_it(place), PAIR_UNKNOWN);
    assert_non_null(strstr(place->waiting.call.reason, "made again"));
}

/* A file that is deleted and made again counts as another file, even if the same process makes it. The new file has
 * another creation id. */
static void test_a_file_that_its_reader_makes_again_is_another_one(void **state) {
    struct place *place = *state;
    struct coordinator_call *call = &place->waiting.call;
    struct coordinator_change change = {.name = "other", .value = "o1", .size = 2};
    assert_int_equal(set_it(place, 0, "one"), PAIR_DONE);
    MUST(unlink(place->path) == 0);
    coordinator_multi(place->coordinator, &change, 1, call);
    await(&place->waiting);
    assert_int_equal(call->outcome, PAIR_DONE);
    struct coordinator *own = place->coordinator;
    place->coordinator = open_it(place->url);
    assert_int_equal(set_it(place, 0, "one"), PAIR_DONE);
    coordinator_close(place->coordinator);
    place->coordinator = own;
    assert_int_equal(read_it(place), PAIR_UNKNOWN);
    assert_non_null(strstr(call->reason, "made again"));
}

static void test_each_damage_is_found(void **state) {
    struct place *place = *state;
    assert_int_equal(set_it(place, 0, "one"), PAIR_DONE);
    char bytes[512];
    int file = open(place->path, O_RDWR);
    MUST(file >= 0);
    ssize_t size = read(file, bytes, sizeof bytes);
    for (ssize_t bit = 0; bit < size * 8; bit++) {
        char flipped = (char)(bytes[bit / 8] ^ (1 << bit % 8));
        MUST(pwrite(file, &flipped, 1, bit / 8) == 1);
        assert_int_equal(read_it(place), PAIR_UNKNOWN);
        assert_int_equal(set_it(place, 1, "two"), PAIR_UNKNOWN);
        MUST(pwrite(file, &bytes[bit / 8], 1, bit / 8) == 1);
    }
    assert_int_equal(read_it(place), PAIR_DONE);
    for (ssize_t end = size - 1; end >= 0; end--) {
        MUST(ftruncate(file, end) == 0);
        assert_int_equal(read_it(place), PAIR_UNKNOWN);
    }
    struct coordinator_session session;
    coordinator_session(place->coordinator, &session);
    assert_non_null(strstr(session.message, "is damaged"));
    close(file);
}

/* Only a change takes the lock. Otherwise a node that is stopped during a read would prevent the other node from
 * serving alone (F-27). */
static void test_a_lock_that_is_kept_ends_a_change(void **state) {
    struct place *place = *state;
    char path[128];
    snprintf(path, sizeof path, "%s.lock", place->path);
    int lock = open(path, O_RDWR);
    MUST(lock >= 0 && flock(lock, LOCK_EX) == 0);
    assert_int_equal(set_it(place, 0, "one"), PAIR_UNKNOWN);
    assert_non_null(strstr(place->waiting.call.reason, "locked by another process"));
    assert_int_equal(read_it(place), PAIR_DONE);
    assert_int_equal(place->waiting.call.version, 0);
    MUST(flock(lock, LOCK_UN) == 0);
    assert_int_equal(set_it(place, 0, "one"), PAIR_DONE);
    close(lock);
}

static void test_wrong_urls_and_options_are_refused_in_words(void **state) {
    struct place *place = *state;
    static const char *const wrong[] = {"",          "file", "file://", "file:///", "file://relative", "file:///tmp/",
                                        "http://x/y"};
    struct coordinator_options options = {.call_ms = 200, .session_ms = 1000};
    struct coordinator *out;
    char message[COORDINATOR_MESSAGE_SIZE];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        message[0] = '\0';
        assert_int_equal(coordinator_check_url(wrong[i], message), 1);
        assert_non_null(strstr(message, "must be"));
    }
    assert_int_equal(coordinator_check_url(place->url, message), 0);
    assert_int_equal(coordinator_open("file:///nowhere/at/all", &options, &out, message), 1);
    assert_non_null(strstr(message, "/nowhere/at/all.lock cannot be made: No such file"));
    options.call_ms = 99;
    assert_int_equal(coordinator_open(place->url, &options, &out, message), 1);
    assert_non_null(strstr(message, "not 99 ms"));
}

/* Opening checks only that the user of etcd can be written as JSON. Nothing is sent before there is a connection. */
static void test_credentials_are_looked_at_as_it_is_opened(void **state) {
    struct coordinator_options options = {.call_ms = 200, .session_ms = 1000, .credentials = "pair:secret"};
    char message[COORDINATOR_MESSAGE_SIZE] = "";
    struct coordinator *out;
    (void)state;
    if (coordinator_open("etcd://127.0.0.1:1/pair", &options, &out, message) != 0) fail_msg("%s", message);
    coordinator_close(out);
    options.credentials = "pair:\xff";
    assert_int_equal(coordinator_open("etcd://127.0.0.1:1/pair", &options, &out, message), 1);
    assert_non_null(strstr(message, "must be UTF-8"));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(changes_at_its_version_only),
        TEST(outlives_the_process_that_wrote),
        TEST(a_multi_is_whole_or_not),
        TEST(who_watches_hears_of_a_change_by_another),
        TEST(an_older_version_is_not_believed),
        TEST(an_entry_that_is_gone_or_made_again_is_not_believed),
        TEST(a_file_that_its_reader_makes_again_is_another_one),
        TEST(each_damage_is_found),
        TEST(a_lock_that_is_kept_ends_a_change),
        TEST(wrong_urls_and_options_are_refused_in_words),
        TEST(credentials_are_looked_at_as_it_is_opened),
    };
    return cmocka_run_group_tests_name("coordinator", tests, NULL, NULL);
}
