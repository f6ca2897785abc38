/* question.c: see question.h. */
#include "question.h"

#include <stdlib.h>
#include <string.h>

#include "alloc.h"

int question_ask(tarry_client *client, Tarry__Request *request, const struct tarry_call *call, struct answer_of *out,
                 char message[TARRY_MESSAGE_SIZE]) {
    struct tarry_answer *answer = NULL;
    size_t size = tarry__request__get_packed_size(request);
    uint8_t *packed = tool_alloc(size);
    tarry__request__pack(request, packed);
    *out = (struct answer_of){.reply = NULL};
    int code = tarry_question(client, packed, size, call, &answer, message);
    free(packed);
    if (code != TARRY_OK) return code;
    out->source = answer->source;
    out->reply = tarry__reply__unpack(NULL, answer->size, answer->reply);
    /* The library has unpacked these bytes already, so only missing memory can fail. */
    if (out->reply == NULL) tool_out_of_memory();
    tarry_answer_free(answer);
    return TARRY_OK;
}

void answer_free(struct answer_of *answer) {
    if (answer->reply != NULL) tarry__reply__free_unpacked(answer->reply, NULL);
    answer->reply = NULL;
}

void ref_to_message(const struct tarry_ref *ref, Tarry__Ref *out) {
    tarry__ref__init(out);
    out->id = ref->id;
    if (ref->queue != NULL) out->queue = (char *)ref->queue;
    if (ref->key == NULL) return;
    out->key.data = (uint8_t *)ref->key;
    out->key.len = ref->key_size != 0 ? ref->key_size : strlen(ref->key);
}

void json_line(struct text *out, const ProtobufCMessage *message, const struct tarry_source *source) {
    out_begin(out, '{');
    json_members(out, message);
    json_source(out, source);
    out_line_end(out);
}
