/* access.h: access control: a set of principals, read from a token file (token_file.h), and the decisions about each. A
 * set is immutable: a changed file makes a new set. Pure: no sockets, no threads, no files.
 *
 *   caller, token ──► access_judge ──► principal ──► access_may(principal, rule, queue)
 *
 * A principal is a name with roles. A client becomes a principal by a token, or by a client certificate that the
 * file names. Without these, a client on this host becomes the principal `loopback`, and a client on the Unix socket
 * that is root or the broker's user becomes `owner`. Principals are reference-counted, and outlive their set while a
 * connection or session uses them. Two principals with the same name are the same. */
#ifndef TARRY_ACCESS_H
#define TARRY_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roles.h"
#include "tarry.pb-c.h"
#include "tarry_limits.h"

#define ACCESS_NAME_SIZE_MAX PRINCIPAL_SIZE_MAX
#define ACCESS_PREFIXES_MAX 16 /* maximum number of queue prefixes of one principal */
#define ACCESS_PRINCIPALS_MAX 1024
#define ACCESS_SENTENCE_SIZE 400

/* X(name, minimum, maximum, meaning). The value 0 means that the principal has no limit of this kind. */
#define ACCESS_LIMITS(X)                                                                                               \
    X(connections, 1, 16384, "connections at the same time")                                                           \
    X(sessions, 1, 1024, "consumers at the same time")                                                                 \
    X(producers, 1, 16384, "producers whose replies the broker remembers (ONCE-1)")                                    \
    X(rate, 1, 1000000, "operations a second")                                                                         \
    X(bytes, 65536, 1ull << 40, "bytes of requests in progress")                                                       \
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
    KIND_CERTIFICATE, /* a client whose verified certificate has this name */
    KIND_LOOPBACK,    /* a client on this host without token or certificate */
    KIND_OWNER,       /* a client on the Unix socket that is root or the broker's user; never in the file */
    KIND_BROKER       /* the broker itself, for its own work; never in the file, and no client can become it */
};

/* Name of KIND_BROKER in records; not a valid name in the file. */
#define ACCESS_BROKER_NAME "(tarryd)"

#define ACCESS_HASH_SIZE 32
/* A token as text: `tarry_` and 32 random bytes in base64url. */
#define ACCESS_TOKEN_TEXT_SIZE 50 /* size of a token as text, including the terminating zero */
#define ACCESS_TOKEN_SIZE_MAX 256 /* maximum size of a token that a client shows; a longer text is never a token */

struct access_entry { /* A row of the token file. */
    char name[ACCESS_NAME_SIZE_MAX + 1];
    enum access_kind kind;
    unsigned roles;
    uint8_t hash[ACCESS_HASH_SIZE]; /* hash of the token; valid for KIND_TOKEN */
    uint64_t expires_s;             /* time of expiry in Unix seconds; 0: never */
    uint64_t limits[LIMITS];
    size_t prefix_count; /* number of prefixes; 0: the principal may use all queues */
    char *prefixes;      /* prefixes of queue names, one after the other, each NUL-terminated; owned */
};

/* Current use of the resources that limits bound. */
struct access_usage {
    _Atomic uint64_t connections;
    _Atomic uint64_t bytes;
    _Atomic unsigned questions;     /* number of open queries whose replies may be large */
    _Atomic uint64_t answers_bytes; /* bytes reserved for the replies of the queries that `questions` counts */
    uint64_t rate_ns; /* leaky bucket of the rate limit, in ns: operations are accounted up to this time; only the
                         judging thread uses it */
};

struct access_principal {
    struct access_entry entry;
    struct access_usage usage;
    _Atomic unsigned references;
};

struct access_set {
    struct access_principal **principals; /* principals in the order of their names */
    size_t count;
    struct access_principal *owner;
    struct access_principal *broker;
    struct access_principal *loopback; /* the row `loopback` of the file, or a default one */
};

/* ---- tokens */
/* Makes a new token. The caller shows `out` once and then wipes it. */
void access_token_make(char out[ACCESS_TOKEN_TEXT_SIZE], uint8_t out_hash[ACCESS_HASH_SIZE]);
/* Hashes a token with BLAKE2b-256. A slow password hash is unnecessary for 256 random bits, and would let clients keep
 * the broker busy. False: too long for a token. */
bool access_token_hash(const char *token, size_t size, uint8_t out[ACCESS_HASH_SIZE]);

/* ---- names */
/* Returns NULL if the name is valid, else the reason. Valid: 1 to 64 letters, digits and . _ - @. */
const char *access_name_problem(const char *name, size_t size);
/* Returns NULL if the prefix of queue names is valid, else the reason. */
const char *access_prefix_problem(const char *prefix, size_t size);
const char *access_limit_name(enum access_limit limit);
/* Returns the limit with this name; LIMITS: unknown name. */
enum access_limit access_limit_of(const char *name, size_t size);
void access_limit_range(enum access_limit limit, uint64_t *out_least, uint64_t *out_most);

/* ---- sets */
/* Makes a set, and takes ownership of the entries' contents. NULL: out of memory; the caller keeps them. */
struct access_set *access_set_new(struct access_entry *entries, size_t count);
void access_set_free(struct access_set *set);
/* Keeps principals of the set `former` whose rows did not change: `set` uses their objects instead of its new ones. So
 * their connections and their current use stay counted. */
void access_set_follow(struct access_set *set, const struct access_set *former);
/* Returns whether the set has this principal with an identical row. */
bool access_set_has(const struct access_set *set, const struct access_principal *principal);
/* Returns a row with that name; NULL: none. If two rows have the name, returns either, because they differ only in
 * their tokens. */
const struct access_principal *access_find(const struct access_set *set, const char *name);
struct access_principal *access_hold(struct access_principal *principal);
void access_release(struct access_principal *principal); /* drops a reference to the principal; NULL is allowed */
bool access_is_same(const struct access_entry *a, const struct access_entry *b);

/* ---- which principal is a client */
/* Returns whether a client on the Unix socket is root or the broker's user. The overflow uid, which stands for all
 * users outside this user namespace, never is, even if the broker runs as that uid. */
bool access_is_owner(uint32_t uid, uint32_t broker_uid);
struct access_shown {
    bool is_owner;           /* true: connected by a Unix socket, and access_is_owner is true */
    bool is_local;           /* true: connected by a Unix socket or the loopback interface */
    const char *certificate; /* name of the verified client certificate; "": none */
    const char *token;       /* the token's text, not NUL-terminated; NULL: no token */
    size_t token_size;
};
enum access_verdict {
    ACCESS_IN,
    ACCESS_NOTHING_SHOWN, /* a client on another host showed neither a token nor a certificate */
    ACCESS_UNKNOWN,       /* no principal has this token */
    ACCESS_EXPIRED
};
/* Finds the client's principal. A client that shows an unknown token is refused, even on this host. The time taken
 * reveals nothing about a token: each comparison takes constant time, and all tokens are compared. After ACCESS_IN and
 * ACCESS_EXPIRED, `*out` is the principal, which the caller must release; otherwise `*out` is NULL. */
enum access_verdict access_judge(const struct access_set *set, const struct access_shown *shown, uint64_t now_s,
                                 struct access_principal **out);
bool access_has_expired(const struct access_principal *principal, uint64_t now_s);
/* Returns the time of the next expiry; UINT64_MAX: no principal will expire. */
uint64_t access_next_expiry(const struct access_set *set, uint64_t now_s);

/* ---- permissions */
/* Returns whether the principal may use this queue. */
bool access_covers(const struct access_principal *principal, const char *queue);
bool access_is_confined(const struct access_principal *principal);
/* Returns whether the principal may do what `rule` covers. `queue` is the queue that the operation names. If `queue` is
 * NULL, the operation names no queue, and the core later checks the task's queue (REACH_QUEUE) or owner (REACH_OWN).
 * Only the broker itself (KIND_BROKER) may use the broker's own queues (queue_is_reserved). Rules that only read
 * numbers (REACH_SHOWN) are an exception: every principal with the role may read them. After false, `sentence` names
 * the missing role or queue and the principal. */
bool access_may(const struct access_principal *principal, const struct access_rule *rule, const char *queue,
                char sentence[ACCESS_SENTENCE_SIZE]);
/* Takes `count` operations from the principal's rate. False: the rate is exceeded now. `now_ns` is a monotonic clock.
 */
bool access_take_rate(struct access_principal *principal, uint64_t count, uint64_t now_ns);
/* Returns whether access_take_rate would succeed. Changes nothing. */
bool access_has_rate(const struct access_principal *principal, uint64_t count, uint64_t now_ns);
/* Gives `count` operations back to the principal's rate. */
void access_give_rate(struct access_principal *principal, uint64_t count);
/* Takes `count` operations from the principal's rate even if it is exceeded, so that later operations wait longer. */
void access_spend_rate(struct access_principal *principal, uint64_t count, uint64_t now_ns);
/* Returns the name for records; "": a local client. */
const char *access_record_name(const struct access_principal *principal);
/* Returns whether the client name `client` is the name of another principal, or begins with that name and " (". A
 * reader of the log would mistake such a client for that principal. */
bool access_is_claimed(const struct access_set *set, const struct access_principal *principal, const char *client);

/* ---- failures */

/* Counts clients that show unknown tokens, by address, in a table of fixed size. A valid token is always
 * admitted; otherwise one client could lock out others behind the same address. Only the cost of invalid tokens is
 * limited: beyond FAILURES_MAX in FAILURES_WINDOW_S the reply is 429, and nothing more is logged. One thread. */

#define FAILURES_MAX 10u
#define FAILURES_WINDOW_S 60u
/* Number of rows in the table of failures. When all are used, a new address takes the row whose last failure is oldest.
 */
#define FAILURES_ADDRESSES 1024u
#define FAILURES_ADDRESS_SIZE 64 /* size of an address as text, without the port; a longer address is truncated */

struct failures {
    struct failures_of {
        char address[FAILURES_ADDRESS_SIZE]; /* address as text; "": the row is free */
        uint64_t since_s;                    /* start of the present window of FAILURES_WINDOW_S */
        uint64_t last_s;
        uint64_t count; /* number of failures in the present window */
    } of[FAILURES_ADDRESSES];
    uint64_t total;   /* failures since startup */
    uint64_t limited; /* failures since startup beyond FAILURES_MAX */
};

/* Counts a failure of `peer` ("192.0.2.7:40312"). `now_s` is a monotonic clock. True: the limit is exceeded. */
bool failures_add(struct failures *failures, const char *peer, uint64_t now_s);

/* ---- refusals */

/* Counts refusals for the audit log: clients that were not admitted, and clients that were denied an
 * operation of the role admin or peer (tarry.proto, AccessRefused). A table of fixed size counts them by address,
 * principal and reason.
 *
 * Records are limited: one per row in REFUSALS_AGAIN_MS, and REFUSALS_TOLD_MAX in that time for all rows, about 10 MB
 * of log a day. The first refusal of an address is recorded at once. When the table is full, further ones share one row
 * without an address. One thread. */

#define REFUSALS_ROWS 256u
#define REFUSALS_AGAIN_MS 60000u
#define REFUSALS_TOLD_MAX 64u

struct refusal {
    char address[FAILURES_ADDRESS_SIZE]; /* the client's address (failures_address); "": several addresses */
    char principal[PRINCIPAL_SIZE_MAX + 1];
    Tarry__AccessRefused__Why why;
    const char *what;  /* static string: the name of the rule if `why` is ROLE_LACKS; otherwise "" */
    uint64_t count;    /* refusals since the last record; 0: none */
    uint64_t first_ms; /* time of the first refusal in `count` */
    uint64_t last_ms;
    uint64_t told_ms; /* time of the last record; 0: never */
};

struct refusals {
    struct refusal rows[REFUSALS_ROWS];
    struct refusal others;
    size_t turn; /* index of the row that is recorded next, if its count is not 0 */
    uint64_t window_ms;
    unsigned told; /* number of records since window_ms */
};

/* Counts `count` more refusals of the client `peer` (net/caller.h). `principal`: "" if unknown. `now_ms`: a monotonic
 * clock, not 0. True: record it at once. */
bool refusals_add(struct refusals *refusals, Tarry__AccessRefused__Why why, const char *peer, const char *principal,
                  const char *what, uint64_t count, uint64_t now_ms);
/* Writes the refusals that must be recorded now to `out`, and returns their number. If `all` is true, REFUSALS_AGAIN_MS
 * is ignored, but the total limit holds. */
size_t refusals_take(struct refusals *refusals, uint64_t now_ms, bool all, struct refusal out[REFUSALS_TOLD_MAX]);

#endif
