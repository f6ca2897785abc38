/* call.c: replies as nng messages; see call.h. */
#include "call.h"

#include "errors.h"
#include "wire.h"

nng_msg *reply_pack(const Tarry__Reply *reply) {
    nng_msg *message = NULL;
    if (nng_msg_alloc(&message, tarry__reply__get_packed_size(reply)) != 0) return NULL;
    tarry__reply__pack(reply, nng_msg_body(message));
    return message;
}

nng_msg *reply_pack_commit(const void *commit, size_t commit_size) {
    nng_msg *message = NULL;
    if (nng_msg_alloc(&message, wire_commit_reply_size(commit_size)) != 0) return NULL;
    wire_commit_reply_encode(commit, commit_size, nng_msg_body(message));
    return message;
}

nng_msg *reply_pack_refusal(Tarry__Code code, const char *sentence) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    reply.code = code;
    reply.message = (char *)(sentence != NULL ? sentence : code_sentence(code));
    return reply_pack(&reply);
}
