/* consumer.c: public functions of a consumer (open, next, wake, close), and the handler's thread. */
#include "consumer.h"

#include <stdlib.h>
#include <string.h>

static void consumer_free(tarry_consumer *consumer) {
    ws_client_deinit(&consumer->connection);
    pthread_mutex_lock(&consumer->lock);
    deliveries_forget(consumer);
    pthread_mutex_unlock(&consumer->lock);
    held_deinit(&consumer->held);
    for (size_t i = 0; i < consumer->queue_count; i++) free(consumer->queues[i]);
    free(consumer->queues);
    pthread_cond_destroy(&consumer->arrived);
    pthread_mutex_destroy(&consumer->lock);
    free(consumer);
}

static int options_check(const struct tarry_consumer_options *options) {
    if (options->queues == NULL || options->queue_count == 0) return TARRY_E_ARGUMENT;
    if (options->queue_count > QUEUES_PER_SUBSCRIBE_MAX) return TARRY_TOO_LARGE;
    for (size_t i = 0; i < options->queue_count; i++)
        if (options->queues[i] == NULL) return TARRY_E_ARGUMENT;
    return TARRY_OK;
}

static int consumer_take(tarry_consumer *consumer, const struct tarry_consumer_options *options) {
    consumer->prefetch = options->prefetch;
    consumer->max_batch = options->max_batch;
    consumer->lease_ms = options->lease_ms;
    consumer->handler = options->handler;
    consumer->settled = options->settled;
    consumer->arg = options->arg;
    consumer->queues = calloc(options->queue_count, sizeof(*consumer->queues));
    if (consumer->queues == NULL) return TARRY_E_NOMEM;
    for (; consumer->queue_count < options->queue_count; consumer->queue_count++) {
        consumer->queues[consumer->queue_count] = strdup(options->queues[consumer->queue_count]);
        if (consumer->queues[consumer->queue_count] == NULL) return TARRY_E_NOMEM;
    }
    return TARRY_OK;
}

/* Adds the consumer to the engine's list, and waits for the broker's reply to the subscription. */
static int join_engine(tarry_consumer *consumer, uint32_t timeout_ms) {
    tarry_client *client = consumer->client;
    pthread_mutex_lock(&client->lock);
    consumer->opened = -1;
    consumer->opening = true;
    consumer->next = client->consumers;
    client->consumers = consumer;
    const uint64_t now = now_ms();
    consumer->open_until_ms = deadline_of(client, now, timeout_ms);
    engine_kick(client);
    /* The engine ends the opening by `until_ms`, unless a callback of the program blocks the engine. */
    const uint64_t until_ms = deadline_of(client, now + DRAIN_GRACE_MS, timeout_ms);
    bool is_late = false;
    while (consumer->opening && !client->closing && !is_late) is_late = !wait_drained(client, until_ms);
    int rv = !consumer->opening ? consumer->opened : client->closing ? TARRY_E_CLOSED : TARRY_E_TIMEOUT;
    pthread_mutex_unlock(&client->lock);
    return rv;
}

/* Makes the engine ignore the consumer, and waits until the engine does not use it any more. */
static void leave_engine(tarry_consumer *consumer) {
    tarry_client *client = consumer->client;
    pthread_mutex_lock(&client->lock);
    consumer->closing = true;
    while (consumer->busy) pthread_cond_wait(&client->drained, &client->lock);
    tarry_consumer **at = &client->consumers;
    while (*at != NULL && *at != consumer) at = &(*at)->next;
    if (*at == consumer) *at = consumer->next;
    ws_client_close(&consumer->connection);
    if (consumer->subscribing != NULL) consumer->subscribing->consumer = NULL;
    if (consumer->beating != NULL) consumer->beating->consumer = NULL;
    pthread_mutex_unlock(&client->lock);
}

static void *handler_run(void *arg);

/* Opens a consumer. `message` must be empty; on failure it receives the error. */
static int consumer_open(tarry_client *client, const struct tarry_consumer_options *options,
                         tarry_consumer **out_consumer, char message[TARRY_MESSAGE_SIZE]) {
    int rv = may_block(client);
    if (rv != TARRY_OK) return rv;
    tarry_consumer *consumer = calloc(1, sizeof(*consumer));
    if (consumer == NULL) return TARRY_E_NOMEM;
    consumer->client = client;
    consumer->close_until_ms = UINT64_MAX;
    pthread_mutex_init(&consumer->lock, NULL);
    cond_init_monotonic(&consumer->arrived);
    ws_client_init(&consumer->connection);
    rv = consumer_take(consumer, options);
    if (rv != TARRY_OK) {
        consumer_free(consumer);
        return rv;
    }
    rv = join_engine(consumer, timeout_of(options->call.timeout_ms));
    message_set(message, consumer->message);
    if (rv == TARRY_OK && consumer->handler != NULL && !client->dispatch.on) {
        consumer->thread_runs = true;
        rv = thread_start(&consumer->thread, handler_run, consumer, "tarry-handler");
        if (rv != TARRY_OK) consumer->thread_runs = false;
    }
    if (rv != TARRY_OK) {
        leave_engine(consumer);
        consumer_free(consumer);
        return rv;
    }
    *out_consumer = consumer;
    return TARRY_OK;
}

int tarry_consumer_open(tarry_client *client, const struct tarry_consumer_options *given, tarry_consumer **out_consumer,
                        char out_message[TARRY_MESSAGE_SIZE]) {
    struct tarry_consumer_options options;
    char message[TARRY_MESSAGE_SIZE] = "";
    int rv = OPTIONS_CALL_TAKE(options, given);
    if (rv == TARRY_OK) rv = options_check(&options);
    if (rv == TARRY_OK && (client == NULL || out_consumer == NULL)) rv = TARRY_E_ARGUMENT;
    if (rv == TARRY_OK) rv = consumer_open(client, &options, out_consumer, message);
    message_set(out_message, rv != TARRY_OK && message[0] == 0 ? tarry_code_sentence(rv) : message);
    return rv;
}

/* ---- next */

static size_t take(tarry_consumer *consumer, const struct tarry_task **out_tasks, size_t max) {
    size_t count = 0;
    while (count < max && consumer->first != NULL) {
        struct held_task *task = consumer->first;
        consumer->first = task->next;
        if (consumer->first == NULL) consumer->last = NULL;
        struct held_entry *entry = held_find(&consumer->held, task->task.id);
        if (entry != NULL) entry->seen = true;
        out_tasks[count++] = &task->task;
    }
    return count;
}

/* Waits for a task, at most wait_ms. TARRY_OK: there is one. Lock held. */
static int await(tarry_consumer *consumer, uint64_t wait_ms) {
    struct timespec until;
    deadline_after(wait_ms, &until);
    for (;;) {
        if (consumer->wakes > 0) {
            consumer->wakes--;
            return TARRY_E_WOKEN;
        }
        if (consumer->ended) return TARRY_E_CLOSED;
        if (consumer->first != NULL) return TARRY_OK;
        if (consumer->silent) {
            consumer->silent = false;
            return TARRY_E_TIMEOUT;
        }
        if (consumer->refused != TARRY_OK) {
            int refused = consumer->refused;
            consumer->refused = TARRY_OK;
            return refused;
        }
        if (wait_ms == 0) return TARRY_E_NOTHING;
        if (wait_ms == TARRY_FOREVER)
            pthread_cond_wait(&consumer->arrived, &consumer->lock);
        else if (pthread_cond_timedwait(&consumer->arrived, &consumer->lock, &until) != 0)
            wait_ms = 0;
    }
}

static int next_batch(tarry_consumer *consumer, uint64_t wait_ms, const struct tarry_task **out_tasks, size_t max,
                      size_t *out_count) {
    pthread_mutex_lock(&consumer->lock);
    int rv = await(consumer, wait_ms);
    if (rv == TARRY_OK) *out_count = take(consumer, out_tasks, max);
    pthread_mutex_unlock(&consumer->lock);
    return rv;
}

int tarry_consumer_next_batch(tarry_consumer *consumer, uint64_t wait_ms, const struct tarry_task **out_tasks,
                              size_t max, size_t *out_count) {
    if (consumer == NULL || out_tasks == NULL || out_count == NULL || max == 0 || consumer->handler != NULL)
        return TARRY_E_ARGUMENT;
    int rv = wait_ms == 0 ? may_call(consumer->client) : may_block(consumer->client);
    if (rv != TARRY_OK) return rv;
    return next_batch(consumer, wait_ms, out_tasks, max, out_count);
}

int tarry_consumer_next(tarry_consumer *consumer, uint64_t wait_ms, const struct tarry_task **out_task) {
    size_t count;
    return tarry_consumer_next_batch(consumer, wait_ms, out_task, 1, &count);
}

void tarry_consumer_wake(tarry_consumer *consumer) {
    if (consumer == NULL || process_is_other(consumer->client)) return;
    pthread_mutex_lock(&consumer->lock);
    consumer->wakes++;
    pthread_cond_broadcast(&consumer->arrived);
    pthread_mutex_unlock(&consumer->lock);
}

uint64_t tarry_consumer_session(tarry_consumer *consumer) {
    if (consumer == NULL || process_is_other(consumer->client)) return 0;
    pthread_mutex_lock(&consumer->client->lock);
    uint64_t session = consumer->session;
    pthread_mutex_unlock(&consumer->client->lock);
    return session;
}

/* Waits until all settling operations submitted so far are answered. False: until_ms has passed. */
static bool drain_settling(tarry_client *client, uint64_t until_ms) {
    bool in_time = true;
    pthread_mutex_lock(&client->lock);
    /* `last` is the number of the newest request with settlements. If it still takes further operations, one reply
     * answers them and the earlier ones, so they cause no longer wait. */
    const uint64_t last = client->next_settling;
    while (client->settling.first != NULL && client->settling.first->settling <= last && !client->closing && in_time)
        in_time = wait_drained(client, until_ms);
    pthread_mutex_unlock(&client->lock);
    return in_time;
}

/* Waits until more operations may be submitted. False: the consumer closes and cannot wait longer. */
static bool await_room(tarry_consumer *consumer) {
    tarry_client *client = consumer->client;
    bool in_time = true;
    pthread_mutex_lock(&client->lock);
    while (in_time && !client->closing && client->queued_size >= client->queued_size_max)
        in_time = wait_drained(client, consumer->close_until_ms);
    pthread_mutex_unlock(&client->lock);
    return in_time;
}

/* ---- the handler's thread */

/* Cuts a reason before an incomplete UTF-8 character, which the broker would refuse. */
static void reason_trim(char reason[], size_t capacity) {
    size_t size = strnlen(reason, capacity - 1), first = size;
    while (first > 0 && size - first < 3 && ((uint8_t)reason[first - 1] & 0xc0) == 0x80) first--;
    if (first > 0) first--; /* the first byte of the last character */
    const uint8_t byte = (uint8_t)reason[first];
    const size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    reason[length > 1 && first + length > size ? first : size] = 0;
}

/* Callback for the reply to a handler's verdict. The task is freed after the program's function `settled` has got the
 * result. */
static void settle_done(void *arg, const struct tarry_result *result) {
    struct held_task *held = arg;
    tarry_consumer *consumer = held->consumer;
    consumer->settled(consumer->arg, &held->task, result);
    tarry_task_free(&held->task);
    pthread_mutex_lock(&consumer->lock);
    consumer->settling--;
    pthread_cond_broadcast(&consumer->arrived);
    pthread_mutex_unlock(&consumer->lock);
}

static int settle_once(tarry_consumer *consumer, const struct tarry_task *task, enum tarry_verdict verdict,
                       const struct tarry_nack_details *details, tarry_done_fn done, void *arg) {
    tarry_client *client = consumer->client;
    const struct tarry_nack_options nack = {.has_delay = details->has_delay,
                                            .delay_ms = details->delay_ms,
                                            .dead = details->dead,
                                            .reason = details->reason};
    switch (verdict) {
    case TARRY_DO_ACK:
        return tarry_ack_async(client, task->id, task->token, NULL, done, arg);
    case TARRY_DO_NACK:
        return tarry_nack_async(client, task->id, task->token, &nack, done, arg);
    case TARRY_DO_RELEASE:
        return tarry_release_async(client, task->id, task->token, NULL, done, arg);
    case TARRY_DO_NOTHING:
        break;
    }
    return TARRY_E_ARGUMENT;
}

/* Settles the task by the program's verdict, and takes ownership of the task. */
static void settle(tarry_consumer *consumer, const struct tarry_task *task, enum tarry_verdict verdict,
                   struct tarry_nack_details *details) {
    const bool is_told = consumer->settled != NULL && verdict != TARRY_DO_NOTHING;
    struct held_task *held = (struct held_task *)task;
    if (verdict == TARRY_DO_NOTHING) {
        tarry_task_free(task);
        return;
    }
    if (is_told) {
        held->consumer = consumer;
        pthread_mutex_lock(&consumer->lock);
        consumer->settling++;
        pthread_mutex_unlock(&consumer->lock);
    }
    reason_trim(details->reason, sizeof(details->reason));
    int rv;
    for (;;) {
        rv = settle_once(consumer, task, verdict, details, is_told ? settle_done : NULL, held);
        if (rv != TARRY_E_FULL || !await_room(consumer)) break;
    }
    /* The verdict was not sent: out of memory, or no queue space until the consumer closed. The lease expires, and
     * the task is delivered again, as after a crash of this process. */
    if (is_told && rv != TARRY_OK) {
        struct tarry_result result;
        result_failed(rv, NULL, &result);
        settle_done(held, &result);
    }
    if (!is_told) tarry_task_free(task);
}

static bool is_verdict_of(const struct op_note *note, const void *consumer) {
    const struct held_task *held = dispatch_argument(note, settle_done);
    return held != NULL && held->consumer == consumer;
}

/* Limits the wait for verdicts to the time of closing, whatever timeout the client gives its calls. */
static void limit_verdicts(tarry_consumer *consumer, uint64_t until_ms) {
    if (until_ms == UINT64_MAX) return;
    pthread_mutex_lock(&consumer->client->lock);
    expiry_limit(consumer->client, is_verdict_of, consumer, until_ms);
    pthread_mutex_unlock(&consumer->client->lock);
}

/* Waits until the handler has returned and `settled` has been called for all verdicts. With dispatch it calls
 * tarry_dispatch itself. */
static void await_settled(tarry_consumer *consumer) {
    tarry_client *client = consumer->client;
    pthread_mutex_lock(&consumer->lock);
    while (consumer->settling > 0 || consumer->is_handled) {
        if (client->dispatch.on) {
            pthread_mutex_unlock(&consumer->lock);
            (void)tarry_dispatch(client, 0, NULL);
            pthread_mutex_lock(&consumer->lock);
        }
        struct timespec until;
        deadline_after(DISPATCH_AGAIN_MS, &until);
        if (consumer->settling > 0 || consumer->is_handled)
            pthread_cond_timedwait(&consumer->arrived, &consumer->lock, &until);
    }
    pthread_mutex_unlock(&consumer->lock);
}

/* ---- handlers that tarry_dispatch calls */

/* Finds a consumer with a task for its handler. Takes the task and sets the consumer's `is_handled`. NULL: no such
 * consumer. */
static tarry_consumer *consumer_with_work(tarry_client *client, const struct tarry_task **out_task) {
    tarry_consumer *found = NULL;
    pthread_mutex_lock(&client->lock);
    for (tarry_consumer *consumer = client->consumers; consumer != NULL && found == NULL; consumer = consumer->next) {
        if (consumer->handler == NULL || consumer->opening) continue;
        pthread_mutex_lock(&consumer->lock);
        if (!consumer->ended && take(consumer, out_task, 1) == 1) {
            consumer->is_handled = true;
            found = consumer;
        }
        pthread_mutex_unlock(&consumer->lock);
    }
    pthread_mutex_unlock(&client->lock);
    return found;
}

bool consumers_handle_one(tarry_client *client) {
    const struct tarry_task *task = NULL;
    tarry_consumer *consumer = consumer_with_work(client, &task);
    if (consumer == NULL || task == NULL) return false;
    struct tarry_nack_details details = {.reason = ""};
    enum tarry_verdict verdict = consumer->handler(consumer->arg, consumer, task, &details);
    settle(consumer, task, verdict, &details);
    pthread_mutex_lock(&consumer->lock);
    consumer->is_handled = false;
    pthread_cond_broadcast(&consumer->arrived);
    pthread_mutex_unlock(&consumer->lock);
    return true;
}

static void *handler_run(void *arg) {
    tarry_consumer *consumer = arg;
    for (;;) {
        /* Take only one task at a time. A task that was not taken does not count as seen by the program, so a close can
         * release it. */
        const struct tarry_task *task = NULL;
        size_t count;
        int rv = next_batch(consumer, TARRY_FOREVER, &task, 1, &count);
        if (rv == TARRY_E_CLOSED) return NULL;
        if (rv != TARRY_OK || task == NULL) continue;
        struct tarry_nack_details details = {.reason = ""};
        enum tarry_verdict verdict = consumer->handler(consumer->arg, consumer, task, &details);
        settle(consumer, task, verdict, &details);
    }
}

/* ---- close */

/* Stops the handler's thread after its current task. */
static void handler_stop(tarry_consumer *consumer, uint64_t timeout_ms) {
    tarry_client *client = consumer->client;
    pthread_mutex_lock(&client->lock);
    consumer->close_until_ms = deadline_of(client, now_ms(), timeout_of(timeout_ms));
    pthread_cond_broadcast(&client->drained);
    pthread_mutex_unlock(&client->lock);
    pthread_mutex_lock(&consumer->lock);
    consumer->ended = true;
    pthread_cond_broadcast(&consumer->arrived);
    pthread_mutex_unlock(&consumer->lock);
    if (consumer->thread_runs) pthread_join(consumer->thread, NULL);
}

/* Ends the session. Tells the broker the ids of the tasks that the program has seen; the broker releases all other
 * tasks. */
static int unsubscribe(tarry_consumer *consumer, uint64_t session, bool keep_leases, uint64_t until_ms) {
    Tarry__Request wire = TARRY__REQUEST__INIT;
    Tarry__Unsubscribe body = TARRY__UNSUBSCRIBE__INIT;
    body.session = session;
    body.keep_leases = keep_leases;
    pthread_mutex_lock(&consumer->lock);
    consumer->current = 0; /* from now on, arriving tasks are ignored */
    body.seen = calloc(consumer->held.count + 1, sizeof(*body.seen));
    for (size_t i = 0; i < consumer->held.capacity && body.seen != NULL; i++) {
        const struct held_entry *entry = &consumer->held.entries[i];
        if (entry->id != 0 && entry->seen && !entry->settled) body.seen[body.n_seen++] = entry->id;
    }
    pthread_mutex_unlock(&consumer->lock);
    /* Without memory the session ends by itself and all its tasks are charged an attempt, which is safe. */
    if (body.seen == NULL) return TARRY_E_NOMEM;
    wire.body_case = TARRY__REQUEST__BODY_UNSUBSCRIBE;
    wire.unsubscribe = &body;
    struct call call;
    const uint64_t now = now_ms();
    uint32_t timeout_ms = TIMEOUT_NEVER;
    if (until_ms != UINT64_MAX) timeout_ms = until_ms > now ? timeout_of(until_ms - now) : 1;
    int rv = call_run_within(consumer->client, &wire, timeout_ms, &call, NULL);
    call_end(&call);
    free(body.seen);
    /* For a program, a session that has already ended is no error. */
    return rv == TARRY_NO_SUCH_SESSION ? TARRY_OK : rv;
}

int tarry_consumer_close(tarry_consumer *consumer, uint32_t flags, const struct tarry_call *given) {
    struct tarry_call call;
    if (consumer == NULL) return TARRY_OK;
    tarry_client *client = consumer->client;
    int rv = OPTIONS_TAKE(call, given);
    if (rv == TARRY_OK) rv = may_block(client);
    if (rv == TARRY_OK && (session_handler_is_me(consumer) || dispatch_is_me(client))) rv = TARRY_E_CALLBACK;
    if (rv != TARRY_OK) return rv;
    handler_stop(consumer, call.timeout_ms);
    const uint64_t until_ms = deadline_of(client, now_ms(), timeout_of(call.timeout_ms));
    limit_verdicts(consumer, until_ms);
    bool in_time = drain_settling(client, until_ms);
    await_settled(consumer);
    pthread_mutex_lock(&client->lock);
    consumer->closing = true;
    uint64_t session = consumer->state >= SESSION_ACCEPTED ? consumer->session : 0;
    pthread_mutex_unlock(&client->lock);
    if (session != 0) rv = unsubscribe(consumer, session, (flags & TARRY_KEEP_LEASES) != 0, until_ms);
    if (rv == TARRY_OK && !in_time) rv = TARRY_E_TIMEOUT;
    leave_engine(consumer);
    consumer_free(consumer);
    return rv;
}
