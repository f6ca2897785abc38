/* coordinator.h: the third party that decides which node of a pair leads. It stores a few small values, which change
 * by compare-and-set only. Operations: read, compare-and-set, multi, watch, session state, and presence (a hint).
 *
 *   any thread ── call ──► coordinator's own thread ──► etcd.c        etcd://host:port,host:port/path, etcds://…
 *                                │                 ├──► zookeeper.c   zk://host:port,host:port/path
 *                                │                 └──► file.c        file:///path
 *                                └──► call->done
 *
 * Outcomes (R4–R6 of FAULTS.md):
 *   PAIR_DONE     The operation happened; `version` is the new version (after a read: the version read).
 *
 *   PAIR_REFUSED  Compare-and-set and multi only: the entry has another version. The change did not happen and never
 * will.
 *
 *   PAIR_UNKNOWN  No answer, or one that must not be believed. The change may have happened, or may still happen;
 *                 `reason` says why.
 *
 * Reads are linearizable, and never older than what this coordinator has read or written before. An older answer
 * becomes PAIR_UNKNOWN. It may come from a lagging server, a deleted or recreated entry, or a file restored from a
 * copy.
 *
 * A call ends at the latest after the time given to coordinator_open. Until then it waits for a connection, so a caller
 * may repeat a call at once after PAIR_UNKNOWN. The coordinator itself never repeats a change that may have been sent.
 *
 * Each entry has its own version: 0 means no entry; the first version is 1; each change adds 1.
 *
 * Presence is a hint, not a proof. A process declares its presence repeatedly, and a reader learns whether it did so
 * recently. A running process may be reported absent (its declaration is late), and a dead one present (its time is not
 * over yet). So no acknowledgement and no change of the leader may depend on presence alone.
 *
 * record.h defines the meaning of the values. A lost session says nothing about which node leads.
 *
 * Thread-safety: any thread may call these functions except coordinator_close; callbacks may, too. Callbacks run on the
 * coordinator's own thread, one at a time, without a lock; they must not block. */
#ifndef TARRY_COORDINATOR_COORDINATOR_H
#define TARRY_COORDINATOR_COORDINATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pair.h"

#define COORDINATOR_NAME_SIZE_MAX 31    /* maximum size of an entry's name in bytes; allowed are a-z, 0-9 and '-' */
#define COORDINATOR_NAMES_MAX 8         /* maximum number of entries of one coordinator */
#define COORDINATOR_VALUE_SIZE_MAX 4096 /* bytes */
#define COORDINATOR_CHANGES_MAX 4       /* maximum number of changes in one multi */
#define COORDINATOR_URL_SIZE_MAX 1023
#define COORDINATOR_MESSAGE_SIZE 1536

struct coordinator;

struct coordinator_change {
    const char *name;  /* name of the entry; valid until `done` is called */
    const void *value; /* new value, valid until `done` is called; NULL: only compare the version */
    size_t size;       /* size of the value, at most COORDINATOR_VALUE_SIZE_MAX bytes */
    uint64_t version;  /* expected version; 0: the entry must not exist (only with a value). After PAIR_DONE: the new
                          version */
};

/* Distinguishes entries of the same name, and versions of the same number; 0: unknown. A deleted and recreated entry
 * has another `birth`. A coordinator that was restored to an older state repeats version numbers, but with other values
 * of `mark`. */
struct coordinator_trait {
    uint64_t birth;
    uint64_t mark;
};

/* One call. The caller owns the memory and sets `done`; it must not touch the other members until `done` is called.
 * `done` may free the call or use it for another request. Usually a member of a larger struct, like `struct item`. */
struct coordinator_call {
    void (*done)(struct coordinator_call *call);

    enum pair_outcome outcome;
    /* Version of the entry; valid if `outcome` is PAIR_DONE. After a read, 0 means that the entry does not exist. */
    uint64_t version;
    size_t size;                                /* size of `value` in bytes */
    char value[COORDINATOR_VALUE_SIZE_MAX + 1]; /* result of a read, and a NUL that `size` does not count */
    char reason[COORDINATOR_MESSAGE_SIZE];      /* error message; valid unless the outcome is PAIR_DONE */

    /* The following members are used by the coordinator only. */
    struct coordinator_call *next;
    const char *name; /* entry to read; NULL: the call is a change */
    bool is_presence; /* the call reads the presence of the node `name` */
    struct coordinator_change changes[COORDINATOR_CHANGES_MAX];
    size_t count;
    /* Traits (values with which the backend recognizes a recreated entry) of the entry that was read, or of the changed
     * entries. */
    struct coordinator_trait traits[COORDINATOR_CHANGES_MAX];
    uint64_t deadline_ms;
    void *flight; /* state of the call in the backend; used by the backend only */
};

struct coordinator_watch {
    const char *name;
    void (*changed)(struct coordinator_watch *watch);
    struct coordinator_watch *next; /* next watch; used by the coordinator only */
};

enum coordinator_state {
    COORDINATOR_CONNECTING = 1, /* no connection since the time `since_ms` */
    COORDINATOR_CONNECTED,
    COORDINATOR_FORBIDDEN, /* the coordinator answers, but denies this node access; only an operator can help */
};
struct coordinator_session {
    enum coordinator_state state;
    uint64_t since_ms;                      /* CLOCK_BOOTTIME */
    uint64_t sessions;                      /* number of sessions opened so far; more than 1: some have expired */
    char message[COORDINATOR_MESSAGE_SIZE]; /* error message; empty: no problem */
};

struct coordinator_options {
    uint32_t call_ms;    /* time limit of a call; 100 … 600,000 */
    uint32_t session_ms; /* the coordinator ends a session after this much silence; 1,000 … 600,000 */
    /* Time without a declaration after which a node is not present. 0 means COORDINATOR_PRESENCE_MS; otherwise 100 …
     * 600,000. etcd rounds up to whole seconds, at least 2; with ZooKeeper it is the session's time. */
    uint32_t presence_ms;
    /* "user:password" of an etcd user, or for ZooKeeper's digest scheme; NULL: none. coordinator_open copies all
     * strings. */
    const char *credentials;
    /* etcds:// only: PEM file of the CAs that have signed the servers' certificates; NULL: the host's own. */
    const char *ca;
    const char *certificate; /* etcds:// only: PEM file, for servers that ask for one; NULL: none */
    const char *key;         /* PEM file of the certificate's private key */
    /* Called when the session's state has changed. May be NULL. */
    void (*session_changed)(void *argument, const struct coordinator_session *session);
    void *argument;
};
#define COORDINATOR_CALL_MS 5000u
#define COORDINATOR_PRESENCE_MS 2000u
#define COORDINATOR_PRESENCE_SIZE_MAX 63 /* maximum size of a presence's text in bytes */
/* Default of `session_ms`: the shortest session that ZooKeeper's default configuration allows, twice its tickTime of 2
 * s. If a server dies without closing the connection, for example by a power failure of the primary's host, its client
 * notices that after two thirds of this time. The follower takes over only after that. Nothing else depends on the
 * session's length, so the default may be this short. */
#define COORDINATOR_SESSION_MS 4000u

/* Checks whether coordinator_open would accept `url`; sends nothing. Returns 0, or 1 with an error message. */
int coordinator_check_url(const char *url, char message[COORDINATOR_MESSAGE_SIZE]);

/* Starts the thread and returns at once; the thread connects, and reconnects, in the background. Returns 0, or 1 with
 * an error message: the URL or an option is invalid, or memory or a thread is not available. */
int coordinator_open(const char *url, const struct coordinator_options *options, struct coordinator **out,
                     char message[COORDINATOR_MESSAGE_SIZE]);
/* Ends all running calls as PAIR_UNKNOWN, calls their `done`, and joins the thread. Drops calls that a `done` makes
 * meanwhile, without calling their `done`. No other thread may use the coordinator after that. Must not be called from
 * a callback. NULL is allowed. */
void coordinator_close(struct coordinator *coordinator);
/* Returns a warning for the log if this coordinator is not an independent third party; otherwise "". */
const char *coordinator_warning(const struct coordinator *coordinator);

/* Reads the entry's value and version. */
void coordinator_read(struct coordinator *coordinator, const char *name, struct coordinator_call *call);
/* Replaces the value if the entry is at `version`. Version 0: creates the entry if it does not exist. */
void coordinator_compare_and_set(struct coordinator *coordinator, const char *name, uint64_t version, const void *value,
                                 size_t size, struct coordinator_call *call);
/* Executes all changes or none. Copies `changes`, but not the names and values that they point to; call->changes gets
 * the new versions. */
void coordinator_multi(struct coordinator *coordinator, const struct coordinator_change *changes, size_t count,
                       struct coordinator_call *call);
/* Declares that this process is present under `name`, with `text` (a string, at most COORDINATOR_PRESENCE_SIZE_MAX
 * bytes). Others see it soon, until about presence_ms after the last declaration. A coordinator has one name and text
 * at a time; both are copied. Cheap: declare again at every sign of life. */
void coordinator_declare(struct coordinator *coordinator, const char *name, const char *text);
/* Returns whether the coordinator stores `text` as this process's presence, as far as is known. If so, sets `*out_ms`
 * to the time in ms since the coordinator confirmed `text` (BOOTTIME). */
bool coordinator_stands(struct coordinator *coordinator, const char *text, uint64_t *out_ms);
/* Reads the presence under `name`. After PAIR_DONE, version 1 comes with the declared text as the value; version 0
 * means that nothing is declared. Otherwise PAIR_UNKNOWN. */
void coordinator_ask_presence(struct coordinator *coordinator, const char *name, struct coordinator_call *call);
/* Calls `changed` from now on, soon after the entry may have changed, and after each new session. Several changes may
 * cause one call, and a call may come without a change, so `changed` must read the entry. `watch` must stay valid until
 * coordinator_close. This is only a hint: a node that must know a change polls as well. */
void coordinator_watch(struct coordinator *coordinator, struct coordinator_watch *watch);
void coordinator_session(struct coordinator *coordinator, struct coordinator_session *out);

#endif
