/* request.h: requests, and the queues that they wait in: what request.c, queue.c and expiry.c are about. */
#ifndef TARRY_REQUEST_H
#define TARRY_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "names.h"
#include "tarry.h"
#include "tarry.pb-c.h"
#include "timers.h"
#include "transport/connection.h"

#define TIMEOUT_NEVER UINT32_MAX
#define EXPIRY_STEP_MS 10u /* operations of one commit expire together, if they were made together */

struct slot;

struct buffer {
    uint8_t *data;
    size_t size;
    size_t capacity;
};

/* What an operation asks of the broker. Each passes, in a commit of its own, what is refused to those behind it. */
enum commit_rank {
    SETTLES,    /* ack, nack, extend, release: a lease's time runs, and the broker holds room back for them */
    CHANGES,    /* cancel, move: most tasks end so; refused only when the index is far behind or memory is full */
    NEEDS_ROOM, /* schedule, and all else: what is refused first */
    COMMIT_RANKS
};

/* One operation: what it is, and what to do with its result. */
struct op_note {
    tarry_done_fn done;
    void *arg;
    uint64_t settles;         /* the task whose lease this operation ends; 0: it ends none */
    struct tarry_token token; /* of that lease */
    uint64_t made_ms;         /* when the call was made … */
    uint32_t timeout_ms;      /* … and how long it may take; 0: as the client; TIMEOUT_NEVER */
    uint32_t size;            /* of its part of the body */
    uint32_t name;            /* the task that it names: see names.h; 0: none */
    uint8_t rank;             /* enum commit_rank */
    bool alone;               /* the broker takes few of this kind in one commit */
    bool told;                /* its caller has been told that its time is over */
    bool waits;               /* a blocking call: nothing of its thread's comes behind it before it is answered … */
    uint8_t gate;             /* … and there the thread waits */
    uint32_t index;           /* in the commit that was sent; of who is told apart from it */
};

struct request;
/* Runs on the engine's thread, or on that of a call that waits for it, without the lock. `request->reply` is NULL
 * unless request->code is TARRY_OK. */
typedef void request_done_fn(void *arg, struct request *request);

enum request_kind { REQUEST_COMMIT, REQUEST_CALL };

/* The lists that a request may be in, one of each kind. */
enum request_link { IN_QUEUE, AMONG_MIXED, AMONG_SETTLING, REQUEST_LINKS };

struct request_list {
    struct request *first;
    struct request *last;
};

struct request {
    struct {
        struct request *next;
        struct request *previous;
        struct request_list *list; /* NULL: none */
    } links[REQUEST_LINKS];
    enum request_kind kind;
    bool atomic;
    bool whole;    /* the user's own commit: never divided */
    bool apart;    /* it began to gather while the ranks gather apart */
    bool asks;     /* a question, which a follower may answer */
    bool internal; /* the library's own: never times out */
    bool blocks;   /* a call whose thread waits for it */
    bool ordered;  /* some of its operations do not wait: what is submitted later must take effect later */
    bool tells;    /* of operations of another one, which goes on (expiry.c) */
    bool named;    /* its producer and sequence are `name`, and no others will do (once.c) */
    bool inquires; /* asks what became of the commit of its name */
    struct tarry_commit_id name;
    struct buffer body; /* COMMIT: fields 5 of a packed Commit; CALL: a packed Request */
    struct op_note *notes;
    size_t count; /* operations */
    size_t note_capacity;
    size_t of_rank[COMMIT_RANKS]; /* of the operations */
    uint8_t gate;                 /* of the operations that wait */
    size_t told;                  /* of them: that were completed before their answer */
    enum commit_rank rank;        /* whose queue it waits in */
    uint64_t order;               /* when its first operation was submitted; what is divided keeps it … */
    uint64_t last_order;          /* … and its last */
    uint64_t settling;            /* its number among client->settling */
    struct timer deadline;
    uint64_t made_ms; /* of calls and whole commits: as in a note */
    uint32_t timeout_ms;
    request_done_fn *done; /* whole; NULL: the notes say */
    void *arg;
    /* sending */
    uint64_t producer; /* 0: not assigned */
    uint64_t sequence;
    uint32_t unanswered; /* sends whose fate is unknown */
    uint32_t backoff_ms;
    uint64_t retry_at_ms; /* a commit that keeps its sequence: not before */
    struct timer retry;   /* a call that was refused */
    struct slot *slot;    /* under way; NULL: it is not */
    uint64_t sent_ms;
    uint64_t busy_since_ms; /* a call that was refused as busy, first; 0: it was not */
    Tarry__Code refused;    /* its last answer, if that was a refusal that may be repeated; else OK */
    uint32_t sent_over;     /* link.serial, and link.address, then */
    size_t sent_to;
    /* the answer */
    uint64_t at_least; /* of a question: see struct tarry_call */
    uint32_t staleness_ms;
    int code;
    const char *message; /* static, or in the arena; never NULL once complete */
    Tarry__Reply *reply; /* in the arena */
    struct arena arena;
};

/* Commits of one rank that have no sequence. Usually all are in the queue NEEDS_ROOM, in the order of submission; the
 * others are in use while the broker is busy. */
struct commit_queue {
    struct request *gathering; /* single operations; NULL: none gathers */
    struct request_list waiting;
    size_t count;           /* of requests that have no answer, wherever they are */
    bool busy;              /* the last answer was BUSY */
    uint64_t busy_since_ms; /* 0: it is not busy, or the broker that said so is not there any more */
    uint32_t backoff_ms;
    uint64_t retry_at_ms; /* not before */
};

/* ---- request.c: a request's life outside the engine. Lock held where a client is passed. */
struct request *request_new(tarry_client *client, enum request_kind kind); /* NULL: out of memory */
void request_free(tarry_client *client, struct request *request);          /* back to the pool */
void request_destroy(struct request *request);
int request_add_note(struct request *request, const struct op_note *note);
void list_append(struct request_list *list, enum request_link link, struct request *request);
/* Behind `previous`; NULL: at the front. */
void list_insert(struct request_list *list, enum request_link link, struct request *previous, struct request *request);
/* From the list that it is in, if any. */
void list_remove(enum request_link link, struct request *request);
/* Moves the operations that are meant to a new request, which is in no list and not submitted. NULL: none is, or all
 * are, or out of memory; *out_count says how many are. */
struct request *request_divide(tarry_client *client, struct request *request,
                               bool is_meant(const struct op_note *note, uint64_t argument), uint64_t argument,
                               size_t *out_count);
/* Writes it behind `prefix_size` bytes that are left free. False: out of memory. `oldest` is the oldest unanswered
 * sequence of the producer. */
bool request_message(const tarry_client *client, const struct request *request, uint64_t oldest, size_t prefix_size,
                     struct packet *out);
/* Fills the call's body from `wire` (version and client are set here). */
int request_fill_call(const tarry_client *client, struct request *request, Tarry__Request *wire);
/* Hands a call to the engine, which frees it after `done`. `sends`: see engine_submitted. */
void request_submit_call(tarry_client *client, struct request *request, bool sends);
/* Hands a whole commit to the engine, behind what gathers. TARRY_E_FULL, TARRY_E_CLOSED: it stays the caller's. */
int request_submit_commit(tarry_client *client, struct request *request, bool wait_for_room);
/* It has been completed: it counts no more. It must be in no queue and no slot. */
void request_retire(tarry_client *client, struct request *request);
/* Calls back. No lock. */
void request_complete(tarry_client *client, struct request *request);
/* The result of operation `index` of a complete commit. */
void request_result(const struct request *request, size_t index, struct tarry_result *out);

/* ---- queue.c: the order of commits, and what may pass when the broker is busy. Lock held */
/* What an operation is, for the queues. */
struct op_note note_settles(uint64_t id, struct tarry_token token);
struct op_note note_extends(void);
struct op_note note_changes(const struct tarry_ref *ref);
struct op_note note_schedules(const struct tarry_schedule_options *options);
struct op_note note_of_ref(const struct tarry_ref *ref);
struct op_note note_other(bool alone);
/* Waits for room for `size` bytes more, until `until_ms` if at all. TARRY_E_FULL, TARRY_E_CLOSED. Gives the lock up. */
int queue_wait_for_room(tarry_client *client, size_t size, bool wait, uint64_t until_ms);
/* Which queue an operation belongs to just now. May turn its rank into NEEDS_ROOM. */
enum commit_rank queue_of(const tarry_client *client, struct op_note *note);
/* What gathers there and may take another operation; NULL: nothing does. */
struct request *queue_gathering(tarry_client *client, enum commit_rank rank);
/* Begins another request that gathers there. NULL: out of memory. */
struct request *queue_gather(tarry_client *client, enum commit_rank rank);
/* What gathers there gathers no more. */
void queue_close_gathering(tarry_client *client, enum commit_rank rank);
/* One more operation is in a request that gathers: it counts from now on. */
void queue_admit(tarry_client *client, struct request *request, const struct op_note *note);
/* A whole commit. */
void queue_admit_whole(tarry_client *client, struct request *request);
/* One that has been divided from another: it counts, and is in no queue yet. */
void queue_admit_part(tarry_client *client, struct request *part, struct request *of);
/* It gathers no more, if it did. */
void queue_ungather(tarry_client *client, struct request *request);
/* It has been completed. */
void queue_forget(tarry_client *client, struct request *request);
/* Back after a send that was refused (it has no sequence any more), or whose fate is unknown (it has). */
void queue_put_back(tarry_client *client, struct request *request);
/* The commits of its rank rest for a while; if the broker is busy, others may pass from now on. */
void queue_rest(tarry_client *client, struct request *request, bool busy, uint64_t now);
/* Its commits rest no more: one was answered, or the busy broker is not there any more. */
void queue_wake(struct commit_queue *queue);
/* No broker need be waited for: the one that has refused is not the one it is connected to. */
void queue_forget_refusals(tarry_client *client);
/* The next commit that may go now, taken out of its queue; NULL: none. `with_new`: also such as have no sequence. */
struct request *queue_next(tarry_client *client, uint64_t now, bool with_new);
bool queue_is_empty(const tarry_client *client);
/* The next commit, if nothing has been refused, rests or must be sent again; NULL: none, or something has. */
const struct request *queue_plain_next(const tarry_client *client);
/* When one that waits may go that may not go now. */
uint64_t queue_deadline(tarry_client *client, uint64_t now);
/* The oldest sequence of the producer that has no answer; `sequence` if there is none below. */
uint64_t oldest_unanswered(tarry_client *client, uint64_t producer, uint64_t sequence);

/* ---- expiry.c: deadlines. Lock held */
/* When a call made at made_ms has to have ended. */
uint64_t deadline_of(const tarry_client *client, uint64_t made_ms, uint32_t timeout_ms);
/* `timeout_ms` as a note has it. */
uint32_t timeout_of(uint64_t timeout_ms);
/* Sets the timer of a request that has just been submitted, or has got another operation. */
void expiry_watch(tarry_client *client, struct request *request, uint64_t deadline_ms);
/* Likewise, of single operations, after a division. */
void expiry_watch_notes(tarry_client *client, struct request *request);
/* What settles leases and is meant ends by then at the latest. */
void expiry_limit(tarry_client *client, bool is_meant(const struct op_note *note, const void *argument),
                  const void *argument, uint64_t until_ms);
/* Completes what is due, also what is under way. */
void expiry_step(tarry_client *client, uint64_t now);
/* Completes everything, for the client closes. */
void expiry_all(tarry_client *client);
/* No broker lets the client in: what cannot have been executed ends with TARRY_DENIED, and with what each address said.
 */
void expiry_denied(tarry_client *client);

#endif
