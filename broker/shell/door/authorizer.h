/* authorizer.h: carries out what broker/access decides: reads the file of tokens, and again when it changes; says which
 * clients come in; refuses what a principal may not do, and whatever is beyond its limits.
 *
 *   the door: admit ──► a principal, held ──► each request: judge ──► the core: caller (queues by id, owners)
 *   the file changes, a token expires ──► door_review ──► stays? ──► no: the connection ends, and its session
 *
 * A file that is wrong, or gone, changes nothing: the rows of before stay in force, and `problem` says so (log, `tarry
 * status`, metrics) until it is mended. At the start a wrong one is refused, and none at the default place is no
 * mistake: then there are no tokens. */
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
#include "failures.h"
#include "inbox.h"
#include "refusals.h"
#include "refusals_told.h"
#include "request.h"

struct config;
struct door;
struct lanes;

#define AUTHORIZER_PATH_SIZE 1100
#define AUTHORIZER_PROBLEM_SIZE 700

struct authorizer {
    struct lanes *lanes;
    struct inbox *inbox; /* the core's */
    struct door *door;   /* from authorizer_start on */
    bool is_open;        /* --unsafe-no-tokens */
    char path[AUTHORIZER_PATH_SIZE];
    pthread_mutex_t mutex; /* of all that follows, down to `counts` */
    struct access_set *set;
    struct failures failures;
    struct refusals refusals;
    struct refusals_told told;
    char problem[AUTHORIZER_PROBLEM_SIZE]; /* "": none */
    char sentence[ACCESS_SENTENCE_SIZE];   /* of the last verdict; the door copies it */
    /* The file as it was read last: it is read again when one of them is another. */
    struct authorizer_mark {
        uint64_t device, inode, size, changed_ns;
        bool exists;
    } mark;
    _Atomic uint64_t denied;  /* requests and operations */
    _Atomic uint64_t limited; /* … refused for a limit of the principal's */
    pthread_t thread;
    int wake; /* an eventfd; there is something to tell, or `stops` */
    bool runs;
    _Atomic bool stops;
};

/* What is counted, for statistics. */
struct authorizer_numbers {
    uint64_t tokens; /* rows of the file */
    uint64_t failures;
    uint64_t denied;
    uint64_t limited;
    char problem[AUTHORIZER_PROBLEM_SIZE];
};

/* Reads the file. 0, or 1 with a sentence. */
int authorizer_open(struct authorizer *authorizer, const struct config *config, struct lanes *lanes,
                    struct inbox *inbox, char *message, size_t size);
void authorizer_start(struct authorizer *authorizer, struct door *door); /* once it is there */
void authorizer_stop(struct authorizer *authorizer);
/* Whether a token or a certificate lets any client in. */
bool authorizer_has_rows(struct authorizer *authorizer);
/* A client from the network is as good as local: --unsafe-no-tokens. */
bool authorizer_is_open(const struct authorizer *authorizer);
void authorizer_numbers(struct authorizer *authorizer, struct authorizer_numbers *out);

/* ---- the audit */
/* `count` refusals more (refusals.h). Under the mutex. */
void authorizer_note(struct authorizer *authorizer, Tarry__AccessRefused__Why why, const char *peer,
                     const char *principal, const char *what, uint64_t count);
/* Offers to the core thread what is to be told; `all`: before a stop, what was told a short time ago, too. */
void authorizer_tell(struct authorizer *authorizer, bool all);

/* The door's calls (door.h). A principal is an access_principal's address. */
struct caller_verdict authorizer_admit(struct authorizer *authorizer, const struct net_caller *caller);
void authorizer_dismiss(uint64_t principal);
bool authorizer_stays(struct authorizer *authorizer, uint64_t principal);

/* Which side of the broker a request comes from; no byte of a request says so. */
enum authorizer_side {
    SIDE_CLIENT,  /* a connection to the door */
    SIDE_GATEWAY, /* made in this process, for a client of another protocol or for the broker itself (broker/gateway) */
    SIDE_PEER     /* the other node of a pair, by its key */
};
/* May the principal ask for this? Puts the requester into the event, and into `arena` what that takes; operations that
 * are not allowed get a problem each (core_content), for the others may be. The door's thread. */
struct request_refusal authorizer_judge(struct authorizer *authorizer, struct access_principal *principal,
                                        enum authorizer_side side, struct arena *arena, struct core_event *event);
/* Would the rate of the principal take one operation now? OK, or BUSY with a sentence in `arena`. Asked before a
 * request is unpacked; what is then refused as nonsense costs one operation (authorizer_charge). The door's thread. */
struct request_refusal authorizer_look_at_rate(struct authorizer *authorizer, struct access_principal *principal,
                                               struct arena *arena);
void authorizer_charge(struct access_principal *principal);
/* May the principal lease, or have a commit with any of these operations (bits 1 << Tarry__Op__OpCase), whatever the
 * queue, and for the price of an operation? OK, or the code and a sentence. The door's thread. */
Tarry__Code authorizer_judge_deed(struct authorizer *authorizer, struct access_principal *principal, bool leases,
                                  uint32_t operations, char sentence[ACCESS_SENTENCE_SIZE]);
/* May the principal have a receipt for this commit, which a client has given a key (gateway_once): OK if it may do any
 * of it, and for the price of an operation; or the code and a sentence. The door's thread. */
Tarry__Code authorizer_judge_key(struct authorizer *authorizer, struct access_principal *principal,
                                 const Tarry__Commit *commit, char sentence[ACCESS_SENTENCE_SIZE]);
/* May the principal lease from these queues now? OK, or the code and a sentence. The door's thread. */
Tarry__Code authorizer_judge_lease(struct authorizer *authorizer, struct access_principal *principal,
                                   const char *const *queues, size_t queue_count, char sentence[ACCESS_SENTENCE_SIZE]);
/* The broker's own principal (KIND_BROKER), held. */
uint64_t authorizer_own(struct authorizer *authorizer);
/* What the principal has under way takes `after` bytes in place of `before`, to be given back. False: it has as many as
 * it may; what becomes less is always granted, and so is what is alone. The door's thread. */
bool authorizer_take_bytes(struct authorizer *authorizer, struct access_principal *principal, uint64_t before,
                           uint64_t after);
void authorizer_give_bytes(struct access_principal *principal, uint64_t bytes);

static inline struct access_principal *principal_of(uint64_t principal) {
    return (struct access_principal *)(uintptr_t)principal;
}

#endif
