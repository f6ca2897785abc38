/* client.h: internal types and functions of libtarry.
 *
 * A client has one connection for requests and one thread, the engine. The calling thread packs its operation into
 * the gathering request, the one that still takes further operations. A blocking call sends that request itself if a
 * commit slot is free. Otherwise the engine sends it as soon as a slot is free. The engine reads replies and the
 * consumers' lanes (connections for deliveries), and runs the callbacks. A blocking call with no other call beside it
 * reads its reply itself (caller.c).
 *
 * Invariants
 *   - A request is in exactly one place: gathering, waiting in a queue, in a slot, or being processed by the engine.
 *   - A commit keeps its (producer, sequence) from a send until the reply to that send (ONCE-1). After a refusal it
 *     gives them back, because the broker has executed nothing under them.
 *   - A commit without a sequence may be divided (queue.c). A commit with a sequence may not.
 *   - No step walks over all waiting requests: the engine's work for one reply does not depend on their number.
 *   - `lock` is not held while a callback of the program runs or while the engine reads.
 *   - Only the engine opens, reads and closes connections. While the engine waits, a caller that reads its reply
 *     itself (caller.c) may do so instead. Only the thread that holds `lock` sends.
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
#include "ws_client.h"

#define TIMEOUT_DEFAULT_MS 10000u
#define QUEUED_SIZE_MAX_DEFAULT (64u << 20)
#define COMMITS_IN_FLIGHT_MAX 16u
#define CALL_SLOTS 8u
#define SLOTS_MAX (COMMITS_IN_FLIGHT_MAX + CALL_SLOTS)
/* Maximum size in bytes of a gathering request; a larger one is closed and sent. */
#define BATCH_SIZE_MAX ((size_t)1 << 20)
#define REQUEST_OVERHEAD_MAX 512u    /* bytes of a Commit's outer fields, with the client's name */
#define REPLY_ARENA_MAX (256u << 20) /* a reply that unpacks to more bytes than this is rejected */
#define ANSWER_SIZE_MAX (64u << 20)  /* size of a reply on the wire, in bytes */
#define RETRY_BACKOFF_MIN_MS 5u      /* first pause before a commit is sent again after BUSY or STOPPING */
#define RETRY_BACKOFF_MAX_MS 100u
/* Time without a reply after which a request is sent again, although the connection is up. */
#define RESEND_AFTER_MS 5000u
/* If a connection has brought no reply at all for this time, a commit without a reply is sent to the next address. The
 * time is longer than the default of the primary's option --solo-after (1.5 s): a primary with a silent follower may
 * acknowledge nothing for that long. */
#define RESEND_ELSEWHERE_MS 1800u
#define DIAL_AGAIN_MIN_MS 50u /* pause between two rounds of all addresses, doubled each time */
#define DIAL_AGAIN_MAX_MS 400u
#define DIAL_PATIENCE_MS 1000u /* limit for one connection attempt if there are other addresses */
#define DIAL_PATIENCE_ALONE_MS 5000u
/* Limit for the TCP handshake, because the host may be dead. It holds in the first DIAL_ROUNDS_TCP rounds; a round
 * tries each address once. */
#define DIAL_PATIENCE_TCP_MS 300u
#define DIAL_ROUNDS_TCP 3u
/* A host counts as dead if its kernel acknowledges nothing for this time and there are other addresses. */
#define HOST_DEAD_AFTER_MS 800u
/* If a broker replies that it is not the primary, the client waits this long for its replies to other requests. */
#define NOT_PRIMARY_GRACE_MS 100u
#define GOODBYE_TIMEOUT_MS 200u
#define DRAIN_GRACE_MS 200u
/* The engine wakes by itself within this time after an event, so a thread that submits a request need not wake the
 * engine. */
#define LOOK_AGAIN_MS 1000u
#define LENT_MS LOOK_AGAIN_MS /* the engine takes back a borrowed connection that no caller has read for this time */
#define GATES 64u
/* A blocking call whose deadline is nearer than this is sent at once: it neither waits for other calls to share its
 * commit, nor delays them. */
#define GROUP_SPARE_MS 20u
#define REQUEST_ID_SIZE 4u /* size of the SP request id before each message, in bytes */
#define REQUEST_POOL_MAX 8u
#define MESSAGE_SIZE_MAX TARRY_MESSAGE_SIZE
#define ADDRESSES_MAX 16u
#define ADDRESS_SIZE_MAX (URL_SIZE_MAX + 1u)
#define SAID_SIZE_MAX 400u

/* Place of one request that has been sent and has no reply yet. */
struct slot {
    struct request *request; /* the request in this slot; NULL: the slot is free */
    uint32_t tag;            /* SP number of the request, repeated in the reply */
    struct packet packet;    /* send buffer, which is used again for each request */
};

/* Place where callers wait whose operations are in the same commit: one system call wakes them all. */
struct gate {
    atomic_uint turn;    /* a futex word; gate_open increases it */
    atomic_uint waiters; /* number of threads that are in gate_wait, or about to sleep in it */
};

/* Files that identify the client to a broker, and the trusted authorities. Owned copies; NULL: not used. */
struct credentials {
    char *token_file;
    char *tls_ca;
    char *tls_cert;
    char *tls_key;
    bool unsafe_plain_token;
};

/* The engine's epoll instance, and the eventfd that wakes it. */
struct loop {
    int epoll;
    int kick; /* eventfd that wakes the engine */
    uint64_t last_id;
};

struct address {
    struct place place;
    char said[SAID_SIZE_MAX];   /* last result of this address, as text; "": not tried yet */
    bool denied;                /* the last result was a refusal of this client's credentials */
    char logged[SAID_SIZE_MAX]; /* text of the last log event about this address */
    uint64_t logged_ms;         /* time of that log event; 0: none */
};

struct addresses {
    struct address items[ADDRESSES_MAX];
    size_t count;
};

/* Connection to the primary. One connection at a time; the addresses are tried in turn. */
struct link {
    struct ws_client connection;
    bool trying; /* a connection attempt is running */
    bool up;
    bool again;              /* close this connection and try the next address */
    uint64_t grace_until_ms; /* with `again` set: at this time the connection is closed in any case; before this time,
                                it is closed when no request is unanswered */
    uint64_t since_ms;       /* start of the current attempt */
    uint64_t progress_ms;    /* time of the connection attempt's last step (connected, secured) */
    uint32_t tries;          /* attempts since the last connection that brought a reply */
    uint32_t serial;         /* number of the current connection attempt; an event of an earlier attempt is ignored */
    uint32_t tried;          /* addresses tried in this round, as bits 1 << index */
    uint64_t retry_at_ms;    /* earliest time of the next connection attempt, if there is no connection */
    struct addresses addresses;
    size_t address; /* index of the current address */
    size_t opened;  /* index of the address that was connected last */
    size_t hint;    /* index of the address that a broker named as the primary; the count or more: none */
};

#define LEDGER_MAX (COMMITS_PER_PRODUCER_MAX - 1u)

/* Producer for named commits: commits that get their producer and sequence before they are sent, so that the program
 * can store them (once.c). */
struct ledger {
    uint64_t producer; /* number of the producer for named commits; 0: request one from the broker */
    uint64_t next_sequence;
    uint64_t open[LEDGER_MAX]; /* named commits without a reply */
    size_t open_count;
};

/* Callback of the program that will run later. Embedded in the struct of its user. */
struct deferred {
    struct deferred *next;
    void (*run)(struct deferred *deferred); /* calls the callback and frees the object */
};

/* Callbacks that wait for tarry_dispatch: see dispatch.c. */
struct dispatch {
    bool on;
    int fd;               /* eventfd; -1: off */
    pthread_mutex_t lock; /* protects the queue; no other lock is taken while it is held */
    struct deferred *first;
    struct deferred *last;
    pthread_mutex_t turn; /* held by the dispatching thread; taken before all other locks */
    pthread_t thread;     /* the dispatching thread; valid while is_running */
    atomic_bool is_running;
};

struct tarry_client {
    pthread_mutex_t lock;
    pthread_cond_t drained; /* condition: `pending` or `queued_size` has decreased */
    pthread_t engine;
    unsigned process; /* process that opened the client: see process_enter */
    bool engine_waits;
    bool kicked;
    bool heard; /* something has arrived on a connection since the engine last waited */
    bool closing;
    uint64_t engine_until_ms; /* time at which the engine's present wait ends at the latest */
    /* A caller that reads its reply itself: see caller.c. */
    pthread_cond_t turned; /* condition: caller_turns has become false */
    bool caller_reads;     /* a caller has borrowed the connection */
    bool caller_turns; /* a blocking call is reading its reply from the connection; the engine waits until that call has
                          finished */
    unsigned lone_calls;     /* number of consecutive blocking calls during which no other call waited; counted up to
                                LEND_AFTER (caller.c) */
    uint64_t caller_read_ms; /* time of the last read by a caller */
    struct loop loop;
    struct credentials credentials;
    struct link link;
    struct slot slots[SLOTS_MAX]; /* the slots of commits, and from index COMMITS_IN_FLIGHT_MAX on those of calls */
    uint32_t last_tag;
    uint32_t commits_in_flight;
    struct group group;
    char name[CLIENT_NAME_SIZE_MAX + 1];
    uint64_t timeout_ms;
    size_t queued_size_max;
    bool follower_reads;
    /* Requests. */
    struct commit_queue commits[COMMIT_RANKS];
    struct request_list resend;   /* commits that may have been executed, in order of sequence; usually few */
    struct request_list mixed;    /* commits in the queue of rank NEEDS_ROOM that also contain operations of other ranks
                                     (enum commit_rank) */
    struct request_list settling; /* commits that settle leases and have no reply */
    struct names names;           /* tasks that the unanswered operations of rank NEEDS_ROOM name */
    struct request_list calls;    /* calls that may be sent, in order */
    struct timers retries;        /* timers of refused calls: each expires when the call may be sent again */
    struct timers deadlines;
    struct request_list finished; /* completed requests, whose callbacks the engine will run */
    struct gate gates[GATES];
    unsigned next_gate;
    struct request *pool;
    size_t pool_count;
    size_t request_count; /* number of allocated requests, including unused ones in `pool` */
    uint64_t next_order;
    uint64_t next_settling;
    size_t pending; /* number of unanswered operations, not counting the library's own calls */
    size_t queued_size;
    size_t waiting;       /* number of unanswered requests, including the library's own */
    size_t primary_calls; /* number of unanswered calls (part of `waiting`) that only a primary can answer */
    uint64_t looks;       /* number of times that a waiting request was examined; a test checks that it stays small */
    unsigned polls;       /* number of unanswered requests (part of `waiting`) of audits that wait for new frames */
    /* Producer under whose number the client sends its commits (ONCE-1). */
    uint64_t producer; /* number of the producer; 0: request one from the broker */
    uint64_t next_sequence;
    struct ledger ledger;
    uint8_t greeted[CLUSTER_ID_SIZE]; /* cluster that issued the producer numbers; all zero: not known yet */
    bool hello_under_way;
    uint64_t hello_retry_ms;
    int hello_refused; /* error code with which waiting commits fail, because the broker has finally refused Hello; 0:
                          not refused */
    char hello_message[256];
    uint32_t request_max;
    uint8_t cluster[CLUSTER_ID_SIZE]; /* id of the cluster that issued the first producer */
    size_t cluster_size; /* size of `cluster` in bytes; 0: the cluster is not known, or there is only one address */
    /* Silence. */
    uint64_t answered_ms; /* time of the last reply; NOT_PRIMARY does not count */
    uint64_t left_ms; /* time at which the client last decided to leave an address, because a commit was unanswered for
                         RESEND_ELSEWHERE_MS; 0: never */
    uint64_t primary_ms;       /* time of the last reply from a primary */
    uint64_t waiting_since_ms; /* start of the present silence: when `waiting` became positive, or when an event last
                                  reported that the broker is silent */
    char busy_reason[MESSAGE_SIZE_MAX]; /* message of the last BUSY refusal */
    uint64_t not_primary_ms;            /* time of a NOT_PRIMARY reply with no other reply since; 0: none */
    struct tarry_consumer *consumers;
    struct dispatch dispatch;
    /* Events that have not been reported yet. */
    tarry_event_fn on_event;
    void *event_arg;
    struct deferred *events_first; /* events that the engine reports; used without tarry_options.dispatch */
    struct deferred *events_last;
    size_t event_count; /* number of waiting events, in this queue and in the queue of tarry_dispatch */
    size_t events_dropped;
};

/* ---- thread.c: CLOCK_MONOTONIC and CLOCK_REALTIME in milliseconds */
uint64_t now_ms(void);
uint64_t wall_ms(void);
void deadline_after(uint64_t wait_ms, struct timespec *out_deadline);
void sleep_ms(uint64_t wait_ms);
/* Waits until an operation completes or the client closes. False: until_ms has passed (UINT64_MAX: no limit). Lock
 * held. */
bool wait_drained(tarry_client *client, uint64_t until_ms);
int cond_init_monotonic(pthread_cond_t *cond);

/* ---- thread.c: the library's threads, and checks of the calling thread */
/* Blocks all signals on the calling thread. Threads that it starts before signals_restore inherit this. */
void signals_block(sigset_t *out_before);
void signals_restore(const sigset_t *before);
/* Starts a thread with a name and all signals blocked. TARRY_E_SYSTEM. */
int thread_start(pthread_t *thread, void *(*run)(void *), void *arg, const char *name);
/* Returns a number that identifies this process among those that fork has created. TARRY_E_FORKED: a child process
 * may not open a client. */
int process_enter(unsigned *out_process);
/* True: this process is a child of the process that opened the client. It may only free the client's memory. */
bool process_is_other(const tarry_client *client);
/* Checks that a call is allowed, before any lock is taken. TARRY_E_ARGUMENT: no client; TARRY_E_FORKED. */
int may_call(const tarry_client *client);
/* Checks like may_call, and returns TARRY_E_CALLBACK on the client's own thread. */
int may_block(const tarry_client *client);

/* ---- pack.c: arguments to packed operations. Each returns 0 or a TARRY_ code; `body` is untouched on failure. */
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
int pack_recur_set(struct buffer *body, const struct tarry_recur_options *options);
int pack_recur_do(struct buffer *body, const char *queue, const char *name, enum tarry_recur_what what);
int pack_queue_delete(struct buffer *body, const char *queue);
int pack_queue_purge(struct buffer *body, const char *queue, uint32_t states);
/* Converts a reference. `out` borrows from `ref`. 0 or TARRY_E_ARGUMENT. */
int ref_to_proto(const struct tarry_ref *ref, bool needs_key, Tarry__Ref *out);

/* ---- once.c: names of commits. Lock held. */
/* Returns the number for Commit.oldest_unanswered when the commit called `id` (a named commit, see struct ledger) is
 * sent. */
uint64_t ledger_oldest(const struct ledger *ledger, const struct tarry_commit_id *id);
/* Forgets a named commit, because it was answered or will never be sent. */
void ledger_close(struct ledger *ledger, const struct tarry_commit_id *id);
/* Makes the client use a new producer from now on. A commit of `producer` has an unknown outcome, so the broker must
 * keep the replies to that producer's commits. */
void producer_leave(tarry_client *client, uint64_t producer);

/* ---- dispatch.c. No lock needed, except where noted. */
int dispatch_open(tarry_client *client, bool on);
void dispatch_close(tarry_client *client); /* runs all remaining callbacks, because the client closes */
void dispatch_signal(tarry_client *client);
void dispatch_push(tarry_client *client, struct deferred *deferred);
/* True inside a callback that tarry_dispatch called. */
bool dispatch_is_me(const tarry_client *client);
/* If the program uses tarry_dispatch, changes the note of an asynchronous operation so that its callback runs in
 * tarry_dispatch, not on the engine's thread. TARRY_E_NOMEM. */
int dispatch_defer(tarry_client *client, struct op_note *note);
/* Undoes dispatch_defer, because the operation was not submitted. */
void dispatch_undefer(const struct op_note *note);
/* Returns the argument that the callback `done` will get for this operation, at once or by tarry_dispatch. NULL: the
 * operation's callback is not `done`. */
void *dispatch_argument(const struct op_note *note, tarry_done_fn done);
/* Runs a consumer's handler for one task (consumer.c). False: no task waits. */
bool consumers_handle_one(tarry_client *client);

/* ---- dispatch.c: events. Lock held. */
void event_note(tarry_client *client, enum tarry_event_kind kind, const char *url, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Adds a log event with the last result of this address, unless the last such event had the same text. */
void event_note_address(tarry_client *client, struct address *address);
/* Passes the waiting events to the program's callback; releases the lock meanwhile. */
void events_tell(tarry_client *client);

/* ---- commit.c: functions for once.c. No lock. */
tarry_client *commit_client(const tarry_commit *commit);
/* Returns the commit's name; NULL: it has none. */
const struct tarry_commit_id *commit_name(const tarry_commit *commit);
void commit_set_name(tarry_commit *commit, const struct tarry_commit_id *id);
/* Stores the results of the commit, and takes ownership of `results`. */
void commit_take_results(tarry_commit *commit, struct tarry_result *results, size_t count);

/* ---- engine.c: lock held, except where noted. */
void *engine_run(void *arg); /* main function of the engine's thread; `arg` is the client; called without its lock */
void engine_kick(tarry_client *client);        /* wakes the engine, so that it looks for work again */
bool engine_is_me(const tarry_client *client); /* no lock */
/* Handles a submitted request. `sends`: the calling thread waits for the reply, so it sends the request itself if the
 * request may be sent now. */
void engine_submitted(tarry_client *client, bool sends);
/* Records the cluster from a HelloReply. */
void note_greeting(tarry_client *client, ProtobufCBinaryData cluster);
int request_fail(struct request *request, int code, const char *message);
/* If all finished requests belong to blocking calls, completes them and so wakes their threads. Otherwise the engine
 * completes them, because it runs the callbacks. Releases the lock meanwhile. */
void engine_complete_callers(tarry_client *client);

/* ---- caller.c: lock held, except where noted. */
/* Called after a blocking call was submitted. True: it is the only one, so its thread reads the reply (caller_read). */
bool caller_may_read(tarry_client *client);
/* Reads and completes replies until a completion sets `is_done`, or until another thread must read. The caller does not
 * hold the lock. */
void caller_read(tarry_client *client, const atomic_bool *is_done);
/* Gives the connection back to the engine. */
void caller_take_back(tarry_client *client);
/* Returns true if a blocking call has taken over the connection (caller.c) but no longer reads it, so the engine must
 * read it again. */
bool caller_is_gone(const tarry_client *client, uint64_t now);

/* ---- slots.c: requests that were sent. Lock held. */
/* Returns a free slot of [from, to); NULL: none. */
struct slot *slot_free(tarry_client *client, uint32_t from, uint32_t to);
/* Returns a slot for the next commit; NULL: it may not be sent now. */
struct slot *slot_for_commit(tarry_client *client);
/* Sends the request and moves it from its queue to the slot. False: out of memory; the request stays where it was. */
bool slot_send(tarry_client *client, struct slot *slot, struct request *request, uint64_t now);
/* Empties the slot. A later reply is ignored, and bytes that have not left are not sent. */
struct request *slot_release(tarry_client *client, struct slot *slot);
/* Returns the slot whose request this reply belongs to; NULL: no request waits for it. */
struct slot *slot_of(tarry_client *client, uint32_t tag);
/* Looks at the sent commits that contain only blocking calls. Returns the number of these calls. */
size_t slots_callers(const tarry_client *client);
/* True: a request has been sent and has no reply. */
bool slots_busy(const tarry_client *client);

/* ---- slots.c: replies. Lock held. */
/* Handles one message from the broker. Releases the lock meanwhile. False: the message is not a valid reply. */
bool answer_take(tarry_client *client, const uint8_t *data, size_t size);
/* Handles a lost connection: the outcome of all sent requests is unknown. */
void answers_lost(tarry_client *client);
/* Queues a request whose outcome is unknown to be sent again, not before at_ms. */
void answer_lost(tarry_client *client, struct request *request, uint64_t at_ms, uint64_t now);

/* ---- credentials.c */
#define TOKEN_SIZE_MAX 255u
/* Reads a token from a file: one word of printable ASCII, with an optional line end. Returns false after an error, with
 * the message in `said`. */
bool private_read_token(const char *path, char out[TOKEN_SIZE_MAX + 1], char *said, size_t size);
/* Copies the file names from the options, or from the environment if not given. TARRY_E_NOMEM. */
int credentials_take(struct credentials *credentials, const struct tarry_options *options);
void credentials_drop(struct credentials *credentials);
/* Makes the TLS context of a connection (struct tls_source); `argument`: the credentials. */
SSL_CTX *credentials_tls_context(void *argument, char said[TLS_SAID_MAX]);

/* ---- loop.c */
int loop_open(struct loop *loop);
void loop_close(struct loop *loop);
/* Wakes the engine. Any thread. */
void loop_kick(struct loop *loop);
/* Waits for events until until_ms (UINT64_MAX: no limit) and handles them. Lock held; released meanwhile. */
void loop_wait(tarry_client *client, uint64_t until_ms);

/* ---- caller.c: the gate. No lock. */
/* Waits until another thread calls gate_open, unless one has called it since the caller read `turn` from gate->turn.
 * May return too early. */
void gate_wait(struct gate *gate, unsigned turn);
void gate_open(struct gate *gate);

/* ---- link.c: addresses. No I/O, no lock. */
/* Adds the addresses of a list "ws://host:port,…"; NULL: the default URL. TARRY_E_ADDRESS. */
int addresses_parse(struct addresses *addresses, const char *urls);
/* Returns the index of the address that `url` means, in any spelling; the count: none. */
size_t addresses_find(const struct addresses *addresses, const char *url);
void address_say(struct address *address, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes "ws://a:1: its last result; ws://b:2: …", cut to `size` bytes. */
void addresses_tell(const struct addresses *addresses, char *out, size_t size);

/* ---- link.c: lock held, except where noted. */
void link_begin(tarry_client *client);
void link_end(tarry_client *client);
/* Sends a packet without a slot and waits for the reply. The engine must have stopped, and the link be up. No lock. */
void link_ask_last(tarry_client *client, struct packet *packet, uint64_t patience_ms);
void link_step(tarry_client *client, uint64_t now);
/* Handles epoll events of the link's connection. Releases the lock meanwhile. */
void link_turn(tarry_client *client, uint32_t events);
uint64_t link_deadline(const tarry_client *client);
bool link_is_ready(const struct link *link); /* true: requests may be sent */
/* True: every address has refused this client's credentials. */
bool link_is_denied(const struct link *link);
/* Notes that the current broker is not the primary. `primary`: the address that it names; "": none. */
void link_not_primary(struct link *link, const char *primary, const char *message);
/* Leaves the current broker, because it is silent, for the next address. */
void link_stalled(tarry_client *client);
/* Writes the last result of each address to `out`. */
void link_tell(tarry_client *client, char *out, size_t size);

/* ---- words.c: parses digits without sign or leading zeros. Returns the end of the number, or NULL if there is none
 * up to `max`. */
const char *parse_number(const char *text, uint64_t max, uint64_t *out_value);

/* ---- words.c: results */
/* Converts a code of the wire protocol to enum tarry_code. TARRY_E_PROTOCOL: a broker cannot send this code
 * (negative, or a library code). */
int code_from_proto(Tarry__Code code);
void result_from_proto(const Tarry__OpResult *from, struct tarry_result *out);
void policy_from_proto(const Tarry__Policy *from, struct tarry_policy *out);
void result_failed(int code, const char *message, struct tarry_result *out);
/* Copies a result, and of its message only the used bytes. */
void result_copy(const struct tarry_result *from, struct tarry_result *out);
struct tarry_source source_of(const Tarry__Reply *reply);
/* Writes `message` to the caller's array, cut to its size. Nothing if the array is NULL. */
void message_set(char out_message[TARRY_MESSAGE_SIZE], const char *message);
/* Writes the code's sentence to the caller's array. Returns the code. */
int message_say(char out_message[TARRY_MESSAGE_SIZE], int code);
/* Copies `size` bytes of the caller's options (NULL: all 0). TARRY_E_VERSION: a byte from `reserved_at` on is not 0,
 * so the program uses a newer header. */
int options_take(void *out, const void *given, size_t size, size_t reserved_at);
#define OPTIONS_TAKE(out, given) options_take(&(out), (given), sizeof(out), offsetof(__typeof__(out), reserved))
/* Like OPTIONS_TAKE, for a struct that has a `call` right before its own reserved fields. Checks the reserved fields of
 * `call`, too. */
#define OPTIONS_CALL_TAKE(out, given)                                                                                  \
    options_take(&(out), (given), sizeof(out), offsetof(__typeof__(out), call.reserved))
/* Copies `message`, cut to `size` bytes. Returns `text`. */
const char *message_copy(char *text, size_t size, const char *message);

/* ---- call.c: blocking calls other than commits */
struct call {
    atomic_bool is_done; /* true: the call has a result; set before the semaphore `ready` is posted */
    sem_t ready;
    int code;
    Tarry__Reply *reply; /* the reply, in `arena`; NULL unless the code is TARRY_OK */
    struct arena arena;
    const char *message;
    char message_text[MESSAGE_SIZE_MAX];
};
/* Sends `wire` and waits for the reply. On TARRY_OK the reply is in `call`. Otherwise `out_message` has a sentence.
 * The caller must use call_end in both cases. */
int call_run(tarry_client *client, Tarry__Request *wire, struct call *call, char out_message[TARRY_MESSAGE_SIZE]);
/* Like call_run, with a timeout of its own. 0: the client's; TIMEOUT_NEVER: none. */
int call_run_within(tarry_client *client, Tarry__Request *wire, uint32_t timeout_ms, struct call *call,
                    char out_message[TARRY_MESSAGE_SIZE]);
/* Writes at_least, staleness_ms and the follower's waiting time into `wire`. TARRY_E_ARGUMENT. */
int call_wish(const tarry_client *client, Tarry__Request *wire, const struct tarry_call *options);
void call_end(struct call *call);
/* Moves the reply's memory to `arena`. The reply is valid as long as that arena. */
void call_keep(struct call *call, struct arena *arena);

/* ---- session.c: the engine's part of consumers. Lock held. */
void sessions_step(tarry_client *client, uint64_t now);
/* Handles epoll events of a connection that may be a consumer's lane (the connection that brings its deliveries).
 * Releases the lock meanwhile. */
void sessions_turn(tarry_client *client, uint64_t id, uint32_t events);
uint64_t sessions_deadline(const tarry_client *client);
void sessions_silent(tarry_client *client);
/* Makes consumers with a lane on the current address subscribe elsewhere, because its host has died. */
void sessions_host_dead(tarry_client *client, uint64_t now);
/* Checks that the client may be closed. TARRY_E_CALLBACK: this thread runs a consumer's handler. TARRY_E_ARGUMENT: a
 * consumer is open. */
int sessions_may_close(const tarry_client *client);
/* Removes the leases that these operations settled. No lock. */
void sessions_settled(tarry_client *client, const struct request *request);

#endif
