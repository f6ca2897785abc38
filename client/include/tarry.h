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
 * call's `struct tarry_call` has another one. The code says what is known:
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
 *   - tarry_token, tarry_ref, tarry_attribute, tarry_share, tarry_source and tarry_quantiles never change.
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

/* Version of this header: major * 1,000,000 + minor * 1,000 + patch. Minor versions add functions, fields and
 * values. Only major versions remove any. */
#define TARRY_VERSION_MAJOR 0
#define TARRY_VERSION_MINOR 1
#define TARRY_VERSION_PATCH 0
#define TARRY_VERSION_NUMBER (TARRY_VERSION_MAJOR * 1000000 + TARRY_VERSION_MINOR * 1000 + TARRY_VERSION_PATCH)
/* Returns the version number of the loaded library. TARRY_VERSION_NUMBER is the version number of the header. Any
 * thread. */
TARRY_API uint32_t tarry_version_number(void);
/* Returns the version of the loaded library as text: "1.2.3". Static string; any thread. */
TARRY_API const char *tarry_version(void);

/* ---- codes -------------------------------------------------------------------------------------------------------*/

enum tarry_code {
    TARRY_OK = 0,
    /* Codes from the broker. The numbers are those of the wire protocol. */
    TARRY_INVALID = 1,       /* a field is malformed or out of range; the message names the field */
    TARRY_TOO_LARGE = 2,     /* the payload, key or request exceeds a limit; the message names it */
    TARRY_UNSUPPORTED = 3,   /* the broker does not know this operation */
    TARRY_NO_SUCH_QUEUE = 4, /* the queue does not exist, and the broker does not create queues by itself */
    TARRY_EXISTS = 5,        /* a live task has this key; the result has its id and due time */
    TARRY_NOT_DONE = 6,      /* the task's state does not allow this operation; `outcome` names the state */
    TARRY_STALE_TOKEN = 7,   /* the caller no longer holds the lease; `outcome` has the task's state */
    TARRY_ABORTED = 8,       /* another operation of the same atomic commit was refused, so none took effect */
    TARRY_FORGOTTEN = 9, /* the library repeated this request, but the broker has already deleted its stored reply; the
                            outcome is unknown */
    TARRY_BUSY = 10,     /* until the deadline, the broker was busy or earlier calls took too long; nothing was done */
    /* the broker was stopping, and no other accepted the call until the deadline; nothing was done */
    TARRY_STOPPING = 11,
    TARRY_NO_SUCH_SESSION = 12, /* the broker does not know the session; programs never get this code, because the
                                   consumer subscribes again */
    TARRY_NOT_PRIMARY = 13,     /* no address led to the primary until the deadline; nothing was done */
    TARRY_FAILED = 14,          /* the broker's disk failed; the outcome is unknown */
    /* Permission denied. The message names the missing role, the queue's owner, the brokers' reason for the refusal,
     * or the error in the token file. */
    TARRY_DENIED = 15,
    TARRY_BEHIND = 16, /* the node lacks log entries that the call requires (tarry_call.at_least) */
    /* The follower cannot prove that its data are as recent as the call requires (tarry_call.staleness_ms). */
    TARRY_TOO_OLD = 17,
    /* Codes from the library. */
    TARRY_E_TIMEOUT = 100, /* the request was sent, no reply came until the deadline; outcome unknown (tarry_ask) */
    /* no broker was reachable until the deadline; the request was not sent; nothing was done */
    TARRY_E_NO_BROKER = 101,
    /* the client or consumer was closed during the call; if the request was sent, the outcome is unknown */
    TARRY_E_CLOSED = 102,
    TARRY_E_NOMEM = 103,    /* out of memory; nothing was done */
    TARRY_E_PROTOCOL = 104, /* the reply is malformed; the peer may not be a Tarry broker */
    TARRY_E_ADDRESS = 105,  /* the URL is not ws://host:port, wss://host:port or unix:///path */
    TARRY_E_ARGUMENT = 106, /* an argument is invalid: NULL where a value is needed, an unknown flag … */
    /* unanswered operations exceed tarry_options.queued_size_max bytes; nothing was done; see tarry_drain */
    TARRY_E_FULL = 107,
    TARRY_E_CALLBACK = 108, /* a callback made a blocking call; nothing was done */
    TARRY_E_NOTHING = 109,  /* tarry_consumer_next, tarry_audit_next: nothing arrived within wait_ms */
    /* tarry_consumer_next, tarry_audit_next: another thread woke this call (tarry_consumer_wake, tarry_audit_wake) */
    TARRY_E_WOKEN = 110,
    TARRY_E_END = 111,    /* tarry_list_next, tarry_audit_next: there are no more items */
    TARRY_E_SYSTEM = 112, /* the operating system refused a thread, a socket or a file */
    TARRY_E_GAP = 113,    /* tarry_audit_next: frames are missing here; the next call continues after them */
    /* the program was built with a newer tarry.h, or sets a field that this library does not know */
    TARRY_E_VERSION = 114,
    TARRY_E_FORKED = 115, /* the client was opened before this process was forked; nothing was done */
    /* the commit has not reached the broker, and the broker will refuse the commit from now on: see tarry_once.h */
    TARRY_E_ABANDONED = 116
};

/* The effect of an operation on a task, or the task's state that prevented the operation. */
enum tarry_outcome {
    TARRY_NONE = 0,
    TARRY_SCHEDULED = 1,
    TARRY_REPLACED = 2, /* the task was scheduled and replaced the live task with the same key */
    TARRY_KEPT = 3,     /* the live task with the same key was kept unchanged (tarry_on_conflict) */
    TARRY_LIVE = 4,     /* a live task with the same key exists; the tool prints "exists" */
    TARRY_MOVED = 5,
    TARRY_CANCELLED = 6,
    TARRY_ALREADY_CANCELLED = 7,
    TARRY_IN_FLIGHT = 8,
    TARRY_DEAD = 9,
    TARRY_ACKED = 10,
    TARRY_EXPIRED = 11,
    TARRY_DROPPED = 12,
    TARRY_UNKNOWN = 13, /* the task is not live; it never existed, or it ended before known_since_ms */
    TARRY_NACKED = 14,  /* the task will be delivered again after its delay */
    TARRY_BURIED = 15,  /* a nack moved the task to the dead letters */
    TARRY_EXTENDED = 16,
    TARRY_RELEASED = 17,
    TARRY_REQUEUED = 18,
    TARRY_DONE = 19,     /* an administrative operation took effect */
    TARRY_PENDING = 20,  /* the task is live and not leased */
    TARRY_REDACTED = 21, /* the broker will delete the payload and attributes of `count` tasks */
    TARRY_SHARED = 22,   /* the task fell due and went to its groups */
    TARRY_UNMATCHED = 23 /* the task fell due, and the filter of no group matched it */
};

/* Returns the lower-case name of a code or outcome, for example "not_done" or "in_flight". Returns "unknown" for a
 * number that this version does not know. Static string; any thread. */
TARRY_API const char *tarry_code_name(int code);
TARRY_API const char *tarry_outcome_name(enum tarry_outcome outcome);
/* Returns one sentence that explains `code`, without a full stop. Static string; any thread. */
TARRY_API const char *tarry_code_sentence(int code);

/* ---- tokens, references, results --------------------------------------------------------------------------------- */

/* Fencing token of a lease. Every new lease has a greater token, also after restarts and failovers. Compare `epoch`
 * first, then `position`. */
struct tarry_token {
    uint32_t epoch;
    uint64_t position;
};

/* Writes the token to `text` as "epoch-position", at most TARRY_TOKEN_SIZE bytes with the final 0. Returns `text`. */
#define TARRY_TOKEN_SIZE 32
TARRY_API char *tarry_token_format(struct tarry_token token, char text[TARRY_TOKEN_SIZE]);
/* Parses the text that tarry_token_format writes. TARRY_INVALID: `text` is anything else. */
TARRY_API TARRY_MUST_USE int tarry_token_parse(const char *text, struct tarry_token *out_token);

/* Reference to a task: by id, or (if id is 0) by queue and key. The strings stay the caller's. */
struct tarry_ref {
    uint64_t id;
    const char *queue;
    const char *key;
    size_t key_size; /* bytes; 0: strlen(key) */
};

struct tarry_attribute {
    const char *name;
    const char *value;
};

enum tarry_when {
    /* `when_ms` is a delay, counted from the broker's receipt of the request; the program's clock has no effect */
    TARRY_DELAY = 0,
    TARRY_AT = 1 /* `when_ms` is Unix time in milliseconds */
};

/* Action if a live task has the same queue and key. */
enum tarry_on_conflict {
    TARRY_REJECT = 0,       /* fail with TARRY_EXISTS and the live task's id; so repeating the call is harmless */
    TARRY_REPLACE = 1,      /* cancel the live task and schedule the new one */
    TARRY_KEEP_EARLIER = 2, /* keep the task that is due earlier */
    TARRY_KEEP_LATER = 3
};

/* Size in bytes of a buffer for a message to people, including the final 0. The function writes the message on failure
 * and "" on success. It cuts longer messages. The caller may pass NULL instead of a buffer. */
#define TARRY_MESSAGE_SIZE 768

/* Result of one operation: a plain value of 1,024 bytes without pointers. It may be copied and kept without limit. */
struct tarry_result {
    /* An enum tarry_code. TARRY_OK: the operation took effect, or had taken effect before (TARRY_ALREADY_CANCELLED). */
    int code;
    enum tarry_outcome outcome;
    uint64_t id;           /* id of the task; 0: not known */
    uint64_t due_ms;       /* due time of the task; valid if the task was scheduled, moved or kept, or if it exists */
    uint32_t deliveries;   /* number of times that the broker has delivered the task */
    uint32_t attempt;      /* number of delivery attempts charged to the task */
    uint64_t at_ms;        /* `outcome` TARRY_IN_FLIGHT: time of the lease; TARRY_DEAD: time when the task became a dead
                              letter; other outcomes: time when the task ended */
    uint64_t session;      /* session that holds the task or held it last; 0: none */
    uint64_t delivered_ms; /* time of the last delivery; 0: never delivered */
    struct tarry_token token; /* token of the current lease; valid if `outcome` is TARRY_IN_FLIGHT */
    uint64_t known_since_ms; /* valid if `outcome` is TARRY_UNKNOWN: the broker remembers ended tasks since this time */
    uint64_t lease_deadline_ms; /* new deadline of the lease; valid if `outcome` is TARRY_EXTENDED */
    uint64_t count;             /* number of tasks of an operation on a whole queue, as known when the reply was sent */
    uint64_t job;      /* number of the background job that carries out an operation on a whole queue (tarry_job);
                          TARRY_REDACTED: log position (tarry_redact) */
    uint64_t left;     /* TARRY_REDACTED for a time range: number of live tasks in the range, which were not redacted */
    uint64_t producer; /* producer number of the commit that contained the operation (ONCE-1); 0: the commit was never
                          sent */
    /* sequence number of the commit that carried the operation */
    uint64_t sequence;
    uint64_t index; /* index of the operation in its commit, from 0 */
    /* Log position for tarry_call.at_least. A request with this value sees the change. 0: none. */
    uint64_t position;
    uint64_t reserved[14];            /* always 0 */
    char message[TARRY_MESSAGE_SIZE]; /* one sentence; "" on success */
};

/* Broker that answered. With tarry_options.follower_reads a follower may answer. A follower's answer shows the state at
 * a log position and lacks later changes. A later answer may have a lower position than an earlier one. struct
 * tarry_call limits how old an answer may be. */
struct tarry_source {
    bool follower;
    uint64_t position; /* log position of a follower's answer; 0 for a primary's, which is current */
};

/* Settings of one call that replace the client's defaults: the call's timeout, and how old its answer may be. The
 * struct is the member `call` of a function's options. A function without options has an argument `call`, which it
 * copies; NULL means all defaults.
 *
 * A follower (tarry_options.follower_reads) answers from its own data, which may be old. `at_least` and
 * `staleness_ms` limit their age. Operations ignore both fields.
 *
 *   at_least      The answer contains all changes below this log position, for example tarry_result.position. With
 *                 the position of its last write, a program reads its own writes at any node, also from another
 *                 process. If a follower lacks changes, the call waits until its deadline. Then it fails with
 *                 TARRY_BEHIND, and the message has the follower's position. If the log of a primary ends before the
 *                 position, the call fails at once with TARRY_BEHIND.
 *   staleness_ms  The answer contains all changes that were acknowledged more than this long before the request
 *                 reached the node. A follower proves this by its own clock, from the time of its last request to
 *                 the primary. If that is too long ago, it sends a new request. A follower without contact to its
 *                 primary refuses with TARRY_TOO_OLD within 0.5 s. A primary always has current data: it answers
 *                 once it has confirmed that it still leads.
 *
 * A position belongs to the log of one cluster. A forced promotion, or an unplanned one in asynchronous mode, may
 * lose the end of the log. A position in the lost part is meaningless.
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
    uint64_t timeout_ms; /* time limit, counted from the start of the call; 0: the client's timeout_ms; TARRY_FOREVER:
                            no limit */
    uint64_t at_least;   /* log position that the answer must include; 0: no requirement */
    /* Maximum age of the answer's data: at most INT32_MAX ms (24 days), otherwise TARRY_E_ARGUMENT. 0: no requirement.
     */
    uint64_t staleness_ms;
    uint64_t reserved[5]; /* for later versions; must be 0 */
};

/* ---- the client --------------------------------------------------------------------------------------------------*/

/* Connection to one broker or pair. Any thread may use it. See the top of this file. */
typedef struct tarry_client tarry_client;
#define TARRY_DEFAULT_URL "ws://127.0.0.1:7272"
#define TARRY_FOREVER UINT64_MAX

struct tarry_event; /* see tarry_loop.h */
typedef void (*tarry_event_fn)(void *arg, const struct tarry_event *event);
/* Options of tarry_open. 0, false and NULL mean the default. */
struct tarry_options {
    /* One to 16 addresses, separated by commas: "ws://host:port", "wss://host:port", "unix:///path". NULL: the
     * environment variable TARRY_BROKER, or TARRY_DEFAULT_URL if it is not set. */
    const char *urls;
    /* client name in the broker's log, cut at 128 bytes; NULL: the program's name and process id */
    const char *name;
    uint64_t timeout_ms;        /* default timeout of calls; 0: 10,000; TARRY_FOREVER: none */
    uint32_t commits_in_flight; /* maximum number of commits that are sent and unanswered. With 0 or 1, calls take
                                   effect in the order of submission; with 2 to 16, in any order. */
    size_t queued_size_max;     /* limit for the bytes of unanswered operations; 0: 64 MiB */
    bool follower_reads;        /* followers may answer read requests (get, list, …): see struct tarry_source */
    bool dispatch;              /* callbacks run only inside tarry_dispatch: see tarry_loop.h */
    tarry_event_fn on_event;    /* called on connection changes (tarry_loop.h); NULL: no events */
    /* value that the library passes to on_event */
    void *event_arg;
    /* Paths of files. The library reads the files at each connect, so they may be replaced. NULL: the environment
     * variable TARRY_TOKEN_FILE, TARRY_TLS_CA, TARRY_TLS_CERT or TARRY_TLS_KEY; "": no file. A file with a token or
     * a key must be unreadable for other users (mode 0600). tarry_addresses_say reports errors in these files. While
     * the token file is unreadable, calls fail at once with TARRY_DENIED, and later calls read it again. Replace a
     * file by renaming. */
    const char *token_file; /* a token without blanks; sent as "Authorization: Bearer …" */
    const char *tls_ca;     /* PEM; trusted authorities for the certificate of a wss:// broker; "": the system's */
    const char *tls_cert;   /* PEM; this client's certificate, if the broker requires one */
    const char *tls_key;    /* PEM; private key of tls_cert; "": it is in the file tls_cert */
    /* true: the client may send the token over ws:// to another machine, where others can read it on the network.
     * false: such calls fail with TARRY_DENIED, unless the environment variable TARRY_UNSAFE_PLAIN_TOKEN is 1. */
    bool unsafe_plain_token;
    uint64_t reserved[8]; /* for later versions; must be 0 */
};

/* Opens a client. Programs call tarry_open, which passes the version of their tarry.h. */
TARRY_API TARRY_MUST_USE int tarry_open_version(const struct tarry_options *options, uint32_t header_version,
                                                tarry_client **out_client);
/* Opens a client, starts to connect and returns at once. The broker need not be running. `options` may be NULL and
 * is copied. The caller closes *out_client with tarry_close. TARRY_E_ADDRESS, _ARGUMENT, _FORKED, _NOMEM, _SYSTEM,
 * _VERSION. */
TARRY_MUST_USE static inline int tarry_open(const struct tarry_options *options, tarry_client **out_client) {
    return tarry_open_version(options, TARRY_VERSION_NUMBER, out_client);
}

/* Closes the client. Unanswered operations complete with TARRY_E_CLOSED, and their callbacks run before this
 * returns; call tarry_drain first to wait for the replies. Close the client's consumers, lists and commits first. No
 * other thread may be inside a call on this client. NULL is allowed.
 * TARRY_E_CALLBACK (from a completion callback or a consumer's handler), TARRY_E_ARGUMENT (a consumer is still
 * open), TARRY_E_FORKED: nothing was done. */
TARRY_API int tarry_close(tarry_client *client);

/* Waits until at most `pending_max` operations are unanswered. TARRY_E_TIMEOUT: more than that were unanswered at
 * the deadline. TARRY_E_CLOSED: the client was closed. `call` has the timeout; TARRY_FOREVER: no deadline. */
TARRY_API TARRY_MUST_USE int tarry_drain(tarry_client *client, size_t pending_max, const struct tarry_call *call);

/* Returns for how many milliseconds requests have waited without any reply from a broker; 0: no request waits. An
 * audit that waits for new log frames does not count. Any thread. */
TARRY_API uint64_t tarry_silence_ms(tarry_client *client);

/* Returns for how many milliseconds operations have waited because the broker is busy; 0: none wait for this reason.
 * A broker is busy if its disk or task memory is full, or its index lags. `out_reason` (may be NULL) receives the
 * broker's last message about it, or "". Any thread. */
TARRY_API uint64_t tarry_busy_ms(tarry_client *client, char out_reason[TARRY_MESSAGE_SIZE]);

/* Writes the last result of each address to `text`, as text for people: "ws://a:7272: Connection refused;
 * ws://b:7272: not the primary, …". The wording may change. "" if client is NULL. Returns `text`. Any thread. */
TARRY_API char *tarry_addresses_say(tarry_client *client, char text[TARRY_MESSAGE_SIZE]);

/* Waits for a reply from the primary. TARRY_OK: the primary is reachable. TARRY_E_NO_BROKER, TARRY_E_TIMEOUT,
 * TARRY_NOT_PRIMARY … */
TARRY_API TARRY_MUST_USE int tarry_ping(tarry_client *client, const struct tarry_call *call);

/* ---- operations --------------------------------------------------------------------------------------------------*/

/* A task's own settings, which replace those of its queue (docs/RETRIES.md). For a task of a group they replace those
 * of the group. 0: the queue's or group's setting. */
struct tarry_own_policy {
    uint32_t max_attempts; /* failed attempts before the task becomes a dead letter, at most 10,000 */
    uint64_t backoff_ms;   /* delay after the first nack, at most 30 days */
    /* Lease duration, 10 ms to 24 hours; a consumer that asks for a lease duration gets that instead. */
    uint64_t lease_ms;
    uint64_t reserved[3]; /* for later versions; must be 0 */
};

/* Options of tarry_schedule. The pointers stay the caller's. */
struct tarry_schedule_options {
    const char *queue;
    const char *key; /* at most 255 bytes of UTF-8 without control characters; NULL or "": no key */
    size_t key_size; /* bytes; 0: strlen(key) */
    enum tarry_when when;
    /* A delay or a Unix time (see `when`), at most ten years ahead. A time in the past makes the task ready at once. */
    uint64_t when_ms;
    const void *payload;
    size_t payload_size; /* bytes; the broker's default limit is 1 MiB */
    const struct tarry_attribute *attributes;
    size_t attribute_count;
    uint32_t priority;   /* 0 … 9; among tasks that are ready, 9 is delivered first */
    uint64_t expires_ms; /* duration after the due time at which an undelivered task expires; 0: never */
    enum tarry_on_conflict on_conflict;
    /* Properties of another protocol's message, such as AMQP; opaque, at most 64 KiB; NULL: none. */
    const void *properties;
    size_t properties_size;
    /* Serial name, such as a customer's name. Of the tasks in a queue with the same serial name, at most one is in
     * flight; they are delivered in order of priority, due time and id (docs/HERDS.md). At most 255 bytes of UTF-8
     * without control characters; NULL or "": none. */
    const char *serial;
    const struct tarry_own_policy *own; /* the task's own settings; NULL: those of its queue */
    struct tarry_call call;             /* In a commit each field must be 0, because the commit has its own `call`. */
    uint64_t reserved[2];               /* for later versions; must be 0 */
};

/* Options of tarry_nack. */
struct tarry_nack_options {
    bool has_delay; /* true: redeliver after delay_ms; false: after the queue's backoff */
    uint64_t delay_ms;
    bool dead; /* move the task to the dead letters now */
    /* reason for the record and the dead letter; NULL: none */
    const char *reason;
    struct tarry_call call; /* In a commit each field must be 0, because the commit has its own `call`. */
    uint64_t reserved[4];   /* for later versions; must be 0 */
};

/* Policy of a queue. tarry_queue_set applies only the fields that its `fields` argument selects. */
struct tarry_policy {
    /* duration of a lease, 10 ms to 24 hours */
    uint64_t lease_ms;
    uint32_t max_attempts;    /* delivery attempts before a task becomes a dead letter; 0: no limit */
    bool backoff_exponential; /* true: double the delay after each attempt; false: always backoff_min_ms */
    /* shortest delay before a failed task is delivered again; 0 to 30 days */
    uint64_t backoff_min_ms;
    /* longest delay before a failed task is delivered again; 0 to 30 days */
    uint64_t backoff_max_ms;
    uint32_t backoff_jitter; /* random extra delay, 0 … 100 per cent of the delay */
    /* URL, http:// or https://, at most 512 bytes. The primary POSTs due tasks to it (docs/WEBHOOKS.md). "" or NULL:
     * no push. Used only with TARRY_POLICY_PUSH. In a view: never NULL; valid as long as the view. */
    const char *push;
    /* Limits of the queue's deliveries over all its consumers (docs/HERDS.md). The broker leases at most `rate` tasks
     * in each `rate_period_ms`, and at most `burst` tasks at one moment. At most max_in_flight tasks are leased at the
     * same time.
     *
     * `rate`: at most 1,000,000; 0: no limit. `rate_period_ms`: 1 s to 24 h; 0: 1 s. `burst`: 0: the number that `rate`
     * allows in 100 ms. `max_in_flight`: at most 262,144; 0: no limit. */
    uint64_t rate_period_ms;
    uint32_t rate;
    uint32_t burst;
    uint32_t max_in_flight;
    /* Filter of a group (docs/GROUPS.md): the queue, named TOPIC:GROUP, gets the matching tasks of the queue TOPIC as
     * they fall due; "*" matches every task; at most 512 bytes. "" or NULL: no group. Used only with
     * TARRY_POLICY_FILTER. In a view: never NULL; valid as long as the view. */
    const char *filter;
    /* Treatment of tasks that fell due during an outage of the broker (docs/HERDS.md). A task that is overdue by more
     * than overdue_expire_ms expires. A task that is overdue by more than overdue_dead_ms becomes a dead letter. The
     * broker spreads the other tasks over overdue_spread_ms. 0 switches each of these off. */
    uint64_t overdue_expire_ms;
    uint64_t overdue_dead_ms;
    uint64_t overdue_spread_ms;
    /* A scheduled or moved task gets a due time that is up to this much later than requested (0 to 24 hours), and never
     * earlier. */
    uint64_t spread_ms;
    uint64_t reserved[4]; /* for later versions; must be 0 */
};
/* Bits that select fields of struct tarry_policy. */
enum tarry_policy_field {
    TARRY_POLICY_LEASE = 1,
    TARRY_POLICY_MAX_ATTEMPTS = 2,
    TARRY_POLICY_BACKOFF = 4,
    TARRY_POLICY_BACKOFF_MIN = 8,
    TARRY_POLICY_BACKOFF_MAX = 16,
    TARRY_POLICY_BACKOFF_JITTER = 32,
    TARRY_POLICY_RATE = 64,
    TARRY_POLICY_RATE_PERIOD = 128,
    TARRY_POLICY_BURST = 256,
    TARRY_POLICY_MAX_IN_FLIGHT = 512,
    TARRY_POLICY_OVERDUE_EXPIRE = 1024,
    TARRY_POLICY_OVERDUE_DEAD = 2048,
    TARRY_POLICY_OVERDUE_SPREAD = 4096,
    TARRY_POLICY_SPREAD = 8192,
    TARRY_POLICY_PUSH = 16384,
    TARRY_POLICY_FILTER = 32768
};

/* Bits that select task states, for tarry_queue_purge and tarry_list_open. */
enum tarry_state {
    TARRY_STATE_PENDING = 1, /* tasks that are not due yet */
    TARRY_STATE_READY = 2,
    TARRY_STATE_IN_FLIGHT = 4,
    TARRY_STATE_DEAD = 8
};

/* Action on dead letters: schedule them again, or delete them. */
enum tarry_dead_what { TARRY_REQUEUE = 0, TARRY_DROP = 1 };

/* Blocking calls. Each waits for the broker's reply, which means that the change is durable. The return value is
 * result->code; `out_result` may be NULL. Arguments are copied or sent before the call returns. TARRY_E_CALLBACK
 * from a completion callback. */
/* Schedules a task. */
TARRY_API int tarry_schedule(tarry_client *client, const struct tarry_schedule_options *options,
                             struct tarry_result *out_result);
/* Cancels a task that is pending or ready. `withdraw`: also a task in flight; the consumer's later ack then fails
 * with TARRY_STALE_TOKEN. For dead letters use tarry_dead. */
TARRY_API int tarry_cancel(tarry_client *client, const struct tarry_ref *ref, bool withdraw,
                           const struct tarry_call *call, struct tarry_result *out_result);
/* Gives a pending or ready task a new due time. */
TARRY_API int tarry_move(tarry_client *client, const struct tarry_ref *ref, enum tarry_when when, uint64_t when_ms,
                         const struct tarry_call *call, struct tarry_result *out_result);
/* Acknowledges a leased task: the task ends. */
TARRY_API int tarry_ack(tarry_client *client, uint64_t id, struct tarry_token token, const struct tarry_call *call,
                        struct tarry_result *out_result);
/* Gives back a leased task as failed. `options` NULL: redelivery after the queue's backoff. */
TARRY_API int tarry_nack(tarry_client *client, uint64_t id, struct tarry_token token,
                         const struct tarry_nack_options *options, struct tarry_result *out_result);
/* Extends a lease to `lease_ms` milliseconds from now; 0: the session's lease duration. */
TARRY_API int tarry_extend(tarry_client *client, uint64_t id, struct tarry_token token, uint64_t lease_ms,
                           const struct tarry_call *call, struct tarry_result *out_result);
/* Gives back a leased task without charging an attempt. */
TARRY_API int tarry_release(tarry_client *client, uint64_t id, struct tarry_token token, const struct tarry_call *call,
                            struct tarry_result *out_result);
/* Requeues or drops the dead letter `ref`. If `all` is true, a background job of the broker (tarry_job) handles every
 * dead letter of ref->queue. The job skips a dead letter if a live task has the same key. */
TARRY_API int tarry_dead(tarry_client *client, enum tarry_dead_what what, const struct tarry_ref *ref, bool all,
                         const struct tarry_call *call, struct tarry_result *out_result);
/* Sets the policy fields that `fields` selects (bits of enum tarry_policy_field). Creates a missing queue if the
 * broker allows that. */
TARRY_API int tarry_queue_set(tarry_client *client, const char *queue, const struct tarry_policy *policy,
                              uint32_t fields, const struct tarry_call *call, struct tarry_result *out_result);
/* Deletes a queue with its policy, pause and counters. TARRY_NOT_DONE: the queue has tasks, dead letters, consumers
 * or a job; the message says which. TARRY_NO_SUCH_QUEUE. Its ended tasks can still be looked up. A later use, also
 * by a consumer, creates the queue again if the broker allows that. */
TARRY_API int tarry_queue_delete(tarry_client *client, const char *queue, const struct tarry_call *call,
                                 struct tarry_result *out_result);
/* Pauses a queue for `for_ms` milliseconds (0: until resumed), or resumes it if `paused` is false. */
TARRY_API int tarry_queue_pause(tarry_client *client, const char *queue, bool paused, uint64_t for_ms,
                                const struct tarry_call *call, struct tarry_result *out_result);
/* Cancels tasks of the queue in a background job (tarry_job). The job cancels the tasks that are in a state of `states`
 * when the request reaches the broker. `states`: bits of enum tarry_state; 0: pending and ready. The tasks' outcome is
 * TARRY_CANCELLED. out_result->count: number of tasks, as far as known when the reply was sent. */
TARRY_API int tarry_queue_purge(tarry_client *client, const char *queue, uint32_t states, const struct tarry_call *call,
                                struct tarry_result *out_result);

/* Sends the operation and returns without waiting for the reply. Arguments are copied before the function returns. If
 * it returns TARRY_OK, `done` is called exactly once, otherwise never. `done` runs on the client's own thread, never
 * inside the call, and may be NULL. Callbacks of one client run one at a time; those of one commit run in order. A
 * callback may submit operations. It must return soon and must not make blocking calls. TARRY_E_FULL: nothing was done,
 * see tarry_drain. TARRY_E_ARGUMENT, TARRY_TOO_LARGE, TARRY_E_NOMEM. */
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

/* Several operations in one request, stored as one frame of the broker's log. Atomic: either all take effect or
 * none. Used by one thread at a time. */
typedef struct tarry_commit tarry_commit;
#define TARRY_OPS_PER_COMMIT_MAX 8192

/* Creates an empty commit. The caller frees *out_commit. TARRY_E_ARGUMENT, _FORKED, _NOMEM. */
TARRY_API TARRY_MUST_USE int tarry_commit_new(tarry_client *client, bool atomic, tarry_commit **out_commit);
/* Frees the commit. NULL is allowed. */
TARRY_API void tarry_commit_free(tarry_commit *commit);
/* Removes all operations, so that the commit can be used again. */
TARRY_API void tarry_commit_clear(tarry_commit *commit);
/* Returns the number of operations. */
TARRY_API size_t tarry_commit_count(const tarry_commit *commit);

/* Each of the following functions adds one operation and copies its arguments. The commit remembers the first failure
 * (TARRY_E_ARGUMENT, TARRY_TOO_LARGE, TARRY_E_NOMEM). tarry_commit_run and tarry_commit_submit then return that code
 * and send nothing. */
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

/* Sends the commit and waits for the reply. *out_results (may be NULL) receives one result per operation, in order.
 * The commit owns them; they are valid until its next run, clear or free. Returns TARRY_OK if every operation
 * succeeded. TARRY_ABORTED: the commit was atomic and was refused; the results show which operation caused that.
 * Otherwise returns the code of the first operation that failed. */
TARRY_API TARRY_MUST_USE int tarry_commit_run(tarry_commit *commit, const struct tarry_call *call,
                                              const struct tarry_result **out_results, size_t *out_count);

/* Sends the commit without waiting. `done` is called once with all results, which are valid until `done` returns.
 * `count` is 0 if there was no memory for the results. `code` is as for tarry_commit_run. After this call the commit
 * is empty and may be reused or freed at once. */
typedef void (*tarry_commit_done_fn)(void *arg, int code, const struct tarry_result *results, size_t count);
TARRY_API TARRY_MUST_USE int tarry_commit_submit(tarry_commit *commit, const struct tarry_call *call,
                                                 tarry_commit_done_fn done, void *arg);

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
#include "tarry_recur.h"
#include "tarry_redact.h"
#endif
