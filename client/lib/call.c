/* call.c: blocking calls that change nothing. Each is one request, repeated until a reply comes. */
#include "client.h"

#include <stdlib.h>

#include "requests.h"

static void call_done(void *arg, struct request *request) {
    /* After this function returns, the engine puts the request back into the pool. So the call takes over the memory of
     * the reply. */
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

/* Longest time for which a broker (a follower of the pair) may wait until it has the log position or freshness that a
 * read request asks for. It is well below RESEND_AFTER_MS. It is also below the call's timeout, so that the broker's
 * refusal arrives in time. */
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

/* ---- read requests as packed messages of tarry.proto */

struct answer_box {
    /* Must be the first member, because tarry_answer_free converts its address to a struct answer_box. */
    struct tarry_answer answer;
    uint8_t bytes[];
};

/* An Audit request may wait for new frames, so only tarry_audit sends it. */
static bool is_question(const Tarry__Request *request) {
    if (request->body_case == TARRY__REQUEST__BODY_PAIR) return request->pair->what == TARRY__PAIR__WHAT__STATUS;
    if (request->body_case == TARRY__REQUEST__BODY_CONSUMERS) return true;
    return request_is_question(request) && request->body_case != TARRY__REQUEST__BODY_AUDIT;
}

static int keep(const struct call *call, struct tarry_answer **out_answer, char out_message[TARRY_MESSAGE_SIZE]) {
    size_t size = tarry__reply__get_packed_size(call->reply);
    struct answer_box *box = malloc(sizeof(*box) + size);
    if (box == NULL) return message_say(out_message, TARRY_E_NOMEM);
    tarry__reply__pack(call->reply, box->bytes);
    box->answer = (struct tarry_answer){.reply = box->bytes, .size = size, .source = source_of(call->reply)};
    *out_answer = &box->answer;
    return TARRY_OK;
}

int tarry_question(tarry_client *client, const void *request, size_t size, const struct tarry_call *given,
                   struct tarry_answer **out_answer, char out_message[TARRY_MESSAGE_SIZE]) {
    struct tarry_call options;
    struct call call;
    if (client == NULL || request == NULL || out_answer == NULL) return message_say(out_message, TARRY_E_ARGUMENT);
    int rv = OPTIONS_TAKE(options, given);
    if (rv != TARRY_OK) return message_say(out_message, rv);
    Tarry__Request *wire = tarry__request__unpack(NULL, size, request);
    if (wire == NULL || !is_question(wire)) {
        tarry__request__free_unpacked(wire, NULL);
        return message_say(out_message, TARRY_E_ARGUMENT);
    }
    Tarry__Request asked = TARRY__REQUEST__INIT; /* a copy of the request, in which the library sets the client's name
                                                    and the required freshness */
    asked.body_case = wire->body_case;
    asked.get = wire->get;
    rv = call_wish(client, &asked, &options);
    if (rv != TARRY_OK) {
        tarry__request__free_unpacked(wire, NULL);
        return message_say(out_message, rv);
    }
    rv = call_run_within(client, &asked, timeout_of(options.timeout_ms), &call, out_message);
    if (rv == TARRY_OK && (int)call.reply->body_case != (int)asked.body_case)
        rv = message_say(out_message, TARRY_E_PROTOCOL);
    if (rv == TARRY_OK) rv = keep(&call, out_answer, out_message);
    call_end(&call);
    tarry__request__free_unpacked(wire, NULL);
    return rv;
}

void tarry_answer_free(struct tarry_answer *answer) {
    free(answer);
}
