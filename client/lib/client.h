/* client.h: the inside of libtarry.
 *
 * One client has one connection for requests and one thread, the engine. Operations are packed by the calling thread
 * straight into the request that is gathering. A blocking call sends that by itself if a commit slot is free, otherwise
 * the engine does so as soon as one is; the engine reads the answers, and the lanes of consumers, and runs the
 * callbacks. A blocking call that is alone reads its answer by itself (caller.c).
 *
 * Invariants
 *   - A request is in exactly one place: gathering, waiting in a queue, a slot, or in the engine's hands.
 *   - A commit keeps its (producer, sequence) from a send until that send's answer, whatever happens in between
 * (ONCE-1). A refusal gives them back: it is certain then that nothing was executed under them.
 *   - A commit without a sequence may be divided (queue.c), one with a sequence may not.
 *   - Nothing walks over all that waits: what the engine does for one answer does not depend on how much waits.
 *   - `lock` is never held while a callback of the user's runs, nor while the engine reads.
 *   - Connections are opened, read and closed by the engine alone, while it runs, or by a caller that has the
 *     turn while the engine waits; sending is for the thread that has `lock`.
 *   - Lock order: client.lock, then consumer.lock or a connection's io. */
#ifndef TARRY_CLIENT_H
#define TARRY_CLIENT_H

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>

#include "arena.h"
#include "group.h"
#include "names.h"
#include "request.h"
#include "tarry.h"
#include "tarry.pb-c.h"
#include "tarry_limits.h"
#include "timers.h"
#include "transport/connection.h"

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
#define DIAL_PATIENCE_TCP_MS 300u /* … and where no kernel answers, in the first rounds: its host may have died */
#define DIAL_ROUNDS_TCP 3u
#define HOST_DEAD_AFTER_MS 800u   /* the other kernel acknowledges nothing, and there is somewhere else to go */
#define NOT_PRIMARY_GRACE_MS 100u /* for the other answers of a broker that is not the primary */
#define GOODBYE_TIMEOUT_MS 200u
#define DRAIN_GRACE_MS 200u
#define LOOK_AGAIN_MS 1000u   /* the engine looks again after something came: a sender need not wake it then */
#define LENT_MS LOOK_AGAIN_MS /* a connection that no caller has read for so long is the engine's again */
#define GATES 64u
#define GROUP_SPARE_MS 20u /* a call whose time is over so soon keeps no call waiting, itself included */
#define REQUEST_ID_SIZE 4u /* SP's, before each message */
#define REQUEST_POOL_MAX 8u
#define MESSAGE_SIZE_MAX TARRY_MESSAGE_SIZE
#define ADDRESSES_MAX 16u
#define ADDRESS_SIZE_MAX (URL_SIZE_MAX + 1u)
#define SAID_SIZE_MAX 400u

/* One request under way. */
struct slot {
    struct request *request; /* NULL: free */
    uint32_t tag;            /* SP's number of the request: its answer has the same */
    struct packet packet;    /* memory that it is sent from, used again */
};

/* Where callers wait whose operations travel together: one system call wakes them all. */
struct gate {
    atomic_uint turn;    /* a futex */
    atomic_uint waiters; /* that may sleep there */
};

/* What a broker is shown, and what it must show. NULL: none. Copies. */
struct credentials {
    char *token_file;
    char *tls_ca;
    char *tls_cert;
    char *tls_key;
    bool unsafe_plain_token;
    struct tls_files files; /* the same */
};

/* What the engine waits for: see loop.c. */
struct loop {
    int epoll;
    int kick; /* an eventfd */
    uint64_t last_id;
};

struct address {
    struct place place;
    char said[SAID_SIZE_MAX];   /* what came of it last, in words; "": it has not been tried */
    bool denied;                /* … and that was that it lets this client not in */
    char logged[SAID_SIZE_MAX]; /* what the user was told of it last … */
    uint64_t logged_ms;         /* … and when; 0: nothing */
};

struct addresses {
    struct address items[ADDRESSES_MAX];
    size_t count;
};

/* The way to the primary: one connection at a time, addresses in turn. */
struct link {
    struct connection connection;
    bool trying; /* how the try ends is not known yet */
    bool up;
    bool again;              /* give this connection up and try the next address … */
    uint64_t grace_until_ms; /* … but until then only once nothing is under way over it */
    uint64_t since_ms;       /* when the present try began */
    uint64_t progress_ms;    /* when it last went on: connected, secured */
    uint32_t tries;          /* since the last connection that brought an answer */
    uint32_t serial;         /* of the present try: an answer of an earlier one says nothing of this one */
    uint32_t tried;          /* bits 1 << address: of this round */
    uint64_t retry_at_ms;    /* down, and no try under way: not before */
    struct addresses addresses;
    size_t address; /* the present one */
    size_t opened;  /* the one that was connected to last */
    size_t hint;    /* the one that a broker named as the primary; not below the count: none */
};

#define LEDGER_MAX (COMMITS_PER_PRODUCER_MAX - 1u)

/* The producer of commits that are named before they are sent: see once.c. */
struct ledger {
    uint64_t producer; /* 0: ask */
    uint64_t next_sequence;
    uint64_t open[LEDGER_MAX]; /* named, and not answered yet */
    size_t open_count;
};

/* Something of the user's that is to be called later. The user of this embeds it. */
struct deferred {
    struct deferred *next;
    void (*run)(struct deferred *deferred); /* calls, and frees it */
};

/* See dispatch.c. */
struct dispatch {
    bool on;
    int fd;               /* -1: not on */
    pthread_mutex_t lock; /* innermost: of the queue */
    struct deferred *first;
    struct deferred *last;
    pthread_mutex_t turn; /* outermost: the dispatching thread */
    pthread_t thread;     /* which thread that is, while … */
    atomic_bool is_running;
};

struct tarry_client {
    pthread_mutex_t lock;
    pthread_cond_t drained; /* `pending` or `queued_size` fell */
    pthread_t engine;
    unsigned process; /* see process_enter */
    bool engine_waits;
    bool kicked;
    bool heard; /* something came since it last waited */
    bool closing;
    uint64_t engine_until_ms; /* it waits until then at most */
    /* a caller that reads its answer by itself: caller.c */
    pthread_cond_t turned;   /* caller_turns fell */
    bool caller_reads;       /* one does */
    bool caller_turns;       /* … and is reading just now: the engine waits until it has */
    unsigned lone_calls;     /* that were alone, one after the other; counted so far as it matters */
    uint64_t caller_read_ms; /* when one did last */
    struct loop loop;
    struct credentials credentials;
    struct link link;
    struct slot slots[SLOTS_MAX]; /* commits first, calls behind COMMITS_IN_FLIGHT_MAX */
    uint32_t last_tag;
    uint32_t commits_in_flight;
    struct group group;
    char name[CLIENT_NAME_SIZE_MAX + 1];
    uint64_t timeout_ms;
    size_t queued_size_max;
    bool follower_reads;
    /* requests */
    struct commit_queue commits[COMMIT_RANKS];
    struct request_list resend;   /* commits whose sequence may have been executed, by sequence; few */
    struct request_list mixed;    /* of the queue NEEDS_ROOM: with operations of other ranks */
    struct request_list settling; /* all that settle leases and have no answer */
    struct names names;           /* of operations without an answer that need room */
    struct request_list calls;    /* that may go, in order */
    struct timers retries;        /* calls that were refused */
    struct timers deadlines;
    struct request_list finished; /* complete; the engine calls back */
    struct gate gates[GATES];
    unsigned next_gate;
    struct request *pool;
    size_t pool_count;
    size_t request_count; /* all there are, the pool's included */
    uint64_t next_order;
    uint64_t next_settling;
    size_t pending; /* operations without an answer, the library's own calls left out */
    size_t queued_size;
    size_t waiting;       /* requests without an answer, the library's own included */
    size_t primary_calls; /* of those, calls that only a primary can answer */
    uint64_t looks;       /* at requests that wait, one by one: for the test that counts work */
    unsigned polls;       /* of those, audits that wait for something to happen */
    /* the producer (ONCE-1) */
    uint64_t producer; /* 0: ask */
    uint64_t next_sequence;
    struct ledger ledger;
    uint8_t greeted[CLUSTER_ID_SIZE]; /* whose producers these are; zeros: not known yet */
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
    char busy_reason[MESSAGE_SIZE_MAX]; /* of the last refusal as busy */
    uint64_t not_primary_ms;            /* a broker said NOT_PRIMARY last, with no answer since; 0: none */
    struct tarry_consumer *consumers;
    struct dispatch dispatch;
    /* events that wait to be told */
    tarry_event_fn on_event;
    void *event_arg;
    struct deferred *events_first; /* without dispatch */
    struct deferred *events_last;
    size_t event_count; /* wherever they wait */
    size_t events_dropped;
};

/* ---- time.c: CLOCK_MONOTONIC and CLOCK_REALTIME in milliseconds */
uint64_t now_ms(void);
uint64_t wall_ms(void);
void deadline_after(uint64_t wait_ms, struct timespec *out_deadline);
void sleep_ms(uint64_t wait_ms);
/* Waits until something is completed, or closed. False: it is past until_ms (UINT64_MAX: never). Lock held. */
bool wait_drained(tarry_client *client, uint64_t until_ms);
int cond_init_monotonic(pthread_cond_t *cond);

/* ---- thread.c: the library's threads, and which may call */
/* Blocks all signals on the calling thread, for the threads that it starts until signals_restore. */
void signals_block(sigset_t *out_before);
void signals_restore(const sigset_t *before);
/* A thread of the library's: named, with all signals blocked. TARRY_E_SYSTEM. */
int thread_start(pthread_t *thread, void *(*run)(void *), void *arg, const char *name);
/* Which of the processes that share this memory's history this one is. TARRY_E_FORKED: a child may open no client. */
int process_enter(unsigned *out_process);
/* This process is a child of the one that opened the client: nothing of it may be touched but its memory. */
bool process_is_other(const tarry_client *client);
/* TARRY_E_ARGUMENT: there is no client; TARRY_E_FORKED. Before any lock is taken. */
int may_call(const tarry_client *client);
/* The same, and TARRY_E_CALLBACK on the client's own thread. */
int may_block(const tarry_client *client);

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
int pack_queue_delete(struct buffer *body, const char *queue);
int pack_queue_purge(struct buffer *body, const char *queue, uint32_t states);
/* 0 or TARRY_E_ARGUMENT. `out` borrows from `ref`. */
int ref_to_proto(const struct tarry_ref *ref, bool needs_key, Tarry__Ref *out);

/* ---- once.c: names of commits. Lock held. */
/* What oldest_unanswered a named commit may be sent with. */
uint64_t ledger_oldest(const struct ledger *ledger, const struct tarry_commit_id *id);
/* The commit of this name was answered, or never will be sent. */
void ledger_close(struct ledger *ledger, const struct tarry_commit_id *id);
/* An outcome is unknown: the answers of this producer are to be kept, so nothing more is sent under it. */
void producer_leave(tarry_client *client, uint64_t producer);

/* ---- dispatch.c. No lock needed, save where it says so */
int dispatch_open(tarry_client *client, bool on);
void dispatch_close(tarry_client *client); /* calls what is left */
void dispatch_signal(tarry_client *client);
void dispatch_push(tarry_client *client, struct deferred *deferred);
/* Is this a callback that tarry_dispatch has called? */
bool dispatch_is_me(const tarry_client *client);
/* The note of an asynchronous operation, if the client dispatches: its result will wait. TARRY_E_NOMEM. */
int dispatch_defer(tarry_client *client, struct op_note *note);
void dispatch_undefer(const struct op_note *note); /* it was not submitted */
/* What `done` is called with, now or by the loop, if the loop is told of the operation; else NULL. */
void *dispatch_argument(const struct op_note *note, tarry_done_fn done);
/* consumer.c: hands one task to a handler. False: there is none. */
bool consumers_handle_one(tarry_client *client);

/* ---- event.c. Lock held */
void event_note(tarry_client *client, enum tarry_event_kind kind, const char *url, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A log line of what came of this address, unless it is what was said last. */
void event_note_address(tarry_client *client, struct address *address);
void events_tell(tarry_client *client); /* gives the lock up */

/* ---- commit.c: for once.c. No lock. */
tarry_client *commit_client(const tarry_commit *commit);
uint32_t commit_timeout(const tarry_commit *commit);                   /* as in a note */
const struct tarry_commit_id *commit_name(const tarry_commit *commit); /* NULL: none */
void commit_set_name(tarry_commit *commit, const struct tarry_commit_id *id);
/* Takes the memory. */
void commit_take_results(tarry_commit *commit, struct tarry_result *results, size_t count);

/* ---- engine.c: lock held, unless it says otherwise */
void *engine_run(void *arg);                   /* the client; no lock */
void engine_kick(tarry_client *client);        /* it is to look at everything again */
bool engine_is_me(const tarry_client *client); /* no lock */
/* Something has been submitted. `sends`: the caller, which waits for the answer, sends it itself if it can go now. */
void engine_submitted(tarry_client *client, bool sends);
/* Whose producers HelloReply gives out. */
void note_greeting(tarry_client *client, ProtobufCBinaryData cluster);
int request_fail(struct request *request, int code, const char *message);
/* Completes what is complete, if that is all of blocking calls; otherwise it waits for the engine. Gives the lock up.
 */
void engine_complete_callers(tarry_client *client);

/* ---- caller.c: lock held, unless it says otherwise */
/* A blocking call has just been submitted. True: it is alone, and reads its answer by itself (caller_read). */
bool caller_may_read(tarry_client *client);
/* Reads and completes until `is_done`, which the completion sets, or until another thread has to. No lock. */
void caller_read(tarry_client *client, const atomic_bool *is_done);
/* The engine reads the connection again. */
void caller_take_back(tarry_client *client);
/* The connection is lent, and no caller reads: it is to be taken back. */
bool caller_is_gone(const tarry_client *client, uint64_t now);

/* ---- slots.c: requests under way. Lock held */
/* A free one of [from, to); NULL: none. */
struct slot *slot_free(tarry_client *client, uint32_t from, uint32_t to);
/* One for the next commit, if that may go now; NULL: it may not. */
struct slot *slot_for_commit(tarry_client *client);
/* The request leaves its queue until it comes back with an answer or none. False: out of memory; it is where it was. */
bool slot_send(tarry_client *client, struct slot *slot, struct request *request, uint64_t now);
/* Its request is under way no more: an answer that still comes is dropped, and what has not left stays here. */
struct request *slot_release(tarry_client *client, struct slot *slot);
/* The call that this answers; NULL: none that still waits. */
struct slot *slot_of(tarry_client *client, uint32_t tag);
/* Blocking calls in commits of nothing else that are under way. */
size_t slots_callers(const tarry_client *client);
/* Is anything under way? */
bool slots_busy(const tarry_client *client);

/* ---- answers.c: lock held */
/* A message of the broker's. Gives the lock up. False: it is no answer at all. */
bool answer_take(tarry_client *client, const uint8_t *data, size_t size);
/* The connection is lost: the fate of what was under way is unknown. */
void answers_lost(tarry_client *client);
/* The fate of this send is unknown: again, not before at_ms. */
void answer_lost(tarry_client *client, struct request *request, uint64_t at_ms, uint64_t now);

/* ---- credentials.c */
/* From the options, or else from the environment. TARRY_E_NOMEM. */
int credentials_take(struct credentials *credentials, const struct tarry_options *options);
void credentials_drop(struct credentials *credentials);

/* ---- loop.c */
int loop_open(struct loop *loop);
void loop_close(struct loop *loop);
/* Any thread. */
void loop_kick(struct loop *loop);
/* Waits until something comes or until_ms (UINT64_MAX: for ever), and has what came taken. Lock held, and given up. */
void loop_wait(tarry_client *client, uint64_t until_ms);

/* ---- gate.c: no lock */
/* Waits until the gate has been opened since `turn` was read. May return earlier. */
void gate_wait(struct gate *gate, unsigned turn);
void gate_open(struct gate *gate);

/* ---- address.c. Pure. */
/* Adds the addresses of "ws://host:port,…"; NULL: the default. TARRY_E_ADDRESS. */
int addresses_parse(struct addresses *addresses, const char *urls);
/* Which of them `url` means, however it is written; the count: none. */
size_t addresses_find(const struct addresses *addresses, const char *url);
void address_say(struct address *address, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "ws://a:1: what it said; ws://b:2: …", cut to `size`. */
void addresses_tell(const struct addresses *addresses, char *out, size_t size);

/* ---- link.c: lock held, save where they give it up as said */
void link_begin(tarry_client *client);
void link_end(tarry_client *client);
/* Sends what no slot waits for, and waits for the answer. The engine does not run; the link is up. No lock. */
void link_ask_last(tarry_client *client, struct packet *packet, uint64_t patience_ms);
void link_step(tarry_client *client, uint64_t now);
/* epoll named its connection. Gives the lock up. */
void link_turn(tarry_client *client, uint32_t events);
uint64_t link_deadline(const tarry_client *client);
bool link_is_ready(const struct link *link); /* requests may go */
/* No broker lets this client in: all addresses refuse what it shows. */
bool link_is_denied(const struct link *link);
/* The present broker is not the primary. `primary`: the one that it names; "": none. */
void link_not_primary(struct link *link, const char *primary, const char *message);
/* The present broker is silent: on to the next. */
void link_stalled(tarry_client *client);
/* What each address said last. */
void link_tell(tarry_client *client, char *out, size_t size);

/* ---- words.c: digits only, no sign, no leading zero before another digit. NULL if there is no such number up to
 * `max`; otherwise where it ends. */
const char *parse_number(const char *text, uint64_t max, uint64_t *out_value);

/* ---- result.c */
/* A code of the wire as one of enum tarry_code: what a broker cannot say (a negative one, one of the library's own) is
 * TARRY_E_PROTOCOL. */
int code_from_proto(Tarry__Code code);
void result_from_proto(const Tarry__OpResult *from, struct tarry_result *out);
void policy_from_proto(const Tarry__Policy *from, struct tarry_policy *out);
void result_failed(int code, const char *message, struct tarry_result *out);
/* Only as much of the sentence as there is. */
void result_copy(const struct tarry_result *from, struct tarry_result *out);
struct tarry_source source_of(const Tarry__Reply *reply);
/* Fills in the user's array, cut; nothing if it is NULL. */
void message_set(char out_message[TARRY_MESSAGE_SIZE], const char *message);
/* … with the code's sentence; returns the code. */
int message_say(char out_message[TARRY_MESSAGE_SIZE], int code);
/* Copies the user's options (NULL: all 0) of `size` bytes. TARRY_E_VERSION: a byte from `reserved_at` on is not 0,
 * which a newer header has a field for. */
int options_take(void *out, const void *given, size_t size, size_t reserved_at);
#define OPTIONS_TAKE(out, given) options_take(&(out), (given), sizeof(out), offsetof(__typeof__(out), reserved))
/* Copies `message`, cut to `size`; returns `text`. */
const char *message_copy(char *text, size_t size, const char *message);

/* ---- call.c: blocking calls that are not commits */
struct call {
    atomic_bool is_done; /* before `ready` */
    sem_t ready;
    int code;
    Tarry__Reply *reply; /* in the arena; NULL unless the code is TARRY_OK */
    struct arena arena;
    const char *message;
    char message_text[MESSAGE_SIZE_MAX];
};
/* Sends `wire` and waits. TARRY_OK: the reply is there. Otherwise the code, with a sentence in `out_message`. call_end
 * in either case. */
int call_run(tarry_client *client, Tarry__Request *wire, struct call *call, char out_message[TARRY_MESSAGE_SIZE]);
/* The same, with a timeout of its own; 0: the client's; TIMEOUT_NEVER. */
int call_run_within(tarry_client *client, Tarry__Request *wire, uint32_t timeout_ms, struct call *call,
                    char out_message[TARRY_MESSAGE_SIZE]);
/* Writes the call's at_least and staleness_ms into `wire`, and how long a follower may wait. TARRY_E_ARGUMENT. */
int call_wish(const tarry_client *client, Tarry__Request *wire, const struct tarry_call *options);
void call_end(struct call *call);
/* Moves the answer's memory to `arena`; the reply stays valid as long as that lives. */
void call_keep(struct call *call, struct arena *arena);

/* ---- session.c: the engine's side of consumers. Lock held. */
void sessions_step(tarry_client *client, uint64_t now);
/* epoll named a connection that may be a lane. Gives the lock up. */
void sessions_turn(tarry_client *client, uint64_t id, uint32_t events);
uint64_t sessions_deadline(const tarry_client *client);
void sessions_silent(tarry_client *client);
/* The host of the present address has died: a consumer with a lane there subscribes elsewhere. */
void sessions_host_dead(tarry_client *client, uint64_t now);
/* TARRY_E_CALLBACK: this is the thread of a consumer's handler; TARRY_E_ARGUMENT: a consumer is open. */
int sessions_may_close(const tarry_client *client);
/* No lock: the leases that these operations settle are no longer held. */
void sessions_settled(tarry_client *client, const struct request *request);

#endif
