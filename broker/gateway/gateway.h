/* gateway.h: the seam for code in tarryd that speaks a foreign protocol (HTTP and JSON, beanstalkd's). It makes
 * requests of tarry.proto as any client would, and leases tasks, without a socket of its own.
 *
 *   a protocol ── gateway_ask, gateway_commit ──► the door's `request`, as if it had come by /rpc ──► … ──► reply()
 *              ── gateway_lease ──► a session of the pool, with credit for who waits ──► … ──► leased()
 *
 * Everything here is the door's thread's own, and so are the callbacks: they are called from the door's rounds, never
 * from within a function of this header. The gateway owns what a callback is given, and keeps it valid until the
 * callback returns, whatever the callback calls; nothing of it may be read later. A handle is never used twice, and may
 * be named after its end: that does nothing.
 *
 * Limits are those of clients: principals' roles, queues and limits, BUSY, budgets (rpc.h). A refusal is a Reply with
 * its code and sentence. */
#ifndef TARRY_GATEWAY_GATEWAY_H
#define TARRY_GATEWAY_GATEWAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarry.pb-c.h"

/* Leases that wait, all protocols together; beyond it the refusal is BUSY. */
#define GATEWAY_LEASES_MAX 8192u
/* Tasks of one lease, at most. */
#define GATEWAY_LEASE_TASKS_MAX 4096u
/* How long a lease may wait. */
#define GATEWAY_WAIT_MAX_MS (600ull * 1000)
/* Requests without a reply, all protocols together; beyond it the refusal is BUSY. */
#define GATEWAY_ASKS_MAX 32768u
/* Of a key that names a commit (gateway_once), in bytes. */
#define GATEWAY_ONCE_KEY_MAX 255u
#define GATEWAY_FINGERPRINT_SIZE 32u
/* How long such a key is remembered. */
#define GATEWAY_ONCE_KEEP_MS (24ull * 3600 * 1000)
/* … and where: a queue of the broker's own. */
#define GATEWAY_ONCE_QUEUE "tarry.once"

struct gateway;

/* The requester. All of it is copied, and the principal referenced as long as it is needed. */
struct gateway_caller {
    uint64_t principal; /* of a verdict that still stands (caller.h) */
    const char *peer;   /* "127.0.0.1:40312" */
    const char *client; /* Request.client: a word of this program that names the protocol, and no byte of a client's */
};

/* What principal that is to the broker (docs/ACCESS.md). */
#define GATEWAY_ROLES_SIZE 64
struct gateway_who {
    const char *name;               /* the principal's, as long as it is held */
    char roles[GATEWAY_ROLES_SIZE]; /* "produce read", in words with a blank between; "": none */
    bool is_confined;               /* to some queues */
};
void gateway_who(struct gateway *gateway, const struct gateway_caller *caller, struct gateway_who *out);

/* What a request is about to ask for, as far as its head says. */
struct gateway_deed {
    bool leases;
    uint32_t operations; /* a commit with any of these: bits 1 << Tarry__Op__OpCase */
};
#define GATEWAY_SENTENCE_SIZE 400u
/* May the requester ask for this, whatever the queue (of a commit: for one of the operations)? Asked before the body of
 * a request is read; it costs one operation of the principal's rate. OK, or DENIED or BUSY with a sentence. */
Tarry__Code gateway_pay(struct gateway *gateway, const struct gateway_caller *caller, const struct gateway_deed *deed,
                        char sentence[GATEWAY_SENTENCE_SIZE]);
/* Gives that operation back: the request goes to the broker, which counts its operations. */
void gateway_unpay(struct gateway *gateway, const struct gateway_caller *caller);

/* ---- requests */

/* Once for each handle, unless it is forgotten. NULL: no memory; what was asked for may have taken effect. */
typedef void gateway_reply(void *argument, const Tarry__Reply *reply);

/* Asks. `request` is packed before this returns; version and client are filled in. A commit goes by gateway_commit.
 * 0, here and in all that follows: there is no memory, and the callback is not called. */
uint64_t gateway_ask(struct gateway *gateway, const struct gateway_caller *caller, Tarry__Request *request,
                     gateway_reply *reply, void *argument);

/* A client's own name for a commit: the second commit under it gets the answer of the first, across crashes and
 * failovers, for GATEWAY_ONCE_KEEP_MS. It means the commits of one principal. */
struct gateway_once {
    const void *key;
    size_t key_size; /* 1 … GATEWAY_ONCE_KEY_MAX */
    /* Of what was asked for: another one under the same key is refused, INVALID with gateway_once_differs. */
    uint8_t fingerprint[GATEWAY_FINGERPRINT_SIZE];
};
extern const char gateway_once_differs[];

/* Commits: producer, sequence and oldest_unanswered are filled in. `once` NULL: it is sent once, and a client that
 * hears no answer does not know. */
uint64_t gateway_commit(struct gateway *gateway, const struct gateway_caller *caller, Tarry__Commit *commit,
                        const struct gateway_once *once, gateway_reply *reply, void *argument);

/* The reply is not waited for any more: the callback is not called. What was asked for may take effect. */
void gateway_forget(struct gateway *gateway, uint64_t handle);

/* ---- leases */

struct gateway_lease_options {
    const char *const *queues; /* 1 … QUEUES_PER_SUBSCRIBE_MAX; copied */
    size_t queue_count;
    uint32_t max;      /* tasks, 1 … GATEWAY_LEASE_TASKS_MAX */
    uint64_t lease_ms; /* 0: each queue's own */
    uint64_t wait_ms;  /* for the first task, GATEWAY_WAIT_MAX_MS at most; 0: what is ready now, or nothing */
};

struct gateway_leased {
    Tarry__Code code; /* not OK: refused, `message` says why */
    const char *message;
    const char *primary;                /* with NOT_PRIMARY: where it is; "": not known */
    Tarry__DeliveredTask *const *tasks; /* each with its token, its lease durable; none: the wait is over */
    size_t count;
    uint64_t delivered_ms;
};

/* Once for each handle, unless it is cancelled before. With tasks, gateway_left must follow, once. */
typedef void gateway_leased(void *argument, const struct gateway_leased *leased);

uint64_t gateway_lease(struct gateway *gateway, const struct gateway_caller *caller,
                       const struct gateway_lease_options *options, gateway_leased *leased, void *argument);
/* What became of the tasks that the callback was given. `left`: the first of their bytes may be in the kernel: they
 * count as delivered, and stay leased until they are settled or their time is over, whatever becomes of the connection.
 * Not left: no client has seen them and none will: they are ready again, and no attempt is counted (TRUE-1). In the
 * callback or later, soon: waiters for tasks of the same queues may have to wait for this. */
void gateway_left(struct gateway *gateway, uint64_t handle, bool left);
/* The waiting client has gone. After the callback it is gateway_left(…, false), if that has not been said. */
void gateway_cancel(struct gateway *gateway, uint64_t handle);

/* ---- the clock, for protocols that keep deadlines of their own */

/* Once, `after_ms` from now at the earliest. */
typedef void gateway_timeout(void *argument);
uint64_t gateway_timer(struct gateway *gateway, uint64_t after_ms, gateway_timeout *timeout, void *argument);
void gateway_timer_cancel(struct gateway *gateway, uint64_t handle);

/* ---- for what the broker does by itself, beside clients */

/* The broker's own principal, which may do everything, in its own queues too (queue_is_reserved): for gateway_caller.
 * To be given back. */
uint64_t gateway_own(struct gateway *gateway);
void gateway_disown(struct gateway *gateway, uint64_t principal);

/* What another thread may call gateway_wake with: `arrived` is called on the door's thread, once at least after each
 * gateway_wake. It lives as long as the gateway. Before the door starts, or on its thread. NULL: no memory. */
struct gateway_wakeup;
struct gateway_wakeup *gateway_wakeup(struct gateway *gateway, gateway_timeout *arrived, void *argument);
/* Any thread; also from within `rung`. */
void gateway_wake(struct gateway_wakeup *wakeup);

#endif
