/* amqp_parts.h: declarations shared by the files of the AMQP door; no other file includes it. Door's thread only. */
#ifndef TARRY_AMQP_AMQP_PARTS_H
#define TARRY_AMQP_AMQP_PARTS_H

#include <sys/queue.h>

#include "amqp.h"
#include "amqp_codec.h"
#include "amqp_message.h"
#include "amqp_topology.h"
#include "gateway.h"
#include "tarry.pb-c.h"
#include "tarry_limits.h"

#define AMQP_CHANNEL_MAX 2047u
#define AMQP_FRAME_MAX (128u << 10)
#define AMQP_HEARTBEAT_S 60u
/* Maximum size of a frame in bytes before the client is admitted. */
#define AMQP_FRAME_STRANGER_MAX (16u << 10)
/* Time limits for the client's handshake, and for its close-ok. */
#define AMQP_HANDSHAKE_MS 10000u
#define AMQP_CLOSING_MS 5000u
/* Duration of the leases of deliveries, and the age at which a lease is extended while the connection lives.
 */
#define AMQP_LEASE_MS 600000u
#define AMQP_EXTEND_MS 180000u
/* Maximum number of unacknowledged deliveries of a channel whose consumers have no prefetch. */
#define AMQP_UNACKED_MAX 16384u
#define AMQP_CONSUMERS_MAX 1024u /* maximum number of consumers of a connection */
#define AMQP_FETCH_MAX 256u      /* maximum number of messages in one lease of a consumer */
/* Number of unsent bytes above which nothing is delivered until the client has read. */
#define AMQP_UNSENT_MAX (1u << 20)
/* Number of waiting input bytes at which the door stops reading from the connection. */
#define AMQP_INPUT_MAX (256u << 10)
/* Limits of the publishes that wait for their commit; beyond them, the connection's input waits. */
#define AMQP_OUTBOX_BYTES_MAX (4u << 20)
#define AMQP_OUTBOX_ITEMS_MAX 4096u
/* Size limits of one commit of an outbox. */
#define AMQP_COMMIT_BYTES_MAX (2u << 20)
#define AMQP_COMMIT_OPS_MAX 2048u
/* Maximum size of the contents of all copies of one message. */
#define AMQP_FANOUT_BYTES_MAX (REQUEST_SIZE_MAX - (1u << 20))
#define AMQP_TX_OPS_MAX 4096u /* maximum number of operations of a transaction */
#define AMQP_BUSY_MS 50u
#define AMQP_SPACE "amqp" /* name of the space that contains AMQP's definitions */

enum { /* reply codes */
       AMQP_NO_ROUTE = 312,
       AMQP_FORCED = 320,
       AMQP_ACCESS_REFUSED = 403,
       AMQP_NOT_FOUND = 404,
       AMQP_RESOURCE_LOCKED = 405,
       AMQP_PRECONDITION = 406,
       AMQP_FRAME_ERROR = 501,
       AMQP_SYNTAX_ERROR = 502,
       AMQP_COMMAND_INVALID = 503,
       AMQP_CHANNEL_ERROR = 504,
       AMQP_UNEXPECTED_FRAME = 505,
       AMQP_RESOURCE_ERROR = 506,
       AMQP_NOT_ALLOWED = 530,
       AMQP_NOT_IMPLEMENTED = 540,
       AMQP_INTERNAL_ERROR = 541
};

struct amqp_connection;
struct channel;
typedef void counted(struct amqp_connection *connection, uint64_t messages);

/* ---- amqp_outbox.c: commits of one client, one at a time, so that they keep their order */
/* A leased task, and the token of its lease. */
struct leased_task {
    uint64_t id, position;
    uint32_t epoch;
};
static inline struct leased_task leased_task_of(const Tarry__DeliveredTask *task) {
    return (struct leased_task){.id = task->id, .position = task->token->position, .epoch = task->token->epoch};
}

enum item_kind { ITEM_MESSAGE, ITEM_ACK, ITEM_RELEASE, ITEM_EXTEND, ITEM_BURY };
struct target {
    const char *queue; /* name of the queue, in the item's memory */
    uint64_t delay_ms;
    uint64_t expires_ms;
    uint32_t priority;
};
struct item {
    TAILQ_ENTRY(item) next;
    enum item_kind kind;
    bool acks;               /* true: the message replaces a leased one, which the same commit acks */
    struct leased_task task; /* the leased task that the item settles */
    uint64_t channel_serial;
    uint64_t confirm; /* number of the publisher confirm; 0: no confirm */
    uint8_t *content;
    size_t content_size;
    const char *key; /* key of the message, in the item's memory; NULL: no key */
    size_t target_count;
    struct target targets[];
};
TAILQ_HEAD(items, item);
struct outbox {
    struct gateway *gateway;
    uint64_t principal;
    const char *peer;
    struct items items; /* the first `sent` items are in the commit that is running */
    size_t count, bytes, sent;
    size_t alone; /* number of items at the start of the list that are committed one by one, because a commit of all was
                     refused */
    uint64_t asked, timer;
    bool is_telling; /* results are being reported, so no commit starts */
    bool is_whole;   /* all items form one atomic commit: a transaction */
    unsigned busy_count;
    /* Reports the result of an item; called within outbox_flush or in the door's rounds. */
    void (*settled)(void *argument, const struct item *item, Tarry__Code code, const char *message);
    /* Called when a commit has ended, after the results of its items. */
    void (*went_on)(void *argument);
    void *argument;
};
void outbox_init(struct outbox *outbox, struct gateway *gateway, uint64_t principal, const char *peer, void *argument);
/* Makes a message for `targets` that takes over `content`. NULL: out of memory. */
struct item *item_of_message(const struct amqp_targets *targets, uint8_t *content, size_t content_size,
                             struct amqp_bytes key);
struct item *item_of_lease(enum item_kind kind, const struct leased_task *task);
/* Copies a message, without its key; NULL: out of memory. */
struct item *item_without_key(const struct item *item);
void item_free(struct item *item);
void outbox_add(struct outbox *outbox, struct item *item);
/* Commits the waiting items, unless a commit is running. */
void outbox_flush(struct outbox *outbox);
bool outbox_is_idle(const struct outbox *outbox);
/* Sends the commits of all waiting items, and frees all items. The outbox ignores the replies. */
void outbox_end(struct outbox *outbox);

/* ---- amqp_store.c: the definitions in the log, and whose turn it is to change them */
struct job {
    TAILQ_ENTRY(job) next;
    void (*run)(void *argument);
    void *argument;
    enum { JOB_IDLE, JOB_WAITS, JOB_RUNS } state;
};
TAILQ_HEAD(jobs, job);
struct change;
/* Called when a commit of definitions has ended. If `code` is not OK, `sentence` gives the reason, and only the first
 * `deleted` of the objects to delete are deleted in the log. The deletion can be incomplete because a commit contains
 * at most DEFINES_PER_COMMIT_MAX changes. */
struct stored_result {
    Tarry__Code code;
    const char *sentence;
    uint64_t purged; /* messages */
    size_t deleted;
};
typedef void stored(void *argument, const struct stored_result *result);
struct store {
    struct gateway *gateway;
    struct amqp_topology topology;
    enum { STORE_EMPTY, STORE_LOADS, STORE_LOADED } state;
    struct jobs jobs;
    struct job *running;
    struct change *changes;
    size_t change_count, change_capacity;
    size_t change_done; /* number of changes, from the first, that are durable */
    size_t change_sent; /* number of changes in the current commit; they follow the first `change_done` changes */
    stored *stored;
    void *argument;
    bool failed;        /* memory was exhausted while changes were collected */
    int64_t held_bytes; /* bytes of the topology that the door has counted */
    uint64_t purge_job;
    char purging[AMQP_DEFINITION_KEY_SIZE]; /* name of the queue that `purge_job` purges */
    bool is_dispatching;
    struct loading *loading;
    void (*loaded)(void *argument, Tarry__Code code, const char *primary);
    void *loaded_argument;
};
/* The broker itself as the caller of a request. Release its principal with gateway_disown. */
struct gateway_caller own_caller(struct gateway *gateway);
/* Reads the definitions into the topology. */
void store_load(struct store *store);
void store_forget(struct store *store);
void store_free(struct store *store);
/* Runs the job when its turn comes, possibly at once. */
void store_enter(struct store *store, struct job *job, void (*run)(void *argument), void *argument);
void store_leave(struct store *store, struct job *job);
/* Removes a waiting job. Returns false if the job is running. */
bool store_cancel(struct store *store, struct job *job);
/* Adds the definition to the changes, and frees it. */
void store_put(struct store *store, const char *key, struct amqp_out *definition);
/* Adds the deletion of all doomed objects (amqp_topology.h) to the changes. Call it before store_purge and the two
 * functions after store_purge, because `stored_result.deleted` counts deletions from the first change. */
void store_delete_doomed(struct store *store);
/* Ends the messages of the queue. Does nothing if no message has ever been in it. */
void store_purge(struct store *store, const char *queue);
/* Sets the queue's policy lease_before_due. With it, consumers may lease a message before it is due; the mover leases
 * it when it is due. */
void store_holding(struct store *store, const char *queue, bool is_holding);
void store_commit(struct store *store, stored *done, void *argument);

/* ---- consumers, channels, connections and the server */

/* A message on its way to a client. The result of its lease is not reported yet (gateway_left). */
struct sending {
    TAILQ_ENTRY(sending) next;
    struct amqp *server;
    struct amqp_connection *connection; /* the client's connection; NULL: it has ended */
    uint64_t lease;
    size_t ack_count; /* number of tasks in `acks`; the broker acks them when the message has been sent */
    struct leased_task acks[];
};
TAILQ_HEAD(sendings, sending);

struct unacked {
    TAILQ_ENTRY(unacked) next;   /* entry in a list of deliveries, ordered by tag */
    struct unacked *same_bucket; /* next entry in the same bucket of the channel's table of tags */
    uint64_t tag;
    struct leased_task task;
    uint64_t lease_until_ms;
    struct consumer *consumer; /* the consumer; NULL: delivered by basic.get, or the consumer was cancelled */
    bool has_dead_exchange;    /* the queue has a dead-letter exchange */
    enum item_kind outcome;    /* how the message will be settled; in a transaction, at tx.commit */
    bool dies;
    /* The task needs no further settling, because its queue was deleted or a transaction rejected it. */
    bool is_settled;
};
TAILQ_HEAD(unacked_list, unacked);

struct consumer {
    TAILQ_ENTRY(consumer) in_channel, in_queue;
    struct channel *channel;
    struct amqp_queue *queue;
    bool no_ack, exclusive;
    uint32_t prefetch, unacked;
    uint64_t lease;        /* handle of the awaited lease */
    uint64_t timer;        /* timer of the retry after BUSY */
    struct amqp_bytes tag; /* in `tag_bytes` */
    uint8_t tag_bytes[];
};

/* A message that a client publishes, while it arrives. */
struct arriving {
    bool is_open, has_head, mandatory;
    struct amqp_bytes exchange, key; /* within `names` */
    uint8_t *names;
    uint8_t *properties;
    size_t properties_size;
    uint8_t *body;
    size_t body_size, body_at, body_capacity;
};

#define REPLY_SECRET_SIZE 33u /* size of a secret: 128 random bits in hexadecimal */
/* Size of a reply address: prefix, connection id, channel serial and secret, with the NUL. */
#define REPLY_ADDRESS_SIZE 100u

/* The consumer of amq.rabbitmq.reply-to on a channel. */
struct reply {
    char secret[REPLY_SECRET_SIZE];
    struct amqp_bytes tag; /* in `tag_bytes` */
    uint8_t tag_bytes[];
};

struct channel {
    TAILQ_ENTRY(channel) next;
    struct amqp_connection *connection;
    uint16_t number;
    uint64_t serial;
    bool is_closing; /* channel.close was sent, and close-ok is awaited */
    bool confirms, in_tx;
    uint32_t prefetch, prefetch_all;
    uint64_t next_tag;     /* tag of the next delivery */
    uint64_t next_confirm; /* number of the next publisher confirm */
    /* Tag of the last stored publish whose confirm is not sent yet; 0: none. One basic.ack confirms the publishes from
     * `run_from` to `run`. */
    uint64_t run;
    uint64_t run_from;
    struct amqp_consumers consumers;
    struct unacked_list unacked;
    uint32_t unacked_count;
    struct unacked **tags; /* hash table of `unacked`: a tag's bucket is the tag modulo tag_capacity, a power of two */
    size_t tag_capacity;
    struct unacked_list tx_unacked; /* deliveries that the transaction settles */
    size_t tx_unacked_count;
    struct items tx_items; /* messages that the transaction publishes */
    size_t tx_count, tx_bytes;
    struct arriving arriving;
    struct reply *reply; /* consumer of replies; NULL: the channel does not consume from amq.rabbitmq.reply-to */
    char last_queue[AMQP_NAME_MAX + 1]; /* name of the queue that was declared last; a method with an empty queue name
                                           means this queue */
};
TAILQ_HEAD(channels, channel);

enum phase { PHASE_HEADER, PHASE_START, PHASE_TUNE, PHASE_OPEN, PHASE_LOADS, PHASE_RUNS, PHASE_CLOSING, PHASE_OVER };

struct amqp_connection {
    TAILQ_ENTRY(amqp_connection) all;
    struct amqp *server;
    uint64_t id, principal;
    char peer[PEER_SIZE_MAX + 1];
    char holder[PRINCIPAL_SIZE_MAX + 1];
    char user[AMQP_SHORTSTR_MAX + 1];
    enum phase phase;
    bool shows_token;
    bool can_cancel, can_blocked, can_auth_close; /* capabilities that the client has stated */
    bool is_blocked;
    bool has_sent; /* bytes were sent since the last heartbeat */
    bool is_running, is_deaf, is_gone;
    bool is_busy; /* a method is being carried out */
    uint32_t frame_max;
    uint16_t channel_max, heartbeat_s;
    uint64_t heartbeat_timer, extend_timer;
    struct channels channels;
    uint32_t channel_count, consumer_count;
    uint64_t channel_serial;
    struct outbox published, settles, transaction;
    Tarry__Code transaction_code; /* code of the transaction's first item that was refused */
    /* Messages that the transaction rejects; NULL: no transaction is under way. */
    struct leased_task *transaction_dying;
    size_t transaction_dying_count;
    char transaction_message[128];
    struct amqp_out out;

    uint8_t *input; /* input that waits, including a part of a frame */
    size_t input_size, input_at;
    size_t half_size;   /* bytes that the door has counted for arriving messages */
    int64_t held_bytes; /* bytes of memory that the door counts for the channels and deliveries of this connection */

    /* The method that is being executed. Input waits until it ends. */
    struct job job;
    /* Function that executes the method once earlier publishes and acks are durable. */
    void (*op)(struct amqp_connection *connection);
    uint8_t *held; /* the method's bytes */
    struct amqp_method method;
    uint16_t method_channel;
    counted *counts;
    uint64_t asked;
    uint64_t get_lease;            /* basic.get: handle of the awaited lease */
    uint64_t counted;              /* basic.get, queue.delete: number of messages in the queue before the method */
    bool has_exclusive;            /* the connection has declared an exclusive queue */
    struct amqp_queue *made_queue; /* object that the method is adding: a queue, an exchange or a binding */
    struct amqp_exchange *made_exchange;
    struct amqp_binding *made_binding;
};
TAILQ_HEAD(amqp_connections, amqp_connection);

struct mover;
struct drop;
TAILQ_HEAD(drops, drop);
struct amqp {
    struct gateway *gateway;
    struct door *door;
    struct door_stream_calls calls;
    struct store store;
    struct amqp_counts counts;
    struct amqp_connections connections;
    struct sendings sendings;
    struct drops drops;
    uint32_t epoch; /* epoch in which the definitions were read */
    struct mover *mover;
    uint64_t names; /* number of names generated until now */
    char id[17];
    uint64_t tick_timer; /* handle of the periodic timer; 0: the door has no listener for AMQP */
    /* The timer of the next search for queues that have expired, and the search's time. */
    uint64_t expiry_timer, expiry_at_ms;
};

/* ---- amqp.c: connections */
uint64_t amqp_now_ms(void);
/* Sends the bytes that were written to `out`. */
void client_send_out(struct amqp_connection *connection);
/* Sends the bytes and frees `out`. `sending` gets the result of the sending (sending_sent); NULL: no code needs the
 * result. */
void client_send(struct amqp_connection *connection, struct amqp_out *out, struct sending *sending);
/* Ends the connection with connection.close. */
void client_fail(struct amqp_connection *connection, unsigned code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends the connection because of `code`, one of those of code_ends_connection. */
void client_refuse(struct amqp_connection *connection, Tarry__Code code, const char *primary);
/* Returns whether this code of the broker ends the connection: NOT_PRIMARY, STOPPING or FAILED. */
bool code_ends_connection(Tarry__Code code);
/* Counts memory of the connection; a negative number returns memory. Returns false if the memory limit is reached. */
bool client_hold(struct amqp_connection *connection, int64_t bytes);
struct gateway_caller client_caller(const struct amqp_connection *connection);
/* Ends the method that is being executed, and continues with the input. May free the connection. */
void op_end(struct amqp_connection *connection);
/* Executes the waiting method if no earlier publish or ack is running. */
void op_try(struct amqp_connection *connection);
/* Continues after an event for which the connection's input waited. */
void client_go_on(struct amqp_connection *connection);

/* Updates the numbers of exchanges, queues and bindings, and the memory that the door counts for them. */
void topology_count(struct amqp *server);

/* ---- amqp_channel.c: channels and their methods */
void channel_method(struct amqp_connection *connection, uint16_t number, const struct amqp_method *method,
                    struct amqp_bytes payload);
void channel_content(struct amqp_connection *connection, const struct amqp_frame *frame);
/* Ends the channel with channel.close. */
void channel_fail(struct channel *channel, unsigned code, enum amqp_method_kind kind, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Executes a method once earlier publishes and acks are durable; meanwhile input waits. */
void op_begin(struct amqp_connection *connection, uint16_t channel, struct amqp_bytes payload,
              void (*op)(struct amqp_connection *connection));
struct channel *op_channel(struct amqp_connection *connection);
/* Ends the work of all channels without a message to the client. channels_end frees the channels. */
void channels_leave(struct amqp_connection *connection);
/* Ends the work of all channels, and frees them. */
void channels_end(struct amqp_connection *connection);
void channel_count_half(struct amqp_connection *connection, size_t before, size_t after);

/* ---- amqp_declare.c: methods that change exchanges, queues and bindings */
void op_declare_queue(struct amqp_connection *connection);
void op_declare_exchange(struct amqp_connection *connection);
void op_bind(struct amqp_connection *connection);
void op_unbind(struct amqp_connection *connection);
void op_delete_queue(struct amqp_connection *connection);
void op_delete_exchange(struct amqp_connection *connection);
void op_purge_queue(struct amqp_connection *connection);
/* Removes the objects that are deleted in the log from the topology, and deletes their queues in the broker later. */
void remove_doomed(struct amqp *server, const struct stored_result *result);
void declare_forget(struct amqp_connection *connection);
/* Requests the number of messages that wait in a queue, and passes it to the callback `counts`. An unknown number is
 * passed as 0. */
void queue_count(struct amqp_connection *connection, const char *name, counted *counts);
/* Returns the queue that the method names, if the connection may use it; NULL: the channel has failed. */
struct amqp_queue *queue_of(struct channel *channel, struct amqp_bytes name, enum amqp_method_kind kind);
/* Returns the queue in a field of the method that is being executed; NULL: the channel has gone or failed. */
struct amqp_queue *op_queue(struct amqp_connection *connection, int field);
/* Returns a number of messages for a field of 32 bits; a larger number becomes UINT32_MAX. */
static inline unsigned count_field(uint64_t messages) {
    return messages < UINT32_MAX ? (unsigned)messages : UINT32_MAX;
}

/* ---- amqp_drop.c: queues that end without a client's request */
/* Deletes the queue if its owner or its last consumer has gone, or it has expired. */
void queue_drop(struct amqp *server, const char *name);
/* Deletes the broker's queue of an AMQP queue that was deleted. */
void queue_forget(struct amqp *server, const char *name);
/* Says that a client has used the queue, so that x-expires counts from now. */
void queue_used(struct amqp *server, struct amqp_queue *queue);
/* Drops the exclusive queues of the connection with this id. */
void declare_drop_exclusive(struct amqp *server, uint64_t owner);
/* Called when all definitions were read from the log. Drops the exclusive queues that an earlier broker process
 * created, and starts the x-expires timers. */
void queues_loaded(struct amqp *server);
void drops_free(struct amqp *server);

/* ---- amqp_publish.c */
void publish_begin(struct channel *channel, const struct amqp_method *method);
void publish_content(struct channel *channel, const struct amqp_frame *frame);
void arriving_end(struct channel *channel);
void publish_settled(void *argument, const struct item *item, Tarry__Code code, const char *message);
void publish_went_on(void *argument);
/* Executes tx.commit: the transaction's publishes and settles become one atomic commit. */
void op_commit(struct amqp_connection *connection);
void transaction_settled(void *argument, const struct item *item, Tarry__Code code, const char *message);
void transaction_went_on(void *argument);
/* Drops the messages that the transaction has published. */
void transaction_drop(struct channel *channel);
/* Sets delay, expiration and priority of the item's message in each target queue, from the queue's arguments and the
 * message's properties. */
void item_place(struct item *item, const struct amqp_targets *targets, const struct amqp_properties *properties);
/* Packs a message; NULL: out of memory. Frees the envelope. */
uint8_t *content_pack(struct amqp_out *envelope, struct amqp_bytes body, size_t *out_size);

/* ---- amqp_consume.c */
void channel_consume(struct channel *channel, const struct amqp_method *method);
void channel_cancel(struct channel *channel, const struct amqp_method *method);
void consumer_end(struct consumer *consumer, bool is_told);
void consumers_fetch(struct amqp_connection *connection);
void settle_settled(void *argument, const struct item *item, Tarry__Code code, const char *message);
void settle_went_on(void *argument);
void op_get(struct amqp_connection *connection);
void get_abandon(struct amqp_connection *connection);
void channel_ack(struct channel *channel, const struct amqp_method *method);
void channel_reject(struct channel *channel, const struct amqp_method *method);
void channel_recover(struct channel *channel, const struct amqp_method *method);
/* Ends the consumers of a deleted queue, and their deliveries. */
void consumers_lose_queue(struct amqp_queue *queue);
/* Releases all deliveries of a channel that ends. */
void unacked_release(struct channel *channel);
/* Makes the deliveries that a transaction has settled unacknowledged again. */
void unacked_restore(struct channel *channel);
/* Adds the acks of the transaction to its commit in `outbox`, and keeps the rejected messages for unacked_committed.
 * Returns false if memory is exhausted. */
bool unacked_commit(struct channel *channel, struct outbox *outbox);
/* Handles the messages that the transaction has rejected. If the commit is stored (`is_stored`), the messages move to
 * their dead-letter exchanges; otherwise they become ready again. */
void unacked_committed(struct amqp_connection *connection, bool is_stored);
/* Makes a leased message ready again. */
void unacked_return(struct amqp_connection *connection, const struct leased_task *task);
void sending_sent(struct sending *sending, bool left);

/* ---- amqp_reply.c: direct reply-to */
bool reply_is_queue(struct amqp_bytes name);
/* Returns whether the routing key is the address of a channel. */
bool reply_is_address(struct amqp_bytes key);
void reply_consume(struct channel *channel, const struct amqp_method *method, struct amqp_bytes tag);
/* Cancels the channel's consumer of replies. False: the tag belongs to another consumer. */
bool reply_cancel(struct channel *channel, struct amqp_bytes tag);
void reply_end(struct channel *channel);
/* Writes the channel's address. False: the channel does not consume replies. */
bool reply_address(const struct channel *channel, char out[REPLY_ADDRESS_SIZE]);
bool reply_has_consumer(const struct amqp *server, struct amqp_bytes address);
/* Sends a reply. False: no channel has the address. */
bool reply_deliver(const struct amqp *server, struct amqp_bytes address, struct amqp_bytes properties,
                   struct amqp_bytes body);

/* ---- amqp_mover.c: messages that have expired or were rejected go to their dead-letter exchange */
struct mover *mover_new(struct amqp *server);
void mover_free(struct mover *mover);
/* Start and stop the mover. It needs the definitions in memory. */
void mover_start(struct mover *mover);
void mover_stop(struct mover *mover);
/* Moves a leased message to the dead-letter exchange of its queue, or drops it if there is none. */
void mover_reject(struct mover *mover, const struct leased_task *task, enum amqp_death death);

#endif
