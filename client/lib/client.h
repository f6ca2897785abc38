/* client.h: the inside of libtarry.
 *
 * One client has one REQ socket and one thread, the engine. Operations are packed by the calling thread straight into
 * the request that is gathering; the engine sends it as soon as a commit slot is free, reads the answer, and runs the
 * callbacks. nng's threads only hand finished sends and receives to the engine.
 *
 * Invariants
 *   - A request is in exactly one place: gathering, ready, a slot, or in the engine's hands.
 *   - A commit keeps its (producer, sequence) from its first send until its answer, whatever happens in between
 *     (ONCE-1). It gets new ones only when it is certain that it was never executed under the old ones.
 *   - `lock` is never held while a callback of the user's runs, nor while a dialer or socket is opened or closed.
 *   - Lock order: client.lock, then consumer.lock. */
#ifndef TARRY_CLIENT_H
#define TARRY_CLIENT_H

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <nng/supplemental/util/platform.h>
#include <pthread.h>
#include <semaphore.h>

#include "arena.h"
#include "tarry.h"
#include "tarry.pb-c.h"
#include "tarry_limits.h"

#define TIMEOUT_DEFAULT_MS 10000u
#define QUEUED_SIZE_MAX_DEFAULT (64u << 20)
#define COMMITS_IN_FLIGHT_MAX 16u
#define CALL_SLOTS 8u
#define SLOTS_MAX (COMMITS_IN_FLIGHT_MAX + CALL_SLOTS)
#define BATCH_SIZE_MAX ((size_t)1 << 20) /* a gathering request that is larger is sent as it is */
#define REQUEST_OVERHEAD_MAX 512u        /* of a Commit's outer fields, the client's name included */
#define REPLY_ARENA_MAX (256u << 20)     /* an answer that unpacks to more than this is no answer */
#define ANSWER_SIZE_MAX (64u << 20)      /* on the wire */
#define RETRY_BACKOFF_MIN_MS 5u          /* after BUSY and STOPPING */
#define RETRY_BACKOFF_MAX_MS 100u
#define RESEND_AFTER_MS 5000u /* an answer that does not come although the connection stands */
#define DIAL_AGAIN_MIN_MS 50u /* between two rounds of all addresses, doubled each time */
#define DIAL_AGAIN_MAX_MS 400u
#define DIAL_PATIENCE_MS 1000u /* a try that takes longer is given up, if there is somewhere else to go */
#define DIAL_PATIENCE_ALONE_MS 5000u
#define NOT_PRIMARY_GRACE_MS 100u /* for the other answers of a broker that is not the primary */
#define DIAL_PATH_MAX 32u         /* of a URL, behind the address */
#define GOODBYE_TIMEOUT_MS 200
#define CLOSE_PATIENCE_MS 1000u
#define ABORT_AGAIN_MS 20u
#define REQUEST_POOL_MAX 8u
#define MESSAGE_SIZE_MAX 1024u
#define ADDRESSES_MAX 16u
#define ADDRESS_SIZE_MAX (URL_SIZE_MAX + 1u)
#define SAID_SIZE_MAX 400u

struct buffer {
    uint8_t *data;
    size_t size;
    size_t capacity;
};

/* What to do with the result of one operation. */
struct op_note {
    tarry_done_fn done;
    void *arg;
    uint64_t settles;         /* the task whose lease this operation ends; 0: it ends none */
    struct tarry_token token; /* of that lease */
};

struct request;
/* Runs on the engine's thread without the lock. `request->reply` is NULL unless request->code is TARRY_OK. */
typedef void request_done_fn(void *arg, struct request *request);

enum request_kind { REQUEST_COMMIT, REQUEST_CALL };

struct request {
    struct request *next;
    enum request_kind kind;
    bool atomic;
    bool asks;          /* a question, which a follower may answer */
    bool internal;      /* the library's own: never times out */
    bool expired;       /* to be failed when its slot comes back */
    struct buffer body; /* COMMIT: fields 5 of a packed Commit; CALL: a packed Request */
    struct op_note *notes;
    size_t count; /* operations */
    size_t note_capacity;
    request_done_fn *done; /* whole; NULL: the notes say */
    void *arg;
    /* sending */
    uint64_t producer; /* 0: not assigned */
    uint64_t sequence;
    uint32_t unanswered; /* sends whose fate is unknown */
    uint32_t backoff_ms;
    uint64_t retry_at_ms;
    uint64_t sent_ms;
    uint64_t busy_since_ms; /* it was refused as busy, first; 0: it was not */
    uint32_t sent_over;     /* link.serial, and link.address, then */
    size_t sent_to;
    /* the answer */
    int code;
    const char *message; /* static, or in the arena; never NULL once complete */
    Tarry__Reply *reply; /* in the arena */
    struct arena arena;
};

struct request_queue {
    struct request *first;
    struct request *last;
};

/* One context of the REQ socket: one request under way. */
struct slot {
    tarry_client *client;
    nng_ctx ctx;
    nng_aio *aio;
    struct request *request; /* NULL: free */
    bool receiving;
    bool finished; /* the engine's turn; error and message are set */
    int error;
    nng_msg *message;
};

/* See knock.c. */
struct knock {
    pthread_mutex_t lock; /* innermost */
    nng_aio *aio;
    bool stopped;
    nng_stream_dialer *dialer; /* of knock_run alone, and so is the next */
    nng_stream *stream;
};

/* A dialer: see dial.c. */
struct dial {
    nng_dialer dialer;
    bool open;   /* there is one: it tries, or its pipe is up */
    bool trying; /* how the try ends is not known yet */
    int error;   /* how the last one failed; 0: it did not */
    uint64_t since_ms;
    uint64_t tried_ms;   /* when nng began; 0: nobody has answered the knock yet */
    struct knock *knock; /* while it may be stopped; else NULL */
    unsigned threads;    /* tries whose threads have not ended, earlier dialers' included */
    unsigned closing;    /* of these: that are closing their dialers */
};

struct address {
    char url[ADDRESS_SIZE_MAX]; /* with a port, without a path */
    char said[SAID_SIZE_MAX];   /* what came of it last, in words; "": it has not been tried */
};

struct addresses {
    struct address items[ADDRESSES_MAX];
    size_t count;
};

/* The way to the primary: one dialer at a time, addresses in turn. */
struct link {
    nng_socket socket;
    bool socket_open;
    struct dial dial;
    bool up;
    bool again;              /* give this connection up and try the next address … */
    uint64_t grace_until_ms; /* … but until then only once nothing is under way over it */
    nng_pipe pipe;
    uint32_t tries;       /* since the last connection that brought an answer */
    uint32_t serial;      /* of the present try: an answer of an earlier one says nothing of this one */
    uint32_t tried;       /* bits 1 << address: of this round */
    uint64_t retry_at_ms; /* down, and no try under way: not before */
    struct addresses addresses;
    size_t address; /* the present one */
    size_t hint;    /* the one that a broker named as the primary; not below the count: none */
};

struct tarry_client {
    pthread_mutex_t lock;
    pthread_cond_t wake;    /* the engine */
    pthread_cond_t drained; /* `pending` or `queued_size` fell */
    pthread_t engine;
    bool engine_waits;
    bool kicked;
    bool closing;
    bool left_behind; /* nng did not give up a consumer's socket: the client must outlive its callbacks */
    struct link link;
    struct slot slots[SLOTS_MAX]; /* commits first, calls behind COMMITS_IN_FLIGHT_MAX */
    uint32_t commits_in_flight;
    char name[CLIENT_NAME_SIZE_MAX + 1];
    uint64_t timeout_ms;
    size_t queued_size_max;
    bool follower_reads;
    /* requests */
    struct request *gathering;  /* commits of single operations; NULL: nothing gathers */
    struct request_queue ready; /* commits, in order */
    struct request_queue calls; /* calls, in order */
    struct request *pool;
    size_t pool_count;
    size_t pending;     /* operations without an answer, the library's own calls left out */
    uint64_t completed; /* operations answered so far */
    size_t queued_size;
    size_t waiting; /* requests without an answer, the library's own included */
    unsigned polls; /* of those, audits that wait for something to happen */
    /* the producer (ONCE-1) */
    uint64_t producer; /* 0: ask */
    uint64_t next_sequence;
    bool hello_under_way;
    uint64_t hello_retry_ms;
    int hello_refused; /* a final refusal, for the commits that wait; 0: none */
    char hello_message[256];
    uint32_t request_max;
    uint8_t cluster[CLUSTER_ID_SIZE]; /* whose producer it is, or was first */
    size_t cluster_size;              /* 0: not known, or there is only one address */
    /* silence */
    uint64_t answered_ms;               /* the last answer; NOT_PRIMARY is none */
    uint64_t primary_ms;                /* the last one from a primary */
    uint64_t waiting_since_ms;          /* `waiting` became positive, or the silence was announced */
    bool broker_failed;                 /* it said FAILED since the last answer */
    char busy_reason[MESSAGE_SIZE_MAX]; /* of the last refusal as busy */
    bool not_primary;                   /* somebody said NOT_PRIMARY since the last answer */
    struct tarry_consumer *consumers;
};

/* ---- time.c: CLOCK_MONOTONIC and CLOCK_REALTIME in milliseconds */
uint64_t now_ms(void);
uint64_t wall_ms(void);
void deadline_after(uint64_t wait_ms, struct timespec *out_deadline);
int cond_init_monotonic(pthread_cond_t *cond);

/* ---- pack.c: arguments to packed operations. 0 or a TARRY_ code; `body` untouched on failure. */
int buffer_reserve(struct buffer *buffer, size_t size);
/* Appends `op` as one entry of Commit.ops. */
int pack_op(struct buffer *body, const Tarry__Op *op);
int pack_schedule(struct buffer *body, const struct tarry_schedule_options *options);
int pack_cancel(struct buffer *body, const struct tarry_ref *ref, bool withdraw);
int pack_move(struct buffer *body, const struct tarry_ref *ref, enum tarry_when when, uint64_t when_ms);
int pack_ack(struct buffer *body, uint64_t id, struct tarry_token token);
int pack_nack(struct buffer *body, uint64_t id, struct tarry_token token, const struct tarry_nack_options *options);
int pack_extend(struct buffer *body, uint64_t id, struct tarry_token token, uint64_t lease_ms);
int pack_release(struct buffer *body, uint64_t id, struct tarry_token token);
int pack_dead(struct buffer *body, enum tarry_dead_what what, const struct tarry_ref *ref, bool all);
int pack_queue_set(struct buffer *body, const char *queue, const struct tarry_policy *policy, uint32_t fields);
int pack_queue_pause(struct buffer *body, const char *queue, bool paused, uint64_t for_ms);
int pack_redact(struct buffer *body, const struct tarry_redact_options *options);
int pack_queue_purge(struct buffer *body, const char *queue, uint32_t states);
/* 0 or TARRY_E_ARGUMENT. `out` borrows from `ref`. */
int ref_to_proto(const struct tarry_ref *ref, bool needs_key, Tarry__Ref *out);

/* ---- request.c: a request's life outside the engine. Lock held where a client is passed. */
struct request *request_new(tarry_client *client, enum request_kind kind); /* NULL: out of memory */
void request_free(tarry_client *client, struct request *request);          /* back to the pool */
void request_destroy(struct request *request);
int request_add_note(struct request *request, struct op_note note);
void queue_push(struct request_queue *queue, struct request *request);
void queue_push_front(struct request_queue *queue, struct request *request);
void queue_remove(struct request_queue *queue, struct request *request, struct request *previous);
/* NULL: out of memory. `oldest` is the oldest unanswered sequence of the producer. */
nng_msg *request_message(const tarry_client *client, const struct request *request, uint64_t oldest);
/* Fills the call's body from `wire` (version and client are set here). */
int request_fill_call(const tarry_client *client, struct request *request, Tarry__Request *wire);
/* Hands a call to the engine, which frees it after `done`. */
void request_submit_call(tarry_client *client, struct request *request);
/* Hands a whole commit to the engine, behind what gathers. TARRY_E_FULL, TARRY_E_CLOSED: it stays the caller's. */
int request_submit_commit(tarry_client *client, struct request *request, bool wait_for_room);
/* Calls back. No lock. */
void request_complete(tarry_client *client, struct request *request);
/* The result of operation `index` of a complete commit. */
void request_result(const struct request *request, size_t index, struct tarry_result *out);

/* ---- engine.c */
void *engine_run(void *arg);            /* the client */
void engine_kick(tarry_client *client); /* lock held */
bool engine_is_me(const tarry_client *client);
void slot_finished(void *arg); /* nng's callback */
/* Is the answer to anything that was sent over the present connection still to come? */
bool engine_awaits(const tarry_client *client);

/* ---- address.c. Pure. */
/* Adds the addresses of "ws://host:port,…"; NULL: the default. TARRY_E_ADDRESS. */
int addresses_parse(struct addresses *addresses, const char *urls);
/* Which of them `url` means, however it is written; the count: none. */
size_t addresses_find(const struct addresses *addresses, const char *url);
void address_say(struct address *address, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "ws://a:1: what it said; ws://b:2: …", cut to `size`. */
void addresses_tell(const struct addresses *addresses, char *out, size_t size);

/* ---- link.c: lock held, save where they give it up as said */
int link_open(tarry_client *client);                /* no lock */
bool link_close(tarry_client *client);              /* no lock */
void link_step(tarry_client *client, uint64_t now); /* gives the lock up while it dials */
uint64_t link_deadline(const tarry_client *client);
bool link_is_ready(const struct link *link); /* requests may go */
/* The present broker is not the primary. `primary`: whom it names; "": nobody. */
void link_not_primary(struct link *link, const char *primary, const char *message);
/* The present broker is silent: on to the next. */
void link_stalled(tarry_client *client);
/* What each address said last. */
void link_tell(tarry_client *client, char *out, size_t size);

/* ---- dial.c: lock held, and given up while nng is called, unless said otherwise */
/* One try to connect, told by the socket's pipe callbacks, or by `trying` alone when it fails. `headers` may be NULL.
 */
int dial_begin(tarry_client *client, struct dial *dial, nng_socket socket, const char *url, const char *headers);
/* Stops the knock; closes the dialer, if there is one. It must rest. */
void dial_end(tarry_client *client, struct dial *dial);
/* From when on it rests for certain, if no news comes earlier; 0: it does. Keeps the lock. */
uint64_t dial_rests_at(const struct dial *dial);
/* When the present try has had `patience_ms`: to answer the knock, and then again to connect. Keeps the lock. */
uint64_t dial_given_up_at(const struct dial *dial, uint64_t patience_ms);
/* Before the socket is closed: stops the knock, or waits until the dialer rests, and nobody closes one. Not on the
 * engine. */
void dial_settle(tarry_client *client, struct dial *dial);
/* Waits for the tries' threads to end, once the socket is closed. False: nng does not let go of one of them. */
bool dial_ended(tarry_client *client, struct dial *dial);
/* For the callback that is told of a lost pipe: without the lock; then the lock and dial_lost with what it returned. */
nng_dialer dial_pipe_lost(nng_pipe pipe);
void dial_lost(struct dial *dial, nng_dialer dialer);

/* ---- knock.c: any thread, without the client's lock unless said otherwise */
int knock_init(struct knock *knock); /* TARRY_E_NOMEM */
/* 0: somebody answers at `url`; or an error of nng. Blocks, until knock_stop at the latest. Once. */
int knock_run(struct knock *knock, const char *url);
void knock_stop(struct knock *knock); /* does not wait for it; the client's lock may be held */
void knock_deinit(struct knock *knock);

/* ---- socket.c: nng_close, but false when it does not come back: then nothing that the socket knows may be freed */
bool socket_close(nng_socket socket);

/* ---- result.c */
/* A code of the wire as one of enum tarry_code: what a broker cannot say (a negative one, one of the library's own) is
 * TARRY_E_PROTOCOL. */
int code_from_proto(Tarry__Code code);
void result_from_proto(const Tarry__OpResult *from, struct tarry_result *out);
void policy_from_proto(const Tarry__Policy *from, struct tarry_policy *out);
void result_failed(int code, const char *message, struct tarry_result *out);
struct tarry_source source_of(const Tarry__Reply *reply);
/* Keeps `message` for the thread until its next call; returns the copy. */
const char *message_keep(const char *message);
/* Copies `message`, cut to `size`; returns `text`. */
const char *message_copy(char *text, size_t size, const char *message);

/* ---- call.c: blocking calls that are not commits */
struct call {
    sem_t ready;
    int code;
    Tarry__Reply *reply; /* in the arena; NULL unless the code is TARRY_OK */
    struct arena arena;
    const char *message;
    char message_text[MESSAGE_SIZE_MAX];
};
/* Sends `wire` and waits. TARRY_OK: the reply is there. Otherwise the code, with *out_message (if not NULL) kept for
 * the thread. call_end in either case. */
int call_run(tarry_client *client, Tarry__Request *wire, struct call *call, const char **out_message);
void call_end(struct call *call);
/* Moves the answer's memory to `arena`; the reply stays valid as long as that lives. */
void call_keep(struct call *call, struct arena *arena);

/* ---- session.c: the engine's side of consumers. Lock held. */
void sessions_step(tarry_client *client, uint64_t now); /* gives the lock up while it dials */
uint64_t sessions_deadline(const tarry_client *client);
void sessions_silent(tarry_client *client);
/* No lock: the leases that these operations settle are no longer held. */
void sessions_settled(tarry_client *client, const struct request *request);

#endif
