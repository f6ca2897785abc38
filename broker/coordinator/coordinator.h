/* coordinator.h: the coordinator (etcd, ZooKeeper or a file), which says which node of a pair leads. It keeps a few
 * small entries that change by compare-and-set only. Calls: read, compare-and-set, multi, watch, session state; and
 * presence, which is only a hint.
 *
 *   any thread ── call ──► coordinator's own thread ──► etcd.c        etcd://host:port,host:port/path, etcds://…
 *                                │                 ├──► zookeeper.c   zk://host:port,host:port/path
 *                                │                 └──► file.c        file:///path
 *                                └──► call->done
 *
 * *The outcome of a call* (R4–R6 of FAULTS.md):
 *   PAIR_DONE     it happened; `version` is the new version (of a read: the version that was read).
 *   PAIR_REFUSED  compare-and-set and multi: the entry has another version; this change did not and will not happen.
 *   PAIR_UNKNOWN  no answer, or an answer that contradicts an earlier one: the change may have happened, or may still
 * happen. `reason` says why.
 *
 * *A read is linearizable*, and never older than an earlier read or write here. An older answer (from a server that
 * lags, an entry that was deleted and made again, or a file that was copied back) becomes PAIR_UNKNOWN.
 *
 * *A call ends* after options.call_ms at the latest. Until then it waits for a connection, so a caller may ask again at
 * once after PAIR_UNKNOWN. No call is retried automatically.
 *
 * *A version* counts the changes of one entry: 1 is the first, 0 means that the entry does not exist.
 *
 * *Presence is a hint, never a proof.* A process declares itself repeatedly; a reader learns whether it did so lately.
 * A live process may be missing, and a dead one may still be present until its time ends. No commit may be acknowledged
 * and no node deposed because of presence alone.
 *
 * The meaning of the values is in record.h. A lost session says nothing about which node leads.
 *
 * Thread-safety: any thread may call anything here save coordinator_close, callbacks included. Callbacks come on the
 * coordinator's own thread, one at a time, without a lock held; they must not wait. */
#ifndef TARRY_COORDINATOR_COORDINATOR_H
#define TARRY_COORDINATOR_COORDINATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pair.h"

#define COORDINATOR_NAME_SIZE_MAX 31    /* bytes of an entry's name: a-z, 0-9 and '-' */
#define COORDINATOR_NAMES_MAX 8         /* entries that one struct coordinator may use */
#define COORDINATOR_VALUE_SIZE_MAX 4096 /* bytes */
#define COORDINATOR_CHANGES_MAX 4       /* changes of one multi */
#define COORDINATOR_URL_SIZE_MAX 1023
#define COORDINATOR_MESSAGE_SIZE 1536

struct coordinator;

struct coordinator_change {
    const char *name;  /* must stay valid until `done` */
    const void *value; /* must stay valid until `done`; NULL: only compare the version */
    size_t size;       /* at most COORDINATOR_VALUE_SIZE_MAX */
    uint64_t version;  /* expected version; 0: the entry must not exist (only with a value). After PAIR_DONE: the new
                          version */
};

/* Identity of an entry and of its version, to detect a deleted or restored entry; 0: unknown. `birth` changes when the
 * entry is deleted and made again. `mark` differs when a coordinator that was put back to an older state gives out a
 * version number a second time. */
struct coordinator_trait {
    uint64_t birth;
    uint64_t mark;
};

/* One call. The caller owns it and sets `done`, and must not touch it until `done` runs; `done` may free it or use it
 * for the next call. Embed it in a larger struct, as with `struct item`. */
struct coordinator_call {
    void (*done)(struct coordinator_call *call);

    enum pair_outcome outcome;
    uint64_t version;                           /* after PAIR_DONE; 0 after a read of a missing entry */
    size_t size;                                /* of `value` */
    char value[COORDINATOR_VALUE_SIZE_MAX + 1]; /* result of a read, followed by a zero that `size` does not count */
    char reason[COORDINATOR_MESSAGE_SIZE];      /* a sentence; empty after PAIR_DONE */

    /* private to the coordinator */ struct coordinator_call *next;
    const char *name; /* entry of a read; NULL: a change */
    bool is_presence; /* reads the presence under `name`, not an entry */
    struct coordinator_change changes[COORDINATOR_CHANGES_MAX];
    size_t count;
    struct coordinator_trait traits[COORDINATOR_CHANGES_MAX]; /* of the entry read, or of the entries changed */
    uint64_t deadline_ms;
    void *flight; /* private to the backend */
};

struct coordinator_watch {
    const char *name;
    void (*changed)(struct coordinator_watch *watch);
    struct coordinator_watch *next; /* the coordinator's own */
};

enum coordinator_state {
    COORDINATOR_CONNECTING = 1, /* not connected, since `since_ms` */
    COORDINATOR_CONNECTED,
    COORDINATOR_FORBIDDEN, /* the coordinator refuses this node's access; an operator must change that */
};
struct coordinator_session {
    enum coordinator_state state;
    uint64_t since_ms;                      /* CLOCK_BOOTTIME */
    uint64_t sessions;                      /* number of sessions opened so far; above 1 if some expired */
    char message[COORDINATOR_MESSAGE_SIZE]; /* a sentence about a problem; empty: none */
};

struct coordinator_options {
    uint32_t call_ms;    /* timeout of a call; 100 … 600,000 */
    uint32_t session_ms; /* session timeout at the coordinator; 1,000 … 600,000 */
    /* A node is present for this time after its last declaration; 0: COORDINATOR_PRESENCE_MS, else 100 … 600,000. etcd
     * rounds it to whole seconds, at least 2; ZooKeeper uses session_ms instead. */
    uint32_t presence_ms;
    /* "user:password" of an etcd user or of ZooKeeper's digest scheme; NULL: none. coordinator_open copies all strings.
     */
    const char *credentials;
    const char
        *ca; /* etcds:// only: PEM file of the CAs that have signed the servers' certificates; NULL: the host's own */
    const char *certificate; /* etcds:// only: PEM file, for servers that ask for one; NULL: none */
    const char *key;         /* its private key, a PEM file */
    /* Called when the session's state or message has changed. May be NULL. */
    void (*session_changed)(void *argument, const struct coordinator_session *session);
    void *argument;
};
#define COORDINATOR_CALL_MS 5000u
#define COORDINATOR_PRESENCE_MS 2000u
#define COORDINATOR_PRESENCE_SIZE_MAX 63 /* bytes of a presence's text */
/* ZooKeeper's client notices a server that died with its host after two thirds of the session timeout, and the follower
 * takes over no sooner. No rule depends on sessions, so the timeout is the shortest that ZooKeeper allows by default:
 * twice its tickTime of 2 s. */
#define COORDINATOR_SESSION_MS 4000u

/* Checks the syntax of `url`; sends nothing. Returns 0, or 1 with a sentence. */
int coordinator_check_url(const char *url, char message[COORDINATOR_MESSAGE_SIZE]);

/* Starts the thread and returns at once; the thread connects and reconnects. Returns 0, or 1 with a sentence: a wrong
 * URL or option, or no memory or thread. */
int coordinator_open(const char *url, const struct coordinator_options *options, struct coordinator **out,
                     char message[COORDINATOR_MESSAGE_SIZE]);
/* Ends all calls under way as PAIR_UNKNOWN, calls their `done`, and joins the thread. A call that such a `done` starts
 * is dropped without its own `done`. No other thread may use the coordinator any more. Do not call it from a callback.
 * NULL: does nothing. */
void coordinator_close(struct coordinator *coordinator);
/* A warning for the log about the limits of this kind of coordinator; "": none. */
const char *coordinator_warning(const struct coordinator *coordinator);

/* Reads the entry's value and version. */
void coordinator_read(struct coordinator *coordinator, const char *name, struct coordinator_call *call);
/* Replaces the value if the entry is at `version`; with 0, creates the entry if it does not exist. */
void coordinator_compare_and_set(struct coordinator *coordinator, const char *name, uint64_t version, const void *value,
                                 size_t size, struct coordinator_call *call);
/* Makes all of the changes, or none. `changes` is copied, but not the names and values; call->changes has the new
 * versions. */
void coordinator_multi(struct coordinator *coordinator, const struct coordinator_change *changes, size_t count,
                       struct coordinator_call *call);
/* Declares this process present under `name`, with `text` (at most COORDINATOR_PRESENCE_SIZE_MAX bytes), for about
 * presence_ms. Replaces the previous declaration; both strings are copied. Cheap: call it in each turn. */
void coordinator_declare(struct coordinator *coordinator, const char *name, const char *text);
/* Returns whether the coordinator is known to have `text` as this process's declaration; `*out_ms`: since how many ms
 * (CLOCK_BOOTTIME). */
bool coordinator_stands(struct coordinator *coordinator, const char *text, uint64_t *out_ms);
/* Reads the presence under `name`. PAIR_DONE: version 1 with the text as value, or version 0 if nobody is present;
 * otherwise PAIR_UNKNOWN. */
void coordinator_ask_presence(struct coordinator *coordinator, const char *name, struct coordinator_call *call);
/* Calls watch->changed soon after the entry may have changed, and after each new session. One call may cover several
 * changes or for none, and one may be lost: read the entry, and poll it from time to time. `watch` must stay valid
 * until coordinator_close. */
void coordinator_watch(struct coordinator *coordinator, struct coordinator_watch *watch);
void coordinator_session(struct coordinator *coordinator, struct coordinator_session *out);

#endif
