/* amqp.h: the AMQP 0-9-1 protocol with RabbitMQ's extensions (docs/AMQP.md), on the gateway (broker/gateway). Door's
 * thread only. */
#ifndef TARRY_AMQP_AMQP_H
#define TARRY_AMQP_AMQP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "door_stream.h"

struct amqp;
struct door;
struct gateway;

/* Returns NULL when out of memory. */
struct amqp *amqp_new(struct gateway *gateway);
/* Sets the door. Call it before the door starts. */
void amqp_serve(struct amqp *server, struct door *door);
/* Tells the server that the door has a listener for AMQP, so that the broker moves expired messages even without a
 * client. Call it before the door starts. */
void amqp_is_heard(struct amqp *server);
/* Numbers of AMQP connections and objects, for the statistics. Any thread may read them. */
struct amqp_counts {
    _Atomic bool is_heard;
    _Atomic uint64_t connections, channels, consumers;
    _Atomic uint64_t blocked; /* connections with a connection.blocked that was not lifted yet */
    _Atomic uint64_t exchanges, queues, bindings;
};
const struct amqp_counts *amqp_counts(const struct amqp *server);
const struct door_stream_calls *amqp_calls(const struct amqp *server);
/* Frees the server after the door has stopped. */
void amqp_free(struct amqp *server);

#endif
