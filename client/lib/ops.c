/* ops.c: single operations, asynchronous and blocking. They gather in one request until it is sent. */
#include "client.h"

#include <string.h>

/* A thread that waits for the result of its blocking call. */
struct waiter {
    struct gate *gate; /* the struct gate on which the calling thread waits; gate_open wakes it */
    /* True: the thread reads its reply from the connection itself (caller.c), and does not wait on `gate`. */
    bool reads;
    atomic_bool is_done;
    struct tarry_result result;
};

/* Finds or starts a request that can take one more operation. Sets time and timeout in the operation's note. Lock held.
 */
static int gather_begin(tarry_client *client, bool wait_for_room, struct op_note *note, struct request **out_into) {
    note->made_ms = now_ms();
    if (note->timeout_ms == 0) note->timeout_ms = timeout_of(client->timeout_ms);
    const uint64_t until_ms = deadline_of(client, note->made_ms, note->timeout_ms);
    int rv = queue_wait_for_room(client, 1, wait_for_room, until_ms);
    if (rv != TARRY_OK) return rv;
    enum commit_rank rank = queue_of(client, note);
    struct request *into = note->alone ? NULL : queue_gathering(client, rank);
    if (into == NULL) into = queue_gather(client, rank);
    *out_into = into;
    return into != NULL ? TARRY_OK : TARRY_E_NOMEM;
}

/* If the last packed operation makes the request too large, moves it to a request of its own. `before`: offset of that
 * operation. Lock held. */
static int gather_split(tarry_client *client, size_t before, struct request **into) {
    struct request *full = *into;
    if (before == 0 || full->body.size + REQUEST_OVERHEAD_MAX <= client->request_max / 2) return TARRY_OK;
    struct request *next = queue_gather(client, full->rank);
    size_t size = full->body.size - before;
    int rv = next == NULL ? TARRY_E_NOMEM : buffer_reserve(&next->body, size);
    if (rv != TARRY_OK) return rv;
    memcpy(next->body.data, full->body.data + before, size);
    next->body.size = size;
    full->body.size = before;
    *into = next;
    return TARRY_OK;
}

/* Ends a submission. `rv`: result of packing. Lock held. */
static int gather_end(tarry_client *client, int rv, struct request *into, size_t before, struct op_note *note) {
    struct request *packed = into;
    note->gate = into->gate;
    note->size = (uint32_t)(into->body.size - before);
    if (rv == TARRY_OK) rv = gather_split(client, before, &into);
    if (rv == TARRY_OK) rv = request_add_note(into, note);
    if (rv != TARRY_OK) {
        packed->body.size = before;
        struct request *gathering = client->commits[packed->rank].gathering;
        /* An empty gathering request was started for the operation whose packing has just failed. */
        if (gathering != NULL && gathering->count == 0) {
            queue_ungather(client, gathering);
            request_free(client, gathering);
        }
        return rv;
    }
    queue_admit(client, into, note);
    if (note->alone) queue_close_gathering(client, into->rank);
    expiry_watch(client, into, deadline_of(client, note->made_ms, note->timeout_ms));
    struct waiter *waiter = note->waits ? note->arg : NULL;
    if (waiter != NULL) waiter->gate = &client->gates[note->gate];
    engine_submitted(client, note->waits);
    if (waiter != NULL) waiter->reads = caller_may_read(client);
    return TARRY_OK;
}

/* Common part of every submission of an operation. `pack`: an expression that packs the operation to `body`. */
#define GATHER(client, wait_for_room, given_note, pack)                                                                \
    do {                                                                                                               \
        struct op_note gathered_note = (given_note);                                                                   \
        gathered_note.waits = (wait_for_room);                                                                         \
        struct request *into = NULL;                                                                                   \
        int rv = may_call(client);                                                                                     \
        if (rv == TARRY_OK && !(wait_for_room)) rv = dispatch_defer((client), &gathered_note);                         \
        if (rv != TARRY_OK) return rv;                                                                                 \
        pthread_mutex_lock(&(client)->lock);                                                                           \
        rv = gather_begin((client), (wait_for_room), &gathered_note, &into);                                           \
        if (rv == TARRY_OK) {                                                                                          \
            struct buffer *body = &into->body;                                                                         \
            size_t before = body->size;                                                                                \
            rv = gather_end((client), (pack), into, before, &gathered_note);                                           \
        }                                                                                                              \
        pthread_mutex_unlock(&(client)->lock);                                                                         \
        if (rv != TARRY_OK) dispatch_undefer(&gathered_note);                                                          \
        return rv;                                                                                                     \
    } while (0)

/* Receiver of an operation's result, and the timeout of its call. */
struct told {
    tarry_done_fn done;
    void *arg;
    uint64_t timeout_ms; /* timeout of the call; 0: the client's */
};

static struct op_note told_to(struct op_note note, struct told told) {
    note.done = told.done;
    note.arg = told.arg;
    note.timeout_ms = timeout_of(told.timeout_ms);
    return note;
}

static int submit_schedule(tarry_client *client, bool wait, const struct tarry_schedule_options *options,
                           struct told told) {
    GATHER(client, wait, told_to(note_schedules(options), told), pack_schedule(body, options));
}
static int submit_cancel(tarry_client *client, bool wait, const struct tarry_ref *ref, bool withdraw,
                         struct told told) {
    GATHER(client, wait, told_to(note_changes(ref), told), pack_cancel(body, ref, withdraw));
}
static int submit_move(tarry_client *client, bool wait, const struct tarry_ref *ref, enum tarry_when when,
                       uint64_t when_ms, struct told told) {
    GATHER(client, wait, told_to(note_changes(ref), told), pack_move(body, ref, when, when_ms));
}
static int submit_ack(tarry_client *client, bool wait, uint64_t id, struct tarry_token token, struct told told) {
    GATHER(client, wait, told_to(note_settles(id, token), told), pack_ack(body, id, token));
}
static int submit_nack(tarry_client *client, bool wait, uint64_t id, struct tarry_token token,
                       const struct tarry_nack_options *options, struct told told) {
    GATHER(client, wait, told_to(note_settles(id, token), told), pack_nack(body, id, token, options));
}
static int submit_extend(tarry_client *client, bool wait, uint64_t id, struct tarry_token token, uint64_t lease_ms,
                         struct told told) {
    GATHER(client, wait, told_to(note_extends(), told), pack_extend(body, id, token, lease_ms));
}
static int submit_release(tarry_client *client, bool wait, uint64_t id, struct tarry_token token, struct told told) {
    GATHER(client, wait, told_to(note_settles(id, token), told), pack_release(body, id, token));
}
static int submit_dead(tarry_client *client, bool wait, enum tarry_dead_what what, const struct tarry_ref *ref,
                       bool all, struct told told) {
    GATHER(client, wait, told_to(all ? note_other(true) : note_of_ref(ref), told), pack_dead(body, what, ref, all));
}
static int submit_redact(tarry_client *client, bool wait, const struct tarry_redact_options *options,
                         struct told told) {
    GATHER(client, wait, told_to(note_other(true), told), pack_redact(body, options));
}
static int submit_queue_set(tarry_client *client, bool wait, const char *queue, const struct tarry_policy *policy,
                            uint32_t fields, struct told told) {
    GATHER(client, wait, told_to(note_other(false), told), pack_queue_set(body, queue, policy, fields));
}
static int submit_queue_pause(tarry_client *client, bool wait, const char *queue, bool paused, uint64_t for_ms,
                              struct told told) {
    GATHER(client, wait, told_to(note_other(false), told), pack_queue_pause(body, queue, paused, for_ms));
}
static int submit_recur_set(tarry_client *client, bool wait, const struct tarry_recur_options *options,
                            struct told told) {
    GATHER(client, wait, told_to(note_other(true), told), pack_recur_set(body, options));
}
static int submit_recur_do(tarry_client *client, bool wait, const char *queue, const char *name,
                           enum tarry_recur_what what, struct told told) {
    GATHER(client, wait, told_to(note_other(true), told), pack_recur_do(body, queue, name, what));
}
static int submit_queue_delete(tarry_client *client, bool wait, const char *queue, struct told told) {
    GATHER(client, wait, told_to(note_other(true), told), pack_queue_delete(body, queue));
}
static int submit_queue_purge(tarry_client *client, bool wait, const char *queue, uint32_t states, struct told told) {
    GATHER(client, wait, told_to(note_other(true), told), pack_queue_purge(body, queue, states));
}

/* Copies the program's options to `taken`. After an error, returns the value of the expression `refusal`, in which `rv`
 * is the error code. */
#define TAKE_BY(take, taken, given, refusal)                                                                           \
    do {                                                                                                               \
        int rv = take(taken, given);                                                                                   \
        if (rv != TARRY_OK) return refusal;                                                                            \
    } while (0)
#define TAKE(taken, given, refusal) TAKE_BY(OPTIONS_TAKE, taken, given, refusal)
#define TAKE_CALL(taken, given, refusal) TAKE_BY(OPTIONS_CALL_TAKE, taken, given, refusal)

/* ---- asynchronous */

/* Submits an asynchronous operation that has no options struct. */
#define SUBMIT(given_call, submission)                                                                                 \
    do {                                                                                                               \
        struct tarry_call taken_call;                                                                                  \
        TAKE(taken_call, given_call, rv);                                                                              \
        const struct told told = {done, arg, taken_call.timeout_ms};                                                   \
        return (submission);                                                                                           \
    } while (0)

int tarry_schedule_async(tarry_client *client, const struct tarry_schedule_options *given, tarry_done_fn done,
                         void *arg) {
    struct tarry_schedule_options options;
    TAKE_CALL(options, given, rv);
    return submit_schedule(client, false, &options, (struct told){done, arg, options.call.timeout_ms});
}
int tarry_cancel_async(tarry_client *client, const struct tarry_ref *ref, bool withdraw, const struct tarry_call *call,
                       tarry_done_fn done, void *arg) {
    SUBMIT(call, submit_cancel(client, false, ref, withdraw, told));
}
int tarry_move_async(tarry_client *client, const struct tarry_ref *ref, enum tarry_when when, uint64_t when_ms,
                     const struct tarry_call *call, tarry_done_fn done, void *arg) {
    SUBMIT(call, submit_move(client, false, ref, when, when_ms, told));
}
int tarry_ack_async(tarry_client *client, uint64_t id, struct tarry_token token, const struct tarry_call *call,
                    tarry_done_fn done, void *arg) {
    SUBMIT(call, submit_ack(client, false, id, token, told));
}
int tarry_nack_async(tarry_client *client, uint64_t id, struct tarry_token token,
                     const struct tarry_nack_options *given, tarry_done_fn done, void *arg) {
    struct tarry_nack_options options;
    TAKE_CALL(options, given, rv);
    return submit_nack(client, false, id, token, &options, (struct told){done, arg, options.call.timeout_ms});
}
int tarry_extend_async(tarry_client *client, uint64_t id, struct tarry_token token, uint64_t lease_ms,
                       const struct tarry_call *call, tarry_done_fn done, void *arg) {
    SUBMIT(call, submit_extend(client, false, id, token, lease_ms, told));
}
int tarry_release_async(tarry_client *client, uint64_t id, struct tarry_token token, const struct tarry_call *call,
                        tarry_done_fn done, void *arg) {
    SUBMIT(call, submit_release(client, false, id, token, told));
}
int tarry_dead_async(tarry_client *client, enum tarry_dead_what what, const struct tarry_ref *ref, bool all,
                     const struct tarry_call *call, tarry_done_fn done, void *arg) {
    SUBMIT(call, submit_dead(client, false, what, ref, all, told));
}

/* ---- blocking: a submission whose callback wakes the caller */

static void waiter_done(void *arg, const struct tarry_result *result) {
    struct waiter *waiter = arg;
    result_copy(result, &waiter->result);
    /* after this store the waiting thread may return and free `waiter`; request_complete calls gate_open later */
    atomic_store(&waiter->is_done, true);
}

static int waiter_begin(tarry_client *client, struct waiter *waiter) {
    atomic_init(&waiter->is_done, false);
    return may_block(client);
}

/* Waits for the result of a submitted blocking call. `rv`: result of the submission. */
static int waiter_end(tarry_client *client, struct waiter *waiter, int rv, struct tarry_result *out_result) {
    if (rv == TARRY_OK) {
        if (waiter->reads) caller_read(client, &waiter->is_done);
        for (;;) {
            const unsigned turn = atomic_load(&waiter->gate->turn);
            if (atomic_load(&waiter->is_done)) break;
            gate_wait(waiter->gate, turn);
        }
    } else {
        result_failed(rv, NULL, &waiter->result);
    }
    if (out_result != NULL) result_copy(&waiter->result, out_result);
    return waiter->result.code;
}

static int refused(int rv, struct tarry_result *out_result) {
    if (out_result != NULL) result_failed(rv, NULL, out_result);
    return rv;
}

#define WAIT(client, timeout_ms, out_result, submission)                                                               \
    do {                                                                                                               \
        struct waiter waiter;                                                                                          \
        struct told told = {waiter_done, &waiter, (timeout_ms)};                                                       \
        int begun = waiter_begin((client), &waiter);                                                                   \
        if (begun != TARRY_OK) return refused(begun, (out_result));                                                    \
        return waiter_end((client), &waiter, (submission), (out_result));                                              \
    } while (0)
/* Runs a blocking operation that has no options struct. */
#define WAIT_CALL(client, given_call, out_result, submission)                                                          \
    do {                                                                                                               \
        struct tarry_call taken_call;                                                                                  \
        TAKE(taken_call, given_call, refused(rv, (out_result)));                                                       \
        WAIT(client, taken_call.timeout_ms, out_result, submission);                                                   \
    } while (0)

int tarry_schedule(tarry_client *client, const struct tarry_schedule_options *given, struct tarry_result *out_result) {
    struct tarry_schedule_options options;
    TAKE_CALL(options, given, refused(rv, out_result));
    WAIT(client, options.call.timeout_ms, out_result, submit_schedule(client, true, &options, told));
}
int tarry_cancel(tarry_client *client, const struct tarry_ref *ref, bool withdraw, const struct tarry_call *call,
                 struct tarry_result *out_result) {
    WAIT_CALL(client, call, out_result, submit_cancel(client, true, ref, withdraw, told));
}
int tarry_move(tarry_client *client, const struct tarry_ref *ref, enum tarry_when when, uint64_t when_ms,
               const struct tarry_call *call, struct tarry_result *out_result) {
    WAIT_CALL(client, call, out_result, submit_move(client, true, ref, when, when_ms, told));
}
int tarry_ack(tarry_client *client, uint64_t id, struct tarry_token token, const struct tarry_call *call,
              struct tarry_result *out_result) {
    WAIT_CALL(client, call, out_result, submit_ack(client, true, id, token, told));
}
int tarry_nack(tarry_client *client, uint64_t id, struct tarry_token token, const struct tarry_nack_options *given,
               struct tarry_result *out_result) {
    struct tarry_nack_options options;
    TAKE_CALL(options, given, refused(rv, out_result));
    WAIT(client, options.call.timeout_ms, out_result, submit_nack(client, true, id, token, &options, told));
}
int tarry_extend(tarry_client *client, uint64_t id, struct tarry_token token, uint64_t lease_ms,
                 const struct tarry_call *call, struct tarry_result *out_result) {
    WAIT_CALL(client, call, out_result, submit_extend(client, true, id, token, lease_ms, told));
}
int tarry_release(tarry_client *client, uint64_t id, struct tarry_token token, const struct tarry_call *call,
                  struct tarry_result *out_result) {
    WAIT_CALL(client, call, out_result, submit_release(client, true, id, token, told));
}
int tarry_dead(tarry_client *client, enum tarry_dead_what what, const struct tarry_ref *ref, bool all,
               const struct tarry_call *call, struct tarry_result *out_result) {
    WAIT_CALL(client, call, out_result, submit_dead(client, true, what, ref, all, told));
}
int tarry_redact(tarry_client *client, const struct tarry_redact_options *given, struct tarry_result *out_result) {
    struct tarry_redact_options options;
    TAKE_CALL(options, given, refused(rv, out_result));
    WAIT(client, options.call.timeout_ms, out_result, submit_redact(client, true, &options, told));
}
int tarry_queue_set(tarry_client *client, const char *queue, const struct tarry_policy *given, uint32_t fields,
                    const struct tarry_call *call, struct tarry_result *out_result) {
    struct tarry_policy policy;
    TAKE(policy, given, refused(rv, out_result));
    /* If `policy` is NULL, no field is set, so the call only creates the queue. */
    WAIT_CALL(client, call, out_result,
              submit_queue_set(client, true, queue, given == NULL ? NULL : &policy, fields, told));
}
int tarry_queue_pause(tarry_client *client, const char *queue, bool paused, uint64_t for_ms,
                      const struct tarry_call *call, struct tarry_result *out_result) {
    WAIT_CALL(client, call, out_result, submit_queue_pause(client, true, queue, paused, for_ms, told));
}
int tarry_queue_purge(tarry_client *client, const char *queue, uint32_t states, const struct tarry_call *call,
                      struct tarry_result *out_result) {
    WAIT_CALL(client, call, out_result, submit_queue_purge(client, true, queue, states, told));
}
int tarry_recur_set(tarry_client *client, const struct tarry_recur_options *given, struct tarry_result *out_result) {
    struct tarry_recur_options options;
    if (given == NULL) return refused(TARRY_E_ARGUMENT, out_result);
    TAKE_CALL(options, given, refused(rv, out_result));
    WAIT(client, options.call.timeout_ms, out_result, submit_recur_set(client, true, &options, told));
}
int tarry_recur_do(tarry_client *client, const char *queue, const char *name, enum tarry_recur_what what,
                   const struct tarry_call *call, struct tarry_result *out_result) {
    WAIT_CALL(client, call, out_result, submit_recur_do(client, true, queue, name, what, told));
}
int tarry_queue_delete(tarry_client *client, const char *queue, const struct tarry_call *call,
                       struct tarry_result *out_result) {
    WAIT_CALL(client, call, out_result, submit_queue_delete(client, true, queue, told));
}
