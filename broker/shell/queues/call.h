/* call.h: a *call* is a request (engine/engine_request.h) on behalf of a client that waits for an answer. It
 * has one owner at a time: it is in the core's inbox, in the reader's queue, or in the hands of the thread that took it
 * from there. */
#ifndef TARRY_SHELL_CALL_H
#define TARRY_SHELL_CALL_H

#include "engine_request.h"
#include "message.h"

struct call {
    struct engine_request engine_request; /* first */
    /* Takes `reply` over (a packed Tarry__Reply; NULL: out of memory) and ends the call. Once per call, any thread. */
    void (*answer)(struct call *call, struct message *reply);
    /* Asked once the core has answered, before the reply is packed or read: may it have `size` bytes? False: there is
     * no room, and the answer is BUSY. NULL: it is not counted. Core thread. */
    bool (*sized)(struct call *call, size_t size);
    bool from_peer;      /* the other node of the pair asks, and has proved that it does */
    uint32_t age_max_ms; /* a follower's answer says so (Reply.age_max_ms); 0: it does not */
};

/* A call is its own ticket. */
static inline uint64_t call_ticket(struct call *call) {
    return (uint64_t)(uintptr_t)call;
}
static inline struct call *call_of(uint64_t ticket) {
    return (struct call *)(uintptr_t)ticket;
}

/* A packed Reply; NULL: out of memory. */
struct message *reply_pack(const Tarry__Reply *reply);
/* `position`: what it did is recorded below. */
struct message *reply_pack_commit(const void *commit, size_t commit_size, uint64_t position);
/* BUSY, for a moment: the client is told to ask again after SOON_MS (Reply.retry_ms). */
#define SOON_MS 20u
struct message *reply_pack_soon(const char *sentence);
/* With TARRY__CODE__FAILED. */
#define CALL_UNCONFIRMED                                                                                               \
    "this broker stops or is no longer the leader, and the other node has not confirmed the request: whether it took " \
    "effect is unknown; look before you send it again, or send it with the key that makes it once only"
/* A refusal; `sentence` NULL: that of the code. */
struct message *reply_pack_refusal(Tarry__Code code, const char *sentence);

#endif
