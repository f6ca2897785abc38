/* call.c: packs replies into messages; see call.h. */
#include "call.h"

#include "errors.h"
#include "wire.h"

struct message *reply_pack(const Tarry__Reply *reply) {
    struct message *message = message_new(tarry__reply__get_packed_size(reply));
    if (message != NULL) tarry__reply__pack(reply, message->bytes);
    return message;
}

struct message *reply_pack_commit(const void *commit, size_t commit_size, uint64_t position) {
    struct message *message = message_new(wire_commit_reply_size(commit_size, position));
    if (message != NULL) wire_commit_reply_encode(commit, commit_size, position, message->bytes);
    return message;
}

struct message *reply_pack_soon(const char *sentence) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    reply.code = TARRY__CODE__BUSY;
    reply.message = (char *)sentence;
    reply.retry_ms = SOON_MS;
    return reply_pack(&reply);
}

struct message *reply_pack_refusal(Tarry__Code code, const char *sentence) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    reply.code = code;
    reply.message = (char *)(sentence != NULL ? sentence : code_sentence(code));
    return reply_pack(&reply);
}
