/* driver.c: the driver of libtarry (README.md). Each call has a thread; a worker has one thread for each handler.
 * libtarry settles tasks and keeps sessions. This program extends leases and gives tasks back for later, because
 * libtarry does not. */
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarry.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_DEFAULT_MS 30000
#define ATTRIBUTES_MAX 8
#define TASKS_MAX 64

static tarry_client *client;
static pthread_mutex_t out = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_opened = PTHREAD_COND_INITIALIZER;
static bool gate_is_open;
static atomic_int calls; /* number of calls that are running */
static atomic_bool is_stopping;

static void die(const char *what) {
    fprintf(stderr, "driver: %s\n", what);
    exit(2);
}

/* Prints the object as a line, and frees it. */
static void tell(json_t *object) {
    if (object == NULL) die("json_pack failed");
    char *text = json_dumps(object, JSON_COMPACT);
    pthread_mutex_lock(&out);
    puts(text);
    fflush(stdout);
    pthread_mutex_unlock(&out);
    free(text);
    json_decref(object);
}

static void sleep_ms(uint64_t ms) {
    struct timespec left = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0) {
    }
}

static const char *text_of(const json_t *call, const char *name) {
    const json_t *value = json_object_get(call, name);
    return json_is_string(value) ? json_string_value(value) : NULL;
}

static uint64_t number_of(const json_t *call, const char *name) {
    return (uint64_t)json_integer_value(json_object_get(call, name));
}

/* ---- codes and results */

static const char *code_of(int code) {
    switch (code) {
    case TARRY_OK:
        return "OK";
    case TARRY_E_NO_BROKER:
    case TARRY_BUSY:
    case TARRY_STOPPING:
    case TARRY_NOT_PRIMARY:
        return "UNAVAILABLE"; /* the request was not executed */
    case TARRY_E_TIMEOUT:
    case TARRY_FAILED:
        return "UNKNOWN";
    default:
        break;
    }
    static _Thread_local char upper[64];
    const char *name = tarry_code_name(code);
    size_t i = 0;
    for (; name[i] != 0 && i + 1 < sizeof(upper); i++)
        upper[i] = (char)(name[i] >= 'a' && name[i] <= 'z' ? name[i] - 'a' + 'A' : name[i]);
    upper[i] = 0;
    return upper;
}

static json_t *result_of(const struct tarry_result *result) {
    char id[24];
    snprintf(id, sizeof(id), "%llu", (unsigned long long)result->id);
    return json_pack("{s:s,s:s,s:s,s:I,s:i,s:s}", "code", code_of(result->code), "outcome",
                     tarry_outcome_name(result->outcome), "task", id, "due_ms", (json_int_t)result->due_ms,
                     "deliveries", (int)result->deliveries, "message", result->message);
}

/* ---- calls */

struct attributes {
    struct tarry_attribute items[ATTRIBUTES_MAX];
    size_t count;
};

static void attributes_take(struct attributes *attributes, json_t *object) {
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value) {
        if (attributes->count == ATTRIBUTES_MAX) die("too many attributes");
        attributes->items[attributes->count++] = (struct tarry_attribute){name, json_string_value(value)};
    }
}

static struct tarry_schedule_options schedule_of(const json_t *call, struct attributes *attributes) {
    static const char *const conflicts[] = {"reject", "replace", "earlier", "later"};
    const char *body = text_of(call, "body"), *conflict = text_of(call, "on_conflict");
    const bool is_at = json_object_get(call, "at_ms") != NULL;
    struct tarry_schedule_options options = {.queue = text_of(call, "queue"), .key = text_of(call, "key")};
    options.when = is_at ? TARRY_AT : TARRY_DELAY;
    options.when_ms = number_of(call, is_at ? "at_ms" : "delay_ms");
    options.payload = body;
    options.payload_size = body == NULL ? 0 : strlen(body);
    attributes_take(attributes, json_object_get(call, "attributes"));
    options.attributes = attributes->items;
    options.attribute_count = attributes->count;
    for (int i = 0; conflict != NULL && i < 4; i++)
        if (strcmp(conflict, conflicts[i]) == 0) options.on_conflict = (enum tarry_on_conflict)i;
    return options;
}

static json_t *call_schedule(const json_t *call) {
    struct attributes attributes = {.count = 0};
    const struct tarry_schedule_options options = schedule_of(call, &attributes);
    struct tarry_result result;
    (void)!tarry_schedule(client, &options, &result);
    return result_of(&result);
}

static json_t *call_schedule_many(const json_t *call) {
    /* Static, because it is large; only one call of schedule_many runs at a time. */
    static struct attributes attributes[TASKS_MAX];
    const json_t *tasks = json_object_get(call, "tasks");
    tarry_commit *commit;
    if (json_array_size(tasks) > TASKS_MAX) die("too many tasks");
    if (tarry_commit_new(client, json_is_true(json_object_get(call, "atomic")), &commit) != TARRY_OK) die("commit");
    for (size_t i = 0; i < json_array_size(tasks); i++) {
        attributes[i].count = 0;
        const struct tarry_schedule_options options = schedule_of(json_array_get(tasks, i), &attributes[i]);
        tarry_commit_schedule(commit, &options);
    }
    const struct tarry_result *results;
    size_t count;
    int rv = tarry_commit_run(commit, NULL, &results, &count);
    json_t *told = json_array();
    for (size_t i = 0; i < count; i++) json_array_append_new(told, result_of(&results[i]));
    tarry_commit_free(commit);
    json_t *answer = json_pack("{s:o}", "results", told);
    if (rv == TARRY_ABORTED || count == 0) json_object_set_new(answer, "code", json_string(code_of(rv)));
    return answer;
}

static json_t *call_change(const json_t *call, bool is_cancel) {
    const bool is_at = json_object_get(call, "at_ms") != NULL;
    const struct tarry_ref ref = {.queue = text_of(call, "queue"), .key = text_of(call, "key")};
    struct tarry_result result;
    if (is_cancel)
        (void)!tarry_cancel(client, &ref, json_is_true(json_object_get(call, "withdraw")), NULL, &result);
    else
        (void)!tarry_move(client, &ref, is_at ? TARRY_AT : TARRY_DELAY, number_of(call, is_at ? "at_ms" : "delay_ms"),
                          NULL, &result);
    return result_of(&result);
}

static json_t *call_get(const json_t *call) {
    const struct tarry_ref ref = {.queue = text_of(call, "queue"), .key = text_of(call, "key")};
    struct tarry_view *view;
    char message[TARRY_MESSAGE_SIZE];
    int rv = tarry_get(client, &ref, true, NULL, &view, message);
    if (rv == TARRY_NO_SUCH_QUEUE) return json_pack("{s:s}", "state", "unknown");
    if (rv != TARRY_OK) return json_pack("{s:s,s:s}", "code", code_of(rv), "message", message);
    json_t *answer;
    if (view->outcome == TARRY_UNKNOWN)
        answer = json_pack("{s:s}", "state", "unknown");
    else
        answer = json_pack("{s:s,s:s%,s:s,s:I,s:i}", "state", view->state, "body", (const char *)view->payload,
                           view->payload_size, "reason", view->reason, "due_ms", (json_int_t)view->due_ms, "deliveries",
                           (int)view->deliveries);
    tarry_view_free(view);
    return answer;
}

/* ---- the worker */

struct worker {
    tarry_consumer *consumer;
    size_t thread_count;
};

/* Words of a task's body, which say what the handler does. */
struct plan {
    char text[256];
    char *words[3]; /* words of the body; "": no word */
};

static void plan_take(struct plan *plan, const struct tarry_task *task) {
    static char none[] = "";
    snprintf(plan->text, sizeof(plan->text), "%.*s", (int)task->payload_size, (const char *)task->payload);
    char *rest = plan->text;
    for (int i = 0; i < 3; i++) plan->words[i] = rest != NULL ? strsep(&rest, " ") : none;
}

static const char *attribute_of(const struct tarry_task *task, const char *name) {
    for (size_t i = 0; i < task->attribute_count; i++)
        if (strcmp(task->attributes[i].name, name) == 0) return task->attributes[i].value;
    return NULL;
}

static void tell_task(const struct tarry_task *task) {
    json_t *attributes = json_object();
    for (size_t i = 0; i < task->attribute_count; i++)
        json_object_set_new(attributes, task->attributes[i].name, json_string(task->attributes[i].value));
    tell(json_pack("{s:s,s:s?,s:s?,s:i,s:i,s:I,s:I,s:o}", "event", "task", "name", attribute_of(task, "name"), "key",
                   task->key, "attempt", (int)task->attempt, "deliveries", (int)task->deliveries, "due_ms",
                   (json_int_t)task->due_ms, "delivered_ms", (json_int_t)task->delivered_ms, "attributes", attributes));
}

/* Sleeps for that time, and extends the lease meanwhile. */
static void work_for(const struct tarry_task *task, uint64_t ms) {
    const uint64_t part_ms = (task->lease_deadline_ms - task->delivered_ms) / 3 + 1;
    for (; ms > part_ms; ms -= part_ms) {
        sleep_ms(part_ms);
        (void)!tarry_extend(client, task->id, task->token, 0, NULL, NULL);
    }
    sleep_ms(ms);
}

static void await_gate(void) {
    pthread_mutex_lock(&gate_lock);
    while (!gate_is_open) pthread_cond_wait(&gate_opened, &gate_lock);
    pthread_mutex_unlock(&gate_lock);
}

static void chain(const struct tarry_task *task, const char *queue, const char *name) {
    struct tarry_attribute attributes[3] = {{"name", name}};
    size_t count = 1;
    static const char *const trace[] = {"traceparent", "tracestate"};
    for (size_t i = 0; i < 2; i++)
        if (attribute_of(task, trace[i]) != NULL)
            attributes[count++] = (struct tarry_attribute){trace[i], attribute_of(task, trace[i])};
    const struct tarry_schedule_options options = {
        .queue = queue, .payload = "ack", .payload_size = 3, .attributes = attributes, .attribute_count = count};
    if (tarry_schedule(client, &options, NULL) != TARRY_OK) die("chain");
}

/* Gives the task back for a while without counting an attempt: a release and a move in one atomic commit. */
static int release_for(const struct tarry_task *task, uint64_t delay_ms) {
    const struct tarry_ref ref = {.id = task->id};
    tarry_commit *commit;
    if (tarry_commit_new(client, true, &commit) != TARRY_OK) die("commit");
    tarry_commit_release(commit, task->id, task->token);
    tarry_commit_move(commit, &ref, TARRY_DELAY, delay_ms);
    int rv = tarry_commit_run(commit, NULL, NULL, NULL);
    tarry_commit_free(commit);
    return rv;
}

static void handle(const struct tarry_task *task) {
    tell_task(task);
    struct plan plan = {0};
    plan_take(&plan, task);
    const char *verb = plan.words[0], *result_name = "retried";
    const uint64_t number = strtoull(plan.words[1], NULL, 10), ms = strtoull(plan.words[2], NULL, 10);
    char body[256];
    snprintf(body, sizeof(body), "%.*s", (int)task->payload_size, (const char *)task->payload);
    const char *rest = strchr(body, ' ') != NULL ? strchr(body, ' ') + 1 : "";
    struct tarry_nack_options nack = {.reason = "not yet"};
    struct tarry_result result = {.code = TARRY_OK};
    int rv;
    if (strcmp(verb, "sleep") == 0) work_for(task, number);
    if (strcmp(verb, "gate") == 0) await_gate();
    if (strcmp(verb, "chain") == 0) chain(task, plan.words[1], plan.words[2]);
    if (strcmp(verb, "release-first") == 0 && task->deliveries <= number) {
        rv = release_for(task, ms);
        result_name = "released";
    } else if (strcmp(verb, "fail") == 0 || strcmp(verb, "dead") == 0) {
        nack.reason = rest;
        nack.dead = strcmp(verb, "dead") == 0;
        rv = tarry_nack(client, task->id, task->token, &nack, &result);
    } else if ((strcmp(verb, "fail-first") == 0 || strcmp(verb, "retry-first") == 0) && task->attempt <= number) {
        nack.has_delay = strcmp(verb, "retry-first") == 0;
        nack.delay_ms = ms;
        rv = tarry_nack(client, task->id, task->token, &nack, &result);
    } else {
        rv = tarry_ack(client, task->id, task->token, NULL, &result);
        result_name = "acked";
    }
    if (result.outcome == TARRY_BURIED) result_name = "dead";
    if (rv != TARRY_OK) result_name = rv == TARRY_STALE_TOKEN || rv == TARRY_NOT_DONE ? "lost" : "unknown";
    tell(json_pack("{s:s,s:s?,s:s,s:i}", "event", "settled", "name", attribute_of(task, "name"), "result", result_name,
                   "deliveries", (int)task->deliveries));
}

static void *work(void *arg) {
    struct worker *worker = arg;
    while (!atomic_load(&is_stopping)) {
        const struct tarry_task *task;
        if (tarry_consumer_next(worker->consumer, TARRY_FOREVER, &task) != TARRY_OK) continue;
        handle(task);
        tarry_task_free(task);
    }
    return NULL;
}

/* Waits for SIGTERM, then wakes the worker's threads. */
static void *await_signal(void *arg) {
    struct worker *worker = arg;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    int number;
    sigwait(&signals, &number);
    atomic_store(&is_stopping, true);
    for (size_t i = 0; i < worker->thread_count; i++) tarry_consumer_wake(worker->consumer);
    return NULL;
}

static json_t *call_worker(const json_t *call) {
    const char *queue = text_of(call, "queue");
    struct worker worker = {.thread_count = number_of(call, "concurrency")};
    const struct tarry_consumer_options options = {.queues = &queue,
                                                   .queue_count = 1,
                                                   .prefetch = (uint32_t)worker.thread_count,
                                                   .lease_ms = number_of(call, "lease_ms")};
    char message[TARRY_MESSAGE_SIZE];
    int rv = tarry_consumer_open(client, &options, &worker.consumer, message);
    if (rv != TARRY_OK) return json_pack("{s:s,s:s}", "code", code_of(rv), "message", message);
    pthread_t threads[64], waiter;
    if (worker.thread_count > 64) die("too many threads");
    pthread_create(&waiter, NULL, await_signal, &worker);
    for (size_t i = 0; i < worker.thread_count; i++) pthread_create(&threads[i], NULL, work, &worker);
    for (size_t i = 0; i < worker.thread_count; i++) pthread_join(threads[i], NULL);
    pthread_join(waiter, NULL);
    (void)tarry_consumer_close(worker.consumer, 0, NULL);
    return json_object();
}

static json_t *call_open(void) {
    pthread_mutex_lock(&gate_lock);
    gate_is_open = true;
    pthread_cond_broadcast(&gate_opened);
    pthread_mutex_unlock(&gate_lock);
    return json_object();
}

static json_t *answer_to(const json_t *call) {
    const char *kind = text_of(call, "call");
    if (strcmp(kind, "schedule") == 0) return call_schedule(call);
    if (strcmp(kind, "schedule_many") == 0) return call_schedule_many(call);
    if (strcmp(kind, "cancel") == 0) return call_change(call, true);
    if (strcmp(kind, "move") == 0) return call_change(call, false);
    if (strcmp(kind, "get") == 0) return call_get(call);
    if (strcmp(kind, "worker") == 0) return call_worker(call);
    if (strcmp(kind, "open") == 0) return call_open();
    die("unknown call");
    return NULL;
}

static void *run(void *arg) {
    json_t *call = arg;
    json_t *answer = answer_to(call);
    json_object_set(answer, "id", json_object_get(call, "id"));
    tell(answer);
    json_decref(call);
    atomic_fetch_sub(&calls, 1);
    return NULL;
}

static void begin(const char *line) {
    json_error_t error;
    json_t *call = json_loads(line, 0, &error);
    pthread_t thread;
    if (call == NULL) die(error.text);
    atomic_fetch_add(&calls, 1);
    if (pthread_create(&thread, NULL, run, call) != 0) die("no thread");
    pthread_detach(thread);
}

int main(void) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    /* Blocks SIGTERM in all threads that start later; one of them waits for it. */
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    const char *timeout = getenv("TARRY_TEST_TIMEOUT_MS");
    const struct tarry_options options = {.name = "conformance",
                                          .timeout_ms =
                                              timeout != NULL ? strtoull(timeout, NULL, 10) : TIMEOUT_DEFAULT_MS};
    if (tarry_open(&options, &client) != TARRY_OK) die("tarry_open");
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, stdin) > 0) begin(line);
    free(line);
    if (atomic_load(&calls) > 0) { /* a worker is still running, so end it */
        kill(getpid(), SIGTERM);
        while (atomic_load(&calls) > 0) sleep_ms(5);
    }
    return tarry_close(client) == TARRY_OK ? 0 : 1;
}
