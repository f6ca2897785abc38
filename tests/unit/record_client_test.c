/* record_client_test.c: a node relies only on a pair's record that it has read or successfully written, never on one
 * that it only tried to write. */
#include "record_client.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cmocka.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool is_done;
static uint32_t file_system; /* file system type that statfs reports; 0: the real one */

int __real_statfs64(const char *path, struct statfs64 *out);
int __wrap_statfs64(const char *path, struct statfs64 *out);
int __wrap_statfs64(const char *path, struct statfs64 *out) {
    int result = __real_statfs64(path, out);
    if (file_system != 0) out->f_type = file_system;
    return result;
}

static void on_done(void *argument) {
    pthread_mutex_lock(&mutex);
    is_done = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
}

static void on_changed(void *argument) {}

static void wait_for_answer(void) {
    pthread_mutex_lock(&mutex);
    while (!is_done) pthread_cond_wait(&changed, &mutex);
    is_done = false;
    pthread_mutex_unlock(&mutex);
}

static struct pair_event answer_of(struct record_client *record_client) {
    struct pair_event event;
    char message[COORDINATOR_MESSAGE_SIZE];
    wait_for_answer();
    assert_int_equal(record_client_take(record_client, 0, &event, message), 0);
    return event;
}

static int open_record_client(struct record_client *record_client, uint8_t self, const char *url,
                              char message[COORDINATOR_MESSAGE_SIZE]) {
    *record_client = (struct record_client){
        .done = on_done, .changed = on_changed, .self = self, .member = {self}, .presence_ms = 300};
    return record_client_open(record_client, &(struct record_client_access){.url = url}, message);
}

static struct pair_event claim(struct record_client *record_client, uint32_t epoch) {
    struct record_member members[RECORD_NODES] = {0};
    struct pair_record record = {.epoch = epoch,
                                 .leader = record_client->self,
                                 .in_sync = (uint8_t)(1u << record_client->self)};
    members[record_client->self] =
        (struct record_member){.is_known = true, .id = {record_client->self}, .url = "ws://h:1"};
    members[0].is_known = true; /* the founder of the pair is always a known member */
    strcpy(members[0].url, "ws://h:1");
    record_client_swap(record_client, 0, &record, members);
    return answer_of(record_client);
}

static void make_place(char directory[64], char url[128]) {
    strcpy(directory, "/tmp/tarry-record_client-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(url, 128, "file://%s/record", directory);
}

static void remove_place(const char *directory) {
    char path[128];
    static const char *const names[] = {"/record", "/record.lock", "/record.present-0", "/record.present-1", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s%s", directory, names[i]);
        (void)remove(path);
    }
}

/* A node's claim is refused because another node was faster. In an earlier version, the node still named itself to
 * clients as the primary until it had read the record. */
static void who_was_slower_does_not_take_its_own_claim_for_the_record(void **state) {
    char directory[64], url[128], message[COORDINATOR_MESSAGE_SIZE];
    struct record_client first, second;
    make_place(directory, url);
    assert_int_equal(open_record_client(&first, 0, url, message), 0);
    assert_int_equal(open_record_client(&second, 1, url, message), 0);
    assert_int_equal(claim(&first, 1).outcome, PAIR_DONE);
    assert_int_equal(first.record.pair.epoch, 1);
    assert_int_equal(claim(&second, 1).outcome, PAIR_REFUSED);
    assert_int_equal(second.record.pair.epoch, 0); /* the node has not read a record yet */
    record_client_read(&second, RECORD_CLIENT_RECORD);
    assert_int_equal(answer_of(&second).outcome, PAIR_DONE);
    assert_int_equal(second.record.pair.leader, 0);
    record_client_close(&first);
    record_client_close(&second);
    remove_place(directory);
}

static bool is_present(struct record_client *record_client) {
    record_client_read(record_client, RECORD_CLIENT_PRESENCE);
    struct pair_event event = answer_of(record_client);
    assert_int_equal(event.outcome, PAIR_DONE);
    return event.present;
}

/* Only a presence with the epoch of the record counts, and only for a limited time. */
static void a_leader_is_present_while_it_says_so(void **state) { /* F-31c */
    char directory[64], url[128], message[COORDINATOR_MESSAGE_SIZE];
    struct record_client leader, follower;
    make_place(directory, url);
    assert_int_equal(open_record_client(&leader, 0, url, message), 0);
    assert_int_equal(open_record_client(&follower, 1, url, message), 0);
    assert_int_equal(claim(&leader, 7).outcome, PAIR_DONE);
    assert_false(is_present(&follower));
    record_client_declare(&leader, 6);
    /* A presence with an earlier epoch does not count. */
    for (int i = 0; i < 20; i++) assert_false(is_present(&follower));
    record_client_declare(&leader, 7);
    while (!is_present(&follower)) {
    }
    while (is_present(&follower)) { /* the leader no longer declares its presence */
    }
    record_client_declare(&leader, 7);
    while (!is_present(&follower)) {
    }
    record_client_close(&leader); /* an orderly close also removes the presence */
    assert_false(is_present(&follower));
    record_client_close(&follower);
    remove_place(directory);
}

/* The follower writes a question at the coordinator. The leader's watch reports it, and the leader answers with its
 * next declaration. */
static void a_leader_answers_its_follower_at_the_coordinator(void **state) { /* F-31c */
    char directory[64], url[128], message[COORDINATOR_MESSAGE_SIZE];
    struct record_client leader, follower;
    uint64_t stands_ms;
    make_place(directory, url);
    assert_int_equal(open_record_client(&leader, 0, url, message), 0);
    assert_int_equal(open_record_client(&follower, 1, url, message), 0);
    assert_int_equal(claim(&leader, 7).outcome, PAIR_DONE);
    for (uint64_t number = UINT64_C(3) << 32; number < (UINT64_C(3) << 32) + 3; number++) {
        assert_false(record_client_summons_stands(&follower, number, &stands_ms));
        do {
            record_client_summon(&follower, number);
            record_client_declare(&leader, 7); /* declares its presence again, as a leader does after each turn */
            bool was_there = is_present(&follower);
            assert_true(was_there || follower.heard == 0);
        } while (follower.heard != number);
        assert_true(record_client_summons_stands(&follower, number, &stands_ms));
        assert_true(stands_ms < 600000);
    }
    record_client_close(&leader);
    record_client_close(&follower);
    remove_place(directory);
}

static void a_file_of_a_network_is_no_coordinator(void **state) {
    static const uint32_t network[] = {0x6969, 0xff534d42, 0xfe534d42, 0x00c36400, 0x01021997};
    char directory[64], url[128], message[COORDINATOR_MESSAGE_SIZE];
    struct record_client record_client;
    make_place(directory, url);
    for (size_t i = 0; i < sizeof network / sizeof *network; i++) {
        file_system = network[i];
        assert_int_equal(open_record_client(&record_client, 0, url, message), 1);
        assert_non_null(strstr(message, "network file system"));
        assert_non_null(strstr(message, directory));
    }
    file_system = 0xef53; /* ext4 */
    assert_int_equal(open_record_client(&record_client, 0, url, message), 0);
    record_client_close(&record_client);
    file_system = 0;
    remove_place(directory);
}

/* F-31b, F-29: the rules must refuse a record that was set back to a time when this node had another disk. A leader
 * continues. */
static void a_record_of_an_epoch_before_those_seen_does_not_end_a_node_with_a_new_disk(void **state) {
    struct record_client record_client, anew;
    char directory[64], url[128], message[COORDINATOR_MESSAGE_SIZE];
    struct pair_event event;
    make_place(directory, url);
    assert_int_equal(open_record_client(&record_client, 0, url, message), 0);
    assert_int_equal(claim(&record_client, 3).outcome, PAIR_DONE);
    record_client_close(&record_client);
    assert_int_equal(open_record_client(&anew, 0, url, message), 0);
    anew.member[0] = 7;
    record_client_read(&anew, RECORD_CLIENT_RECORD);
    wait_for_answer();
    assert_int_equal(record_client_take(&anew, 3, &event, message), 1);
    assert_non_null(strstr(message, "names a different disk"));
    assert_int_equal(record_client_take(&anew, 4, &event, message), 0);
    assert_int_equal(event.record.epoch, 3);
    assert_int_equal(event.record.in_sync, 0); /* the record does not name this disk */
    record_client_close(&anew);
    remove_place(directory);
}

/* The client reads the files named in its options before it connects to the coordinator. */
static void credentials_that_cannot_be_read_open_nothing(void **state) {
    struct record_client record_client = {.done = on_done, .changed = on_changed, .presence_ms = 300};
    char directory[64], url[128], path[96], message[COORDINATOR_MESSAGE_SIZE];
    make_place(directory, url);
    snprintf(path, sizeof path, "%s/none", directory);
    const struct record_client_access access[] = {{.url = url, .credentials = path},
                                                  {.url = url, .ca = path},
                                                  {.url = url, .certificate = path},
                                                  {.url = url, .key = path}};
    const char *const what[] = {"coordinator credentials ", "coordinator-ca ", "coordinator-certificate ",
                                "coordinator key "};
    for (size_t i = 0; i < sizeof access / sizeof access[0]; i++) {
        message[0] = '\0';
        assert_int_equal(record_client_open(&record_client, &access[i], message), 1);
        assert_true(strncmp(message, what[i], strlen(what[i])) == 0);
        assert_non_null(strstr(message, "cannot be read"));
    }
    remove_place(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_of_an_epoch_before_those_seen_does_not_end_a_node_with_a_new_disk),
        cmocka_unit_test(who_was_slower_does_not_take_its_own_claim_for_the_record),
        cmocka_unit_test(a_leader_is_present_while_it_says_so),
        cmocka_unit_test(a_leader_answers_its_follower_at_the_coordinator),
        cmocka_unit_test(a_file_of_a_network_is_no_coordinator),
        cmocka_unit_test(credentials_that_cannot_be_read_open_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
