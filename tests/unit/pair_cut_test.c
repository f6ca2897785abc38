/* pair_cut_test.c: what a follower reports about its log, what it cuts off, and what it never cuts, whatever its leader
 * says (broker/shell/pair/node_follower.c, R8). Linked with all parts of tarryd. A refusal ends the process, so each
 * cut runs in a child. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fatal.h"
#include "follow_wire.h"
#include "log_two.h"
#include "node.h"
#include "node_parts.h"

#define FRAMES 20

struct fx {
    struct two *two;
    struct node *node;
    struct config config;
    struct datadir dir;
    _Atomic uint64_t signed_to;
    uint64_t ends[FRAMES]; /* end positions of the log's frames */
};

static int set_up(void **state) {
    struct fx *fx = calloc(1, sizeof(*fx));
    two_set_up((void **)&fx->two);
    struct one *one = &fx->two->follower;
    for (size_t i = 0; i < FRAMES; i++) {
        two_append(fx->two, one, 100, 0);
        fx->ends[i] = log_end(one->log);
    }
    assert_int_equal(log_sync(one->log), 0);
    snprintf(fx->config.peer, sizeof(fx->config.peer), "ws://leader:1");
    snprintf(fx->dir.quarantine, sizeof(fx->dir.quarantine), "/d/quarantine");
    fx->node = calloc(1, sizeof(*fx->node));
    fx->node->log = one->log;
    fx->node->needs = (struct node_needs){.config = &fx->config,
                                          .dir = &fx->dir,
                                          .disk = &one->model->disk,
                                          .signed_to = &fx->signed_to};
    fx->node->digests.expected.position =
        fx->ends[FRAMES - 1]; /* the cut removes this position, so it must also clear `expected` */
    pthread_mutex_init(&fx->node->mutex, NULL);
    *state = fx;
    return 0;
}

static int tear_down(void **state) {
    struct fx *fx = *state;
    two_tear_down((void **)&fx->two);
    free(fx->node);
    free(fx);
    return 0;
}

enum { CUT, WAITS, ELSEWHERE }; /* exit statuses of the child, besides those of tarryd */

/* Runs the cut in a child, so the parent's memory is unchanged. Returns the exit status. */
static int cut_at(struct fx *fx, uint64_t end) {
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)freopen("/dev/null", "w", stderr); /* the child's error messages are not needed */
        bool is_cut = follower_cut(fx->node, end);
        bool is_there = log_end(fx->node->log) == end && fx->node->digests.expected.position == 0;
        _exit(10 + (is_cut && is_there ? CUT : is_cut ? ELSEWHERE : WAITS));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void what_nobody_has_vouched_for_is_cut_off(void **state) { /* R8 */
    struct fx *fx = *state;
    fx->node->pair.committed = fx->ends[9];
    atomic_store(&fx->signed_to, fx->ends[4]);
    assert_int_equal(cut_at(fx, fx->ends[14]), 10 + CUT);
    assert_int_equal(cut_at(fx, fx->ends[9]), 10 + CUT);
}

static void what_is_committed_is_not(void **state) { /* R8 */
    struct fx *fx = *state;
    fx->node->pair.committed = fx->ends[9];
    assert_int_equal(cut_at(fx, fx->ends[8]), EXIT_REFUSED);
    assert_int_equal(cut_at(fx, fx->ends[0]), EXIT_REFUSED);
}

static void what_this_node_has_signed_is_not(void **state) { /* R8 */
    struct fx *fx = *state;
    fx->node->pair.committed = fx->ends[4];
    atomic_store(&fx->signed_to, fx->ends[9]);
    assert_int_equal(cut_at(fx, fx->ends[8]), EXIT_REFUSED);
    assert_int_equal(cut_at(fx, fx->ends[9]), 10 + CUT);
}

static void what_is_no_frames_end_or_not_there_is_refused(void **state) {
    struct fx *fx = *state;
    assert_int_equal(cut_at(fx, fx->ends[9] + 8), EXIT_REFUSED);
    assert_int_equal(cut_at(fx, fx->ends[FRAMES - 1] + 8), EXIT_REFUSED);
}

static void a_cut_that_fails_ends_the_process(void **state) { /* LOG-4 */
    struct fx *fx = *state;
    struct model_disk *model = fx->two->follower.model;
    model->fail_at = model->calls + 1;
    model->fail_error = -EIO;
    model->fail_for_ever = true;
    assert_int_equal(cut_at(fx, fx->ends[9]), EXIT_STORAGE);
}

/* The node tries the cut again later, at the same position. */
static void a_log_that_is_copied_is_cut_later(void **state) { /* R8 */
    struct fx *fx = *state;
    struct follower_half *half = &fx->node->following.half;
    half->again_ns = UINT64_MAX;
    (void)log_pin(fx->node->log); /* makes all segments stay, as a backup does */
    assert_false(follower_cut(fx->node, fx->ends[9]));
    assert_int_equal(half->cut_end, fx->ends[9]);
    assert_true(half->again_ns != UINT64_MAX);
    assert_int_equal(log_end(fx->node->log), fx->ends[FRAMES - 1]);
    log_unpin(fx->node->log);
}

static Tarry__Request *asked; /* the newest request that was sent */
static unsigned epochs_read;

void __wrap_rpc_client_ask(struct rpc_client *rpc_client, struct message *question, unsigned time_ms);
void __wrap_rpc_client_ask(struct rpc_client *rpc_client, struct message *question, unsigned time_ms) {
    if (asked != NULL) tarry__request__free_unpacked(asked, NULL);
    asked = tarry__request__unpack(NULL, message_size(question), message_data(question));
    assert_non_null(asked);
    message_free(question);
}

int __real_log_epochs_read(struct log *log, struct log_epochs *out);
int __wrap_log_epochs_read(struct log *log, struct log_epochs *out);
int __wrap_log_epochs_read(struct log *log, struct log_epochs *out) {
    assert_null(out->items); /* the result of the read before was freed */
    epochs_read++;
    return __real_log_epochs_read(log, out);
}

/* Sends a request to a leader from which this node has received nothing. */
static const Tarry__Follow *ask(struct fx *fx) {
    follower_ask(fx->node, &(struct pair_message){.kind = PAIR_FOLLOW,
                                                  .serial = ++fx->node->following.half.question.serial + 1,
                                                  .end = log_durable(fx->node->log)});
    return asked->follow;
}

/* The node reads the beginnings of its log's epochs again only if the log's end has changed. Reading may take longer
 * than a request may wait. */
static void where_its_epochs_began_is_read_once_and_told(void **state) { /* R8 */
    struct fx *fx = *state;
    struct one *one = &fx->two->follower;
    struct peer_key key = {0};
    fx->node->needs.peer_key = &key;
    fx->node->digests.compared = (struct digest_point){fx->ends[3], 77};
    const Tarry__Follow *follow = ask(fx);
    assert_int_equal(follow->end, fx->ends[FRAMES - 1]);
    assert_int_equal(follow->digest_position, fx->ends[3]);
    assert_int_equal(follow->digest, 77);
    assert_int_equal(follow->n_epochs, 1);
    assert_int_equal(follow->epochs[0], 1);
    assert_int_equal(follow->epoch_starts[0], log_start(one->log));
    follow = ask(fx);
    assert_int_equal(follow->n_epochs, 1);
    assert_int_equal(epochs_read, 1);
    fx->two->epoch = 5;
    two_append(fx->two, one, 100, 0);
    assert_int_equal(log_sync(one->log), 0);
    follow = ask(fx);
    assert_int_equal(epochs_read, 2);
    assert_int_equal(follow->n_epochs, 2);
    assert_int_equal(follow->epochs[1], 5);
    assert_int_equal(follow->epoch_starts[1], fx->ends[FRAMES - 1]);
    tarry__request__free_unpacked(asked, NULL);
    asked = NULL;
    log_epochs_deinit(&fx->node->following.epochs);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_nobody_has_vouched_for_is_cut_off),
        TEST(what_is_committed_is_not),
        TEST(what_this_node_has_signed_is_not),
        TEST(what_is_no_frames_end_or_not_there_is_refused),
        TEST(a_cut_that_fails_ends_the_process),
        TEST(a_log_that_is_copied_is_cut_later),
        TEST(where_its_epochs_began_is_read_once_and_told),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
