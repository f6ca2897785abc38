/* question.c: read requests as packed messages of tarry.proto. */
#include "client.h"

#include <stdlib.h>

#include "requests.h"

struct answer_box {
    struct tarry_answer answer; /* must be first: see tarry_answer_free */
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
    Tarry__Request asked = TARRY__REQUEST__INIT; /* the library fills in the client's name and the required freshness */
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
