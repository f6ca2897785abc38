/* call.h: a *call* is a request (engine/engine_request.h) of a client that waits for a reply. A call has one owner at a
 * time: the core's inbox, a queue of another thread (such as the reader's), or the thread that took it from there. */
#ifndef TARRY_SHELL_CALL_H
#define TARRY_SHELL_CALL_H

#include "engine_request.h"
#include "message.h"

struct call {
    struct engine_request engine_request; /* must be the first member */
    /* Ends the call with `reply`, which it owns from then on: a packed Tarry__Reply, or NULL if memory is exhausted.
     * Called once per call, on any thread. */
    void (*answer)(struct call *call, struct message *reply);
    /* Reserves memory for a reply of `size` bytes, before the reply is packed or read. Returns false if memory is not
     * enough; the reply is then BUSY. The pointer is NULL if the size is not limited. Core thread only. */
    bool (*sized)(struct call *call, size_t size);
    /* Reserves memory for the recorded reply of a repeated commit, whose size is `size`. False: the budget is exceeded;
     * the reply is then BUSY. Any thread. */
    bool (*repeats)(struct call *call, size_t size);
    bool from_peer;      /* the request comes from the other node of the pair, which has proved its identity */
    uint32_t age_max_ms; /* maximum age of the state that a follower's reply is based on, stated in Reply.age_max_ms; 0:
                            not stated */
};

/* The ticket of a call is its address. */
static inline uint64_t call_ticket(struct call *call) {
    return (uint64_t)(uintptr_t)call;
}
static inline struct call *call_of(uint64_t ticket) {
    return (struct call *)(uintptr_t)ticket;
}

/* Returns a packed Reply; NULL if memory is exhausted. */
struct message *reply_pack(const Tarry__Reply *reply);
/* Packs the reply to a commit. The records of the commit lie below log position `position`. */
struct message *reply_pack_commit(const void *commit, size_t commit_size, uint64_t position);
/* Packs a BUSY reply for a short overload: the client retries after SOON_MS (Reply.retry_ms). */
#define SOON_MS 20u
struct message *reply_pack_soon(const char *sentence);
/* Text of a reply with TARRY__CODE__FAILED. */
#define CALL_UNCONFIRMED                                                                                               \
    "this broker stops or is no longer the primary, and the other node has not confirmed the request: whether it "     \
    "took "                                                                                                            \
    "effect is unknown; check the task before you send the request again, or send it with the same key"
/* Packs a refusal. If `sentence` is NULL, the reply has the default message of the code. */
struct message *reply_pack_refusal(Tarry__Code code, const char *sentence);

#endif
