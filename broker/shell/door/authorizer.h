/* authorizer.h: enforces what broker/access decides. It reads the file of tokens, again after each change; decides
 * which clients may connect; and refuses requests that a principal may not make or that exceed its limits.
 *
 *   the door: admit ──► a principal ──► each request: judge ──► the core: caller (queues by id, owners)
 *   the file changes, a token expires ──► door_review ──► stays? ──► no: the connection ends, and its session
 *
 * If a later version of the file is wrong or missing, the tokens of the former version stay valid. `problem` then
 * contains the error (for log, `tarry status` and metrics) until the file is repaired. At start, a wrong file is
 * refused. A missing file at the default path is valid: there are no tokens. */
#ifndef TARRY_SHELL_AUTHORIZER_H
#define TARRY_SHELL_AUTHORIZER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "access.h"
#include "caller.h"
#include "core.h"
#include "inbox.h"
#include "refusals_told.h"
#include "request.h"

struct config;
struct door;
struct lanes;

#define AUTHORIZER_PATH_SIZE 1100
#define AUTHORIZER_PROBLEM_SIZE 700

struct authorizer {
    struct lanes *lanes;
    struct inbox *inbox; /* the core's inbox */
    struct door *door;   /* the door; set by authorizer_start */
    bool is_open;        /* true: --unsafe-no-tokens is set */
    char path[AUTHORIZER_PATH_SIZE];
    pthread_mutex_t mutex; /* guards the members from `set` to `mark` */
    struct access_set *set;
    struct failures failures;
    struct refusals refusals;
    struct refusals_told told;
    char problem[AUTHORIZER_PROBLEM_SIZE]; /* the error in the file of tokens; "": no error */
    char sentence[ACCESS_SENTENCE_SIZE];   /* reason of the last verdict; the door copies it */
    /* State of the file at the last read. If any member differs, the file is read again. */
    struct authorizer_mark {
        uint64_t device, inode, size, changed_ns;
        bool exists;
    } mark;
    _Atomic uint64_t denied;  /* count of denied requests and operations */
    _Atomic uint64_t limited; /* count of requests and operations refused because of a limit of the principal */
    pthread_t thread;
    int wake; /* eventfd that wakes the thread when refusals are waiting or `stops` is set */
    bool runs;
    _Atomic bool stops;
};

struct authorizer_numbers {
    uint64_t tokens; /* rows of the file of tokens */
    uint64_t failures;
    uint64_t denied;
    uint64_t limited;
    char problem[AUTHORIZER_PROBLEM_SIZE];
};

/* Reads the file of tokens. Returns 0, or 1 with an error message. */
int authorizer_open(struct authorizer *authorizer, const struct config *config, struct lanes *lanes,
                    struct inbox *inbox, char *message, size_t size);
/* Starts the authorizer's thread. The door must exist. */
void authorizer_start(struct authorizer *authorizer, struct door *door);
void authorizer_stop(struct authorizer *authorizer);
/* Returns whether a token or a certificate can let a client in. */
bool authorizer_has_rows(struct authorizer *authorizer);
/* Returns whether clients from the network are treated as local clients (--unsafe-no-tokens). */
bool authorizer_is_open(const struct authorizer *authorizer);
void authorizer_numbers(struct authorizer *authorizer, struct authorizer_numbers *out);

/* ---- recording of refusals for the audit */
/* Offers counted refusals to the core thread, which records them. With `all`, before a stop, refusals of a kind that
 * was recorded a short time ago are offered too. */
void authorizer_tell(struct authorizer *authorizer, bool all);

/* Calls of the door (door.h). A principal is the address of a struct access_principal. */
struct caller_verdict authorizer_admit(struct authorizer *authorizer, const struct net_caller *caller);
void authorizer_dismiss(uint64_t principal);
bool authorizer_stays(struct authorizer *authorizer, uint64_t principal);

/* Origin of a request. It is known from the connection, never from the bytes of the request. */
enum authorizer_side {
    SIDE_CLIENT,  /* the requester is a client with a connection to the door */
    SIDE_GATEWAY, /* made in this process: for a client of another protocol or the broker itself (broker/gateway) */
    SIDE_PEER     /* the other node of the pair, which proved its identity by the key */
};
/* Decides whether the principal may make this request. Writes the requester into the event; memory for that comes from
 * `arena`. In a commit, each operation that is not allowed gets its own error (core_content); the other operations are
 * still executed. The door's thread only. */
struct request_refusal authorizer_judge(struct authorizer *authorizer, struct access_principal *principal,
                                        enum authorizer_side side, struct arena *arena, struct core_request *request);
/* Checks whether the rate limit of the principal allows one more operation now. Returns OK, or BUSY with a message in
 * `arena`. Called before a request is unpacked. A request that is then found malformed costs one operation
 * (authorizer_charge). The door's thread only. */
struct request_refusal authorizer_look_at_rate(struct authorizer *authorizer, struct access_principal *principal,
                                               struct arena *arena);
void authorizer_charge(struct access_principal *principal);
/* Decides whether the principal may lease, or commit any of these operations (bits 1 << Tarry__Op__OpCase). No queue is
 * checked. Charges one operation. Returns OK, or the code and a message. The door's thread only. */
Tarry__Code authorizer_judge_deed(struct authorizer *authorizer, struct access_principal *principal, bool leases,
                                  uint32_t operations, char sentence[ACCESS_SENTENCE_SIZE]);
/* Decides whether the principal may get the stored reply of a commit that has an idempotency key (gateway_once). The
 * principal may if it is allowed at least one of the commit's operations. Charges one operation. Returns OK, or the
 * code and a message. The door's thread only. */
Tarry__Code authorizer_judge_key(struct authorizer *authorizer, struct access_principal *principal,
                                 const Tarry__Commit *commit, char sentence[ACCESS_SENTENCE_SIZE]);
/* Decides whether the principal may lease from all these queues now. Charges one operation. Returns OK, or the code and
 * a message. The door's thread only. */
Tarry__Code authorizer_judge_lease(struct authorizer *authorizer, struct access_principal *principal,
                                   const char *const *queues, size_t queue_count, char sentence[ACCESS_SENTENCE_SIZE]);
/* Returns whether the principal may do this operation in this queue; if not, writes a message. Charges nothing. */
bool authorizer_judge_op(struct authorizer *authorizer, const struct access_principal *principal,
                         Tarry__Op__OpCase operation, const char *queue, char sentence[ACCESS_SENTENCE_SIZE]);
/* Returns the broker's own principal (KIND_BROKER) with a new reference, which the caller releases. */
uint64_t authorizer_own(struct authorizer *authorizer);
/* Changes the size of one of the principal's pending requests from `before` to `after` bytes. Returns false if that
 * exceeds the limit `bytes`. A decrease is always allowed, and so is a request that is the principal's only one. The
 * door's thread only. */
bool authorizer_take_bytes(struct authorizer *authorizer, struct access_principal *principal, uint64_t before,
                           uint64_t after);
void authorizer_give_bytes(struct access_principal *principal, uint64_t bytes);

static inline struct access_principal *principal_of(uint64_t principal) {
    return (struct access_principal *)(uintptr_t)principal;
}

#endif
