/* gateway.h: the interface for other protocols in tarryd (HTTP with JSON, beanstalkd's, AMQP). Code behind it makes
 * requests of tarry.proto and leases tasks as any client would, but without a socket.
 *
 * Requests: gateway_ask and gateway_commit pass a request to the door's callback `request`, as if it had arrived at
 * /rpc. The reply callback gets the answer. Leases: gateway_lease adds a client to a session of the pool, whose credit
 * is the number of tasks for which clients wait. The callback `leased` gets the tasks.
 *
 * Only the door's thread may call these functions. Callbacks run on the same thread, in the door's rounds, never within
 * a function of this header.
 *
 * The gateway owns the data that a callback gets. The data stays valid until the callback returns, whatever the
 * callback calls. A handle is never reused; using a handle after its end has no effect. The limits of clients apply:
 * roles, queues and limits of principals, BUSY, budgets (rpc.h). A refusal is a Reply with its code and a sentence. */
#ifndef TARRY_GATEWAY_GATEWAY_H
#define TARRY_GATEWAY_GATEWAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarry.pb-c.h"

/* Maximum number of waiting leases, for all protocols together; beyond it the reply is BUSY. */
#define GATEWAY_LEASES_MAX 8192u
/* Maximum number of tasks in one lease. */
#define GATEWAY_LEASE_TASKS_MAX 4096u
/* Maximum time that a lease may wait. */
#define GATEWAY_WAIT_MAX_MS (600ull * 1000)
/* Maximum number of unanswered requests, for all protocols together; beyond it the reply is BUSY. */
#define GATEWAY_ASKS_MAX 32768u
/* Maximum bytes of an idempotency key (gateway_once). */
#define GATEWAY_ONCE_KEY_MAX 255u
#define GATEWAY_FINGERPRINT_SIZE 32u
/* Time for which an idempotency key is remembered. */
#define GATEWAY_ONCE_KEEP_MS (24ull * 3600 * 1000)
/* Reserved queue that stores the idempotency keys. */
#define GATEWAY_ONCE_QUEUE "tarry.once"

struct gateway;

/* The client of a request. The gateway copies it, and holds a reference to the principal while needed. */
struct gateway_caller {
    uint64_t principal; /* principal of a valid verdict (caller.h) */
    const char *peer;   /* "127.0.0.1:40312" */
    const char *client; /* Request.client: a constant word that names the protocol, never a client's text */
};

/* A principal's name, roles and limits, as the broker knows them (docs/ACCESS.md). */
#define GATEWAY_ROLES_SIZE 64
struct gateway_who {
    const char *name;               /* name of the principal; valid while the principal is held */
    char roles[GATEWAY_ROLES_SIZE]; /* role names separated by blanks, such as "produce read"; "": none */
    bool may_look;                  /* true: a role of the principal permits the request Stats */
    bool is_confined;               /* true: the principal may use only some queues */
};
void gateway_who(struct gateway *gateway, const struct gateway_caller *caller, struct gateway_who *out);

/* The operations for which a request will ask, as far as the request's head tells. */
struct gateway_deed {
    bool leases;
    uint32_t operations; /* kinds of operation in the commit: bits 1 << Tarry__Op__OpCase */
};
#define GATEWAY_SENTENCE_SIZE 400u
/* Checks the client's permission before the body of a request is read, and takes one operation from the principal's
 * rate. Queues are not checked; a commit needs permission for one of its operations. Returns OK, or DENIED or BUSY with
 * a sentence. */
Tarry__Code gateway_pay(struct gateway *gateway, const struct gateway_caller *caller, const struct gateway_deed *deed,
                        char sentence[GATEWAY_SENTENCE_SIZE]);
/* Undoes gateway_pay: returns one operation to the principal's rate, because the broker counts the request's operations
 * itself. */
void gateway_unpay(struct gateway *gateway, const struct gateway_caller *caller);

/* Checks whether the principal may do this operation in this queue. False: `sentence` gives the reason. */
bool gateway_may(struct gateway *gateway, const struct gateway_caller *caller, Tarry__Op__OpCase operation,
                 const char *queue, char sentence[GATEWAY_SENTENCE_SIZE]);
/* Returns the broker's epoch. It grows whenever this node begins to lead its pair. */
uint32_t gateway_epoch(struct gateway *gateway);

/* ---- requests */

/* Callback, called once for each handle unless it is forgotten. NULL: out of memory; the request may have taken effect.
 */
typedef void gateway_reply(void *argument, const Tarry__Reply *reply);

/* Sends a request; `request` is packed before this returns, and version and client are filled in. Use gateway_commit
 * for commits. Returns a handle. All functions that return a handle return 0 when out of memory, and then make no
 * callback. */
uint64_t gateway_ask(struct gateway *gateway, const struct gateway_caller *caller, Tarry__Request *request,
                     gateway_reply *reply, void *argument);

/* An idempotency key of a client. A repeated commit with the same key gets the first one's reply, across crashes and
 * failovers, for GATEWAY_ONCE_KEEP_MS. Each principal has its own keys. */
struct gateway_once {
    const void *key;
    size_t key_size; /* size of the key in bytes, 1 … GATEWAY_ONCE_KEY_MAX */
    /* Fingerprint of the request. Another request with the same key is refused: INVALID with gateway_once_differs. */
    uint8_t fingerprint[GATEWAY_FINGERPRINT_SIZE];
};
extern const char gateway_once_differs[];

/* Sends a commit; producer, sequence and oldest_unanswered are filled in. `once` NULL: no idempotency key, so a client
 * without a reply cannot know the result. */
uint64_t gateway_commit(struct gateway *gateway, const struct gateway_caller *caller, Tarry__Commit *commit,
                        const struct gateway_once *once, gateway_reply *reply, void *argument);

/* Returns whether capacity for a further commit of `size` bytes is left that no other client needs. A protocol asks
 * before it sends a commit of a client whose earlier commits have no reply yet. */
bool gateway_has_spare(struct gateway *gateway, const struct gateway_caller *caller, size_t size);

/* Drops the handle, so that its callback is not called. The request may still take effect. */
void gateway_forget(struct gateway *gateway, uint64_t handle);

/* ---- leases */

struct gateway_lease_options {
    const char *const *queues; /* names of 1 … QUEUES_PER_SUBSCRIBE_MAX queues; copied; none for a mover */
    size_t queue_count;
    uint32_t max;      /* maximum number of tasks, 1 … GATEWAY_LEASE_TASKS_MAX */
    uint64_t lease_ms; /* lease time in ms; 0: the one of each queue's policy */
    uint64_t wait_ms;  /* maximum wait for the first task, at most GATEWAY_WAIT_MAX_MS; 0: no wait */
    /* If `wait_ms` is 0: maximum time in ms to wait for the broker's answer whether a task is ready; 0 means 1 s. */
    uint64_t now_ms;
    bool bound;  /* true: the leases end with this process, so the broker's next start or a promotion returns the tasks
                    at once */
    bool mover;  /* true: lease tasks that are due in queues with lease_before_due; only the broker itself may set this,
                    with `bound` */
    bool sharer; /* true: lease tasks that are due in queues with groups, and no others */
};

struct gateway_leased {
    Tarry__Code code; /* not OK: the lease was refused; `message` gives the reason */
    const char *message;
    const char *primary; /* the leader's address, with NOT_PRIMARY; "": unknown */
    /* Leased tasks with their tokens; the leases are durable. No tasks: the wait has timed out. */
    Tarry__DeliveredTask *const *tasks;
    size_t count;
    uint64_t delivered_ms;
};

/* Callback, called once for each handle unless the lease is cancelled before. If it gets tasks, call gateway_left once.
 */
typedef void gateway_leased(void *argument, const struct gateway_leased *leased);

uint64_t gateway_lease(struct gateway *gateway, const struct gateway_caller *caller,
                       const struct gateway_lease_options *options, gateway_leased *leased, void *argument);
/* Reports the result of sending the leased tasks; call it in the callback or soon after. Set `left` to true if the
 * first byte may be in the kernel: the tasks then count as delivered, and stay leased until they are settled or the
 * lease ends. Set `left` to false if no client has seen the tasks: they become ready again, and no attempt is counted
 * (TRUE-1). Until this call, other waiting leases for the same queues may be delayed. */
void gateway_left(struct gateway *gateway, uint64_t handle, bool left);
/* Cancels a waiting lease, for example because its client has disconnected. If the callback has been called, acts like
 * gateway_left(…, false), unless gateway_left was called. */
void gateway_cancel(struct gateway *gateway, uint64_t handle);

/* ---- timers, for protocols with their own deadlines */

/* Callback, called once, not earlier than `after_ms` from now. */
typedef void gateway_timeout(void *argument);
uint64_t gateway_timer(struct gateway *gateway, uint64_t after_ms, gateway_timeout *timeout, void *argument);
void gateway_timer_cancel(struct gateway *gateway, uint64_t handle);

/* ---- for the broker's own work */

/* Returns a reference to the broker's own principal, which may do everything, even in reserved queues
 * (queue_is_reserved). Use it in gateway_caller, and release it. */
uint64_t gateway_own(struct gateway *gateway);
void gateway_disown(struct gateway *gateway, uint64_t principal);

/* Lets another thread wake the door's thread: after each gateway_wake, `arrived` is called at least once on the door's
 * thread. The wakeup lives as long as the gateway. Create it before the door starts, or on the door's thread. NULL: out
 * of memory. */
struct gateway_wakeup;
struct gateway_wakeup *gateway_wakeup(struct gateway *gateway, gateway_timeout *arrived, void *argument);
/* Wakes the door's thread. Any thread may call it; also within `arrived`. */
void gateway_wake(struct gateway_wakeup *wakeup);

#endif
