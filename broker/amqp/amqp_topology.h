/* amqp_topology.h: exchanges, queues and bindings in memory, and the routing of messages. Pure. The broker's log
 * contains each of them as a *definition* (amqp_define), from which the topology is read again after a start or a
 * failover. Names have at most AMQP_NAME_MAX bytes.
 *
 * Objects are removed in three calls. amqp_doom_… marks an object and all objects that must be removed with it: these
 * objects are *doomed*. amqp_doomed_order puts doomed bindings before the queues and exchanges. amqp_doomed_end removes
 * the first doomed objects, and clears the mark of the others. */
#ifndef TARRY_AMQP_TOPOLOGY_H
#define TARRY_AMQP_TOPOLOGY_H

#include <sys/queue.h>

#include "amqp_codec.h"
#include "tarry_limits.h"

#define AMQP_NAME_MAX 128u
#define AMQP_EXCHANGES_MAX 4096u
#define AMQP_QUEUES_MAX 4096u
#define AMQP_BINDINGS_MAX 65536u
#define AMQP_ARGUMENTS_MAX 4096u /* maximum size of the arguments of a queue, exchange or binding, in bytes */
#define AMQP_TARGETS_MAX 1024u   /* maximum number of queues that get one message */
#define AMQP_HOPS_MAX 64u        /* maximum number of exchanges that one message may pass in a row */
#define AMQP_DEFINITION_KEY_SIZE (AMQP_NAME_MAX + 3u)
/* An exchange of the type x-delayed-message has a queue in which its messages wait. The queue's name is the exchange's
 * name with this suffix. */
#define AMQP_WAITING_SUFFIX ".x-delayed"
#define AMQP_DELAYED_NAME_MAX (AMQP_NAME_MAX - sizeof(AMQP_WAITING_SUFFIX) + 1)

struct amqp_node {
    struct amqp_node *next;
    uint64_t hash;
    char kind; /* kind of the object: 'e' exchange, 'q' queue, 'b' binding */
    bool is_doomed;
};
struct amqp_hash {
    struct amqp_node **buckets;
    size_t capacity, count;
};

enum amqp_exchange_type { AMQP_DIRECT, AMQP_FANOUT, AMQP_TOPIC, AMQP_HEADERS_TYPE, AMQP_DELAYED, AMQP_EXCHANGE_TYPES };

struct amqp_binding;
TAILQ_HEAD(amqp_bindings, amqp_binding);
struct consumer;
TAILQ_HEAD(amqp_consumers, consumer);

struct amqp_exchange {
    struct amqp_node node; /* must be the first member */
    char name[AMQP_NAME_MAX + 1];
    enum amqp_exchange_type type;
    enum amqp_exchange_type routing; /* equal to `type`; for an x-delayed-message exchange, the type by which it routes
                                        messages that are due */
    /* Queue for the messages of an x-delayed-message exchange that are not due yet; NULL: the exchange has another
     * type. */
    struct amqp_queue *waiting;
    bool durable, auto_delete, internal;
    char creator[PRINCIPAL_SIZE_MAX + 1];
    uint8_t *arguments;
    size_t arguments_size;
    char alternate[AMQP_NAME_MAX + 1];
    struct amqp_bindings from; /* bindings whose source is this exchange */
    struct amqp_bindings to;   /* bindings whose destination is this exchange */
    /* Number of the last routing that visited this exchange (topology.mark), so that one routing visits it once
     * only. */
    uint64_t mark;
};

struct amqp_queue {
    struct amqp_node node; /* must be the first member */
    char name[AMQP_NAME_MAX + 1];
    bool durable, exclusive, auto_delete;
    /* true: an x-delayed-message exchange keeps its messages that are not due here (amqp_exchange.waiting); the
     * topology's table does not contain this queue. */
    bool is_waiting;
    uint8_t *arguments;
    size_t arguments_size;
    bool has_ttl, has_dead_exchange, has_dead_key;
    uint64_t ttl_ms;
    uint64_t expires_ms; /* x-expires; 0: none */
    char dead_exchange[AMQP_NAME_MAX + 1];
    char dead_key[AMQP_SHORTSTR_MAX + 1];
    uint32_t priority_max; /* 0: none */
    bool has_delivery_limit;
    uint32_t delivery_limit; /* x-delivery-limit: number of returns after which a message ends */
    uint64_t owner;          /* for an exclusive queue: id of its connection; 0: a connection of an earlier process */
    bool owner_has_gone;
    uint64_t used_ms; /* x-expires: time of the queue's last use */
    char creator[PRINCIPAL_SIZE_MAX + 1];
    struct amqp_bindings to;
    struct amqp_consumers consumers; /* the queue's consumers on AMQP connections */
    uint32_t consumer_count;
    bool has_exclusive_consumer, had_consumer;
    bool single_active; /* only the first of `consumers` gets messages */
};

struct amqp_binding {
    struct amqp_node node;  /* must be the first member; node in the table by id */
    struct amqp_node route; /* node in the table that finds bindings by source and routing key */
    TAILQ_ENTRY(amqp_binding) in_from, in_to;
    struct amqp_exchange *source;
    struct amqp_exchange *exchange; /* destination; NULL: the destination is `queue` */
    struct amqp_queue *queue;
    uint8_t id[16]; /* hash of source, destination, key and arguments */
    struct amqp_bytes key;
    struct amqp_bytes arguments;
    char creator[PRINCIPAL_SIZE_MAX + 1];
    uint8_t bytes[]; /* bytes of the key and of the arguments */
};

struct amqp_topology {
    struct amqp_hash exchanges, queues, bindings, routes;
    struct amqp_node **doomed;
    size_t doomed_count, doomed_capacity;
    uint64_t mark;  /* number of searches for targets (amqp_route) */
    uint64_t bytes; /* memory of all exchanges, queues and bindings */
};

/* Initializes an empty topology. Returns false if memory is exhausted. */
bool amqp_topology_init(struct amqp_topology *topology);
void amqp_topology_deinit(struct amqp_topology *topology);

struct amqp_exchange *amqp_exchange_find(struct amqp_topology *topology, struct amqp_bytes name);
struct amqp_queue *amqp_queue_find(struct amqp_topology *topology, struct amqp_bytes name);
struct amqp_binding *amqp_binding_find(struct amqp_topology *topology, const struct amqp_binding *like);

/* Allocates an exchange that is not in the topology yet; NULL: out of memory. The caller fills in the members, and adds
 * or frees it. */
struct amqp_exchange *amqp_exchange_new(struct amqp_bytes name, struct amqp_bytes arguments);
struct amqp_queue *amqp_queue_new(struct amqp_bytes name, struct amqp_bytes arguments);
struct amqp_binding *amqp_binding_new(struct amqp_exchange *source, struct amqp_exchange *exchange,
                                      struct amqp_queue *queue, struct amqp_bytes key, struct amqp_bytes arguments);
void amqp_exchange_free(struct amqp_exchange *exchange);
void amqp_queue_free(struct amqp_queue *queue);
/* Adds an exchange. Returns false if memory is exhausted. */
bool amqp_exchange_add(struct amqp_topology *topology, struct amqp_exchange *exchange);
bool amqp_queue_add(struct amqp_topology *topology, struct amqp_queue *queue);
bool amqp_binding_add(struct amqp_topology *topology, struct amqp_binding *binding);

/* Returns the type of an exchange by its name ("direct" …); AMQP_EXCHANGE_TYPES: unknown name. */
enum amqp_exchange_type amqp_exchange_type_of(struct amqp_bytes name);
const char *amqp_exchange_type_name(enum amqp_exchange_type type);
/* Writes the name of the queue in which the messages of an x-delayed-message exchange wait. */
void amqp_waiting_name(const char *exchange, char out[AMQP_NAME_MAX + 1]);
/* Returns the exchange whose messages wait in the queue of this name; NULL: there is none. */
struct amqp_exchange *amqp_exchange_waiting(struct amqp_topology *topology, const char *queue);
/* Returns whether two tables of arguments have the same fields. If not, sets `*out_name` to a field that differs. */
bool amqp_arguments_same(struct amqp_bytes a, struct amqp_bytes b, struct amqp_bytes *out_name);

/* Numbers of exchanges, queues and bindings that a principal has created. */
struct amqp_created {
    size_t exchanges, queues, bindings;
};
struct amqp_created amqp_created_by(const struct amqp_topology *topology, const char *creator);

/* ---- removal */
bool amqp_doom_queue(struct amqp_topology *topology, struct amqp_queue *queue);
bool amqp_doom_exchange(struct amqp_topology *topology, struct amqp_exchange *exchange);
bool amqp_doom_binding(struct amqp_topology *topology, struct amqp_binding *binding);
/* Orders the doomed objects so that bindings come before the queues and exchanges that they connect. So the objects can
 * be removed one by one in this order. */
void amqp_doomed_order(struct amqp_topology *topology);
/* Removes the first `count` doomed objects, and keeps the others. */
void amqp_doomed_end(struct amqp_topology *topology, size_t count);

/* ---- definitions: a key, which is a text, and a payload, whose first byte is the version of its format */
void amqp_key_of_queue(const char *name, char out[AMQP_DEFINITION_KEY_SIZE]);
void amqp_key_of_exchange(const char *name, char out[AMQP_DEFINITION_KEY_SIZE]);
void amqp_key_of_binding(const struct amqp_binding *binding, char out[AMQP_DEFINITION_KEY_SIZE]);
/* Writes the key of the definition of the doomed object with this number. */
void amqp_key_of_doomed(const struct amqp_topology *topology, size_t number, char out[AMQP_DEFINITION_KEY_SIZE]);
void amqp_put_queue(struct amqp_out *out, const struct amqp_queue *queue);
void amqp_put_exchange(struct amqp_out *out, const struct amqp_exchange *exchange);
void amqp_put_binding(struct amqp_out *out, const struct amqp_binding *binding);
enum amqp_defined { AMQP_DEFINED, AMQP_DEFINED_LATER, AMQP_DEFINED_BADLY, AMQP_DEFINED_NO_MEMORY };
/* Adds the object that a definition describes. Returns AMQP_DEFINED_LATER, and adds nothing, if the object is a binding
 * whose source or destination is not defined yet. */
enum amqp_defined amqp_define(struct amqp_topology *topology, struct amqp_bytes payload);

/* ---- arguments */
/* Reads the arguments of a queue into its members. Returns NULL, or the problem of an argument. Sets `*out_is_refused`
 * if the argument is known, but Tarry does not support it (reply code 540). */
const char *amqp_queue_arguments(struct amqp_queue *queue, bool *out_is_refused);
const char *amqp_exchange_arguments(struct amqp_exchange *exchange);

/* ---- routing */
struct amqp_targets { /* zeroed: empty */
    struct amqp_queue **queues;
    size_t count, capacity;
    bool failed;    /* memory is exhausted, or there are more than AMQP_TARGETS_MAX targets */
    bool bad_delay; /* an exchange of the type x-delayed-message has received a message with an invalid x-delay */
};
/* Reads a duration, such as the expiration of a message: milliseconds as decimal digits, at most ten years. Returns
 * false if the text is not valid. */
bool amqp_duration_read(struct amqp_bytes text, uint64_t *out_ms);
/* Reads the header x-delay: milliseconds, as an integer or a decimal text, at most ten years. Negative: the delay is
 * over. No header: 0. False: the header is invalid. */
bool amqp_delay_read(struct amqp_bytes headers, int64_t *out_ms);
void amqp_targets_free(struct amqp_targets *targets);
/* Adds the queues to which a message with this routing key, or these headers, is routed. Each queue is a target once,
 * also over several calls with the same targets. If `exchange` is NULL, uses the default exchange. In an exchange
 * of the type x-delayed-message, a message with a positive x-delay is routed to the queue `waiting`. */
void amqp_route(struct amqp_topology *topology, struct amqp_exchange *exchange, struct amqp_bytes key,
                struct amqp_bytes headers, struct amqp_targets *targets);
bool amqp_topic_matches(struct amqp_bytes pattern, struct amqp_bytes key);

#endif
