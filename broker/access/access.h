/* access.h: who may do what. A set of principals, as a file of tokens gives them (token_file.h), and what is decided of
 * each. A set does not change: a file that was read anew makes another one. Pure: no sockets, no threads, no files.
 *
 *   caller, token ──► access_judge ──► principal ──► access_may(principal, rule, queue)
 *
 * A principal is a name with roles. It has come by a token, by a client certificate whose name the file has, from this
 * host with neither (`loopback`), or over the Unix socket as the user of the broker or root (`owner`). Principals are
 * counted by reference and outlive their set while a connection or session acts for them; they are the same if their
 * names are. */
#ifndef TARRY_ACCESS_H
#define TARRY_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roles.h"
#include "tarry_limits.h"

#define ACCESS_NAME_SIZE_MAX PRINCIPAL_SIZE_MAX
#define ACCESS_PREFIXES_MAX 16 /* queue prefixes of one principal */
#define ACCESS_PRINCIPALS_MAX 1024
#define ACCESS_SENTENCE_SIZE 400

/* X(name, least, most, what it limits). 0: no limit of its own. */
#define ACCESS_LIMITS(X)                                                                                               \
    X(connections, 1, 16384, "connections at once")                                                                    \
    X(sessions, 1, 1024, "consumers at once")                                                                          \
    X(producers, 1, 16384, "producers whose answers are remembered (ONCE-1)")                                          \
    X(rate, 1, 1000000, "operations a second")                                                                         \
    X(bytes, 65536, 1ull << 40, "bytes of requests under way")                                                         \
    X(pending, 1, 1ull << 40, "tasks in its queues")                                                                   \
    X(queues, 1, QUEUES_MAX, "queues that it has created")

enum access_limit {
#define X(name, least, most, text) LIMIT_##name,
    ACCESS_LIMITS(X)
#undef X
        LIMITS
};

enum access_kind {
    KIND_TOKEN,
    KIND_CERTIFICATE, /* a client with a certificate of this name, which the listener's CA has signed */
    KIND_LOOPBACK,    /* a client on this host that shows nothing */
    KIND_OWNER,       /* the Unix socket's: the broker's own user, or root; in no file */
    KIND_BROKER /* the broker itself, for what it does unasked; in no file, and no client is ever judged to be it */
};

/* The principal KIND_BROKER in records: no row can have this name. */
#define ACCESS_BROKER_NAME "(tarryd)"

#define ACCESS_HASH_SIZE 32
/* A token as text: `tarry_` and 32 random bytes in base64url. */
#define ACCESS_TOKEN_TEXT_SIZE 50 /* terminator included */
#define ACCESS_TOKEN_SIZE_MAX 256 /* of what is shown; more is no token */

struct access_entry { /* a row of the file */
    char name[ACCESS_NAME_SIZE_MAX + 1];
    enum access_kind kind;
    unsigned roles;
    uint8_t hash[ACCESS_HASH_SIZE]; /* KIND_TOKEN */
    uint64_t expires_s;             /* Unix seconds; 0: never */
    uint64_t limits[LIMITS];
    size_t prefix_count; /* 0: all queues */
    char *prefixes;      /* owned; one after the other, each terminated */
};

/* What the principal has under way, and may not have too much of. */
struct access_usage {
    _Atomic uint64_t connections;
    _Atomic uint64_t bytes;
    _Atomic unsigned questions;     /* under way, whose answers may be long … */
    _Atomic uint64_t answers_bytes; /* … and what is reserved for these */
    uint64_t rate_ns; /* the judging thread: its operations until then have been counted (a leaky bucket) */
};

struct access_principal {
    struct access_entry entry;
    struct access_usage usage;
    _Atomic unsigned references;
};

struct access_set {
    struct access_principal **principals; /* in order of name */
    size_t count;
    struct access_principal *owner;
    struct access_principal *broker;
    struct access_principal *loopback; /* a row of the file, or made if there is none */
};

/* ---- tokens */
/* A new one. The text is to be shown once, and wiped. */
void access_token_make(char out[ACCESS_TOKEN_TEXT_SIZE], uint8_t out_hash[ACCESS_HASH_SIZE]);
/* BLAKE2b-256. No password hash: there is nothing to guess in 256 random bits, and a slow hash for each upgrade would
 * be a way to keep the broker busy. False: it is too long for a token. */
bool access_token_hash(const char *token, size_t size, uint8_t out[ACCESS_HASH_SIZE]);

/* ---- names */
/* NULL, or why it is none: 1 to 64 of letters, digits and . _ - @. */
const char *access_name_problem(const char *name, size_t size);
/* A prefix of queue names. */
const char *access_prefix_problem(const char *prefix, size_t size);
const char *access_limit_name(enum access_limit limit);
/* LIMITS: there is no such. */
enum access_limit access_limit_of(const char *name, size_t size);
void access_limit_range(enum access_limit limit, uint64_t *out_least, uint64_t *out_most);

/* ---- sets */
/* Takes the entries' contents over. NULL: no memory; they stay the caller's. */
struct access_set *access_set_new(struct access_entry *entries, size_t count);
void access_set_free(struct access_set *set);
/* Principals of `set` that are in `former` with the same row become those of `former`: they, their connections and what
 * they have under way stay. */
void access_set_follow(struct access_set *set, const struct access_set *former);
/* It is in the set, and this is its row. */
bool access_set_has(const struct access_set *set, const struct access_principal *principal);
/* NULL: no row has that name. */
const struct access_principal *access_find(const struct access_set *set, const char *name);
struct access_principal *access_hold(struct access_principal *principal);
void access_release(struct access_principal *principal); /* NULL is fine */
bool access_is_same(const struct access_entry *a, const struct access_entry *b);

/* ---- which principal is a client? */
/* Of a client at a Unix socket: root, or the user that the broker runs as. Never the user that stands for all that this
 * user namespace has no number for (clients from outside of a container have it), even if the broker runs as it. */
bool access_is_owner(uint32_t uid, uint32_t broker_uid);
struct access_shown {
    bool is_owner;           /* by a Unix socket, and access_is_owner */
    bool is_local;           /* by a Unix socket or the loopback interface */
    const char *certificate; /* a verified client certificate's name; "": none */
    const char *token;       /* not terminated; NULL: none was shown */
    size_t token_size;
};
enum access_verdict {
    ACCESS_IN,
    ACCESS_NOTHING_SHOWN, /* and that is not enough */
    ACCESS_UNKNOWN,       /* no principal has the token */
    ACCESS_EXPIRED
};
/* What is shown counts alone: a client that shows an unknown token is not let in for being local. All tokens are
 * compared, and each in constant time: how long it takes does not tell how near one came. `*out`: the principal that is
 * in, or has expired, referenced for the caller; otherwise NULL. */
enum access_verdict access_judge(const struct access_set *set, const struct access_shown *shown, uint64_t now_s,
                                 struct access_principal **out);
bool access_has_expired(const struct access_principal *principal, uint64_t now_s);
/* When the next of them expires; UINT64_MAX: none will. */
uint64_t access_next_expiry(const struct access_set *set, uint64_t now_s);

/* ---- may it? */
/* A queue of this name is one of the principal's. */
bool access_covers(const struct access_principal *principal, const char *queue);
bool access_is_confined(const struct access_principal *principal);
/* A queue of the broker's own (queue_is_reserved) is for KIND_BROKER alone, but for rules that show numbers
 * (REACH_SHOWN). `queue`: that the operation names; NULL: none, and the core looks at the task's (REACH_QUEUE), or the
 * owner (REACH_OWN). False: a sentence, which says what is missing, on which queue, and for which principal. */
bool access_may(const struct access_principal *principal, const struct access_rule *rule, const char *queue,
                char sentence[ACCESS_SENTENCE_SIZE]);
/* Takes `count` operations out of its rate. False: that is too many just now. `now_ns`: a clock that does not go back.
 */
bool access_take_rate(struct access_principal *principal, uint64_t count, uint64_t now_ns);
/* `count` operations more would be taken now. Changes nothing. */
bool access_has_rate(const struct access_principal *principal, uint64_t count, uint64_t now_ns);
/* Gives `count` operations back to its rate. */
void access_give_rate(struct access_principal *principal, uint64_t count);
/* Takes `count` operations out of its rate, whatever that is now: the next ones wait for longer. */
void access_spend_rate(struct access_principal *principal, uint64_t count, uint64_t now_ns);
/* For records: empty for a local client. */
const char *access_record_name(const struct access_principal *principal);
/* The name of another principal: a client that calls itself so, or `NAME (…)`, would be taken for that principal in the
 * log. */
bool access_is_claimed(const struct access_set *set, const struct access_principal *principal, const char *client);

#endif
