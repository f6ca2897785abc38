/* request.h: requests and the queues in which they wait (request.c, queue.c, expiry.c). */
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
#include "ws_client.h"

#define TIMEOUT_NEVER UINT32_MAX
/* Deadlines are rounded to this many ms, so operations of one commit with nearly the same deadline expire together. */
#define EXPIRY_STEP_MS 10u

struct slot;

struct buffer {
    uint8_t *data;
    size_t size;
    size_t capacity;
};

/* Rank of an operation, which decides about its order while the broker is busy: commits of a lower rank pass those of a
 * higher one. */
enum commit_rank {
    SETTLES, /* ack, nack, extend, release: a lease expires meanwhile, and the broker reserves memory for them */
    /* cancel, move: refused only if the index lags far or memory is full */
    CHANGES,
    NEEDS_ROOM, /* schedule and all kinds not named below: refused first when memory is short */
    COMMIT_RANKS
};

/* One operation and the receiver of its result. */
struct op_note {
    tarry_done_fn done;
    void *arg;
    uint64_t settles;         /* task whose lease this operation ends; 0: none */
    struct tarry_token token; /* token of that lease */
    uint64_t made_ms;         /* when the call was made */
    /* time limit of the call; 0: the client's; TIMEOUT_NEVER */
    uint32_t timeout_ms;
    uint32_t size; /* size in bytes of the operation's part of the request's body */
    uint32_t name; /* hash of the task that it names (names.h); 0: none */
    uint8_t rank;  /* enum commit_rank */
    bool alone;    /* must be alone in its commit: the broker accepts few of this kind */
    bool told;     /* the caller has already received TARRY_E_TIMEOUT or another code */
    bool waits;    /* true: a blocking call, whose thread submits nothing before the reply */
    uint8_t gate;  /* index in client->gates of the struct gate on which the calling thread waits */
    /* index of the operation in the commit as it was sent; needed if operations before it get their result before the
     * reply (expiry.c) */
    uint32_t index;
};

struct request;
/* Callback for a completed request. Runs without the lock, on the engine's thread or on that of a waiting call.
 * `request->reply` is NULL unless request->code is TARRY_OK. */
typedef void request_done_fn(void *arg, struct request *request);

enum request_kind { REQUEST_COMMIT, REQUEST_CALL };

/* Kinds of lists that a request may be in: at most one list of each kind. */
enum request_link { IN_QUEUE, AMONG_MIXED, AMONG_SETTLING, REQUEST_LINKS };

struct request_list {
    struct request *first;
    struct request *last;
};

struct request {
    struct {
        struct request *next;
        struct request *previous;
        struct request_list *list; /* the list of this kind that has the request; NULL: none */
    } links[REQUEST_LINKS];
    enum request_kind kind;
    bool atomic;
    bool whole; /* the program's own commit: never divided */
    bool apart; /* the request was begun while the client collects the operations of each rank in a separate request */
    bool asks;  /* a read request, which a follower may answer */
    bool internal; /* the library's own request: never times out */
    bool blocks;   /* a call whose thread waits for the reply */
    bool ordered;  /* true: the request has asynchronous operations, so later submissions must take effect after it */
    bool tells; /* true: the request only completes some operations of another request, which stays under way (expiry.c)
                 */
    bool named; /* the commit must be sent with the producer and sequence in `name` (once.c) */
    bool inquires; /* true: the request asks for the outcome of the commit called `name` */
    struct tarry_commit_id name;
    struct buffer body; /* for a commit: its operations, packed as fields of Commit (number 5, ops); for a call: a
                           packed Request */
    struct op_note *notes;
    size_t count; /* number of operations */
    size_t note_capacity;
    size_t of_rank[COMMIT_RANKS]; /* number of operations of each rank */
    uint8_t gate;                 /* index in client->gates of the struct gate on which its blocking calls wait */
    size_t told;                  /* number of operations that got their result before the reply */
    enum commit_rank rank;        /* rank of the queue in which the request waits */
    uint64_t order;      /* submission number of the request's first operation; it stays when the request is divided */
    uint64_t last_order; /* submission number of the request's last operation */
    uint64_t settling;   /* number of the request in the list client->settling, in order of insertion */
    struct timer deadline;
    uint64_t made_ms; /* time at which a call or a whole commit was made, as in struct op_note */
    uint32_t timeout_ms;
    request_done_fn *done; /* callback for the request as a whole; NULL: each note has the callback of its operation */
    void *arg;
    /* Sending. */
    uint64_t producer; /* number of the producer; 0: not assigned */
    uint64_t sequence;
    uint32_t unanswered; /* number of sends whose outcome is unknown */
    uint32_t backoff_ms;
    uint64_t retry_at_ms; /* earliest time of the next send of a commit that keeps its sequence */
    struct timer retry;   /* timer of a refused call */
    struct slot *slot;    /* slot of the request; NULL: not sent, or answered */
    uint64_t sent_ms;
    uint64_t busy_since_ms; /* time of the first BUSY refusal of a call; 0: none */
    Tarry__Code refused;    /* code of the last reply, if that reply allows a retry; otherwise OK */
    uint32_t sent_over;     /* value of link.serial at the last send */
    /* value of link.address at the last send */
    size_t sent_to;
    /* The reply. */
    uint64_t at_least; /* log position that a read's answer must include, as in struct tarry_call */
    uint32_t staleness_ms;
    int code;
    const char *message; /* static text, or in the arena; never NULL after completion */
    Tarry__Reply *reply; /* the broker's reply, in the arena */
    struct arena arena;
};

/* The commits of one rank (enum commit_rank) that have no sequence. Usually all commits are in the queue of rank
 * NEEDS_ROOM, in order of submission. The client uses the queues of the other ranks only while the broker is busy. */
struct commit_queue {
    struct request *gathering; /* request of this rank to which single operations are added; NULL: none */
    struct request_list waiting;
    size_t count;           /* number of unanswered requests of this rank, in any place */
    bool busy;              /* true: the last reply to a commit of this rank was BUSY */
    uint64_t busy_since_ms; /* time of the first BUSY refusal; 0: the broker is not busy, or is no longer connected */
    uint32_t backoff_ms;
    uint64_t retry_at_ms; /* earliest time of the next send of a commit of this rank */
};

/* ---- request.c: requests outside the engine. Lock held if a client is passed. */
/* Returns a new request; NULL: out of memory. */
struct request *request_new(tarry_client *client, enum request_kind kind);
void request_free(tarry_client *client, struct request *request); /* returns the request to the pool */
void request_destroy(struct request *request);
int request_add_note(struct request *request, const struct op_note *note);
void list_append(struct request_list *list, enum request_link link, struct request *request);
/* Inserts after `previous`; NULL: at the front. */
void list_insert(struct request_list *list, enum request_link link, struct request *previous, struct request *request);
/* Removes the request from its list of this kind, if any. */
void list_remove(enum request_link link, struct request *request);
/* Moves the operations that `is_meant` selects to a new request, which is in no list and not submitted. NULL: none
 * or all are selected, or out of memory. *out_count: number of selected operations. */
struct request *request_divide(tarry_client *client, struct request *request,
                               bool is_meant(const struct op_note *note, uint64_t argument), uint64_t argument,
                               size_t *out_count);
/* Writes the message after `prefix_size` free bytes. `oldest`: the producer's oldest unanswered sequence. False: out
 * of memory. */
bool request_message(const tarry_client *client, const struct request *request, uint64_t oldest, size_t prefix_size,
                     struct packet *out);
/* Packs `wire` as the call's body, and sets its version and client name. */
int request_fill_call(const tarry_client *client, struct request *request, Tarry__Request *wire);
/* Submits a call to the engine, which frees it after `done`. `sends`: see engine_submitted. */
void request_submit_call(tarry_client *client, struct request *request, bool sends);
/* Submits a whole commit to the engine, after the gathering operations. TARRY_E_FULL, TARRY_E_CLOSED: the caller
 * keeps the request. */
int request_submit_commit(tarry_client *client, struct request *request, bool wait_for_room);
/* Removes a completed request from the counters. It must be in no queue and no slot. */
void request_retire(tarry_client *client, struct request *request);
/* Runs the request's callbacks. No lock. */
void request_complete(tarry_client *client, struct request *request);
/* Fills in the result of operation `index` of a complete commit. */
void request_result(const struct request *request, size_t index, struct tarry_result *out);

/* ---- queue.c: order of commits, and which may pass others while the broker is busy. Lock held. */
/* Return a struct op_note that classifies the operation for the queues. */
struct op_note note_settles(uint64_t id, struct tarry_token token);
struct op_note note_extends(void);
struct op_note note_changes(const struct tarry_ref *ref);
struct op_note note_schedules(const struct tarry_schedule_options *options);
struct op_note note_of_ref(const struct tarry_ref *ref);
struct op_note note_other(bool alone);
/* Waits until `size` more bytes fit into the client's queue. If `wait` is false, does not wait. TARRY_E_FULL: there was
 * no room until until_ms, or there is none now. TARRY_E_CLOSED. Releases the lock meanwhile. */
int queue_wait_for_room(tarry_client *client, size_t size, bool wait, uint64_t until_ms);
/* Returns the rank of the queue into which this operation goes now. Sets note->rank to NEEDS_ROOM if a waiting
 * operation of that rank names the same task. */
enum commit_rank queue_of(const tarry_client *client, struct op_note *note);
/* Returns the gathering request of this queue if it can take an operation; NULL: there is none. */
struct request *queue_gathering(tarry_client *client, enum commit_rank rank);
/* Starts a new gathering request in this queue. NULL: out of memory. */
struct request *queue_gather(tarry_client *client, enum commit_rank rank);
/* Closes the gathering request of this queue: it takes no more operations. */
void queue_close_gathering(tarry_client *client, enum commit_rank rank);
/* Counts an operation that was added to a gathering request. */
void queue_admit(tarry_client *client, struct request *request, const struct op_note *note);
/* Counts a whole commit. */
void queue_admit_whole(tarry_client *client, struct request *request);
/* Counts a request that was divided from `of`. It is in no queue yet. */
void queue_admit_part(tarry_client *client, struct request *part, struct request *of);
/* Closes the request if it is gathering. */
void queue_ungather(tarry_client *client, struct request *request);
/* Removes a completed request from the counters. */
void queue_forget(tarry_client *client, struct request *request);
/* Puts back a request after a refused send (it has lost its sequence) or a send with unknown outcome (it keeps its
 * sequence). */
void queue_put_back(tarry_client *client, struct request *request);
/* Makes the commits of the request's rank wait before the next send. `busy`: commits of other ranks may pass from
 * now on. */
void queue_rest(tarry_client *client, struct request *request, bool busy, uint64_t now);
/* Ends the waiting time of a queue, because a commit was answered or the busy broker is no longer connected. */
void queue_wake(struct commit_queue *queue);
/* Ends all waiting times, because the connected broker is not the one that refused. */
void queue_forget_refusals(tarry_client *client);
/* Takes the next commit that may be sent from its queue; NULL: none. `with_new`: also commits without a sequence. */
struct request *queue_next(tarry_client *client, uint64_t now, bool with_new);
bool queue_is_empty(const tarry_client *client);
/* Returns the commit that would be sent next. NULL: no commit waits; or the order may change, because a commit was
 * refused, waits for a retry, or must be sent again. */
const struct request *queue_plain_next(const tarry_client *client);
/* Returns the time when the next waiting commit may be sent. */
uint64_t queue_deadline(tarry_client *client, uint64_t now);
/* Returns the lowest unanswered sequence of the producer; at most `sequence`. */
uint64_t oldest_unanswered(tarry_client *client, uint64_t producer, uint64_t sequence);

/* ---- expiry.c: deadlines. Lock held. */
/* Returns the deadline of a call that was made at made_ms. */
uint64_t deadline_of(const tarry_client *client, uint64_t made_ms, uint32_t timeout_ms);
/* Converts a timeout to the form of struct op_note. */
uint32_t timeout_of(uint64_t timeout_ms);
/* Sets the timer of a request after its submission, or after an operation was added. */
void expiry_watch(tarry_client *client, struct request *request, uint64_t deadline_ms);
/* Sets the timer of a request with single operations after a division. */
void expiry_watch_notes(tarry_client *client, struct request *request);
/* Selects the settling operations for which `is_meant` returns true. Sets each one's deadline to until_ms, unless it is
 * earlier. */
void expiry_limit(tarry_client *client, bool is_meant(const struct op_note *note, const void *argument),
                  const void *argument, uint64_t until_ms);
/* Completes operations whose deadline has passed, also in sent requests. */
void expiry_step(tarry_client *client, uint64_t now);
/* Completes all requests, because the client closes. */
void expiry_all(tarry_client *client);
/* Called when every broker has refused the client. Completes all requests that no broker can have executed; their code
 * is TARRY_DENIED, and their message has the last result of each address. */
void expiry_denied(tarry_client *client);

#endif
