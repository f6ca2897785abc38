/* tarry.h: the client of Tarry, a durable delay broker.
 *
 * A program schedules a task for a time. At that time, and never before, the broker delivers the task to a consumer,
 * and repeats the delivery until a consumer acknowledges the task. Most tasks are cancelled or moved by their key (an
 * order number) before they fall due.
 *
 *     #include <stdio.h>
 *     #include <tarry.h>
 *
 *     int main(void) {
 *         tarry_client *client;
 *         if (tarry_open(NULL, &client) != TARRY_OK) return 1;
 *         struct tarry_schedule_options order = {.queue = "close-order", .key = "order-1", .when_ms = 30 * 60 * 1000};
 *         struct tarry_result result;
 *         if (tarry_schedule(client, &order, &result) != TARRY_OK) fprintf(stderr, "%s\n", result.message);
 *         tarry_close(client);
 *         return 0;
 *     }
 *
 * Units. A name that ends in `_ms` is a number of milliseconds: Unix time by the broker's clock, or a duration if the
 * name says so (delay, lease, timeout, expires, backoff, wait, for, staleness). `_size` is a number of bytes, `_count`
 * a number of things.
 *
 * Errors. A function that can fail returns an int: TARRY_OK (0) or another enum tarry_code. Codes 1 … 99 come from the
 * broker, codes from 100 on from the library. tarry_code_sentence() explains a code; the `message` of a result explains
 * the single case. A function that fails leaves its outputs untouched, except for a `struct tarry_result`, which it
 * always fills in. No function prints or exits.
 *
 * Threads. Any thread may call any function at any time unless its comment says otherwise. Threads should share one
 * client. The library sends the calls of many threads, and asynchronous calls, in common requests: while one request
 * is under way, the next calls gather for the next request. A single call does not wait for others.
 *
 * Deadlines. Every call, blocking or asynchronous, ends within its timeout, which starts when the call is made and
 * includes the time in the client's own queue. The timeout is that of the client (struct tarry_options), unless the
 * call's options or its `struct tarry_call` have another one. The code says what is known:
 * TARRY_BUSY, _STOPPING, _NOT_PRIMARY, _E_NO_BROKER: nothing was done; TARRY_E_TIMEOUT, TARRY_FAILED: the outcome is
 * unknown.
 *
 * Order. With the default of one commit in flight, calls of one thread on one client take effect in the order in which
 * the thread makes them. There is one exception: while the broker is busy (its disk or memory is full, or its index
 * lags), acks, nacks, extends and releases overtake schedules. Cancels and moves do too, unless a waiting call names
 * the same task by the same id or key. Operations that belong together (schedule the next step, ack this one) go into
 * one tarry_commit.
 *
 * Retries. When the connection breaks, the library connects again (first attempt within 100 ms, then at most 1 s apart,
 * over all addresses in turn). It repeats unanswered requests under the same sequence number, so each takes effect
 * once, even if the broker was killed in between (ONCE-1). It repeats requests that the broker refused as busy or
 * stopping until the call's deadline. A program can ask later for an outcome that stayed unknown (tarry_once.h).
 *
 * Pairs. Given the addresses of both nodes of a pair, the library finds the primary, also after a failover. It repeats
 * unanswered requests there under the same sequence numbers, settles leases there with the same tokens, and resumes the
 * sessions of consumers that reconnect within seconds. It connects only to the given addresses, whatever a broker says:
 * from another network an address may mean another machine. All addresses must belong to one cluster. A client that
 * has talked to one cluster refuses every other one; open a new client for that.
 *
 * Forks. Threads do not survive a fork, so a client belongs to the process that opened it. In a child process every
 * function, tarry_open included, does nothing and returns TARRY_E_FORKED: fork first, then open. posix_spawn, and fork
 * followed by exec, are fine.
 *
 * Signals. The library's threads block all signals, so signal handlers run on the program's own threads.
 *
 * Compatibility. A program that was built with an older header of the same soname works with a newer library:
 *   - Structs that the program fills in (options, tarry_call, tarry_policy), and results in the program's storage, keep
 *     their size. A new field takes the place of a `reserved` one, and 0 is its default. So set every such struct to
 *     zero before you fill it in; a designated initialiser does that.
 *   - Structs that the library allocates (tasks, views, frames) may get new fields at their end. Use them by pointer
 *     and do not copy them by value.
 *   - tarry_token, tarry_ref, tarry_attribute, tarry_source and tarry_quantiles never change.
 *   - Enumerations may get new values: give every switch a default.
 * tarry_open refuses a program that was built with a newer header (TARRY_E_VERSION). A function refuses options in
 * which a `reserved` field is not 0, with the same code.
 *
 * C99 and C++; opaque types; include no other header of Tarry. */
#ifndef TARRY_H
#define TARRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TARRY_API __attribute__((visibility("default")))
#define TARRY_MUST_USE __attribute__((warn_unused_result))
#else
#define TARRY_API
#define TARRY_MUST_USE
#endif

/* The version of this header: major * 1,000,000 + minor * 1,000 + patch. Only a minor version brings new functions,
 * fields and values; only a major one takes any away. */
#define TARRY_VERSION_MAJOR 0
#define TARRY_VERSION_MINOR 1
#define TARRY_VERSION_PATCH 0
#define TARRY_VERSION_NUMBER (TARRY_VERSION_MAJOR * 1000000 + TARRY_VERSION_MINOR * 1000 + TARRY_VERSION_PATCH)
/* Of the library that is loaded. Static; any thread. */
TARRY_API uint32_t tarry_version_number(void);
TARRY_API const char *tarry_version(void); /* "1.2.3" */

/* ---- codes -------------------------------------------------------------------------------------------------------*/

enum tarry_code {
    TARRY_OK = 0,
    /* The broker's word; the numbers are those on the wire. */
    TARRY_INVALID = 1,       /* malformed or out of range; the message says which field */
    TARRY_TOO_LARGE = 2,     /* payload, key, request … over a named limit */
    TARRY_UNSUPPORTED = 3,   /* an operation that this broker does not know */
    TARRY_NO_SUCH_QUEUE = 4, /* the queue does not exist and creation is off */
    TARRY_EXISTS = 5,        /* a live task holds this key; the result has its id and due time */
    TARRY_NOT_DONE = 6,      /* the task is not in a state that allows this; `outcome` says which */
    TARRY_STALE_TOKEN = 7,   /* the lease is no longer yours; `outcome` says what became of the task */
    TARRY_ABORTED = 8,       /* an atomic commit was refused because of another of its operations */
    TARRY_FORGOTTEN = 9,     /* a retry came too late to be recognised: whether it took effect is unknown */
    TARRY_BUSY = 10,     /* no room for it until the deadline, or others before it took too long; nothing was done */
    TARRY_STOPPING = 11, /* the broker was stopping, and no other was there until the deadline; nothing was done */
    TARRY_NO_SUCH_SESSION = 12, /* never surfaces: the consumer subscribes again */
    TARRY_NOT_PRIMARY = 13,     /* no address was the primary's until the deadline; nothing was done */
    TARRY_FAILED = 14,          /* the broker's disk failed; whether it took effect is unknown */
    TARRY_DENIED = 15,          /* you may not do this: the message says which role is missing, or whose the queue is,
                                 * or why no broker lets you in, or what is wrong with the token's file */
    TARRY_BEHIND = 16,          /* the node does not have all that the call requires (struct tarry_call) */
    TARRY_TOO_OLD = 17, /* … : the follower cannot prove that its data are as recent as required (struct tarry_call) */
    /* The library's. */
    TARRY_E_TIMEOUT = 100,   /* no answer until the deadline; the request was sent: outcome unknown (tarry_ask) */
    TARRY_E_NO_BROKER = 101, /* no broker was there until the deadline; it was never sent: nothing was done */
    TARRY_E_CLOSED = 102,    /* the client or consumer was closed meanwhile; if sent, outcome unknown */
    TARRY_E_NOMEM = 103,     /* out of memory; nothing was done */
    TARRY_E_PROTOCOL = 104,  /* an answer that makes no sense: not a broker of this kind? */
    TARRY_E_ADDRESS = 105,   /* a url that is not ws://host:port, wss://host:port or unix:///path */
    TARRY_E_ARGUMENT = 106,  /* a call that makes no sense: NULL where a value is needed, an unknown flag … */
    TARRY_E_FULL = 107,      /* more than queued_size_max bytes wait to be sent; nothing was done; see tarry_drain */
    TARRY_E_CALLBACK = 108,  /* a blocking call from a completion callback; nothing was done */
    TARRY_E_NOTHING = 109,   /* tarry_consumer_next, tarry_audit_next: nothing came within the wait */
    TARRY_E_WOKEN = 110,     /* … : another thread called tarry_consumer_wake, tarry_audit_wake */
    TARRY_E_END = 111,       /* tarry_list_next, tarry_audit_next: no more */
    TARRY_E_SYSTEM = 112,    /* the operating system refused a thread or a socket */
    TARRY_E_GAP = 113,       /* tarry_audit_next: frames are missing here; the next call goes on behind them */
    TARRY_E_VERSION = 114,   /* the program was built for a newer libtarry, or sets an option of a newer one */
    TARRY_E_FORKED = 115,    /* the client was opened before this process was forked; nothing was done */
    TARRY_E_ABANDONED = 116  /* the commit never arrived, and never will: it was asked for before (tarry_once.h) */
};

/* What became of a task, or what stands in the way. */
enum tarry_outcome {
    TARRY_NONE = 0,
    TARRY_SCHEDULED = 1,
    TARRY_REPLACED = 2, /* scheduled in place of the live task of that key */
    TARRY_KEPT = 3,     /* on_conflict: the live task stayed as it was */
    TARRY_LIVE = 4,     /* printed as "exists" */
    TARRY_MOVED = 5,
    TARRY_CANCELLED = 6,
    TARRY_ALREADY_CANCELLED = 7,
    TARRY_IN_FLIGHT = 8,
    TARRY_DEAD = 9,
    TARRY_ACKED = 10,
    TARRY_EXPIRED = 11,
    TARRY_DROPPED = 12,
    TARRY_UNKNOWN = 13, /* neither live nor ended since known_since_ms */
    TARRY_NACKED = 14,  /* comes again after its delay */
    TARRY_BURIED = 15,  /* nacked to the dead letters */
    TARRY_EXTENDED = 16,
    TARRY_RELEASED = 17,
    TARRY_REQUEUED = 18,
    TARRY_DONE = 19,    /* an administrative operation took effect */
    TARRY_PENDING = 20, /* live and not leased */
    TARRY_REDACTED = 21 /* `count` tasks lose what they contained */
};

/* Lower-case names as the tool prints them ("not_done", "timeout"; "in_flight"). Static strings; "unknown" for numbers
 * that this version does not know. */
TARRY_API const char *tarry_code_name(int code);
TARRY_API const char *tarry_outcome_name(enum tarry_outcome outcome);
/* A sentence for people, without a final stop. Static. */
TARRY_API const char *tarry_code_sentence(int code);

/* ---- words -------------------------------------------------------------------------------------------------------*/

/* A lease's fencing token: it grows with every lease, across restarts and failovers. */
struct tarry_token {
    uint32_t epoch;
    uint64_t position;
};

/* "epoch-position". `text` takes at most TARRY_TOKEN_SIZE bytes, the final 0 included. Returns `text`. */
#define TARRY_TOKEN_SIZE 32
TARRY_API char *tarry_token_format(struct tarry_token token, char text[TARRY_TOKEN_SIZE]);
/* TARRY_INVALID unless `text` is exactly such a token. */
TARRY_API TARRY_MUST_USE int tarry_token_parse(const char *text, struct tarry_token *out_token);

/* A task by id, or (id = 0) by queue and key. */
struct tarry_ref {
    uint64_t id;
    const char *queue;
    const char *key;
    size_t key_size; /* 0: strlen(key) */
};

struct tarry_attribute {
    const char *name;
    const char *value;
};

enum tarry_when {
    TARRY_DELAY = 0, /* a duration counted from the broker's receipt; no clock of yours is involved */
    TARRY_AT = 1     /* Unix milliseconds */
};

enum tarry_on_conflict {
    TARRY_REJECT = 0,       /* TARRY_EXISTS, naming the live task: a repeated call is harmless */
    TARRY_REPLACE = 1,      /* the live task ends as cancelled (replaced) */
    TARRY_KEEP_EARLIER = 2, /* whichever is due earlier stays */
    TARRY_KEEP_LATER = 3
};

/* Sentences for people, the final 0 included; a longer one is cut. Where a function takes such an array it may be NULL;
 * it is filled in on failure, with "" otherwise. */
#define TARRY_MESSAGE_SIZE 768

/* What became of one operation. A plain value of 1,024 bytes that borrows nothing: copy it and keep it as you like. */
struct tarry_result {
    int code; /* enum tarry_code; TARRY_OK: it took effect (or had taken effect before: TARRY_ALREADY_CANCELLED) */
    enum tarry_outcome outcome;
    uint64_t id;                /* 0: not known */
    uint64_t due_ms;            /* scheduled, moved, kept, exists */
    uint32_t deliveries;        /* how often the task had left the broker */
    uint32_t attempt;           /* attempts charged */
    uint64_t at_ms;             /* in flight or dead since; ended at */
    uint64_t session;           /* the session that holds it, or had it last; 0: none */
    uint64_t delivered_ms;      /* the last delivery; 0: never */
    struct tarry_token token;   /* in flight: the lease that stands in the way */
    uint64_t known_since_ms;    /* unknown: endings are remembered since */
    uint64_t lease_deadline_ms; /* extended */
    uint64_t count;             /* queue-wide operations: how many tasks, as far as known at once */
    uint64_t job;               /* queue-wide operations: see tarry_job; redacted: see tarry_redact */
    uint64_t left;              /* redacted, of a range of time: live tasks left alone */
    uint64_t producer;          /* the commit that carried it (ONCE-1); 0: it was never sent */
    uint64_t sequence;
    uint64_t index;        /* which of its operations this was, from 0 */
    uint64_t position;     /* log position for tarry_call.at_least: a question with it sees this change; 0: none */
    uint64_t reserved[14]; /* 0 */
    char message[TARRY_MESSAGE_SIZE]; /* a sentence; "" when fine */
};

/* The broker that answered. With tarry_options.follower_reads it may be a follower, whose answer shows what had
 * happened up to a log position: what was acknowledged since is not in it, and another answer may be as of an earlier
 * one. struct tarry_call says how recent an answer must be. */
struct tarry_source {
    bool follower;
    uint64_t position; /* a follower's; otherwise 0: as of now */
};

/* How one call differs from the client's defaults. Where a function takes a pointer to it, NULL means: in nothing. The
 * function copies it.
 *
 * A follower (tarry_options.follower_reads) answers questions from what it has, which may be old. `at_least` and
 * `staleness_ms` bound that; operations ignore them.
 *
 *   at_least      The answer contains everything that is recorded below this log position. tarry_result.position of a
 *                 commit is such a position: a program that passes it on reads its own writes at any node, also in
 *                 another process. The call waits for a follower that is behind until its deadline; then TARRY_BEHIND,
 *                 and the message names the follower's position. A primary whose log ends before the position refuses
 *                 at once with TARRY_BEHIND.
 *   staleness_ms  The answer contains everything that was acknowledged more than this long before the question reached
 *                 the node. A follower proves that by its own clock, from when it last asked its primary, and asks
 *                 again if need be. A follower that does not hear its primary refuses with TARRY_TOO_OLD within 0.5 s.
 *                 A primary is never stale: it answers once its leadership is confirmed.
 *
 * A position belongs to the log of one cluster. After a forced promotion, or an unplanned one in asynchronous mode, a
 * position in the lost tail means nothing.
 *
 *     // An order is paid: the customer waits at most half a second.
 *     int order_is_paid(tarry_client *client, const char *order) {
 *         struct tarry_ref ref = {.queue = "close-order", .key = order};
 *         struct tarry_call quick = {.timeout_ms = 500};
 *         struct tarry_result result;
 *         int code = tarry_cancel(client, &ref, false, &quick, &result);
 *         if (code != TARRY_OK) fprintf(stderr, "%s: %s\n", order, result.message);
 *         return code;
 *     } */
struct tarry_call {
    uint64_t timeout_ms;   /* from when the call is made; 0: the client's; TARRY_FOREVER: no deadline */
    uint64_t at_least;     /* a log position; 0: any */
    uint64_t staleness_ms; /* a duration, up to 24 days (INT32_MAX ms: otherwise TARRY_E_ARGUMENT); 0: any */
    uint64_t reserved[5];  /* 0 */
};

/* ---- the client --------------------------------------------------------------------------------------------------*/

typedef struct tarry_client tarry_client;
#define TARRY_DEFAULT_URL "ws://127.0.0.1:7272"
#define TARRY_FOREVER UINT64_MAX

struct tarry_event; /* see tarry_loop.h */
typedef void (*tarry_event_fn)(void *arg, const struct tarry_event *event);
struct tarry_options {
    const char *urls;    /* "ws://host:port", wss://, "unix:///path"; with commas, at most 16; NULL: the environment's
                          * TARRY_BROKER, or TARRY_DEFAULT_URL if that says nothing */
    const char *name;    /* for the broker's log; NULL: the program's name and process id; cut at 128 bytes */
    uint64_t timeout_ms; /* of calls without one of their own; 0: 10,000; TARRY_FOREVER */
    uint32_t commits_in_flight; /* 0 or 1: calls take effect in the order of submission; 2 … 16: they may not */
    size_t queued_size_max;     /* bytes of operations not yet answered; 0: 64 MiB */
    bool follower_reads;        /* a follower may answer what is asked (get, list, …): see struct tarry_source */
    bool dispatch;              /* callbacks wait for tarry_dispatch: see tarry_loop.h */
    tarry_event_fn on_event;    /* NULL: not wanted */
    void *event_arg;
    /* Files, read at each connect, so that they may be replaced. NULL: the environment's TARRY_TOKEN_FILE,
     * TARRY_TLS_CA, TARRY_TLS_CERT, TARRY_TLS_KEY; "": none. Those with a token or a key must be closed to others (mode
     * 0600). What is wrong with one is said like what an address said: tarry_addresses_say. While the token's cannot be
     * read, calls end at once with TARRY_DENIED, and the next ones read it again; replace it by renaming. */
    const char *token_file; /* one word, shown to the broker as "Authorization: Bearer …" */
    const char *tls_ca;     /* PEM: authorities that a wss:// broker's certificate may be of; none: the system's */
    const char *tls_cert;   /* PEM: this client's certificate, if the broker wants one … */
    const char *tls_key;    /* … and its key; none: in tls_cert */
    /* Show the token over ws:// to another machine, too, where it can be read on the way. Otherwise calls end with
     * TARRY_DENIED. false: the environment's TARRY_UNSAFE_PLAIN_TOKEN, if that is 1. */
    bool unsafe_plain_token;
    uint64_t reserved[8]; /* 0 */
};

TARRY_API TARRY_MUST_USE int tarry_open_version(const struct tarry_options *options, uint32_t header_version,
                                                tarry_client **out_client);
/* Starts to connect and returns at once; the broker need not run yet. `options` may be NULL and is copied.
 * TARRY_E_ADDRESS, _ARGUMENT, _NOMEM, _SYSTEM, _VERSION. The caller closes *out_client. */
TARRY_MUST_USE static inline int tarry_open(const struct tarry_options *options, tarry_client **out_client) {
    return tarry_open_version(options, TARRY_VERSION_NUMBER, out_client);
}

/* Ends the client. What is unanswered completes with TARRY_E_CLOSED, callbacks included, before this returns: call
 * tarry_drain first to have it answered. Close its consumers, lists and commits before. No other thread may be inside
 * a call on this client. NULL is fine. Otherwise nothing is done: TARRY_E_CALLBACK from a completion callback or a
 * consumer's handler, TARRY_E_ARGUMENT while a consumer of it is open, TARRY_E_FORKED. */
TARRY_API int tarry_close(tarry_client *client);

/* Waits until at most `pending_max` operations are unanswered. TARRY_E_TIMEOUT if others submit so much meanwhile that
 * there are still more at the deadline; TARRY_FOREVER: no deadline. TARRY_E_CLOSED. */
TARRY_API TARRY_MUST_USE int tarry_drain(tarry_client *client, size_t pending_max, const struct tarry_call *call);

/* How long something has waited without any answer from a broker, in milliseconds; 0: nothing waits (but for an audit
 * that waits for something to happen). */
TARRY_API uint64_t tarry_silence_ms(tarry_client *client);

/* How long something has waited because the broker is busy: memory for tasks or its disk is full, the index is behind,
 * …, in milliseconds; 0: nothing waits for that. `out_reason`, unless NULL: the broker's last sentence about it, or "".
 * Any thread. */
TARRY_API uint64_t tarry_busy_ms(tarry_client *client, char out_reason[TARRY_MESSAGE_SIZE]);

/* What came of each address last, in words: "ws://a:7272: Connection refused; ws://b:7272: not the primary, …". For
 * people: the words may change. "" if client is NULL. Any thread. Returns `text`. */
TARRY_API char *tarry_addresses_say(tarry_client *client, char text[TARRY_MESSAGE_SIZE]);

/* Waits for a word of the primary: is it there? TARRY_E_NO_BROKER, TARRY_E_TIMEOUT, TARRY_NOT_PRIMARY … */
TARRY_API TARRY_MUST_USE int tarry_ping(tarry_client *client, const struct tarry_call *call);

/* ---- operations --------------------------------------------------------------------------------------------------*/

struct tarry_schedule_options {
    const char *queue;
    const char *key; /* NULL or empty: none. UTF-8, at most 255 bytes, no control characters */
    size_t key_size; /* 0: strlen(key) */
    enum tarry_when when;
    uint64_t when_ms; /* a delay, or Unix milliseconds; the past fires at once; at most ten years ahead */
    const void *payload;
    size_t payload_size; /* 1 MiB by default at most */
    const struct tarry_attribute *attributes;
    size_t attribute_count;
    uint32_t priority;   /* 0 … 9, 9 first */
    uint64_t expires_ms; /* a duration after due; 0: never */
    enum tarry_on_conflict on_conflict;
    uint64_t timeout_ms;  /* of this call; 0: the client's; TARRY_FOREVER. In a commit 0: see tarry_commit_timeout */
    uint64_t reserved[6]; /* 0 */
};

struct tarry_nack_options {
    bool has_delay; /* otherwise the queue's backoff decides */
    uint64_t delay_ms;
    bool dead; /* straight to the dead letters */
    const char *reason;
    uint64_t timeout_ms;  /* as when scheduling */
    uint64_t reserved[4]; /* 0 */
};

/* Policy of a queue, and which fields of it an operation sets. */
struct tarry_policy {
    uint64_t lease_ms;
    uint32_t max_attempts;    /* 0: no end */
    bool backoff_exponential; /* otherwise fixed */
    uint64_t backoff_min_ms;
    uint64_t backoff_max_ms;
    uint32_t backoff_jitter; /* per cent of the delay, 0 … 100, added at random */
    /* http:// or https://, 512 bytes at most: the primary POSTs what is due there (docs/WEBHOOKS.md). "" or NULL: it
     * does not. Read only with TARRY_POLICY_PUSH. In a view: never NULL, and as long-lived as that. */
    const char *push;
    uint64_t reserved[8]; /* 0 */
};
enum tarry_policy_field {
    TARRY_POLICY_LEASE = 1,
    TARRY_POLICY_MAX_ATTEMPTS = 2,
    TARRY_POLICY_BACKOFF = 4,
    TARRY_POLICY_BACKOFF_MIN = 8,
    TARRY_POLICY_BACKOFF_MAX = 16,
    TARRY_POLICY_BACKOFF_JITTER = 32,
    TARRY_POLICY_PUSH = 64
};

/* Bits of task states, for purging and listing. */
enum tarry_state {
    TARRY_STATE_PENDING = 1, /* not yet due */
    TARRY_STATE_READY = 2,
    TARRY_STATE_IN_FLIGHT = 4,
    TARRY_STATE_DEAD = 8
};

enum tarry_dead_what { TARRY_REQUEUE = 0, TARRY_DROP = 1 };

/* Blocking calls: each waits for the durable answer. The return value is result->code. `out_result` may be NULL.
 * Arguments are copied or sent before the call returns. TARRY_E_CALLBACK from a completion callback. */
TARRY_API int tarry_schedule(tarry_client *client, const struct tarry_schedule_options *options,
                             struct tarry_result *out_result);
/* `withdraw` ends the task even if it is in flight; the holder's ack is then answered with the truth. What is dead is
 * for tarry_dead to decide. */
TARRY_API int tarry_cancel(tarry_client *client, const struct tarry_ref *ref, bool withdraw,
                           const struct tarry_call *call, struct tarry_result *out_result);
TARRY_API int tarry_move(tarry_client *client, const struct tarry_ref *ref, enum tarry_when when, uint64_t when_ms,
                         const struct tarry_call *call, struct tarry_result *out_result);
TARRY_API int tarry_ack(tarry_client *client, uint64_t id, struct tarry_token token, const struct tarry_call *call,
                        struct tarry_result *out_result);
/* `options` NULL: the queue's backoff. */
TARRY_API int tarry_nack(tarry_client *client, uint64_t id, struct tarry_token token,
                         const struct tarry_nack_options *options, struct tarry_result *out_result);
/* A new lease from now on; lease_ms 0: the session's own. */
TARRY_API int tarry_extend(tarry_client *client, uint64_t id, struct tarry_token token, uint64_t lease_ms,
                           const struct tarry_call *call, struct tarry_result *out_result);
/* Gives a task back unseen: costs no attempt. */
TARRY_API int tarry_release(tarry_client *client, uint64_t id, struct tarry_token token, const struct tarry_call *call,
                            struct tarry_result *out_result);
/* A dead letter by `ref`; or, with `all`, every dead letter of ref->queue whose key does not live again, as a job of
 * the broker's: see tarry_job. */
TARRY_API int tarry_dead(tarry_client *client, enum tarry_dead_what what, const struct tarry_ref *ref, bool all,
                         const struct tarry_call *call, struct tarry_result *out_result);
/* `fields`: bits of enum tarry_policy_field. Creates the queue if creation is on. */
TARRY_API int tarry_queue_set(tarry_client *client, const char *queue, const struct tarry_policy *policy,
                              uint32_t fields, struct tarry_result *out_result);
/* Of a queue that holds no task and no dead letter, has no consumer and no job: otherwise TARRY_NOT_DONE, and the
 * message says what stands in the way. TARRY_NO_SUCH_QUEUE. Its policy, pause and counts go with it; what has ended in
 * it is told of as before. Using it again, by a consumer too, creates it anew, if creation is on. */
TARRY_API int tarry_queue_delete(tarry_client *client, const char *queue, struct tarry_result *out_result);
/* for_ms 0: until resumed. */
TARRY_API int tarry_queue_pause(tarry_client *client, const char *queue, bool paused, uint64_t for_ms,
                                struct tarry_result *out_result);
/* `states`: bits of enum tarry_state, as they are when the broker gets this; 0: pending and ready. A job of the
 * broker's, see tarry_job; tasks end as cancelled (purged). out_result->count: how many, as far as known at once. */
TARRY_API int tarry_queue_purge(tarry_client *client, const char *queue, uint32_t states,
                                struct tarry_result *out_result);

/* Asynchronous twins. Arguments are copied before they return. `done` is called exactly once if TARRY_OK is returned,
 * and never otherwise; on the client's own thread, never from within the call; callbacks of one client run one at a
 * time, within a commit in order. A callback may submit; it must not block for long, nor make blocking calls. `done`
 * may be NULL. TARRY_E_FULL: nothing was done, see tarry_drain. TARRY_E_ARGUMENT, TARRY_TOO_LARGE, TARRY_E_NOMEM. */
typedef void (*tarry_done_fn)(void *arg, const struct tarry_result *result);

TARRY_API TARRY_MUST_USE int tarry_schedule_async(tarry_client *client, const struct tarry_schedule_options *options,
                                                  tarry_done_fn done, void *arg);
TARRY_API TARRY_MUST_USE int tarry_cancel_async(tarry_client *client, const struct tarry_ref *ref, bool withdraw,
                                                const struct tarry_call *call, tarry_done_fn done, void *arg);
TARRY_API TARRY_MUST_USE int tarry_move_async(tarry_client *client, const struct tarry_ref *ref, enum tarry_when when,
                                              uint64_t when_ms, const struct tarry_call *call, tarry_done_fn done,
                                              void *arg);
TARRY_API TARRY_MUST_USE int tarry_ack_async(tarry_client *client, uint64_t id, struct tarry_token token,
                                             const struct tarry_call *call, tarry_done_fn done, void *arg);
TARRY_API TARRY_MUST_USE int tarry_nack_async(tarry_client *client, uint64_t id, struct tarry_token token,
                                              const struct tarry_nack_options *options, tarry_done_fn done, void *arg);
TARRY_API TARRY_MUST_USE int tarry_extend_async(tarry_client *client, uint64_t id, struct tarry_token token,
                                                uint64_t lease_ms, const struct tarry_call *call, tarry_done_fn done,
                                                void *arg);
TARRY_API TARRY_MUST_USE int tarry_release_async(tarry_client *client, uint64_t id, struct tarry_token token,
                                                 const struct tarry_call *call, tarry_done_fn done, void *arg);
TARRY_API TARRY_MUST_USE int tarry_dead_async(tarry_client *client, enum tarry_dead_what what,
                                              const struct tarry_ref *ref, bool all, const struct tarry_call *call,
                                              tarry_done_fn done, void *arg);

/* ---- commits: several operations in one request -------------------------------------------------------------------*/

/* One frame in the broker's log. Atomic: all of it takes effect or nothing does. Built by one thread. */
typedef struct tarry_commit tarry_commit;
#define TARRY_OPS_PER_COMMIT_MAX 8192

TARRY_API TARRY_MUST_USE int tarry_commit_new(tarry_client *client, bool atomic, tarry_commit **out_commit);
/* NULL is fine. */
TARRY_API void tarry_commit_free(tarry_commit *commit);
/* Empties it for another use. */
TARRY_API void tarry_commit_clear(tarry_commit *commit);
TARRY_API size_t tarry_commit_count(const tarry_commit *commit);

/* Each adds one operation and copies its arguments. The first failure (TARRY_E_ARGUMENT, TARRY_TOO_LARGE, _E_NOMEM)
 * is remembered too: tarry_commit_run and _submit then return it and send nothing. */
TARRY_API int tarry_commit_schedule(tarry_commit *commit, const struct tarry_schedule_options *options);
TARRY_API int tarry_commit_cancel(tarry_commit *commit, const struct tarry_ref *ref, bool withdraw);
TARRY_API int tarry_commit_move(tarry_commit *commit, const struct tarry_ref *ref, enum tarry_when when,
                                uint64_t when_ms);
TARRY_API int tarry_commit_ack(tarry_commit *commit, uint64_t id, struct tarry_token token);
TARRY_API int tarry_commit_nack(tarry_commit *commit, uint64_t id, struct tarry_token token,
                                const struct tarry_nack_options *options);
TARRY_API int tarry_commit_extend(tarry_commit *commit, uint64_t id, struct tarry_token token, uint64_t lease_ms);
TARRY_API int tarry_commit_release(tarry_commit *commit, uint64_t id, struct tarry_token token);
TARRY_API int tarry_commit_dead(tarry_commit *commit, enum tarry_dead_what what, const struct tarry_ref *ref, bool all);
TARRY_API int tarry_commit_queue_set(tarry_commit *commit, const char *queue, const struct tarry_policy *policy,
                                     uint32_t fields);
TARRY_API int tarry_commit_queue_pause(tarry_commit *commit, const char *queue, bool paused, uint64_t for_ms);
TARRY_API int tarry_commit_queue_purge(tarry_commit *commit, const char *queue, uint32_t states);

/* How long each run, submission and question (tarry_once.h) of it may take from now on, tarry_commit_clear or not. 0,
 * as it is at first: as long as the client's calls; TARRY_FOREVER. TARRY_E_ARGUMENT: `commit` is NULL. */
TARRY_API int tarry_commit_timeout(tarry_commit *commit, uint64_t timeout_ms);

/* Sends it and waits. *out_results (may be NULL) has one result per operation, in order; owned by the commit, valid
 * until its next run, clear or free. Returns TARRY_OK when every operation did well; TARRY_ABORTED when it was atomic
 * and refused (the results say by which operation); otherwise the first refusal's code. */
TARRY_API TARRY_MUST_USE int tarry_commit_run(tarry_commit *commit, const struct tarry_result **out_results,
                                              size_t *out_count);

/* Sends it; `done` is called once with all results, valid until it returns (`count` is 0 if there was no memory for
 * them by then). `code` as tarry_commit_run's. The commit is empty afterwards and may be used again or freed at once.
 */
typedef void (*tarry_commit_done_fn)(void *arg, int code, const struct tarry_result *results, size_t count);
TARRY_API TARRY_MUST_USE int tarry_commit_submit(tarry_commit *commit, tarry_commit_done_fn done, void *arg);

#ifdef __cplusplus
}
#endif

#include "tarry_audit.h"
#include "tarry_backup.h"
#include "tarry_consume.h"
#include "tarry_look.h"
#include "tarry_loop.h"
#include "tarry_once.h"
#include "tarry_pair.h"
#include "tarry_redact.h"
#endif
