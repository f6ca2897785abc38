/* question.h: sends a question to a broker; the answer is a message of tarry.proto, as /v1 returns it. */
#ifndef TARRY_TOOL_QUESTION_H
#define TARRY_TOOL_QUESTION_H

#include "json_map.h"
#include "tool.h"

struct answer_of {
    Tarry__Reply *reply; /* owned reply; NULL: none */
    struct tarry_source source;
};

/* Returns a code of tarry.h. With TARRY_OK the caller passes `out` to answer_free. */
int question_ask(tarry_client *client, Tarry__Request *request, const struct tarry_call *call, struct answer_of *out,
                 char message[TARRY_MESSAGE_SIZE]);
void answer_free(struct answer_of *answer);
/* Converts the reference to a message, which borrows its strings. */
void ref_to_message(const struct tarry_ref *ref, Tarry__Ref *out);
/* Appends the message as one JSON line, and marks the answer of a follower. */
void json_line(struct text *out, const ProtobufCMessage *message, const struct tarry_source *source);

#endif
