/* client_process_test.c: threads and signals of libtarry, its behaviour after a fork, and which calls are allowed in
 * callbacks. With a fake broker (fake_broker.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"
#include "consumer.h"
#include "fake_broker.h"

static const struct tarry_schedule_options order = {.queue = "orders", .key = "order-1", .when_ms = 500};

static tarry_client *client_to(const char *urls) {
    tarry_client *client;
    struct tarry_options options = {.urls = urls, .name = "client_test", .timeout_ms = 5000};
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    return client;
}

static void wait_for(atomic_int *flag) {
    for (int i = 0; i < 10000 && atomic_load(flag) == 0; i++) sleep_ms(1);
    assert_int_not_equal(atomic_load(flag), 0);
}

/* ---- threads */

struct thread_seen {
    char name[32];
    uint64_t blocked; /* mask of blocked signals: bit number signal - 1 */
};

static void read_thread(const char *id, struct thread_seen *out) {
    char path[64], line[256];
    snprintf(path, sizeof(path), "/proc/self/task/%.20s/status", id);
    *out = (struct thread_seen){.blocked = 0};
    FILE *file = fopen(path, "r");
    if (file == NULL) return; /* the thread has ended meanwhile */
    while (fgets(line, sizeof(line), file) != NULL) {
        (void)sscanf(line, "Name: %31s", out->name);
        if (strncmp(line, "SigBlk:", 7) == 0) out->blocked = strtoull(line + 7, NULL, 16);
    }
    fclose(file);
}

static size_t read_threads(struct thread_seen *out, size_t max) {
    size_t count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL && count < max;) {
        if (entry->d_name[0] == '.') continue;
        read_thread(entry->d_name, &out[count]);
        count += out[count].name[0] != 0;
    }
    closedir(tasks);
    return count;
}

static bool has_thread(const struct thread_seen *threads, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(threads[i].name, name) == 0) return true;
    return false;
}

static enum tarry_verdict acks(void *arg, tarry_consumer *consumer, const struct tarry_task *task,
                               struct tarry_nack_details *nack) {
    return TARRY_DO_ACK;
}

static tarry_consumer *consumer_of(tarry_client *client, tarry_handler_fn handler, void *arg) {
    tarry_consumer *consumer;
    const char *queue = "orders";
    struct tarry_consumer_options options = {.queues = &queue, .queue_count = 1, .handler = handler, .arg = arg};
    assert_int_equal(tarry_consumer_open(client, &options, &consumer, NULL), TARRY_OK);
    return consumer;
}

static bool blocks_all(const struct thread_seen *thread) {
    return (thread->blocked >> (SIGTERM - 1) & thread->blocked >> (SIGUSR1 - 1) & thread->blocked >> (SIGALRM - 1) &
            thread->blocked >> (SIGPROF - 1) & 1) != 0;
}

static int judge_threads(void) {
    struct thread_seen threads[64];
    size_t count = read_threads(threads, 64);
    if (count < 2 || !has_thread(threads, count, "tarry-engine")) return 3;
    for (size_t i = 0; i < count; i++) {
        bool is_main = strcmp(threads[i].name, "client_process_") == 0;
        if (blocks_all(&threads[i]) == is_main) return 4;
        if (threads[i].blocked >> (SIGSEGV - 1) & 1) return 5;
    }
    return 0;
}

/* Checks the library's threads. Runs in a child process without a fake broker, because the fake's thread is not the
 * library's. No server listens at the address. The check is repeated, because a new thread still has its parent's name
 * and blocks all signals. */
static int look_at_own_threads(void) {
    tarry_client *client;
    struct tarry_options options = {.urls = "ws://127.0.0.1:9"};
    if (tarry_open(&options, &client) != TARRY_OK) return 2;
    int status = judge_threads();
    for (int i = 0; i < 10000 && status != 0; i++, status = judge_threads()) sleep_ms(1);
    if (status != 0) return status;
    return tarry_close(client) == TARRY_OK ? 0 : 6;
}

static int status_of(pid_t child) {
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void threads_of_the_library_block_signals(void **state) {
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(look_at_own_threads());
    }
    assert_int_equal(status_of(child), 0);
}

static void threads_of_the_library_have_names(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    fake_open_lane(fake);
    tarry_client *client = client_to(fake->url);
    tarry_consumer *consumer = consumer_of(client, acks, NULL);
    struct thread_seen threads[64];
    size_t count = read_threads(threads, 64);
    assert_true(has_thread(threads, count, "tarry-engine"));
    assert_true(has_thread(threads, count, "tarry-handler"));
    assert_int_equal(tarry_consumer_close(consumer, 0, NULL), TARRY_OK);
    assert_int_equal(tarry_close(client), TARRY_OK);
    fake_stop(fake);
}

/* Facts that the thread that looks up a host name recorded about itself. */
static struct thread_seen looks_up;
static atomic_int has_looked_up;

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out_list);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out_list);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out_list) {
    if ((hints->ai_flags & AI_NUMERICHOST) != 0) return __real_getaddrinfo(host, port, hints, out_list);
    char id[32];
    snprintf(id, sizeof(id), "%d", (int)gettid());
    struct thread_seen seen = {.blocked = 0}; /* the new thread gets its name a little after its start */
    for (int i = 0; i < 10000 && strcmp(seen.name, "tarry-resolve") != 0; i++, sleep_ms(1)) read_thread(id, &seen);
    if (atomic_load(&has_looked_up) == 0) looks_up = seen;
    atomic_store(&has_looked_up, 1);
    return EAI_NONAME;
}

/* tarry_open starts the lookup from the program's thread, whose signal mask differs from that of library threads. */
static void looking_up_a_name_blocks_signals_and_has_a_name(void **state) {
    tarry_client *client = client_to("ws://broker.invalid:9");
    wait_for(&has_looked_up);
    assert_string_equal(looks_up.name, "tarry-resolve");
    assert_true(blocks_all(&looks_up));
    assert_int_equal(tarry_close(client), TARRY_OK);
}

/* ---- forks */

struct inherited {
    tarry_client *client;
    tarry_consumer *consumer;
    tarry_commit *commit;
    tarry_list *list;
    tarry_audit *audit;
    const struct tarry_task *task;
};

#define TOLD(expression)                                                                                               \
    do {                                                                                                               \
        if ((expression) != TARRY_E_FORKED) return __LINE__ % 200 + 10;                                                \
    } while (0)

static void never(void *arg, const struct tarry_result *result) {
    abort();
}

static int child_calls_what_changes(struct inherited *in) {
    tarry_client *client = in->client;
    const struct tarry_ref ref = {.id = 1};
    const struct tarry_token token = {1, 1};
    struct tarry_result result = {0};
    tarry_commit *commit;
    const struct tarry_redact_options redact = {.task = ref, .reason = "test"};
    TOLD(tarry_schedule(client, &order, &result));
    TOLD(result.code);
    TOLD(tarry_schedule_async(client, &order, never, NULL));
    TOLD(tarry_cancel(client, &ref, false, NULL, NULL));
    TOLD(tarry_ack(client, 1, token, NULL, NULL));
    TOLD(tarry_ack_async(client, 1, token, NULL, never, NULL));
    TOLD(tarry_redact(client, &redact, NULL));
    TOLD(tarry_commit_new(client, false, &commit));
    TOLD(tarry_commit_run(in->commit, NULL, NULL, NULL));
    TOLD(tarry_commit_submit(in->commit, NULL, NULL, NULL));
    TOLD(tarry_commit_schedule(in->commit, &order));
    tarry_commit_free(in->commit);
    TOLD(tarry_drain(client, 0, NULL));
    return 0;
}

static int child_calls_what_asks(struct inherited *in) {
    tarry_client *client = in->client;
    const struct tarry_ref ref = {.id = 1};
    char message[TARRY_MESSAGE_SIZE] = "";
    const char *queue = "orders";
    struct tarry_view *view;
    struct tarry_queues_view *queues;
    struct tarry_stats_view *stats;
    struct tarry_pair_view *pair;
    const struct tarry_view *listed;
    const struct tarry_frame *frame;
    const struct tarry_task *task;
    tarry_list *list;
    tarry_audit *audit;
    tarry_consumer *consumer;
    TOLD(tarry_get(client, &ref, false, NULL, &view, message));
    if (strcmp(message, tarry_code_sentence(TARRY_E_FORKED)) != 0) return 3;
    TOLD(tarry_queues(client, NULL, &queues, NULL));
    TOLD(tarry_stats(client, NULL, NULL, &stats, NULL));
    TOLD(tarry_pair_status(client, NULL, &pair, NULL));
    TOLD(tarry_ping(client, NULL));
    TOLD(tarry_list_open(client, &(struct tarry_list_options){.queue = "orders"}, &list));
    TOLD(tarry_list_next(in->list, &listed, NULL));
    tarry_list_close(in->list);
    TOLD(tarry_audit_open(client, NULL, &audit));
    TOLD(tarry_audit_next(in->audit, 100, &frame, NULL));
    tarry_audit_wake(in->audit);
    tarry_audit_close(in->audit);
    TOLD(tarry_consumer_open(client, &(struct tarry_consumer_options){.queues = &queue, .queue_count = 1}, &consumer,
                             NULL));
    TOLD(tarry_consumer_next(in->consumer, 0, &task));
    TOLD(tarry_consumer_next(in->consumer, TARRY_FOREVER, &task));
    tarry_consumer_wake(in->consumer);
    if (tarry_consumer_session(in->consumer) != 0 || tarry_silence_ms(client) != 0) return 4;
    if (tarry_busy_ms(client, message) != 0 || strcmp(tarry_addresses_say(client, message), "") != 0) return 5;
    tarry_task_free(in->task);
    return 0;
}

static int child_closes(struct inherited *in) {
    tarry_client *client;
    TOLD(tarry_consumer_close(in->consumer, 0, NULL));
    TOLD(tarry_close(in->client));
    TOLD(tarry_open(NULL, &client));
    return 0;
}

/* After a fork, the child has only the thread that forked. Other threads of the parent may have held locks. */
static void a_child_is_told_and_the_parent_goes_on(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    fake_open_lane(fake);
    struct inherited in = {.client = client_to(fake->url)};
    in.consumer = consumer_of(in.client, NULL, NULL);
    fake_deliver(fake, 1, 7, 1);
    assert_int_equal(tarry_consumer_next(in.consumer, 5000, &in.task), TARRY_OK);
    assert_int_equal(tarry_commit_new(in.client, false, &in.commit), TARRY_OK);
    assert_int_equal(tarry_commit_schedule(in.commit, &order), TARRY_OK);
    assert_int_equal(tarry_list_open(in.client, &(struct tarry_list_options){.queue = "orders"}, &in.list), TARRY_OK);
    assert_int_equal(tarry_audit_open(in.client, NULL, &in.audit), TARRY_OK);
    int (*const parts[])(struct inherited *) = {child_calls_what_changes, child_calls_what_asks, child_closes};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        pthread_mutex_lock(&in.client->lock); /* the locks are held, as if other threads were inside calls */
        pthread_mutex_lock(&in.consumer->lock);
        pid_t child = fork();
        if (child == 0) {
            alarm(30);
            _exit(parts[i](&in));
        }
        pthread_mutex_unlock(&in.consumer->lock);
        pthread_mutex_unlock(&in.client->lock);
        assert_int_equal(status_of(child), 0);
    }
    struct tarry_result result;
    assert_int_equal(tarry_ack(in.client, in.task->id, in.task->token, NULL, &result), TARRY_OK);
    assert_int_equal(fake->ops, 1);
    tarry_task_free(in.task);
    tarry_commit_free(in.commit);
    tarry_list_close(in.list);
    tarry_audit_close(in.audit);
    assert_int_equal(tarry_consumer_close(in.consumer, 0, NULL), TARRY_OK);
    assert_int_equal(tarry_close(in.client), TARRY_OK);
    fake_stop(fake);
}

/* ---- closing from a callback, which is refused */

struct closing {
    tarry_client *client;
    tarry_consumer *consumer;
    int of_client;
    int of_consumer;
    int of_next;
    atomic_int done;
};

static void closes_everything(void *arg, const struct tarry_result *result) {
    struct closing *closing = arg;
    const struct tarry_task *task;
    closing->of_next = tarry_consumer_next(closing->consumer, 1000, &task);
    closing->of_consumer = tarry_consumer_close(closing->consumer, 0, NULL);
    closing->of_client = tarry_close(closing->client);
    atomic_store(&closing->done, 1);
}

static void closing_from_a_callback_is_refused(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    fake_open_lane(fake);
    struct closing closing = {.client = client_to(fake->url)};
    closing.consumer = consumer_of(closing.client, NULL, NULL);
    assert_int_equal(tarry_schedule_async(closing.client, &order, closes_everything, &closing), TARRY_OK);
    wait_for(&closing.done);
    assert_int_equal(closing.of_next, TARRY_E_CALLBACK);
    assert_int_equal(closing.of_consumer, TARRY_E_CALLBACK);
    assert_int_equal(closing.of_client, TARRY_E_CALLBACK);
    assert_int_equal(tarry_schedule(closing.client, &order, NULL),
                     TARRY_OK); /* the refused calls have closed nothing, so the client still works */
    assert_int_equal(tarry_consumer_close(closing.consumer, 0, NULL), TARRY_OK);
    assert_int_equal(tarry_close(closing.client), TARRY_OK);
    fake_stop(fake);
}

static enum tarry_verdict closes_from_its_handler(void *arg, tarry_consumer *consumer, const struct tarry_task *task,
                                                  struct tarry_nack_details *nack) {
    struct closing *closing = arg;
    closing->of_consumer = tarry_consumer_close(consumer, 0, NULL);
    closing->of_client = tarry_close(closing->client);
    atomic_store(&closing->done, 1);
    return TARRY_DO_ACK;
}

static void closing_from_a_handler_is_refused(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    fake_open_lane(fake);
    struct closing closing = {.client = client_to(fake->url)};
    closing.consumer = consumer_of(closing.client, closes_from_its_handler, &closing);
    fake_deliver(fake, 1, 7, 1);
    wait_for(&closing.done);
    assert_int_equal(closing.of_consumer, TARRY_E_CALLBACK);
    assert_int_equal(closing.of_client, TARRY_E_CALLBACK);
    /* The client has an open consumer, which must be closed first. */
    assert_int_equal(tarry_close(closing.client), TARRY_E_ARGUMENT);
    assert_int_equal(tarry_consumer_close(closing.consumer, 0, NULL), TARRY_OK);
    assert_int_equal(COUNT(fake, ops), 1); /* only the ack was executed */
    assert_int_equal(COUNT(fake, unsubscribes), 1);
    assert_int_equal(fake->seen_count, 0);
    assert_int_equal(tarry_close(closing.client), TARRY_OK);
    fake_stop(fake);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_of_the_library_block_signals),
        cmocka_unit_test(threads_of_the_library_have_names),
        cmocka_unit_test(looking_up_a_name_blocks_signals_and_has_a_name),
        cmocka_unit_test(a_child_is_told_and_the_parent_goes_on),
        cmocka_unit_test(closing_from_a_callback_is_refused),
        cmocka_unit_test(closing_from_a_handler_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
