/* coordinator.h: the third party that a pair asks which node leads: a few small values that are changed by
 * compare-and-set only. Five calls: read, compare-and-set, multi, watch, session state; and presence, which is an
 * opinion.
 *
 *   any thread ── call ──► coordinator's own thread ──► etcd.c        etcd://host:port,host:port/path, etcds://…
 *                                │                 ├──► zookeeper.c   zk://host:port,host:port/path
 *                                │                 └──► file.c        file:///path
 *                                └──► call->done
 *
 * *An outcome says what is known, and nothing more* (R4–R6 of FAULTS.md):
 *   PAIR_DONE     it happened; `version` is the new one (of a read: the one that was read).
 *   PAIR_REFUSED  compare-and-set and multi: another version is there; this change did not happen and never will.
 *   PAIR_UNKNOWN  no answer, or one that must not be believed: it happened, or not, or not yet. `reason` says why.
 *
 * *A read is linearizable*, and never older than what this coordinator has read or written before: an answer that is (a
 * server that lags, an entry that was deleted or made again, a file that was copied back) comes as PAIR_UNKNOWN.
 *
 * *A call ends*, after the time that coordinator_open was given at the latest. Until then it waits for a connection if
 * there is none, so a caller that asks again at once when PAIR_UNKNOWN came does no harm. Nothing is repeated behind
 * the caller's back.
 *
 * *Versions* are those of one entry; 0: there is none. The first is 1; each change of the entry adds 1.
 *
 * *Presence is a second opinion, never a proof.* A process declares itself, again and again; a reader is told whether
 * that was done lately. It may be gone though it is there (the coordinator has not heard of it), and there though it is
 * gone (its time is not over yet): nothing may be acknowledged, and no node deposed, because of it alone.
 *
 * Not here: what the values mean (record.h). That a session is lost says nothing about which node leads.
 *
 * Thread-safety: any thread may call anything here save coordinator_close, callbacks included. Callbacks come on the
 * coordinator's own thread, one at a time, without a lock held; they must not wait. */
#ifndef TARRY_COORDINATOR_COORDINATOR_H
#define TARRY_COORDINATOR_COORDINATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pair.h"

#define COORDINATOR_NAME_SIZE_MAX 31    /* of an entry: a-z, 0-9 and '-' */
#define COORDINATOR_NAMES_MAX 8         /* entries that one coordinator is asked about */
#define COORDINATOR_VALUE_SIZE_MAX 4096 /* bytes */
#define COORDINATOR_CHANGES_MAX 4       /* of a multi */
#define COORDINATOR_URL_SIZE_MAX 1023
#define COORDINATOR_MESSAGE_SIZE 1536

struct coordinator;

struct coordinator_change {
    const char *name;  /* until `done` */
    const void *value; /* until `done`; NULL: the version is only compared */
    size_t size;       /* at most COORDINATOR_VALUE_SIZE_MAX */
    uint64_t version;  /* that must be there; 0: there must be none (with a value only). After PAIR_DONE: the new one */
};

/* What tells an entry from one of the same name, and a version from another of the same number; 0: not known. An entry
 * that was deleted and made again was born anew; a coordinator that was put back to an older state gives out the same
 * versions twice, and with other marks. */
struct coordinator_trait {
    uint64_t birth;
    uint64_t mark;
};

/* One call. It belongs to the caller, which sets `done` and leaves the rest alone from the call until `done` has it;
 * there it may be freed, or used for the next call. A member of something larger, as `struct item` is. */
struct coordinator_call {
    void (*done)(struct coordinator_call *call);

    enum pair_outcome outcome;
    uint64_t version;                           /* PAIR_DONE. A read: 0 if there is no such entry */
    size_t size;                                /* of `value` */
    char value[COORDINATOR_VALUE_SIZE_MAX + 1]; /* a read; a zero follows, which is not counted */
    char reason[COORDINATOR_MESSAGE_SIZE];      /* a sentence, unless PAIR_DONE */

    /* the coordinator's own */
    struct coordinator_call *next;
    const char *name; /* a read; NULL: a change */
    bool is_presence; /* … and of the node that has declared itself there */
    struct coordinator_change changes[COORDINATOR_CHANGES_MAX];
    size_t count;
    struct coordinator_trait traits[COORDINATOR_CHANGES_MAX]; /* of the entry that was read, or of those changed */
    uint64_t deadline_ms;
    void *flight; /* the backend's */
};

struct coordinator_watch {
    const char *name;
    void (*changed)(struct coordinator_watch *watch);
    struct coordinator_watch *next; /* the coordinator's own */
};

enum coordinator_state {
    COORDINATOR_CONNECTING = 1, /* never connected yet, or not since `since_ms` */
    COORDINATOR_CONNECTED,
    COORDINATOR_FORBIDDEN, /* it answers, and does not let this node in: only an operator can help */
};
struct coordinator_session {
    enum coordinator_state state;
    uint64_t since_ms;                      /* CLOCK_BOOTTIME */
    uint64_t sessions;                      /* that were opened in all: more than 1 if some expired */
    char message[COORDINATOR_MESSAGE_SIZE]; /* a sentence; empty: all is well */
};

struct coordinator_options {
    uint32_t call_ms;    /* a call ends after this time; 100 … 600,000 */
    uint32_t session_ms; /* of silence, after which the coordinator forgets a session; 1,000 … 600,000 */
    /* A node that has not declared itself for so long is not present; 0: COORDINATOR_PRESENCE_MS, else 100 … 600,000.
     * etcd makes it whole seconds, 2 at least; at ZooKeeper it is the session's time. */
    uint32_t presence_ms;
    /* "user:password": of an etcd user, or of ZooKeeper's digest scheme; NULL: none. All of these are copied. */
    const char *credentials;
    const char
        *ca; /* etcds:// only: PEM file of the CAs that have signed the servers' certificates; NULL: the host's own */
    const char *certificate; /* etcds:// only: PEM file, for servers that ask for one; NULL: none */
    const char *key;         /* its private key, a PEM file */
    /* The session's state is another. May be NULL. */
    void (*session_changed)(void *argument, const struct coordinator_session *session);
    void *argument;
};
#define COORDINATOR_CALL_MS 5000u
#define COORDINATOR_PRESENCE_MS 2000u
#define COORDINATOR_PRESENCE_SIZE_MAX 63 /* of what is said with it */
/* A server that dies without a word, as the one beside a primary does when their host loses its power, is noticed after
 * two thirds of a session's time, and the follower takes over no sooner. Sessions mean nothing here, so one may be as
 * short as ZooKeeper's own configuration allows: twice its tickTime, of 2 s. */
#define COORDINATOR_SESSION_MS 4000u

/* Whether coordinator_open would understand `url`; sends nothing. 0, or 1 with a sentence. */
int coordinator_check_url(const char *url, char message[COORDINATOR_MESSAGE_SIZE]);

/* Starts the thread and returns at once; the connection is made, and made again, behind it. 0, or 1 with a sentence:
 * the URL or an option is wrong, or there is no memory or thread. */
int coordinator_open(const char *url, const struct coordinator_options *options, struct coordinator **out,
                     char message[COORDINATOR_MESSAGE_SIZE]);
/* Ends all calls under way as PAIR_UNKNOWN, calls their `done`, and joins the thread. What a `done` asks for meanwhile
 * is dropped, its own `done` not called. No other thread may use the coordinator any more; not from a callback. NULL:
 * nothing. */
void coordinator_close(struct coordinator *coordinator);
/* What protects the pair, in words, for the log; "" for a coordinator that is one. */
const char *coordinator_warning(const struct coordinator *coordinator);

/* The entry's value and version. */
void coordinator_read(struct coordinator *coordinator, const char *name, struct coordinator_call *call);
/* Replaces the value if the entry is at `version`; 0: makes the entry if there is none. */
void coordinator_compare_and_set(struct coordinator *coordinator, const char *name, uint64_t version, const void *value,
                                 size_t size, struct coordinator_call *call);
/* All of the changes, or none. `changes` is copied, what it points to is not; call->changes has the new versions. */
void coordinator_multi(struct coordinator *coordinator, const struct coordinator_change *changes, size_t count,
                       struct coordinator_call *call);
/* This process is there under `name`, and says `text` (a string, at most COORDINATOR_PRESENCE_SIZE_MAX): from soon on,
 * for about presence_ms after it last said so. One name and text for each coordinator at a time; both are copied.
 * Cheap: declare whenever there is life. */
void coordinator_declare(struct coordinator *coordinator, const char *name, const char *text);
/* Does the coordinator have `text`, as declared last, as far as is known here? True: for `*out_ms` already (ms,
 * BOOTTIME). */
bool coordinator_stands(struct coordinator *coordinator, const char *text, uint64_t *out_ms);
/* What is declared under `name`. PAIR_DONE: version 1 and its text as the value, or version 0: nothing; else
 * PAIR_UNKNOWN.
 */
void coordinator_ask_presence(struct coordinator *coordinator, const char *name, struct coordinator_call *call);
/* From now on `changed` is called soon after the entry may have changed, and after each new session; several changes
 * may be one call, and a call may mean nothing: read. `watch` stays until coordinator_close. It is a hint: a node that
 * must know asks from time to time. */
void coordinator_watch(struct coordinator *coordinator, struct coordinator_watch *watch);
void coordinator_session(struct coordinator *coordinator, struct coordinator_session *out);

#endif
