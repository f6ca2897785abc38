/* amqp_message.h: a message of AMQP as a task. Content.properties contains the *envelope*: the exchange, the routing
 * key and the message's properties, as received. Pure. */
#ifndef TARRY_AMQP_MESSAGE_H
#define TARRY_AMQP_MESSAGE_H

#include "amqp_codec.h"
#include "amqp_topology.h"
#include "tarry.pb-c.h"

/* Maximum size of a message's properties; larger ones are refused. The rest of PROPERTIES_SIZE_MAX is for x-death. */
#define AMQP_PROPERTIES_SIZE_MAX (32u << 10)
/* Maximum number of deaths that x-death lists, most recent first. A further death replaces the oldest. */
#define AMQP_DEATHS_MAX 64u

struct amqp_envelope {
    struct amqp_bytes exchange, key, properties;
};
void amqp_put_envelope(struct amqp_out *out, struct amqp_bytes exchange, struct amqp_bytes key,
                       struct amqp_bytes properties);
/* Reads the envelope of a task. A task of another protocol has no envelope: it counts as published to the default
 * exchange, with its attributes as headers, which are written to `made`. Returns false if memory is exhausted. */
bool amqp_envelope_of(const Tarry__Content *content, const char *queue, struct amqp_out *made,
                      struct amqp_envelope *out);

/* Adds the queues to which a message is routed by its routing key and by its headers CC and BCC. Returns false if CC or
 * BCC is not a list of texts. */
bool amqp_route_message(struct amqp_topology *topology, struct amqp_exchange *exchange, struct amqp_bytes key,
                        struct amqp_bytes headers, struct amqp_targets *targets);
/* Writes the properties of a message whose x-delay is over: the header is negative then, as RabbitMQ's plugin writes
 * it, so that no exchange delays the message again. */
void amqp_put_due(struct amqp_out *out, const struct amqp_properties *properties);
/* Writes the properties without the header BCC. */
void amqp_put_without_bcc(struct amqp_out *out, const struct amqp_properties *properties);

/* ---- dead letters */
enum amqp_death { AMQP_DEATH_EXPIRED, AMQP_DEATH_REJECTED, AMQP_DEATH_LIMIT };
/* Writes the properties of a message that has died in a queue, as RabbitMQ does: x-death, x-first-death-…, no
 * expiration, and no CC if the queue has a dead-letter routing key. */
void amqp_put_dead(struct amqp_out *out, const struct amqp_envelope *envelope, const struct amqp_queue *queue,
                   enum amqp_death death, uint64_t now_s);
/* Returns whether a message with these headers would circle forever: it has died in this queue before, and was not
 * rejected since. */
bool amqp_death_circles(struct amqp_bytes headers, const char *queue);

#endif
