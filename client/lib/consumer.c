/* consumer.c: what the user of a consumer calls: open, next, wake, close; and the handler's thread. */
#include "consumer.h"

#include <stdlib.h>
#include <string.h>

/* nng's callback. */
static void lane_changed(nng_pipe pipe, nng_pipe_ev event, void *arg) {
    tarry_consumer *consumer = arg;
    tarry_client *client = consumer->client;
    const bool lost = event == NNG_PIPE_EV_REM_POST;
    nng_dialer dialer = NNG_DIALER_INITIALIZER;
    if (lost) dialer = dial_pipe_lost(pipe);
    pthread_mutex_lock(&client->lock);
    if (lost) dial_lost(&consumer->dial, dialer);
    if (!lost) {
        consumer->pipe = pipe;
        consumer->lane_up = true;
        engine_kick(client);
    } else if (consumer->lane_up && nng_pipe_id(pipe) == nng_pipe_id(consumer->pipe)) {
        consumer->lane_up = false;
        engine_kick(client);
    }
    pthread_mutex_unlock(&client->lock);
}

/* False: nng still has it. */
static bool lane_close(tarry_consumer *consumer) {
    tarry_client *client = consumer->client;
    if (nng_socket_id(consumer->socket) <= 0) return true;
    pthread_mutex_lock(&client->lock);
    dial_settle(client, &consumer->dial);
    pthread_mutex_unlock(&client->lock);
    bool closed = socket_close(consumer->socket);
    pthread_mutex_lock(&client->lock);
    closed = closed && dial_ended(client, &consumer->dial);
    if (!closed) client->left_behind = true;
    pthread_mutex_unlock(&client->lock);
    return closed;
}

static void consumer_free(tarry_consumer *consumer) {
    /* Better left behind than freed, and the client, whose lock the callbacks take, with it. */
    if (!lane_close(consumer)) return;
    if (consumer->aio != NULL) {
        nng_aio_stop(consumer->aio);
        nng_aio_free(consumer->aio);
    }
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
    if (options == NULL || options->queues == NULL || options->queue_count == 0) return TARRY_E_ARGUMENT;
    if (options->queue_count > QUEUES_PER_SUBSCRIBE_MAX) return TARRY_TOO_LARGE;
    for (size_t i = 0; i < options->queue_count; i++)
        if (options->queues[i] == NULL) return TARRY_E_ARGUMENT;
    return TARRY_OK;
}

static int options_take(tarry_consumer *consumer, const struct tarry_consumer_options *options) {
    consumer->prefetch = options->prefetch;
    consumer->max_batch = options->max_batch;
    consumer->lease_ms = options->lease_ms;
    consumer->handler = options->handler;
    consumer->arg = options->arg;
    consumer->queues = calloc(options->queue_count, sizeof(*consumer->queues));
    if (consumer->queues == NULL) return TARRY_E_NOMEM;
    for (; consumer->queue_count < options->queue_count; consumer->queue_count++) {
        consumer->queues[consumer->queue_count] = strdup(options->queues[consumer->queue_count]);
        if (consumer->queues[consumer->queue_count] == NULL) return TARRY_E_NOMEM;
    }
    return TARRY_OK;
}

static int lane_open(tarry_consumer *consumer) {
    if (nng_pull0_open(&consumer->socket) != 0) return TARRY_E_SYSTEM;
    if (nng_aio_alloc(&consumer->aio, lane_received, consumer) != 0) return TARRY_E_NOMEM;
    if (nng_socket_set_size(consumer->socket, NNG_OPT_RECVMAXSZ, ANSWER_SIZE_MAX) != 0 ||
        nng_socket_set_ms(consumer->socket, NNG_OPT_RECVTIMEO, NNG_DURATION_INFINITE) != 0 ||
        nng_pipe_notify(consumer->socket, NNG_PIPE_EV_ADD_POST, lane_changed, consumer) != 0 ||
        nng_pipe_notify(consumer->socket, NNG_PIPE_EV_REM_POST, lane_changed, consumer) != 0)
        return TARRY_E_SYSTEM;
    nng_aio_set_timeout(consumer->aio, NNG_DURATION_INFINITE);
    nng_recv_aio(consumer->socket, consumer->aio);
    return TARRY_OK;
}

/* Hands the consumer to the engine and waits for the broker's word. */
static int join_engine(tarry_consumer *consumer) {
    tarry_client *client = consumer->client;
    pthread_mutex_lock(&client->lock);
    consumer->opened = -1;
    consumer->opening = true;
    consumer->next = client->consumers;
    client->consumers = consumer;
    engine_kick(client);
    while (consumer->opening && !client->closing) pthread_cond_wait(&client->drained, &client->lock);
    int rv = consumer->opening ? TARRY_E_CLOSED : consumer->opened;
    if (rv != TARRY_OK) message_keep(consumer->message);
    pthread_mutex_unlock(&client->lock);
    return rv;
}

/* Takes the consumer out of the engine's hands. */
static void leave_engine(tarry_consumer *consumer) {
    tarry_client *client = consumer->client;
    pthread_mutex_lock(&client->lock);
    consumer->closing = true;
    while (consumer->busy) pthread_cond_wait(&client->drained, &client->lock);
    tarry_consumer **at = &client->consumers;
    while (*at != NULL && *at != consumer) at = &(*at)->next;
    if (*at == consumer) *at = consumer->next;
    if (consumer->subscribing != NULL) consumer->subscribing->consumer = NULL;
    if (consumer->beating != NULL) consumer->beating->consumer = NULL;
    pthread_mutex_unlock(&client->lock);
}

static void *handler_run(void *arg);

int tarry_consumer_open(tarry_client *client, const struct tarry_consumer_options *options,
                        tarry_consumer **out_consumer) {
    int rv = options_check(options);
    if (client == NULL || out_consumer == NULL) rv = TARRY_E_ARGUMENT;
    if (rv != TARRY_OK) return rv;
    if (engine_is_me(client)) return TARRY_E_CALLBACK;
    tarry_consumer *consumer = calloc(1, sizeof(*consumer));
    if (consumer == NULL) return TARRY_E_NOMEM;
    consumer->client = client;
    pthread_mutex_init(&consumer->lock, NULL);
    cond_init_monotonic(&consumer->arrived);
    rv = options_take(consumer, options);
    if (rv == TARRY_OK) rv = lane_open(consumer);
    if (rv != TARRY_OK) {
        consumer_free(consumer);
        return rv;
    }
    rv = join_engine(consumer);
    if (rv == TARRY_OK && consumer->handler != NULL) {
        consumer->thread_runs = true;
        if (pthread_create(&consumer->thread, NULL, handler_run, consumer) != 0) {
            consumer->thread_runs = false;
            rv = TARRY_E_SYSTEM;
        }
    }
    if (rv != TARRY_OK) {
        leave_engine(consumer);
        consumer_free(consumer);
        return rv;
    }
    *out_consumer = consumer;
    return TARRY_OK;
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

/* Lock held. TARRY_OK: there is something to take. */
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
    return next_batch(consumer, wait_ms, out_tasks, max, out_count);
}

int tarry_consumer_next(tarry_consumer *consumer, uint64_t wait_ms, const struct tarry_task **out_task) {
    size_t count;
    return tarry_consumer_next_batch(consumer, wait_ms, out_task, 1, &count);
}

void tarry_consumer_wake(tarry_consumer *consumer) {
    if (consumer == NULL) return;
    pthread_mutex_lock(&consumer->lock);
    consumer->wakes++;
    pthread_cond_broadcast(&consumer->arrived);
    pthread_mutex_unlock(&consumer->lock);
}

uint64_t tarry_consumer_session(tarry_consumer *consumer) {
    if (consumer == NULL) return 0;
    pthread_mutex_lock(&consumer->client->lock);
    uint64_t session = consumer->session;
    pthread_mutex_unlock(&consumer->client->lock);
    return session;
}

/* Waits until everything submitted so far is answered. */
static void drain_submitted(tarry_client *client) {
    pthread_mutex_lock(&client->lock);
    uint64_t until = client->completed + client->pending;
    while (client->completed < until && !client->closing) pthread_cond_wait(&client->drained, &client->lock);
    pthread_mutex_unlock(&client->lock);
}

/* ---- the handler's thread */

static void settle(tarry_consumer *consumer, const struct tarry_task *task, enum tarry_verdict verdict) {
    tarry_client *client = consumer->client;
    for (;;) {
        int rv = TARRY_OK;
        if (verdict == TARRY_DO_ACK) rv = tarry_ack_async(client, task->id, task->token, NULL, NULL);
        if (verdict == TARRY_DO_NACK) rv = tarry_nack_async(client, task->id, task->token, NULL, NULL, NULL);
        if (verdict == TARRY_DO_RELEASE) rv = tarry_release_async(client, task->id, task->token, NULL, NULL);
        /* Out of memory: the lease runs out and the task comes again, which is what a crash here would mean too. */
        if (rv != TARRY_E_FULL) return;
        drain_submitted(client); /* not until nothing is pending: other threads may go on submitting */
    }
}

static void *handler_run(void *arg) {
    tarry_consumer *consumer = arg;
    for (;;) {
        /* One at a time: what lies in the queue is unseen and can be released at the end. */
        const struct tarry_task *task = NULL;
        size_t count;
        int rv = next_batch(consumer, TARRY_FOREVER, &task, 1, &count);
        if (rv == TARRY_E_CLOSED) return NULL;
        if (rv != TARRY_OK) continue;
        settle(consumer, task, consumer->handler(consumer->arg, consumer, task));
        tarry_task_free(task);
    }
}

/* ---- close */

/* Tells the broker what was seen; all else is released unseen. */
static void unsubscribe(tarry_consumer *consumer, uint64_t session, bool keep_leases) {
    Tarry__Request wire = TARRY__REQUEST__INIT;
    Tarry__Unsubscribe body = TARRY__UNSUBSCRIBE__INIT;
    body.session = session;
    body.keep_leases = keep_leases;
    pthread_mutex_lock(&consumer->lock);
    consumer->current = 0; /* what arrives from now on is not even looked at */
    body.seen = calloc(consumer->held.count + 1, sizeof(*body.seen));
    for (size_t i = 0; i < consumer->held.capacity && body.seen != NULL; i++) {
        const struct held_entry *entry = &consumer->held.entries[i];
        if (entry->id != 0 && entry->seen && !entry->settled) body.seen[body.n_seen++] = entry->id;
    }
    pthread_mutex_unlock(&consumer->lock);
    /* Without memory the session is left to end by itself, with everything in it charged an attempt: the safe side. */
    if (body.seen == NULL) return;
    wire.body_case = TARRY__REQUEST__BODY_UNSUBSCRIBE;
    wire.unsubscribe = &body;
    struct call call;
    /* Whatever the answer is, there is nothing left to do. */
    (void)call_run(consumer->client, &wire, &call, NULL);
    call_end(&call);
    free(body.seen);
}

void tarry_consumer_close(tarry_consumer *consumer, uint32_t flags) {
    if (consumer == NULL) return;
    tarry_client *client = consumer->client;
    pthread_mutex_lock(&consumer->lock);
    consumer->ended = true;
    pthread_cond_broadcast(&consumer->arrived);
    pthread_mutex_unlock(&consumer->lock);
    if (consumer->thread_runs) pthread_join(consumer->thread, NULL);
    drain_submitted(client);
    pthread_mutex_lock(&client->lock);
    consumer->closing = true;
    while (consumer->busy) pthread_cond_wait(&client->drained, &client->lock);
    uint64_t session = consumer->state >= SESSION_ACCEPTED ? consumer->session : 0;
    pthread_mutex_unlock(&client->lock);
    if (session != 0) unsubscribe(consumer, session, (flags & TARRY_KEEP_LEASES) != 0);
    leave_engine(consumer);
    consumer_free(consumer);
}
