/* ops.c: single operations, asynchronous and blocking. They gather in one request until the engine takes it. */
#include "client.h"

#include <semaphore.h>
#include <stdio.h>
#include <string.h>

/* A place for one more operation: the request that gathers, with `*out_before` the size of its body. Lock held. */
static int gather_begin(tarry_client *client, bool wait_for_room, size_t *out_before) {
    while (!client->closing && client->queued_size >= client->queued_size_max) {
        if (!wait_for_room) return TARRY_E_FULL;
        pthread_cond_wait(&client->drained, &client->lock);
    }
    if (client->closing) return TARRY_E_CLOSED;
    struct request *gathering = client->gathering;
    if (gathering != NULL && (gathering->count >= OPS_PER_COMMIT_MAX || gathering->body.size >= BATCH_SIZE_MAX)) {
        queue_push(&client->ready, gathering);
        client->gathering = gathering = NULL;
    }
    if (gathering == NULL) {
        gathering = request_new(client, REQUEST_COMMIT);
        if (gathering == NULL) return TARRY_E_NOMEM;
        client->gathering = gathering;
    }
    *out_before = gathering->body.size;
    return TARRY_OK;
}

/* An operation that would make the request too large gets one of its own. Lock held; the operation has just been packed
 * behind `before`. */
static int gather_split(tarry_client *client, size_t before) {
    struct request *full = client->gathering;
    if (before == 0 || full->body.size <= REQUEST_SIZE_MAX / 2) return TARRY_OK;
    struct request *next = request_new(client, REQUEST_COMMIT);
    size_t size = full->body.size - before;
    int rv = next == NULL ? TARRY_E_NOMEM : buffer_reserve(&next->body, size);
    if (rv != TARRY_OK) {
        if (next != NULL) request_free(client, next);
        return rv;
    }
    memcpy(next->body.data, full->body.data + before, size);
    next->body.size = size;
    full->body.size = before;
    queue_push(&client->ready, full);
    client->gathering = next;
    return TARRY_OK;
}

/* Lock held; `rv` is what packing said. */
static int gather_end(tarry_client *client, int rv, size_t before, struct op_note note) {
    struct request *gathering = client->gathering;
    size_t size = gathering->body.size - before;
    if (rv == TARRY_OK) rv = gather_split(client, before);
    if (rv == TARRY_OK) {
        gathering = client->gathering;
        rv = request_add_note(gathering, note);
    }
    if (rv != TARRY_OK) {
        gathering = client->gathering;
        if (gathering->count == 0) {
            request_free(client, gathering);
            client->gathering = NULL;
        } else {
            gathering->body.size = before;
        }
        return rv;
    }
    if (gathering->count == 1 && client->waiting++ == 0) client->waiting_since_ms = now_ms();
    client->queued_size += size;
    client->pending++;
    engine_kick(client);
    return TARRY_OK;
}

/* What every submission has in common; `pack` is an expression over `&client->gathering->body`. */
#define GATHER(client, wait_for_room, note, pack)                                                                      \
    do {                                                                                                               \
        if ((client) == NULL) return TARRY_E_ARGUMENT;                                                                 \
        size_t before = 0;                                                                                             \
        pthread_mutex_lock(&(client)->lock);                                                                           \
        int rv = gather_begin((client), (wait_for_room), &before);                                                     \
        if (rv == TARRY_OK) rv = gather_end((client), (pack), before, (note));                                         \
        pthread_mutex_unlock(&(client)->lock);                                                                         \
        return rv;                                                                                                     \
    } while (0)

static int submit_schedule(tarry_client *client, bool wait, const struct tarry_schedule_options *options,
                           struct op_note note) {
    GATHER(client, wait, note, pack_schedule(&client->gathering->body, options));
}
static int submit_cancel(tarry_client *client, bool wait, const struct tarry_ref *ref, bool withdraw,
                         struct op_note note) {
    GATHER(client, wait, note, pack_cancel(&client->gathering->body, ref, withdraw));
}
static int submit_move(tarry_client *client, bool wait, const struct tarry_ref *ref, enum tarry_when when,
                       uint64_t when_ms, struct op_note note) {
    GATHER(client, wait, note, pack_move(&client->gathering->body, ref, when, when_ms));
}
static int submit_ack(tarry_client *client, bool wait, uint64_t id, struct tarry_token token, struct op_note note) {
    note.settles = id;
    note.token = token;
    GATHER(client, wait, note, pack_ack(&client->gathering->body, id, token));
}
static int submit_nack(tarry_client *client, bool wait, uint64_t id, struct tarry_token token,
                       const struct tarry_nack_options *options, struct op_note note) {
    note.settles = id;
    note.token = token;
    GATHER(client, wait, note, pack_nack(&client->gathering->body, id, token, options));
}
static int submit_extend(tarry_client *client, bool wait, uint64_t id, struct tarry_token token, uint64_t lease_ms,
                         struct op_note note) {
    GATHER(client, wait, note, pack_extend(&client->gathering->body, id, token, lease_ms));
}
static int submit_release(tarry_client *client, bool wait, uint64_t id, struct tarry_token token, struct op_note note) {
    note.settles = id;
    note.token = token;
    GATHER(client, wait, note, pack_release(&client->gathering->body, id, token));
}
static int submit_dead(tarry_client *client, bool wait, enum tarry_dead_what what, const struct tarry_ref *ref,
                       bool all, struct op_note note) {
    GATHER(client, wait, note, pack_dead(&client->gathering->body, what, ref, all));
}
static int submit_redact(tarry_client *client, bool wait, const struct tarry_redact_options *options,
                         struct op_note note) {
    GATHER(client, wait, note, pack_redact(&client->gathering->body, options));
}
static int submit_queue_set(tarry_client *client, bool wait, const char *queue, const struct tarry_policy *policy,
                            uint32_t fields, struct op_note note) {
    GATHER(client, wait, note, pack_queue_set(&client->gathering->body, queue, policy, fields));
}
static int submit_queue_pause(tarry_client *client, bool wait, const char *queue, bool paused, uint64_t for_ms,
                              struct op_note note) {
    GATHER(client, wait, note, pack_queue_pause(&client->gathering->body, queue, paused, for_ms));
}
static int submit_queue_purge(tarry_client *client, bool wait, const char *queue, uint32_t states,
                              struct op_note note) {
    GATHER(client, wait, note, pack_queue_purge(&client->gathering->body, queue, states));
}

/* ---- asynchronous */

#define NOTE(done, arg) ((struct op_note){(done), (arg), 0, {0, 0}})

int tarry_schedule_async(tarry_client *client, const struct tarry_schedule_options *options, tarry_done_fn done,
                         void *arg) {
    return submit_schedule(client, false, options, NOTE(done, arg));
}
int tarry_cancel_async(tarry_client *client, const struct tarry_ref *ref, bool withdraw, tarry_done_fn done,
                       void *arg) {
    return submit_cancel(client, false, ref, withdraw, NOTE(done, arg));
}
int tarry_move_async(tarry_client *client, const struct tarry_ref *ref, enum tarry_when when, uint64_t when_ms,
                     tarry_done_fn done, void *arg) {
    return submit_move(client, false, ref, when, when_ms, NOTE(done, arg));
}
int tarry_ack_async(tarry_client *client, uint64_t id, struct tarry_token token, tarry_done_fn done, void *arg) {
    return submit_ack(client, false, id, token, NOTE(done, arg));
}
int tarry_nack_async(tarry_client *client, uint64_t id, struct tarry_token token,
                     const struct tarry_nack_options *options, tarry_done_fn done, void *arg) {
    return submit_nack(client, false, id, token, options, NOTE(done, arg));
}
int tarry_extend_async(tarry_client *client, uint64_t id, struct tarry_token token, uint64_t lease_ms,
                       tarry_done_fn done, void *arg) {
    return submit_extend(client, false, id, token, lease_ms, NOTE(done, arg));
}
int tarry_release_async(tarry_client *client, uint64_t id, struct tarry_token token, tarry_done_fn done, void *arg) {
    return submit_release(client, false, id, token, NOTE(done, arg));
}
int tarry_dead_async(tarry_client *client, enum tarry_dead_what what, const struct tarry_ref *ref, bool all,
                     tarry_done_fn done, void *arg) {
    return submit_dead(client, false, what, ref, all, NOTE(done, arg));
}

/* ---- blocking: a submission whose callback wakes the caller */

struct waiter {
    sem_t ready;
    struct tarry_result result;
    char message[MESSAGE_SIZE_MAX];
};

static void waiter_done(void *arg, const struct tarry_result *result) {
    struct waiter *waiter = arg;
    waiter->result = *result;
    snprintf(waiter->message, sizeof(waiter->message), "%s", result->message);
    sem_post(&waiter->ready);
}

static int waiter_begin(tarry_client *client, struct waiter *waiter) {
    if (client == NULL) return TARRY_E_ARGUMENT;
    if (engine_is_me(client)) return TARRY_E_CALLBACK;
    return sem_init(&waiter->ready, 0, 0) == 0 ? TARRY_OK : TARRY_E_SYSTEM;
}

/* `rv` is what the submission said. */
static int waiter_end(struct waiter *waiter, int rv, struct tarry_result *out_result) {
    if (rv == TARRY_OK) {
        while (sem_wait(&waiter->ready) != 0) {
        } /* EINTR */
        sem_destroy(&waiter->ready);
        waiter->result.message = message_keep(waiter->message);
    } else {
        sem_destroy(&waiter->ready);
        result_failed(rv, NULL, &waiter->result);
    }
    if (out_result != NULL) *out_result = waiter->result;
    return waiter->result.code;
}

static int refused(int rv, struct tarry_result *out_result) {
    if (out_result != NULL) result_failed(rv, NULL, out_result);
    return rv;
}

#define WAIT(client, out_result, submission)                                                                           \
    do {                                                                                                               \
        struct waiter waiter;                                                                                          \
        struct op_note note = NOTE(waiter_done, &waiter);                                                              \
        int begun = waiter_begin((client), &waiter);                                                                   \
        if (begun != TARRY_OK) return refused(begun, (out_result));                                                    \
        return waiter_end(&waiter, (submission), (out_result));                                                        \
    } while (0)

int tarry_schedule(tarry_client *client, const struct tarry_schedule_options *options,
                   struct tarry_result *out_result) {
    WAIT(client, out_result, submit_schedule(client, true, options, note));
}
int tarry_cancel(tarry_client *client, const struct tarry_ref *ref, bool withdraw, struct tarry_result *out_result) {
    WAIT(client, out_result, submit_cancel(client, true, ref, withdraw, note));
}
int tarry_move(tarry_client *client, const struct tarry_ref *ref, enum tarry_when when, uint64_t when_ms,
               struct tarry_result *out_result) {
    WAIT(client, out_result, submit_move(client, true, ref, when, when_ms, note));
}
int tarry_ack(tarry_client *client, uint64_t id, struct tarry_token token, struct tarry_result *out_result) {
    WAIT(client, out_result, submit_ack(client, true, id, token, note));
}
int tarry_nack(tarry_client *client, uint64_t id, struct tarry_token token, const struct tarry_nack_options *options,
               struct tarry_result *out_result) {
    WAIT(client, out_result, submit_nack(client, true, id, token, options, note));
}
int tarry_extend(tarry_client *client, uint64_t id, struct tarry_token token, uint64_t lease_ms,
                 struct tarry_result *out_result) {
    WAIT(client, out_result, submit_extend(client, true, id, token, lease_ms, note));
}
int tarry_release(tarry_client *client, uint64_t id, struct tarry_token token, struct tarry_result *out_result) {
    WAIT(client, out_result, submit_release(client, true, id, token, note));
}
int tarry_dead(tarry_client *client, enum tarry_dead_what what, const struct tarry_ref *ref, bool all,
               struct tarry_result *out_result) {
    WAIT(client, out_result, submit_dead(client, true, what, ref, all, note));
}
int tarry_redact(tarry_client *client, const struct tarry_redact_options *options, struct tarry_result *out_result) {
    WAIT(client, out_result, submit_redact(client, true, options, note));
}
int tarry_queue_set(tarry_client *client, const char *queue, const struct tarry_policy *policy, uint32_t fields,
                    struct tarry_result *out_result) {
    WAIT(client, out_result, submit_queue_set(client, true, queue, policy, fields, note));
}
int tarry_queue_pause(tarry_client *client, const char *queue, bool paused, uint64_t for_ms,
                      struct tarry_result *out_result) {
    WAIT(client, out_result, submit_queue_pause(client, true, queue, paused, for_ms, note));
}
int tarry_queue_purge(tarry_client *client, const char *queue, uint32_t states, struct tarry_result *out_result) {
    WAIT(client, out_result, submit_queue_purge(client, true, queue, states, note));
}
