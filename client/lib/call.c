/* call.c: blocking calls that change nothing. Each is one request, repeated until a reply comes. */
#include "client.h"

static void call_done(void *arg, struct request *request) {
    /* When this returns, the engine puts the request back into the pool, so the call takes over the reply's memory. */
    struct call *call = arg;
    call->code = request->code;
    call->message = message_copy(call->message_text, sizeof(call->message_text), request->message);
    call->reply = request->reply;
    call->arena = request->arena;
    call->arena.pb.allocator_data = &call->arena;
    arena_init(&request->arena, REPLY_ARENA_MAX);
    atomic_store(&call->is_done, true);
    sem_post(&call->ready);
}

int call_run_within(tarry_client *client, Tarry__Request *wire, uint32_t timeout_ms, struct call *call,
                    char out_message[TARRY_MESSAGE_SIZE]) {
    bool reads = false;
    *call = (struct call){.reply = NULL};
    arena_init(&call->arena, REPLY_ARENA_MAX);
    int rv = may_block(client);
    if (rv == TARRY_OK && sem_init(&call->ready, 0, 0) != 0) rv = TARRY_E_SYSTEM;
    if (rv != TARRY_OK) goto out;
    pthread_mutex_lock(&client->lock);
    struct request *request = client->closing ? NULL : request_new(client, REQUEST_CALL);
    if (request == NULL) {
        rv = client->closing ? TARRY_E_CLOSED : TARRY_E_NOMEM;
    } else if ((rv = request_fill_call(client, request, wire)) != TARRY_OK) {
        request_free(client, request);
    } else {
        request->timeout_ms = timeout_ms;
        request->blocks = true;
        request->done = call_done;
        request->arg = call;
        request_submit_call(client, request, true);
        reads = caller_may_read(client);
    }
    pthread_mutex_unlock(&client->lock);
    if (reads) caller_read(client, &call->is_done);
    if (rv == TARRY_OK) {
        while (sem_wait(&call->ready) != 0) {
        } /* EINTR */
        rv = call->code;
    }
    sem_destroy(&call->ready);
out:
    if (rv != TARRY_OK && call->message == NULL) return message_say(out_message, rv);
    message_set(out_message, rv == TARRY_OK ? "" : call->message);
    return rv;
}

/* Returns how long a follower may wait per request. It is well below RESEND_AFTER_MS, and below the call's timeout,
 * so that the follower's message arrives in time. */
#define WISH_WAIT_MS 1000u
_Static_assert(WISH_WAIT_MS <= FRESH_WAIT_MAX_MS, "the maximum of every broker");

int call_wish(const tarry_client *client, Tarry__Request *wire, const struct tarry_call *options) {
    if (options->staleness_ms > INT32_MAX) return TARRY_E_ARGUMENT;
    if (options->at_least == 0 && options->staleness_ms == 0) return TARRY_OK;
    uint64_t timeout_ms = options->timeout_ms != 0 ? options->timeout_ms : client->timeout_ms;
    wire->at_least = options->at_least;
    wire->staleness_ms = (uint32_t)options->staleness_ms;
    wire->wait_ms = timeout_ms / 2 < WISH_WAIT_MS ? (uint32_t)(timeout_ms / 2) : WISH_WAIT_MS;
    return TARRY_OK;
}

int call_run(tarry_client *client, Tarry__Request *wire, struct call *call, char out_message[TARRY_MESSAGE_SIZE]) {
    return call_run_within(client, wire, 0, call, out_message);
}

void call_end(struct call *call) {
    arena_deinit(&call->arena);
    call->reply = NULL;
}

void call_keep(struct call *call, struct arena *arena) {
    *arena = call->arena;
    arena->pb.allocator_data = arena;
    arena_init(&call->arena, 0);
}
